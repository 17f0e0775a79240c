"""Certificates hold: thousands of runs, every bound held against the truth at every planning.

V* <= upper, lower <= V^policy and V* - V^policy <= gap, at every planning of a run, with
probability 1 - delta; so has every part of the proof its own share of delta. Bounds are
conservative, so delta is also taken as large as 1/2 or 1 (where only the shares say anything),
problems are small and runs go on after they could have stopped. The last tests break the bounds
on purpose, and have to be seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

import ucfh.confidence.known_states
from ucfh import MDP, Problem, make, simulate
from ucfh._kernels.row_bounds import NOTHING
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.algorithms.exploration import GapExploration
from ucfh.confidence.known_states import REWARD_SHARES, SHARES, KnownStateBounds
from ucfh.confidence.sets import ALWAYS, AT_DOUBLINGS
from ucfh.confidence.union_bound import possible
from ucfh.confidence.value_bounds import COMPONENTS
from ucfh.planning import evaluate
from ucfh.simulation.environment import Simulator

ROUNDING = 1e-9
SURE = 1e-6
"""A share is refuted if what was seen is less likely than this under it."""


class Witness(CertifiedUCFH):
    """An agent whose bounds are compared with the truth at every planning."""

    def __init__(self, mdp: MDP, problem: Problem, *given: Any, **options: Any) -> None:
        world = Simulator(mdp, problem)
        self.mdp, self.p, self.mean_rewards = mdp, world.p, world.mean_rewards
        self.pays = np.zeros(len(self.p))  # the mean reward of each entry
        if self.mean_rewards is not None:
            self.pays[world.position] = mdp.rewards.by_entry(mdp.table)
        self.V = mdp.optimal().values
        self.may_be = possible(problem)
        self.broken: set[str] = set()
        self.plannings = 0
        self._values: dict[bytes, Any] = {}
        super().__init__(problem, *given, **options)

    def _take_bounds(self) -> None:
        super()._take_bounds()
        self.plannings += 1
        beliefs, optimum = self.exploration, self.mdp.at_start(self.V)
        earns = self.mdp.at_start(self.values_of(beliefs.certified))
        self._claim("upper", beliefs.upper - optimum)
        self._claim("lower", earns - beliefs.lower)
        self._claim("gap", beliefs.gap - (optimum - earns))
        if isinstance(beliefs, GapExploration):
            self._check_parts(beliefs)

    def values_of(self, rows: Any) -> Any:
        """(H+1, S) V^pi of the policy that takes rows (H, S), exactly."""
        key = rows.tobytes()
        if key not in self._values:
            mdp = self.mdp
            self._values[key] = evaluate(mdp.table, mdp.p, mdp.mean_rewards, rows)
        return self._values[key]

    def _claim(self, name: str, margin: Any) -> None:
        """Note a claim that does not hold: its margin is below zero somewhere."""
        if np.min(margin, initial=0.0) < -ROUNDING:
            self.broken.add(name)

    def _check_parts(self, beliefs: GapExploration) -> None:
        """Every part of the proof, wherever an episode may be."""
        b, best, n = beliefs.bounds, beliefs.best, self.n
        assert isinstance(best, KnownStateBounds)
        self._claim("above", (b.U - self.V)[:-1][self.may_be])
        if best.enabled["difference"]:
            earns = self.values_of(b.greedy)
            self._claim("below", (self.V - b.L)[:-1][self.may_be])
            self._claim("all: W", (earns - b.W)[:-1][self.may_be])
            self._claim("all: D", (b.D - (self.V - earns))[:-1][self.may_be])
        entropy = self._entropy(n.successors, self.p)
        known = len(entropy) - (self.problem.initial is not None)
        self._claim("all", (best.eta_all - entropy)[:known])
        if self.mean_rewards is not None:
            r = self.mean_rewards
            self._claim("rewards", (best.r_up[:-1] - r, r - best.r_low[:-1]))
            # of an outcome that always came out the same
            chance = np.where(n.most == 1, self.pays, 1 - self.pays) if self.mdp.noise else 1.0
            away = self._entropy(np.maximum(n.successors - 1, 0), self.p * chance)
            noisy = best.evidence.known["noisy"]
            self._claim("outcomes", (best.eta_outcomes - away)[:-1][~noisy[:-1]])
        if beliefs.frozen is not None:
            earns = self.mdp.at_start(self.values_of(beliefs.frozen))
            self._claim("scores", earns - best.score_bound(beliefs.scores, beliefs.number))

    def _entropy(self, c: Any, p: Any) -> Any:
        """(rows,) KL(c/n, p) of each row; c, p (entries,)."""
        table = self.problem.table
        n = np.add.reduceat(c, table.indptr[:-1])
        share = c / np.maximum(n, 1)[table.row_of_entry]
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(share > 0, share * np.log(share / p), 0.0)
        return np.add.reduceat(terms, table.indptr[:-1])


@dataclass
class Seen:
    """Numbers of runs that broke each claim, and their episodes."""

    runs: int
    broken: Counter[str]
    episodes: list[int]

    def upper(self, name: str = "any") -> float:
        """A bound of the probability that a run breaks a claim, right with probability 0.999."""
        k = self.broken[name]
        return float(stats.beta.ppf(0.999, k + 1, self.runs - k)) if k < self.runs else 1.0

    def refutes(self, name: str, share: float) -> bool:
        """Return whether the claim was broken too often for its share of delta."""
        return bool(stats.binom.sf(self.broken[name] - 1, self.runs, min(1.0, share)) < SURE)

    def __str__(self) -> str:
        shares = ", ".join(f"{name} {k}" for name, k in sorted(self.broken.items()))
        return f"{self.runs} runs of {np.median(self.episodes):.0f} episodes; broken: {shares}"


def watch(
    mdp: MDP,
    problem: Problem,
    runs: int,
    epsilon: float,
    delta: float,
    episodes: int | None = None,
    **options: Any,
) -> Seen:
    """Runs that are held against the truth; those that stop return an epsilon-optimal policy."""
    broken: Counter[str] = Counter()
    lengths = []
    for seed in range(runs):
        agent = Witness(mdp, problem, epsilon, delta, **options)
        run = simulate(mdp, agent, episodes=episodes, seed=seed)
        if agent.certificate.certified and run.gap > epsilon + ROUNDING:
            agent.broken.add("returned")
        broken.update(agent.broken)
        broken["any"] += bool(agent.broken)
        lengths.append(run.episodes)
    return Seen(runs, broken, lengths)


# -- problems -------------------------------------------------------------------------------------


def segmented() -> MDP:
    rng = np.random.default_rng(3)
    return MDP(rng.dirichlet(np.ones(3), (3, 3, 2)), rng.random((3, 3, 1)), 3)


def noisy() -> MDP:
    rng = np.random.default_rng(4)
    p = rng.dirichlet(np.ones(3), (3, 2))
    return MDP(p, rng.random((3, 2)), 3, noise="bernoulli")


def on_the_way() -> MDP:
    """Rewards that depend on the next state; two or three of four states can follow a row."""
    rng = np.random.default_rng(6)
    p = rng.dirichlet(np.ones(4), (4, 2)) * (rng.random((4, 2, 4)) < 0.6)
    p[..., 0] += 0.2
    p /= p.sum(-1, keepdims=True)
    return MDP(p, rng.random((1, 4, 2, 4)), 2, [0.5, 0.5, 0, 0])


def scattered() -> MDP:
    rng = np.random.default_rng(5)
    return MDP(rng.dirichlet(np.ones(4), (4, 2)), rng.random((4, 2)), 3, rng.dirichlet(np.ones(4)))


def told(mdp: MDP, *hidden: Any) -> tuple[MDP, Problem]:
    return mdp, mdp.problem.hiding(*hidden)


PROBLEMS: dict[str, tuple[tuple[MDP, Problem], float]] = {
    "hard class": (told(make("hard:n=2,actions=2,horizon=4")), 0.7),
    "slip chain": (told(make("chain:n=5"), "successors"), 0.5),
    "linear chain": (told(make("chain:n=4,linear=1")), 0.5),
    "riverswim": (told(make("riverswim:n=4,horizon=6")), 0.5),
    "random dense": (told(make("random:states=5,actions=2,horizon=3")), 0.4),
    "tutoring": (told(make("tutoring")), 0.5),
    "segments": (told(segmented()), 0.3),
    "rewards unknown": (told(noisy(), "rewards"), 0.7),
    "rewards that stay the same": (told(make("chain:n=4"), "rewards"), 0.5),
    "rewards on the way": (told(on_the_way(), "rewards", "initial"), 0.7),
    "nothing told": (told(noisy(), "rewards", "successors", "initial"), 0.7),
    "start unknown": (told(scattered(), "initial"), 0.3),
}
RUNS = 200


@pytest.mark.parametrize("delta", [0.5, 0.1])
@pytest.mark.parametrize("name", PROBLEMS)
def test_certificates_hold(name: str, delta: float) -> None:
    """3,600 runs to their certificate."""
    (mdp, problem), epsilon = PROBLEMS[name]
    seen = watch(mdp, problem, RUNS, epsilon, delta, episodes=100_000)
    print(f"{name}, delta {delta}: {seen}")
    assert min(seen.episodes) > 0
    assert seen.upper() <= delta
    assert seen.upper("returned") <= delta


@pytest.mark.parametrize("kind", [*AT_DOUBLINGS, *ALWAYS])
def test_other_sets_hold(kind: str) -> None:
    for name in ("slip chain", "segments", "rewards unknown", "start unknown"):
        (mdp, problem), epsilon = PROBLEMS[name]
        seen = watch(mdp, problem, 40, epsilon, 0.5, episodes=100_000, confidence=kind)
        print(f"{kind}, {name}: {seen}")
        assert seen.upper() <= 0.5


@pytest.mark.parametrize("idea", COMPONENTS)
def test_each_choice_of_ideas_holds(idea: str) -> None:
    for name in ("slip chain", "rewards unknown"):
        (mdp, problem), epsilon = PROBLEMS[name]
        seen = watch(mdp, problem, 40, epsilon, 0.5, episodes=100_000, without=(idea,))
        print(f"without {idea}, {name}: {seen}")
        assert seen.upper() <= 0.5


# -- each part, with its own share of delta --------------------------------------------------------


def arms(*chances: float, successors: int = 2) -> MDP:
    """One decision: an arm that leads to a good state or a bad one; nothing else is unknown.

    With more successors, those are equally likely, and their rewards rise evenly.
    """
    p = np.zeros((1 + successors, len(chances), 1 + successors))
    for a, chance in enumerate(chances):
        p[0, a, 1:] = (
            [chance, 1 - chance] if successors == 2 else np.full(successors, 1 / successors)
        )
    for s in range(1, 1 + successors):
        p[s, :, s] = 1
    r = np.array([0.0, 1.0, 0.0]) if successors == 2 else np.linspace(0, 1, 1 + successors)
    return MDP(p, r[:, None], 2)


def one_state() -> MDP:
    return MDP([[[1.0]] * 2], [[0.3, 0.6]], 1, noise="bernoulli")


SCORED = {"without": ("difference",), "epsilon": 0.05, "episodes": 500}
"""Scores are all that leads to a certificate then."""

EXTREME: dict[str, tuple[tuple[MDP, Problem], dict[str, Any]]] = {
    "one arm": (told(arms(0.5)), {}),
    "two arms": (told(arms(0.5, 0.6)), {}),
    "rare": (told(arms(0.02, 0.05)), {}),
    "eight arms": (told(arms(*[0.5] * 8)), {"episodes": 400}),
    "four successors": (told(arms(0, 0, successors=4)), {}),
    "rewards": (told(one_state(), "rewards"), {}),
    "outcomes": (told(arms(0, 0, successors=4), "rewards"), {}),
    "start": (told(scattered(), "initial"), {}),
    "scores": (told(make("chain:n=3,horizon=3")), SCORED),
}


def shares(best: KnownStateBounds, delta: float) -> dict[str, float]:
    """Return the share of delta of each claim: its own, and those of the parts it rests on."""
    unknown = best.problem.rewards is None
    total = SHARES | (REWARD_SHARES if unknown else {})
    used = {x: y for x, y in total.items() if x in best.costs}
    part = {x: delta * used.get(x, 0.0) / sum(used.values()) for x in SHARES | REWARD_SHARES}
    any_function = ("all", "outcomes", "rewards")
    # a function of the next state is also bounded by what holds for all of them; of rewards, none
    fixed = () if unknown else ("all",)
    rests_on = {
        "above": ("above", *fixed),
        "below": ("below", *fixed),
        "all": ("all",),
        "outcomes": ("outcomes",),
        "rewards": ("rewards",),
        "scores": ("scores", *any_function),
        "all: W": ("above", "below", *any_function),
        "all: D": ("above", "below", *any_function),
    }
    return {name: sum(part[x] for x in of) for name, of in rests_on.items()} | {"any": delta}


def extreme(name: str, runs: int, delta: float) -> Seen:
    """Runs that never stop."""
    (mdp, problem), options = EXTREME[name]
    options = {"epsilon": 0.01, "episodes": 200, "stop": None, **options}
    return watch(mdp, problem, runs, delta=delta, **options)


def allowed(name: str, delta: float) -> dict[str, float]:
    """Return the shares of runs that may break each claim."""
    (_, problem), options = EXTREME[name]
    return shares(KnownStateBounds(problem, delta, options.get("without", ())), delta)


@pytest.mark.parametrize("name", EXTREME)
def test_each_part_keeps_its_share(name: str) -> None:
    """With delta = 1, so that something breaks: each part still may only take its share."""
    seen, may = extreme(name, 200, 1.0), allowed(name, 1.0)
    print(f"{name}: {seen}; allowed: { ({x: round(200 * y) for x, y in may.items()}) }")
    for part, share in may.items():
        assert not seen.refutes(part, share), part


# -- power: the same checks, with bounds that are wrong -------------------------------------------

Break = Callable[[pytest.MonkeyPatch], None]


def without_logs(*parts: str) -> Break:
    """ln(1/delta), with its union bound, left out of some parts."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        made = KnownStateBounds.__init__

        def init(self: KnownStateBounds, *given: Any, **options: Any) -> None:
            made(self, *given, **options)
            self.costs |= dict.fromkeys([x for x in parts if x in self.costs], 0.0)

        patch.setattr(KnownStateBounds, "__init__", init)

    return apply


