"""Search for alternative models that a stopping rule must exclude.

A rule that stops by itself, and then outputs an eps-optimal policy with probability 1 - delta on
every problem of its class, must exclude each model q that has no eps-optimal policy in common with
the true model p (Proposition 77). This module searches for such q.

*Change of p.* It favors a policy pi' over the optimal one. The gain D_i of making outcome i of a
pair more likely is the sum over steps t of w'_t V'_{t+1} - w*_t V*_{t+1}, with w the probability of
the pair and V the reward plus the value of the next state. Each pair gets
q_i ~ p_i/(1 + c (max D - D_i)), which has the least relative entropy KL(p, q) of all distributions
with the same mean of D; c is the smallest sufficient factor.

*Separation* (Proposition 78). No policy of a class is eps-optimal in both models if for some u in
[0, 1] all its policies have (1-u) V_p^pi + u V_q^pi < (1-u) V_p* + u V_q* - eps. Let h_t(s, u)
bound the left side from step t on, over history-dependent actions:

    h_t(s, u) = max over a of the sum over outcomes i of m_i ( r_i + h_{t+1}(s_i, u q_i/m_i) ),
    m_i = (1-u) p_i + u q_i

It is convex in u, so chords between the points of a grid bound it from above. The class of all
policies is divided by the action at some step and state, as long as needed.

An incomplete search finds fewer alternatives, or more distant ones. Both only lower the bound,
which stays valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import sqrt
from typing import NamedTuple

import numpy as np

from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh.mdp import MDP, Problem
from ucfh.problems import positions_in

GRID = 32
"""The number of chords in u."""

MOST_CLASSES = 16
"""Classes of policies examined before a model counts as not separated."""

TRACE = 1e-3
"""Mass given to the best outcome of a pair before the change, if its probability is 0."""

LEAST, MOST, NEAR = 1e-5, 1e6, 0.02
"""Range of the search for c, in units of the largest max D - D_i, and its relative accuracy."""

SLACK = 1e-9
"""Margin added to eps, relative to the values, against rounding."""

LOW = -1e12
"""The value of a pair that a class of policies excludes."""


@dataclass(frozen=True, eq=False)
class OutcomeDistributions:
    """The outcome distributions, over reward and next state, of all (segment, s, a) triples.

    Attributes:
        horizon: H.
        segments: 1, or H if distributions depend on the step.
        first: (S+1,) the first pair of each state within a segment.
        state: (R,) the state of each pair.
        begin: (segments*R + 1,) the first outcome of each triple.
        to: (E,) the next state of each outcome.
        p: (E,) its probability.
        reward: (1 or H, E) its reward, by step.
        initial: (S,) the start distribution.

    """

    horizon: int
    segments: int
    first: Ints
    state: Ints
    begin: Ints
    to: Ints
    p: Floats
    reward: Floats
    initial: Floats

    @property
    def pairs(self) -> int:
        """R, the number of state-action pairs."""
        return len(self.state)

    def rows(self, t: int) -> slice:
        """Return the triples of step t."""
        first = t * self.pairs if self.segments > 1 else 0
        return slice(first, first + self.pairs)

    def step(self, t: int) -> tuple[slice, Ints, Floats]:
        """Return the outcomes of step t, (R,) the first of each pair, and their rewards."""
        rows = self.rows(t)
        at = self.begin[rows.start : rows.stop + 1]
        e = slice(int(at[0]), int(at[-1]))
        return e, at[:-1] - at[0], self.reward[min(t, len(self.reward) - 1), e]

    def best(self, Q: Floats) -> Floats:
        """(..., S) the largest Q (..., R) of each state."""
        return np.asarray(np.maximum.reduceat(Q, self.first[:-1], axis=-1), np.float64)

    def choose(self, Q: Floats) -> Ints:
        """(S,) the first pair with the largest Q (R,) of each state."""
        top = self.best(Q)[self.state] - SLACK <= Q
        rows = np.where(top, np.arange(self.pairs), self.pairs)
        return np.asarray(np.minimum.reduceat(rows, self.first[:-1]), np.int64)

    def plan(self, p: Floats) -> Floats:
        """Q* (H, R) for probabilities p (E,)."""
        Q, V = np.zeros((self.horizon, self.pairs)), np.zeros(len(self.initial))
        for t in range(self.horizon - 1, -1, -1):
            e, at, reward = self.step(t)
            Q[t] = np.add.reduceat(p[e] * (reward + V[self.to[e]]), at)
            V = self.best(Q[t])
        return Q

    def optimum(self, Q: Floats) -> float:
        """V* of Q* (H, R)."""
        return float(self.initial @ self.best(Q[0]))

    def by_row(self, w: Floats) -> Floats:
        """(segments*R,) sums of w (H, R) over the steps of each triple."""
        return np.asarray(w.ravel() if self.segments > 1 else w.sum(axis=0), np.float64)

    def value(self, p: Floats, Q: Floats) -> float:
        """Return the value, for probabilities p (E,), of the policy greedy in Q (H, R)."""
        V = np.zeros(len(self.initial))
        for t in range(self.horizon - 1, -1, -1):
            e, at, reward = self.step(t)
            V = np.add.reduceat(p[e] * (reward + V[self.to[e]]), at)[self.choose(Q[t])]
        return float(self.initial @ V)

    def visits(self, Q: Floats) -> Floats:
        """(H, R) the probability of each pair at each step, for the policy greedy in Q (H, R)."""
        d, w = self.initial, np.zeros(Q.shape)
        for t in range(self.horizon):
            w[t, self.choose(Q[t])] = d
            e, at, _ = self.step(t)
            mass = np.repeat(w[t], np.diff(at, append=e.stop - e.start))
            d = np.bincount(self.to[e], self.p[e] * mass, len(self.initial)).astype(float)
        return w


def outcome_distributions(mdp: MDP, known: Problem) -> OutcomeDistributions:
    """Return the outcome distributions of an MDP for prior knowledge ``known``.

    Each transition is one outcome, or two if its reward is unknown, and 0 or 1.
    """
    mdp = mdp.by_segment() if known.table.segments > 1 else mdp
    table, at = known.table, positions_in(mdp, known)
    body = int(table.indptr[table.start])
    to, begin = table.indices[:body].astype(np.int64), table.indptr[:-1]
    laid = np.zeros(table.entries)
    laid[at] = mdp.p
    p, rewards = laid[:body], mdp.rewards if known.rewards is None else known.rewards
    pair = np.broadcast_to(rewards.pair, (max(len(rewards.pair), table.segments), table.pairs))
    reward = np.repeat(pair.reshape(-1, table.start), table.lengths[:-1], axis=1)
    if rewards.successor is not None:
        extra = rewards.successor
        if known.rewards is None:
            extra = np.zeros((len(rewards.successor), table.entries))
            extra[:, at] = rewards.successor
        reward = reward + extra[:, :body]
    if known.rewards is None and mdp.noise == "bernoulli":
        p = np.stack([p * (1 - reward[0]), p * reward[0]], axis=1).ravel()
        one = np.repeat(known.reward_unknown, table.lengths[:-1]).astype(float)
        reward = np.stack([np.zeros(body), one], axis=1).reshape(1, -1)
        to, begin = np.repeat(to, 2), 2 * begin
    return OutcomeDistributions(
        known.horizon, table.segments, table.first, table.state, begin, to, p, reward, mdp.initial
    )


class Alternative(NamedTuple):
    """A model without an eps-optimal policy in common with the true one.

    Attributes:
        q: (E,) the probability of each outcome.
        information: (segments*R,) KL(p, q) of each triple.

    """

    q: Floats
    information: Floats


class ModelMixture(NamedTuple):
    """The mixtures of both models, for each u of the grid.

    Attributes:
        mass: (GRID+1, E) m of each outcome.
        left, part: (GRID+1, E) the chord of u q/m, and the position on it.

    """

    mass: Floats
    left: Ints
    part: Floats


class AlternativeSearch:
    """The search for alternatives to one model.

    Args:
        model: the true outcome distributions.
        epsilon: the accuracy.

    """

    def __init__(self, model: OutcomeDistributions, epsilon: float) -> None:
        self.model, self.Q = model, model.plan(model.p)
        self.optimum = model.optimum(self.Q)
        self.margin = epsilon + SLACK * (1 + abs(self.optimum))
        self.lengths = np.diff(model.begin)

    def alternatives(
        self, progress: Callable[[float], None] | None = None
    ) -> Iterator[Alternative]:
        """Yield alternative models; ``progress`` is called with the share of directions done."""
        rows = self.model.segments * self.model.pairs
        most = 5 * rows + 3 * int(np.diff(self.model.first).max())  # of `directions`
        for k, D in enumerate(self.directions()):
            if progress is not None:
                progress(k / most)
            alternative = self.nearest(D)
            if alternative is not None:
                yield alternative

    def directions(self) -> Iterator[Floats]:
        """Yield D (E,) for the best policies that take one triple, or one action, most often.

        Each D is restricted to all triples, to those visited more often than by the optimal
        policy, to the others, and to single triples: that one, or one of the optimal policy.
        """
        m, state = self.model, np.tile(self.model.state, self.model.segments)
        rows = np.arange(m.segments * m.pairs)
        number = rows % m.pairs - m.first[state]
        here, taken = self._outcome_values(self.Q)
        for wanted in [*np.eye(len(rows)), *(number == a for a in range(int(number.max()) + 1))]:
            more = np.repeat(2.0 * m.horizon * wanted, self.lengths)
            there, visits = self._outcome_values(replace(m, reward=m.reward + more).plan(m.p))
            if not visits @ wanted > 0:
                continue
            yield there - here
            for part in (visits > taken, visits <= taken):
                yield np.where(np.repeat(part, self.lengths), there - here, 0.0)
            if np.count_nonzero(wanted) == 1:
                yield self._within(there, int(wanted.argmax()))
        for row in np.flatnonzero(taken):
            yield self._within(-here, int(row))

    def _outcome_values(self, Q: Floats) -> tuple[Floats, Floats]:
        """Return outcome values (E,) and visits (segments*R,) of the policy greedy in Q (H, R)."""
        m, w = self.model, self.model.visits(Q)
        V, D = np.zeros(len(m.initial)), np.zeros(len(m.p))
        for t in range(m.horizon - 1, -1, -1):
            e, at, reward = m.step(t)
            mass = np.repeat(w[t], np.diff(at, append=e.stop - e.start))
            D[e] += mass * (reward + V[m.to[e]])
            V = np.add.reduceat(m.p[e] * (reward + V[m.to[e]]), at)[m.choose(Q[t])]
        return D, m.by_row(w)

    def _within(self, D: Floats, row: int) -> Floats:
        """D (E,) in one triple, and 0 elsewhere."""
        at = slice(int(self.model.begin[row]), int(self.model.begin[row + 1]))
        restricted = np.zeros_like(D)
        restricted[at] = D[at]
        return restricted

    def changed(self, short: Floats, c: float) -> Floats:
        """(E,) q for ``short`` = max D - D (E,)."""
        p, top = self.model.p, np.maximum.reduceat(short, self.model.begin[:-1])
        new = (p == 0) & (short == 0) & np.repeat(top > 0, self.lengths)
        q = (p + TRACE * new) / (1 + c * short)
        sums = np.add.reduceat(q, self.model.begin[:-1])
        return np.asarray(q / np.repeat(sums, self.lengths), np.float64)

    def nearest(self, D: Floats) -> Alternative | None:
        """Return the smallest sufficient change in a direction D (E,), or None."""
        m = self.model
        most = np.repeat(np.maximum.reduceat(D, m.begin[:-1]), self.lengths)
        short = most - D
        if short.max() <= SLACK:
            return None
        short /= short.max()
        low, high = LEAST, MOST
        if not self.separated(self.changed(short, high)):
            return None
        while high > (1 + NEAR) * low:
            c = sqrt(low * high)
            if self.separated(self.changed(short, c)):
                high = c
            else:
                low = c
        q = self.changed(short, high)
        # as p and q sum to 1, KL is a sum of terms of one sign, which do not cancel
        terms, possible = q.copy(), m.p > 0
        change = (q[possible] - m.p[possible]) / m.p[possible]
        terms[possible] = m.p[possible] * (change - np.log1p(change))
        return Alternative(q, np.maximum(np.add.reduceat(terms, m.begin[:-1]), 0.0))

    def separated(self, q: Floats) -> bool:
        """Return True if no policy is eps-optimal for both p and q (E,)."""
        m, u = self.model, np.linspace(0.0, 1.0, GRID + 1)[:, None]
        other = m.plan(q)
        gain = m.optimum(other) - self.optimum
        if min(-m.value(m.p, other), gain - m.value(q, self.Q)) + self.optimum <= self.margin:
            return False  # the optimal policy of one model is eps-optimal in the other
        mass = (1 - u) * m.p + u * q
        place = GRID * u * q / np.where(mass > 0, mass, 1.0)
        left = np.minimum(place.astype(np.int64), GRID - 1)
        mix = ModelMixture(mass, left, place - left)
        classes = [np.ones((m.horizon, m.pairs), bool)]
        for _ in range(MOST_CLASSES):
            if not classes:
                return True
            allowed = classes.pop()
            Q = self._bound(mix, allowed)
            loss = u[:, 0] * gain - (m.best(Q[0]) @ m.initial - self.optimum)
            if loss.max() <= self.margin:
                node = self._branch_point(Q, int(loss.argmax()))
                if node is None:
                    return False
                classes += self._divided(allowed, *node)
        return not classes

    def _bound(self, mix: ModelMixture, allowed: Bools) -> Floats:
        """(H, GRID+1, R) h of each pair, for policies restricted to allowed pairs (H, R)."""
        m = self.model
        h = np.zeros((GRID + 1, len(m.initial)))
        Q = np.zeros((m.horizon, GRID + 1, m.pairs))
        for t in range(m.horizon - 1, -1, -1):
            e, at, reward = m.step(t)
            left, part = mix.left[:, e], mix.part[:, e]
            after = (1 - part) * h[left, m.to[e]] + part * h[left + 1, m.to[e]]
            Q[t] = np.add.reduceat(mix.mass[:, e] * (reward + after), at, axis=1)
            Q[t] = np.where(allowed[t], Q[t], LOW)
            h = m.best(Q[t])
        return Q

    def _branch_point(self, Q: Floats, best: int) -> tuple[int, int] | None:
        """Return the step and state visited most where the best policies for two u differ.

        The two u are the neighbors of ``best``, or 0 and 1.
        """
        for i, j in ((max(0, best - 1), min(GRID, best + 1)), (0, GRID)):
            w = np.maximum(*(self.model.visits(Q[:, k]) for k in (i, j)))
            rows = [[self.model.choose(x) for x in Q[:, k]] for k in (i, j)]
            often = np.maximum.reduceat(w, self.model.first[:-1], axis=1)
            often = np.where(np.array(rows[0]) != np.array(rows[1]), often, 0.0)
            if often.max() > 0:
                t, s = np.unravel_index(int(often.argmax()), often.shape)
                return int(t), int(s)
        return None

    def _divided(self, allowed: Bools, t: int, s: int) -> list[Bools]:
        """Divide a class by the actions of its policies at step t in state s."""
        here = np.arange(self.model.first[s], self.model.first[s + 1])
        parts = []
        for k in here[allowed[t, here]]:
            part = allowed.copy()
            part[t, here] = here == k
            parts.append(part)
        return parts
