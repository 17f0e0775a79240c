"""Small problems of odd shapes with counts of any kind, and the least budgets that fit them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from oracles import certified as oracle
from oracles.certified import Floats, Ints
from ucfh.confidence.values import Best
from ucfh.counts import Counts
from ucfh.problem import MDP, Problem
from ucfh.simulation.world import World

REWARDS = {"s": "S1", "s, a": "SA", "t, s, a": "HSA", "s, a, s'": "1SAS", "t, s, a, s'": "HSAS"}
"""The shape of rewards that depend on these, letter by letter."""


@dataclass
class Case:
    """A world, what its learner is told, and what the learner has counted."""

    mdp: MDP
    problem: Problem
    counts: Counts

    @property
    def p(self) -> Floats:
        """(entries,) the truth, over the learner's table."""
        return World(self.mdp, self.problem).p

    @property
    def mean_rewards(self) -> Floats:
        """(1 or H, R) the truth."""
        return self.mdp.mean_rewards


def draw_case(
    seed: int,
    states: int = 3,
    actions: int = 2,
    horizon: int = 3,
    rewards: str = "s, a",
    staged: bool = False,
    sparse: bool = False,
    ties: bool = False,
    ends: bool = False,
    fewer: bool = False,
    spread: bool = False,
    hide: tuple[Any, ...] = (),
    visits: tuple[int, ...] = (0, 1, 2, 5, 30, 1000),
    honest: bool = False,
) -> Case:
    """A case; counts follow the truth if ``honest``, else any distribution on its support."""
    rng = np.random.default_rng(seed)
    S, A, H = states, actions, horizon
    p = rng.dirichlet(np.ones(S), (H, S, A) if staged else (S, A))
    if ties:
        p = np.eye(S)[rng.integers(S, size=p.shape[:-1])] * 0.5 + 0.5 / S
    if sparse:
        p[p < p.max(-1, keepdims=True) / 2] = 0
        p /= p.sum(-1, keepdims=True)
    if "rewards" in hide and rewards[0] == "t":
        rewards = "s, a"  # those cannot be learned per pair
    size = {"S": S, "A": A, "H": H, "1": 1}
    r = rng.random([size[letter] for letter in REWARDS[rewards]])
    r = np.round(2 * r) / 2 if ties else r
    available = None
    if fewer:
        available = rng.random((S, A)) < 0.6
        available[np.arange(S), rng.integers(A, size=S)] = True
    p0 = rng.dirichlet(np.ones(S)) if spread else 0
    terminal = [S - 1] if ends and S > 1 else []
    mdp = MDP(p, r, H, p0, noise="bernoulli", available=available, terminal=terminal)
    problem = mdp.problem.hiding(*hide)
    case = Case(mdp, problem, Counts.zero(problem))
    table, counts, truth = problem.table, case.counts, case.p
    for row in range(table.rows):
        at = table.entries_of(row)
        q = truth[at] if honest else rng.dirichlet(np.ones(at.stop - at.start)) * (truth[at] > 0)
        n = int(rng.choice(visits))
        counts.successors[at] = rng.multinomial(n, q / q.sum())
        counts.visits[row] = n
        if problem.rewards is None and row < table.start:
            ended = table.pair_of(row)[1] in terminal
            counts.rewards[row] = 0 if ended else n * rng.random()
    return case


def cases(**fixed: Any) -> st.SearchStrategy[Case]:
    """Cases of all kinds; arguments of `draw_case` may be fixed."""
    told = st.sampled_from(("rewards", "successors", "initial"))
    flags = dict.fromkeys(("staged", "sparse", "ties", "ends", "fewer", "spread"), st.booleans())
    drawn: dict[str, Any] = {
        "seed": st.integers(0, 2**32 - 1),
        "states": st.integers(1, 4),
        "actions": st.integers(1, 3),
        "horizon": st.integers(1, 4),
        "rewards": st.sampled_from(sorted(REWARDS)),
        "hide": st.sets(told).map(lambda x: tuple(sorted(x))),
        **flags,
    }
    drawn |= {name: st.just(value) for name, value in fixed.items()}
    return st.builds(draw_case, **drawn)


