"""The floor in slow and obvious ways: all policies listed, flows by linear programming."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import linprog

from ucfh._utils.arrays import Floats
from ucfh.theory.alternative_models import OutcomeDistributions
from ucfh.theory.lower_bounds import binary_kl


def value(m: OutcomeDistributions, p: Floats, policy: dict[tuple[int, int], int]) -> float:
    """What a policy earns that takes, at step t in state s, a row within a segment."""
    V = np.zeros(len(m.initial))
    for t in reversed(range(m.horizon)):
        new = np.zeros_like(V)
        for s in range(len(V)):
            row = m.rows(t).start + policy[t, s]
            for e in range(m.begin[row], m.begin[row + 1]):
                reward = m.reward[min(t, len(m.reward) - 1), e]
                new[s] += p[e] * (reward + V[m.to[e]])
        V = new
    return float(m.initial @ V)


def policies(m: OutcomeDistributions) -> list[dict[tuple[int, int], int]]:
    """Every one of them."""
    nodes = list(product(range(m.horizon), range(len(m.initial))))
    choices = [range(m.first[s], m.first[s + 1]) for _, s in nodes]
    return [dict(zip(nodes, rows, strict=True)) for rows in product(*choices)]


def good_in_both(m: OutcomeDistributions, q: Floats, epsilon: float) -> int:
    """How many policies are within epsilon of optimal by p and by q."""
    values = np.array([[value(m, x, policy) for x in (m.p, q)] for policy in policies(m)])
    return int((values >= values.max(axis=0) - epsilon).all(axis=1).sum())


def fewest(m: OutcomeDistributions, K: Floats) -> float:
    """The least tau for which visits in tau episodes tell 1 of each alternative K (k, rows)."""
    S, R, H = len(m.initial), m.pairs, m.horizon
    tau = H * R  # variables: visits of (t, row), and tau
    balance = np.zeros((H * S, tau + 1))
    for t, k in product(range(H), range(R)):
        balance[t * S + m.state[k], t * R + k] += 1
        row = m.rows(t).start + k
        for e in range(m.begin[row], m.begin[row + 1]):
            if t + 1 < H:
                balance[(t + 1) * S + m.to[e], t * R + k] -= m.p[e]
    balance[:S, tau] = -m.initial
    told = np.zeros((len(K), tau + 1))
    for t in range(H):
        told[:, t * R : (t + 1) * R] = K[:, m.rows(t)]
    cost = np.zeros(tau + 1)
    cost[tau] = 1
    found: Any = linprog(cost, -told, -np.ones(len(K)), balance, np.zeros(H * S))
    assert found.status == 0
    return float(found.fun)


def two_coins(better: float, worse: float, epsilon: float) -> float:
    """The least tau that tells 1 of every model in which the worse is better by epsilon.

    The share w of the better coin that tells most of the nearest model, by trying all.
    """
    moved = np.linspace(worse - epsilon, better, 1001)
    told = np.array(
        [[binary_kl(better, x), binary_kl(worse, x + epsilon)] for x in moved]
    )  # (models, 2)
    w = np.linspace(0, 1, 1001)
    return float(1 / (told @ np.array([w, 1 - w])).min(axis=0).max())
