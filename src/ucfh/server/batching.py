"""Group commit: calls that arrive while a group is written form the next group.

Each task has a queue. A thread serves all queued calls in one transaction while new ones arrive;
then it is the turn of the next task. So a busy task needs few commits, an idle one does not wait,
and no task waits for others for long. A rejected call is rolled back alone.

The event loop never waits for a database: threads open and serve tasks.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future, get_running_loop, shield
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock, RLock
from typing import Any, TypeVar

from ucfh.exceptions import InputError
from ucfh.server.schemas import TaskCall
from ucfh.tasks.errors import Conflict, UnknownTask
from ucfh.tasks.opening import open_task
from ucfh.tasks.store import TaskStore
from ucfh.tasks.task import Task

T = TypeVar("T")
WRITERS = 4
"""Threads that serve groups of calls."""
READERS = 4
"""Threads for other queries."""
AGENT_THREADS, MOST_RESULTS = 2, 64
"""Threads for queries that need an agent, and their cached answers."""
MOST_TOGETHER = 500
"""Calls of a group, unless one request has more, to keep transactions short."""
MOST_OPEN = 1000
"""Largest number of open tasks; of more, the idle ones that were opened first are closed."""

PendingCalls = tuple[Sequence[TaskCall], "Future[list[Any]]"]


class TaskBatcher:
    """The queue of calls on one task.

    Attributes:
        task: the task.

    """

    def __init__(self, task: Task, writers: ThreadPoolExecutor, on_served: Callable[..., None]):
        self.task = task
        self._writers, self._on_served = writers, on_served
        self._lock, self._pending, self._busy = Lock(), list[PendingCalls](), False

    @property
    def idle(self) -> bool:
        """True if no call is queued or being served."""
        return not self._busy

    async def serve(self, calls: Sequence[TaskCall]) -> list[Any]:
        """Make calls; returns the answer or the error of each, in order."""
        loop = get_running_loop()
        future: Future[list[Any]] = loop.create_future()
        with self._lock:
            self._pending.append((calls, future))
            is_first, self._busy = not self._busy, True
        if is_first:
            self._writers.submit(self._work, loop)
        return await future

    def _work(self, loop: AbstractEventLoop) -> None:
        """Serve a group, and submit the next one."""
        group, results = self._next_group(), list[Any]()
        try:
            answers = iter(self._serve_group([call for calls, _ in group for call in calls]))
            results = [[next(answers) for _ in calls] for calls, _ in group]
        except BaseException as error:  # theirs, and not of this thread
            results = [error] * len(group)
        loop.call_soon_threadsafe(_deliver, group, results)
        self._on_served(self.task, sum(len(calls) for calls, _ in group))
        with self._lock:
            self._busy = bool(self._pending)
        if self._busy:
            self._writers.submit(self._work, loop)

    def _next_group(self) -> list[PendingCalls]:
        with self._lock:
            size = count = 0
            for calls, _ in self._pending:
                if count and size + len(calls) > MOST_TOGETHER:
                    break
                size, count = size + len(calls), count + 1
            group, self._pending = self._pending[:count], self._pending[count:]
            return group

    def _serve_group(self, calls: list[TaskCall]) -> list[Any]:
        """The answers in order; if a group fails as a whole, each call is made alone.

        Calls are idempotent, so this is safe.
        """
        try:
            return self.task.serve(calls)
        except InputError:
            raise
        except Exception:
            if len(calls) == 1:
                raise
            return [self._serve_alone(call) for call in calls]

    def _serve_alone(self, call: TaskCall) -> Any:
        try:
            return self.task.serve([call])[0]
        except Exception as error:
            return error


def _deliver(group: list[PendingCalls], results: list[Any]) -> None:
    """Set the results of the futures of a group; in the event loop."""
    for (_, future), answers in zip(group, results, strict=True):
        if future.done():  # it was cancelled
            continue
        if isinstance(answers, BaseException):
            future.set_exception(answers)
        else:
            future.set_result(answers)


def revision_of(task: Task) -> tuple[int, int]:
    """Return the numbers of the last event and of the newest policy, to detect changes."""
    return task.store.last_seq(task.number), task.store.newest_number(task.number)


class TaskManager:
    """The open tasks of a store, and the threads that serve them.

    Args:
        store: the database; it stays open.
        on_served: called with a task and the number of calls after each group, by any thread.

    """

    def __init__(self, store: TaskStore, on_served: Callable[[Task, int], None]) -> None:
        self.store, self._on_served = store, on_served
        self._writers = ThreadPoolExecutor(WRITERS, "ucfh-writer")
        self._readers = ThreadPoolExecutor(READERS, "ucfh-reader")
        self._agents = ThreadPoolExecutor(AGENT_THREADS, "ucfh-agent")
        self._results = OrderedDict[tuple[str, str], tuple[object, Future[Any]]]()
        self._opening, self._batchers = RLock(), OrderedDict[str, TaskBatcher]()

    async def run(self, call: Callable[..., T], *given: Any) -> T:
        """Run a blocking call in a thread."""
        return await get_running_loop().run_in_executor(self._readers, call, *given)

    async def agent_result(self, task: Task, method: Callable[[Task], T]) -> T:
        """Return the result of a method that needs the agent; cached until there is a new event.

        It may take long, so it has threads of its own.
        """
        key, revision = (task.name, method.__name__), await self.run(revision_of, task)
        found = self._results.get(key)
        if found is None or found[0] != revision:
            making = get_running_loop().run_in_executor(self._agents, method, task)
            found = self._results[key] = revision, making
            while len(self._results) > MOST_RESULTS:
                self._results.popitem(last=False)
        try:
            return await shield(found[1])
        except BaseException:
            if self._results.get(key) is found:
                del self._results[key]
            raise

    async def batcher(self, name: str) -> TaskBatcher:
        """Return the batcher of a task, which is opened if necessary."""
        found = self._batchers.get(name)
        return await self.run(self.open, name) if found is None else found

    async def task(self, name: str) -> Task:
        """Return a task, which is opened if necessary."""
        return (await self.batcher(name)).task

    def create(self, name: str, **declared: Any) -> tuple[bool, TaskBatcher]:
        """Create a task unless it exists; returns whether it is new, and its batcher. Blocking."""
        with self._opening:
            new = self.store.find(name) is None
            return new, self.open(name, **declared)

    def open(self, name: str, **declared: Any) -> TaskBatcher:
        """Return the batcher of a task; a declared task is created unless it exists. Blocking."""
        with self._opening:
            batcher = self._batchers.get(name)
            if batcher is None or declared:
                try:
                    task = open_task(self.store, name, **declared, planning="off")
                except UnknownTask:
                    raise UnknownTask(
                        f"there is no task {name!r}: create it with POST /v1/tasks"
                    ) from None
                except Conflict as error:  # the location of the store is not for clients
                    named = f" in {self.store.name} has "
                    raise Conflict(str(error).replace(named, " has ", 1)) from None
                batcher = self._batchers.setdefault(
                    name, TaskBatcher(task, self._writers, self._on_served)
                )
            self._batchers.move_to_end(name)
            if len(self._batchers) > MOST_OPEN:
                for other in list(self._batchers)[: len(self._batchers) - MOST_OPEN]:
                    if self._batchers[other].idle:
                        self._batchers.pop(other).task.close()
            return batcher

    def close(self) -> None:
        """Finish pending work, and close all tasks."""
        self._writers.shutdown()
        self._readers.shutdown()
        self._agents.shutdown(cancel_futures=True)
        for batcher in self._batchers.values():
            batcher.task.close()
