"""Plans for a task beside those who serve it.

    loop
        wait until something was told, or a second
        take the events that are new
        if enough is new, and nobody else has the right to: plan; write policy and agent at once
        write a report of what is known, for those who watch, unless that takes much of the time

Several processes may serve one store. The right to plan (a lease) is written there: it ends by
itself if its holder dies, and the holder checks that it still has it in the transaction that writes
a policy. All others serve the policies that it writes. Whoever takes over goes on from what was
written with the last policy.

Asking never waits for this: it has a connection of its own, and compiled code lets others run.
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
"""Events that are taken at a time."""
LEASE = 10.0
"""Seconds for which the right to plan lasts at least."""
PLANS = 4
"""The right lasts that many times as long as the last plan took, if that is longer."""
PACKING = 0.05
"""The part of its time, at most, for which a planner packs what it has learned."""
REPORTING = 0.1
"""The part of its time, at most, for which a planner makes reports."""
PAUSE, POLL, LONGEST_PAUSE = 0.05, 1.0, 60.0
"""Seconds between two plans at least; between two looks at the store; after repeated errors."""
TOO_LARGE = (
    "the memory is not sufficient to plan for this task. Fix: create a task with fewer states or a "
    "shorter horizon"
)
"""Said after memory has run out; planning is not tried again until the task is reopened."""
RESTS, LONGEST_REST = 9.0, 2.0
"""A thread rests that many times as long as its last step took, but not longer than seconds."""


class TaskPlanner:
    """Follows a store, and plans if it may.

    Args:
        store, task: the database, and the number of the task there.
        declaration: what the task is.
        publish: called with each policy that is written.
        names: what the first so many states, the end among them, and all actions are called.
        sparing: whether to write what was learned less often than policies, if it takes long. The
            events are there in any case; an agent that goes on from them has seen the same, and
            remembers less of its earlier bounds.

    Attributes:
        holder: who it is, among those that plan.
        lock: held while the agent is used.
        error: what went wrong when it planned last, None if nothing did.

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
        self._held_until = self._took = self._pack_from = self._report_from = 0.0
        self._reported, self._too_large = 0, False

    def agent(self) -> TaskAgent:
        """The agent with all that was told so far; call it with the lock.

        Raises:
            Refused: the task needs more memory than there is.

        """
        if self._too_large:
            raise InvalidReport(TOO_LARGE)
        self.declaration.check_size(self.store.figures(self.task).states)
        agent, self._agent = self._agent, None  # unless all goes well
        conflicts = self._conflicts()
        if (
            agent is None
            or agent.number < self.store.newest_number(self.task)
            or agent.conflicts != conflicts
        ):
            agent = self._restored(conflicts)
        feed(agent, self.store, self.task)
        self._begin(agent)
        self._agent = agent
        return agent

    def rebuilt(self, like: TaskAgent | None = None) -> TaskAgent:
        """An agent that took all events, or those that another one has taken, and no plans."""
        last = self.store.last_seq(self.task) if like is None else like.seq
        conflicts = self._conflicts() if like is None else like.conflicts
        agent, states = TaskAgent(self.declaration, conflicts), self.store.states(self.task, 0)
        with decoding(self.store.name):
            for _, _, actions in states if like is None else states[: like.experience.states - 1]:
                agent.find(self.declaration.available(actions))
            while agent.seq < last:
                count = min(CHUNK, last - agent.seq)
                events = self.store.events(self.task, agent.seq, count)
                if not events:
                    raise damaged(self.store.name, f"event {agent.seq + 1} is missing")
                agent.take(events)
        return agent

    def _conflicts(self) -> tuple[tuple[int, int, int], ...]:
        """The contradictory reports, in order: episode, step and action, -1 for the one given."""
        actions = self.declaration.actions
        found = self.store.contradictions(self.task)
        with decoding(self.store.name):
            return tuple(
                sorted((e, t, -1 if text is None else actions.index(text)) for e, t, text in found)
            )

    def _begin(self, agent: TaskAgent) -> None:
        """Let an agent know what the task was told to begin with, of the states found so far."""
        begun = self.store.beginnings(self.task)
        agent.assumed = tuple(dict.fromkeys(x.sentence for x in begun if x.sentence))
        prior = {name: line for x in begun for name, line in x.prior.items()}
        if prior:
            for number, text, _ in self.store.states(self.task, 0):
                if (line := prior.get(name_in_log(text))) is not None:
                    agent.prior[number] = np.array(line)

    def _restored(self, conflicts: tuple[tuple[int, int, int], ...]) -> TaskAgent:
        """An agent as it was written with the last policy, or a new one.

        What was learned before an outcome was reported in another way rests on the first report:
        it is not used, and all is counted again from the events.
        """
        agent, found = TaskAgent(self.declaration, conflicts), self.store.snapshot(self.task)
        newest = self.store.newest_policy(self.task)
        arrays = None if found is None else unpacked(found[1])
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
        """Take what is new, and plan if that is due and allowed; whether it did."""
        with self.lock:
            if not self._is_due() or not self._may_plan():
                return False
            begun = time.monotonic()
            try:
                agent = self.agent()
                if not agent.due:
                    return False
                self._agent = None  # unless its plan is written
                begun = time.monotonic()
                planned = agent.plan()
            except MemoryError:
                self._agent, self._too_large = None, True
                raise InvalidReport(TOO_LARGE) from None
            self._took = time.monotonic() - begun
            number, actions, best, known, episodes, summary = planned
            changed = changes(self.store.newest_policy(self.task), best, number)
            summary = {**summary, "layout": LAYOUT}
            policy = StoredPolicy(
                number, time.time(), known, episodes, actions, best, changed, summary
            )
            kept = self._packed(agent)

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
        """Write what is known of the newest policy, if that was not done, and its time has come."""
        with self.lock:
            newest = self.store.newest_number(self.task)
            if newest == self._reported or time.monotonic() < self._report_from:
                return
            kept = self.store.report(self.task)
            if kept is not None and kept.number == newest:
                self._reported = newest
                return
            if not self._may_plan():
                return
            begun = time.monotonic()
            agent = self.agent()
            names = self._names(agent.experience.states)
            known, audit = agent.certificate(*names), agent.audited(*names)
            content = {
                "certificate": known.as_dict(),
                "audit": audit.as_dict(),
                "layout": LAYOUT,
                "contradictions": len(agent.conflicts),
            }
            report = Report(newest, agent.seq, time.time(), content)

            def write(tx: Transaction) -> None:
                if tx.renew_lease(self.holder, self._lease) is None:
                    tx.keep_report(report)

            self.store.transact(self.task, write)
            done = time.monotonic()
            self._reported, self._report_from = newest, done + (done - begun) / REPORTING

    def _is_due(self) -> bool:
        """Whether enough is new, by what the store says; an agent is not needed for that."""
        n, number = self.store.figures(self.task), self.store.newest_number(self.task)
        progress = n.begun + n.outcomes + n.lost
        newest = next(iter(self.store.plans(self.task, number - 1)), None)
        if newest is None or newest.summary.get("layout") != LAYOUT:
            return is_due(progress, 0)
        if n.contradictions != newest.summary["contradictions"]:  # its bounds do not hold
            return True
        return is_due(progress, newest.episodes + newest.known)

    def try_step(self) -> None:
        """Take a step after a call that is written already, and does not fail with it."""
        try:
            self.step()
            self.error = None
        except TaskError as error:
            self.error = str(error)

    def _packed(self, agent: TaskAgent) -> bytes | None:
        """The agent in bytes, unless that would take much of the time, and it may wait.

        If episodes are to be scored it may not: those that a crash makes forgotten would be
        selected by what caused the crash (docs/theory/flight.md).
        """
        begun = time.monotonic()
        if self._sparing and begun < self._pack_from and not agent.watches:
            return None
        blob = packed(agent)
        done = time.monotonic()
        self._pack_from = done + (done - begun) / PACKING
        return blob

    @property
    def _lease(self) -> float:
        return min(max(LEASE, PLANS * self._took), LONGEST_LEASE)

    def _may_plan(self) -> bool:
        """Whether the right to plan is had, perhaps from now on."""
        if time.monotonic() < self._held_until - self._lease / 2:
            return True
        found = self.store.lease(self.task)
        if found is not None and found[0] != self.holder and 0 < found[1] <= LONGEST_LEASE:
            return False
        other = self.store.transact(self.task, lambda tx: tx.renew_lease(self.holder, self._lease))
        self._held_until = 0.0 if other else time.monotonic() + self._lease
        return other is None

    def release(self) -> None:
        """Let others plan, and let go of the agent: it is made again when it is needed."""
        self._agent = None
        if self._held_until:
            self.store.transact(self.task, lambda tx: tx.release_lease(self.holder))
            self._held_until = 0.0


