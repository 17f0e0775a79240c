"""UCFH against Algorithm 1 walked episode by episode, and what it promises when told less."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles import reference as ref
from support.settings import many
from ucfh.algorithms.ucfh import UCFH
from ucfh.confidence.intervals import SETS
from ucfh.counts import NEVER, Counts
from ucfh.exceptions import InputError
from ucfh.mdp import MDP, Problem
from ucfh.simulation.environment import EpisodeBatch, Simulator
from ucfh.simulation.runner import simulate
from ucfh.theory.constants import Variant

Floats = NDArray[np.float64]


def slip_chain() -> MDP:
    """S = 5, A = 2, H = 5: worked out by hand."""
    p = np.zeros((5, 2, 5))
    for s in range(5):
        right, left = min(s + 1, 4), max(s - 1, 0)
        for a, chance in ((0, 0.2), (1, 0.8)):
            p[s, a, right] += chance
            p[s, a, left] += 1 - chance
    return MDP(p, [[0.05], [0], [0], [0], [1]], 5)


def random_mdp(seed: int, S: int, A: int, H: int, segmented: bool = False, **options: Any) -> MDP:
    """``sparse``, ``spread`` (the start) and ``rewards`` (their shape) are options too."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(S), (H, S, A) if segmented else (S, A))
    if options.pop("sparse", False):
        p[p < p.max(-1, keepdims=True) / 3] = 0
        p /= p.sum(-1, keepdims=True)
    p0 = rng.dirichlet(np.ones(S)) if options.pop("spread", False) else 0
    return MDP(p, rng.random(options.pop("rewards", (S, A))), H, p0, **options)


HARD = ref.hard_mdp(3, 3, 5, 0.25, [0, 2, 1])
# name: the MDP and m, which is chosen so that neither m w_min nor the cut-off is near a whole
# number in either variant: all of them then agree on what "at least" means
WORLDS: dict[str, tuple[MDP, float]] = {
    "slip chain": (slip_chain(), 1313.7),
    "hard class": (MDP(HARD[0], HARD[1], 5, HARD[2]), 777.77),
    "dense": (random_mdp(1, 3, 2, 3), 301.3),
    "sparse": (random_mdp(2, 6, 2, 4, sparse=True), 911.9),
    "segments": (random_mdp(3, 2, 2, 3, segmented=True), 433.3),
    "sparse segments": (random_mdp(4, 3, 2, 2, segmented=True, sparse=True), 377.7),
    "start distribution": (random_mdp(5, 3, 2, 3, spread=True), 523.3),
    "rewards on t": (random_mdp(6, 2, 2, 4, rewards=(4, 2, 2)), 411.1),
    "rewards on s'": (random_mdp(7, 3, 2, 3, rewards=(1, 3, 2, 3)), 333.3),
    "rewards on t and s'": (random_mdp(8, 2, 2, 3, rewards=(3, 2, 2, 2), segmented=True), 377.1),
    "one step": (random_mdp(9, 3, 3, 1, spread=True), 57.7),
    "one action": (random_mdp(10, 3, 1, 3), 259.9),
    "one state": (random_mdp(11, 1, 3, 3), 123.3),
}
Confidence = Literal["paper", "kl"]
Kind = tuple[Variant, Confidence]
KINDS: list[Kind] = [
    ("paper", "paper"),
    ("corrected", "kl"),
    ("paper", "kl"),
    ("corrected", "paper"),
]


@dataclass
class Seen:
    """A phase of the fast agent: what it planned, and its counts after the update."""

    episodes: int
    pair: int
    n: NDArray[np.int64]
    successors: Floats
    optimistic: float
    policy: NDArray[Any]


def follow(mdp: MDP, agent: UCFH, seed: int, phases: int) -> Iterator[Seen]:
    """Drive the agent through the walking world."""
    world, rng, table = (
        Simulator(mdp, agent.problem),
        np.random.default_rng(seed),
        agent.problem.table,
    )
    for _ in range(phases):
        policy, optimistic, limits = agent.policy.copy(), agent.optimistic, agent.limits()
        rows = mdp.table.rows_of(policy, mdp.horizon)
        stretch, final = EpisodeBatch(Counts.zero(agent.problem)), world.is_final(rows, limits)
        if not final:
            world.walk(rng, rows, limits, 10**6, stretch)
            assert stretch.ended
            assert agent.observe(stretch.counts)
        successors = table.dense(agent.n.successors.astype(np.float64))
        pair = -1 if final else agent.updated
        n = agent.n.visits[:-1].copy()
        yield Seen(stretch.episodes, pair, n, successors, optimistic, policy)
        if final:
            return


