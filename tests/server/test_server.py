"""The service as a process: how it starts, what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from itertools import repeat
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import ucfh
from support.command_line import fails
from support.services import DECLARED, near_service
from ucfh.server import application, endpoints, server
from ucfh.server.tokens import WRITE, TokenFile


class Process:
    """``ucfh serve`` on a new store, with a token."""

    def __init__(self, folder: Path) -> None:
        self.store, self.log = folder / "new.db", folder / "log"
        tokens = TokenFile(str(folder / "tokens.json"), create=True)
        _, self.token = tokens.add(WRITE, "shop")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "ucfh", "serve", str(self.store), "--port", "0"),
                    *("--no-planning", "--token-file", tokens.path),
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self.port = int(self.url.rpartition(":")[2].rstrip("/"))
        self.connection = self.connected()

    def connected(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=30)

    def send(self, method: str, path: str, body: Any, to: HTTPConnection | None = None) -> int:
        head = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        over = to or self.connection
        over.request(method, path, json.dumps(body), head)
        reply = over.getresponse()
        reply.read()
        return reply.status

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    made = Process(tmp_path)
    try:
        yield made
    finally:
        made.connection.close()
        made.process.kill()
        made.process.wait()
        assert made.process.stdout is not None
        made.process.stdout.close()


def ask(process: Process, episode: str, to: HTTPConnection) -> int:
    path = f"/v1/tasks/t/episodes/{episode}/steps/0"
    return process.send("PUT", path, {"state": "secret"}, to)


def test_nothing_acknowledged_is_lost_when_it_stops(process: Process) -> None:
    """A signal under load: what was answered is there, what was not may be; no error."""
    assert process.url == f"http://127.0.0.1:{process.port}/"
    assert process.send("POST", "/v1/tasks", {"task": "t", **DECLARED}) == 201
    answered: list[list[str]] = [[] for _ in range(8)]
    failed: list[int] = []

    def work(number: int) -> None:
        connection = process.connected()
        try:
            for k in range(100_000):
                status = ask(process, f"{number}-{k}", connection)
                if status != 200:
                    failed.append(status)
                    return
                answered[number].append(f"{number}-{k}")
        except (OSError, HTTPException):  # it has gone
            return
        finally:
            connection.close()

    threads = [Thread(target=work, args=(k,)) for k in range(8)]
    watching = socket.create_connection(("127.0.0.1", process.port))
    watching.sendall(
        f"GET /v1/tasks/t/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {process.token}"
        "\r\n\r\n".encode()
    )
    for thread in threads:
        thread.start()
    while sum(map(len, answered)) < 200:
        time.sleep(0.01)
    assert process.end(signal.SIGTERM) == 0
    for thread in threads:
        thread.join()
    watching.close()
    assert set(failed) <= {503}
    with ucfh.open_task(process.store, "t", planning="off") as task:
        there = {x["episode"] for x in task.decisions("all")}
        assert there >= {name for names in answered for name in names}
        assert task.check() == []
    log = process.log.read_text()
    assert "secret" not in log
    assert process.token not in log
    lines = [json.loads(line) for line in log.splitlines()]
    assert [x["event"] for x in lines if "event" in x] == ["started", "stopping"]
    assert {(x["method"], x["token"]) for x in lines if "token" in x} == {
        ("POST", "shop"), ("PUT", "shop"), ("GET", "shop"),
    }  # fmt: skip


def test_control_c(process: Process) -> None:
    assert process.end(signal.SIGINT) == 0


def test_what_is_wrong_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "t.db")
    tokens = tmp_path / "tokens.json"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "port" in fails(capsys, "serve", store, "--port", port)
    assert "--token-file" in fails(capsys, "serve", store, "--host", "0.0.0.0")
    assert "--token-file" in fails(capsys, "serve", store, "--host", "::")
    assert "--host" in fails(capsys, "serve", store, "--host", "localhost.invalid", "--token-file",
                             _tokens(tmp_path))  # fmt: skip
    assert "--port" in fails(capsys, "serve", store, "--port", "65536")
    assert not Path(store).exists()
    missing = fails(capsys, "serve", store, "--token-file", str(tokens))
    assert "ucfh token create" in missing
    _tokens(tmp_path)
    os.chmod(tmp_path / "some.json", 0o644)
    readable = fails(capsys, "serve", store, "--token-file", str(tmp_path / "some.json"))
    assert "chmod 600" in readable
    (tmp_path / "text.db").write_text("not a store")
    assert "text.db" in fails(capsys, "serve", str(tmp_path / "text.db"), "--port", "0")
    assert "nix" in fails(capsys, "serve", str(tmp_path / "nix" / "t.db"), "--port", "0")


def _tokens(folder: Path) -> str:
    path = str(folder / "some.json")
    if not Path(path).exists():
        TokenFile(path, create=True).add(WRITE, None)
    return path


def test_without_the_extra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "ucfh.server.server", raising=False)
    monkeypatch.setattr("ucfh.server.server", None, raising=False)
    monkeypatch.delattr("ucfh.server.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    said = fails(capsys, "serve", str(tmp_path / "t.db"))
    assert 'pip install "ucfh[serve]"' in said
    assert not (tmp_path / "t.db").exists()


# connections


def received(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    found = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            found += piece
    return found


def test_a_head_that_does_not_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SLOWEST_HEAD", 0.1)
    with near_service(tmp_path / "t.db") as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        for begun in (b"", b"GET /healthz HTTP/1.1\r\nX:"):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as slow:
                slow.sendall(begun)
                assert received(slow) == b""
        with socket.create_connection(("127.0.0.1", port), timeout=30) as used:
            used.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /")
            found = received(used)  # the first is answered, the second never comes
            assert found.count(b"HTTP/1.1 200 OK") == 1


def test_a_head_that_is_too_long(tmp_path: Path) -> None:
    with near_service(tmp_path / "t.db") as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        for head in (b"X: " + b"y" * 100_000, b"X: y\r\n" * 20_000, b"X: " + b"y" * 40_000):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                with suppress(ConnectionError):  # it would not hear the rest
                    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + head)
                    connection.sendall(b"\r\n\r\n")
                assert received(connection)[:12] in (b"HTTP/1.1 400", b"")
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            body = b'{"task": "' + b"x" * 100_000 + b'"}'
            connection.sendall(
                b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            )
            assert b"HTTP/1.1 422" in received(connection)  # a long body is not a long head


HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@contextmanager
def connected(folder: Path) -> Iterator[Callable[[], socket.socket]]:
    """Connections to a new service; they are closed at the end."""
    made: list[socket.socket] = []
    with near_service(folder / "t.db") as url:
        port = int(url.rstrip("/").rpartition(":")[2])

        def connect() -> socket.socket:
            made.append(socket.create_connection(("127.0.0.1", port), timeout=20))
            return made[-1]

        try:
            yield connect
        finally:
            for connection in made:
                connection.close()


def answered(connection: socket.socket, request: bytes = HEAD + b"\r\n") -> bool:
    """Whether a request gets its answer."""
    with suppress(ConnectionError):
        connection.sendall(request)
        return connection.recv(65536).startswith(b"HTTP/1.1 200")
    return False


def test_too_many_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that has waited longest for its client makes room for a new one."""
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    with connected(tmp_path) as connect:
        held = [connect() for _ in range(3)]
        assert all(answered(x) for x in (held[1], held[2], held[0]))
        assert answered(connect())
        assert received(held[1]) == b""
        assert answered(held[0])


