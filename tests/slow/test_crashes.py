"""Four processes on one store, killed 300 times: what was acknowledged is there, and once."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import ucfh
from support.crashing import BROKEN, Clients, events_of, faults_of

KILLS, LOOKS, PAUSE = 300, 6, 0.3
MANY = 100


def test_300_kills(tmp_path: Path) -> None:
    draw, sizes, holders = Random(1), [], set()
    with Clients(tmp_path, str(tmp_path / "store.db")) as clients:
        for _ in range(LOOKS):
            clients.kill_often(KILLS // LOOKS, draw, PAUSE)
            assert faults_of(clients.store, clients.ledgers) == []
            sizes.append(len(events_of(clients.store)))
            holders.add(clients.progress()[2])
        clients.wait_for_progress(20.0)
        _, policies, _ = clients.progress()
    assert faults_of(clients.store, clients.ledgers) == []
    assert sizes == sorted(set(sizes))
    assert len(holders) > 1
    with ucfh.open_task(clients.store, planning="off") as task:
        assert task.check() == []
        status = task.status()
        assert task.certificate().episodes == status.begun
    print(
        f"{KILLS} kills: {status.decisions} decisions and {status.outcomes} outcomes of "
        f"{status.begun} episodes, {status.states} states, {policies} policies; "
        "all that was acknowledged is there, once; counts equal those made anew"
    )


@pytest.mark.parametrize("how", BROKEN)
def test_broken_versions_are_found(how: str, tmp_path: Path) -> None:
    draw, kills, found = Random(2), 0, ""
    with Clients(tmp_path, str(tmp_path / "store.db"), how=how) as clients:
        while kills < MANY and not found:
            kills += 1
            try:
                clients.kill_often(1, draw, PAUSE)
            except AssertionError as error:  # a worker has noticed
                found = str(error).strip().splitlines()[-1]
    lost = faults_of(clients.store, clients.ledgers)
    assert found or lost
    print(f"{how}: found after {kills} kills: {found or lost[0]:.200}")
