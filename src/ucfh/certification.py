"""From data to a certificate: the best policy that they allow, its bounds, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log as ln
from typing import TYPE_CHECKING, Any

import numpy as np

from ucfh._support.arrays import Bools, Floats, Ints
from ucfh._support.defaults import DELTA
from ucfh.auditing.findings import report_of
from ucfh.certificate import (
    Certificate,
    MoreData,
    assumptions,
    contradiction,
    in_units,
    what_is_missing,
)
from ucfh.confidence.behaviour import Behaviour, behaviour_of
from ucfh.confidence.bounds import Bounds, ValueBounds
from ucfh.confidence.open import OpenBest
from ucfh.confidence.values import Best
from ucfh.counts import Counts, counts_of
from ucfh.errors import InputError, check_unit
from ucfh.experience import Experience
from ucfh.problem import Problem
from ucfh.problems import AnyProblem, as_problem
from ucfh.units import DEFAULT, RewardRange

if TYPE_CHECKING:
    from ucfh.logs.reading import Log


def certify(
    data: Any, problem: AnyProblem | None = None, delta: float = DELTA, epsilon: float | None = None
) -> Certificate:
    """What data, collected by any policy, prove about V* and about the best policy found.

    Args:
        data: `ucfh.Counts` over the problem's table, or arrays of counts of s' after (s, a), with
            shape (S, A, S) or (H, S, A, S); or the path of a log, or a frame; or a log that
            `ucfh.read_log` has read, if more than a path is needed to read it.
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
    from ucfh.logs.sources import is_source

    if is_source(data):
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
    rest = problem, delta, epsilon, int(counts.visits[-1])
    known = certificate_of(counts, *rest)
    return _with_more(known, lambda k: certificate_of(counts.times(k, problem.table), *rest))


MOST_TIMES = 1e6
"""How many times the data is taken for any number."""
CLOSE_ENOUGH = 1.2
"""The ratio within which the number of times is found."""
MOST_TRIALS = 6
"""How often bounds are computed for it at most."""


def _with_more(known: Certificate, of: Callable[[float], Certificate]) -> Certificate:
    """The same certificate, with how much more data of the same kind would reach epsilon.

    Args:
        known: the certificate.
        of: the certificate of the same data, a number of times over.

    """
    epsilon, episodes = known.epsilon, known.episodes
    if epsilon is None or known.gap <= epsilon or known.refuted:
        return known
    if not episodes:
        return replace(known, more=MoreData(None, known.gap))
    most = of(MOST_TIMES)
    if most.refuted:
        return known
    if most.gap > epsilon:
        untried = tuple(x for x in most.missing if not x.visits)
        return replace(known, more=MoreData(None, most.gap, untried))
    # between 1 and MOST_TIMES, where the gap falls about like a power: by false position
    (low, above), (high, below) = (1.0, known.gap), (MOST_TIMES, most.gap)
    for trial in range(MOST_TRIALS):
        if high <= CLOSE_ENOUGH * low:
            break
        way = ln(above / epsilon) / ln(above / max(below, 1e-12)) if trial % 2 else 0.0
        guess = low * (high / low) ** way if way else min(low * (above / epsilon) ** 2, high)
        middle = min(max(guess, CLOSE_ENOUGH**0.5 * low), high / CLOSE_ENOUGH**0.5)
        gap = of(middle).gap
        low, above, high, below = (
            (middle, gap, high, below) if gap > epsilon else (low, above, middle, gap)
        )
    return replace(known, more=MoreData(episodes * (high - 1.0), most.gap))


def certificate_of_log(log: Log, delta: float, epsilon: float | None) -> Certificate:
    """The best certificate that a log allows, in the units of its rewards; what it refutes, too."""
    findings = report_of(log.audit).findings
    if log.told is not None:
        problem, counts = log.told
        rest = problem, delta, epsilon, log.episodes, log.assumptions, log.times
        known = replace(certificate_of(counts, *rest), findings=findings)
        known = _with_more(known, lambda k: certificate_of(counts.times(k, problem.table), *rest))
    else:
        assert log.shown is not None
        data = log.shown.experience

        def of(data: Experience) -> Certificate:
            return certificate_of_experience(
                data,
                log.units,
                log.max_return,
                delta,
                epsilon,
                log.assumptions,
                log.states.names,
                log.closed,
                log.times,
            )

        known = replace(of(data), findings=findings)
        known = _with_more(known, lambda k: of(data.times(k)))
        if data.lost.any():
            gap, lost = of(data.without_lost()).gap, int(data.lost.sum())
            known = replace(known, gap_if_random=gap, lost=lost)
    return replace(known, behaviour=_behaviour(log, delta))


