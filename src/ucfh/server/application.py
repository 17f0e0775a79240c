"""The service as an ASGI application: who may come in, what is read, what is answered and logged.

    a request -> endpoint (404, 405) -> who may (401, 403) -> body (408, 413, 415, 400, 422)
              -> answer, or a problem in JSON (RFC 9457) -> one line in the log

What is refused changes nothing. An error that nobody foresaw is a 500, and its place is logged.
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
from ucfh.server.routes import ALL, JSON, Endpoint, Query, RequestContext, Router
from ucfh.server.schemas import RequestError, refusal_of
from ucfh.server.tokens import TokenFile
from ucfh.tasks.errors import StoreFull, TaskError
from ucfh.tasks.store import TaskStore
from ucfh.tasks.task import Task

Message = MutableMapping[str, Any]
LARGEST, LARGEST_OF_STRANGERS = 1_000_000, 10_000
"""Bytes of a body; of one that comes without a token, though tokens are needed."""
SLOWEST = 10.0
"""Seconds that a body may take."""
MOST_AT_ONCE = 1000
"""Requests that are being answered at once."""
RESTING = 1.0
"""Seconds for which the answer counts whether the store can be written."""
PATIENCE = 2.0
"""Seconds for which to wait for that answer."""
FULL = 10.0
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
"""Sent with every answer."""
GONE = 499
"""What the log calls a request whose client went away."""


class Service:
    """Serves the tasks of a store.

    Args:
        store: the database; whoever opened it closes it.
        tokens: who may do what; None: everybody, from this machine.
        planning: whether to plan, and to expire decisions, or leave that to other processes.
        log: takes the lines of the log.

    Attributes:
        desk, planners, watches, metrics: its parts.
        stopping: whether it ends.

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
        self.desk = TaskManager(store, self._served)
        self.logbook = AccessLog(log)
        self.planners = PlannerPool(self.desk, self.metrics, self.logbook) if planning else None
        self.watches = SubscriptionRegistry(self.desk)
        self.page = StaticFiles(directory=str(files("ucfh.server") / "page"), check_dir=False)
        self._guard, self._router = Authenticator(tokens), Router(ENDPOINTS)
        self._located = re.compile(rf"(?<![\w/.-]){re.escape(store.name)}(?!\w)")
        self._under_way = 0
        self._checking: asyncio.Future[str] | None = None
        self._check_from = self._full_until = 0.0

    def _served(self, task: Task, count: int) -> None:
        self.metrics.groups.observe(count)
        if self.planners is not None:
            self.planners.nudge(task.name)

    # beginning and end

    def begin(self) -> None:
        """Begin to plan; in the event loop."""
        if self.planners is not None:
            self.planners.start()

    def stop(self) -> None:
        """Refuse what comes from now on, and let those go who watch; in the event loop."""
        self.stopping = True
        self.logbook.event("stopping")
        self.watches.stop()

    def close(self, patience: float) -> bool:
        """Finish what is under way; False: a plan was not finished within some seconds."""
        finished = self.planners is None or self.planners.stop(patience)
        self.desk.close()
        self.logbook.close()
        return finished

    async def not_ready(self) -> str:
        """Why it should get no requests now; empty if it should."""
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
        """Why the store cannot be used; what strangers need not know goes to the log."""
        try:
            await self.desk.run(self.store.check_ready)
            return ""
        except TaskError as error:
            self.logbook.event("not ready", said=str(error))
            return "the store cannot be written"
        finally:
            self._check_from = time.monotonic() + RESTING

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
        visit, place, status, fault = RequestContext(self, Request(scope, receive)), "", GONE, None

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        try:
            try:
                endpoint, visit.names = self._router.find(method, scope["raw_path"])
                place = endpoint.path
                response = await self._answer(endpoint, visit)
            except InputError as error:
                if isinstance(error, StoreFull):
                    self._full_until = time.monotonic() + FULL
                response, fault = self._problem(refusal_of(error)), type(error).__name__
            except RequestError as refusal:
                response, fault = self._problem(refusal), refusal.problem.fault
            await response(scope, receive, sent)
        except (ClientDisconnect, asyncio.CancelledError):
            pass
        except Exception as error:
            fault = place_of(error)
            if status == GONE:
                broken = RequestError(500, "an error in the service: its log says where")
                await self._problem(broken)(scope, receive, sent)
        finally:
            took = time.perf_counter() - begun
            self.metrics.count(place, method, status, took)
            who = None if visit.token is None else visit.token.name
            self.logbook.request(method, scope["raw_path"], status, took, who, fault)

    def _problem(self, refusal: RequestError) -> Response:
        """Return the problem details of a refused request, without the location of the store."""
        said = refusal.problem
        if said.fault is not None and said.fault.startswith("Store"):  # others name what was sent
            said.detail = self._located.sub("the store", said.detail)
        headers = {"Cache-Control": "no-store", **refusal.headers}
        return Response(msgspec.json.encode(said), said.status, headers, PROBLEM)

    async def _answer(self, endpoint: Endpoint, visit: RequestContext) -> Response:
        self._guard.let_in(visit, endpoint.role)
        if endpoint.role != ALL and visit.request.scope["query_string"]:
            visit.query = Query(visit.request.query_params.multi_items(), endpoint.query)
        if endpoint.body is not None:
            most = (
                LARGEST if visit.token is not None or self.tokens is None else LARGEST_OF_STRANGERS
            )
            visit.body = await read_body(visit.request, endpoint.decoder, most)
        if endpoint.role == ALL:
            return await endpoint.answer(visit)
        if self.stopping or self._under_way >= MOST_AT_ONCE:
            raise RequestError(503, "the service is busy: try again", **{"Retry-After": "1"})
        self._under_way += 1
        try:
            return await endpoint.answer(visit)
        finally:
            self._under_way -= 1


async def read_body(request: Request, decoder: msgspec.json.Decoder[Any], most: int) -> Any:
    """What was sent, as its type."""
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
    """Raise if a JSON object has the same name twice: which of the values is meant is unknown."""
    names = set[str]()
    for name, _ in pairs:
        if name in names:
            raise RequestError(
                422, f"the body has {name[:50]!r} twice. Fix: send it once.", "InputError"
            )
        names.add(name)


def too_large(most: int) -> RequestError:
    """What is said about a body that is too large."""
    return RequestError(413, f"the body has more than {most:,} bytes", Connection="close")