class Told(Best):
    """`Best` with budgets and reward bounds that somebody gives."""

    def give(self, up: Floats, low: Floats, every: Floats, r_up: Any, r_low: Any, r: Any) -> None:
        """Budgets (rows,) divided by n; rewards (1 or H, R)."""
        self.given = up, low, every, r_up, r_low, r

    def budget(self, counts: Counts) -> None:  # noqa: ARG002
        """What was given."""
        self.eta_up, self.eta_low, self.eta_all, self.r_up, self.r_low, self.r = self.given

    def belief(self, counts: Counts) -> oracle.Belief:
        """The same for the oracles."""
        return oracle.Belief(self.problem, counts, *self.given)


def random_budgets(case: Case, seed: int, without: tuple[str, ...] = ()) -> Told:
    """Budgets of any size, and reward bounds around any estimate."""
    rng = np.random.default_rng(seed)
    best = Told(case.problem, 0.1, without)
    up, low, every = (10 ** rng.uniform(-3, 0.5, case.problem.table.rows) for _ in range(3))
    best.give(up, low, every, *reward_bounds(case, rng))
    return best


def reward_bounds(case: Case, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """(1 or H, R) bounds of the true rewards and an estimate between; exact if they are told.

    Often the truth is one of the bounds: there, whatever rests on both of them is put to the test.
    """
    if case.problem.rewards is not None:
        return (case.problem.rewards.pair,) * 3
    table = case.problem.table
    r = np.broadcast_to(case.mean_rewards, (table.stages, table.pairs))
    width = rng.choice([0, 0.01, 0.3, 1.0])
    high, low = (
        np.clip(r + width * x * rng.random(r.shape) * rng.integers(2, size=r.shape), 0, 1)
        for x in (1, -1)
    )
    return high, low, low + (high - low) * rng.random(r.shape)


def needed_budgets(case: Case, seed: int, without: tuple[str, ...] = ()) -> Told:
    """The least budgets with which the claims of docs/theory/values.md have to come out true.

    KL(p^, p) for all functions. For V* from below, what its mean under p needs, in every row and
    at every step; from above the same, but only in rows that one optimal policy takes.
    """
    mdp, problem, table = case.mdp, case.problem, case.problem.table
    plan, p = mdp.optimal(), case.p
    taken = table.rows_of(plan.policy, problem.horizon)
    nothing = np.zeros((1, table.pairs))
    belief = oracle.Belief(problem, case.counts, *[np.zeros(table.rows)] * 3, *[nothing] * 3)
    least = 1e-9  # a budget of next to nothing, where none is needed
    up, low, every = (np.full(table.rows, least) for _ in range(3))

    def need(t: int, row: oracle.Row, V: Any, paid: bool, optimal: bool) -> None:
        c, q = belief.seen(row), [float(p[e]) for e in row.entries]
        if sum(c) == 0:
            return
        f, i = belief.values(t, row, V, paid), row.number
        mean = sum(x * v for x, v in zip(q, f, strict=True))
        every[i] = max(every[i], oracle.relative_entropy(c, q))
        low[i] = max(low[i], oracle.least_entropy(c, [-v for v in f], -mean))
        if optimal:
            up[i] = max(up[i], oracle.least_entropy(c, f, mean))

    for t in range(problem.horizon):
        for s in range(problem.states):
            for row in oracle.rows_at(problem, t, s):
                need(t, row, plan.values[t + 1], True, row.number == taken[t, s])
    need(0, oracle.row_of(problem, table.start), plan.values[0], False, True)
    best = Told(problem, 0.1, without)
    more = 1 + 1e-9  # what the oracles may be off by
    best.give(
        up * more, low * more, every * more, *reward_bounds(case, np.random.default_rng(seed))
    )
    return best


def taken_rows(case: Case, rows: Ints) -> Any:
    """(H, S) rows of the learner's table as a policy."""
    return case.problem.table.policy_of(rows)
