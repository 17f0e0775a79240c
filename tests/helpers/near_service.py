"""A service in a thread of the tests' own process, where its clock can be set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from threading import Event, Thread

import uvicorn

from ucfh.server.application import Service
from ucfh.server.server import Connection, listen
from ucfh.server.tokens import TokenFile
from ucfh.tasks.opening import open_store


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
