"""FixedHorizonEVI of the paper's appendix A, line by line, with what is wrong in it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oracles.reference import Bools, Floats, Ints


def published_evi(
    p_hat: Floats,
    n: Ints,
    successors: Bools,
    rewards: Floats,
    horizon: int,
    confidence_set: Callable[[float, int], tuple[float, float]],
    *,
    pay: bool = False,
    pour_on_successors: bool = False,
) -> Floats:
    """FixedHorizonEVI (appendix A) line by line, as published: Q (H,S,A).

    p_hat (S,A,S); n (S,A); successors (S,A,S): whether s' is in S(s,a); rewards (H,S).
    confidence_set: the least and the largest member of ConfidenceSet(p_hat, n).
    pay: add the reward r_t(s) that the published recursion forgets (E1). pour_on_successors: let
    s^(i) run over S(s,a) only (E19).
    """
    S, A = n.shape
    Q = np.zeros((horizon, S, A))
    Q[horizon - 1] = rewards[horizon - 1][:, None]
    for t in range(horizon - 2, -1, -1):
        policy = np.argmax(Q[t + 1], axis=1)
        value = Q[t + 1, np.arange(S), policy]
        order = sorted(range(S), key=lambda x: -value[x])
        for s in range(S):
            for a in range(A):
                inside = successors[s, a]
                p = np.zeros(S)
                for x in np.flatnonzero(inside).tolist():
                    p[x] = confidence_set(p_hat[s, a, x], n[s, a])[0]
                rest = 1 - p[inside].sum()
                i = 0
                states = [x for x in order if inside[x]] if pour_on_successors else order
                while rest > 0 and i < len(states):
                    x = states[i]
                    more = min(rest, confidence_set(p_hat[s, a, x], n[s, a])[1] - p[x])
                    p[x] += more
                    rest -= more
                    i += 1
                Q[t, s, a] = (rewards[t, s] if pay else 0.0) + p[inside] @ value[inside]
    return Q
