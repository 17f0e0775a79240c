"""Runs the service: sockets, signals, and how it ends.

    bind the socket                 what is wrong there is one line
    serve, and plan
    Ctrl-C or SIGTERM               accept nothing new, answer what is under way, let those go who
                                    watch, give the right to plan back

A request has to come within seconds, and its head and its trailers are short. A client that does
not read its response is disconnected after a minute. Above the limit of connections, a new one
takes the place of the one that has waited longest for its client.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, cast
from weakref import WeakKeyDictionary

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ucfh import __version__
from ucfh.exceptions import InputError
from ucfh.server.access_log import AccessLog
from ucfh.server.application import Service
from ucfh.server.tokens import TokenFile
from ucfh.tasks.store import TaskStore

LONGEST_HEAD = 32_768
"""Largest number of bytes of the head of a request, and of its trailers."""
SLOWEST_HEAD = 15.0
"""Seconds that the head may take."""
SLOWEST_REQUEST = 20.0
"""Seconds from the end of the head to the end of the request."""
LINGER = 2.0
"""Seconds for the rest of a request that was answered before its end."""
MOST_AHEAD = 16
"""Requests that may be sent on a connection before the first of them is answered."""
STUCK = 60.0
"""Seconds after which somebody who reads nothing is let go."""
MOST_CONNECTIONS = 5000
IDLE = 75
"""Seconds after which a connection without requests is closed."""
GRACE = 10
"""Seconds in which what is under way may end."""


class JoiningTransport:
    """Sends what is written at one moment at once: the head of an answer and its body."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._held = transport, loop, list[bytes]()
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Send something at the end of this moment."""
        if not self._held:
            self._loop.call_soon(self._send)
        self._held.append(data)

    def _send(self) -> None:
        held, self._held = self._held, []
        if held and not self._transport.is_closing():
            self._transport.write(b"".join(held))

    def close(self) -> None:
        """Send what was written, and close the connection."""
        self._send()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


_WAITING: WeakKeyDictionary[uvicorn.Config, OrderedDict[Connection, None]] = WeakKeyDictionary()
"""For each server, the connections whose next move is the client's; the longest wait is first."""


class Connection(HttpToolsProtocol):
    """A connection with limits on the size and the duration of each request.

    Every wait for the client has a deadline: for a head, for the rest of a request, for the next
    request. There is none while a complete request is being answered.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request; above the limit of connections, close the longest wait."""
        super().connection_made(transport)
        self.transport = cast(asyncio.Transport, JoiningTransport(transport, self.loop))
        self._in_head = self._in_body = self._advanced = self._refused = False
        self._framing = 0
        self._waiting = _WAITING.setdefault(self.config, OrderedDict())
        self._deadline = self.loop.time() + SLOWEST_HEAD
        self._timer = self.loop.call_at(self._deadline, self._check_time)
        self._stuck = self._timer
        self._waiting[self] = None
        if len(self.connections) > MOST_CONNECTIONS:
            longest, _ = self._waiting.popitem(last=False)
            longest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let it go."""
        self._waiting.pop(self, None)
        self._timer.cancel()
        self._stuck.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data, and count the bytes outside the body: head, chunk sizes and trailers."""
        if self._refused:
            return
        self._advanced = False
        super().data_received(data)
        self._framing = 0 if self._advanced else self._framing + len(data)
        if self._framing > LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head or the trailer of the request is too long.")

    def on_message_begin(self) -> None:
        """Begin a request: its head has to come within seconds."""
        self._advanced = self._in_head = True
        self._expect(SLOWEST_HEAD)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field of the head; trailer fields are dropped."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check the length of the head, and how many requests are queued on this connection."""
        size = len(self.url)
        for name, value in self.headers:
            size += len(name) + len(value)
        if size > LONGEST_HEAD or len(self.pipeline) >= MOST_AHEAD:
            raise ValueError("more than is served")
        super().on_headers_complete()
        self._in_head, self._in_body = False, True
        self._expect(SLOWEST_REQUEST)

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on."""
        self._advanced = True
        super().on_body(body)

    def on_chunk_complete(self) -> None:
        """Note the end of a chunk."""
        self._advanced = True

    def on_message_complete(self) -> None:
        """Note the end of the request: unless it is answered already, the client waits now."""
        self._in_body = False
        super().on_message_complete()
        if self.cycle.response_complete:
            self._expect(IDLE)
        else:
            self._waiting.pop(self, None)

    def on_response_complete(self) -> None:
        """Wait for the next request, or for a moment for the rest of the one just answered."""
        super().on_response_complete()
        answered = self.cycle.response_complete  # else the next one is being answered
        if self._in_body:
            self._expect(LINGER if answered else SLOWEST_REQUEST)
        elif answered:
            self._expect(SLOWEST_HEAD if self._in_head else IDLE)

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read, unless it has a response; earlier requests are answered."""
        answered = self.cycle is None or self.cycle.response_complete
        if not answered and (self._in_head or self.pipeline):
            self._refused, self.cycle.keep_alive = True, False
            self._waiting.pop(self, None)
        elif self._in_body and self.cycle.response_started:
            self.transport.close()
        else:
            super().send_400_response(msg)

    def _expect(self, seconds: float) -> None:
        """Give the client some seconds for its next move, unless an earlier request is pending."""
        if self.transport.is_closing():
            return
        self._deadline = self.loop.time() + seconds
        if self._deadline < self._timer.when():
            self._timer.cancel()
            self._timer = self.loop.call_at(self._deadline, self._check_time)
        answered = self.cycle is None or self.cycle.response_complete or self._in_body
        if answered and not self.pipeline:
            self._waiting[self] = None
            self._waiting.move_to_end(self)

    def _check_time(self) -> None:
        """Close the connection if it waits for the client and its deadline has passed."""
        now = self.loop.time()
        if self in self._waiting and now >= self._deadline:
            self.transport.close()
        if self.transport.is_closing():  # the client may not read what is left
            self._timer = self.loop.call_later(STUCK, self.transport.abort)
        else:
            later = now + SLOWEST_HEAD
            later = min(later, self._deadline) if self._deadline > now else later
            self._timer = self.loop.call_at(later, self._check_time)

    def pause_writing(self) -> None:
        """Note that the other side does not read what waits for it."""
        super().pause_writing()
        self._check_read(self.transport.get_write_buffer_size() + 1)

    def resume_writing(self) -> None:
        """Note that the other side has read."""
        self._stuck.cancel()
        super().resume_writing()

    def _check_read(self, before: int) -> None:
        """End the connection if nothing of what waits was read for some time."""
        left = self.transport.get_write_buffer_size()
        if left < before:
            self._stuck = self.loop.call_later(STUCK, self._check_read, left)
        else:
            self.transport.abort()