def _behaviour(log: Log, delta: float) -> Behaviour:
    """Bound the value of the policies that collected a log.

    With known rewards, the return of an episode is the sum of the known means at the states and
    actions of the log. Its expectation is that of the rewards that were paid, so the bounds hold
    for the same value, and no column of rewards is needed.
    """
    least, most = log.units.return_range(log.horizon, log.max_return)
    return behaviour_of(log.returns, log.complete, least, most, delta)


def certificate_of(
    counts: Counts,
    problem: Problem,
    delta: float,
    epsilon: float | None,
    episodes: int,
    assumed: tuple[str, ...] = (),
    times: range | None = None,
) -> Certificate:
    """The best certificate that counts alone allow; ``times``: the t of each step."""
    if epsilon is not None:
        DEFAULT.scaled_accuracy(check_unit("epsilon", epsilon), problem.horizon)
    best = Best(problem, check_unit("delta", delta), without=("scores",))
    b, taken, lower, gap, by_difference = _best_policy(best, counts)
    lower = max(0.0, lower)
    over = np.zeros(problem.states, bool)
    over[list(problem.terminal)] = True
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
        contradiction(problem.state_names, b.crossing, delta, times),
        doubt=_doubt(best, b, taken, by_difference, over),
        visits=best.evidence.known["n"][taken].astype(np.int64),
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


def _doubt(best: ValueBounds, b: Bounds, taken: Ints, by_difference: bool, over: Bools) -> Floats:
    """(H, S) how much more than the policy that takes rows (H, S) any other earns, at most.

    D for the greedy policy, and U less what it earns at least for the robust one: all of them hold
    at once. 0 where the task is over (S,); nan where data never show the state at that step, by
    what was seen there or, of pooled steps, by what was told.
    """
    worst = b.D if by_difference else b.U - best.lower_values(taken)
    doubt = np.clip(worst[:-1] + best.rounding, 0.0, best.pay.cap[:-1, None])
    rows, n = best.rows, best.evidence.known["n"]
    pairs = np.arange(len(rows.action)) * rows.step
    so_far = np.pad(np.cumsum(n[pairs + rows.offset[:, None]], axis=1), ((0, 0), (1, 0)))
    visits = so_far[:, rows.first[1:]] - so_far[:, rows.first[:-1]]  # of each state
    shown = best.possible() & (visits > 0)
    return np.where(over, 0.0, np.where(shown, doubt, np.nan))


def certificate_of_experience(
    experience: Experience,
    units: RewardRange,
    max_return: float | None,
    delta: float,
    epsilon: float | None,
    assumed: tuple[str, ...],
    names: Sequence[str] | None = None,
    closed: bool = False,
    times: range | None = None,
) -> Certificate:
    """The best certificate that experience alone allows, in the user's units.

    ``names``: of the states that were found, the end left out; ``closed``: there are no others;
    ``times``: the t of each step, 1, 2, ... by default.
    """
    H = experience.horizon
    if epsilon is not None:
        units.scaled_accuracy(epsilon, H, max_return)
    most = units.scaled_return(max_return, H)
    best = OpenBest(
        H, check_unit("delta", delta), most, units.after_end, without=("scores",), closed=closed
    )
    b, taken, lower, gap, by_difference = _best_policy(best, experience)
    blame = best.blame(b, by_difference)
    over = np.diff(best.rows.first) == 0
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
        what_is_missing(experience.pair_of, best.evidence.known["n"], blame),
        doubt=_doubt(best, b, taken, by_difference, over),
        visits=np.where(over, 0, best.evidence.known["n"][taken]).astype(np.int64),
    )
    return in_units(known, units, H, max_return, b.crossing, names, times)
