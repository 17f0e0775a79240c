"""Certificates from data: the best certifiable policy, its bounds and uncertainty sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh._utils.defaults import DELTA
from ucfh.auditing.report import report_of
from ucfh.certificate import (
    Certificate,
    DataEstimate,
    UncertaintySource,
    assumptions,
    contradiction,
    in_units,
    uncertainty_sources,
)
from ucfh.confidence.behavior_policy import BehaviorValue, behavior_of
from ucfh.confidence.known_states import KnownStateBounds
from ucfh.confidence.unknown_states import UnknownStateBounds
from ucfh.confidence.value_bounds import Bounds, ValueBounds
from ucfh.counts import MAX_TOTAL, Counts, counts_of
from ucfh.exceptions import InputError, check_unit
from ucfh.mdp import Problem
from ucfh.problems import AnyProblem, as_problem
from ucfh.rewards import DEFAULT, RewardRange
from ucfh.sparse_counts import SparseCounts

if TYPE_CHECKING:
    from ucfh.logs.reading import Log


def certify(
    data: Any, problem: AnyProblem | None = None, delta: float = DELTA, epsilon: float | None = None
) -> Certificate:
    """Return the certificate of the best policy that can be certified from data.

    The data may come from any policies, changed in any way during collection, as long as no
    decision depends on the future: a log selected by outcome makes the certificate void. An agent
    that begins with the same data computes separate bounds: both are valid with probability
    1 - 2 delta.

    Args:
        data: `ucfh.Counts` over the problem's table, or arrays of counts of s' after (s, a), with
            shape (S, A, S) or (H, S, A, S); or the path of a log, or a frame; or a log that
            `ucfh.read_log` has read, if more than a path is needed to read it.
        problem: the known part of the model; optional with a log.
        delta: the probability with which the certificate may be wrong.
        epsilon: the target accuracy, if any.

    Raises:
        InputError: if an argument is invalid, or data and problem do not fit together.

    >>> import numpy as np
    >>> from ucfh import make
    >>> mdp = make("chain:n=3,horizon=3")
    >>> counts = np.round(1000 * mdp.problem.table.dense(mdp.p)).astype(int)
    >>> certificate = certify(counts, mdp.problem, delta=0.05)
    >>> certificate.lower <= mdp.value(certificate.policy) <= certificate.upper
    True

    """
    from ucfh.logs.reading import Log, read_log
    from ucfh.logs.sources import is_source

    if is_source(data):
        data, problem = read_log(data, problem), None
    if isinstance(data, Log):
        if problem is not None:
            raise InputError("a log that has been read has its problem: leave problem out here")
        return certificate_from_log(data, delta, epsilon)
    if problem is None:
        raise InputError("counts need the problem they belong to: pass problem=ucfh.Problem(...)")
    problem = as_problem(problem)
    counts = data if isinstance(data, Counts) else counts_of(data, problem)
    counts.check(problem)
    rest = problem, delta, epsilon, int(counts.visits[-1])
    known = certificate_from_counts(counts, *rest)
    return _with_more(
        known, lambda k: certificate_from_counts(counts.times(k, problem.table), *rest)
    )


MOST_TIMES = 1e3
"""The largest multiple of the data that is reported as an estimate."""
FAR = 1e6
"""The multiple of the data from which, with `MOST_TIMES`, the limit of the gap is extrapolated."""
RATIO = 1.25
"""The search for the multiple ends when it is known within this ratio."""


def _with_more(
    known: Certificate,
    of: Callable[[float], Certificate],
    of_random: Callable[[float], Certificate] | None = None,
) -> Certificate:
    """Return the certificate with the amount of data of the same kind that would reach epsilon.

    Args:
        known: the certificate.
        of: the certificate of k times the data, as a function of k.
        of_random: ``of`` for the data without their missing outcomes; None if there are none.

    """
    epsilon = known.epsilon
    if epsilon is None or known.gap <= epsilon or known.refuted:
        return known
    more, counted = DataEstimate("unknown"), known.episodes * FAR * len(known.policy)
    if 0 < counted < MAX_TOTAL:
        with suppress(_ContradictionError):
            more = _more(known, epsilon, of, of_random)
    return replace(known, more=more)


class _ContradictionError(Exception):
    """The bounds from scaled data contradict each other."""


def _more(
    known: Certificate,
    epsilon: float,
    of: Callable[[float], Certificate],
    of_random: Callable[[float], Certificate] | None,
) -> DataEstimate:
    """Return how much more data would reach epsilon; see `_with_more`."""
    most, far, limit = _limit(of)
    limit_if_random = limit if of_random is None else _limit(of_random)[-1]
    if limit_if_random > epsilon:
        untried = _untried(known) or _untried(far)
        status = "untried" if untried else "unknown" if of_random is None else "missing_outcomes"
        return DataEstimate(status, None, limit, untried)
    # too close: the number of missing outcomes is random
    if limit > epsilon or limit - limit_if_random > epsilon / 2.0:
        return DataEstimate("missing_outcomes", None, limit)
    if most.gap > epsilon:
        return DataEstimate("over_1000_times", None, limit)
    low, high = 1.0, MOST_TIMES
    while high > RATIO * low:  # bisection on a log scale
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _consistent(of, middle).gap > epsilon else (low, middle)
    return DataEstimate("estimated", known.episodes * ((low * high) ** 0.5 - 1.0), limit)


def _limit(of: Callable[[float], Certificate]) -> tuple[Certificate, Certificate, float]:
    """Return the certificates of `MOST_TIMES` and `FAR` times the data, and the limit of the gap.

    The excess over the limit falls at least like 1/sqrt(k).
    """
    most, far = _consistent(of, MOST_TIMES), _consistent(of, FAR)
    fall = (most.gap - far.gap) / ((FAR / MOST_TIMES) ** 0.5 - 1.0)
    return most, far, max(0.0, far.gap - fall)


def _consistent(of: Callable[[float], Certificate], k: float) -> Certificate:
    """Return the certificate of k times the data."""
    known = of(k)
    if known.refuted:
        raise _ContradictionError
    return known


def _untried(known: Certificate) -> tuple[UncertaintySource, ...]:
    """Return the state-action pairs without data that the gap depends on."""
    return tuple(x for x in known.missing if not x.visits and x.state >= 0)


def certificate_from_log(log: Log, delta: float, epsilon: float | None) -> Certificate:
    """Return the certificate from a log, with the audit's findings, in the units of its rewards."""
    findings, assumed = report_of(log.audit).findings, tuple(map(str, log.assumptions))
    if log.told is not None:
        problem, counts = log.told
        rest = problem, delta, epsilon, log.episodes, assumed, log.times
        known = replace(certificate_from_counts(counts, *rest), findings=findings)
        known = _with_more(
            known, lambda k: certificate_from_counts(counts.times(k, problem.table), *rest)
        )
    else:
        assert log.shown is not None
        data = log.shown.experience

        def of(data: SparseCounts) -> Certificate:
            return certificate_from_sparse_counts(
                data,
                log.units,
                log.max_return,
                delta,
                epsilon,
                assumed,
                log.states.names,
                log.closed,
                log.times,
            )

        known = replace(of(data), findings=findings)
        if data.lost.any():
            observed, missing = data.without_lost(), int(data.lost.sum())
            known = replace(known, gap_if_random=of(observed).gap, lost=missing)
            known = _with_more(known, lambda k: of(data.times(k)), lambda k: of(observed.times(k)))
        else:
            known = _with_more(known, lambda k: of(data.times(k)))
    return replace(known, behavior=_behavior(log, delta))