def compare(mdp: MDP, m: float, kind: Kind, phases: int) -> list[Seen]:
    variant, confidence = kind
    eps, delta, seed = 0.5, 0.1, 17
    agent = UCFH(mdp.problem, eps, delta, variant=variant, confidence=confidence, m=m)
    numbers = np.array([m * agent.constants.w_min, agent.constants.cutoff])
    assert (abs(numbers - np.round(numbers)) > 1e-6).all()
    fast = list(follow(mdp, agent, seed, phases))
    slow = ref.walk_ucfh(
        mdp.table.dense(mdp.p),
        full_rewards(mdp),
        mdp.horizon,
        mdp.initial,
        eps,
        delta,
        m,
        variant,
        seed,
        phases,
        confidence,
        choose=lambda k: np.asarray(fast[k].policy, np.int64),
    )
    assert len(slow) == len(fast)
    for k, (ours, theirs) in enumerate(zip(fast, slow, strict=True)):
        assert (ours.episodes, ours.pair) == (theirs.episodes, theirs.pair), f"phase {k}"
        assert (ours.n == theirs.n.ravel()).all(), f"phase {k}"
        assert (ours.successors == theirs.n_next).all(), f"phase {k}"
        assert ours.optimistic == pytest.approx(theirs.optimistic_value, abs=1e-9), f"phase {k}"
    return fast


def full_rewards(mdp: MDP) -> Floats:
    """(H, S, A), or (H, S, A, S) and zero where a state cannot follow."""
    shape: tuple[int, ...] = (mdp.horizon, mdp.states, mdp.actions)
    if mdp.rewards.successor is None:
        return np.broadcast_to(mdp.rewards.pair.reshape(-1, *shape[1:]), shape)
    lines = [mdp.table.dense(line) for line in mdp.rewards.successor]
    shape = (*shape, mdp.states)
    return np.broadcast_to(np.stack(lines).reshape(-1, *shape[1:]), shape)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_algorithm_1(name: str) -> None:
    """Same seed: same phases, episodes, pairs, counts; same values; policies up to ties."""
    mdp, m = WORLDS[name]
    turn = list(WORLDS).index(name)
    for k in range(turn, turn + many(1, 2)):
        fast = compare(mdp, m, KINDS[k % 4], phases=25)
        assert len(fast) == 25 or fast[-1].pair == -1


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_algorithm_1_to_its_end(kind: Kind) -> None:
    """Past the cut-off, through pairs that wait for their turn, to the phase that never ends."""
    for mdp, m in (
        (random_mdp(12, 2, 2, 3), 3.31),
        (random_mdp(13, 2, 2, 2, segmented=True), 1.37),
    ):
        fast = compare(mdp, m, kind, phases=500)
        assert fast[-1].episodes == 0
        assert fast[-1].pair == -1
        assert all(phase.episodes >= 1 for phase in fast[:-1])
        # some phases were one episode long because a pair had been waiting
        assert sum(phase.episodes == 1 for phase in fast) >= 3


def test_simulate_follows_the_same_phases() -> None:
    mdp, m = WORLDS["slip chain"]
    fast = list(follow(mdp, UCFH(mdp.problem, 0.5, 0.1, m=m), 3, phases=30))
    most = sum(phase.episodes for phase in fast)
    agent = UCFH(mdp.problem, 0.5, 0.1, m=m)
    run = simulate(mdp, agent, episodes=most, seed=3, method="step").phases
    assert run.episodes.tolist() == [phase.episodes for phase in fast]
    assert (run.state * 2 + run.action).tolist() == [phase.pair for phase in fast]
    assert run.n.tolist() == [phase.n[phase.pair] for phase in fast]
    assert run.optimistic.tolist() == [phase.optimistic for phase in fast]


