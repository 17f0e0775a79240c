"""The service as an ASGI application: who may come in, what is read, what is answered and logged.

    a request -> endpoint (404, 405) -> who may (401, 403) -> body (408, 413, 415, 400, 422)
              -> answer, or a problem in JSON (RFC 9457) -> one line in the log

What is refused changes nothing. An error that nobody foresaw is a 500, and its place is logged.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from importlib.resources import files
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from ucfh.errors import InputError
from ucfh.service.endpoints import ENDPOINTS
from ucfh.service.guarding import Guard
from ucfh.service.lines import Desk
from ucfh.service.logbook import Logbook, place_of
from ucfh.service.messages import Refusal, refusal_of
from ucfh.service.metrics import Metrics
from ucfh.service.planners import PlannerPool
from ucfh.service.routes import ALL, JSON, Endpoint, Query, Router, Visit
from ucfh.service.tokens import TokenFile
from ucfh.service.viewers import Watches
from ucfh.tasks.faults import TaskFault
from ucfh.tasks.planner import TURN
from ucfh.tasks.store import TaskStore
from ucfh.tasks.task import Task

Message = MutableMapping[str, Any]
LARGEST = 1_000_000
"""Bytes of a body."""
SLOWEST = 10.0
"""Seconds that a body may take."""
MOST_AT_ONCE = 1000
"""Requests that are under way at once, those who watch apart."""
STUCK = 60.0
"""Seconds after which somebody who does not read what is streamed is let go."""
RESTING = 1.0
"""Seconds for which the answer counts whether the store can be written."""
HEADERS = (
    (b"content-security-policy", (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
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
        self.desk = Desk(store, self._served)
        self.logbook = Logbook(log)
        self.planners = PlannerPool(self.desk, self.metrics, self.logbook) if planning else None
        self.watches = Watches(self.desk)
        self.page = StaticFiles(directory=str(files("ucfh.service") / "page"), check_dir=False)
        self._guard, self._router = Guard(tokens), Router(ENDPOINTS)
        self._under_way, self._ready = 0, (0.0, "")

    def _served(self, task: Task, count: int) -> None:
        self.metrics.groups.observe(count)
        if self.planners is not None:
            self.planners.nudge(task.name)

    # beginning and end

    def begin(self) -> None:
        """Begin to plan; in the event loop."""
        sys.setswitchinterval(min(sys.getswitchinterval(), TURN))
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
        until, why = self._ready
        if time.monotonic() > until:
            try:
                await self.desk.run(self.store.check_ready)
                why = ""
            except TaskFault as error:
                why = str(error)
            self._ready = time.monotonic() + RESTING, why
        return why

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
        visit, place, status, fault = Visit(self, Request(scope, receive)), "", GONE, None
        self._under_way += 1

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
            if not message.get("more_body"):
                await send(message)
                return
            try:
                async with asyncio.timeout(STUCK):
                    await send(message)
            except TimeoutError:
                scope["abort"]()
                raise ClientDisconnect from None

        try:
            try:
                endpoint, visit.names = self._router.find(method, scope["raw_path"])
                place = endpoint.path
                response = await self._answer(endpoint, visit)
            except InputError as error:
                response = problem(refusal_of(error))
                fault = type(error).__name__
            except Refusal as refusal:
                response, fault = problem(refusal), refusal.problem.fault
            await response(scope, receive, sent)
        except (ClientDisconnect, asyncio.CancelledError):
            pass
        except Exception as error:
            fault = place_of(error)
            if status == GONE:
                response = problem(Refusal(500, "an error in the service: its log says where"))
                await response(scope, receive, sent)
        finally:
            self._under_way -= 1
            took = time.perf_counter() - begun
            self.metrics.count(place, method, status, took)
            who = None if visit.token is None else visit.token.name
            self.logbook.request(method, scope["raw_path"], status, took, who, fault)

    async def _answer(self, endpoint: Endpoint, visit: Visit) -> Response:
        self._guard.let_in(visit, endpoint.role)
        if self.stopping or self._under_way - self.watches.viewers > MOST_AT_ONCE:
            raise Refusal(503, "the service is busy: try again", **{"Retry-After": "1"})
        if endpoint.role != ALL and visit.request.scope["query_string"]:
            visit.query = Query(dict(visit.request.query_params), endpoint.query)
        if endpoint.body is not None:
            visit.body = await read_body(visit.request, endpoint.decoder)
        return await endpoint.answer(visit)


async def read_body(request: Request, decoder: msgspec.json.Decoder[Any]) -> Any:
    """What was sent, as its type."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Refusal(415, f"the body must be {JSON}: say so in Content-Type")
    if int(request.headers.get("content-length", "0")) > LARGEST:
        raise too_large()
    pieces, size = list[bytes](), 0
    try:
        async with asyncio.timeout(SLOWEST):
            async for piece in request.stream():
                pieces.append(piece)
                if (size := size + len(piece)) > LARGEST:
                    raise too_large()
    except TimeoutError:
        raise Refusal(
            408, f"the body did not come within {SLOWEST:g} seconds", Connection="close"
        ) from None
    try:
        return decoder.decode(b"".join(pieces))
    except msgspec.ValidationError as error:
        raise Refusal(422, f"the body is not as expected: {error}", "InputError") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refusal(400, f"the body cannot be read: {error}") from None


def too_large() -> Refusal:
    """What is said about a body that is too large."""
    return Refusal(413, f"the body has more than {LARGEST:,} bytes", Connection="close")


def problem(refusal: Refusal) -> Response:
    """What is answered to a request that is refused."""
    content = msgspec.json.encode(refusal.problem)
    headers = {"Cache-Control": "no-store", **refusal.headers}
    return Response(content, refusal.problem.status, headers, "application/problem+json")