def feed(agent: TaskAgent, store: TaskStore, task: int) -> None:
    """Let an agent take all events that are new to it."""
    while True:
        events = store.events(task, agent.seq, CHUNK)
        with decoding(store.name):
            for _, _, actions in store.states(task, agent.experience.states - 1):
                agent.find(agent.task.available(actions))  # those of these events, at least
            if not events:
                return
            agent.take(events)


def changes(before: StoredPolicy | None, best: Ints, number: int) -> Ints:
    """(H, S) the number of the plan that last changed each action of a policy, of plan number."""
    changed = np.full(best.shape, number)
    if before is not None:
        known = min(best.shape[1], before.best.shape[1])
        same = best[:, :known] == before.best[:, :known]
        changed[:, :known][same] = before.changed[:, :known][same]
    return changed


def packed(agent: TaskAgent) -> bytes:
    """All that an agent holds, in bytes."""
    file = io.BytesIO()
    np.savez(file, **agent.state(), made_by=np.array(LAYOUT))
    return zlib.compress(file.getbuffer(), 1)


def unpacked(blob: bytes) -> dict[str, Any] | None:
    """The arrays that were packed, by name; None if their layout is another, or they are damaged.

    The events are there: what is not unpacked is made again.
    """
    try:
        with np.load(io.BytesIO(zlib.decompress(blob)), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (zlib.error, ValueError, OSError, EOFError, BadZipFile):
        return None
    return arrays if str(arrays.pop("made_by", "")) == LAYOUT else None


class PlannerThread(Thread):
    """Lets a planner run beside other threads, until it is stopped. What fails is tried again."""

    def __init__(self, planner: TaskPlanner) -> None:
        super().__init__(name="ucfh-planner", daemon=True)
        self._planner, self._news, self._stop_now = planner, Event(), False

    def nudge(self) -> None:
        """Say that something is new."""
        if not self._news.is_set():
            self._news.set()

    def stop(self) -> None:
        """End it, after the plan that it is at."""
        self._stop_now = True
        self._news.set()
        self.join()

    def run(self) -> None:
        """Plan when it is due."""
        pause = PAUSE
        while not self._stop_now:
            self._news.wait(POLL)
            self._news.clear()
            if self._stop_now:
                return
            begun = time.monotonic()
            try:
                self._planner.step()
                self._planner.error = None
                self._planner.report()
                took = time.monotonic() - begun
                pause = max(PAUSE, min(RESTS * took, LONGEST_REST))
            except Exception as error:  # serving goes on, and says so
                self._planner.error = f"{type(error).__name__}: {' '.join(str(error).split())}"
                pause = min(2 * pause, LONGEST_PAUSE)
            time.sleep(pause)
