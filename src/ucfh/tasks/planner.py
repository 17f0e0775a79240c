"""The planner of a task, which runs beside the calls.

    loop
        wait for a new event, at most one second
        read the new events
        if a plan is due and the lease is free: plan; write policy and agent in one transaction
        write a report for dashboards, unless reports take too large a share of the time

Several processes may serve one store. The right to plan is a lease in the store: it ends by itself
if its holder dies, and the holder renews it in the transaction that writes a policy. The other
processes serve the policies of the holder. The next holder continues from the agent that was
written with the last policy.

Calls never wait for plans: they have their own connection, and compiled code releases the GIL.
"""

from __future__ import annotations

import io
import os
import socket
import time
import zlib
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ucfh._utils.arrays import Ints
from ucfh.tasks.agent import TaskAgent, is_due
from ucfh.tasks.config import Declaration
from ucfh.tasks.errors import InvalidReport, TaskError, damaged, decoding
from ucfh.tasks.labels import name_in_log
from ucfh.tasks.records import LAYOUT, LONGEST_LEASE, Report, StoredPolicy
from ucfh.tasks.store import TaskStore, Transaction

CHUNK = 1000
"""Events per query."""
LEASE = 10.0
"""Shortest lease in seconds."""
LEASE_FACTOR = 4
"""A lease lasts this multiple of the duration of the last plan, if that is longer."""
SNAPSHOT_SHARE = 0.05
"""Largest share of its time that a planner spends on snapshots."""
REPORT_SHARE = 0.1
"""Largest share of its time that a planner spends on reports."""
PAUSE, POLL, LONGEST_PAUSE = 0.05, 1.0, 60.0
"""Seconds between two plans at least; between two polls of the store; after repeated errors."""
TOO_LARGE = (
    "the memory is not sufficient to plan for this task. Fix: create a task with fewer states or a "
    "shorter horizon"
)
"""The error after memory has run out; planning is not retried until the task is reopened."""
PAUSE_RATIO, LONGEST_PLAN_PAUSE = 9.0, 2.0
"""A thread pauses for this multiple of its last step's duration, but at most so many seconds."""


