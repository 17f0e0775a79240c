"""The service as an ASGI application.

    request -> endpoint (404, 405) -> authorization (401, 403) -> body (408, 413, 415, 400, 422)
            -> response, or problem details (RFC 9457) -> one line in the access log

A rejected request changes nothing. An unexpected error is a 500, and its place is logged.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from importlib.resources import files
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from ucfh.exceptions import InputError
from ucfh.server.access_log import AccessLog, place_of
from ucfh.server.auth import Authenticator
from ucfh.server.batching import TaskManager
from ucfh.server.endpoints import ENDPOINTS
from ucfh.server.events import SubscriptionRegistry
from ucfh.server.metrics import Metrics
from ucfh.server.openapi import PROBLEM
from ucfh.server.planner_pool import PlannerPool
from ucfh.server.router import ALL, JSON, Endpoint, Query, RequestContext, Router
from ucfh.server.schemas import RequestError, as_request_error
from ucfh.server.tokens import TokenFile
from ucfh.tasks.errors import StoreFull, TaskError
from ucfh.tasks.store import TaskStore
from ucfh.tasks.task import Task

Message = MutableMapping[str, Any]
LARGEST, LARGEST_UNAUTHENTICATED = 1_000_000, 10_000
"""Largest body in bytes; largest body of an unauthenticated request."""
SLOWEST = 10.0
"""Seconds for a body to arrive."""
MOST_AT_ONCE = 1000
"""Largest number of concurrent requests."""
CHECK_VALID = 1.0
"""Seconds for which the result of a readiness check of the store is reused."""
PATIENCE = 2.0
"""Timeout of that check in seconds."""
FULL_DISK = 10.0
"""Seconds for which the service is not ready after a write failed on a full disk."""
HEADERS = (
    (b"content-security-policy", (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)  # fmt: skip
"""Headers of every response."""
DISCONNECTED = 499
"""The logged status of a request whose client disconnected."""


class Service:
    """A service of the tasks of a store.

    Args:
        store: the database; the caller closes it.
        tokens: the accepted tokens; None: all requests from this machine are allowed.
        planning: whether to plan and to expire decisions, or leave that to other processes.
        log: writes lines of the access log.

    Attributes:
        manager, planners, subscriptions, metrics, log: its parts.
        stopping: whether it is shutting down.

    """

    def __init__(
        self,
        store: TaskStore,
        tokens: TokenFile | None = None,
        planning: bool = True,
        log: Callable[[bytes], None] | None = None,
    ) -> None:
        self.store, self.tokens, self.stopping = store, tokens, False
        self.metrics = Metrics()
        self.manager = TaskManager(store, self._on_served)
        self.access_log = AccessLog(log)
        self.planners = (
            PlannerPool(self.manager, self.metrics, self.access_log) if planning else None
        )
        self.subscriptions = SubscriptionRegistry(self.manager)
        self.page = StaticFiles(directory=str(files("ucfh.server") / "page"), check_dir=False)
        self._authenticator, self._router = Authenticator(tokens), Router(ENDPOINTS)
        self._store_location = re.compile(rf"(?<![\w/.-]){re.escape(store.name)}(?!\w)")
        self._active = 0
        self._checking: asyncio.Future[str] | None = None
        self._check_from = self._full_until = 0.0

    def _on_served(self, task: Task, count: int) -> None:
        self.metrics.groups.observe(count)
        if self.planners is not None:
            self.planners.notify(task.name)

    # start and shutdown

    def begin(self) -> None:
        """Start planning; in the event loop."""
        if self.planners is not None:
            self.planners.start()

    def stop(self) -> None:
        """Reject new requests, and end all event streams; in the event loop."""
        self.stopping = True
        self.access_log.event("stopping")
        self.subscriptions.stop()

    def close(self, patience: float) -> bool:
        """Finish pending work; False if a plan did not finish within ``patience`` seconds."""
        finished = self.planners is None or self.planners.stop(patience)
        self.manager.close()
        self.access_log.close()
        return finished

    async def not_ready(self) -> str:
        """Return the reason why the service is not ready, or ""."""
        if self.stopping:
            return "it is stopping"
        if self.planners is not None and not self.planners.warm:
            return "it is warming up: the first plan compiles code"
        if self.tokens is not None and self.tokens.broken():
            return "the file of tokens cannot be read"
        if time.monotonic() < self._full_until:
            return "the store cannot be written"
        if self._checking is None or (
            self._checking.done() and time.monotonic() > self._check_from
        ):
            self._checking = asyncio.ensure_future(self._check_store())
        done, _ = await asyncio.wait([self._checking], timeout=PATIENCE)
        return self._checking.result() if done else "the store does not answer"

    async def _check_store(self) -> str:
        """Return the reason why the store cannot be written, or ""; the details are logged."""
        try:
            await self.manager.run(self.store.check_ready)
            return ""
        except TaskError as error:
            self.access_log.event("not ready", said=str(error))
            return "the store cannot be written"
        finally:
            self._check_from = time.monotonic() + CHECK_VALID

    # requests

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        begun, method = time.perf_counter(), scope["method"]
        context = RequestContext(self, Request(scope, receive))
        route, status, fault = "", DISCONNECTED, None

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        try:
            try:
                endpoint, context.names = self._router.find(method, scope["raw_path"])
                route = endpoint.path
                response = await self._answer(endpoint, context)
            except InputError as error:
                if isinstance(error, StoreFull):
                    self._full_until = time.monotonic() + FULL_DISK
                response, fault = self._problem(as_request_error(error)), type(error).__name__
            except RequestError as rejection:
                response, fault = self._problem(rejection), rejection.problem.fault
            await response(scope, receive, sent)
        except (ClientDisconnect, asyncio.CancelledError):
            pass
        except Exception as error:
            fault = place_of(error)
            if status == DISCONNECTED:
                broken = RequestError(500, "an error in the service: its log says where")
                await self._problem(broken)(scope, receive, sent)
        finally:
            took = time.perf_counter() - begun
            self.metrics.count(route, method, status, took)
            who = None if context.token is None else context.token.name
            self.access_log.request(method, scope["raw_path"], status, took, who, fault)

    def _problem(self, rejection: RequestError) -> Response:
        """Return the problem details of a refused request, without the location of the store."""
        problem = rejection.problem
        if problem.fault is not None and problem.fault.startswith("Store"):  # others quote input
            problem.detail = self._store_location.sub("the store", problem.detail)
        headers = {"Cache-Control": "no-store", **rejection.headers}
        return Response(msgspec.json.encode(problem), problem.status, headers, PROBLEM)

    async def _answer(self, endpoint: Endpoint, context: RequestContext) -> Response:
        self._authenticator.authorize(context, endpoint.role)
        if endpoint.role != ALL and context.request.scope["query_string"]:
            context.query = Query(context.request.query_params.multi_items(), endpoint.query)
        if endpoint.body is not None:
            allowed = context.token is not None or self.tokens is None
            most = LARGEST if allowed else LARGEST_UNAUTHENTICATED
            context.body = await read_body(context.request, endpoint.decoder, most)
        if endpoint.role == ALL:
            return await endpoint.handler(context)
        if self.stopping or self._active >= MOST_AT_ONCE:
            raise RequestError(503, "the service is busy: try again", **{"Retry-After": "1"})
        self._active += 1
        try:
            return await endpoint.handler(context)
        finally:
            self._active -= 1


async def read_body(request: Request, decoder: msgspec.json.Decoder[Any], most: int) -> Any:
    """Return the decoded body of a request."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise RequestError(415, f"the body must be {JSON}: say so in Content-Type")
    if int(request.headers.get("content-length", "0")) > most:
        raise too_large(most)
    pieces, size = list[bytes](), 0
    try:
        async with asyncio.timeout(SLOWEST):
            async for piece in request.stream():
                pieces.append(piece)
                if (size := size + len(piece)) > most:
                    raise too_large(most)
    except TimeoutError:
        raise RequestError(
            408, f"the body did not come within {SLOWEST:g} seconds", Connection="close"
        ) from None
    try:
        body = b"".join(pieces)
        found = decoder.decode(body)
        json.loads(body, object_pairs_hook=check_unique, parse_int=str, parse_float=str)
        return found
    except msgspec.ValidationError as error:
        raise RequestError(422, f"the body is not as expected: {error}", "InputError") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RequestError(400, f"the body cannot be read: {error}") from None


def check_unique(pairs: list[tuple[str, Any]]) -> None:
    """Raise if a JSON object has a duplicate name, since its value would be ambiguous."""
    names = set[str]()
    for name, _ in pairs:
        if name in names:
            raise RequestError(
                422, f"the body has {name[:50]!r} twice. Fix: send it once.", "InputError"
            )
        names.add(name)


def too_large(most: int) -> RequestError:
    """Return the error of a body that is too large."""
    return RequestError(413, f"the body has more than {most:,} bytes", Connection="close")