class _Server(uvicorn.Server):
    """Says when it accepts requests, and ends without an error when it is told to."""

    def __init__(self, config: uvicorn.Config, service: Service, begun: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._begun = service, begun

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._service.begin()
        self._begun()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.stop()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = [(number, signal.signal(number, self.handle_exit)) for number in numbers]
        try:
            yield
        finally:
            for number, handler in before:
                signal.signal(number, handler)


class _Warnings(logging.Handler):
    """Takes what the server below warns of to the log."""

    def __init__(self, logbook: AccessLog) -> None:
        super().__init__(logging.WARNING)
        self._logbook = logbook

    def emit(self, record: logging.LogRecord) -> None:
        self._logbook.event("warning", said=record.getMessage())


def serve(store: TaskStore, bound: socket.socket, tokens: TokenFile | None, planning: bool) -> None:
    """Serve a store until a signal comes; prints the address once requests are accepted."""
    service = Service(store, tokens, planning, _write_line)
    host, port = bound.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    if host in ("0.0.0.0", "::"):  # all addresses of this machine, by its name
        name = socket.gethostname()
    config = uvicorn.Config(
        service,
        http=Connection,
        ws="none",
        lifespan="off",
        loop="auto",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=GRACE,
    )
    warnings = logging.getLogger("uvicorn.error")
    warnings.handlers, warnings.propagate = [_Warnings(service.logbook)], False

    def begun() -> None:
        address = f"http://{name}:{port}/"
        service.logbook.event("started", version=__version__, address=address)
        print(address, flush=True)

    try:
        _Server(config, service, begun).run([bound])
    finally:
        service.close(GRACE)  # a plan that takes longer is given up: its events are in the store


def _write_line(text: bytes) -> None:
    sys.stderr.buffer.write(text)
    sys.stderr.buffer.flush()


def check_host(host: str, tokens: TokenFile | None) -> None:
    """Raise unless a host is this machine alone, or tokens are needed."""
    try:
        near = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        near = False
    if tokens is None and not near:
        raise InputError(
            f"--host {host} lets other machines in: give --token-file, made with ucfh token create"
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind)
    except (OSError, OverflowError) as error:
        raise InputError(f"--host {host} cannot be used: {_reason(error)}") from None
    try:
        if os.name == "posix":  # else a port could be taken twice
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
    except (OSError, OverflowError) as error:
        bound.close()
        raise InputError(
            f"port {port} of {host} cannot be used: {_reason(error)}; give another with --port"
        ) from None
    return bound


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