def counts(problem: Problem, visits: dict[int, int]) -> Counts:
    """Visits of rows, all followed by the row's first successor."""
    seen = Counts.zero(problem)
    for row, times in visits.items():
        seen.visits[row] = times
        seen.successors[problem.table.indptr[row]] = times
    return seen


def test_one_pair_at_a_time() -> None:
    """Two pairs reach the limit in one episode: the lower is updated, the other waits one episode.

    m w_min = 10.5: v must reach 11, and then double.
    """
    problem = Problem(3, 2, 3, np.zeros((3, 1)), initial=0)
    agent = UCFH(problem, 0.5, 0.1, m=10.5 / (0.5 / 36))
    assert agent.limits().visits.tolist() == [11] * 6 + [NEVER]
    assert not agent.observe(counts(problem, {1: 10, 4: 10, 5: 3}))
    assert agent.limits().visits.tolist() == [11, 1, 11, 11, 1, 8, NEVER]
    assert agent.updated == -1
    assert agent.observe(counts(problem, {1: 1, 4: 2}))
    assert (agent.updated, agent.visits_of(1), agent.visits_of(4)) == (1, 11, 0)
    assert agent.limits().visits.tolist() == [11, 11, 11, 11, 0, 8, NEVER]
    assert agent.observe(counts(problem, {0: 3}))
    assert (agent.updated, agent.visits_of(4)) == (4, 12)
    assert agent.limits().visits.tolist() == [8, 11, 11, 11, 12, 8, NEVER]
    assert agent.v.visits[5] == 3
    assert not agent.observe(counts(problem, {1: 10, 4: 11, 5: 7}))
    assert agent.observe(counts(problem, {4: 1, 5: 1}))
    assert (agent.updated, agent.visits_of(4)) == (4, 24)


def test_a_waiting_pair_needs_one_episode_only() -> None:
    mdp = random_mdp(14, 2, 2, 3)
    agent = UCFH(mdp.problem, 0.5, 0.1, m=200)
    enough = int(agent.limits().visits[0])
    agent.observe(counts(mdp.problem, {0: enough, 3: enough}))
    world, rows = Simulator(mdp, mdp.problem), mdp.table.rows_of(agent.policy, 3)
    stretch = EpisodeBatch(Counts.zero(mdp.problem))
    world.walk(np.random.default_rng(0), rows, agent.limits(), 1000, stretch)
    assert (stretch.episodes, stretch.ended) == (1, True)
    assert agent.observe(stretch.counts)
    assert agent.updated == 3


@pytest.mark.parametrize("variant", ["paper", "corrected"])
def test_surplus(variant: Variant) -> None:
    """Corrected: n is never random: c, 2c, 4c, ... with c = ceil(m w_min). Printed: overshoots."""
    mdp, m = random_mdp(15, 2, 2, 6), 1311.3
    agent = UCFH(mdp.problem, 0.5, 0.1, variant=variant, m=m)
    unit = math.ceil(m * agent.constants.w_min)
    reached: list[int] = []
    for _ in follow(mdp, agent, 5, phases=25):
        reached.append(agent.visits_of(agent.updated))
        if variant == "corrected":
            assert (agent.v.visits[:-1] <= np.maximum(unit, agent.n.visits[:-1])).all()
        assert agent.n.visits.sum() == agent.n.successors.sum()
        assert agent.v.visits.sum() == agent.v.successors.sum()
    doubled = {unit * 2**k for k in range(20)}
    assert (set(reached) <= doubled) == (variant == "corrected")


def test_cutoff() -> None:
    """n < S m H may trigger, n >= S m H may not: here 4 m with m = 2.6, and m w_min = .1625."""
    problem = Problem(2, 1, 2, np.zeros((2, 1)), initial=0)
    agent = UCFH(problem, 1, 0.1, m=2.6)
    assert agent.constants.cutoff == pytest.approx(10.4)
    assert agent.observe(counts(problem, {0: 10}))
    assert agent.limits().visits.tolist() == [10, 1, NEVER]
    assert agent.observe(counts(problem, {0: 10, 1: 11}))
    assert agent.limits().visits.tolist() == [NEVER, 0, NEVER]
    assert agent.observe(counts(problem, {0: 50}))
    assert agent.limits().visits.tolist() == [NEVER, NEVER, NEVER]
    assert not agent.observe(counts(problem, {0: 10**6, 1: 10**6}))


