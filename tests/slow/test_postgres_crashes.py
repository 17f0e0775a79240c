"""Four processes on a PostgreSQL database, killed at random, while it is restarted twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import ucfh
from support.crashing import BROKEN, Clients, events_of, faults_of
from support.stores import Server
from support.tasks import of_log, of_task

KILLS, LOOKS, PAUSE = 120, 6, 0.3
RESTARTS = {2: "fast", 4: "immediate"}
MANY = 100


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that synchronises with the disk what it commits."""
    server = Server({})
    yield server
    server.remove()


def test_kills_and_restarts(server: Server, tmp_path: Path) -> None:
    draw, sizes, holders, store = Random(1), [], set(), server.address()
    with Clients(tmp_path, store) as clients:
        for look in range(LOOKS):
            clients.kill_often(KILLS // LOOKS, draw, PAUSE)
            if look in RESTARTS:
                server.stop(RESTARTS[look])
                server.start()
                clients.wait_for_progress(30.0)
            assert faults_of(store, clients.ledgers) == []
            sizes.append(len(events_of(store)))
            holders.add(clients.progress()[2])
        clients.wait_for_progress(20.0)
        _, policies, _ = clients.progress()
    assert faults_of(store, clients.ledgers) == []
    assert sizes == sorted(set(sizes))
    assert len(holders) > 1
    with ucfh.open_task(store, planning="off") as task:
        for decision in task.decisions():
            task.abandon(decision["episode"])
        assert task.check() == []
        status, known = task.status(), task.certificate()
        task.export(tmp_path / "log.csv")
        assert of_log(tmp_path / "log.csv")[:3] == of_task(task)
        logged = ucfh.certify(tmp_path / "log.csv", delta=0.1)
    assert logged.episodes == known.episodes == status.begun
    assert logged.lower <= known.upper
    assert known.lower <= logged.upper
    print(
        f"{KILLS} kills and {len(RESTARTS)} restarts of {server.version}: {status.decisions} "
        f"decisions and {status.outcomes} outcomes of {status.begun} episodes, {status.states} "
        f"states, {policies} policies; all that was acknowledged is there, once; counts equal "
        "those of the exported log"
    )


@pytest.mark.parametrize("how", BROKEN)
def test_broken_versions_are_found(how: str, server: Server, tmp_path: Path) -> None:
    draw, kills, found, store = Random(2), 0, "", server.address(server.make_schema(how))
    with Clients(tmp_path, store, how=how) as clients:
        while kills < MANY and not found:
            kills += 1
            try:
                clients.kill_often(1, draw, PAUSE)
            except AssertionError as error:  # a worker has noticed
                found = str(error).strip().splitlines()[-1]
    lost = faults_of(store, clients.ledgers)
    assert found or lost
    print(f"{how}: found after {kills} kills: {found or lost[0]:.200}")
