"""Pages that watch a task."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.services import Local, local_service, scope_of
from ucfh.server import events as events_module
from ucfh.server import tokens as tokens_module
from ucfh.server.tokens import READ, TokenFile
from ucfh.tasks.records import LAYOUT, StoredPolicy
from ucfh.tasks.task import Task

EVENTS = "/v1/tasks/t/events"


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Local]:
    monkeypatch.setattr(events_module, "POLL_SECONDS", 0.01)
    with local_service(tmp_path, tasks=["t"]) as found:
        yield found


def views(pieces: list[bytes]) -> list[Any]:
    """The views in what was streamed."""
    text = b"".join(pieces).decode()
    blocks = [dict(x.split(": ", 1) for x in part.splitlines()) for part in text.split("\n\n")[:-1]]
    return [json.loads(x["data"]) for x in blocks if x.get("event") == "view"]


def plan(task: Task, number: int) -> None:
    actions = np.zeros((3, 9), int)
    summary: dict[str, Any] = {
        "upper": 1.0, "lower": 0.0, "gap": 1 / number, "refuted": False, "certified": False,
        "layout": LAYOUT, "contradictions": 0,
    }  # fmt: skip
    policy = StoredPolicy(number, 0.0, number, number, actions, actions, actions, summary)
    task.write(lambda tx, _: tx.publish(policy, 0, None))


def test_the_first_view_and_what_is_new(local: Local) -> None:
    task = local.service.manager.open("t").task
    plan(task, 1)
    plan(task, 2)

    def wanted(pieces: list[bytes]) -> bool:
        found = views(pieces)
        if len(found) == 1 and task.status().decisions == 0:
            task.ask("x", "e")
        if len(found) == 2 and task.status().policy == 2:
            plan(task, 3)
        return len(found) == 3

    pieces = local.run(local.stream(EVENTS, wanted))
    assert pieces[0] == b"retry: 2000\n\n"
    first, asked, planned = views(pieces)
    assert [x["number"] for x in first["plans"]] == [1, 2]
    assert (asked["plans"], asked["status"]["decisions"]) == ([], 1)
    assert [x["number"] for x in planned["plans"]] == [3]
    alone = local.send("GET", "/v1/tasks/t").json
    assert alone.keys() == first.keys()


def test_what_leaves_no_event_is_seen(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault, for one; and as long as nothing is new, nothing is sent."""
    monkeypatch.setattr(events_module, "REFRESH_SECONDS", 0.02)
    monkeypatch.setattr(events_module, "PULSE_SECONDS", 0.1)
    task = local.service.manager.open("t").task
    decision = task.ask("x", "e")

    def wanted(pieces: list[bytes]) -> bool:
        if len(pieces) == 4:  # the beginning, a view, and two signs of life
            answer = task.serve([task.telling(decision, reward=7, done=True)])
            assert answer[0].status == 422
        return len(views(pieces)) == 2

    pieces = local.run(local.stream(EVENTS, wanted))
    assert pieces[2:4] == [events_module.PULSE, events_module.PULSE]
    assert [x["status"]["faults"] for x in views(pieces)] == [0, 1]


def test_one_poller_for_all(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    task, made = local.service.manager.open("t").task, list[int]()
    real = task.view

    def view(after: int) -> Any:
        made.append(after)
        return real(after)

    monkeypatch.setattr(task, "view", view)

    async def many() -> list[list[bytes]]:
        streams = (local.stream(EVENTS, lambda x: len(views(x)) == 1) for _ in range(50))
        return list(await asyncio.gather(*streams))

    assert all(len(views(x)) == 1 for x in local.run(many()))
    assert len(made) == 1
    assert local.service.subscriptions.viewers == 0
    assert local.service.subscriptions._watched == {}


def test_a_slow_reader_gets_the_newest_view_and_every_plan(local: Local) -> None:
    task = local.service.manager.open("t").task

    async def slow() -> list[Any]:
        ready, found = asyncio.Event(), list[bytes]()

        async def receive() -> Any:
            while len(views(found)) < 2:
                await asyncio.sleep(0.01)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            found.append(message.get("body", b""))
            if b"event: view" in found[-1] and not ready.is_set():
                for number in range(1, 21):
                    await local.service.manager.run(plan, task, number)
                    await asyncio.sleep(0.02)  # the poller sees most of them
                ready.set()

        await local.service(scope_of("GET", EVENTS, {}), receive, send)
        return views(found)

    first, second = local.run(slow())[:2]
    assert first["plans"] == []
    assert [x["number"] for x in second["plans"]] == list(range(1, 21))


def test_a_limit_of_viewers(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "MOST_VIEWERS", 0)
    refused = local.send("GET", EVENTS)
    assert (refused.status, refused.headers["retry-after"]) == (503, "10")
    monkeypatch.setattr(events_module, "MOST_VIEWERS", 3)

    async def many() -> list[list[bytes]]:
        streams = (local.stream(EVENTS, lambda x: bool(views(x))) for _ in range(9))
        return list(await asyncio.gather(*streams))

    assert sum(bool(views(x)) for x in local.run(many())) == 3
    assert local.service.subscriptions.viewers == 0


def test_viewers_go_when_the_service_stops(local: Local) -> None:
    def wanted(pieces: list[bytes]) -> bool:
        if views(pieces):
            local.service.stop()
        return False

    pieces = local.run(local.stream(EVENTS, wanted))
    assert len(views(pieces)) == 1


def test_a_token_that_ends_ends_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(events_module, "PULSE_SECONDS", 0.05)
    monkeypatch.setattr(tokens_module, "CHECK_EVERY", 0.0)
    tokens = TokenFile(str(tmp_path / "tokens.json"), create=True)
    _, text = tokens.add(READ, "wall")
    revoked = TokenFile(tokens.path)
    with local_service(tmp_path, tokens, tasks=["t"]) as local:

        def wanted(pieces: list[bytes]) -> bool:
            if views(pieces) and revoked.tokens:
                revoked.revoke("wall")
            return False

        local.run(local.stream(EVENTS, wanted, Authorization=f"Bearer {text}"))


def test_a_session_that_ends_ends_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(events_module, "PULSE_SECONDS", 0.05)
    tokens = TokenFile(str(tmp_path / "tokens.json"), create=True)
    token, _ = tokens.add(READ, "wall")
    with local_service(tmp_path, tokens, tasks=["t"]) as local:
        cookie = tokens.cookie(token, time.time() + 1.5)
        pieces = local.run(local.stream(EVENTS, lambda _: False, Cookie=f"ucfh_session={cookie}"))
        assert len(views(pieces)) == 1


def test_a_store_that_fails_for_a_while(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    from ucfh.tasks.errors import StoreBusy

    task, left = local.service.manager.open("t").task, [3]
    real = task.view

    def view(after: int) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise StoreBusy("for a while")
        return real(after)

    monkeypatch.setattr(task, "view", view)
    assert len(views(local.run(local.stream(EVENTS, lambda x: len(views(x)) == 1)))) == 1
