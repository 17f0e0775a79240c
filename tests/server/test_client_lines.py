"""What a client does with a service that is not there, not one, busy, or lost on the way."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

import ucfh
from ucfh.server import client_http
from ucfh.server.client_json import encode_reward

STATUS = dict.fromkeys(ucfh.TaskStatus.__annotations__, 0) | {"task": "task"}
VIEW: dict[str, Any] = {"status": {key: value for key, value in STATUS.items() if key != "store"}}
CUT = {"Content-Length": "1000", "Connection": "close"}
Reply = tuple[int, dict[str, str], Any]


class Answering(BaseHTTPRequestHandler):
    """Answers by a function of the request; None: the connection is closed without an answer."""

    protocol_version = "HTTP/1.1"
    answer: Callable[[Answering, bytes], Reply | None]

    def _take(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        reply = type(self).answer(self, body)
        if reply is None:
            self.close_connection = True
            return
        status, headers, content = reply
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for key, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _take

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def serving(answer: Callable[[Answering, bytes], Reply | None]) -> Iterator[str]:
    """A server, by its address."""
    handler = type("Handler", (Answering,), {"answer": staticmethod(answer)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_http, "PATIENCE", 0.3)
    monkeypatch.setattr(client_http, "FIRST_PAUSE", 0.01)
    monkeypatch.delenv(client_http.TOKEN, raising=False)


def problem(status: int, detail: str, fault: str | None = None, **headers: str) -> Reply:
    return status, headers, {"status": status, "title": "t", "detail": detail, "fault": fault}


def test_nobody_is_there() -> None:
    with serving(lambda *_: None) as url:
        pass
    with pytest.raises(ucfh.StoreBusy, match=r"^no answer from http://127.0.0.1:\d+ \(Connection"):
        ucfh.connect(url)


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("127.0.0.1:8765", "must be an address, such as http://"),
        ("ftp://127.0.0.1", "must be an address"),
        ("http://", "must be an address"),
        ("http://h:99999999", "must be an address"),
        ("http://h h", "must be an address"),
        (5, "must be an address"),
        ("http://me:secret@host", r"^url = http://... holds more .* pass token="),
        ("http://host/?token=secret", "holds more than an address"),
    ],
)
def test_addresses_that_are_none(url: Any, match: str) -> None:
    with pytest.raises(ucfh.InputError, match=match) as caught:
        ucfh.connect(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "a\nb", "ü", 5])
def test_tokens_that_are_none(token: Any) -> None:
    with pytest.raises(ucfh.InputError, match=r"^token is not a token") as caught:
        ucfh.connect("http://127.0.0.1:1", token)
    assert repr(token) not in str(caught.value)


def test_tokens_come_as_an_argument_or_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    met: list[str | None] = []

    def answer(handler: Answering, _: bytes) -> Reply:
        met.append(handler.headers["Authorization"])
        return problem(401, "no") if met[-1] != "Bearer right" else (200, {}, VIEW)

    with serving(answer) as url:
        with pytest.raises(ucfh.TaskError, match=rf"^{url} needs a token: pass token=") as caught:
            ucfh.connect(url)
        assert caught.value.status == 401
        with pytest.raises(ucfh.TaskError, match="does not accept the token: pass token="):
            ucfh.connect(url, "wrong")
        ucfh.connect(url, "right").close()
        monkeypatch.setenv("UCFH_TOKEN", "right")
        ucfh.connect(url).close()
    assert met == [None, "Bearer wrong", "Bearer right", "Bearer right"]


@pytest.mark.parametrize("reply", [(200, b"<html>"), (404, b"<html>"), (500, b"{}"), (404, b"[]")])
def test_something_else_is_there(reply: tuple[int, bytes]) -> None:
    with serving(lambda *_: (reply[0], {}, reply[1])) as url:
        match = rf"^{url} is not a ucfh service: .* status {reply[0]}; check the address$"
        with pytest.raises(ucfh.StoreError, match=match):
            ucfh.connect(url)


def test_redirections_are_named() -> None:
    with (
        serving(lambda *_: (301, {"Location": "https://other/"}, b"")) as url,
        pytest.raises(ucfh.StoreError, match="redirects to https://other/: connect to that"),
    ):
        ucfh.connect(url)


def test_without_tls() -> None:
    with (
        serving(lambda *_: (200, {}, VIEW)) as url,
        pytest.raises(ucfh.StoreError, match=r"does not speak TLS \(.*\): check the address$"),
    ):
        ucfh.connect(url.replace("http:", "https:"))


@pytest.mark.parametrize(
    ("status", "fault", "kind"),
    [
        (409, "EpisodeOver", ucfh.EpisodeOver),
        (409, "OutOfOrder", ucfh.OutOfOrder),
        (409, None, ucfh.Conflict),
        (404, None, ucfh.UnknownTask),
        (422, "nobody knows", ucfh.InvalidReport),
        (507, None, ucfh.StoreFull),
        (500, None, ucfh.StoreError),
        (400, "InputError", ucfh.InputError),
        (403, None, ucfh.TaskError),
    ],
)
def test_problems_are_the_exceptions_of_a_task(
    status: int, fault: str | None, kind: type[Exception]
) -> None:
    with (
        serving(lambda *_: problem(status, "what is wrong", fault)) as url,
        pytest.raises(ucfh.InputError, match=r"^what is wrong$") as caught,
    ):
        ucfh.connect(url)
    assert type(caught.value) is kind
    assert getattr(caught.value, "status", status) == status


@pytest.mark.parametrize(
    "lost", [None, problem(503, "busy", **{"Retry-After": "0"}), (502, {}, b"")]
)
def test_what_is_lost_on_the_way_is_sent_again(lost: Reply | None) -> None:
    """The same call, with the same key."""
    met: list[bytes] = []

    def answer(handler: Answering, body: bytes) -> Reply | None:
        if handler.command == "GET":
            return 200, {}, VIEW
        met.append(body)
        decided = {"episode": "e", "t": 0, "state": [1, ["b"]], "action": "a", "policy": 0}
        return (200, {}, {"answers": [{"status": 200, "answer": decided}]}) if met[2:] else lost

    with serving(answer) as url, ucfh.connect(url) as task:
        decision = task.ask((1, ("b",)), "e", t=0)
    assert decision == ucfh.Decision("e", 0, (1, ("b",)), "a", 0)
    assert len(met) == 3
    assert len(set(met)) == 1


@pytest.mark.parametrize("lost", [None, problem(503, "busy", "StoreBusy"), (504, {}, b"<html>")])
def test_patience_ends(lost: Reply | None) -> None:
    with (
        serving(lambda handler, _: (200, {}, VIEW) if handler.command == "GET" else lost) as url,
        ucfh.connect(url) as task,
        pytest.raises(ucfh.StoreBusy),
    ):
        task.ask("x", "e")


def test_an_answer_that_is_cut_is_no_answer() -> None:
    """Neither is a log; and no file is left."""
    with serving(lambda *_: (200, CUT, b"{}")) as url:
        caller = client_http.HttpCaller(url, None)
        with pytest.raises(ucfh.StoreBusy, match="no answer from"):
            caller.call("GET", "/")
        with pytest.raises(ucfh.StoreBusy, match="no answer from"):
            list(caller.stream("/"))
        caller.close()


def test_after_closing() -> None:
    with serving(lambda *_: (200, {}, VIEW)) as url:
        with ucfh.connect(url) as task:
            pass
        with pytest.raises(ucfh.StoreError, match=rf"^the connection to {url} was closed: connect"):
            task.status()


def test_a_fork_has_its_own_connections() -> None:
    """Or both processes would read the same answers."""
    with serving(lambda *_: (200, {}, VIEW)) as url, ucfh.connect(url) as task:
        caller = task._caller
        assert len(caller._idle) == 1
        caller._process = os.getpid() + 1
        assert caller._connection()[1]
        assert caller._process == os.getpid()


def test_connections_are_used_again() -> None:
    met: set[Any] = set()

    def answer(handler: Answering, _: bytes) -> Reply:
        met.add(handler.client_address)
        return 200, {}, VIEW

    with serving(answer) as url, ucfh.connect(url) as task:
        for _ in range(5):
            assert task.status().store == url
    assert len(met) == 1


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), "1", True, None, 10**400])
def test_rewards_that_are_no_numbers_are_refused_here(reward: Any) -> None:
    with pytest.raises(ucfh.InvalidReport, match="is not a number: give the reward of the step"):
        encode_reward(reward)
    assert encode_reward(np.float32(0.5)) == 0.5
