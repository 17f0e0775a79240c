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
from ucfh.server.router import (
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
    json_response,
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
from ucfh.tasks.errors import UnknownTask
from ucfh.tasks.exporting import log_rows
from ucfh.tasks.protocol import Decision
from ucfh.tasks.status import TaskStatus
from ucfh.tasks.task import MOST_CALLS, STATUSES, Task

T = TypeVar("T")
EMPTY: dict[str, Any] = {}
TASKS_SHOWN = 100
"""Default number of listed tasks."""
LINES = 1000
"""Lines of a log in a chunk."""


# tasks


async def create(context: RequestContext) -> Response:
    """Create a task unless it exists."""
    declared = msgspec.structs.asdict(context.body)
    name, manager = declared.pop("task"), context.service.manager

    def made() -> tuple[bool, TaskStatus]:
        new, batcher = manager.create(name, **declared)
        return new, batcher.task.status()

    new, status = await manager.run(made)
    response = json_response(_public_status(status), 201 if new else 200)
    if new:
        response.headers["Location"] = f"/v1/tasks/{quote(name, safe='')}"
    return response


async def list_tasks(context: RequestContext) -> Response:
    """List the status of tasks."""
    manager, query = context.service.manager, context.query
    limit, after = query.count("limit", TASKS_SHOWN, 1, MOST_SHOWN), query.text("after", None)

    def found() -> tuple[list[TaskStatus], bool]:
        names = manager.store.tasks()
        if after is not None and after not in names:
            raise UnknownTask(f"there is no task {after!r}: leave ?after= out, or name one")
        left = names if after is None else names[names.index(after) + 1 :]
        return statuses(manager, left[:limit]), len(left) > limit

    listed, more = await manager.run(found)
    return json_response({"tasks": [_public_status(x) for x in listed], "more": more})


def statuses(manager: TaskManager, names: list[str]) -> list[TaskStatus]:
    """Return the status of tasks by name."""
    return [manager.open(name).task.status() for name in names]


def _public_status(status: TaskStatus) -> dict[str, Any]:
    """The status of a task without the location of its store, which is not for clients."""
    return {key: value for key, value in vars(status).items() if key != "store"}


async def _task(context: RequestContext) -> Task:
    return await context.service.manager.task(context.names["task"])


async def _call_method(context: RequestContext, method: Callable[..., T], *more: Any) -> T:
    """The result of a method of the task, called in a thread."""
    return await context.service.manager.run(method, await _task(context), *more)


async def view(context: RequestContext) -> Response:
    """Return the dashboard data of a task."""
    return json_response(await _call_method(context, Task.view))


# calls


async def _call(context: RequestContext) -> Any:
    """Make the call of a body and its path."""
    batcher = await context.service.manager.batcher(context.names["task"])
    names = context.names
    call = context.body.task_call(batcher.task, names["episode"], names.get("t"))
    return answer_of((await batcher.serve([call]))[0])


async def ask(context: RequestContext) -> Response:
    """Return the decision of a step."""
    return json_response(await _call(context))


async def tell(context: RequestContext) -> Response:
    """Record the outcome of a decision; returns the next decision."""
    return json_response(NextStep(await _call(context)))


async def write_only(context: RequestContext) -> Response:
    """Make a call without an answer."""
    await _call(context)
    return json_response(EMPTY)


async def expire(context: RequestContext) -> Response:
    """Expire overdue decisions."""
    batcher = await context.service.manager.batcher(context.names["task"])
    return json_response(Expired(answer_of((await batcher.serve([batcher.task.expiring()]))[0])))


async def batch(context: RequestContext) -> Response:
    """Make many calls in one request."""
    batcher = await context.service.manager.batcher(context.names["task"])
    answers: list[Any] = []
    calls = []
    for body in context.body.calls:
        try:
            calls.append(body.task_call(batcher.task, body.episode, body.t))
            answers.append(None)
        except InputError as error:
            answers.append(error)
    made = iter(await batcher.serve(calls) if calls else ())
    return json_response(
        {
            "answers": [
                _answer(body, next(made) if failed is None else failed)
                for body, failed in zip(context.body.calls, answers, strict=True)
            ]
        }
    )


def _answer(body: Any, made: Any) -> CallAnswer:
    try:
        answer = answer_of(made)
    except RequestError as rejection:
        return CallAnswer(rejection.problem.status, problem=rejection.problem)
    except Exception as error:
        broken = RequestError(500, f"an error in the service: {type(error).__name__}")
        return CallAnswer(500, problem=broken.problem)
    if isinstance(body, Tell):
        answer = NextStep(answer)
    return CallAnswer(200, EMPTY if answer is None else answer)


# queries


async def certificate(context: RequestContext) -> Response:
    """Return the certificate of the policy."""
    found = await _agent_result(context, Task.certificate)
    more = {"policy": found.policy, "certified": found.certified}
    return json_response({**found.as_dict(), **more})


async def policy(context: RequestContext) -> Response:
    """Return the newest policy as a table."""
    return json_response(await _call_method(context, Task.policy_table))


async def decisions(context: RequestContext) -> Response:
    """List decisions with their outcomes."""
    query = context.query
    status, episode = query.text("status", "open"), query.text("episode", None)
    limit, after = query.count("limit", MOST_SHOWN, 1, MOST_SHOWN), query.count("after", 0, 0)
    found = await _call_method(context, Task.decisions, status, episode, limit + 1, after)
    return json_response({"decisions": found[:limit], "more": len(found) > limit})


async def faults(context: RequestContext) -> Response:
    """List the records of rejected reports and late outcomes."""
    limit = context.query.count("limit", MOST_SHOWN, 1, MOST_SHOWN)
    found = await _call_method(context, Task.faults, limit + 1)
    return json_response({"faults": found[-limit:], "more": len(found) > limit})


async def audit(context: RequestContext) -> Response:
    """Return the audit report: tested assumptions and findings."""
    return json_response((await _agent_result(context, Task.audit)).as_dict())


async def _agent_result(context: RequestContext, method: Callable[[Task], T]) -> T:
    return await context.service.manager.agent_result(await _task(context), method)


async def log(context: RequestContext) -> Response:
    """Stream all steps as a log for `ucfh certify`."""
    chunks, run = _chunks(await _task(context)), context.service.manager.run
    first = await run(next, chunks, b"")  # a task without a log is refused before the answer begins

    async def streamed() -> AsyncIterator[bytes]:
        chunk = first
        while chunk:
            yield chunk
            chunk = await run(next, chunks, b"")

    return StreamingResponse(streamed(), 200, NO_STORE, LOG)


def _chunks(task: Task) -> Iterator[bytes]:
    """Yield the lines of a log in chunks."""
    lines: list[bytes] = []
    for _, rows in log_rows(task.store, task.number, task.declaration, task.states):
        for row in rows:
            values = (None if x == "" else x for x in row)
            lines.append(encode(dict(zip(COLUMNS, values, strict=True))))
        if len(lines) >= LINES:
            yield b"\n".join([*lines, b""])
            lines = []
    if lines:
        yield b"\n".join([*lines, b""])


async def events(context: RequestContext) -> Response:
    """Stream the dashboard data when they change."""
    return await context.service.subscriptions.watch(await _task(context), context.is_valid)


# the service itself


async def healthy(context: RequestContext) -> Response:  # noqa: ARG001
    """Return 200 while the service runs."""
    return Response("ok\n", 200, NO_STORE, TEXT)


async def ready(context: RequestContext) -> Response:
    """Return 200 if the service is ready, else 503."""
    why = await context.service.not_ready()
    if why:
        raise RequestError(503, f"not ready: {why}", **{"Retry-After": "1"})
    return Response("ready\n", 200, NO_STORE, TEXT)


async def metrics(context: RequestContext) -> Response:
    """Return the metrics for Prometheus."""
    service, manager = context.service, context.service.manager
    listed = await manager.run(lambda: statuses(manager, manager.store.tasks()[:MOST_TASKS]))
    found = service.metrics.text(listed, service.subscriptions.viewers)
    return Response(found, 200, NO_STORE, f"{TEXT}; version=0.0.4")


async def openapi(context: RequestContext) -> Response:  # noqa: ARG001
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
    Endpoint("PUT", STEP, ask, "Return the decision of a step of an episode.",
             WRITE, Ask, {200: Decision}, problems=(409,)),
    Endpoint("PUT", STEP + "/outcome", tell, "Report an outcome; returns the next decision.",
             WRITE, Tell, {200: NextStep}, problems=(409, 410)),
    Endpoint("PUT", STEP + "/record", write_only, "Record a step of another decision maker.",
             WRITE, Record, problems=(409, 410)),
    Endpoint("POST", EPISODE + "/abandon", write_only, "Abandon an episode.",
             WRITE, Abandon, problems=(409,)),
    Endpoint("POST", TASK + "/batch", batch, f"Make up to {MOST_CALLS:,} calls at once.",
             WRITE, CallList, {200: dict[str, list[CallAnswer]]}),
    Endpoint("POST", TASK + "/expire", expire, "Expire decisions whose deadline has passed.",
             WRITE, EmptyBody, {200: Expired}),
    Endpoint("POST", "/v1/tasks", create, "Create a task.",
             WRITE, NewTask, {200: dict[str, Any], 201: dict[str, Any]}, problems=(409,)),
    Endpoint("GET", "/v1/tasks", list_tasks, "List the status of tasks.",
             query=QUERY_TASKS, problems=(404, 422)),
    Endpoint("GET", TASK, view, "Return the dashboard data of a task."),
    Endpoint("GET", TASK + "/certificate", certificate, "Return the certificate of the policy."),
    Endpoint("GET", TASK + "/policy", policy, "Return the newest policy."),
    Endpoint("GET", TASK + "/decisions", decisions, "List decisions with their outcomes.",
             query=QUERY_DECISIONS, problems=(422,)),
    Endpoint("GET", TASK + "/faults", faults, "List the last rejected reports and late outcomes.",
             query={"limit": QUERY_DECISIONS["limit"]}),
    Endpoint("GET", TASK + "/audit", audit, "Return the audit report."),
    Endpoint("GET", TASK + "/log.jsonl", log, "Stream all steps as a log.", media=LOG),
    Endpoint("GET", TASK + "/events", events, "Stream the view when it changes.", media=STREAM),
    Endpoint("GET", "/", page, "Return the dashboard.", ALL, media=HTML),
    Endpoint("GET", "/tasks/{name}", page, "Return the dashboard of a task.", ALL, media=HTML),
    Endpoint("GET", "/page/{file}", page, "Return a file of the dashboard.", ALL, media="*/*"),
    Endpoint("GET", "/session", session, "Return the current session.", ALL),
    Endpoint("POST", "/session", sign_in, "Sign in with a token.", ALL, SignIn, problems=(401,)),
    Endpoint("DELETE", "/session", sign_out, "Sign out.", ALL),
    Endpoint("GET", "/healthz", healthy, "Return 200 while the service runs.", ALL, media=TEXT),
    Endpoint("GET", "/readyz", ready, "Return 200 if the service is ready.", ALL, media=TEXT,
             problems=(503,)),
    Endpoint("GET", "/metrics", metrics, "Return metrics for Prometheus.", media=TEXT),
    Endpoint("GET", "/openapi.json", openapi, "Return this document.", ALL),
]  # fmt: skip
"""The table of endpoints."""