def inflated(factor: float) -> Break:
    """delta larger than was asked for."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        made = KnownStateBounds.__init__

        def init(
            self: KnownStateBounds, problem: Problem, delta: float, *rest: Any, **options: Any
        ) -> None:
            made(self, problem, factor * delta, *rest, **options)

        patch.setattr(KnownStateBounds, "__init__", init)

    return apply


def scaled(factor: float) -> Break:
    """All budgets too small."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        right = KnownStateBounds.budget

        def budget(self: KnownStateBounds, counts: Any) -> None:
            right(self, counts)
            self.eta_up, self.eta_low = factor * self.eta_up, factor * self.eta_low
            self.eta_all, self.eta_outcomes = factor * self.eta_all, factor * self.eta_outcomes

        patch.setattr(KnownStateBounds, "budget", budget)

    return apply


def without_excess(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ucfh.confidence.known_states, "excess", lambda *given: given[4].fill(0.0))


def without_excess_of_patterns(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        ucfh.confidence.known_states, "pattern_excess", lambda *given: given[-1].fill(0.0)
    )


def without_other_rewards(patch: pytest.MonkeyPatch) -> None:
    """As if nothing could be paid but what was."""
    patch.setattr(ucfh.confidence.known_states, "REWARDS", NOTHING)


def without_union(patch: pytest.MonkeyPatch) -> None:
    parts = (*SHARES, *REWARD_SHARES)
    patch.setattr(ucfh.confidence.known_states, "count_events", lambda _: dict.fromkeys(parts, 1))