def _behavior(log: Log, delta: float) -> BehaviorValue:
    """Bound the value of the policies that collected a log.

    With known rewards, the return of an episode is the sum of the known means at the states and
    actions of the log. Its expectation equals that of the observed rewards, so the bounds hold for
    the same value, and no column of rewards is needed.
    """
    least, most = log.units.return_range(log.horizon, log.max_return)
    return behavior_of(log.returns, log.complete, least, most, delta)


def certificate_from_counts(
    counts: Counts,
    problem: Problem,
    delta: float,
    epsilon: float | None,
    episodes: int,
    assumed: tuple[str, ...] = (),
    times: range | None = None,
) -> Certificate:
    """Return the certificate from counts over the table of a problem; see `certify`.

    ``assumed``: by default the assumptions of the problem; ``times``: the t of each step.
    """
    if epsilon is not None:
        DEFAULT.scaled_accuracy(check_unit("epsilon", epsilon), problem.horizon)
    best = KnownStateBounds(problem, check_unit("delta", delta), without=("scores",))
    b, taken, lower, gap, by_difference = _best_policy(best, counts)
    lower = max(0.0, lower)
    worst = _suboptimality_bounds(best, b, taken, by_difference)
    shares = np.maximum(
        best.attribute_gap(b, by_difference), best.attribute_gap_untried(b, taken, worst)
    )
    terminal = np.zeros(problem.states, bool)
    terminal[list(problem.terminal)] = True
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
        uncertainty_sources(problem.table.pair_of, counts.visits, shares),
        contradiction(problem.state_names, b.contradiction, delta, times),
        suboptimality=_reported_suboptimality(best, worst, terminal),
        visits=best.evidence.known["n"][taken].astype(np.int64),
    )