@pytest.mark.parametrize(
    ("request_", "more"),
    [
        (HEAD + b"Content-Length: 1000000000\r\n\r\n", b"x"),  # the body never ends
        (CHUNKED + b"0\r\n", b"X: "),  # the trailer never ends
        (HEAD + b"\r\n", b"\r\n"),  # blank lines follow
    ],
)
def test_an_answered_request_has_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: bytes, more: bytes
) -> None:
    for limit in ("LINGER", "IDLE"):
        monkeypatch.setattr(server, limit, 0.2, raising=False)
    with connected(tmp_path) as connect:
        connection = connect()
        connection.settimeout(2)
        assert answered(connection, request_)
        connection.sendall(more)
        assert received(connection) == b""  # it is closed


def test_the_rest_of_an_answered_request_may_follow(tmp_path: Path) -> None:
    """A client that sends its body after its head gets the answer, and keeps its connection."""
    with connected(tmp_path) as connect:
        connection = connect()
        assert answered(connection, HEAD + b"Content-Length: 5\r\n\r\nab")
        connection.sendall(b"cde")
        assert answered(connection)


def test_a_request_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is answered for as long as somebody listens."""
    monkeypatch.setattr(server, "SLOWEST_REQUEST", 0.2, raising=False)
    ucfh.open_task(tmp_path / "t.db", "t", **DECLARED, planning="off").close()
    with connected(tmp_path) as connect:
        connection = connect()
        connection.settimeout(5)
        connection.sendall(
            b"GET /v1/tasks/t/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
        )
        assert b"HTTP/1.1 200" in received(connection)
        connection = connect()  # a complete request has none
        connection.sendall(b"GET /v1/tasks/t/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.settimeout(0.6)
        with pytest.raises(TimeoutError):
            received(connection)


@pytest.mark.parametrize("fields", [b"X-%07d: y\r\n", b"%09d"], ids=["many", "one"])
def test_trailers_are_limited(tmp_path: Path, fields: bytes) -> None:
    with connected(tmp_path) as connect:
        connection = connect()
        sent = 0
        with suppress(ConnectionError):
            connection.sendall(CHUNKED + b"0\r\nX: ")
            for k in range(0, 1_000_000, 1000):  # 9 MB and more
                connection.sendall(b"".join(fields % x for x in range(k, k + 1000)))
                sent += 1000
        assert sent < 500_000
        assert answered(connect())


def test_trailers_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are no headers: not of their request, and not of the next one."""
    seen: list[Any] = []

    async def keep(context: Any) -> Any:
        await context.request.body()
        seen.append([name for name, _ in context.request.headers.raw])
        return await healthy(context)

    healthy = endpoints.healthy
    for endpoint in endpoints.ENDPOINTS:
        if endpoint.path == "/healthz":
            monkeypatch.setitem(vars(endpoint), "handler", keep)
    with connected(tmp_path) as connect:
        connection = connect()
        assert answered(connection, CHUNKED + b"1\r\nx\r\n0\r\nAuthorization: x\r\n\r\n")
        assert answered(connection)
    assert seen == [[b"host", b"transfer-encoding"], [b"host"]]


