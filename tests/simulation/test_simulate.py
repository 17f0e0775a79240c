"""Walked simulations: the record of a run, seeds and chunks, and the distribution of the walk."""

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from ucfh import Agent, make, make_agent
from ucfh._kernels.walk import cumulate
from ucfh.algorithms.ucfh import UCFH
from ucfh.counts import NEVER, Counts, Limits
from ucfh.exceptions import InputError
from ucfh.mdp import MDP, Problem
from ucfh.simulation.environment import EpisodeBatch, Simulator
from ucfh.simulation.result import Run
from ucfh.simulation.runner import simulate

simulation = importlib.import_module("ucfh.simulation.runner")
COUNTED, MEASURED = ("state", "action", "n"), ("value", "optimistic", "gap", "captured")
COLUMNS = ("first_episode", "episodes", *COUNTED, *MEASURED, "segment")
KNOWN = ("lower", "gap_bound")  # NaN for an agent that does not keep count
UNLIKELY = 1e-6  # how often a chi-square test with a fresh seed would fail by chance


def random_mdp(seed: int, S: int = 3, A: int = 2, H: int = 3, **options: Any) -> MDP:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(S), (S, A))
    return MDP(p, rng.random((S, A)), H, **options)


def agent_for(mdp: MDP, m: float = 700.1, **options: Any) -> UCFH:
    return UCFH(mdp.problem, 0.25, 0.1, m=m, **options)


def step(mdp: MDP, m: float = 700.1, variant: Any = "paper", **options: Any) -> Run:
    return simulate(mdp, agent_for(mdp, m, variant=variant), method="step", **options)


def rows_of(run: Run) -> list[tuple[Any, ...]]:
    """Every row, to be compared exactly."""
    return [tuple(row[name] for name in COLUMNS) for row in run.phases]


def check_record(mdp: MDP, run: Run) -> None:
    """Assert the invariants of a record."""
    phases = run.phases
    assert phases.dtype.names == COLUMNS + KNOWN
    assert np.isnan(phases.lower).all()
    assert np.isnan(phases.gap_bound).all()
    assert sum(phases.episodes) == run.episodes
    assert phases.first_episode.tolist() == [0, *np.cumsum(phases.episodes[:-1]).tolist()]
    assert all(isinstance(x, int) for x in [*phases.episodes, *phases.first_episode])
    ended = phases.n > 0
    assert ended[:-1].all()
    assert (phases.episodes[ended] >= 1).all()
    assert (((phases.state >= 0) == ended) & ((phases.action >= 0) == ended)).all()
    assert ((phases.segment >= 0) == ended).all()
    assert run.updates == ended.sum()
    assert run.optimal == mdp.at_start(mdp.optimal().values)
    assert np.abs(phases.value + phases.gap - run.optimal).max() <= 1e-12
    assert (phases.gap >= -1e-12).all()
    assert run.value == phases.value[-1] == mdp.value(run.policy)
    assert (run.gap, run.optimistic) == (phases.gap[-1], phases.optimistic[-1])
    assert np.isin(phases.captured, [0, 1]).all()
    assert run.regret == pytest.approx(float(sum(phases.episodes * phases.gap)), abs=1e-9)


@pytest.mark.parametrize("variant", ["paper", "corrected"])
@pytest.mark.parametrize("seed", range(3))
def test_record(seed: int, variant: str) -> None:
    mdp = random_mdp(seed, initial=[0.5, 0, 0.5])
    capped, final = step(mdp, variant=variant, episodes=2000, seed=seed), step(mdp, m=9.9)
    for run in (capped, final):
        check_record(mdp, run)
    assert capped.episodes == 2000
    assert not capped.final
    assert tuple(capped.phases[-1][list(COUNTED)]) == (-1, -1, 0)
    assert final.final
    assert (final.phases.episodes[-1], final.phases.state[-1]) == (0, -1)
    assert "endless" in str(final)
    assert "final" in repr(final)


