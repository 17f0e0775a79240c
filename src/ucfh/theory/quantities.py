"""Quantities of the paper's proof: weights, importance, knownness, balance, and variances.

For a policy, d_t(s) is the probability of s at step t and w(s,a) = sum_t d_t(s) 1{pi_t(s) = a} the
expected number of visits of a pair in an episode; they sum to H. With z among 0, 1, 2, 4, 8, ...

    importance  iota(s,a)  = the largest z <= w(s,a)/w_min
    knownness   kappa(s,a) = the largest z <= n(s,a)/(m w(s,a))

The paper defines importance as the smallest z >= w(s,a)/w_min, for which its proof does not hold
(`docs/theory/errata.md`, E4). X_{kappa,iota} are the pairs of w > 0 that share both. A phase is
*balanced* if no X_{kappa,iota} with iota > 0 has more than kappa pairs: important pairs are known
(Section 3.1). Then, if the true MDP is in the confidence sets, |V~ - V| <= epsilon.

The local variance sigma^2_t(s) = Var(r + V_{t+1}(s_{t+1}) | s_t = s) adds up to the variance of an
episode's reward (Lemma 4): Var_t = P_t Var_{t+1} + sigma^2_t, so that sum_t d_t sigma^2_t <= H^2.

Two models differ in the value of a policy by (Lemma C.4; with r(s,a,s') the term (P - P~) r joins)

    V_1 - V~_1 = sum_t P_{1:t-1} (P_t - P~_t) V~_{t+1}
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np

from ucfh._utils.arrays import Floats, Ints
from ucfh.exceptions import InputError
from ucfh.mdp import MDP
from ucfh.planning import occupancy

MANY, BATCH = 2_000_000, 2_000_000
"""Most stationary policies to enumerate, and the size of a batch of numbers."""


def category(x: Any) -> Ints:
    """Return the largest z of 0, 1, 2, 4, ... with z <= x; exact, x of any shape, at most 2^62.

    >>> category([0.0, 0.99, 1.0, 3.9, 4.0])
    array([0, 0, 1, 2, 4])

    """
    given = np.asarray(x, float)
    if not (given >= 0).all():
        raise InputError(
            "importance and knownness need numbers of at least 0: check weights and visits"
        )
    _, exponent = np.frexp(given)
    z = np.ldexp(1.0, np.minimum(exponent, 63) - 1)
    return np.where(given >= 1, z, 0.0).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Knownness:
    """The pairs of a phase by knownness and importance.

    Attributes:
        w: (rows,) the weight of each pair, or of each (t, s, a) triple with segments.
        iota, kappa: (rows,) importance and knownness; 0 for pairs with w = 0.
        cells: {(kappa, iota): |X_{kappa,iota}|}, the number of pairs of w > 0 that share both.

    """

    w: Floats
    iota: Ints
    kappa: Ints
    cells: dict[tuple[int, int], int]

    @property
    def balanced(self) -> bool:
        """True if |X_{kappa,iota}| <= kappa for all kappa and all iota > 0."""
        return all(size <= kappa for (kappa, iota), size in self.cells.items() if iota > 0)


def knownness(w: Any, n: Any, m: float, w_min: float) -> Knownness:
    """Return importance and knownness of pairs.

    Args:
        w: (rows,) weights.
        n: (rows,) visits.
        m, w_min: constants of UCFH (`ucfh.theory.constants`).

    >>> seen = knownness(w=[0.5, 0.5, 1.0], n=[100, 0, 400], m=100, w_min=0.25)
    >>> seen.iota, seen.kappa, seen.balanced
    (array([2, 2, 4]), array([2, 0, 4]), False)

    """
    weight, visits = np.asarray(w, float), np.asarray(n, float)
    iota = category(weight / w_min)
    seen = np.zeros_like(weight)
    with np.errstate(over="ignore"):  # more than any knownness
        np.divide(visits, m * weight, out=seen, where=weight > 0)
    kappa = category(np.minimum(seen, 2.0**62))
    cells: dict[tuple[int, int], int] = {}
    for cell in zip(kappa[weight > 0].tolist(), iota[weight > 0].tolist(), strict=True):
        cells[cell] = cells.get(cell, 0) + 1
    return Knownness(weight, iota, kappa, dict(sorted(cells.items())))


def weights_by_row(mdp: MDP, policy: Any) -> Floats:
    """(rows - 1,) w of each pair (table row) under a policy (H, S)."""
    table = mdp.table
    rows = table.rows_of(policy, mdp.horizon)
    w = np.bincount(rows.ravel(), occupancy(table, mdp.p, rows).ravel(), table.start)
    return np.asarray(w, np.float64)


def local_variances(mdp: MDP, policy: Any, p: Floats | None = None) -> tuple[Floats, Floats]:
    """Return local variances sigma^2_t(s) and occupancies d_t(s), both (H, S).

    Args:
        mdp: the MDP; the noise of its rewards is not included.
        policy: (H, S) actions.
        p: (H, entries) probabilities in place of the MDP's.

    """
    table, H = mdp.table, mdp.horizon
    rows = table.rows_of(policy, H)
    model = np.broadcast_to(mdp.p, (H, table.entries)) if p is None else p
    V, sigma, d = np.zeros((H + 1, table.states)), np.zeros(rows.shape), np.zeros(rows.shape)
    for t in reversed(range(H)):
        for s in range(table.states):
            at = table.entries_of(int(rows[t, s]))
            x = V[t + 1, table.indices[at]] + _rewards_at(mdp, t, int(rows[t, s]))
            V[t, s] = model[t, at] @ x
            sigma[t, s] = model[t, at] @ (x - V[t, s]) ** 2
    start = table.entries_of(table.start)
    d[0, table.indices[start]] = mdp.p[start]
    for t, s in np.ndindex(H - 1, table.states):
        at = table.entries_of(int(rows[t, s]))
        np.add.at(d[t + 1], table.indices[at], d[t, s] * model[t, at])
    return sigma, d


def value_difference(mdp: MDP, p: Floats, policy: Any) -> tuple[float, float]:
    """Return both sides of V - V~ = sum_t P_{1:t-1} (P_t - P~_t)(r + V~_{t+1}) for one policy.

    Args:
        mdp: the MDP; its start distribution is used for both.
        p: p~ (entries,), or (H, entries) if it depends on the step, as in FixedHorizonEVI.
        policy: (H, S) actions.

    """
    table, H = mdp.table, mdp.horizon
    rows = table.rows_of(policy, H)
    other = np.broadcast_to(p, (H, table.entries))
    V = np.zeros((H + 1, table.states))
    difference = 0.0
    d = occupancy(table, mdp.p, rows)
    for t in reversed(range(H)):
        for s in range(table.states):
            at = table.entries_of(int(rows[t, s]))
            ahead = V[t + 1, table.indices[at]] + _rewards_at(mdp, t, int(rows[t, s]))
            V[t, s] = other[t, at] @ ahead
            difference += d[t, s] * float((mdp.p[at] - other[t, at]) @ ahead)
    return mdp.value(policy) - mdp.at_start(V), difference


def _rewards_at(mdp: MDP, t: int, row: int) -> Floats:
    """(k,) rewards of a table row at step t, by its successors."""
    rewards, at = mdp.rewards, mdp.table.entries_of(row)
    pair = rewards.pair[min(t, len(rewards.pair) - 1), row - t * mdp.table.stride]
    out = np.full(at.stop - at.start, pair)
    if rewards.successor is not None:
        out += rewards.successor[min(t, len(rewards.successor) - 1), at]
    return out


def best_stationary(mdp: MDP) -> tuple[float, int]:
    """Return the largest value of a stationary policy, and the number of these, by enumeration.

    >>> from ucfh import make
    >>> mdp = make("tutoring:horizon=4")
    >>> value, policies = best_stationary(mdp)
    >>> policies, value < mdp.at_start(mdp.optimal().values)
    (262144, True)

    """
    table, H, S = mdp.table, mdp.horizon, mdp.states
    if table.segments > 1:
        raise InputError(
            "the transitions of the MDP depend on t: pass an MDP with stationary transitions"
        )
    choices = np.diff(table.first)
    policies = prod(choices.tolist())
    if policies > MANY:
        least = f"2^{policies.bit_length() - 1}"  # a float may be too small for it
        raise InputError(
            f"{least} stationary policies are too many to try: pass an MDP with {MANY} or fewer"
        )
    P = np.zeros((table.pairs, S))
    inside = slice(0, int(table.indptr[table.start]))
    P[table.row_of_entry[inside], table.indices[inside]] = mdp.p[inside]
    r = mdp.mean_rewards
    best, batch = -inf, max(1, BATCH // table.pairs)
    for first in range(0, policies, batch):
        number = np.arange(first, min(first + batch, policies))
        row = np.empty((len(number), S), np.int64)
        for s in range(S):
            number, which = np.divmod(number, choices[s])
            row[:, s] = table.first[s] + which
        V = np.zeros(row.shape)
        for t in reversed(range(H)):
            V = np.take_along_axis(V @ P.T + r[min(t, len(r) - 1)], row, axis=1)
        best = max(best, float((V @ mdp.initial).max()))
    return best, policies
