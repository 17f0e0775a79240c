"""The agent of a live task: learns from decisions and outcomes that arrive in any order.

    read decisions and outcomes in the order in which the store numbered them
    count, for each state-action pair, the outcomes before its first open decision
        (`ucfh.tasks.delayed_outcomes`)
    plan after 2% more data: bounds, a policy to certify, and a policy to follow
    score episodes whose first policy is close to the frozen one (`ucfh.tasks.scoring`)

It is `ucfh.algorithms.unknown_states.UnknownStatesUCFH` with delayed and missing outcomes. States,
in order of discovery, and actions are integers. Its state is a function of the events, except for
bounds and scores kept from earlier plans: without these its bounds are valid, but wider.
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
from ucfh.certification import certificate_from_sparse_counts
from ucfh.counts import due_after
from ucfh.envs.learning import certificate_of_agent
from ucfh.logs.assumptions import REPLACED, UNCONFOUNDED
from ucfh.sparse_counts import ARRAYS, END, LOST
from ucfh.tasks.config import Declaration
from ucfh.tasks.delayed_outcomes import DelayedOutcomes, PendingStep, steps_of
from ucfh.tasks.records import BY_PERSON, DecisionRecord, OutcomeRecord
from ucfh.tasks.scoring import FrozenPolicy, FrozenPolicyScores

NO_INTERFERENCE = (
    "episodes do not influence each other, and no outcome is missing because of later results of "
    "other episodes; an outcome may be delayed or missing because of its value"
)
"""The assumption on concurrent episodes: (F) and (L) of `docs/theory/flight.md`."""
AS_RECOMMENDED = "the action taken was the recommended one, or the action taken was reported"
"""The assumption on the actions that a live task recommends."""
RECORDED = (
    "steps that the task did not choose were recorded in the order in which they were taken, and "
    "none was left out because of its outcome"
)
"""The assumption on steps that are recorded with their outcome, or read from a log."""


class PolicyToFollow(NamedTuple):
    """A policy to follow.

    Attributes:
        number: of the policy.
        actions: (H, S) to follow, by number of the state; state 0 is the end.
        best: (H, S) the policy to certify.
        known, episodes: numbers of outcomes and episodes at planning time.
        summary: its bounds, in the user's units.

    """

    number: int
    actions: Ints
    best: Ints
    known: int
    episodes: int
    summary: dict[str, Any]


class TaskAgent:
    """An agent that learns from the events of a task.

    Args:
        task: the declaration of the task.
        conflicts: the contradictory reports, (episode, t, action): the decision, and the number
            of the action that the report names, -1 if it is the recommended one. In each episode,
            the outcomes from the first conflict on count as unknown, because the states of later
            decisions are uncertain.

    Attributes:
        agent: the counts, the bounds and the policies.
        delayed: the decisions whose outcomes are not counted yet.
        scores: of the episodes that began with the frozen policy.
        audit: the assumption checks.
        seq: the number of the last event. known: the number of outcomes.
        number: of the last policy, 0 if there is none.
        recorded: whether some actions were not chosen by the task.
        replaced: the number of decisions with a report that names another action.
        prior: by state, the actions (H,) of a prior policy.
        assumed: the assumptions of warm starts, a sentence each.

    """

    def __init__(self, task: Declaration, conflicts: Sequence[tuple[int, int, int]] = ()) -> None:
        self.task, self.units = task, task.units
        self.conflicts = tuple(sorted(conflicts))
        self._first_conflict = {episode: t for episode, t, _ in reversed(self.conflicts)}
        self._other_actions: dict[tuple[int, int], list[int]] = {}  # by decision
        for episode, t, action in self.conflicts:
            self._other_actions.setdefault((episode, t), []).extend([action] if action >= 0 else [])
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
        self.delayed, self.scores = DelayedOutcomes(self.experience.segment), FrozenPolicyScores()
        self.audit = Audit(True if len(task.segments) == H - 1 else task.segments, losses=False)
        self.seq = self.known = self.number = 0
        self.recorded, self.replaced = False, 0
        self.prior: dict[int, Ints] = {}
        self.assumed: tuple[str, ...] = ()
        self._planned, self._declared = 0, len(task.first_states)
        self._default = [0]  # the first action of each state, -1 where there is none
        self._masked: dict[int, Bools] = {}  # by state that does not have all actions, (A,)

    def add_state(self, available: Bools | None = None) -> None:
        """Add the next state by number, with its available actions (A,)."""
        self.experience.find(available)
        first = 0 if available is None else int(np.argmax(available))
        self._default.append(first if available is None or available.any() else -1)
        if available is not None and not available.all():
            self._masked[self.experience.states - 1] = available
        self._close_if_complete()

    def _close_if_complete(self) -> None:
        """Close the state space once all declared states are known.

        Until then, unseen next states count as unknown states: a bound computed from part of the
        declared states would not hold.
        """
        declared = self.task.states is not None
        self.experience.closed = declared and self.experience.states > self._declared

    def add_events(self, events: Sequence[DecisionRecord | OutcomeRecord]) -> None:
        """Add events, in the order of their numbers."""
        self._check_available(events)
        delayed, scores, default, H = self.delayed, self.scores, self._default, self.task.horizon
        shift, span = self.units.shift, self.units.span
        after = self.agent.best.after_end.tolist()
        starts, steps, states = [], [], []
        for event in events:
            if isinstance(event, DecisionRecord):
                _, episode, t, state, action, policy, first = event
                self.recorded |= policy == BY_PERSON
                if t == 0:
                    starts.append(state)
                    scores.begin(episode, first)
                steps.append(t)
                states.append(state)
                scores.decide(episode, t, state, action, default[state])
                named = [x for x in self._other_actions.get((episode, t), ()) if x != action]
                self.replaced += bool(named)
                delayed.decide(episode, t, state, action, named)
            else:
                _, episode, t, reward, following, taken = event
                self.known += 1
                self.replaced += taken is not None
                if t >= self._first_conflict.get(episode, H):
                    scores.leave(episode)
                    delayed.mark_unknown(episode, taken)
                    continue
                scaled = (reward + shift) / span
                is_over = following in (END, LOST) or t + 1 == H or default[following] < 0
                if taken is not None:
                    scores.leave(episode)
                scores.tell(episode, scaled, following, is_over, after[t + 1])
                delayed.tell(episode, scaled, following, is_over, taken)
        if events:
            self.seq = events[-1].seq
        self.experience.begin(np.array(starts, np.int64))
        if steps:
            self.experience.decide(np.array(steps), np.array(states))
        self.experience.add(delayed.counted())
        self.audit.add(*delayed.passed())

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
        """The number of episodes plus the number of outcomes."""
        return self.experience.episodes + self.known

    @property
    def due(self) -> bool:
        """True if there is enough new data to plan again."""
        return is_due(self.progress, self._planned)

    @property
    def is_scoring(self) -> bool:
        """True if episodes that begin with the last policy are scored."""
        return self.number in self.scores.watched

    def continue_numbers(self, summary: dict[str, Any]) -> None:
        """Continue the numbers of frozen policies from the last plan, if its agent is not restored.

        Each number has its own cost in the union bound, so no two policies may share one.
        """
        self.agent.exploration.number = int(summary.get("frozen", 0))

    def plan(self) -> PolicyToFollow:
        """Plan from all events, and return the next policy."""
        agent, beliefs = self.agent, self.agent.exploration
        self._planned = self.progress
        self.number += 1
        self._update_inputs()
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
        """(H, S) actions; those of the prior in every second plan while the upper bound is trivial.

        A state that does not have the action of the prior keeps its own action.
        """
        is_trivial = self.agent.exploration.upper >= self.agent.best.cap[0]
        if not self.prior or not is_trivial or self.number % 2 == 0:
            return actions
        out = actions.copy()
        for state, plan in self.prior.items():
            if state < out.shape[1]:
                available = self.experience.available(state)[plan]
                out[available, state] = plan[available]
        return out

    @property
    def refuted(self) -> bool:
        """True if the audit, or contradictory bounds, refute the assumptions."""
        return self.agent.exploration.contradiction is not None or self.audit.refutes(ALPHA)

    def _summary(self) -> dict[str, Any]:
        """The bounds, in the user's units, and counts of the data behind them."""
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
            "waiting": len({step.order for step in self.delayed.uncounted}),
            "frozen": beliefs.number,
            "contradictions": len(self.conflicts),
        }

    def certificate(self, state_names: Sequence[str], action_names: Sequence[str]) -> Certificate:
        """Return the certificate of the policy from all events.

        Args:
            state_names: (S,) names of the states by number, the end first.
            action_names: (A,) names of the actions.

        """
        self.update_bounds()
        task, data, waiting = self.task, self.experience, self.delayed.uncounted
        contradicted = len({step.order for step in waiting if step.contradicted})
        lost = int(data.lost.sum()) + contradicted
        known = certificate_of_agent(
            self.agent,
            self.units,
            task.epsilon,
            task.max_return,
            state_names[1:],
            tuple(dict.fromkeys((*self.assumed, *self._assumptions()))),
            self.audit_report(state_names, action_names).findings,
            times=range(task.horizon),
        )
        if not waiting and not lost:
            return known
        known_data = data.copy()
        known_data.add(steps_of([step for step in waiting if step.known]))
        if_random = certificate_from_sparse_counts(
            known_data.without_lost(),
            self.units,
            task.max_return,
            task.delta,
            task.epsilon,
            (),
        )
        gap = min(known.gap, if_random.gap)
        return replace(
            known,
            gap_if_random=gap,
            waiting=len({step.order for step in waiting}) - contradicted,
            lost=lost,
            conflicts=len(self._other_actions),
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
        if self._other_actions:
            yield (
                f"{len(self._other_actions)} outcomes have contradictory reports and count as "
                "missing; all other outcomes were reported correctly"
            )
        yield NO_INTERFERENCE

    def update_bounds(self) -> None:
        """Update the bounds and the policy that they apply to with all events."""
        self._update_inputs()
        if self._planned != self.progress:
            self.agent.exploration.update_bounds(self.experience)

    def _update_inputs(self) -> None:
        """Pass the outcomes that arrived ahead, and the best choice of scores, to the bounds."""
        self.experience.ahead = self.delayed.ahead(self.experience)
        self.scores.choose(self.agent.exploration)

    def audit_report(self, state_names: Sequence[str], action_names: Sequence[str]) -> AuditReport:
        """Return the audit report: tested assumptions and findings."""
        self.audit.state_names, self.audit.action_names = state_names, action_names
        return report_of(self.audit, live=True)

    def state(self) -> dict[str, Any]:
        """Return the state of the agent as arrays by name."""
        numbers = [
            *(self.seq, self.known, self.number, self._planned, self.recorded, self.replaced)
        ]
        return {
            **self.agent.state(),
            **self.audit.state(),
            **self.delayed.state(),
            **self.scores.state(),
            "numbers": np.array(numbers, np.int64),
            "conflicts": np.array(self.conflicts, np.int64).reshape(-1, 3),
        }

    def restore(self, arrays: dict[str, Any]) -> None:
        """Continue a new agent from what `state` returned."""
        self.agent.restore(arrays)
        self.audit.restore(arrays)
        self.delayed.restore(arrays)
        self.scores.restore(arrays)
        numbers = arrays["numbers"].tolist()
        self.seq, self.known, self.number, self._planned = numbers[:4]
        self.recorded, self.replaced = bool(numbers[4]), numbers[5]
        available = [self.experience.available(s) for s in range(1, self.experience.states)]
        self._default = [0, *(int(np.argmax(x)) if x.any() else -1 for x in available)]
        self._masked = {s: x for s, x in enumerate(available, 1) if not x.all()}
        self._close_if_complete()

    def differences(self, other: TaskAgent) -> list[str]:
        """Return the differences from the counts of an agent with the same events, a sentence each.

        Integers have to be equal. A sum of n numbers in [0, 1] may be off by n^2/2 roundings of
        2^-53, since the order of summation may differ.
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
        waiting = [[_comparable(x) for x in y.delayed.uncounted] for y in (self, other)]
        if len(waiting[0]) != len(waiting[1]):
            out.append(f"decisions that wait: {len(waiting[0])} and {len(waiting[1])}")
        for mine, others in zip(*waiting, strict=False):
            if mine != others:
                out.append(f"a decision that waits: {mine} and {others}")
                break
        return out


def _comparable(step: PendingStep) -> tuple[object, ...]:
    """A step as values that compare equal, which nan does not."""
    known = f"{float(step.reward)!r}, {int(step.following)}" if step.known else ""
    return step.episode, step.t, step.state, step.action, known


def is_due(progress: int, planned: int) -> bool:
    """True if progress allows a new plan after the one made at progress ``planned``."""
    return progress >= due_after(planned)