def test_cap_at_the_end_of_a_phase() -> None:
    """The last update is kept and counted; no phase is begun that has no episode."""
    mdp = random_mdp(4)
    whole = step(mdp, episodes=3000)
    for k in (1, 2, 7):
        most = int(sum(whole.phases.episodes[:k]))
        run = step(mdp, episodes=most)
        check_record(mdp, run)
        assert run.episodes == most
        assert run.updates == k
        assert rows_of(run) == rows_of(whole)[:k]


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [
        lambda: random_mdp(5),
        lambda: MDP(random_mdp(5).table.dense(random_mdp(5).p), [[[0.5]], [[0.1]], [[1]]], 3),
        lambda: MDP(np.full((3, 2, 2, 2), 0.5), [[0.5], [1]], 3),
        lambda: MDP(np.full((3, 2, 2, 2), 0.5), np.linspace(0, 1, 12).reshape(3, 2, 2), 3),
        lambda: MDP(np.full((2, 2, 2), 0.5), np.linspace(0, 1, 8).reshape(1, 2, 2, 2), 3),
        lambda: MDP(np.full((2, 2, 2), 0.5), np.linspace(0, 1, 24).reshape(3, 2, 2, 2), 3),
        lambda: MDP([[[1.0]]], [[0.5]], 1),
    ],
    ids=["r(s,a)", "r_t", "p_t r(s)", "p_t r_t(s,a)", "r(s,a,s')", "r_t(s,a,s')", "one of each"],
)
def test_every_kind_of_problem_runs(build: Any) -> None:
    mdp = build()
    check_record(mdp, step(mdp, episodes=500))
    if mdp.table.segments > 1 or not mdp.rewards.by_segment:
        told = mdp.problem.hiding("rewards", "successors", "initial")
        run = simulate(mdp, UCFH(told, 0.5, 0.1, m=99.9), episodes=500, method="step")
        assert sum(run.phases.episodes) == 500
        # an update of the start, learned as one more row, names no pair but has an n
        assert run.updates == (run.phases.n > 0).sum() > (run.phases.state >= 0).sum()


def test_seeds() -> None:
    mdp = random_mdp(6)
    one, again, other = (step(mdp, episodes=3000, seed=seed) for seed in (1, 1, 2))
    assert rows_of(one) == rows_of(again)
    assert rows_of(one) != rows_of(other)
    wrong: list[tuple[str, Any]] = [("seed", -1), ("episodes", 0), ("method", "leap")]
    for name, value in wrong:
        with pytest.raises(InputError, match=name):
            simulate(mdp, agent_for(mdp), **{name: value})


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["paper", "corrected"])
@pytest.mark.parametrize("steps", [1, 7, 1000])
def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch, steps: int, variant: str) -> None:
    mdp = random_mdp(7, noise="bernoulli")
    hidden = mdp.problem.hiding("rewards", "initial")

    def rows() -> list[list[tuple[Any, ...]]]:
        agent = UCFH(hidden, 0.25, 0.1, m=700.1, variant=variant)  # type: ignore[arg-type]
        hiding = simulate(mdp, agent, episodes=1500, method="step")
        return [rows_of(step(mdp, variant=variant, episodes=1500)), rows_of(hiding)]

    whole = rows()
    monkeypatch.setattr(simulation, "CHUNK_STEPS", steps)
    assert rows() == whole


