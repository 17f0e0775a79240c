"""Fixtures of stores: each test runs on SQLite and on PostgreSQL, with a clock set by hand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.stores import QUICK, Clock, Schemas, Server, Stores, files

USED = pytest.StashKey[list[str]]()
"""Servers that tests have used."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[USED] = []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ARG001
    config: pytest.Config = node.config
    config.stash[USED].extend(getattr(node, "workeroutput", {}).get("postgres", []))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    used = config.stash[USED]
    for version in sorted(set(used)):
        terminalreporter.write_line(f"PostgreSQL of the tests: {version}")


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server for all tests."""
    server = Server(QUICK)
    request.config.stash[USED].append(server.version)
    if hasattr(request.config, "workeroutput"):
        request.config.workeroutput["postgres"] = [server.version]
    yield server
    server.remove()


@pytest.fixture(scope="session")
def schemas(postgres: Server) -> Iterator[Schemas]:
    """Schemas on it, which have their tables already."""
    schemas = Schemas(postgres)
    yield schemas
    schemas.close()


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    """Addresses of empty stores by name: files, or schemas of a database."""
    if request.param == "sqlite":
        return files(tmp_path)
    schemas: Schemas = request.getfixturevalue("schemas")
    schemas.begin()
    return schemas.address


@pytest.fixture
def clock(
    request: pytest.FixtureRequest,
    stores: Stores,  # noqa: ARG001  # they come first
    monkeypatch: pytest.MonkeyPatch,
) -> Clock:
    """The time of this process, and of the databases of the test."""
    on_postgres = request.node.callspec.params["stores"] == "postgres"
    clock = Clock(request.getfixturevalue("schemas").set_clock if on_postgres else float)
    monkeypatch.setattr(time, "time", lambda: clock.now)
    return clock