@pytest.mark.parametrize("broken", [b"nonsense\r\n", b"0\r\n" + b"X: y\r\n" * 50_000])
def test_a_request_has_one_response(tmp_path: Path, broken: bytes) -> None:
    """Also one that turns out to be broken after it was answered."""
    with connected(tmp_path) as connect:
        connection = connect()
        assert answered(connection, CHUNKED)
        with suppress(ConnectionError):
            connection.sendall(broken)
        assert received(connection) == b""


def test_two_host_headers(tmp_path: Path) -> None:
    with connected(tmp_path) as connect:
        connection = connect()
        connection.sendall(HEAD + b"Host: evil.example\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 400")


def test_a_body_in_tiny_chunks(tmp_path: Path) -> None:
    """The sizes of its chunks are not a head that is too long."""
    body = b'{"task": "' + b"x" * 60_000 + b'"}'
    with connected(tmp_path) as connect:
        connection = connect()
        connection.sendall(
            b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        pieces = [b"1\r\n%c\r\n" % x for x in body]
        for k in range(0, len(pieces), 10_000):
            connection.sendall(b"".join(pieces[k : k + 10_000]))
        connection.sendall(b"0\r\n\r\n")
        assert b"HTTP/1.1 422" in received(connection)


@pytest.mark.parametrize(
    "broken", [b"nonsense\r\n\r\n", HEAD + b"X: " + b"y" * 40_000 + b"\r\n\r\n"]
)
def test_a_broken_request_after_others(tmp_path: Path, broken: bytes) -> None:
    """The complete requests before it get their own answers."""
    with connected(tmp_path) as connect:
        connection = connect()
        connection.sendall((HEAD + b"\r\n") * 3 + broken)
        found = received(connection)
        assert (found.count(b"HTTP/1.1 200"), found.count(b"HTTP/1.1 400")) == (3, 0)


def test_requests_in_one_piece(tmp_path: Path) -> None:
    """Pipelined: answered in order."""
    with near_service(tmp_path / "t.db") as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            one = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
            connection.sendall(one % (b"healthz", b"") + one % (b"nix", b"Connection: close\r\n"))
            found = received(connection)
    assert [found.find(b" 200 OK") >= 0, found.find(b" 404 ") > found.find(b" 200 OK")] == [
        True
    ] * 2


def test_a_download_that_nobody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is let go, however much is left."""
    monkeypatch.setattr(server, "READ_TIMEOUT", 0.2)
    monkeypatch.setattr(endpoints, "_chunks", lambda _: repeat(b"x" * 100_000))
    ucfh.open_task(tmp_path / "t.db", "t", **DECLARED, planning="off").close()
    with near_service(tmp_path / "t.db") as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as stuck:
            stuck.sendall(b"GET /v1/tasks/t/log.jsonl HTTP/1.1\r\nHost: localhost\r\n\r\n")
            time.sleep(1.0)
            assert b"\r\n0\r\n\r\n" not in received(stuck)[-20:]  # broken off


def test_answers_that_nobody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READ_TIMEOUT", 0.2)
    with near_service(tmp_path / "t.db") as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as stuck:
            monkeypatch.setattr(endpoints, "_documented", lambda: b"x" * 1_000_000)
            stuck.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 15)
            time.sleep(1.0)
            assert received(stuck).count(b"HTTP/1.1 200 OK") < 15


def test_too_many_requests_ahead(tmp_path: Path) -> None:
    with near_service(tmp_path / "t.db") as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        for count in (16, 60):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
                connection.sendall(one * count + one.replace(b"Host", b"Connection: close\r\nHost"))
                found = received(connection)
                assert found.count(b"HTTP/1.1") == found.count(b"HTTP/1.1 200 OK") == 17


def test_bodies_that_never_come_keep_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "MOST_AT_ONCE", 2)
    tokens = TokenFile(str(tmp_path / "tokens.json"), create=True)
    _, text = tokens.add(WRITE, None)
    with near_service(tmp_path / "t.db", tokens) as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        held = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(9)]
        for slow in held:
            slow.sendall(
                b"POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n"
                b"Content-Type: application/json\r\n\r\n"
            )
        with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            for path in ("/healthz", "/v1/tasks"):
                connection.request("GET", path, headers={"Authorization": f"Bearer {text}"})
                reply = connection.getresponse()
                reply.read()
                assert reply.status == 200
        for slow in held:
            slow.close()
