"""A certificate: a policy, with bounds of its value and of its optimality gap."""

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

MAX_SOURCES = 10
"""The largest number of uncertainty sources in a certificate."""

ROUNDING = 1e-9
"""Smaller gaps are reported as 0."""

SCALARS = ("upper", "lower", "gap", "epsilon", "delta", "episodes", "method")


@dataclass(frozen=True)
class UncertaintySource:
    """A state-action pair to which a share of the gap is attributed.

    Attributes:
        segment, state, action: the pair; the segment is 0 where transitions do not depend on it,
            and state and action are -1 for the start.
        visits: the number of visits.
        share: its share of the gap; the shares of all pairs sum to 1.

    """

    segment: int
    state: int
    action: int
    visits: int
    share: float


@dataclass(frozen=True)
class DataEstimate:
    """Estimate, not a bound, of the additional data of the same kind that would certify a policy.

    The counts are multiplied, and the bounds are computed again. Data of the same kind try the
    same actions in the same states, and miss outcomes at the same rate: untried pairs and missing
    outcomes keep the gap open for any amount of data.

    Attributes:
        status: "estimated"; "over_1000_times": it takes more than 1,000 times the data;
            "untried": no number of episodes is enough, as pairs without data keep the gap above
            epsilon; "missing_outcomes": missing outcomes keep the gap above epsilon, or so close
            to it (more than half of epsilon) that no number can be given; "unknown": it cannot be
            estimated, as there are no episodes or the multiplied counts contradict each other.
        episodes: the estimated number of additional episodes; None unless "estimated".
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
        upper: an upper bound of V*. lower: a lower bound of the policy's value.
        gap: an upper bound of the policy's optimality gap: at most upper - lower, often less, since
            uncertainty about both values may cancel.
        policy: (H, S).
        epsilon, delta: the target accuracy, None if there is none, and the failure probability.
        episodes: the number of episodes in the data.
        method: the method of the bounds, such as "counts".
        assumed: the assumptions, a sentence each.
        missing: the pairs with the largest shares of the gap, largest first.
        contradiction: two bounds that contradict each other, in a sentence: the assumptions are
            refuted, and the policy is not certified. None if there are none.
        suboptimality: (H, S) bounds of the suboptimality of the policy from a state and a step on:
            V*_t(s) - V^policy_t(s) <= suboptimality, for all of them at once with the same
            probability 1 - delta. 0 where the task is over; nan where the data never show the
            state at that step. None if it was not computed, as by an agent.
        visits: (H, S) the number of observations of the policy's action: at that step, or in all
            steps of its segment. None if it was not computed.
        behavior: the value of the logged behavior; None if it is unknown.
        findings: assumptions that the data refute: with any, the policy is not certified.
        waiting: the number of decisions that do not count yet: the outcome of the decision, or of
            an earlier decision with the same state and action, is pending.
        lost: the number of missing outcomes.
        more: the additional data of the same kind that would reach epsilon; None if none are
            needed, if there is no epsilon, or for an agent that collects its own data.
        gap_if_random: the gap if pending and missing outcomes were missing at random, which is not
            assumed; None if there are none.
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
        """True if the policy is epsilon-optimal, with probability 1 - delta."""
        close = self.epsilon is not None and self.gap <= self.epsilon
        return close and not self.refuted

    @property
    def refuted(self) -> bool:
        """True if the data refute the assumptions."""
        return self.contradiction is not None or bool(self.findings)

    @property
    def improvement(self) -> float | None:
        """A lower bound of the policy's improvement over the logged behavior, per episode.

        It holds with probability 1 - 2 delta, as both bounds have to hold. It may be negative. None
        if the value of the behavior is unknown.
        """
        return None if self.behavior is None else self.lower - self.behavior.upper

    def as_dict(self) -> dict[str, Any]:
        """Return a dict of numbers and strings, without arrays, `behavior` and `more`."""
        out = {name: getattr(self, name) for name in SCALARS}
        if self.contradiction is not None:  # there are no valid bounds
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
        """Return the certificate of a policy (H, S) from a dict that `as_dict` returned."""
        values = {name: saved[name] for name in SCALARS}
        values |= {x: nan for x in ("upper", "lower", "gap") if values[x] is None}
        more = ("contradiction", "gap_if_random", "waiting", "lost", "conflicts")
        return cls(
            policy=policy,
            assumed=tuple(saved["assumed"]),
            missing=tuple(UncertaintySource(**x) for x in saved["missing"]),
            findings=tuple(Finding(**x) for x in saved["findings"]),
            **values,
            **{name: saved[name] for name in more},
        )

    def plot(
        self,
        path: AnyPath | None = None,
        title: str = "",
        force: bool = False,
        ax: Any = None,
    ) -> Any:
        """Plot the bounds of the values of the policy, the logged behavior and the optimum.

        Args:
            path: a .png, .svg or .pdf file to save it to, if any.
            title: the title of the figure.
            force: whether to overwrite an existing file.
            ax: existing axes to draw on, in place of a new figure.

        Returns:
            The Matplotlib figure.

        Raises:
            InputError: if the data refute the assumptions.

        """
        if self.refuted:
            raise InputError("the data refute the assumptions: there are no bounds to draw")
        bars = {"this policy": (self.lower, self.upper)}
        if self.behavior is not None:
            bars["logged behavior"] = (self.behavior.lower, self.behavior.upper)
        near = f"within {self.gap:.3g} of optimal" if self.gap > ROUNDING else "optimal"
        confidence = f"{100 * (1 - self.delta):.4g}% confidence"
        legend = (
            f"lower bound, {confidence}",
            "up to the upper bound",
            f"upper bound of all policies: {self.upper:.3g}",
        )
        title = title or f"{near} ({confidence})"
        return plot_bars(bars, self.upper, legend, title, path, force, ax)

    def _repr_html_(self) -> str:
        columns = ("state", "action", "visits", "share of the gap")
        rows = [
            [f"{x.state}", f"{x.action}", f"{x.visits}", f"{x.share:.0%}"] for x in self.missing
        ]
        drawing = "" if self.refuted else picture(self.plot(), "bounds of values")
        sources = ("Largest sources of uncertainty:", table(columns, rows)) if rows else ()
        return block(repr(self), policy_table(self.policy), drawing, *sources)

    def __repr__(self) -> str:
        verdict = "certified" if self.certified else "not certified"
        if self.refuted:
            why = self.contradiction or f"refuted: {self.findings[0].assumption}"
            return f"Certificate(not certified: {why}; {self.episodes} episodes)"
        return (
            f"Certificate({verdict}: {self.lower:.4g} <= V^pi, V* <= {self.upper:.4g}, "
            f"V* - V^pi <= {self.gap:.4g}, delta {self.delta:g}, {self.episodes} episodes)"
        )


def assumptions(problem: Problem) -> tuple[str, ...]:
    """Return the assumptions about a problem with known states, a sentence each."""
    steps = "step, state and action" if problem.table.segments > 1 else "state and action"
    out = [
        f"the next state and the reward depend on {steps} only",
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
    bounds: BoundContradiction | None,
    delta: float,
    times: range | None = None,
) -> str | None:
    """Return a sentence about two bounds that contradict each other, or None.

    ``names``: of states, if any; ``times``: the t of each step, 1, 2, ... by default.
    """
    if bounds is None:
        return None
    where = ""
    if bounds.state >= 0:
        name = names[bounds.state] if names else bounds.state
        t = bounds.step + 1 if times is None else times[bounds.step]
        where = f" from state {name!r} at step {t}"
    return (
        f"the bounds contradict each other: the value{where} is at most {bounds.above:.6g} by "
        f"one and at least {bounds.below:.6g} by another, which happens with probability "
        f"{delta:g} at most unless an assumption is violated or ucfh has an error"
    )


def uncertainty_sources(
    pair_of: Callable[[int], tuple[int, int, int]], visits: Any, shares: Any
) -> tuple[UncertaintySource, ...]:
    """Return the pairs with the largest shares (rows,) of the gap, in any unit; visits (rows,)."""
    total = float(shares.sum())
    largest = np.argsort(-shares, kind="stable")[:MAX_SOURCES]
    return tuple(
        UncertaintySource(*pair_of(int(row)), int(visits[row]), float(shares[row] / total))
        for row in largest
        if shares[row] > 0
    )


def in_units(
    known: Certificate,
    units: RewardRange,
    horizon: int,
    max_return: float | None,
    bounds: BoundContradiction | None,
    names: Sequence[str] | None,
    times: range | None = None,
) -> Certificate:
    """Return a certificate for an unknown state space in the user's units.

    ``known`` has rewards in [0, 1], and the end as its first state; epsilon and ``max_return`` are
    in the user's units. Bounds are cut to the range of possible returns. ``bounds`` contradict each
    other, if there are such bounds; ``times``: the t of each step, 1, 2, ... by default.
    """
    if bounds is not None:
        remaining = horizon - bounds.step
        bounds = BoundContradiction(
            bounds.step,
            bounds.state - 1 if bounds.state >= 0 else -1,
            units.value(bounds.above, remaining),
            units.value(bounds.below, remaining),
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
        contradiction=contradiction(names, bounds, known.delta, times),
        suboptimality=suboptimality,
        visits=None if known.visits is None else known.visits[:, 1:],
    )


def assumptions_for_unknown_states(
    horizon: int,
    segments: int,
    units: RewardRange,
    max_return: float | None,
) -> tuple[str, ...]:
    """Return the assumptions about a problem with unknown states, a sentence each."""
    steps = {horizon: "step, state and action", 1: "state and action"}
    depends = steps.get(segments, "segment, state and action")
    out = [
        f"the next state and the reward depend on {depends} only",
        f"the return of an episode is the sum of its first {horizon} rewards",
        f"rewards lie in {units}",
    ]
    if max_return is not None:
        out.append(f"no episode pays more than {max_return:g} in all")
    return tuple(out)