def all_as_one(patch: pytest.MonkeyPatch) -> None:
    """Functions that depend on the data, bounded as if they were fixed in advance."""
    right = KnownStateBounds.budget

    def budget(self: KnownStateBounds, counts: Any) -> None:
        right(self, counts)
        self.eta_all = np.minimum(self.eta_all, self.eta_up)

    patch.setattr(KnownStateBounds, "budget", budget)


# name: how it is broken, on which problem it is looked for, with which delta, what it breaks
BROKEN: dict[str, tuple[Break, str, float, str]] = {
    "no logs of 1/delta": (without_logs(*SHARES), "two arms", 0.2, "any"),
    "no log for V* from above": (without_logs("above"), "one arm", 0.2, "above"),
    "no log for V* from below": (without_logs("below"), "two arms", 0.2, "below"),
    "no log for all functions": (without_logs("all"), "two arms", 0.2, "all"),
    "no log for scores": (without_logs("scores"), "scores", 0.05, "scores"),
    "no log for rewards": (without_logs("rewards"), "rewards", 0.2, "rewards"),
    "no log for outcomes": (without_logs("outcomes"), "outcomes", 0.2, "outcomes"),
    "no excess of patterns": (without_excess_of_patterns, "outcomes", 0.2, "outcomes"),
    "no other rewards": (without_other_rewards, "rewards", 0.2, "above"),
    "delta ten times as large": (inflated(10.0), "four successors", 0.1, "all"),
    "budgets times 0.2": (scaled(0.2), "two arms", 0.2, "any"),
    "budgets times 0.5": (scaled(0.5), "four successors", 0.2, "any"),
    "no excess": (without_excess, "four successors", 0.2, "all"),
    "no union over rows": (without_union, "eight arms", 0.5, "all"),
    "data taken for fixed": (all_as_one, "four successors", 0.2, "all"),
}


@cache
def unbroken(problem: str, delta: float) -> Seen:
    """The same runs with the right bounds."""
    return extreme(problem, 100, delta)


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil, problem, delta, part = BROKEN[name]
    right, share = unbroken(problem, delta), allowed(problem, delta)[part]
    spoil(monkeypatch)
    seen = extreme(problem, 100, delta)
    print(
        f"{name}: {part} broken in {seen.broken[part]}, with the right bounds in "
        f"{right.broken[part]}, of 100 ({100 * share:.0f} allowed)"
    )
    assert not right.refutes(part, share)
    assert seen.refutes(part, share)
