"""Background planning for all tasks of a store.

    every second    poll all tasks for overdue decisions and new events
    a thread        takes the next task with new events, and plans if a plan is due and allowed

One thread plans for all tasks: its compiled code releases the GIL. A task pauses after its plan,
longer after a long one, so that no task blocks others and requests get most of the machine. The
agents of the last planned tasks stay in memory; others are restored from the store.

Before the first task, a small internal task is planned, which compiles the kernels.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import OrderedDict
from contextlib import suppress
from threading import Condition, Thread

from ucfh.server.access_log import AccessLog, place_of
from ucfh.server.batching import TaskManager
from ucfh.server.metrics import Metrics
from ucfh.tasks.errors import TaskError
from ucfh.tasks.planner import LONGEST_PAUSE, LONGEST_PLAN_PAUSE, PAUSE, PAUSE_RATIO, POLL
from ucfh.tasks.task import Task

MOST_AGENTS = 32
"""Agents in memory."""
POLL_RATIO = 20.0
"""The polling thread pauses for this multiple of its last poll, if that is longer."""


class PlannerPool:
    """The threads that poll and plan.

    Attributes:
        warm: whether the kernels are compiled.

    """

    def __init__(self, manager: TaskManager, metrics: Metrics, access_log: AccessLog) -> None:
        self._manager, self._metrics, self._access_log = manager, metrics, access_log
        self.warm = self._stopping = False
        self._changed = Condition()
        self._due: dict[str, None] = {}
        """Tasks with new events, in order of arrival."""
        self._paused_until: dict[str, float] = {}
        """The ends of the pauses of tasks."""
        self._failing: dict[str, float] = {}
        self._seen: dict[str, tuple[int, int]] = {}
        self._agents: OrderedDict[str, Task] = OrderedDict()
        self._threads = [
            Thread(target=self._poll, name="ucfh-poll", daemon=True),
            Thread(target=self._plan, name="ucfh-plan", daemon=True),
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self, patience: float) -> bool:
        """Stop after the current plan; True if that ended within ``patience`` seconds."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        until = time.monotonic() + patience
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def notify(self, name: str) -> None:
        """Signal that a task has new events."""
        if name not in self._due:
            with self._changed:
                self._due[name] = None
                self._changed.notify_all()

    def _failed(self, error: Exception, name: str | None) -> None:
        self._metrics.failed(error)
        self._access_log.event("planning failed", task=name, fault=place_of(error))

    # polling

    def _poll(self) -> None:
        while not self._stopping:
            begun = time.monotonic()
            try:
                self._poll_once()
            except Exception as error:  # the store cannot be read now, for one
                self._failed(error, None)
            pause = max(POLL, POLL_RATIO * (time.monotonic() - begun))
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, pause)

    def _poll_once(self) -> None:
        now = time.time()
        for head in self._manager.store.progress():
            if self._seen.get(head.name, (0, 0)) != (head.seq, head.policy):
                self._seen[head.name] = head.seq, head.policy
                self.notify(head.name)
            if head.deadline is not None and head.deadline <= now:
                try:
                    self._manager.open(head.name).task.expire()
                except TaskError as error:  # others go on
                    self._failed(error, head.name)

    # planning

    def _plan(self) -> None:
        try:
            _compile()
            warm_up()
        except Exception as error:  # the first task will say so, too
            self._failed(error, None)
        self.warm = True
        while (name := self._next()) is not None:
            begun = time.monotonic()
            try:
                planned = self._plan_for(name)
                took = time.monotonic() - begun
                pause = max(PAUSE, min(PAUSE_RATIO * took, LONGEST_PLAN_PAUSE))
                self._failing.pop(name, None)
                if planned:
                    self._metrics.planned.observe(took)
            except Exception as error:  # others go on; it is tried again
                self._failed(error, name)
                pause = self._failing[name] = min(2 * self._failing.get(name, PAUSE), LONGEST_PAUSE)
                self._seen.pop(name, None)
            self._paused_until[name] = time.monotonic() + pause

    def _next(self) -> str | None:
        """The task that has waited longest, of those that do not pause; None: stop."""
        with self._changed:
            while not self._stopping:
                now, wait = time.monotonic(), POLL
                for name in self._due:
                    if (remaining := self._paused_until.get(name, 0.0) - now) <= 0:
                        del self._due[name]
                        return name
                    wait = min(wait, remaining)
                self._changed.wait(wait)
            return None

    def _plan_for(self, name: str) -> bool:
        task = self._manager.open(name).task
        if (previous := self._agents.get(name)) is not task and previous is not None:
            previous.planner.release()  # it was closed, and opened again
        self._agents[name] = task
        self._agents.move_to_end(name)
        if len(self._agents) > MOST_AGENTS:
            self._agents.popitem(last=False)[1].planner.release()
        try:
            planned = task.planner.step()
            task.planner.report()
            task.planner.error = None
        except Exception as error:
            task.planner.error = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise
        return planned


def _compile() -> None:
    """Compile the kernels in another process, so that this one keeps serving."""
    command = [sys.executable, "-c", "from ucfh.server.planner_pool import warm_up; warm_up()"]
    with suppress(OSError):
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def warm_up() -> None:
    """Plan a small task, so that all kernels are compiled before the first plan."""
    from ucfh.tasks.agent import TaskAgent
    from ucfh.tasks.config import Declaration
    from ucfh.tasks.records import DecisionRecord, OutcomeRecord

    agent = TaskAgent(Declaration.make("small", ["a", "b"], horizon=2, epsilon=0.5))
    agent.add_state()
    agent.add_state()
    for k in range(4):
        agent.add_events(
            [
                DecisionRecord(4 * k + 1, k + 1, 0, 1, 0, 0, 0),
                OutcomeRecord(4 * k + 2, k + 1, 0, 0.5, 2),
                DecisionRecord(4 * k + 3, k + 1, 1, 2, k % 2, 0, 0),
                OutcomeRecord(4 * k + 4, k + 1, 1, 1.0, 0),
            ]
        )
    agent.plan()
    names = ["(end)", "x", "y"], ["a", "b"]
    agent.certificate(*names)
    agent.audit_report(*names)
