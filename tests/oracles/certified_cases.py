"""Small problems of odd shapes with counts of any kind, and the least budgets that fit them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from oracles import certified as oracle
from oracles.certified import Floats
from ucfh.confidence.known_states import KnownStateBounds
from ucfh.counts import Counts
from ucfh.mdp import MDP, Problem
from ucfh.simulation.environment import Simulator

REWARDS = {"s": "S1", "s, a": "SA", "t, s, a": "HSA", "s, a, s'": "1SAS", "t, s, a, s'": "HSAS"}
"""The shape of rewards that depend on these, letter by letter."""

NOISE = ("none", "bernoulli", "three")
"""Rewards are their mean, 0 or 1, or one of three values with that mean."""

Law = dict[float, float]


@dataclass
class Case:
    """A world, what its agent is told, and what the agent has counted.

    Attributes:
        laws: what each entry of the agent's table pays, with which probability.
        paid: how often it paid that, where rewards are not told.

    """

    mdp: MDP
    problem: Problem
    counts: Counts
    laws: list[Law] = field(default_factory=list)
    paid: list[dict[float, int]] = field(default_factory=list)

    @property
    def p(self) -> Floats:
        """(entries,) the truth, over the agent's table."""
        return Simulator(self.mdp, self.problem).p

    @property
    def mean_rewards(self) -> Floats:
        """(1 or H, R) the truth."""
        return self.mdp.mean_rewards

    @property
    def row_rewards(self) -> Floats:
        """(rows,) the same by row; the start pays nothing."""
        table = self.problem.table
        r = np.broadcast_to(self.mean_rewards, (table.segments, table.pairs))
        return np.append(r.ravel(), 0.0)


def law_of(mean: float, noise: str) -> Law:
    """A distribution of rewards with this mean."""
    if noise == "none" or mean in (0.0, 1.0):
        return {mean: 1.0}
    if noise == "bernoulli":
        return {0.0: 1 - mean, 1.0: mean}
    return {0.3 * mean: (1 - mean) / 2, mean: 0.5, mean + 0.7 * (1 - mean): mean / 2}


def draw_case(
    seed: int,
    states: int = 3,
    actions: int = 2,
    horizon: int = 3,
    rewards: str = "s, a",
    segmented: bool = False,
    sparse: bool = False,
    ties: bool = False,
    ends: bool = False,
    fewer: bool = False,
    spread: bool = False,
    hide: tuple[Any, ...] = (),
    noise: str = "bernoulli",
    visits: tuple[int, ...] = (0, 1, 2, 5, 30, 1000),
    honest: bool = False,
) -> Case:
    """A case; counts follow the truth if ``honest``, else any distribution on its support."""
    rng = np.random.default_rng(seed)
    S, A, H = states, actions, horizon
    p = rng.dirichlet(np.ones(S), (H, S, A) if segmented else (S, A))
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
    noisy: Any = "bernoulli" if noise == "bernoulli" else None
    mdp = MDP(p, r, H, p0, noise=noisy, available=available, terminal=terminal)
    problem = mdp.problem.hiding(*hide)
    case = Case(mdp, problem, Counts.zero(problem))
    table, counts, truth = problem.table, case.counts, case.p

    def any_way(q: Any) -> Any:
        """The truth, or another distribution on its support."""
        q = np.asarray(q) if honest else rng.dirichlet(np.ones(len(q))) * (np.asarray(q) > 0)
        return q / q.sum()

    for row in range(table.rows):
        at, n = table.entries_of(row), int(rng.choice(visits))
        counts.successors[at] = rng.multinomial(n, any_way(truth[at]))
        counts.visits[row] = n
    if problem.rewards is None:
        _pay(case, noise, any_way, rng)
        counts.check(problem)
    return case


def _pay(case: Case, noise: str, any_way: Any, rng: np.random.Generator) -> None:
    """Draw what was paid on the way to each successor."""
    mdp, counts, entries = case.mdp, case.counts, case.problem.table.entries
    mean = np.zeros(entries)
    mean[Simulator(mdp, case.problem).position] = mdp.rewards.by_entry(mdp.table)
    case.laws = [law_of(float(x), noise) for x in mean]
    for e, law in enumerate(case.laws):
        drawn = rng.multinomial(int(counts.successors[e]), any_way([*law.values()]))
        paid = {x: int(k) for x, k in zip(law, drawn, strict=True) if k}
        case.paid.append(paid)
        if paid:
            counts.rewards[e] = math.fsum(x * k for x, k in paid.items())
            counts.least[e], counts.most[e] = min(paid), max(paid)


def cases(**fixed: Any) -> st.SearchStrategy[Case]:
    """Cases of all kinds; arguments of `draw_case` may be fixed."""
    told = st.sampled_from(("rewards", "successors", "initial"))
    flags = dict.fromkeys(("segmented", "sparse", "ties", "ends", "fewer", "spread"), st.booleans())
    drawn: dict[str, Any] = {
        "seed": st.integers(0, 2**32 - 1),
        "states": st.integers(1, 4),
        "actions": st.integers(1, 3),
        "horizon": st.integers(1, 4),
        "rewards": st.sampled_from(sorted(REWARDS)),
        "hide": st.sets(told).map(lambda x: tuple(sorted(x))),
        "noise": st.sampled_from(NOISE),
        **flags,
    }
    drawn |= {name: st.just(value) for name, value in fixed.items()}
    return st.builds(draw_case, **drawn)


