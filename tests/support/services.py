"""Services in the test process, and requests to them: ASGI calls, curl commands, schemathesis."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from doctest import ELLIPSIS, OutputChecker
from http.client import HTTPConnection
from pathlib import Path
from socket import socket
from threading import Event, Thread
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import uvicorn

from ucfh.server.application import Service
from ucfh.server.server import Connection, listen
from ucfh.server.tokens import WRITE, TokenFile
from ucfh.tasks.opening import open_store, open_task

JSON = {"Content-Type": "application/json"}
DECLARED: dict[str, Any] = {"actions": ["a", "b"], "horizon": 3, "epsilon": 0.5}


class Reply(NamedTuple):
    """Response of the service."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Local:
    """Sends requests to a service.

    Attributes:
        service: who answers. run: runs a coroutine in its event loop.
        lines: those of its log.

    """

    def __init__(self, service: Service, runner: asyncio.Runner, lines: list[bytes]) -> None:
        self.service, self.run, self.lines = service, runner.run, lines

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Send a request; what is not bytes is sent as JSON."""
        return self.run(self.sent(method, path, body, **headers))

    async def sent(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        more = {} if body is None or isinstance(body, bytes) else JSON
        pieces: list[bytes] = []
        start: dict[str, Any] = {}
        sent = iter([{"type": "http.request", "body": content if body is not None else b""}])

        async def receive() -> Any:
            message = next(sent, None)
            return message or await asyncio.Event().wait()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                pieces.append(message.get("body", b""))

        await self.service(scope_of(method, path, {**more, **headers}), receive, send)
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        return Reply(start["status"], found, b"".join(pieces))

    async def stream(
        self, path: str, wanted: Callable[[list[bytes]], bool], **headers: str
    ) -> list[bytes]:
        """Return the stream up to the wanted text, or to its end; then disconnect."""
        pieces: list[bytes] = []
        left = asyncio.Event()

        async def receive() -> Any:
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message.get("body"):
                pieces.append(message["body"])
            if wanted(pieces):
                left.set()

        async with asyncio.timeout(30):
            await self.service(scope_of("GET", path, headers), receive, send)
        return pieces


def scope_of(method: str, path: str, headers: dict[str, str]) -> dict[str, Any]:
    where = urlsplit(path)
    named = {"Host": "localhost", **headers}
    return {
        "type": "http",
        "method": method,
        "path": where.path,
        "raw_path": where.path.encode(),
        "query_string": where.query.encode(),
        "scheme": "http",
        "headers": [(k.lower().replace("_", "-").encode(), v.encode()) for k, v in named.items()],
    }


@contextmanager
def local_service(
    path: Path,
    tokens: TokenFile | None = None,
    planning: bool = False,
    tasks: Iterable[str] = (),
    name: str = "t.db",
) -> Iterator[Local]:
    """A service on a store, with tasks."""
    store, lines = open_store(path / name, create=True), list[bytes]()
    service = Service(store, tokens, planning, lines.append)
    with asyncio.Runner() as runner:
        local = Local(service, runner, lines)
        for name in tasks:
            service.manager.open(name, **DECLARED)
        try:
            yield local
        finally:
            service.stop()
            runner.run(asyncio.sleep(0))
            assert service.close(60)
            store.close()


class _Server(uvicorn.Server):
    """Says when it accepts requests."""

    def __init__(self, config: uvicorn.Config, service: Service, planning: bool) -> None:
        super().__init__(config)
        self.accepts, self._service, self._planning = Event(), service, planning

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self._planning:
            self._service.begin()
        self.accepts.set()

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        self._service.stop()
        await super().shutdown(sockets)


@contextmanager
def near_service(
    store: Path | str, tokens: TokenFile | None = None, planning: bool = False, port: int = 0
) -> Iterator[str]:
    """The address of a service that ends with the block."""
    opened, bound = open_store(store, create=True), listen("127.0.0.1", port)
    service = Service(opened, tokens, planning)
    config = uvicorn.Config(
        service,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=10,
    )
    server = _Server(config, service, planning)
    thread = Thread(target=server.run, args=([bound],))
    thread.start()
    try:
        assert server.accepts.wait(10)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        bound.close()
        service.close(10)
        opened.close()


VALUED = ("-X", "--json", "--oauth2-bearer", "--max-time")
"""Options that have a value; others are about what is printed."""


def commands(page: str) -> Iterator[tuple[str, str]]:
    """Each command of the page, and what it prints."""
    for block in re.findall(r"```(?:console|text)\n(.*?)```", page, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            count = 1 + sum(1 for line in lines if line.startswith("> "))
            told = [line.removeprefix("> ") for line in lines[:count]]
            yield "\n".join(told), "\n".join(lines[count:])


def request_of(command: str, variables: Mapping[str, str]) -> tuple[str, str, dict[str, str]]:
    """The method, the address and the options of a curl command."""
    words = iter(shlex.split(command.replace("\\\n", "").partition(" 2>")[0]))
    assert next(words) == "curl"
    url, options = "", {}
    for word in words:
        if word in VALUED:
            options[word] = re.sub(r"\$(\w+)", lambda x: variables[x[1]], next(words))
        elif not word.startswith("-"):
            url = word
    return options.get("-X", "POST" if "--json" in options else "GET"), url, options


def run_command(command: str, variables: Mapping[str, str]) -> str:
    """Return the output of curl."""
    method, url, options = request_of(command, variables)
    parts = urlsplit(url)
    headers = {"Content-Type": "application/json"} if "--json" in options else {}
    if (token := options.get("--oauth2-bearer")) is not None:
        headers["Authorization"] = f"Bearer {token}"
    connection = HTTPConnection(parts.netloc, timeout=float(options.get("--max-time", 30)))
    try:
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method, path, options.get("--json"), headers)
        response, found = connection.getresponse(), b""
        try:
            while piece := response.read1(1 << 16):
                found += piece
        except TimeoutError:
            assert "--max-time" in options
        return found.decode()
    finally:
        connection.close()


def check_page(
    page: str, places: Mapping[str, str], run: Callable[[str], str]
) -> list[tuple[str, str]]:
    """Run all commands of a page, and compare; the method and the address of each.

    Args:
        page: its text.
        places: where the services are that the page has at other addresses.
        run: what a command prints.

    """
    called = []
    for command, printed in commands(page):
        method, url, _ = request_of(command, {"UCFH_TOKEN": ""})
        called.append((method, urlsplit(url).path))
        for name, place in places.items():
            command = command.replace(name, place)
        found, wanted = (re.sub(r"\s+", "", text) for text in (run(command), printed))
        assert OutputChecker().check_output(wanted, found, ELLIPSIS), (command, found)
    return called


# What a task declares, its actions and its range of rewards, no schema can say: that is a 422.
SETTINGS = """
[checks]
positive_data_acceptance.expected-statuses = [200, 201, 401, 404, 409, 410, 422]
"""
ONE_TASK = """
[parameters]
"path.task" = "t"
"""


def check_document(folder: Path, phases: str, examples: int, of_one_task: bool) -> str:
    """Send requests of every kind that the document lists; what schemathesis says.

    Of one task: names of other tasks are not made up, so that most requests come through.
    """
    open_task(
        folder / "t.db", "t", actions=["a", "b"], horizon=3, epsilon=0.5, planning="off"
    ).close()
    tokens = TokenFile(str(folder / "tokens.json"), create=True)
    _, text = tokens.add(WRITE, None)
    config = folder / "schemathesis.toml"
    config.write_text(SETTINGS + (ONE_TASK if of_one_task else ""))
    with near_service(folder / "t.db", tokens) as url:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
                *("run", f"{url}/openapi.json", "--header", f"Authorization: Bearer {text}"),
                *("--phases", phases, "--max-examples", str(examples), "--seed", "1"),
                *("--exclude-path", "/v1/tasks/{task}/events"),  # it does not end
                *("--exclude-checks", "negative_data_rejection") * of_one_task,
                *("--generation-database", "none", "--no-color", "--warnings", "off"),
            ],
            cwd=folder,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