def _best_policy(best: ValueBounds, data: Any) -> tuple[Bounds, Any, float, float, bool]:
    """Return all bounds, and rows (H, S), lower bound and gap of the policy with the smaller gap.

    The candidates are the robust policy, with the largest lower bound, and the greedy policy of the
    empirical model, whose gap is bounded directly. The last value is True for the greedy one.
    """
    b = best.bounds(data)
    taken, lower = best.robust()
    if b.difference < b.upper - lower:
        return b, b.greedy, b.lower, b.difference, True
    return b, taken, lower, b.upper - lower, False


def _suboptimality_bounds(best: ValueBounds, b: Bounds, taken: Ints, by_difference: bool) -> Floats:
    """Return (H+1, S) bounds of V* - V^pi for the policy pi with rows (H, S).

    They are D for the greedy policy, and U minus the lower bound of its value for the robust one:
    all of them hold at once.
    """
    return b.D if by_difference else b.U - best.lower_values(taken)


def _reported_suboptimality(best: ValueBounds, worst: Floats, terminal: Bools) -> Floats:
    """Return (H, S) the suboptimality bounds to report, from ``worst`` (H+1, S).

    They are 0 in terminal states (S,), and nan where the data never show the state at that step,
    by the observations at the step or, if steps are pooled, by the known table.
    """
    suboptimality = np.clip(worst[:-1] + best.rounding, 0.0, best.pay.cap[:-1, None])
    rows, n = best.rows, best.evidence.known["n"]
    pairs = np.arange(len(rows.action)) * rows.step
    so_far = np.pad(np.cumsum(n[pairs + rows.offset[:, None]], axis=1), ((0, 0), (1, 0)))
    visits = so_far[:, rows.first[1:]] - so_far[:, rows.first[:-1]]  # of each state
    shown = best.possible() & (visits > 0)
    return np.where(terminal, 0.0, np.where(shown, suboptimality, np.nan))


def certificate_from_sparse_counts(
    data: SparseCounts,
    units: RewardRange,
    max_return: float | None,
    delta: float,
    epsilon: float | None,
    assumed: tuple[str, ...],
    names: Sequence[str] | None = None,
    closed: bool = False,
    times: range | None = None,
) -> Certificate:
    """Return the certificate from sparse counts, in the user's units; see `certify`.

    ``names``: of the states, without the end; ``closed``: whether there are no other states;
    ``times``: the t of each step, 1, 2, ... by default.
    """
    H = data.horizon
    if epsilon is not None:
        units.scaled_accuracy(epsilon, H, max_return)
    most = units.scaled_return(max_return, H)
    best = UnknownStateBounds(
        H, check_unit("delta", delta), most, units.after_end, without=("scores",), closed=closed
    )
    b, taken, lower, gap, by_difference = _best_policy(best, data)
    worst = _suboptimality_bounds(best, b, taken, by_difference)
    shares = np.maximum(
        best.attribute_gap(b, by_difference), best.attribute_gap_untried(b, taken, worst)
    )
    terminal = np.diff(best.rows.first) == 0
    known = Certificate(
        b.upper,
        lower,
        gap,
        best.actions_of(taken),
        epsilon,
        delta,
        data.episodes,
        "counts",
        assumed,
        uncertainty_sources(data.pair_of, best.evidence.known["tries"], shares),
        suboptimality=_reported_suboptimality(best, worst, terminal),
        visits=np.where(terminal, 0, best.evidence.known["n"][taken]).astype(np.int64),
    )
    return in_units(known, units, H, max_return, b.contradiction, names, times)
