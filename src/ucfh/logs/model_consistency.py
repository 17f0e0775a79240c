"""Consistency test of a log with a model.

An agent that begins with a log and continues in a model must not mix two tasks. Take a row of the
table, its probabilities p in the model, and c_j of n outcomes in the log. If the log came from the
model, the mixture of likelihoods of `ucfh._kernels.mixtures` over that of p would be a martingale
of mean one, for any behavior policy. So would the mean of these ratios over R rows; by Ville's
inequality, no row's ratio ever exceeds R/alpha, except with probability alpha. Its logarithm is
n KL(p^, p) - excess. For unknown rewards, with mean x of n in the log and mu in the model, it is at
least n kl(x, mu) - reg(n).
"""

from __future__ import annotations

from math import log

import numpy as np

from ucfh._kernels.mixtures import excess, portfolio_regret
from ucfh._utils.arrays import Floats
from ucfh._utils.defaults import ALPHA
from ucfh._utils.files import labels_of
from ucfh.counts import Counts
from ucfh.mdp import MDP, Problem
from ucfh.transitions import Table

ROUNDED = 1e-9
"""The rounding error of sums of rewards, and of means in a model."""


def disagreement(counts: Counts, problem: Problem, mdp: MDP, alpha: float = ALPHA) -> str | None:
    """Return how the counts of a log contradict a model, in words, or None.

    Args:
        counts: over the table of ``problem``.
        problem: the prior knowledge, with the states, actions and horizon of the model.
        mdp: the model.
        alpha: the probability of a false alarm.

    """
    table = problem.table
    model = mdp.by_segment() if table.segments > 1 else mdp
    p = np.zeros(table.entries)
    p[table.positions_of(model.table)] = model.p
    of_transitions = _by_successors(counts, table, p)
    of_rewards, mu = np.zeros(table.start), np.zeros(table.start)
    if problem.rewards is None:
        mu = np.broadcast_to(model.mean_rewards, (table.segments, table.pairs)).ravel()
        of_rewards = _by_rewards(counts, table, mu)
    if max(of_transitions.max(), of_rewards.max()) < log((table.rows + table.start) / alpha):
        return None
    states, actions = labels_of(problem)

    def pair(row: int) -> str:
        t, s, a = table.pair_of(row)
        at = f" at step {t + 1}" if table.segments > 1 else ""
        return f"action {str(actions.label(a))!r} in state {str(states.label(s))!r}{at}"

    if of_rewards.max() > of_transitions.max():
        row = int(of_rewards.argmax())
        n = counts.visits[row]
        mean = counts.reward_sums(table)[row] / n
        return f"{pair(row)} pays {mean:.3g} in the log ({n} visits) but {mu[row]:.3g} in the model"
    row = int(of_transitions.argmax())
    at, n = table.entries_of(row), counts.visits[row]
    share = counts.successors[at] / n
    j = int(np.abs(share - p[at]).argmax())
    state = str(states.label(int(table.indices[at][j])))
    what = f"an episode begins in state {state!r}"
    if row != table.start:
        what = f"after {pair(row)}, state {state!r} follows"
    return f"{what} in {share[j]:.1%} of {n} cases in the log, but in {p[at][j]:.1%} in the model"


def _by_successors(counts: Counts, table: Table, p: Floats) -> Floats:
    """Return the log ratio of each row (rows,), with p (entries,) in the model."""
    beyond = np.zeros(table.rows)
    excess(table.indptr, counts.successors, counts.visits, True, beyond)
    n = np.maximum(counts.visits, 1)[table.row_of_entry]
    entropy = n * _entropy(counts.successors / n, p)
    return np.asarray(np.add.reduceat(entropy, table.indptr[:-1]) - beyond)


def _by_rewards(counts: Counts, table: Table, mu: Floats) -> Floats:
    """Return the log ratio of rewards (rows - 1,), with means mu (rows - 1,) in the model."""
    n = np.maximum(counts.visits[:-1], 1)
    x = np.clip(counts.reward_sums(table)[:-1] / n, 0.0, 1.0)
    # the mean nearest to x among those that rounding may have turned into mu
    mu = np.clip(np.clip(x, mu - ROUNDED, mu + ROUNDED), 0.0, 1.0)
    ratio = n * (_entropy(x, mu) + _entropy(1 - x, 1 - mu)) - portfolio_regret(n)
    return np.where(counts.visits[:-1] > 0, ratio, 0.0)


def _entropy(q: Floats, p: Floats) -> Floats:
    """Return q ln(q/p), 0 where q = 0, infinite where only p = 0; elementwise."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(q > 0, q * np.log(q / p), 0.0)
