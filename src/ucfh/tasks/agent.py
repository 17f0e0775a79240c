"""What learns in a live task: from decisions and outcomes, in whatever order these come.

    take decisions and outcomes as the store has numbered them
    count what comes before the first open decision of each row (`ucfh.tasks.delayed_outcomes`)
    plan once 2 % more has come in: bounds, a policy to certify, and one to follow next
    score the episodes that began with a policy close to the frozen one (`ucfh.tasks.scoring`)

It is `ucfh.algorithms.unknown_states.UnknownStatesUCFH` with outcomes that come late or never. It
knows numbers only: of states, in the order in which they were found, and of actions. It is the same
whoever feeds it, a store or a simulation; all it holds can be made again from the events, but for
bounds and scores that it remembers from earlier plans. Without these it is as right, and less
sharp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ucfh._utils.arrays import Bools, Ints
from ucfh._utils.defaults import ALPHA
from ucfh.algorithms.unknown_states import UnknownStatesUCFH
from ucfh.auditing.e_process import Audit
from ucfh.auditing.report import AuditReport, report_of
from ucfh.certificate import Certificate
from ucfh.certification import certificate_of_experience
from ucfh.counts import due_after
from ucfh.envs.certificates import certificate_of_agent
from ucfh.logs.assumptions import REPLACED, UNCONFOUNDED
from ucfh.sparse_counts import ARRAYS, END, LOST
from ucfh.tasks.config import Declaration
from ucfh.tasks.delayed_outcomes import DelayedOutcomes, PendingStep, steps_of
from ucfh.tasks.records import BY_PERSON, DecisionRecord, OutcomeRecord
from ucfh.tasks.scoring import FrozenPolicy, FrozenPolicyScores

ONE_BY_ONE = (
    "episodes do not influence each other, and none is lost because of what another one showed "
    "later; an outcome may be late or lost because of what it is"
)
"""What is assumed of episodes that overlap: (F) and (L) of `docs/theory/flight.md`."""
AS_RECOMMENDED = "the action taken was the recommended one, or the action taken was reported"
"""What is assumed of actions that a live task recommends."""
RECORDED = (
    "steps that somebody else chose were recorded in the order in which they were taken, and none "
    "was left out for what came of it"
)
"""What is assumed of steps that are recorded with their outcome, or read from a log."""


class PolicyToFollow(NamedTuple):
    """A policy to follow: its number, and the actions (H, S) by number of the state, the end first.

    best: (H, S) the policy to be certified. known, episodes: the outcomes and episodes that it was
    made from. summary: what is known of it, in the user's units.
    """

    number: int
    actions: Ints
    best: Ints
    known: int
    episodes: int
    summary: dict[str, Any]


class TaskAgent:
    """Learns a task from events.

    Args:
        task: what was declared.
        conflicts: the contradictory reports, (episode, t, action): the decision, and the number
            of the action that the report names, -1 if it is the one given. The outcomes from the
            first of them on, in the same episode, count as unknown: in which state later decisions
            were taken is treated as unknown.

    Attributes:
        agent: the counts, the bounds, and what to do next.
        flight, scores, audit: of what is under way, of episodes, and of what is assumed.
        seq: the number of the last event that was taken. known: how many outcomes were.
        number: of the policy that was made last, 0 if there is none.
        recorded: whether somebody else chose some of the actions.
        replaced: how many decisions have a report that names another action than the one given.
        prior: by state, the actions (H,) to begin with, if somebody knows some.
        assumed: what is assumed besides, a sentence each.

    """

    def __init__(self, task: Declaration, conflicts: Sequence[tuple[int, int, int]] = ()) -> None:
        self.task, self.units = task, task.units
        self.conflicts = tuple(sorted(conflicts))
        self._doubtful = {episode: t for episode, t, _ in reversed(self.conflicts)}  # the first
        self._named: dict[tuple[int, int], list[int]] = {}  # by decision, actions of reports
        for episode, t, action in self.conflicts:
            self._named.setdefault((episode, t), []).extend([action] if action >= 0 else [])
        H, A = task.horizon, len(task.actions)
        self.agent = UnknownStatesUCFH(
            H,
            A,
            self.units.scaled_accuracy(task.epsilon, H, task.max_return),
            task.delta,
            segments=task.segments,
            max_return=self.units.scaled_return(task.max_return, H),
            after_end=self.units.after_end,
        )
        self.experience = self.agent.experience
        self.flight, self.scores = DelayedOutcomes(self.experience.segment), FrozenPolicyScores()
        self.audit = Audit(True if len(task.segments) == H - 1 else task.segments, losses=False)
        self.seq = self.known = self.number = 0
        self.recorded, self.replaced = False, 0
        self.prior: dict[int, Ints] = {}
        self.assumed: tuple[str, ...] = ()
        self._planned, self._declared = 0, len(task.first_states)
        self._default = [0]  # the first action of each state, -1 where there is none
        self._masked: dict[int, Bools] = {}  # by state that does not have all actions, (A,)

    def find(self, available: Bools | None = None) -> None:
        """Add a state, the next by number, with the actions that are available (A,)."""
        self.experience.find(available)
        first = 0 if available is None else int(np.argmax(available))
        self._default.append(first if available is None or available.any() else -1)
        if available is not None and not available.all():
            self._masked[self.experience.states - 1] = available
        self._close_if_complete()

    def _close_if_complete(self) -> None:
        """Close the state space once all declared states are found.

        Until then, unseen next states count as unknown states: a bound computed from part of the
        declared states would not hold.
        """
        declared = self.task.states is not None
        self.experience.closed = declared and self.experience.states > self._declared

    def take(self, events: Sequence[DecisionRecord | OutcomeRecord]) -> None:
        """Take events, in the order of their numbers."""
        self._check_available(events)
        flight, scores, default, H = self.flight, self.scores, self._default, self.task.horizon
        shift, span = self.units.shift, self.units.span
        after = self.agent.best.after_end.tolist()
        starts, when, where = [], [], []
        for event in events:
            if isinstance(event, DecisionRecord):
                _, episode, t, state, action, policy, first = event
                self.recorded |= policy == BY_PERSON
                if t == 0:
                    starts.append(state)
                    scores.begin(episode, first)
                when.append(t)
                where.append(state)
                scores.decide(episode, t, state, action, default[state])
                named = [x for x in self._named.get((episode, t), ()) if x != action]
                self.replaced += bool(named)
                flight.decide(episode, t, state, action, named)
            else:
                _, episode, t, reward, following, taken = event
                self.known += 1
                self.replaced += taken is not None
                if t >= self._doubtful.get(episode, H):
                    scores.leave(episode)
                    flight.suboptimality(episode, taken)
                    continue
                paid = (reward + shift) / span
                over = following in (END, LOST) or t + 1 == H or default[following] < 0
                if taken is not None:
                    scores.leave(episode)
                scores.tell(episode, paid, following, over, after[t + 1])
                flight.tell(episode, paid, following, over, taken)
        if events:
            self.seq = events[-1].seq
        self.experience.begin(np.array(starts, np.int64))
        if when:
            self.experience.decide(np.array(when), np.array(where))
        self.experience.add(flight.counted())
        self.audit.add(*flight.passed())

    def _check_available(self, events: Sequence[DecisionRecord | OutcomeRecord]) -> None:
        """Raise `ValueError` if the action of a decision is not available in its state."""
        for event in events:
            if not isinstance(event, DecisionRecord) or event.state not in self._masked:
                continue
            if not self._masked[event.state][event.action]:
                where = f"event {event.seq}, state {event.state}"
                raise ValueError(f"{where}: action {event.action} is not available")

    @property
    def progress(self) -> int:
        """Episodes that began, and outcomes that are known."""
        return self.experience.episodes + self.known

    @property
    def due(self) -> bool:
        """Whether enough is new to plan again."""
        return is_due(self.progress, self._planned)

    @property
    def watches(self) -> bool:
        """Whether episodes that begin with the last policy are scored."""
        return self.number in self.scores.watched

    def continue_numbers(self, summary: dict[str, Any]) -> None:
        """Without what was remembered: number frozen policies on from those of the last plan.

        A number has one price, so that of another policy must not be used again.
        """
        self.agent.exploration.number = int(summary.get("frozen", 0))

    def plan(self) -> PolicyToFollow:
        """Plan from all that was taken, and make the next policy."""
        agent, beliefs = self.agent, self.agent.exploration
        self._planned = self.progress
        self.number += 1
        self._gather()
        agent.plan()
        actions = agent.policy if self.refuted else self._with_prior(agent.actions)
        watch = None
        if beliefs.scoring_rule is not None:
            kept = agent.best.actions_of(beliefs.scoring_rule.rows)
            watch = FrozenPolicy(beliefs.number, kept, actions, beliefs.scoring_rule.leaving)
        self.scores.watch(self.number, watch)
        episodes = self.experience.episodes
        return PolicyToFollow(
            self.number, actions, agent.policy, self.known, episodes, self._summary()
        )

    def _with_prior(self, actions: Ints) -> Ints:
        """(H, S) actions; every second time those of the prior, as long as nothing is known.

        Where a state does not have the action of the prior, its own action stays.
        """
        blind = self.agent.exploration.upper >= self.agent.best.cap[0]
        if not self.prior or not blind or self.number % 2 == 0:
            return actions
        out = actions.copy()
        for state, line in self.prior.items():
            if state < out.shape[1]:
                have = self.experience.available(state)[line]
                out[have, state] = line[have]
        return out

    @property
    def refuted(self) -> bool:
        """Whether the audit, or bounds that contradict each other, refute what is assumed."""
        return self.agent.exploration.contradiction is not None or self.audit.found(ALPHA)

    def _summary(self) -> dict[str, Any]:
        """What is known, in numbers."""
        beliefs, units, H = self.agent.exploration, self.units, self.task.horizon
        known = beliefs.contradiction is None  # else there are no bounds to show
        return {
            "upper": units.value(beliefs.upper, H) if known else None,
            "lower": units.value(max(0.0, beliefs.lower), H) if known else None,
            "gap": beliefs.gap * units.span if known else None,
            "certified": beliefs.gap <= self.agent.epsilon and not self.refuted,
            "refuted": self.refuted,
            "episodes": self.experience.episodes,
            "outcomes": self.known,
            "lost": int(self.experience.lost.sum()),
            "waiting": len({step.order for step in self.flight.uncounted}),
            "frozen": beliefs.number,
            "contradictions": len(self.conflicts),
        }

    def certificate(self, state_names: Sequence[str], action_names: Sequence[str]) -> Certificate:
        """What is known of the policy, from all that was taken; names by number, the end first."""
        self.look()
        task, data, waiting = self.task, self.experience, self.flight.uncounted
        doubtful = len({step.order for step in waiting if step.doubtful})
        lost = int(data.lost.sum()) + doubtful
        known = certificate_of_agent(
            self.agent,
            self.units,
            task.epsilon,
            task.max_return,
            state_names[1:],
            tuple(dict.fromkeys((*self.assumed, *self._assumptions()))),
            self.audited(state_names, action_names).findings,
            times=range(task.horizon),
        )
        if not waiting and not lost:
            return known
        told = data.copy()
        told.add(steps_of([step for step in waiting if step.told]))
        by_chance = certificate_of_experience(
            told.without_lost(),
            self.units,
            task.max_return,
            task.delta,
            task.epsilon,
            (),
        )
        gap = min(known.gap, by_chance.gap)
        return replace(
            known,
            gap_if_random=gap,
            waiting=len({step.order for step in waiting}) - doubtful,
            lost=lost,
            conflicts=len(self._named),
        )

    def _assumptions(self) -> Iterator[str]:
        """Assumptions that depend on how the task was used, a sentence each."""
        if self.task.states is not None:
            yield f"there are no states besides the {len(self.task.states)} that were declared"
        yield AS_RECOMMENDED
        if self.recorded or self.replaced:
            yield UNCONFOUNDED
        if self.recorded:
            yield RECORDED
        if self.replaced:
            yield REPLACED
        if self._named:
            yield (
                f"{len(self._named)} outcomes were reported in two different ways and count as "
                "missing; all other outcomes were reported as they were"
            )
        yield ONE_BY_ONE

    def look(self) -> None:
        """Compute bounds, and the policy that they are about, from all that was taken."""
        self._gather()
        if self._planned != self.progress:
            self.agent.exploration.update_bounds(self.experience)

    def _gather(self) -> None:
        """Let bounds see what was told ahead, and the best choice of scores."""
        self.experience.ahead = self.flight.ahead(self.experience)
        self.scores.choose(self.agent.exploration)

    def audited(self, state_names: Sequence[str], action_names: Sequence[str]) -> AuditReport:
        """What was tested of all that is assumed, and found."""
        self.audit.state_names, self.audit.action_names = state_names, action_names
        return report_of(self.audit, live=True)

    def state(self) -> dict[str, Any]:
        """All that it holds, as arrays by name."""
        numbers = [
            *(self.seq, self.known, self.number, self._planned, self.recorded, self.replaced)
        ]
        return {
            **self.agent.state(),
            **self.audit.state(),
            **self.flight.state(),
            **self.scores.state(),
            "numbers": np.array(numbers, np.int64),
            "conflicts": np.array(self.conflicts, np.int64).reshape(-1, 3),
        }

    def restore(self, arrays: dict[str, Any]) -> None:
        """Continue a new agent from what `state` returned."""
        self.agent.restore(arrays)
        self.audit.restore(arrays)
        self.flight.restore(arrays)
        self.scores.restore(arrays)
        numbers = arrays["numbers"].tolist()
        self.seq, self.known, self.number, self._planned = numbers[:4]
        self.recorded, self.replaced = bool(numbers[4]), numbers[5]
        have = [self.experience.available(s) for s in range(1, self.experience.states)]
        self._default = [0, *(int(np.argmax(x)) if x.any() else -1 for x in have)]
        self._masked = {s: x for s, x in enumerate(have, 1) if not x.all()}
        self._close_if_complete()

    def differences(self, other: TaskAgent) -> list[str]:
        """In which counts two agents differ that took the same events, a sentence each.

        Whole numbers have to be equal; of sums of n numbers in [0, 1], added up in different
        orders, each may be off by n^2/2 roundings of 2^-53.
        """
        out = []
        for name in ARRAYS:
            mine, others = getattr(self.experience, name), getattr(other.experience, name)
            if mine.shape != others.shape:
                out.append(f"{name}: {mine.shape} and {others.shape} numbers")
                continue
            n = np.maximum(self.experience.c, 1.0) if name == "paid" else self.experience.lost
            room = n**2 * 2.0**-53 if name in ("paid", "lost_paid") else 0.0
            wrong = np.flatnonzero(np.abs(mine.astype(float) - others) > room)
            if len(wrong):
                at = wrong[0]
                out.append(f"{name}[{at}]: {mine.flat[at]} and {others.flat[at]}")
        waiting = [[_content(x) for x in y.flight.uncounted] for y in (self, other)]
        if len(waiting[0]) != len(waiting[1]):
            out.append(f"decisions that wait: {len(waiting[0])} and {len(waiting[1])}")
        for mine, others in zip(*waiting, strict=False):
            if mine != others:
                out.append(f"a decision that waits: {mine} and {others}")
                break
        return out


def _content(step: PendingStep) -> tuple[object, ...]:
    """A step in numbers that can be compared, which nan cannot."""
    known = f"{float(step.reward)!r}, {int(step.following)}" if step.told else ""
    return step.episode, step.t, step.state, step.action, known


def is_due(progress: int, planned: int) -> bool:
    """Whether there is enough progress to plan again, after the plan at ``planned``."""
    return progress >= due_after(planned)
