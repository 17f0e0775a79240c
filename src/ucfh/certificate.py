"""A certificate: a policy, and bounds that say how close to optimal it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ucfh._support.defaults import DELTA
from ucfh._support.validation import as_array
from ucfh.confidence.bounds import Bounds, Crossing, ValueBounds
from ucfh.confidence.open import OpenBest
from ucfh.confidence.values import Best
from ucfh.counts import MOST_COUNTED, Counts
from ucfh.errors import InputError, check_accuracy, check_unit
from ucfh.experience import Experience
from ucfh.problem import Problem, as_problem
from ucfh.units import DEFAULT, RewardRange

if TYPE_CHECKING:
    from ucfh.logs.reading import Log

SHOWN = 10
"""How many of the pairs that keep a gap wide are named."""


TEXTS = ("upper", "lower", "gap", "epsilon", "delta", "episodes", "method")


@dataclass(frozen=True)
class UnknownPair:
    """A pair that is known too little, and so keeps the gap wide.

    Attributes:
        stage, state, action: the pair; the stage is 0 where transitions do not depend on it, and
            state and action are -1 for the start.
        visits: how often it was visited.
        share: its share of all that is unknown; all shares sum to 1.

    """

    stage: int
    state: int
    action: int
    visits: int
    share: float


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
    missing: tuple[UnknownPair, ...] = field(default=())
    contradiction: str | None = None

    @property
    def certified(self) -> bool:
        """Whether the policy is epsilon-optimal, with probability 1 - delta."""
        close = self.epsilon is not None and self.gap <= self.epsilon
        return close and self.contradiction is None

    def as_dict(self) -> dict[str, Any]:
        """All but the policy, as numbers and texts."""
        out = {name: getattr(self, name) for name in TEXTS}
        missing = [vars(x) for x in self.missing]
        return {
            **out,
            "assumed": list(self.assumed),
            "missing": missing,
            "contradiction": self.contradiction,
        }

    @classmethod
    def of_dict(cls, saved: dict[str, Any], policy: NDArray[Any]) -> Certificate:
        """The inverse of `as_dict`."""
        missing = tuple(UnknownPair(**x) for x in saved["missing"])
        texts = {name: saved[name] for name in TEXTS}
        texts["contradiction"] = saved.get("contradiction")  # not kept before version 0.5
        return cls(policy=policy, assumed=tuple(saved["assumed"]), missing=missing, **texts)

    def __repr__(self) -> str:
        what = "certified" if self.certified else "not certified"
        if self.contradiction is not None:
            return f"Certificate(not certified: {self.contradiction}; {self.episodes} episodes)"
        return (
            f"Certificate({what}: {self.lower:.4g} <= V^pi, V* <= {self.upper:.4g}, "
            f"V* - V^pi <= {self.gap:.4g}, delta {self.delta:g}, {self.episodes} episodes)"
        )


def assumptions(problem: Problem) -> tuple[str, ...]:
    """What a learner assumes, given what it was told."""
    steps = "step, state and action" if problem.table.stages > 1 else "state and action"
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
    names: Sequence[str] | None, crossing: Crossing | None, delta: float
) -> str | None:
    """What bounds that contradict each other mean, in a sentence; names of states, if any."""
    if crossing is None:
        return None
    where = ""
    if crossing.state >= 0:
        name = names[crossing.state] if names else crossing.state
        where = f" from state {name!r} at step {crossing.step + 1}"
    return (
        f"the data contradict the assumptions: one bound says that at most {crossing.above:.6g} is "
        f"earned{where}, another that at least {crossing.below:.6g} is; if all that is assumed "
        f"were true, this would happen with probability {delta:g} at most"
    )


def what_is_missing(
    pair_of: Callable[[int], tuple[int, int, int]], visits: Any, blame: Any
) -> tuple[UnknownPair, ...]:
    """The rows with the largest blame (rows,), by stage, state and action; visits (rows,)."""
    total = float(blame.sum())
    worst = np.argsort(-blame, kind="stable")[:SHOWN]
    return tuple(
        UnknownPair(*pair_of(int(row)), int(visits[row]), float(blame[row] / total))
        for row in worst
        if blame[row] > 0
    )


def certify(
    data: Any, problem: Problem | None = None, delta: float = DELTA, epsilon: float | None = None
) -> Certificate:
    """What data, collected by any policy, prove about V* and about the best policy found.

    Args:
        data: `ucfh.Counts` over the problem's table, or arrays of counts of s' after (s, a), with
            shape (S, A, S) or (H, S, A, S); or the path of a log; or a log that `ucfh.read_log`
            has read, if more than a path is needed to read it.
        problem: what is known; with a log it may be left out.
        delta: the probability with which the certificate may be wrong.
        epsilon: the accuracy to compare the gap with, if any.

    The data may come from any policies, changed at will while they were collected, as long as
    nobody looked into the future: a log selected by outcome makes the certificate void. A learner
    that begins with the same data has bounds of its own: both are right with probability
    1 - 2 delta.

    >>> import numpy as np
    >>> from ucfh import make
    >>> mdp = make("chain:n=3,horizon=3")
    >>> counts = np.round(1000 * mdp.problem.table.dense(mdp.p)).astype(int)
    >>> certificate = certify(counts, mdp.problem, delta=0.05)
    >>> certificate.lower <= mdp.value(certificate.policy) <= certificate.upper
    True

    """
    from ucfh.logs.reading import Log, read_log

    if isinstance(data, (str, PathLike)):
        data, problem = read_log(data, problem), None
    if isinstance(data, Log):
        if problem is not None:
            raise InputError("a log that has been read has its problem: leave problem out here")
        return certificate_of_log(data, delta, epsilon)
    if problem is None:
        raise InputError("counts need the problem they belong to: pass problem=ucfh.Problem(...)")
    problem = as_problem(problem)
    counts = data if isinstance(data, Counts) else counts_of(data, problem)
    counts.check(problem)
    return certificate_of(counts, problem, delta, epsilon, int(counts.visits[-1]))


def certificate_of_log(log: Log, delta: float, epsilon: float | None) -> Certificate:
    """The best certificate that a log allows, in the units of its rewards."""
    if log.told is not None:
        problem, counts = log.told
        return certificate_of(counts, problem, delta, epsilon, log.episodes, log.assumptions)
    assert log.shown is not None
    return certificate_of_experience(
        log.shown.experience,
        log.units,
        log.max_return,
        delta,
        epsilon,
        log.assumptions,
        log.states.names,
        log.closed,
    )


def counts_of(array: Any, problem: Problem) -> Counts:
    """Counts from how often each state followed each pair: (S, A, S) or (H, S, A, S)."""
    table = problem.table
    shape: tuple[int, ...] = (table.states, table.actions, table.states)
    shape = shape if table.stages == 1 else (table.stages, *shape)
    given = as_array("counts", array)
    if given.shape != shape:
        raise InputError(f"counts have shape {given.shape}: this problem needs {shape}")
    whole = given.dtype.kind in "iu" or (
        given.dtype.kind == "f" and bool((given == np.floor(given)).all())
    )
    if not whole or not np.isfinite(given).all():
        raise InputError("counts must be whole numbers")
    if (given < 0).any():
        raise InputError(f"counts must be at least 0: one of them is {given[given < 0][0]}")
    if given.sum(dtype=float) >= MOST_COUNTED:
        raise InputError(f"counts must sum to less than 2^61 = {MOST_COUNTED}: scale them down")
    if problem.rewards is None:
        raise InputError(
            "arrays of counts hold no rewards: give them to the problem, or pass ucfh.Counts"
        )
    counts = Counts.zero(problem)
    rows, indices = table.rectangular()
    flat = given.reshape(-1, table.states).astype(np.int64)
    outside = flat.sum() - flat[rows, indices].sum()
    if outside:
        raise InputError(
            f"{outside} counts are of successors that the problem excludes: leave its successors "
            "out"
        )
    counts.successors[: len(rows)] = flat[rows, indices]
    counts.visits[:-1] = np.add.reduceat(counts.successors, table.indptr[:-1])[:-1]
    return counts


def certificate_of(
    counts: Counts,
    problem: Problem,
    delta: float,
    epsilon: float | None,
    episodes: int,
    assumed: tuple[str, ...] = (),
) -> Certificate:
    """The best certificate that counts alone allow."""
    if epsilon is not None:
        check_unit("epsilon", epsilon)
    best = Best(problem, check_unit("delta", delta), without=("scores",))
    b, taken, lower, gap, by_difference = _best_policy(best, counts)
    return Certificate(
        b.upper,
        lower,
        gap,
        problem.table.policy_of(taken),
        epsilon,
        delta,
        episodes,
        "counts",
        assumed or assumptions(problem),
        what_is_missing(problem.table.pair_of, counts.visits, best.blame(b, by_difference)),
        contradiction(problem.state_names, b.crossing, delta),
    )


def _best_policy(best: ValueBounds, data: Any) -> tuple[Bounds, Any, float, float, bool]:
    """The bounds, and the rows (H, S) of the best policy, what it earns at least, and its gap.

    Two policies compete: the one with the highest guaranteed value, and the greedy one of the
    empirical model, whose distance from the optimum can be bounded directly (then True).
    """
    b = best.bounds(data)
    taken, lower = best.robust()
    if b.difference < b.upper - lower:
        return b, b.greedy, b.lower, b.difference, True
    return b, taken, lower, b.upper - lower, False


def certificate_of_experience(
    experience: Experience,
    units: RewardRange,
    max_return: float | None,
    delta: float,
    epsilon: float | None,
    assumed: tuple[str, ...],
    names: Sequence[str] | None = None,
    closed: bool = False,
) -> Certificate:
    """The best certificate that experience alone allows, in the user's units.

    ``names``: of the states that were found, the end left out; ``closed``: there are no others.
    """
    H = experience.horizon
    if epsilon is not None:
        check_accuracy(epsilon)
    most = units.scaled_return(max_return, H)
    best = OpenBest(
        H, check_unit("delta", delta), most, units.after_end, without=("scores",), closed=closed
    )
    b, taken, lower, gap, by_difference = _best_policy(best, experience)
    blame = best.blame(b, by_difference)
    known = Certificate(
        b.upper,
        lower,
        gap,
        best.actions_of(taken),
        epsilon,
        delta,
        experience.episodes,
        "counts",
        assumed,
        what_is_missing(experience.pair_of, best.evidence.n, blame),
    )
    return in_units(known, units, H, b.crossing, names)


def in_units(
    known: Certificate,
    units: RewardRange,
    horizon: int,
    crossing: Crossing | None,
    names: Sequence[str] | None,
) -> Certificate:
    """A certificate of an open world in the user's units, about the states that were found.

    ``known`` has rewards in [0, 1], and the end as its first state; epsilon is in the user's units.
    """
    if crossing is not None:
        left = horizon - crossing.step
        crossing = Crossing(
            crossing.step,
            crossing.state - 1 if crossing.state >= 0 else -1,
            units.value(crossing.above, left),
            units.value(crossing.below, left),
        )
    # three roundings of numbers of this size, outward
    rounded = 0.0 if units == DEFAULT else 2.0**-51 * horizon * (units.span + units.shift)
    least, most = units.value(0.0, horizon), units.value(float(horizon), horizon)
    return replace(
        known,
        upper=min(units.value(known.upper, horizon) + rounded, most),
        lower=max(units.value(known.lower, horizon) - rounded, least),
        gap=known.gap * units.span + rounded,
        policy=known.policy[:, 1:],
        contradiction=contradiction(names, crossing, known.delta),
    )


def open_assumptions(
    horizon: int,
    stages: int,
    units: RewardRange,
    max_return: float | None,
) -> tuple[str, ...]:
    """What is assumed of a world of which nothing was listed."""
    steps = {horizon: "step, state and action", 1: "state and action"}
    out = [
        f"what happens next depends on {steps.get(stages, 'stage, state and action')} only",
        f"an episode lasts {horizon} steps at most",
        f"rewards lie in {units}",
    ]
    if max_return is not None:
        out.append(f"no episode pays more than {max_return:g} in all")
    return tuple(out)
