"""Four processes on one store, killed at random moments: a short version of tests/slow."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import ucfh
from helpers.crashing import Clients, faults_of

KILLS, PAUSE = 20, 0.1


@pytest.mark.slow
def test_20_kills(tmp_path: Path) -> None:
    with Clients(tmp_path) as clients:
        clients.kill_often(KILLS, Random(1), PAUSE)
        clients.wait_for_progress(20.0)
    assert faults_of(clients.store, clients.ledgers) == []
    with ucfh.open_task(clients.store, planning="off") as task:
        assert task.check() == []