@dataclass
class Given:
    """What bounds rest on, (rows,) each; see `oracle.Belief`."""

    up: Floats
    low: Floats
    every: Floats
    outcomes: Floats
    r_up: Floats
    r_low: Floats


class Told(KnownStateBounds):
    """`KnownStateBounds` with budgets and reward bounds that somebody gives."""

    given: Given

    def budget(self, counts: Counts) -> None:  # noqa: ARG002
        """What was given."""
        x = self.given
        self.eta_up, self.eta_low, self.eta_all, self.eta_outcomes = (
            x.up,
            x.low,
            x.every,
            x.outcomes,
        )
        self.r_up, self.r_low = x.r_up, x.r_low

    def belief(self, counts: Counts) -> oracle.Belief:
        """The same for the oracles."""
        return oracle.Belief(self.problem, counts, **vars(self.given))


def told(problem: Problem, given: Given, without: tuple[str, ...] = ()) -> Told:
    """Bounds that rest on what is given."""
    best = Told(problem, 0.1, without)
    best.given = given
    return best


def random_budgets(case: Case, seed: int, without: tuple[str, ...] = ()) -> Told:
    """Budgets of any size, and any bounds around the rewards."""
    rng, rows = np.random.default_rng(seed), case.problem.table.rows
    up, low, every, outcomes = (10 ** rng.uniform(-3, 0.5, rows) for _ in range(4))
    return told(case.problem, Given(up, low, every, outcomes, *reward_bounds(case, rng)), without)


def reward_bounds(case: Case, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """(rows,) bounds of the true mean rewards, where they have to be learned; else 0.

    Often the truth is one of the bounds: there, whatever rests on both of them is put to the test.
    """
    unknown = np.append(case.problem.reward_unknown, False)
    if not unknown.any():
        return np.zeros(len(unknown)), np.zeros(len(unknown))
    r = case.row_rewards
    width = rng.choice([0, 0.01, 0.3, 1.0])
    high, low = (
        np.clip(r + width * x * rng.random(r.shape) * rng.integers(2, size=r.shape), 0, 1)
        for x in (1, -1)
    )
    return np.where(unknown, high, 0.0), np.where(unknown, low, 0.0)


def needed_budgets(case: Case, seed: int, without: tuple[str, ...] = ()) -> Told:
    """The least budgets with which the claims of docs/theory/values.md have to come out true.

    KL(p^, p) for all functions of the next state; for those of the outcome, KL(p', p) with p' the
    shares of repetitions. For V* from below, what the mean of reward and V* needs, in every row and
    at every step, by all that was paid; from above the same, but only in rows that one optimal
    policy takes.
    """
    mdp, problem, table = case.mdp, case.problem, case.problem.table
    plan, p = mdp.optimal(), case.p
    taken = table.rows_of(plan.policy, problem.horizon)
    least = 1e-9  # a budget of next to nothing, where none is needed
    up, low, every, outcomes = (np.full(table.rows, least) for _ in range(4))
    found = Given(up, low, every, outcomes, *reward_bounds(case, np.random.default_rng(seed)))
    best = told(problem, found, without)
    belief = best.belief(case.counts)

    def need(t: int, row: oracle.Row, V: Any, optimal: bool) -> None:
        c, i = belief.seen(row), row.number
        if sum(c) == 0:
            return
        every[i] = max(every[i], oracle.relative_entropy(c, [float(p[e]) for e in row.entries]))
        atoms = atoms_of(case, t, row, belief, p)
        times, chance = [x.times for x in atoms], [x.chance for x in atoms]
        f = [x.reward + float(V[x.state]) for x in atoms]
        mean = math.fsum(q * v for q, v in zip(chance, f, strict=True))
        most, fewest = [], []  # what was never seen is worth, if it may come
        if belief.pays(row):
            later = [float(V[j]) for j in row.states]
            most, fewest = [min(1 + max(later), problem.horizon - t)], [-min(later)]
            again = [max(k - 1, 0) for k in times]
            if not belief.is_noisy(row) and sum(again) > 0:
                outcomes[i] = max(outcomes[i], oracle.relative_entropy(again, chance))
        below = oracle.least_entropy(times + [0] * len(fewest), [-v for v in f] + fewest, -mean)
        low[i] = max(low[i], below)
        if optimal:
            up[i] = max(up[i], oracle.least_entropy(times + [0] * len(most), f + most, mean))

    for t in range(problem.horizon):
        for s in range(problem.states):
            for row in oracle.rows_at(problem, t, s):
                need(t, row, plan.values[t + 1], row.number == taken[t, s])
    need(0, oracle.row_of(problem, table.start), plan.values[0], True)
    for budget in (up, low, every, outcomes):
        budget *= 1 + 1e-9  # what the oracles may be off by
    return best


@dataclass(frozen=True)
class Atom:
    """A next state and a reward: how often they came, and with which probability they do."""

    state: int
    reward: float
    times: int
    chance: float


def atoms_of(case: Case, t: int, row: oracle.Row, belief: oracle.Belief, p: Floats) -> list[Atom]:
    """All that may follow a row at step t; p (entries,) is the truth."""
    if not belief.pays(row):
        listed = zip(belief.listed(t, row), row.entries, strict=True)
        return [Atom(x.state, x.reward, int(x.c), float(p[e])) for x, e in listed]
    return [
        Atom(j, r, case.paid[e].get(r, 0), float(p[e]) * chance)
        for e, j in zip(row.entries, row.states, strict=True)
        for r, chance in case.laws[e].items()
    ]
