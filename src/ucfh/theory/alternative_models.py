"""Other models that a rule must tell from the true one.

A rule that stops by itself, and then names an eps-optimal policy with probability 1 - delta on
every problem that it may be given, must have seen enough to exclude each model q in which no policy
is eps-optimal that is so in the true model p (Proposition 77). Here such q are looked for.

*How p is changed.* In favour of another policy pi' than the optimal one: by how much it is worth
more if outcome i of a row is a little more likely is D_i, the sum over steps t of
w'_t V'_{t+1} - w*_t V*_{t+1}, with w the probability to take the row and V what follows (payment
included). Each row becomes q_i ~ p_i/(1 + c (max D - D_i)), which of all laws with the same mean of
D has the least relative entropy KL(p, q); c is as small as is enough.

*Whether it is enough* (Proposition 78). No policy of a class is eps-optimal in both models if for
some u in [0, 1] all its policies have (1-u) V_p^pi + u V_q^pi < (1-u) V_p* + u V_q* - eps. Let
h_t(s, u) bound the left side from step t on, with actions that may depend on what came before:

    h_t(s, u) = max over a of the sum over outcomes i of m_i ( paid_i + h_{t+1}(s_i, u q_i/m_i) ),
    m_i = (1-u) p_i + u q_i

It is convex in u, so that chords between the points of a grid bound it from above. The class of all
policies is divided by the action at some step and state, as long as that is needed.

What these searches miss makes alternatives fewer, or farther away than necessary. Both make the
floor lower, and it stays true.
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
"""Classes of policies that are looked at, before a model counts as not far enough."""

TRACE = 1e-3
"""The mass that the best outcome of a row has before the change, if it never occurs."""

LEAST, MOST, NEAR = 1e-5, 1e6, 0.02
"""Between which numbers c is looked for, in units of the largest max D - D_i; and how exactly."""

SLACK = 1e-9
"""How much more than eps is asked for, relative to the values, for the sake of rounding."""

LOW = -1e12
"""What a policy earns where it would have to do what its class excludes."""


@dataclass(frozen=True, eq=False)
class OutcomeDistributions:
    """What may come of each row: payment and next state, as far as the agent does not know it.

    Attributes:
        horizon: H. segments: 1, or H where rows depend on the step.
        first: (S+1,) first row of each state within a segment. state: (R,) the state of each row.
        begin: (segments*R + 1,) where the outcomes of each row begin.
        to: (E,) the next state of each outcome. p: (E,) its probability.
        paid: (1 or H, E) what is paid with it, by step.
        initial: (S,) where episodes begin.

    """

    horizon: int
    segments: int
    first: Ints
    state: Ints
    begin: Ints
    to: Ints
    p: Floats
    paid: Floats
    initial: Floats

    @property
    def pairs(self) -> int:
        """R, the rows of a segment."""
        return len(self.state)

    def rows(self, t: int) -> slice:
        """The rows of step t."""
        first = t * self.pairs if self.segments > 1 else 0
        return slice(first, first + self.pairs)

    def step(self, t: int) -> tuple[slice, Ints, Floats]:
        """The outcomes of step t, (R,) where those of each row begin, and what each pays."""
        rows = self.rows(t)
        at = self.begin[rows.start : rows.stop + 1]
        e = slice(int(at[0]), int(at[-1]))
        return e, at[:-1] - at[0], self.paid[min(t, len(self.paid) - 1), e]

    def best(self, Q: Floats) -> Floats:
        """(..., S) the largest Q (..., R) of each state."""
        return np.asarray(np.maximum.reduceat(Q, self.first[:-1], axis=-1), np.float64)

    def choose(self, Q: Floats) -> Ints:
        """(S,) the first row, within a segment, of the largest Q (R,) of each state."""
        top = self.best(Q)[self.state] - SLACK <= Q
        rows = np.where(top, np.arange(self.pairs), self.pairs)
        return np.asarray(np.minimum.reduceat(rows, self.first[:-1]), np.int64)

    def plan(self, p: Floats) -> Floats:
        """Q* (H, R) by p (E,)."""
        Q, V = np.zeros((self.horizon, self.pairs)), np.zeros(len(self.initial))
        for t in range(self.horizon - 1, -1, -1):
            e, at, paid = self.step(t)
            Q[t] = np.add.reduceat(p[e] * (paid + V[self.to[e]]), at)
            V = self.best(Q[t])
        return Q

    def optimum(self, Q: Floats) -> float:
        """V* of Q* (H, R)."""
        return float(self.initial @ self.best(Q[0]))

    def by_row(self, w: Floats) -> Floats:
        """(segments*R,) w (H, R) of each row, summed over its steps."""
        return np.asarray(w.ravel() if self.segments > 1 else w.sum(axis=0), np.float64)

    def value(self, p: Floats, Q: Floats) -> float:
        """What the policy earns by p (E,) that takes the largest Q (H, R)."""
        V = np.zeros(len(self.initial))
        for t in range(self.horizon - 1, -1, -1):
            e, at, paid = self.step(t)
            V = np.add.reduceat(p[e] * (paid + V[self.to[e]]), at)[self.choose(Q[t])]
        return float(self.initial @ V)

    def visits(self, Q: Floats) -> Floats:
        """(H, R) the probability of each row at each step, if the largest Q (H, R) is taken."""
        d, w = self.initial, np.zeros(Q.shape)
        for t in range(self.horizon):
            w[t, self.choose(Q[t])] = d
            e, at, _ = self.step(t)
            went = np.repeat(w[t], np.diff(at, append=e.stop - e.start))
            d = np.bincount(self.to[e], self.p[e] * went, len(self.initial)).astype(float)
        return w


def laws_of(mdp: MDP, told: Problem) -> OutcomeDistributions:
    """The outcomes of an MDP for an agent that is told ``told``.

    Each entry is an outcome; where rewards are unknown, and 0 or 1, it is two.
    """
    mdp = mdp.by_segment() if told.table.segments > 1 else mdp
    table, at = told.table, positions_in(mdp, told)
    body = int(table.indptr[table.start])
    to, begin = table.indices[:body].astype(np.int64), table.indptr[:-1]
    laid = np.zeros(table.entries)
    laid[at] = mdp.p
    p, rewards = laid[:body], mdp.rewards if told.rewards is None else told.rewards
    pair = np.broadcast_to(rewards.pair, (max(len(rewards.pair), table.segments), table.pairs))
    paid = np.repeat(pair.reshape(-1, table.start), table.lengths[:-1], axis=1)
    if rewards.successor is not None:
        extra = rewards.successor
        if told.rewards is None:
            extra = np.zeros((len(rewards.successor), table.entries))
            extra[:, at] = rewards.successor
        paid = paid + extra[:, :body]
    if told.rewards is None and mdp.noise == "bernoulli":
        p = np.stack([p * (1 - paid[0]), p * paid[0]], axis=1).ravel()
        one = np.repeat(told.reward_unknown, table.lengths[:-1]).astype(float)
        paid = np.stack([np.zeros(body), one], axis=1).reshape(1, -1)
        to, begin = np.repeat(to, 2), 2 * begin
    return OutcomeDistributions(
        told.horizon, table.segments, table.first, table.state, begin, to, p, paid, mdp.initial
    )


class Alternative(NamedTuple):
    """A model in which no policy is eps-optimal that is so in the true one.

    Attributes:
        q: (E,) the probability of each outcome.
        information: (segments*R,) KL(p, q) of each row.

    """

    q: Floats
    information: Floats


class ModelMixture(NamedTuple):
    """Both models, for each u of the grid.

    Attributes:
        mass: (GRID+1, E) m of each outcome.
        left, part: (GRID+1, E) where u q/m is: the chord, and the place on it.

    """

    mass: Floats
    left: Ints
    part: Floats


class AlternativeSearch:
    """The search for alternatives to one model.

    Args:
        model: the true one, as the agent sees it.
        epsilon: the accuracy.

    """

    def __init__(self, model: OutcomeDistributions, epsilon: float) -> None:
        self.model, self.Q = model, model.plan(model.p)
        self.optimum = model.optimum(self.Q)
        self.enough = epsilon + SLACK * (1 + abs(self.optimum))
        self.lengths = np.diff(model.begin)

    def alternatives(
        self, progress: Callable[[float], None] | None = None
    ) -> Iterator[Alternative]:
        """All that are found; ``progress`` is called with the share that has been looked at."""
        rows = self.model.segments * self.model.pairs
        most = 5 * rows + 3 * int(np.diff(self.model.first).max())  # of `directions`
        for k, D in enumerate(self.directions()):
            if progress is not None:
                progress(k / most)
            found = self.nearest(D)
            if found is not None:
                yield found

    def directions(self) -> Iterator[Floats]:
        """D (E,) for the best policies that take one row, or one action, as often as they can.

        In all rows; in those that they take more often, and in the others; and in single rows: that
        one, or one of the optimal policy.
        """
        m, state = self.model, np.tile(self.model.state, self.model.segments)
        rows = np.arange(m.segments * m.pairs)
        number = rows % m.pairs - m.first[state]
        here, taken = self._worth(self.Q)
        for wanted in [*np.eye(len(rows)), *(number == a for a in range(int(number.max()) + 1))]:
            more = np.repeat(2.0 * m.horizon * wanted, self.lengths)
            there, visits = self._worth(replace(m, paid=m.paid + more).plan(m.p))
            if not visits @ wanted > 0:
                continue
            yield there - here
            for part in (visits > taken, visits <= taken):
                yield np.where(np.repeat(part, self.lengths), there - here, 0.0)
            if np.count_nonzero(wanted) == 1:
                yield self._within(there, int(wanted.argmax()))
        for row in np.flatnonzero(taken):
            yield self._within(-here, int(row))

    def _worth(self, Q: Floats) -> tuple[Floats, Floats]:
        """What outcomes (E,) are worth to the policy of Q (H, R), and its visits (segments*R,)."""
        m, w = self.model, self.model.visits(Q)
        V, D = np.zeros(len(m.initial)), np.zeros(len(m.p))
        for t in range(m.horizon - 1, -1, -1):
            e, at, paid = m.step(t)
            went = np.repeat(w[t], np.diff(at, append=e.stop - e.start))
            D[e] += went * (paid + V[m.to[e]])
            V = np.add.reduceat(m.p[e] * (paid + V[m.to[e]]), at)[m.choose(Q[t])]
        return D, m.by_row(w)

    def _within(self, D: Floats, row: int) -> Floats:
        """D (E,) in one row, and 0 elsewhere."""
        at = slice(int(self.model.begin[row]), int(self.model.begin[row + 1]))
        alone = np.zeros_like(D)
        alone[at] = D[at]
        return alone

    def changed(self, short: Floats, c: float) -> Floats:
        """(E,) q for max D - D (E,) as given."""
        p, top = self.model.p, np.maximum.reduceat(short, self.model.begin[:-1])
        new = (p == 0) & (short == 0) & np.repeat(top > 0, self.lengths)
        q = (p + TRACE * new) / (1 + c * short)
        sums = np.add.reduceat(q, self.model.begin[:-1])
        return np.asarray(q / np.repeat(sums, self.lengths), np.float64)

    def nearest(self, D: Floats) -> Alternative | None:
        """The least change in a direction D (E,) that is enough; None if none is."""
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
        each, seen = q.copy(), m.p > 0  # as p and q sum to 1: terms of one sign, that do not cancel
        more = (q[seen] - m.p[seen]) / m.p[seen]
        each[seen] = m.p[seen] * (more - np.log1p(more))
        return Alternative(q, np.maximum(np.add.reduceat(each, m.begin[:-1]), 0.0))

    def separated(self, q: Floats) -> bool:
        """Whether no policy is eps-optimal by p and by q (E,)."""
        m, u = self.model, np.linspace(0.0, 1.0, GRID + 1)[:, None]
        other = m.plan(q)
        gain = m.optimum(other) - self.optimum
        if min(-m.value(m.p, other), gain - m.value(q, self.Q)) + self.optimum <= self.enough:
            return False  # the best policy of one model is good enough for the other
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
            if loss.max() <= self.enough:
                node = self._disputed(Q, int(loss.argmax()))
                if node is None:
                    return False
                classes += self._divided(allowed, *node)
        return not classes

    def _bound(self, mix: ModelMixture, allowed: Bools) -> Floats:
        """(H, GRID+1, R) h of each row, for policies that take allowed rows (H, R)."""
        m = self.model
        h = np.zeros((GRID + 1, len(m.initial)))
        Q = np.zeros((m.horizon, GRID + 1, m.pairs))
        for t in range(m.horizon - 1, -1, -1):
            e, at, paid = m.step(t)
            left, part = mix.left[:, e], mix.part[:, e]
            after = (1 - part) * h[left, m.to[e]] + part * h[left + 1, m.to[e]]
            Q[t] = np.add.reduceat(mix.mass[:, e] * (paid + after), at, axis=1)
            Q[t] = np.where(allowed[t], Q[t], LOW)
            h = m.best(Q[t])
        return Q

    def _disputed(self, Q: Floats, best: int) -> tuple[int, int] | None:
        """Where the best policies for two u differ, most often: those around one, or 0 and 1."""
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
        """The class by what its policies do at step t in state s."""
        here = np.arange(self.model.first[s], self.model.first[s + 1])
        parts = []
        for k in here[allowed[t, here]]:
            part = allowed.copy()
            part[t, here] = here == k
            parts.append(part)
        return parts
