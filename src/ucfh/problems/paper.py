"""The class of hard problems in Figure 1 of Dann and Brunskill (NIPS 2015)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import e

import numpy as np

from ucfh._utils.arrays import Ints
from ucfh.exceptions import InputError
from ucfh.mdp import MDP
from ucfh.problems._building import check_real, check_room, check_whole, compress


def hard(
    *,
    n: int = 10,
    actions: int = 4,
    horizon: int = 10,
    gap: float = 0.25,
    bias: float | None = None,
    hypothesis: str = "",
    epsilon: float | None = None,
    seed: int = 0,
) -> MDP:
    """The paper's hard class: n bandits, of which each episode visits one, once.

    From the start 0 an episode moves to a bandit i in 1..n with probability 1/n each, for every
    action; from there to + with probability 1/2 + e_i(a), else to -, and stays. The reward is 1 in
    + and 0 elsewhere. Action 0 has e_i(0) = bias; a hypothesis I names an action I_i for every
    bandit, with e_i(I_i) = gap if I_i >= 1, while for I_i = 0 no action is better than action 0;
    e_i is 0 otherwise. The class is all A^n hypotheses (`hypotheses`). States: 0, 1..n, +, -.

    Optimum: R* = max(0, H-2) (1/2 + mean over i of max over a of e_i(a)).

    Args:
        n: the number of bandits.
        actions: A.
        horizon: H.
        gap: the advantage of the best action of a bandit over a fair coin: the figure's
            epsilon and the proof's eps'. At most 1/2; the paper needs at most 1/4.
        bias: the advantage of action 0 over a fair coin; gap/2 unless given.
        hypothesis: I_1 to I_n, such as ``0-2-1`` for three bandits; drawn with the seed unless
            given.
        epsilon: the accuracy for which the proof of Theorem 2 builds the problem. If given, it
            sets the gap, to eps' = 16 epsilon e^4 / ((H-2) eta) with eta = 1/10. The proof needs
            eps' <= 1/4, which is epsilon <= (H-2) / (640 e^4).
        seed: the random seed of the hypothesis.

    >>> from ucfh.problems import make
    >>> mdp = make("hard:n=3,actions=3,horizon=10,gap=0.25,hypothesis=0-2-1")
    >>> round(mdp.value(mdp.optimal().policy), 6)  # 8 (1/2 + (1/8 + 1/4 + 1/4) / 3)
    5.666667

    """
    check_whole("n", n, 1)
    check_whole("actions", actions, 1, 10**4)
    check_whole("horizon", horizon, 1)
    check_whole("seed", seed, 0, 2**63)
    check_room(3 * n * actions, "choose fewer bandits or actions")
    gap = check_real("gap", gap, 0, 0.5) if epsilon is None else _proof_gap(epsilon, horizon)
    bias = check_real("bias", gap / 2 if bias is None else bias, 0, 0.5)
    if hypothesis:
        best = _read_hypothesis(hypothesis, n, actions)
    else:
        best = np.random.default_rng(seed).integers(actions, size=n)

    S, plus, minus = n + 3, n + 1, n + 2
    bandit, a = np.arange(1, n + 1)[:, None], np.arange(actions)
    lead = np.where(a == best[:, None], gap, 0.0)  # (n, A) e_i(a)
    lead[:, 0] = bias
    ends = np.array([[plus], [minus]])
    transitions = compress(
        S,
        actions,
        (0, a, bandit, 1 / n),
        (bandit, a, plus, 0.5 + lead),
        (bandit, a, minus, 0.5 - lead),
        (ends, a, ends, 1.0),
    )
    return MDP(
        transitions,
        rewards=(np.arange(S) == plus)[:, None],
        horizon=horizon,
        state_names=[*map(str, range(n + 1)), "+", "-"],
    )


def hypotheses(n: int, actions: int) -> Iterator[str]:
    """Yield all A^n hypotheses of the class, as `hard` takes them.

    >>> list(hypotheses(n=2, actions=2))
    ['0-0', '0-1', '1-0', '1-1']

    """
    for choice in product(range(actions), repeat=n):
        yield "-".join(map(str, choice))


def _proof_gap(epsilon: float, horizon: int) -> float:
    """eps' = 16 epsilon e^4 / ((H-2) eta) of the proof of Theorem 2."""
    if horizon <= 2:
        raise InputError(f"horizon={horizon} is too short for epsilon: it must be at least 3")
    most = (horizon - 2) / (640 * e**4)
    if not 0 < epsilon <= most:
        raise InputError(
            f"epsilon={epsilon} is out of range: the proof of Theorem 2 needs it above 0 and at "
            f"most (H-2)/(640 e^4) = {most:.6g}, for gaps up to 1/4"
        )
    return min(0.25, 160 * epsilon * e**4 / (horizon - 2))


def _read_hypothesis(text: str, n: int, actions: int) -> Ints:
    """(n,) the best action of each bandit."""
    parts = text.split("-")
    if len(parts) != n or not all(part.isdecimal() and int(part) < actions for part in parts):
        raise InputError(
            f"hypothesis={text} is not one for n={n} and actions={actions}: write {n} numbers "
            f"from 0 to {actions - 1}, separated by '-', such as {'-'.join(['0'] * min(n, 5))}"
            f"{'-...' if n > 5 else ''}"
        )
    return np.array([int(part) for part in parts])