def test_unknown_rewards_by_hand() -> None:
    """r^ = 1.5 / 11 and its confidence set, of which planning takes the upper end."""
    problem = Problem(2, 1, 1, initial=0)
    for kind in ("paper", "kl"):
        agent = UCFH(problem, 0.5, 1, confidence=kind, m=10.5 / (0.375 / 8))
        assert agent.optimistic == 1
        seen = counts(problem, {0: 11})
        seen.rewards[0] = 1.5
        assert agent.observe(seen)
        lo, hi = SETS[kind](1.5 / 11, 11, agent.constants.delta_1)
        assert agent.box.reward_lo.tolist() == [lo, 0, 0]
        assert agent.box.reward_hi.tolist() == [hi, 1, 1]
        assert agent.optimistic == hi < 1


def test_guarantee_only_with_the_true_m() -> None:
    problem = slip_chain().problem
    for variant in ("paper", "corrected"):
        agent = UCFH(problem, 0.5, 0.1, variant=variant)
        assert agent.episode_bound == agent.constants.episode_bound
        assert UCFH(problem, 0.5, 0.1, variant=variant, m=5).episode_bound is None
    with pytest.raises(InputError, match="m = -1"):
        UCFH(problem, 0.5, 0.1, m=-1)
    with pytest.raises(InputError, match="unknown confidence set 'l2'"):
        UCFH(problem, 0.5, 0.1, confidence="l2")


def test_first_promise() -> None:
    """Nothing seen: the best that the told rewards, successors and start allow."""
    mdp = MDP([[[0, 1.0]], [[1.0, 0]]], [[0.5], [0.25]], 3)
    assert UCFH(mdp.problem, 1, 1).optimistic == 0.5 + 0.25 + 0.5
    assert UCFH(mdp.problem.hiding("successors"), 1, 1).optimistic == 1.5
    assert UCFH(mdp.problem.hiding("rewards"), 1, 1).optimistic == 3
    late = MDP([[[0, 1.0]], [[0, 1.0]]], [[0.5], [0.75]], 2, [0.5, 0.5])
    assert UCFH(late.problem, 1, 1).optimistic == 0.5 * 1.25 + 0.5 * 1.5
    assert UCFH(late.problem.hiding("initial"), 1, 1).optimistic == 1.5


def test_never_sees_the_transitions() -> None:
    """An agent made from a Problem that no MDP ever touched behaves the same."""
    mdp, m = WORLDS["sparse"]
    rows, indices = mdp.table.rectangular()
    mask = np.zeros((mdp.states * mdp.actions, mdp.states), bool)
    mask[rows, indices] = True
    rewards = mdp.rewards.pair.reshape(mdp.states, mdp.actions)
    problem = Problem(6, 2, 4, rewards, mask.reshape(6, 2, 6), initial=0)
    one = list(follow(mdp, UCFH(mdp.problem, 0.5, 0.1, m=m), 1, 15))
    other = list(follow(mdp, UCFH(problem, 0.5, 0.1, m=m), 1, 15))
    assert [x.optimistic for x in one] == [x.optimistic for x in other]
    assert all((x.policy == y.policy).all() for x, y in zip(one, other, strict=True))


EVERYTHING = ("rewards", "successors", "initial")
HIDDEN: list[tuple[Any, ...]] = [(), *((name,) for name in EVERYTHING), EVERYTHING]


