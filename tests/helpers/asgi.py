"""A service that is called without a network: requests go to the application itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ucfh.server.application import Service
from ucfh.server.tokens import TokenFile
from ucfh.tasks.opening import open_store

JSON = {"Content-Type": "application/json"}
DECLARED: dict[str, Any] = {"actions": ["a", "b"], "horizon": 3, "epsilon": 0.5}


class Reply(NamedTuple):
    """What was answered."""

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
        """What is streamed until it is all that is wanted, or the service ends it; then leave."""
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
