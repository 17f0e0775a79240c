"""A certificate: a policy, and bounds that say how close to optimal it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucfh._utils.arrays import Floats, Ints
from ucfh._utils.files import AnyPath
from ucfh._utils.notebook import block, picture, policy_table, table
from ucfh._utils.plotting import plot_bars
from ucfh.auditing.report import Finding
from ucfh.confidence.behavior_policy import BehaviorValue
from ucfh.confidence.outcomes import ROUND_UP
from ucfh.confidence.value_bounds import BoundContradiction
from ucfh.exceptions import InputError
from ucfh.mdp import Problem
from ucfh.rewards import DEFAULT, RewardRange

SHOWN = 10
"""How many of the pairs that keep a gap wide are named."""


ROUNDING = 1e-9
"""A smaller distance from optimal is none."""

TEXTS = ("upper", "lower", "gap", "epsilon", "delta", "episodes", "method")


@dataclass(frozen=True)
class UncertaintySource:
    """A pair that is known too little, and so keeps the gap wide.

    Attributes:
        segment, state, action: the pair; the segment is 0 where transitions do not depend on it,
            and state and action are -1 for the start.
        visits: how often it was visited.
        share: its share of all that is unknown; all shares sum to 1.

    """

    segment: int
    state: int
    action: int
    visits: int
    share: float


@dataclass(frozen=True)
class DataEstimate:
    """How much more data of the same kind would certify a policy: an estimate, not a bound.

    The counts are multiplied, and the bounds are computed again. Data of the same kind try the
    same actions in the same states, and lose outcomes at the same rate: untried pairs and missing
    outcomes keep the gap open, however many data there are.

    Attributes:
        status: "estimated"; "over_1000_times": it takes more than 1,000 times the data;
            "untried": no number of episodes is enough, as pairs without data keep the gap above
            epsilon; "missing_outcomes": missing outcomes keep the gap above epsilon, or so close
            to it (more than half of epsilon) that no number can be given; "unknown": it cannot be
            estimated, as there are no episodes or the multiplied counts contradict themselves.
        episodes: about how many more episodes it takes; None unless "estimated".
        limit: the gap that remains with any number of episodes; None if it cannot be estimated.
        untried: the state-action pairs without data that the gap depends on, the largest share
            first: they have to be tried, or declared impossible. Empty unless "untried".

    """

    status: str
    episodes: float | None = None
    limit: float | None = None
    untried: tuple[UncertaintySource, ...] = ()


@dataclass(frozen=True, eq=False)
class Certificate:
    """With probability 1 - delta: V* <= upper, V^policy >= lower, and V* - V^policy <= gap.

    Attributes:
        upper: an upper bound of V*. lower: a lower bound of what the policy earns.
        gap: how far the policy may be from optimal: at most upper - lower, often less, since what
            is unknown about both may cancel.
        policy: (H, S).
        epsilon, delta: what was asked for; epsilon is None if no accuracy was.
        episodes: how many the data hold.
        method: how it was obtained.
        assumed: what was assumed, a sentence each.
        missing: the pairs that keep the gap wide, worst first.
        contradiction: how bounds contradict each other, in a sentence: what was assumed is
            refuted, and nothing is certified. None if they do not.
        suboptimality: (H, S) how much more than this policy any other earns from a state at a step
            on, at
            most: V*_t(s) - V^policy_t(s) <= suboptimality, for all of them at once with the same
            probability 1 - delta. 0 where the task is over; nan where the data never show the
            state at that step. None if it was not computed, as by an agent.
        visits: (H, S) how often the data show the policy's action there: at that step, or in all
            steps of its segment. None likewise.
        behavior: what was earned while a log was collected; None where that is not known.
        findings: assumptions that the data refute: nothing is certified if there are any.
        waiting: decisions that do not count yet: their outcomes are yet to come, or that of an
            earlier decision in the same state, with the same action.
        lost: outcomes that are lost.
        more: how much more data of the same kind would reach epsilon; None if none are needed, if
            no epsilon was asked for, or of an agent that collects its own data.
        gap_if_random: the gap if outcomes that are late or lost had nothing to do with what they
            were, which is not assumed; None if there are none.
        conflicts: outcomes that were reported in two different ways; they count as missing.

    """

    upper: float
    lower: float
    gap: float
    policy: NDArray[Any]
    epsilon: float | None
    delta: float
    episodes: int
    method: str
    assumed: tuple[str, ...] = ()
    missing: tuple[UncertaintySource, ...] = field(default=())
    contradiction: str | None = None
    suboptimality: Floats | None = None
    visits: Ints | None = None
    behavior: BehaviorValue | None = None
    findings: tuple[Finding, ...] = ()
    gap_if_random: float | None = None
    waiting: int = 0
    lost: int = 0
    conflicts: int = 0
    more: DataEstimate | None = None

    @property
    def certified(self) -> bool:
        """Whether the policy is epsilon-optimal, with probability 1 - delta."""
        close = self.epsilon is not None and self.gap <= self.epsilon
        return close and not self.refuted

    @property
    def refuted(self) -> bool:
        """Whether the data refute what is assumed."""
        return self.contradiction is not None or bool(self.findings)

    @property
    def improvement(self) -> float | None:
        """What the policy earns more per episode than the logged behavior did, at least.

        With probability 1 - 2 delta, as both bounds have to hold. None is promised if it is
        negative; None if it is not known what the behavior earned.
        """
        return None if self.behavior is None else self.lower - self.behavior.upper

    def as_dict(self) -> dict[str, Any]:
        """All but what there is for each step and state, and the behavior; numbers and texts."""
        out = {name: getattr(self, name) for name in TEXTS}
        if self.contradiction is not None:  # there are no bounds to show
            out |= dict.fromkeys(("upper", "lower", "gap"))
        missing = [vars(x) for x in self.missing]
        return {
            **out,
            "assumed": list(self.assumed),
            "missing": missing,
            "contradiction": self.contradiction,
            "findings": [vars(x) for x in self.findings],
            "gap_if_random": self.gap_if_random,
            "waiting": self.waiting,
            "lost": self.lost,
            "conflicts": self.conflicts,
        }

    @classmethod
    def of_dict(cls, saved: dict[str, Any], policy: NDArray[Any]) -> Certificate:
        """The inverse of `as_dict`."""
        missing = tuple(UncertaintySource(**x) for x in saved["missing"])
        texts = {name: saved[name] for name in TEXTS}
        texts |= {x: nan for x in ("upper", "lower", "gap") if texts[x] is None}
        for name in ("contradiction", "gap_if_random", "waiting", "lost", "conflicts"):
            texts[name] = saved[name]
        texts["findings"] = tuple(Finding(**x) for x in saved["findings"])
        return cls(policy=policy, assumed=tuple(saved["assumed"]), missing=missing, **texts)

    def plot(
        self,
        path: AnyPath | None = None,
        title: str = "",
        force: bool = False,
        ax: Any = None,
    ) -> Any:
        """Draw what the policy and logged behavior earn, and the most that any policy can.

        Returns the figure of matplotlib.

        Args:
            path: a .png, .svg or .pdf file to save it to, if any.
            title: what to write above it.
            force: whether to overwrite an existing file.
            ax: axes of your own to draw on, in place of a new figure.

        """
        if self.refuted:
            raise InputError("the data refute what is assumed: there are no bounds to draw")
        bars = {"this policy": (self.lower, self.upper)}
        if self.behavior is not None:
            bars["logged behavior"] = (self.behavior.lower, self.behavior.upper)
        near = f"within {self.gap:.3g} of optimal" if self.gap > ROUNDING else "optimal"
        sure = f"{100 * (1 - self.delta):.4g} % confidence"
        words = (
            f"at least, with {sure}", "perhaps", f"no policy earns more than {self.upper:.3g}"
        )  # fmt: skip
        return plot_bars(bars, self.upper, words, title or f"{near} ({sure})", path, force, ax)

    def _repr_html_(self) -> str:
        columns = ("state", "action", "visits", "share of the gap")
        rows = [
            [f"{x.state}", f"{x.action}", f"{x.visits}", f"{x.share:.0%}"] for x in self.missing
        ]
        drawing = "" if self.refuted else picture(self.plot(), "bounds on what policies earn")
        missing = ("What keeps the gap wide:", table(columns, rows)) if rows else ()
        return block(repr(self), policy_table(self.policy), drawing, *missing)

    def __repr__(self) -> str:
        what = "certified" if self.certified else "not certified"
        if self.refuted:
            why = self.contradiction or f"refuted: {self.findings[0].assumption}"
            return f"Certificate(not certified: {why}; {self.episodes} episodes)"
        return (
            f"Certificate({what}: {self.lower:.4g} <= V^pi, V* <= {self.upper:.4g}, "
            f"V* - V^pi <= {self.gap:.4g}, delta {self.delta:g}, {self.episodes} episodes)"
        )


def assumptions(problem: Problem) -> tuple[str, ...]:
    """What an agent assumes, given what it was told."""
    steps = "step, state and action" if problem.table.segments > 1 else "state and action"
    out = [
        f"what happens next depends on {steps} only",
        f"an episode lasts {problem.horizon} steps",
    ]
    out.append(
        "rewards lie in [0, 1] and are learned"
        if problem.rewards is None
        else "the given rewards are right"
    )
    out.append("the start is learned" if problem.initial is None else "the given start is right")
    if int(problem.table.lengths[:-1].min()) < problem.states:
        out.append("only the given successors can follow")
    return tuple(out)


def contradiction(
    names: Sequence[str] | None,
    crossing: BoundContradiction | None,
    delta: float,
    times: range | None = None,
) -> str | None:
    """What bounds that contradict each other mean, in a sentence.

    ``names``: of states, if any; ``times``: the t of each step, 1, 2, ... by default.
    """
    if crossing is None:
        return None
    where = ""
    if crossing.state >= 0:
        name = names[crossing.state] if names else crossing.state
        t = crossing.step + 1 if times is None else times[crossing.step]
        where = f" from state {name!r} at step {t}"
    return (
        f"the bounds contradict each other: the value{where} is at most {crossing.above:.6g} by "
        f"one and at least {crossing.below:.6g} by another, which happens with probability "
        f"{delta:g} at most unless an assumption is violated or ucfh has an error"
    )


def what_is_missing(
    pair_of: Callable[[int], tuple[int, int, int]], visits: Any, blame: Any
) -> tuple[UncertaintySource, ...]:
    """The rows with the largest blame (rows,), by segment, state and action; visits (rows,)."""
    total = float(blame.sum())
    worst = np.argsort(-blame, kind="stable")[:SHOWN]
    return tuple(
        UncertaintySource(*pair_of(int(row)), int(visits[row]), float(blame[row] / total))
        for row in worst
        if blame[row] > 0
    )


def in_units(
    known: Certificate,
    units: RewardRange,
    horizon: int,
    max_return: float | None,
    crossing: BoundContradiction | None,
    names: Sequence[str] | None,
    times: range | None = None,
) -> Certificate:
    """A certificate of an open world in the user's units, about the states that were found.

    ``known`` has rewards in [0, 1], and the end as its first state; epsilon and ``max_return`` are
    in the user's units. Bounds are cut to the range of possible returns. ``times``: the t of each
    step, 1, 2, ... by default.
    """
    if crossing is not None:
        left = horizon - crossing.step
        crossing = BoundContradiction(
            crossing.step,
            crossing.state - 1 if crossing.state >= 0 else -1,
            units.value(crossing.above, left),
            units.value(crossing.below, left),
        )
    # three roundings of numbers of this size, outward
    rounded = 0.0 if units == DEFAULT else 2.0**-51 * horizon * (units.span + units.shift)
    least, most = units.return_range(horizon, max_return)
    suboptimality = known.suboptimality
    if suboptimality is not None:
        suboptimality = np.minimum(suboptimality[:, 1:] * (units.span * ROUND_UP), most - least)
    return replace(
        known,
        upper=min(units.value(known.upper, horizon) + rounded, most),
        lower=max(units.value(known.lower, horizon) - rounded, least),
        gap=min(known.gap * units.span + rounded, most - least),
        policy=known.policy[:, 1:],
        contradiction=contradiction(names, crossing, known.delta, times),
        suboptimality=suboptimality,
        visits=None if known.visits is None else known.visits[:, 1:],
    )


def open_assumptions(
    horizon: int,
    segments: int,
    units: RewardRange,
    max_return: float | None,
) -> tuple[str, ...]:
    """What is assumed of a world of which nothing was listed."""
    steps = {horizon: "step, state and action", 1: "state and action"}
    out = [
        f"what happens next depends on {steps.get(segments, 'segment, state and action')} only",
        f"the return of an episode is the sum of its first {horizon} rewards",
        f"rewards lie in {units}",
    ]
    if max_return is not None:
        out.append(f"no episode pays more than {max_return:g} in all")
    return tuple(out)
