"""Small problems of the literature, and random problems of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from ucfh._utils.arrays import Ints
from ucfh.mdp import MDP
from ucfh.problems._building import check_real, check_room, check_whole, compress


def chain(*, n: int = 5, horizon: int = 0, slip: float = 0.2, linear: bool = False) -> MDP:
    """A walk along a chain with a small reward at the start and a large one at the end.

    States 0..n-1, start 0. "right" moves one state up with probability 1 - slip and one down
    with probability slip, "left" the reverse; moves beyond an end stay there. r(0) = 0.05,
    r(n-1) = 1, and 0 between; or r(s) = s/(n-1).

    Optimum: 0.5192 by default, 1.7536 with linear=1. Without slips: stay, or go at once, which
    is max(0.05 H, 0.05 + H - n + 1); H - n/2 with linear=1 and H >= n.

    Args:
        n: the number of states.
        horizon: H; n unless given.
        slip: the probability of a move in the other direction.
        linear: True for rewards that rise along the chain.

    >>> from ucfh.problems import make
    >>> mdp = make("chain:n=5")
    >>> round(mdp.value(mdp.optimal().policy), 6)
    0.5192

    """
    check_whole("n", n, 2)
    H = check_whole("horizon", horizon, 0) or n
    check_real("slip", slip, 0, 1)
    s = np.arange(n)
    down, up = np.maximum(s - 1, 0), np.minimum(s + 1, n - 1)
    transitions = compress(
        n, 2, (s, 0, down, 1 - slip), (s, 0, up, slip), (s, 1, up, 1 - slip), (s, 1, down, slip)
    )
    rewards = s / (n - 1) if linear else np.where(s == 0, 0.05, s == n - 1)
    return MDP(transitions, rewards[:, None], H, action_names=["left", "right"])


def riverswim(*, n: int = 6, horizon: int = 12) -> MDP:
    """A swimmer against the current: a large reward far upstream, a tiny one for not swimming.

    States 0..n-1, start 0. "left" always drifts one state down. "right" swims: from 0 it advances
    with probability 0.6, else stays; inside it advances with 0.35, stays with 0.6 and falls back
    with 0.05; at the end it stays with 0.6, else falls back. r(0) = 0.005, r(n-1) = 1. (Strehl
    and Littman 2008, with a finite horizon.)

    Optimum: 0.762392 by default; 0.005 H for H < n, when the end is out of reach.

    Args:
        n: the number of states.
        horizon: H.

    >>> from ucfh.problems import make
    >>> mdp = make("riverswim")
    >>> round(mdp.value(mdp.optimal().policy), 6)
    0.762392

    """
    check_whole("n", n, 2)
    check_whole("horizon", horizon, 1)
    s = np.arange(n)
    inside = s[1:-1]
    transitions = compress(
        n,
        2,
        (s, 0, np.maximum(s - 1, 0), 1.0),
        (0, 1, [0, 1], [0.4, 0.6]),
        (inside, 1, inside + 1, 0.35),
        (inside, 1, inside, 0.6),
        (inside, 1, inside - 1, 0.05),
        (n - 1, 1, [n - 2, n - 1], [0.4, 0.6]),
    )
    rewards = np.where(s == 0, 0.005, s == n - 1)
    return MDP(transitions, rewards[:, None], horizon, action_names=["left", "right"])


def deepsea(*, n: int = 10, slip: float = 0.0) -> MDP:
    """A dive through an n x n grid, where only n consecutive moves to the right find the treasure.

    State row*n + column, start 0, H = n. Every step goes one row down; "right" also one column
    right (or, with probability slip, stays in its column; bsuite's stochastic version has
    slip = 1/n), "left" one column left, within the grid. In bsuite (Osband et al. 2020) "right"
    costs 0.01/n and, taken in the last column, finds a treasure of 1; "left" has reward 0. Here
    0.01/n is added to every step, so that no reward is negative: the reward of "left" is 0.01/n,
    of "right" 0, and of the treasure 1. As every episode has n steps, this adds 0.01 to the value
    of every policy and changes no difference between policies.

    Optimum: 1 without slips. With them, on the diagonal at row k,
    V_k = max((n-k) c, (1-slip) V_{k+1} + slip (n-k-1) c), V_{n-1} = 1, c = 0.01/n: once off the
    diagonal the treasure is out of reach, and "left" is best.

    Args:
        n: the number of rows and of columns, and the horizon.
        slip: the probability that "right" stays in its column.

    >>> from ucfh.problems import make
    >>> mdp = make("deepsea:n=20")
    >>> round(mdp.value(mdp.optimal().policy), 6)
    1.0

    """
    check_whole("n", n, 1, 1000)
    check_real("slip", slip, 0, 1)
    s = np.arange(n * n)
    row, column = np.divmod(s, n)

    def below(columns: Ints) -> Ints:
        """(n*n,) the state one row down; the start after the last row, where the episode ends."""
        return np.where(row == n - 1, 0, (row + 1) * n + np.clip(columns, 0, n - 1))

    transitions = compress(
        n * n,
        2,
        (s, 0, below(column - 1), 1.0),
        (s, 1, below(column + 1), 1 - slip),
        (s, 1, below(column), slip),
    )
    rewards = np.stack([np.full(n * n, 0.01 / n), column == n - 1], axis=1)
    return MDP(transitions, rewards, n, action_names=["left", "right"])


def grid(*, rows: int = 5, cols: int = 5, slip: float = 0.1, horizon: int = 0) -> MDP:
    """A walk through a grid from one corner to the opposite one, with reward 1 per step there.

    State row*cols + column, start 0 (the top left), goal the last state (the bottom right),
    where the episode stays with reward 1 a step. An action moves one cell in its direction or, with
    probability slip, in one of the four directions at random; moves into a wall stay.

    Optimum: max(0, H - (rows + cols - 2)) without slips; 11.224546 by default.

    Args:
        rows, cols: the size of the grid.
        slip: the probability of a random move.
        horizon: H; twice rows + cols unless given.

    >>> from ucfh.problems import make
    >>> mdp = make("grid:rows=3,cols=4,slip=0,horizon=10")
    >>> mdp.value(mdp.optimal().policy)
    5.0

    """
    check_whole("rows", rows, 1)
    check_whole("cols", cols, 1)
    check_real("slip", slip, 0, 1)
    H = check_whole("horizon", horizon, 0) or 2 * (rows + cols)
    check_room(16 * rows * cols, "choose fewer rows or columns")
    S = rows * cols
    s = np.arange(S)
    y, x = np.divmod(s, cols)
    steps = np.array([[-1, 0, 1, 0], [0, 1, 0, -1]])
    ahead = (  # (S, 4) the cell in each direction
        np.clip(y[:, None] + steps[0], 0, rows - 1) * cols
        + np.clip(x[:, None] + steps[1], 0, cols - 1)
    )
    ahead[-1] = S - 1
    a = np.arange(4)
    transitions = compress(
        S,
        4,
        (s[:, None], a, ahead, 1 - slip),
        (s[:, None, None], a[:, None], ahead[:, None, :], slip / 4),
    )
    return MDP(
        transitions,
        rewards=(s == S - 1)[:, None],
        horizon=H,
        action_names=["up", "right", "down", "left"],
    )


def random(
    *,
    states: int = 20,
    actions: int = 3,
    successors: int = 0,
    horizon: int = 5,
    alpha: float = 1.0,
    segments: bool = False,
    seed: int = 0,
) -> MDP:
    """A problem drawn at random: Dirichlet transitions, uniform rewards.

    r(s) is uniform on [0, 1]; every pair has the same number of successors, a set drawn
    uniformly, and their probabilities are Dirichlet(alpha, ..., alpha); start 0.

    Optimum: no formula; 2.889866 by default.

    Args:
        states: S.
        actions: A.
        successors: of each pair; 0 for all states.
        horizon: H.
        alpha: the concentration of the Dirichlet: small for nearly deterministic transitions,
            large for nearly uniform ones.
        segments: True draws transitions separately for every time step.
        seed: the random seed of everything drawn.

    >>> from ucfh.problems import make
    >>> mdp = make("random")
    >>> round(mdp.value(mdp.optimal().policy), 6)
    2.889866

    """
    check_whole("states", states, 1)
    check_whole("actions", actions, 1)
    check_whole("successors", successors, 0, states)
    check_whole("horizon", horizon, 1)
    check_real("alpha", alpha, 1e-3, 1e6)
    check_whole("seed", seed, 0, 2**63)
    C = successors or states
    pairs = (horizon if segments else 1) * states * actions
    check_room(pairs * C, "choose fewer states, actions or successors")
    rng = np.random.default_rng(seed)
    rewards = rng.random(states)
    indices = _draw_sets(rng, pairs, states, C)
    p = rng.dirichlet(np.full(C, alpha), size=pairs)
    transitions: Any = (np.arange(pairs + 1) * C, indices.ravel(), p.ravel())
    if segments and actions == 1:
        # with rewards for one action, compressed rows of H segments would be read as H actions
        check_room(pairs * states, "choose fewer states, or more than one action")
        transitions = np.zeros((horizon, states, 1, states))
        np.put_along_axis(transitions.reshape(pairs, states), indices, p, axis=1)
    return MDP(transitions, np.broadcast_to(rewards[:, None], (states, actions)), horizon)


def _draw_sets(rng: Generator, count: int, states: int, size: int) -> Ints:
    """(count, size) distinct states in every line, ascending; every set is equally likely.

    States drawn twice are redrawn until all differ. By symmetry all sets are equally likely. It
    takes few rounds for at most half of the states; larger sets are complements.
    """
    if 2 * size > states:
        without = _draw_sets(rng, count, states, states - size)
        kept = np.ones((count, states), bool)
        np.put_along_axis(kept, without, False, axis=1)
        return np.nonzero(kept)[1].reshape(count, size)
    sets = np.sort(rng.integers(states, size=(count, size)), axis=1)
    while (twice := sets[:, 1:] == sets[:, :-1]).any():
        sets[:, 1:][twice] = rng.integers(states, size=np.count_nonzero(twice))
        sets.sort(axis=1)
    return sets