class TaskPlanner:
    """Follows the events of a task, and plans while it holds the lease.

    Args:
        store, task: the database, and the number of the task there.
        declaration: of the task.
        publish: called with each policy that is written.
        names: returns the names of the first so many states, with the end, and of all actions.
        sparing: whether to write snapshots less often than policies, if they take long. An agent
            that is rebuilt from the events has the same counts, but fewer of its earlier bounds.

    Attributes:
        holder: its name as a holder of the lease.
        lock: held while the agent is used.
        error: the message of the last planning error, None after success.

    """

    def __init__(
        self,
        store: TaskStore,
        task: int,
        declaration: Declaration,
        publish: Callable[[StoredPolicy], None],
        names: Callable[[int], tuple[list[str], list[str]]],
        sparing: bool = False,
    ) -> None:
        self.store, self.task, self.declaration = store, task, declaration
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        self.lock = Lock()
        self.error: str | None = None
        self._publish, self._names, self._sparing = publish, names, sparing
        self._agent: TaskAgent | None = None
        self._held_until = self._duration = self._next_snapshot = self._next_report = 0.0
        self._reported, self._too_large = 0, False

    def agent(self) -> TaskAgent:
        """Return the agent with all events so far; the caller holds the lock.

        Raises:
            InvalidReport: the task needs more memory than there is.

        """
        if self._too_large:
            raise InvalidReport(TOO_LARGE)
        self.declaration.check_size(self.store.counts(self.task).states)
        agent, self._agent = self._agent, None  # unless all goes well
        conflicts = self._conflicts()
        if (
            agent is None
            or agent.number < self.store.newest_number(self.task)
            or agent.conflicts != conflicts
        ):
            agent = self._restore_agent(conflicts)
        add_new_events(agent, self.store, self.task)
        self._apply_warm_starts(agent)
        self._agent = agent
        return agent

    def rebuild(self, like: TaskAgent | None = None) -> TaskAgent:
        """Return an agent rebuilt from all events, or from those of ``like``, without plans."""
        last = self.store.last_seq(self.task) if like is None else like.seq
        conflicts = self._conflicts() if like is None else like.conflicts
        agent, states = TaskAgent(self.declaration, conflicts), self.store.states(self.task, 0)
        with decoding(self.store.name):
            for _, _, actions in states if like is None else states[: like.experience.states - 1]:
                agent.add_state(self.declaration.available(actions))
            while agent.seq < last:
                count = min(CHUNK, last - agent.seq)
                events = self.store.events(self.task, agent.seq, count)
                if not events:
                    raise damaged(self.store.name, f"event {agent.seq + 1} is missing")
                agent.add_events(events)
        return agent

    def _conflicts(self) -> tuple[tuple[int, int, int], ...]:
        """The contradictory reports, in order: episode, step, action (-1: the recommended one)."""
        actions = self.declaration.actions
        found = self.store.contradictions(self.task)
        with decoding(self.store.name):
            return tuple(
                sorted((e, t, -1 if text is None else actions.index(text)) for e, t, text in found)
            )

    def _apply_warm_starts(self, agent: TaskAgent) -> None:
        """Give an agent the assumptions and the prior policy of warm starts."""
        warm_starts = self.store.warm_starts(self.task)
        agent.assumed = tuple(dict.fromkeys(x.sentence for x in warm_starts if x.sentence))
        prior = {name: actions for x in warm_starts for name, actions in x.prior.items()}
        if prior:
            for number, text, _ in self.store.states(self.task, 0):
                if (actions := prior.get(name_in_log(text))) is not None:
                    agent.prior[number] = np.array(actions)

    def _restore_agent(self, conflicts: tuple[tuple[int, int, int], ...]) -> TaskAgent:
        """The agent from the last snapshot, or a new one.

        A snapshot from before a contradictory report rests on the first report: it is not used, and
        all events are counted again.
        """
        agent, found = TaskAgent(self.declaration, conflicts), self.store.snapshot(self.task)
        newest = self.store.newest_policy(self.task)
        arrays = None if found is None else unpack(found[1])
        if arrays is not None and tuple(map(tuple, arrays["conflicts"].tolist())) == conflicts:
            with decoding(self.store.name):
                agent.restore(arrays)
            if agent.seq > self.store.last_seq(self.task):
                raise damaged(self.store.name, f"the events up to {agent.seq} are missing")
        elif newest is not None:
            agent.continue_numbers(newest.summary)
        if newest is not None:
            agent.number = max(agent.number, newest.number)
        return agent

    def step(self) -> bool:
        """Read new events, and plan if a plan is due and the lease is free; True if it planned."""
        with self.lock:
            if not self._is_due() or not self._may_plan():
                return False
            start = time.monotonic()
            try:
                agent = self.agent()
                if not agent.due:
                    return False
                self._agent = None  # unless its plan is written
                start = time.monotonic()
                planned = agent.plan()
            except MemoryError:
                self._agent, self._too_large = None, True
                raise InvalidReport(TOO_LARGE) from None
            self._duration = time.monotonic() - start
            number, actions, best, known, episodes, summary = planned
            changed = changes(self.store.newest_policy(self.task), best, number)
            summary = {**summary, "layout": LAYOUT}
            policy = StoredPolicy(
                number, time.time(), known, episodes, actions, best, changed, summary
            )
            kept = self._snapshot(agent)

            def write(tx: Transaction) -> str | None:
                if (other := tx.renew_lease(self.holder, self._lease)) is None:
                    tx.publish(policy, agent.seq, kept)
                return other

            if self.store.transact(self.task, write) is not None:
                return False
            self._agent, self._held_until = agent, time.monotonic() + self._lease
            self._publish(policy)
            return True

    def report(self) -> None:
        """Write the report of the newest policy, if it is missing and the time share allows it."""
        with self.lock:
            newest = self.store.newest_number(self.task)
            if newest == self._reported or time.monotonic() < self._next_report:
                return
            kept = self.store.report(self.task)
            if kept is not None and kept.number == newest:
                self._reported = newest
                return
            if not self._may_plan():
                return
            start = time.monotonic()
            agent = self.agent()
            names = self._names(agent.experience.states)
            known, audit = agent.certificate(*names), agent.audit_report(*names)
            content = {
                "certificate": known.as_dict(),
                "audit": audit.as_dict(),
                "layout": LAYOUT,
                "contradictions": len(agent.conflicts),
            }
            report = Report(newest, agent.seq, time.time(), content)

            def write(tx: Transaction) -> None:
                if tx.renew_lease(self.holder, self._lease) is None:
                    tx.replace_report(report)

            self.store.transact(self.task, write)
            done = time.monotonic()
            self._reported, self._next_report = newest, done + (done - start) / REPORT_SHARE

    def _is_due(self) -> bool:
        """True if a plan is due, by the counts of the store alone, without an agent."""
        n, number = self.store.counts(self.task), self.store.newest_number(self.task)
        progress = n.begun + n.outcomes + n.lost
        newest = next(iter(self.store.plans(self.task, number - 1)), None)
        if newest is None or newest.summary.get("layout") != LAYOUT:
            return is_due(progress, 0)
        if n.contradictions != newest.summary["contradictions"]:  # its bounds do not hold
            return True
        return is_due(progress, newest.episodes + newest.known)

    def try_step(self) -> None:
        """Make a step after a committed call; an error is kept in ``error``."""
        try:
            self.step()
            self.error = None
        except TaskError as error:
            self.error = str(error)

    def _snapshot(self, agent: TaskAgent) -> bytes | None:
        """The snapshot of the agent, or None if it is postponed to save time.

        It is not postponed if episodes are scored: a crash that drops scores would select episodes
        by the cause of the crash (docs/theory/flight.md).
        """
        start = time.monotonic()
        if self._sparing and start < self._next_snapshot and not agent.is_scoring:
            return None
        blob = pack(agent)
        done = time.monotonic()
        self._next_snapshot = done + (done - start) / SNAPSHOT_SHARE
        return blob

    @property
    def _lease(self) -> float:
        return min(max(LEASE, LEASE_FACTOR * self._duration), LONGEST_LEASE)

    def _may_plan(self) -> bool:
        """True if this planner holds the lease; takes it if it is free."""
        if time.monotonic() < self._held_until - self._lease / 2:
            return True
        found = self.store.lease(self.task)
        if found is not None and found[0] != self.holder and 0 < found[1] <= LONGEST_LEASE:
            return False
        other = self.store.transact(self.task, lambda tx: tx.renew_lease(self.holder, self._lease))
        self._held_until = 0.0 if other else time.monotonic() + self._lease
        return other is None

    def release(self) -> None:
        """Release the lease and the agent, which is restored when it is needed."""
        self._agent = None
        if self._held_until:
            self.store.transact(self.task, lambda tx: tx.release_lease(self.holder))
            self._held_until = 0.0