@pytest.mark.slow
@pytest.mark.parametrize("hidden", HIDDEN, ids=str)
@pytest.mark.parametrize("noise", [None, "bernoulli"])
@pytest.mark.parametrize("segmented", [False, True])
def test_optimism(
    hidden: tuple[Any, ...], noise: Literal["bernoulli"] | None, segmented: bool
) -> None:
    """Whenever the truth is in the sets, V~ >= V*; and it is, in at least 1 - delta of all runs."""
    captured = 0
    runs = many(3, 5)
    for seed in range(runs):
        mdp = random_mdp(20 + seed, 3, 2, 3, segmented, spread=True, noise=noise, sparse=True)
        kind = KINDS[seed % 4]
        agent = UCFH(
            mdp.problem.hiding(*hidden), 0.5, 0.1, variant=kind[0], confidence=kind[1], m=300
        )
        run = simulate(mdp, agent, episodes=2000, seed=seed, method="step")
        true = run.phases.captured == 1
        assert (run.phases.optimistic[true] >= run.optimal - 1e-9).all()
        assert len(run.phases) > 20
        captured += bool(true.all())
    # each run fails with probability at most .1, in truth far less
    assert captured >= runs - 1


@pytest.mark.slow
@pytest.mark.parametrize("hidden", HIDDEN, ids=str)
@pytest.mark.parametrize("noise", [None, "bernoulli"])
def test_convergence(hidden: tuple[Any, ...], noise: Literal["bernoulli"] | None) -> None:
    """The final V~ is near V*: rows that its policy reaches have n >= S m H > 10^6 and L < 15, so
    Hoeffding's half-width is below .0028, every bound within .0056 of the truth, and the value
    within H (1 + S H) .0056 < .06.
    """
    p, r = [[[0.9, 0.1], [0.4, 0.6]], [[0.5, 0.5], [0.2, 0.8]]], [[0, 0.3], [1, 0.6]]
    mdp = MDP(p, r, 2, [0.8, 0.2], noise=noise)
    agent = UCFH(mdp.problem.hiding(*hidden), 0.5, 0.1, m=2.6e5)
    run = simulate(mdp, agent, seed=2, method="step")
    assert run.final
    assert run.phases.captured.all()
    assert -1e-9 <= run.optimistic - run.optimal <= 0.06
    assert -1e-12 <= run.gap <= 0.06
    assert run.phases.optimistic[0] > run.optimistic + 0.02


@pytest.mark.parametrize("hidden", HIDDEN, ids=str)
def test_restore_continues(hidden: tuple[Any, ...]) -> None:
    """From what `state` gave, a new agent goes on exactly as the old one did."""
    mdp = random_mdp(33, 3, 2, 3, spread=True, noise="bernoulli")
    problem = mdp.problem.hiding(*hidden)

    def new() -> UCFH:
        return UCFH(problem, 0.5, 0.1, m=700.1)

    old = new()
    simulate(mdp, old, episodes=777, seed=1, method="step")
    saved = {name: np.copy(array) for name, array in old.state().items()}
    fresh = new()
    fresh.restore(saved)
    assert (fresh.policy == old.policy).all()
    assert (fresh.optimistic, fresh.updated) == (old.optimistic, old.updated)
    assert (fresh.limits().visits == old.limits().visits).all()
    for x, y in zip(follow(mdp, old, 2, 20), follow(mdp, fresh, 2, 20), strict=True):
        assert (x.episodes, x.pair, x.optimistic) == (y.episodes, y.pair, y.optimistic)
        assert (x.policy == y.policy).all()
        assert (x.successors == y.successors).all()


def test_state_is_a_snapshot() -> None:
    """What `state` gave does not change when the agent learns on."""
    mdp = random_mdp(34, 3, 2, 3)
    agent = UCFH(mdp.problem, 0.5, 0.1, m=700.1)
    simulate(mdp, agent, episodes=300, seed=1, method="step")
    saved = agent.state()
    before = {name: np.copy(array) for name, array in saved.items()}
    list(follow(mdp, agent, 2, 20))
    assert all((saved[name] == before[name]).all() for name in before)


def test_restore_forgets_what_came_after() -> None:
    """Going back to the beginning: rows that had no visits then are unknown again."""
    mdp = random_mdp(35, 3, 2, 3)
    new, used = UCFH(mdp.problem, 0.5, 0.1, m=99.9), UCFH(mdp.problem, 0.5, 0.1, m=99.9)
    simulate(mdp, used, episodes=3000, seed=1, method="step")
    used.restore({name: np.copy(array) for name, array in new.state().items()})
    assert used.optimistic == new.optimistic
    assert (used.box.hi == new.box.hi).all()
    assert (used.policy == new.policy).all()