def test_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in a report of progress: what was run is kept, and is the beginning of the whole."""
    mdp = random_mdp(8)
    whole = step(mdp, m=70000.1, episodes=20000)
    monkeypatch.setattr(simulation, "CHUNK_STEPS", 30)
    run = step(mdp, m=70000.1, progress=stop_after(9000))
    assert (run.interrupted, run.final) == (True, False)
    check_record(mdp, run)
    # all but the phase that was cut short are as they were
    assert 9000 < run.episodes <= 9010
    assert rows_of(run)[:-1] == rows_of(whole)[: len(run.phases) - 1]
    assert "interrupted" in repr(run)


def stop_after(episodes: int) -> Callable[[Run], None]:
    def progress(run: Run) -> None:
        if run.episodes > episodes:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("method", ["bulk", "step"])
def test_interrupted_agents_keep_their_rewards(method: Any) -> None:
    """All that was seen before the interruption came with its reward, here .8 each."""
    mdp = MDP([[[1.0]]], [[0.8]], 2)
    agent = UCFH(mdp.problem.hiding("rewards"), 0.5, 0.1)
    assert simulate(mdp, agent, method=method, progress=stop_after(300_000)).interrupted
    assert agent.n.visits[0] + agent.v.visits[0] > 600_000
    for seen in (agent.n, agent.v):
        assert seen.rewards[0] == pytest.approx(0.8 * seen.visits[0])


def test_resume() -> None:
    """Cut anywhere and resumed, a run is the same as if it had never stopped."""
    mdp = random_mdp(12)
    whole = step(mdp, m=9.9, seed=5)
    for most in (1, 2, 17, whole.episodes - 1):
        part = step(mdp, m=9.9, seed=5, episodes=most)
        rest = simulate(mdp, agent_for(mdp, 9.9), seed=5, method="step", resume=part)
        assert (rows_of(rest), rest.final) == (rows_of(whole), True)


def test_mistakes() -> None:
    """By hand: gaps .3, .1 and, in the end, .2."""
    mdp = MDP([[[1.0]] * 4], [[1.0, 0.9, 0.8, 0.7]], 1)
    run = step(mdp, episodes=10)
    row = type(run.rows[0])
    gaps, lengths = (0.3, 0.1, 0.2), (5, 10**30, 0)
    starts = np.cumsum([0, *lengths], dtype=object)
    run.rows = [
        row(first, length, 1 - gap, 1.0, gap, 1.0, 0, 0, 1)
        for first, length, gap in zip(starts[:-1], lengths, gaps, strict=True)
    ]
    run.final = False
    assert run.episodes == 10**30 + 5
    assert [run.mistakes(e) for e in (0.05, 0.15, 0.25, 0.35)] == [10**30 + 5, 5, 5, 0]
    assert run.mistakes() == run.mistakes(0.25)
    assert run.mistakes(0.3 - 1e-10) == 0  # a gap on the grid is not beyond it by rounding
    assert run.mistakes(0.3 - 1e-8) == 5
    run.final = True
    assert [run.mistakes(e) for e in (0.05, 0.15, 0.25)] == [math.inf, math.inf, 5]


def test_a_bad_final_policy() -> None:
    """So few visits that the sets stay [0, 1]: ties go to action 0, which is worse, for ever."""
    mdp = MDP([[[0.5, 0.5], [0.45, 0.55]], [[0, 1], [0, 1]]], [[0, 0], [1, 1]], 2)
    run = step(mdp, m=0.5)
    assert run.final
    assert run.gap == pytest.approx(0.05)
    assert (run.mistakes(0.01), run.mistakes(0.06)) == (math.inf, 0)


def reach(mdp: MDP, policy: NDArray[Any]) -> set[tuple[int, int]]:
    """Pairs that the policy can visit, by the graph."""
    p = mdp.table.dense(mdp.p)
    here, found = set(np.flatnonzero(mdp.initial).tolist()), set()
    for t in range(mdp.horizon):
        pairs = {(s, int(policy[t, s])) for s in here}
        found |= pairs
        here = {s for pair in pairs for s in np.flatnonzero(p[pair]).tolist()}
    return found


@pytest.mark.parametrize("variant", ["paper", "corrected"])
def test_final_only_when_nothing_can_change(variant: str) -> None:
    for seed in range(12):
        rng = np.random.default_rng(100 + seed)
        p = rng.dirichlet(np.full(4, 0.4), (4, 2))
        p[p < 0.1] = 0
        mdp = MDP(p / p.sum(-1, keepdims=True), rng.random((4, 2)), 3)
        agent = agent_for(mdp, 2.3, variant=variant)
        run = simulate(mdp, agent, seed=seed, method="step")
        assert run.final
        n = agent.n.visits[:-1].reshape(4, 2)
        assert all(n[pair] >= agent.constants.cutoff for pair in reach(mdp, agent.policy))
        assert not (agent.limits().visits == 0).any()
        assert variant == "paper" or run.updates <= agent.constants.u_max


def test_is_final() -> None:
    """Reachable by the graph, not by float weights; a pair that waits its turn is not final."""
    tiny = 1e-300
    p = np.zeros((3, 1, 3))
    p[0, 0] = [1, 0, 0]
    p[1, 0], p[2, 0] = [0, 1 - tiny, tiny], [0, 0, 1]
    mdp = MDP(p, np.zeros((3, 1)), 4, initial=0)
    world, rows = Simulator(mdp, mdp.problem), mdp.table.rows_of([0, 0, 0], 4)

    def final(*visits: int, episodes: int | None = None) -> bool:
        return world.is_final(rows, Limits(np.array([*visits, NEVER]), episodes))

    assert final(NEVER, 5, 5)
    assert not final(5, NEVER, NEVER)
    assert not final(NEVER, NEVER, 0)
    assert not final(NEVER, NEVER, NEVER, episodes=10)
    from_1 = MDP(p, np.zeros((3, 1)), 4, initial=1)
    assert from_1.occupancy([0, 0, 0])[3, 2] < 1e-299
    world = Simulator(from_1, from_1.problem)
    assert not final(NEVER, NEVER, 5)
    assert final(5, NEVER, NEVER)
    short = MDP(p, np.zeros((3, 1)), 1, initial=1)
    world, rows = Simulator(short, short.problem), short.table.rows_of([0, 0, 0], 1)
    assert final(NEVER, NEVER, 5)


def walked(
    mdp: MDP, policy: Any, episodes: int, seed: int, problem: Problem | None = None
) -> Counts:
    told = mdp.problem if problem is None else problem
    world, batch = Simulator(mdp, told), EpisodeBatch(Counts.zero(told))
    never = Limits(np.full(mdp.table.rows, NEVER))
    rows = mdp.table.rows_of(policy, mdp.horizon)
    world.walk(np.random.default_rng(seed), rows, never, episodes, batch)
    assert (batch.episodes, batch.ended) == (episodes, False)
    return batch.counts


def check_law(counted: NDArray[np.int64], p: NDArray[np.float64]) -> None:
    """Pearson's chi-square of one multinomial row; nothing where p is zero."""
    assert (counted[p == 0] == 0).all()
    expected = counted.sum() * p[p > 0]
    assert expected.min() >= 5
    statistic = float(((counted[p > 0] - expected) ** 2 / expected).sum())
    assert statistic <= chi2.isf(UNLIKELY, max(1, (p > 0).sum() - 1))


