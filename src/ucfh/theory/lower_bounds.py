"""Information-theoretic lower bounds on the sample complexity of correct stopping rules.

Setting: a stopping rule acts for tau episodes and then outputs a deterministic policy. On every
problem that agrees with its prior knowledge (successors and rewards), that policy is within eps of
optimal with probability 1 - delta. Then, on the given problem,

    sum over pairs x of E[visits(x)] KL(p_x, q_x)  >=  kl(1 - delta, delta)         (Proposition 77)

for each alternative model q (`ucfh.theory.alternative_models`). Expected visits are E[tau] times
those of some, possibly randomized, policy. So for any weights y >= 0 of alternatives
(Proposition 79)

    E[tau]  >=  kl(1 - delta, delta) sum y / C(y),
    C(y) = max over policies of the sum over pairs x of w(x) sum_q y_q KL(p_x, q_x),

where w are visits in an episode. Backward induction computes C(y), so the bound holds for any
weights. The best weights are a linear program, solved by column generation: optimal weights for
the policies found so far, the best policy for these weights, and so on.

For the paper's class of hard problems there is a second bound in closed form
(`hard_class_lower_bound`, Proposition 80), on the worst problem of the class, where the rule does
not know in which of n bandits action 0 is optimal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import floor, inf, log

import numpy as np

from ucfh._utils.arrays import Floats
from ucfh.exceptions import InputError, check_count, check_unit
from ucfh.problems import AnyMDP, AnyProblem, as_mdp, as_problem
from ucfh.theory.alternative_models import (
    Alternative,
    AlternativeSearch,
    OutcomeDistributions,
    outcome_distributions,
)

ROUNDS = 200
"""Most policies added in the search for the best weights."""

TIGHT = 1e-3
"""Relative distance from the optimum of the linear program at which the search ends."""

ROUNDING = 1e-12
"""Relative slack for the number of wrong bandits, so that rounding does not make it smaller."""


@dataclass(frozen=True, eq=False)
class EpisodeLowerBound:
    """The result of `episode_lower_bound`.

    Attributes:
        episodes: the lower bound on the expected number of episodes of any valid rule; 0: some
            rule may need no data.
        epsilon, delta: accuracy and failure probability.
        alternatives: the alternative models with positive weight in the bound.

    """

    episodes: float
    epsilon: float
    delta: float
    alternatives: list[Alternative] = field(default_factory=list, repr=False)


def binary_kl(x: float, y: float) -> float:
    """kl(x, y) = x ln(x/y) + (1-x) ln((1-x)/(1-y)), for 0 <= x <= 1 and 0 < y < 1."""
    return sum(a * log(a / b) for a, b in ((x, y), (1 - x, 1 - y)) if a > 0)


def demand(delta: float) -> float:
    """kl(1 - delta, delta), the required information; 0 for delta >= 1/2: guessing suffices."""
    return binary_kl(1 - delta, delta) if delta < 0.5 else 0.0


def episode_lower_bound(
    mdp: AnyMDP,
    epsilon: float,
    delta: float,
    problem: AnyProblem | None = None,
    progress: Callable[[float], None] | None = None,
) -> EpisodeLowerBound:
    """Return a lower bound on the expected number of episodes of any valid rule.

    It takes seconds for tens of pairs and ten steps, and minutes for hundreds. The bound need not
    be tight: see `ucfh.theory.alternative_models` for the models searched.

    Args:
        mdp: the true MDP, or its name.
        epsilon, delta: the guarantee of the rule: a policy within epsilon of optimal, with
            probability 1 - delta.
        problem: the prior knowledge of the rule; None: ``mdp.problem``.
        progress: called now and then with the share of the work done.

    >>> from ucfh import MDP
    >>> win = [0.5, 0.4]  # a choice between two coins
    >>> coins = MDP([[[0, x, 1 - x] for x in win], [[0, 1, 0]] * 2, [[0, 0, 1]] * 2],
    ...             rewards=[[0], [1], [0]], horizon=2)
    >>> round(episode_lower_bound(coins, epsilon=0.05, delta=0.05).episodes)
    228

    """
    mdp = as_mdp(mdp)
    check_unit("epsilon", epsilon)
    check_unit("delta", delta)
    model = outcome_distributions(mdp, mdp.problem if problem is None else as_problem(problem))
    alternatives = list(AlternativeSearch(model, epsilon).alternatives(progress))
    if not alternatives:
        return EpisodeLowerBound(0.0, epsilon, delta)
    weights, ratio = _best_weights(model, np.array([x.information for x in alternatives]))
    counted = [x for x, y in zip(alternatives, weights, strict=True) if y > 0]
    return EpisodeLowerBound(demand(delta) * ratio, epsilon, delta, counted)


def _most_informative(model: OutcomeDistributions, c: Floats) -> tuple[float, Floats]:
    """Return C, the largest expected sum of c (segments*R,) in an episode, and its visits."""
    unit = float(c.max())  # small numbers would count as ties
    by_outcome = np.repeat(c / unit, np.diff(model.begin))[None]
    Q = replace(model, reward=by_outcome).plan(model.p)
    return unit * model.optimum(Q), model.by_row(model.visits(Q))


def _best_weights(model: OutcomeDistributions, K: Floats) -> tuple[Floats, float]:
    """Return weights (k,) of alternatives with information K (k, segments*R), and sum y / C(y)."""
    first = [_most_informative(model, one) for one in K]
    most = np.array([C for C, _ in first])  # the scale of each alternative, against rounding
    gained = [K @ visits / most for _, visits in first]  # information by policy and alternative
    best, weights = 0.0, np.zeros(len(K))
    for _ in range(ROUNDS):
        y = _solve_packing(np.array(gained), 1 / most) / most
        C, visits = _most_informative(model, y @ K)
        if y.sum() / C > best:
            best, weights = float(y.sum() / C), y
        if C <= 1 + TIGHT:
            break
        gained.append(K @ visits / most)
    return weights, best


def _solve_packing(G: Floats, gain: Floats) -> Floats:
    """Maximize gain (k,) @ z over z >= 0 (k,) with G (j, k) z <= 1, by the simplex method."""
    j, k = G.shape
    T = np.hstack([G, np.eye(j), np.ones((j, 1))])
    reduced, basis = np.append(-gain, np.zeros(j + 1)), np.arange(k, k + j)
    for _ in range(20 * (j + k)):
        enter = int(reduced[:-1].argmin())
        if reduced[enter] >= -1e-12 * gain.max():
            break
        column = T[:, enter]
        ratios = np.where(column > 1e-12, T[:, -1] / np.maximum(column, 1e-12), inf)
        leave = int(ratios.argmin())
        T[leave] /= T[leave, enter]
        others = np.arange(j) != leave
        T[others] -= np.outer(T[others, enter], T[leave])
        reduced -= reduced[enter] * T[leave]
        basis[leave] = enter
    z = np.zeros(k + j)
    z[basis] = np.maximum(T[:, -1], 0.0)
    return z[:k]


def hard_class_lower_bound(
    n: int,
    actions: int,
    horizon: int,
    epsilon: float,
    delta: float,
    gap: float = 0.25,
    bias: float | None = None,
) -> float:
    """Return a lower bound on E[tau] on the worst problem of the class ``hard`` (Proposition 80).

    A wrong action in one of the n bandits costs at least l/n, l = (H-2) min(bias, gap - bias). So
    at most k = floor(n eps/l) of them may be wrong, with probability 1 - delta, and the expected
    share of wrong ones is at most rho = (1 - delta) k/n + delta. With D = -ln(1 - 4 gap^2)/2, the
    divergence of a coin that is fair from one with 1/2 + gap,

        E[tau] >= n (A-1)/D min { kl(1 - a, 2 rho - a) : 0 <= a <= 2 rho },  if rho < 1/2.

    A tangent bounds the minimum of this convex function from below.

    Args:
        n, actions, horizon: the size of the class.
        epsilon, delta: the guarantee of the rule.
        gap, bias: the parameters of `ucfh.problems.paper.hard`; bias None: gap/2.

    >>> round(hard_class_lower_bound(n=10, actions=4, horizon=10, epsilon=0.1, delta=0.1))
    178

    """
    check_count("n", n)
    check_count("actions", actions)
    check_count("horizon", horizon)
    check_unit("epsilon", epsilon)
    check_unit("delta", delta)
    bias = gap / 2 if bias is None else bias
    if not 0 < bias < gap < 0.5:
        raise InputError(f"bias = {bias} and gap = {gap} must be in this order, in (0, 1/2)")
    loss = max(0, horizon - 2) * min(bias, gap - bias)
    wrong = floor(n * epsilon / loss * (1 + ROUNDING)) if loss > 0 else n
    rho = (1 - delta) * min(1.0, wrong / n) + delta
    if rho >= 0.5 or actions == 1:
        return 0.0
    return n * (actions - 1) * _least_divergence(2 * rho) / (-log(1 - 4 * gap**2) / 2)


def _least_divergence(total: float) -> float:
    """min { kl(1 - a, total - a) : 0 <= a <= total } for total < 1, by a tangent from below."""

    def slope(a: float) -> float:
        b = total - a
        return (1 - a) / b - a / (1 - b) - log((1 - a) * (1 - b) / (a * b))

    low, high = 0.0, total
    for _ in range(60):
        a = (low + high) / 2
        low, high = (a, high) if slope(a) < 0 else (low, a)
    steepest = max(slope(a) * a, -slope(a) * (total - a))
    return max(0.0, binary_kl(1 - a, total - a) - steepest)
