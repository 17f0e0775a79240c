"""Server-sent events of the dashboard.

Each watched task has one poller for all its viewers. It polls for changes twice a second, computes
the view in a thread, and wakes the viewers. A viewer is sent the newest view when it is ready, with
the plans that were not sent yet: a slow reader gets fewer views, none twice, and no queue grows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
from starlette.responses import Response

from ucfh.server.batching import TaskManager, revision_of
from ucfh.server.schemas import RequestError, plain_number
from ucfh.tasks.errors import TaskError
from ucfh.tasks.task import Task

POLL_SECONDS = 0.5
"""Seconds between two polls."""
REFRESH_SECONDS = 5.0
"""Seconds after which a view is computed in any case: some of its changes leave no event."""
PULSE_SECONDS = 15.0
"""Seconds without a view after which a pulse is sent, to detect a lost connection."""
MOST_VIEWERS = 1000
BEGIN, PULSE = b"retry: 2000\n\n", b"event: pulse\ndata: {}\n\n"
TIME_FIELDS = ("now", "age", "oldest", "planner")
"""Fields of a view that change with time alone."""


class TaskSubscription:
    """The newest view of a task, and its viewers.

    Attributes:
        viewers: number of viewers. number: of the view, 1, 2, ...; 0: there is none yet.

    """

    def __init__(self, manager: TaskManager, task: Task) -> None:
        self.viewers = self.number = 0
        self._manager, self._task = manager, task
        self._next_view: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._view: dict[str, Any] = {}
        self._plans: list[dict[str, Any]] = []
        self._events: dict[int, bytes] = {}
        self._seen: object = None
        self.poller = asyncio.create_task(self._poll())

    @property
    def last_plan(self) -> int:
        """The number of the last plan."""
        return self._plans[-1]["number"] if self._plans else 0

    def event(self, after: int) -> bytes:
        """Return the newest view as an event, with the plans whose numbers are above ``after``."""
        if (made := self._events.get(after)) is None:
            view = {**self._view, "plans": [x for x in self._plans if x["number"] > after]}
            text = msgspec.json.encode(view, enc_hook=plain_number)
            made = self._events[after] = b"event: view\ndata: " + text + b"\n\n"
        return made

    async def wait(self, seconds: float) -> None:
        """Wait for the next view, at most some seconds."""
        await asyncio.wait([self._next_view], timeout=seconds)

    async def _poll(self) -> None:
        refresh_at = 0.0
        while True:
            try:
                revision = await self._manager.run(revision_of, self._task)
                if revision != self._seen or time.monotonic() > refresh_at:
                    refresh_at = time.monotonic() + REFRESH_SECONDS
                    self._set_view(await self._manager.run(self._task.view, self.last_plan))
                    self._seen = revision
            except TaskError:  # it is tried again, and those who watch see how old the view is
                pass
            await asyncio.sleep(POLL_SECONDS)

    def _set_view(self, view: dict[str, Any]) -> None:
        """Set the newest view, unless it differs by time alone."""
        new = view.pop("plans")
        if not new and without_times(view) == without_times(self._view):
            return
        self._plans += new
        self._view, self._events, self.number = view, {}, self.number + 1
        self._next_view.set_result(None)
        self._next_view = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """Stop polling, and wake the viewers."""
        self.poller.cancel()
        if not self._next_view.done():
            self._next_view.set_result(None)


def without_times(view: dict[str, Any]) -> dict[str, Any]:
    """Return a view without the fields that change with time alone."""
    status = {key: x for key, x in view.get("status", {}).items() if key not in TIME_FIELDS}
    return {**{key: x for key, x in view.items() if key not in TIME_FIELDS}, "status": status}


class SubscriptionRegistry:
    """The watched tasks.

    Attributes:
        viewers: number of viewers of all tasks.

    """

    def __init__(self, manager: TaskManager) -> None:
        self._manager, self._watched, self._stopping = manager, dict[str, TaskSubscription](), False
        self.viewers = 0

    def stop(self) -> None:
        """End all streams."""
        self._stopping = True
        for watched in self._watched.values():
            watched.end()

    async def watch(self, task: Task, is_valid: Callable[[], bool]) -> Response:
        """Return an event stream that ends when the client disconnects or its access is revoked."""
        if self.viewers >= MOST_VIEWERS:
            raise RequestError(503, "too many pages watch: try again", **{"Retry-After": "10"})
        self.viewers += 1  # the response, which is sent next, takes it back
        return _Events(self, task, is_valid)

    async def follow(
        self, task: Task, is_valid: Callable[[], bool], write: Callable[[bytes], Awaitable[None]]
    ) -> None:
        """Write views of a task until the service stops or the access is revoked."""
        watched = self._watched.get(task.name)
        if watched is None:
            watched = self._watched[task.name] = TaskSubscription(self._manager, task)
        watched.viewers += 1
        number = after = 0
        try:
            await write(BEGIN)
            sent = time.monotonic()
            while not self._stopping and is_valid():
                if watched.number > number:
                    number, text, after = watched.number, watched.event(after), watched.last_plan
                    await write(text)
                    sent = time.monotonic()
                elif time.monotonic() - sent >= PULSE_SECONDS:
                    await write(PULSE)
                    sent = time.monotonic()
                else:
                    await watched.wait(PULSE_SECONDS)
        finally:
            watched.viewers -= 1
            if watched.viewers == 0:
                watched.end()
                self._watched.pop(task.name, None)


class _Events(Response):
    """A stream of the views of a task."""

    media_type = "text/event-stream"

    def __init__(
        self, subscriptions: SubscriptionRegistry, task: Task, is_valid: Callable[[], bool]
    ) -> None:
        self._subscriptions, self._task, self._is_valid = subscriptions, task, is_valid
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(
        self,
        scope: MutableMapping[str, Any],  # noqa: ARG002
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        try:
            await self._stream(receive, send)
        finally:
            self._subscriptions.viewers -= 1

    async def _stream(
        self,
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

        async def write(text: bytes) -> None:
            await send({"type": "http.response.body", "body": text, "more_body": True})

        async def left() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        following = asyncio.create_task(
            self._subscriptions.follow(self._task, self._is_valid, write)
        )
        leaving = asyncio.create_task(left())
        await asyncio.wait((following, leaving), return_when=asyncio.FIRST_COMPLETED)
        for part in (following, leaving):
            part.cancel()
        await asyncio.gather(following, leaving, return_exceptions=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