def add_new_events(agent: TaskAgent, store: TaskStore, task: int) -> None:
    """Add all new events of a store to an agent."""
    while True:
        events = store.events(task, agent.seq, CHUNK)
        with decoding(store.name):
            for _, _, actions in store.states(task, agent.experience.states - 1):
                agent.add_state(agent.task.available(actions))  # those of these events, at least
            if not events:
                return
            agent.add_events(events)


def changes(before: StoredPolicy | None, best: Ints, number: int) -> Ints:
    """Return, (H, S), the number of the plan that last changed each action of a policy.

    Args:
        before: the policy of the previous plan.
        best: (H, S) the policy of this plan.
        number: of this plan.

    """
    changed = np.full(best.shape, number)
    if before is not None:
        known = min(best.shape[1], before.best.shape[1])
        same = best[:, :known] == before.best[:, :known]
        changed[:, :known][same] = before.changed[:, :known][same]
    return changed


def pack(agent: TaskAgent) -> bytes:
    """Return the snapshot of an agent in bytes."""
    file = io.BytesIO()
    np.savez(file, **agent.state(), made_by=np.array(LAYOUT))
    return zlib.compress(file.getbuffer(), 1)


def unpack(blob: bytes) -> dict[str, Any] | None:
    """Return the arrays of a snapshot by name; None if it is damaged or has another layout.

    The agent is then rebuilt from the events.
    """
    try:
        with np.load(io.BytesIO(zlib.decompress(blob)), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (zlib.error, ValueError, OSError, EOFError, BadZipFile):
        return None
    return arrays if str(arrays.pop("made_by", "")) == LAYOUT else None


class PlannerThread(Thread):
    """A thread that runs a planner until it is stopped, and retries after errors."""

    def __init__(self, planner: TaskPlanner) -> None:
        super().__init__(name="ucfh-planner", daemon=True)
        self._planner, self._changed, self._stop_now = planner, Event(), False

    def notify(self) -> None:
        """Signal that there are new events."""
        if not self._changed.is_set():
            self._changed.set()

    def stop(self) -> None:
        """Stop after the current plan, and wait for that."""
        self._stop_now = True
        self._changed.set()
        self.join()

    def run(self) -> None:
        """Plan when a plan is due."""
        pause = PAUSE
        while not self._stop_now:
            self._changed.wait(POLL)
            self._changed.clear()
            if self._stop_now:
                return
            start = time.monotonic()
            try:
                self._planner.step()
                self._planner.error = None
                self._planner.report()
                took = time.monotonic() - start
                pause = max(PAUSE, min(PAUSE_RATIO * took, LONGEST_PLAN_PAUSE))
            except Exception as error:  # serving goes on, and says so
                self._planner.error = f"{type(error).__name__}: {' '.join(str(error).split())}"
                pause = min(2 * pause, LONGEST_PAUSE)
            time.sleep(pause)