@pytest.mark.slow
@pytest.mark.parametrize("S", [2, 7, 8, 9, 10, 17, 64, 130, 300])
def test_walk_law(S: int) -> None:
    """Frequencies follow p, with zeros at the ends and in the middle, in rows of any length."""
    rng = np.random.default_rng(S)
    p = rng.dirichlet(np.full(S, 3.0), (S, 1)) + 0.2 / S
    p[:, :, rng.random(S) < 0.3] = 0
    p[:, :, 0], p[:, :, 1] = 0.3, 0.2
    p[1::2, :, 0] = p[::3, :, -1] = 0
    p /= p.sum(-1, keepdims=True)
    p0 = np.where(np.arange(S) % 3 == 1, 0.0, 1.0)
    p0 /= p0.sum()
    indptr, indices = np.arange(S + 1) * S, np.tile(np.arange(S), S)
    mdp = MDP((indptr, indices, p.ravel()), np.zeros((S, 1)), 4, p0)  # zeros are entries here
    seen = walked(mdp, np.zeros(S, int), 30 * S**2 + 2000, seed=S)
    table = mdp.table
    cumulative = np.empty_like(mdp.p)
    cumulate(table.indptr, mdp.p, cumulative)
    for row in range(table.rows):
        at = table.entries_of(row)
        # not even a uniform number next to 1 draws an impossible successor
        assert np.isinf(cumulative[at][np.flatnonzero(mdp.p[at])[-1] :]).all()
        assert seen.successors[at].sum() == seen.visits[row]
        if seen.visits[row] * mdp.p[at][mdp.p[at] > 0].min() >= 5:
            check_law(seen.successors[at], mdp.p[at])
    assert seen.visits[-1] * 4 == seen.visits[:-1].sum()


def test_walk_visits_follow_the_policy_and_the_segment() -> None:
    H, S, A = 3, 2, 2
    p = np.random.default_rng(9).dirichlet(np.ones(S), (H, S, A))
    mdp = MDP(p, np.zeros((S, 1)), H, [0.3, 0.7])
    policy = np.array([[0, 1], [1, 1], [0, 0]])
    episodes = 200_000
    seen = walked(mdp, policy, episodes, seed=3)
    d = mdp.occupancy(policy)
    for t in range(H):
        visits = seen.visits[:-1].reshape(H, S, A)[t]
        assert visits.sum() == episodes
        check_law(visits[np.arange(S), policy[t]], d[t])
        for s in range(S):
            row = (t * S + s) * A + int(policy[t, s])
            check_law(seen.successors[mdp.table.entries_of(row)], p[t, s, policy[t, s]])


@pytest.mark.parametrize("noise", [None, "bernoulli"])
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("on_successor", [False, True])
def test_reward_sums(noise: Any, segmented: bool, on_successor: bool) -> None:
    """Sums of rewards by successor: exact, or binomial around that; and the least and the most."""
    rng, H, S, A = np.random.default_rng(10), 3, 3, 2
    p = rng.dirichlet(np.ones(S), (H, S, A) if segmented else (S, A))
    shape: tuple[int, ...] = (H if segmented else 1, S, A, S)
    r = rng.random(shape if on_successor else shape[:-1])
    mdp = MDP(p, r, H, [0.2, 0.3, 0.5], noise=noise)
    problem = Problem(S, A, H, initial=[0.2, 0.3, 0.5], time_dependent=segmented)
    policy = rng.integers(0, A, (H, S))
    seen = walked(mdp, policy, 30_000, 4, problem)
    times, got, least, most = (
        getattr(seen, name)[:-S].reshape(-1, S)
        for name in ("successors", "rewards", "least", "most")
    )
    mean = np.broadcast_to(r.reshape(len(times), -1), times.shape)
    want, variance = times * mean, times * mean * (1 - mean)
    came = times > 0
    assert not seen.rewards[-S:].any()  # the start pays nothing
    assert seen.reward_sums(problem.table) == pytest.approx([*got.sum(1), 0.0], rel=1e-12)
    assert (least[~came] == 1).all()
    assert (most[~came] == 0).all()
    if noise is None:
        assert got == pytest.approx(want, rel=1e-9)
        np.testing.assert_array_equal(least[came], mean[came])
        np.testing.assert_array_equal(most[came], mean[came])
    else:
        assert (got == np.round(got)).all()
        np.testing.assert_array_equal(least[came], (got == times)[came])
        np.testing.assert_array_equal(most[came], (got > 0)[came])
        visited = variance > 0
        statistic = ((got - want)[visited] ** 2 / variance[visited]).sum()
        assert statistic <= chi2.isf(UNLIKELY, visited.sum())
        assert statistic > 1e-3
    assert not walked(mdp, policy, 100, 4).rewards.any()  # known rewards are not counted


