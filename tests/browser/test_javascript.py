"""The client in JavaScript, in a browser: a task over HTTP, from a page of the same address."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

import ucfh
from browser._chromium import page_at
from support.services import near_service
from support.settings import DOCS
from ucfh.server.tokens import READ, WRITE, TokenFile

CLIENT = DOCS / "examples" / "client.mjs"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[str, str, str]]:
    """The address of a service, and two tokens: one that may write, one that may read."""
    store = tmp_path / "tasks.db"
    ucfh.open_task(
        store, "a/b", actions=["call", "mail"], horizon=3, epsilon=0.5, max_return=1,
        timeout=3600, planning="off",
    ).close()  # fmt: skip
    tokens = TokenFile(str(tmp_path / "tokens.json"), create=True)
    (_, write), (_, read) = tokens.add(WRITE, "shop"), tokens.add(READ, "screen")
    with near_service(store, tokens) as url:
        yield url, write, read


@pytest.fixture
def page(browser: Browser, place: tuple[str, str, str]) -> Iterator[Page]:
    """A page of the service, which finds the client at its own address."""
    url, _, _ = place
    with page_at(browser, f"{url}/healthz") as (opened, said):
        opened.route("**/client.mjs", lambda route: route.fulfill(path=CLIENT))
        yield opened
        assert [x for x in said if "error: " in x and "Failed to load" not in x] == []


def run(page: Page, token: str, code: str) -> Any:
    """Return the result of a function of a task."""
    options = json.dumps({"task": "a/b", "token": token})
    return page.evaluate(
        f"""async () => {{
          const {{ Task, play }} = await import("/client.mjs");
          const task = new Task(location.origin, {options});
          return ({code})(task, play);
        }}"""
    )


def test_episodes_are_played(page: Page, place: tuple[str, str, str]) -> None:
    url, write, _ = place
    decisions = run(page, write, "(task, play) => play(task, ['v/1', 'v 2', 'v3'])")
    with ucfh.connect(url, write, "a/b") as task:
        told = task.decisions("told")
        assert len(told) == decisions >= 3
        assert {x["episode"] for x in told} == {"v/1", "v 2", "v3"}
        assert task.status().open == 0
    shown = run(page, write, "async task => [await task.view(), await task.certificate()]")
    assert shown[0]["status"]["begun"] == shown[1]["episodes"] == 3


def test_calls_are_those_of_a_task(page: Page, place: tuple[str, str, str]) -> None:
    url, write, read = place
    first = run(page, write, "task => task.ask(['x', 1], 'e', 0)")
    assert first == {"episode": "e", "t": 0, "state": ["x", 1], "action": "call", "policy": 0}
    assert run(page, write, "task => task.ask(['x', 1], 'e', 0)") == first
    run(page, write, "task => task.record('f', 0, {state: 'new', action: 'mail'})")
    run(page, write, "task => task.abandon('f', 'moved away')")
    with ucfh.connect(url, write, "a/b") as task:
        assert [x["note"] for x in task.decisions("lost")] == ["abandoned: moved away"]
    late = """async task => { const said = []; task.onlate = x => said.push(x);
        return [await task.tell({episode: 'f', t: 0}, {reward: 1, done: true}), said]; }"""
    told, said = run(page, write, late)
    assert told is None
    assert said == ["step 0 of episode 'f' was reported too late (it was abandoned: moved away): "
                    "kept as a fault, not counted"]  # fmt: skip
    refused = "call => call.then(() => null, x => [x.status, x.fault ?? null, x.message])"
    for token, call, status, fault in (
        (write, "task.tell(['e', 0], {reward: 1, done: true})", 404, None),
        (write, "task.ask('y', 'e', 0)", 409, "Conflict"),
        (write, "task.tell({episode: 'g', t: 0}, {reward: 1, done: true})", 404, "UnknownEpisode"),
        (read, "task.ask('x', 'g', 0)", 403, None),
        ("wrong", "task.view()", 401, None),
    ):
        found = run(page, token, f"task => ({refused})({call})")
        assert found[:2] == [status, fault], call
        assert found[2] != ""


def test_what_gets_lost_is_sent_again(page: Page, place: tuple[str, str, str]) -> None:
    _, write, _ = place
    lost = ["abort", "busy", "abort after"]

    def lose(route: Route) -> None:
        how = lost.pop(0) if lost else ""
        if how == "abort":
            route.abort("connectionreset")
        elif how == "busy":
            route.fulfill(status=503, headers={"Retry-After": "0"}, body="")
        elif how == "abort after":
            route.fetch()
            route.abort("connectionreset")
        else:
            route.continue_()

    page.route("**/steps/**", lose)
    found = run(page, write, "task => task.ask('x', 'again', 0)")
    assert found["action"] == "call"
    assert lost == []
