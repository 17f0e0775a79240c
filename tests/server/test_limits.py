"""Bodies that are too large, too slow, or not what they should be; too much at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from support.services import JSON, Local, local_service, scope_of
from ucfh.server import access_log, application

ASK = "/v1/tasks/t/episodes/e/steps/0"


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    with local_service(tmp_path, tasks=["t"]) as found:
        yield found


def nothing_written(local: Local) -> bool:
    status = local.send("GET", "/v1/tasks/t").json["status"]
    return (status["decisions"], status["faults"], status["states"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"state": "x"} {}', 400),
        (b'{"state": "\xff"}', 400),
        (b'{"state": "\\ud800"}', 400),
        (b'{"state": NaN}', 400),
        (b'{"state": ' + b"[" * 5000 + b"]" * 5000 + b"}", 400),
        (b"\xef\xbb\xbf{}", 400),
        (b"[]", 422),
        (b"null", 422),
        (b'"x"', 422),
        (b"{}", 422),
        (b'{"state": null}', 422),
        (b'{"state": 0.5}', 422),
        (b'{"state": {"a": 1}}', 422),
        (b'{"state": [0.5]}', 422),
        (b'{"state": [null]}', 422),
        (b'{"state": 1' + b"0" * 400 + b".0}", 422),
        (b'{"state": "x", "nix": 1}', 422),
        (b'{"state": "x", "actions": "a"}', 422),
        (b'{"state": "x", "actions": ["c"]}', 422),
        (b'{"state": "a\\u0000"}', 422),
        (b'{"state": ""}', 422),
        (b'{"state": "x", "state": "y"}', 422),
        (b'{"state": "x", "st\\u0061te": "x"}', 422),
        (b'{"state": []}', 422),
    ],
)
def test_bodies_that_are_not_as_expected(local: Local, body: bytes, status: int) -> None:
    reply = local.send("PUT", ASK, body, **JSON)
    assert (reply.status, reply.json["status"]) == (status, status)
    assert nothing_written(local)


def test_names_that_are_there_twice_deep_in_a_body(local: Local) -> None:
    calls = b'{"calls": [{"call": "ask", "episode": "e", "state": "x", "episode": "f"}]}'
    assert local.send("POST", "/v1/tasks/t/batch", calls, **JSON).status == 422
    states = b'{"task": "u", "actions": ["a"], "horizon": 1, "epsilon": 1, "states": {%s}}'
    states %= b'"x": null, "x": ["a"]'
    assert local.send("POST", "/v1/tasks", states, **JSON).status == 422
    assert nothing_written(local)


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "json"])
def test_bodies_of_another_kind(local: Local, kind: str) -> None:
    """A form of another site could send these without asking."""
    assert local.send("PUT", ASK, b'{"state": "x"}', Content_Type=kind).status == 415
    assert nothing_written(local)


def test_json_with_a_charset(local: Local) -> None:
    kind = "Application/JSON; charset=utf-8"
    assert local.send("PUT", ASK, b'{"state": "x"}', Content_Type=kind).status == 200


def test_labels_come_back_as_they_were_sent(local: Local) -> None:
    labels: list[Any] = ["x", "1", 1, True, [1, ["a"], False], 10**40, -5, "ä ö"]
    for k, label in enumerate(labels):
        path = f"/v1/tasks/t/episodes/{k}/steps/0"
        reply = local.send("PUT", path, {"state": label})
        if label in ("1", True):  # a log could not tell them from 1
            assert reply.status in (200, 422)
        else:
            assert json.dumps(reply.json["state"]) == json.dumps(label)


def test_a_body_that_is_too_large(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "LARGEST", 100)
    body = b'{"state": "%s"}' % (b"x" * 100)
    said = local.send("PUT", ASK, b"", Content_Length="101", **JSON)
    found = local.send("PUT", ASK, body, **JSON)  # its length is not known beforehand
    for reply in (said, found):
        assert (reply.status, reply.headers["connection"]) == (413, "close")
    assert nothing_written(local)


class Raw:
    """A request of which each message is given by hand."""

    def __init__(self, local: Local, *messages: Any) -> None:
        self.local, self.messages, self.sent = local, list(messages), list[Any]()

    async def receive(self) -> Any:
        if self.messages:
            return self.messages.pop(0)
        return await asyncio.Event().wait()

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    def run(self) -> int:
        self.local.run(self.local.service(scope_of("PUT", ASK, JSON), self.receive, self.send))
        return self.sent[0]["status"] if self.sent else 0


def test_a_body_that_does_not_come(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "SLOWEST", 0.02)
    half = {"type": "http.request", "body": b'{"state":', "more_body": True}
    assert Raw(local, half).run() == 408
    assert nothing_written(local)


def test_a_client_that_goes_away(local: Local) -> None:
    half = {"type": "http.request", "body": b'{"state":', "more_body": True}
    assert Raw(local, half, {"type": "http.disconnect"}).run() == 0
    assert nothing_written(local)
    local.service.access_log.close()
    assert json.loads(local.lines[0].splitlines()[0])["status"] == application.DISCONNECTED


def test_too_many_at_once(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "MOST_AT_ONCE", 3)

    async def many() -> list[Any]:
        sent = (
            local.sent("PUT", f"/v1/tasks/t/episodes/{k}/steps/0", {"state": "x"}) for k in range(9)
        )
        return list(await asyncio.gather(*sent))

    replies = local.run(many())
    assert sorted({x.status for x in replies}) == [200, 503]
    refused = [x for x in replies if x.status == 503]
    assert all(x.headers["retry-after"] == "1" for x in refused)
    decided = local.send("GET", "/v1/tasks/t").json["status"]["decisions"]
    assert decided == sum(x.status == 200 for x in replies)
    assert local.send("PUT", ASK, {"state": "x"}).status == 200  # room again


def test_nothing_new_while_it_stops(local: Local) -> None:
    local.service.stop()
    assert local.send("PUT", ASK, {"state": "x"}).status == 503
    assert local.send("GET", "/readyz").status == 503


def test_lines_of_the_log(local: Local) -> None:
    local.send("PUT", ASK, {"state": "a secret state"})
    local.send("PUT", ASK, {"state": "another secret"})
    local.send("GET", "/v1/tasks/t/decisions?episode=secret")
    local.service.access_log.close()
    text = b"".join(local.lines)
    assert b"secret" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(x["method"], x["path"], x["status"], x.get("fault")) for x in lines] == [
        ("PUT", ASK, 200, None),
        ("PUT", ASK, 409, "Conflict"),
        ("GET", "/v1/tasks/t/decisions", 200, None),
    ]
    assert all(x["ms"] >= 0 for x in lines)


def test_a_log_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it; what is dropped is counted."""
    monkeypatch.setattr(access_log, "MOST_WAITING", 2)
    reads, written = Event(), list[bytes]()

    def write(text: bytes) -> None:
        reads.wait(10)
        written.append(text)

    book = access_log.AccessLog(write)
    for k in range(100):
        book.event("x", number=k)
    reads.set()
    book.close()
    lines = [json.loads(line) for line in b"".join(written).splitlines()]
    assert sum(x.get("lines", 1) for x in lines) == 100
    assert any(x["event"] == "dropped" for x in lines)
