"""The handlers of requests, and the table of endpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from starlette.responses import Response, StreamingResponse

from ucfh.exceptions import InputError
from ucfh.logs.batches import COLUMNS
from ucfh.server.auth_routes import page, session, sign_in, sign_out
from ucfh.server.batching import TaskManager
from ucfh.server.metrics import MOST_TASKS
from ucfh.server.openapi import document
from ucfh.server.routes import (
    ALL,
    HTML,
    JSON,
    LOG,
    MOST_DIGITS,
    NO_STORE,
    STREAM,
    TEXT,
    Endpoint,
    RequestContext,
    encode,
    given,
)
from ucfh.server.schemas import (
    MOST_SHOWN,
    Abandon,
    Ask,
    CallAnswer,
    CallList,
    EmptyBody,
    Expired,
    NewTask,
    NextStep,
    Record,
    RequestError,
    SignIn,
    Tell,
    answer_of,
)
from ucfh.server.tokens import WRITE
from ucfh.tasks.calls import MOST_CALLS
from ucfh.tasks.errors import UnknownTask
from ucfh.tasks.exporting import log_rows
from ucfh.tasks.protocol import Decision
from ucfh.tasks.status import TaskStatus
from ucfh.tasks.task import STATUSES, Task

T = TypeVar("T")
EMPTY: dict[str, Any] = {}
TASKS_SHOWN = 100
"""Default number of listed tasks."""
LINES = 1000
"""Lines of a log in a chunk."""


# tasks


async def create(visit: RequestContext) -> Response:
    """Create a task unless it exists."""
    declared = msgspec.structs.asdict(visit.body)
    name, desk = declared.pop("task"), visit.service.desk

    def made() -> tuple[bool, TaskStatus]:
        new, line = desk.create(name, **declared)
        return new, line.task.status()

    new, status = await desk.run(made)
    response = given(_shown(status), 201 if new else 200)
    if new:
        response.headers["Location"] = f"/v1/tasks/{quote(name, safe='')}"
    return response


async def list_tasks(visit: RequestContext) -> Response:
    """List the status of tasks."""
    desk, query = visit.service.desk, visit.query
    limit, after = query.count("limit", TASKS_SHOWN, 1, MOST_SHOWN), query.text("after", None)

    def found() -> tuple[list[TaskStatus], bool]:
        names = desk.store.tasks()
        if after is not None and after not in names:
            raise UnknownTask(f"there is no task {after!r}: leave ?after= out, or name one")
        left = names if after is None else names[names.index(after) + 1 :]
        return statuses(desk, left[:limit]), len(left) > limit

    listed, more = await desk.run(found)
    return given({"tasks": [_shown(x) for x in listed], "more": more})


def statuses(desk: TaskManager, names: list[str]) -> list[TaskStatus]:
    """Return the status of tasks by name."""
    return [desk.open(name).task.status() for name in names]


def _shown(status: TaskStatus) -> dict[str, Any]:
    """The status of a task without the location of its store, which is not for clients."""
    return {key: value for key, value in vars(status).items() if key != "store"}


async def _task(visit: RequestContext) -> Task:
    return await visit.service.desk.task(visit.names["task"])


async def _of_task(visit: RequestContext, method: Callable[..., T], *more: Any) -> T:
    """The result of a method of the task, called in a thread."""
    return await visit.service.desk.run(method, await _task(visit), *more)


async def view(visit: RequestContext) -> Response:
    """Return the dashboard data of a task."""
    return given(await _of_task(visit, Task.view))


# calls


async def _call(visit: RequestContext) -> Any:
    """Make the call of a body and its path."""
    line = await visit.service.desk.line(visit.names["task"])
    names = visit.names
    call = visit.body.made(line.task, names["episode"], names.get("t"))
    return answer_of((await line.serve([call]))[0])


async def ask(visit: RequestContext) -> Response:
    """Return the decision of a step."""
    return given(await _call(visit))


async def tell(visit: RequestContext) -> Response:
    """Record the outcome of a decision; returns the next decision."""
    return given(NextStep(await _call(visit)))


async def write_only(visit: RequestContext) -> Response:
    """Make a call without an answer."""
    await _call(visit)
    return given(EMPTY)


async def expire(visit: RequestContext) -> Response:
    """Expire overdue decisions."""
    line = await visit.service.desk.line(visit.names["task"])
    return given(Expired(answer_of((await line.serve([line.task.expiring()]))[0])))


async def batch(visit: RequestContext) -> Response:
    """Make many calls in one request."""
    line = await visit.service.desk.line(visit.names["task"])
    answers: list[Any] = []
    calls = []
    for body in visit.body.calls:
        try:
            calls.append(body.made(line.task, body.episode, body.t))
            answers.append(None)
        except InputError as error:
            answers.append(error)
    made = iter(await line.serve(calls) if calls else ())
    return given(
        {
            "answers": [
                _answer(body, next(made) if failed is None else failed)
                for body, failed in zip(visit.body.calls, answers, strict=True)
            ]
        }
    )


def _answer(body: Any, made: Any) -> CallAnswer:
    try:
        answer = answer_of(made)
    except RequestError as refusal:
        return CallAnswer(refusal.problem.status, problem=refusal.problem)
    except Exception as error:
        broken = RequestError(500, f"an error in the service: {type(error).__name__}")
        return CallAnswer(500, problem=broken.problem)
    if isinstance(body, Tell):
        answer = NextStep(answer)
    return CallAnswer(200, EMPTY if answer is None else answer)


# looking


async def certificate(visit: RequestContext) -> Response:
    """Return the certificate of the policy."""
    found = await _learned(visit, Task.certificate)
    more = {"policy": found.policy, "certified": found.certified}
    return given({**found.as_dict(), **more})


async def policy(visit: RequestContext) -> Response:
    """Return the newest policy as a table."""
    return given(await _of_task(visit, Task.policy_table))


async def decisions(visit: RequestContext) -> Response:
    """List decisions with their outcomes."""
    query = visit.query
    status, episode = query.text("status", "open"), query.text("episode", None)
    limit, after = query.count("limit", MOST_SHOWN, 1, MOST_SHOWN), query.count("after", 0, 0)
    found = await _of_task(visit, Task.decisions, status, episode, limit + 1, after)
    return given({"decisions": found[:limit], "more": len(found) > limit})


async def faults(visit: RequestContext) -> Response:
    """List the records of rejected reports and late outcomes."""
    limit = visit.query.count("limit", MOST_SHOWN, 1, MOST_SHOWN)
    found = await _of_task(visit, Task.faults, limit + 1)
    return given({"faults": found[-limit:], "more": len(found) > limit})


async def audit(visit: RequestContext) -> Response:
    """Return the audit report: tested assumptions and findings."""
    return given((await _learned(visit, Task.audit)).as_dict())


async def _learned(visit: RequestContext, method: Callable[[Task], T]) -> T:
    return await visit.service.desk.learned(await _task(visit), method)


async def log(visit: RequestContext) -> Response:
    """Stream all steps as a log for `ucfh certify`."""
    pieces, run = _pieces(await _task(visit)), visit.service.desk.run
    first = await run(next, pieces, b"")  # a task without a log is refused before the answer begins

    async def streamed() -> AsyncIterator[bytes]:
        piece = first
        while piece:
            yield piece
            piece = await run(next, pieces, b"")

    return StreamingResponse(streamed(), 200, NO_STORE, LOG)


def _pieces(task: Task) -> Iterator[bytes]:
    """Yield the lines of a log in chunks."""
    lines: list[bytes] = []
    for _, rows in log_rows(task.store, task.number, task.declaration, task.states):
        for row in rows:
            told = (None if x == "" else x for x in row)
            lines.append(encode(dict(zip(COLUMNS, told, strict=True))))
        if len(lines) >= LINES:
            yield b"\n".join([*lines, b""])
            lines = []
    if lines:
        yield b"\n".join([*lines, b""])


async def events(visit: RequestContext) -> Response:
    """Stream the dashboard data when they change."""
    return await visit.service.watches.watch(await _task(visit), visit.counts)


# how the service itself is doing


async def healthy(visit: RequestContext) -> Response:  # noqa: ARG001
    """Return 200 while the service runs."""
    return Response("ok\n", 200, NO_STORE, TEXT)


async def ready(visit: RequestContext) -> Response:
    """Return 200 if the service is ready, else 503."""
    why = await visit.service.not_ready()
    if why:
        raise RequestError(503, f"not ready: {why}", **{"Retry-After": "1"})
    return Response("ready\n", 200, NO_STORE, TEXT)


async def metrics(visit: RequestContext) -> Response:
    """Return the metrics for Prometheus."""
    service, desk = visit.service, visit.service.desk
    listed = await desk.run(lambda: statuses(desk, desk.store.tasks()[:MOST_TASKS]))
    found = service.metrics.text(listed, service.watches.viewers)
    return Response(found, 200, NO_STORE, f"{TEXT}; version=0.0.4")


async def openapi(visit: RequestContext) -> Response:  # noqa: ARG001
    """Return the OpenAPI document."""
    return Response(_documented(), 200, NO_STORE, JSON)


@cache
def _documented() -> bytes:
    return encode(document(ENDPOINTS))


TASK = "/v1/tasks/{task}"
EPISODE = TASK + "/episodes/{episode}"
STEP = EPISODE + "/steps/{t}"
QUERY_TASKS: dict[str, dict[str, Any]] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST_SHOWN, "default": TASKS_SHOWN},
    "after": {"type": "string", "description": "list those created after the one of this name"},
}
QUERY_DECISIONS: dict[str, dict[str, Any]] = {
    "status": {"type": "string", "enum": list(STATUSES), "default": "open"},
    "episode": {"type": "string", "description": "list those of one episode"},
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST_SHOWN, "default": MOST_SHOWN},
    "after": {
        "type": "integer",
        "minimum": 0,
        "maximum": 10**MOST_DIGITS - 1,
        "default": 0,
        "description": "list those with larger numbers",
    },
}

ENDPOINTS = [
    Endpoint("PUT", STEP, ask, "Decide what to do in a step of an episode.",
             WRITE, Ask, {200: Decision}, refuses=(409,)),
    Endpoint("PUT", STEP + "/outcome", tell, "Tell what came of a decision; gives the next one.",
             WRITE, Tell, {200: NextStep}, refuses=(409, 410)),
    Endpoint("PUT", STEP + "/record", write_only, "Record a step that somebody else decided.",
             WRITE, Record, refuses=(409, 410)),
    Endpoint("POST", EPISODE + "/abandon", write_only, "Give up an episode.",
             WRITE, Abandon, refuses=(409,)),
    Endpoint("POST", TASK + "/batch", batch, f"Make up to {MOST_CALLS:,} calls at once.",
             WRITE, CallList, {200: dict[str, list[CallAnswer]]}),
    Endpoint("POST", TASK + "/expire", expire, "Expire decisions whose deadline has passed.",
             WRITE, EmptyBody, {200: Expired}),
    Endpoint("POST", "/v1/tasks", create, "Create a task.",
             WRITE, NewTask, {200: dict[str, Any], 201: dict[str, Any]}, refuses=(409,)),
    Endpoint("GET", "/v1/tasks", list_tasks, "List tasks, and how they are doing.",
             query=QUERY_TASKS, refuses=(404, 422)),
    Endpoint("GET", TASK, view, "Show how a task is doing."),
    Endpoint("GET", TASK + "/certificate", certificate, "Say how good the policy is known to be."),
    Endpoint("GET", TASK + "/policy", policy, "Show the newest policy."),
    Endpoint("GET", TASK + "/decisions", decisions, "List decisions and what came of them.",
             query=QUERY_DECISIONS, refuses=(422,)),
    Endpoint("GET", TASK + "/faults", faults, "List what was last refused, or came too late.",
             query={"limit": QUERY_DECISIONS["limit"]}),
    Endpoint("GET", TASK + "/audit", audit, "Say what the data tell of the assumptions."),
    Endpoint("GET", TASK + "/log.jsonl", log, "Stream all steps as a log.", media=LOG),
    Endpoint("GET", TASK + "/events", events, "Stream the view when it changes.", media=STREAM),
    Endpoint("GET", "/", page, "Show the page.", ALL, media=HTML),
    Endpoint("GET", "/tasks/{name}", page, "Show the page of a task.", ALL, media=HTML),
    Endpoint("GET", "/page/{file}", page, "Give a file of the page.", ALL, media="*/*"),
    Endpoint("GET", "/session", session, "Say who is signed in.", ALL),
    Endpoint("POST", "/session", sign_in, "Sign in with a token.", ALL, SignIn, refuses=(401,)),
    Endpoint("DELETE", "/session", sign_out, "Sign out.", ALL),
    Endpoint("GET", "/healthz", healthy, "Say that the service runs.", ALL, media=TEXT),
    Endpoint("GET", "/readyz", ready, "Say whether the service can be used.", ALL, media=TEXT,
             refuses=(503,)),
    Endpoint("GET", "/metrics", metrics, "Give figures for Prometheus.", media=TEXT),
    Endpoint("GET", "/openapi.json", openapi, "Give this document.", ALL),
]  # fmt: skip
"""The table of endpoints."""