def test_drop_surplus_in_the_walk() -> None:
    """Visits beyond a row's limit are not counted; the other rows' are, to the episode's end."""
    mdp = MDP([[[0.0, 1.0]], [[1.0, 0.0]]], np.zeros((2, 1)), 10)
    world, rows = Simulator(mdp, mdp.problem), mdp.table.rows_of([0, 0], 10)
    for drop, want in ((False, [5, 5, 1]), (True, [2, 5, 1])):
        batch = EpisodeBatch(Counts.zero(mdp.problem))
        limits = Limits(np.array([2, NEVER, NEVER]), drop_surplus=drop)
        world.walk(np.random.default_rng(0), rows, limits, 99, batch)
        assert (batch.episodes, batch.ended) == (1, True)
        assert batch.counts.visits.tolist() == want
        assert batch.counts.successors.tolist() == want


def test_prior_knowledge_of_another_problem() -> None:
    mdp = random_mdp(11)
    mask = np.ones((3, 2, 3), bool)
    mask[1, 1, 2] = False
    others = [
        (Problem(3, 2, 4, initial=0), "horizon of 4"),
        (Problem(4, 2, 3, initial=0), "another problem"),
        (Problem(3, 3, 3, initial=0), "another problem"),
        (Problem(3, 2, 3, initial=0, time_dependent=True), "another problem"),
        (Problem(3, 2, 3, initial=1), "state 0 can follow the start"),
        (Problem(3, 2, 3, successors=mask, initial=0), r"state 2 can follow \(s=1, a=1\)"),
    ]
    for problem, names in others:
        with pytest.raises(InputError, match=names):
            Simulator(mdp, problem)
    by_time = MDP(mdp.table.dense(mdp.p), [[[0.1]], [[0.2]], [[0.3]]], 3)
    with pytest.raises(InputError, match="rewards that depend on t"):
        Simulator(by_time, Problem(3, 2, 3, initial=0))


@pytest.mark.parametrize("name", ["ucfh:m=300", "certified-ucfh", "psrl"])
def test_on_phase_sees_every_phase(name: str) -> None:
    mdp = make("chain:n=3,horizon=3")

    def new_agent() -> Agent:
        return make_agent(name, mdp, 0.5, 0.1, 200, seed=3)

    agent, seen = new_agent(), []

    def record(run: Run) -> None:
        seen.append((len(run.rows), run.rows[-1].optimistic, agent.optimistic))

    run = simulate(mdp, agent, 200, seed=1, on_phase=record)
    assert [k for k, _, _ in seen] == list(range(1, len(run.rows) + 1))
    assert [recorded for _, recorded, _ in seen] == [row.optimistic for row in run.rows]
    if name != "psrl":  # it has its own loop, and is further by then
        assert all(recorded == current for _, recorded, current in seen)
    plain = simulate(mdp, new_agent(), 200, seed=1)
    assert repr(plain.phases.tolist()) == repr(run.phases.tolist())


def test_on_phase_in_a_resumed_run() -> None:
    """The phase that was cut begins again, and is reported again."""
    mdp = make("chain:n=3,horizon=3")
    first = simulate(mdp, make_agent("certified-ucfh", mdp, 0.05, 0.1, 1), 30, seed=1)
    seen: list[int] = []
    agent = make_agent("certified-ucfh", mdp, 0.05, 0.1, 1)
    run = simulate(
        mdp, agent, 60, seed=1, resume=first, on_phase=lambda run: seen.append(len(run.rows))
    )
    assert seen == list(range(len(first.rows), len(run.rows) + 1))
