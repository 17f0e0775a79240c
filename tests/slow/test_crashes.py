"""Four processes on one store, killed at random: each acknowledged call is stored exactly once.

The PostgreSQL server is also restarted twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import ucfh
from support.crashing import BROKEN, Clients, events_of, faults_of
from support.stores import Server
from support.tasks import of_log, of_task

KILLS = {"sqlite": 300, "postgres": 120}
LOOKS, PAUSE = 6, 0.3
RESTARTS = {2: "fast", 4: "immediate"}
MANY = 100


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that synchronizes committed transactions with the disk."""
    server = Server({})
    yield server
    server.remove()


@pytest.fixture(params=KILLS)
def database(request: pytest.FixtureRequest) -> Server | None:
    """The PostgreSQL server, or None for SQLite."""
    server: Server | None = None
    if request.param == "postgres":
        server = request.getfixturevalue("server")
    return server


def address_of(database: Server | None, folder: Path, schema: str) -> str:
    """The address of an empty store."""
    if database is None:
        return str(folder / "store.db")
    return database.address(database.make_schema(schema))


def test_acknowledged_calls_are_stored_once(database: Server | None, tmp_path: Path) -> None:
    draw, sizes, holders = Random(1), [], set()
    kills = KILLS["postgres" if database else "sqlite"]
    store = address_of(database, tmp_path, "killed")
    with Clients(tmp_path, store) as clients:
        for look in range(LOOKS):
            clients.kill_often(kills // LOOKS, draw, PAUSE)
            if database is not None and look in RESTARTS:
                database.stop(RESTARTS[look])
                database.start()
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
        f"{kills} kills: {status.decisions} decisions and {status.outcomes} outcomes of "
        f"{status.begun} episodes, {status.states} states, {policies} policies"
    )


@pytest.mark.parametrize("how", BROKEN)
def test_broken_versions_are_found(how: str, database: Server | None, tmp_path: Path) -> None:
    draw, kills, found = Random(2), 0, ""
    with Clients(tmp_path, address_of(database, tmp_path, how), how=how) as clients:
        while kills < MANY and not found:
            kills += 1
            try:
                clients.kill_often(1, draw, PAUSE)
            except AssertionError as error:  # a worker has noticed
                found = str(error).strip().splitlines()[-1]
    lost = faults_of(clients.store, clients.ledgers)
    assert found or lost
    print(f"{how}: found after {kills} kills: {found or lost[0]:.200}")
