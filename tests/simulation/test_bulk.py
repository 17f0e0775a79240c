"""Bulk simulation: exact in distribution, resumable, and correct for very many episodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oracles.laws import CASES, p_values, rare, sample
from support.settings import many
from ucfh import MDP, UCFH, InputError, Run, make, simulate
from ucfh.counts import NEVER, Counts, Limits
from ucfh.simulation import bulk
from ucfh.simulation.bulk import BulkPhase, make_graph
from ucfh.simulation.environment import EpisodeBatch, Simulator

RUNS = many(40, 120)
# one family of tests: it fails by chance once in a thousand (Bonferroni)
LEVEL = 1e-3 / (4 * 13)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "walk_steps", "margin"),
    [("hard", 300, 3.0), ("corrected", 0, 3.0), ("segments", 0, -3.0), ("random", 0, 3.0)],
)
def test_bulk_agrees_with_walking_in_law(name: str, walk_steps: int, margin: float) -> None:
    """A short form of slow/test_bulk_law.py."""
    walked = sample(CASES[name], "step", RUNS, 0, 0, 0.0)
    jumped = sample(CASES[name], "bulk", RUNS, 1000, walk_steps, margin)
    found = p_values(walked, jumped)
    assert min(found.values()) > LEVEL, found


@pytest.mark.slow
def test_the_comparison_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losing the odd episode of every split is seen."""
    real = bulk.Graph.split

    def lossy(self: bulk.Graph, rng: np.random.Generator, first: int) -> None:
        real(self, rng, max(0, first - 1))

    walked = sample(CASES["chain"], "step", RUNS, 0, 0, 0.0)
    monkeypatch.setattr(bulk.Graph, "split", lossy)
    jumped = sample(CASES["chain"], "bulk", RUNS, 1000, 0, -3.0)
    assert min(p_values(walked, jumped).values()) < LEVEL


def phase_of(
    mdp: MDP, limit: dict[int, int], most: int | None, seed: int
) -> tuple[EpisodeBatch, BulkPhase]:
    """One phase of the first-action policy with limits on some rows, none on the others."""
    world = Simulator(mdp, mdp.problem)
    visits = np.full(mdp.table.rows, NEVER)
    for row, room in limit.items():
        visits[row] = room
    rows = mdp.table.rows_of(np.zeros((mdp.horizon, mdp.states), int), mdp.horizon)
    batch = EpisodeBatch(Counts.zero(mdp.problem))
    phase = BulkPhase(world, np.random.default_rng(seed), rows, Limits(visits), most, batch)
    return batch, phase


def test_waiting_for_a_rare_pair_is_negative_binomial() -> None:
    """State 1 is entered once in 1e6 episodes, and stays for one or two of the steps left.

    The limit of 1 visit is reached by the first episode that enters: geometric, mean 1e6.
    """
    waits = []
    for seed in range(400):
        batch, phase = phase_of(rare(), {2: 1}, None, seed)
        phase.run(lambda: None)
        assert batch.ended
        waits.append(batch.episodes)
    mean = np.mean(waits)
    # the standard error of a geometric mean is mean/sqrt(runs)
    assert abs(mean - 1e6) < 4 * 1e6 / 20
    assert abs(np.mean(np.array(waits) > 1e6) - np.exp(-1)) < 4 * np.sqrt(0.25 / 400)


def test_the_cap_keeps_the_share_that_fits() -> None:
    """With a cap the visits of a live pair are binomial: Poisson with mean 3 at 3e6 episodes."""
    entered = []
    for seed in range(400):
        batch, phase = phase_of(rare(), {2: 10**6}, 3 * 10**6, seed)
        phase.run(lambda: None)
        assert not batch.ended
        assert batch.episodes == 3 * 10**6
        entered.append(batch.counts.visits[2])
    # an episode that enters stays a second step with probability 1/2: 1.5 visits on average
    mean, variance = 3 * 1.5, 3 * (0.5 * 1 + 0.5 * 4)
    assert abs(np.mean(entered) - mean) < 4 * np.sqrt(variance / 400)


def behind(door: float) -> MDP:
    """From the start, state 1 follows with the given probability, else state 2; both absorb."""
    p = [[[0.0, door, 1 - door]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]]
    return MDP(p, [[0.0], [1.0], [0.5]], horizon=2)


@pytest.mark.parametrize("door", [1e-3, 1e-18, 1e-25, 1e-100, 1e-308])
@pytest.mark.parametrize("cap", [10**6, 10**18, 10**26])
@pytest.mark.parametrize("m", [300.0, None])
def test_caps_on_phases_that_wait_for_rare_pairs(door: float, cap: int, m: float | None) -> None:
    mdp = behind(door)
    run = simulate(mdp, UCFH(mdp.problem, 0.5, 0.1, m=m), cap)
    assert run.final or run.episodes == cap


def test_an_unreachable_pair_is_an_error_without_a_cap() -> None:
    mdp = behind(1e-308)
    with pytest.raises(InputError, match=r"pass episodes=N \(--episodes N\)"):
        simulate(mdp, UCFH(mdp.problem, 0.5, 0.1))


@pytest.mark.parametrize("walk_steps", [0, 5000])
def test_flow_is_conserved(walk_steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows live: visits sum to H an episode, and successors to visits."""
    monkeypatch.setattr(bulk, "WALK_STEPS", walk_steps)
    mdp = make("random:states=7,actions=2,successors=3,horizon=6")
    limits = dict.fromkeys(range(mdp.table.start), 20000)
    batch, phase = phase_of(mdp, limits, None, 3)
    phase.run(lambda: None)
    seen = batch.counts
    assert seen.visits.sum() == 6 * batch.episodes
    sums = np.add.reduceat(seen.successors, mdp.table.indptr[:-1])
    np.testing.assert_array_equal(sums, seen.visits)
    assert seen.visits.max() >= 20_000
    assert seen.visits.max() < 20_000 + 6


def test_the_graph_knows_weights_and_shares() -> None:
    """Shares and expected visits equal those from occupancies."""
    mdp = make("random:states=6,actions=2,successors=3,horizon=5,seed=2")
    world = Simulator(mdp, mdp.problem)
    policy = mdp.optimal().policy
    rows = mdp.table.rows_of(policy, mdp.horizon)
    weights = mdp.weights(policy)
    s, a = np.argwhere(weights > 0)[-1]
    live = np.zeros(mdp.table.rows, bool)
    row = int(rows[np.argmax(policy[:, s] == a), s])
    live[row] = True
    graph = make_graph(world, rows, live)
    assert graph is not None
    assert graph.weight[row] * graph.share == pytest.approx(weights[s, a], rel=1e-12)
    assert 0 < graph.share <= 1


def test_full_run_with_the_published_constants() -> None:
    mdp = make("hard:n=10,actions=4,horizon=10,gap=0.25")
    agent = UCFH(mdp.problem, epsilon=0.2, delta=0.1)
    run = simulate(mdp, agent)
    assert run.final
    assert run.episodes > 10**14
    assert run.phases.episodes.sum() == run.episodes
    assert run.mistakes() <= agent.constants.episode_bound
    assert run.phases.captured.min() == 1
    assert run.phases[-1].episodes == 0
    assert run.regret <= run.episodes * 1.2


@pytest.mark.slow
def test_runs_past_64_bits_are_counted() -> None:
    """Late phases of a small grid wait for pairs of tiny weight."""
    mdp = make("grid:rows=4,cols=4")
    run = simulate(mdp, UCFH(mdp.problem, epsilon=0.2, delta=0.1))
    assert run.final
    assert run.episodes > 2**63
    assert isinstance(run.episodes, int)


@pytest.mark.parametrize("hidden", [("rewards",), ("successors",), ("initial",)])
@pytest.mark.parametrize("noise", [None, "bernoulli"])
def test_unknown_parts_are_learned(hidden: tuple[str, ...], noise: str | None) -> None:
    old = make("chain:n=3,horizon=3")
    mdp = MDP(
        old.table.dense(old.p),
        old.rewards.pair[0].reshape(3, 2),
        3,
        noise=noise,  # type: ignore[arg-type]
    )
    agent = UCFH(mdp.problem.hiding(*hidden), 0.4, 0.1)  # type: ignore[arg-type]
    run = simulate(mdp, agent)
    assert run.final
    assert run.gap <= 0.4
    assert (run.phases.optimistic >= run.optimal - 1e-9).all()
    assert run.optimistic - run.optimal < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("cap", [1, 17, 10**6, 123_456_789])
@pytest.mark.parametrize("method", ["bulk", "step"])
def test_resuming_gives_the_same_run(cap: int, method: str, tmp_path: Path) -> None:
    mdp = make("chain:n=4,horizon=4")
    if method == "step" and cap > 10**6:
        cap = 3_000_000
    m, most = (None, None) if method == "bulk" else (50_000.3, 4_000_000)

    def agent() -> UCFH:
        return UCFH(mdp.problem, 0.3, 0.1, m=m)

    whole = simulate(mdp, agent(), most, seed=5, method=method)  # type: ignore[arg-type]
    part = simulate(mdp, agent(), cap, seed=5, method=method)  # type: ignore[arg-type]
    assert part.episodes == cap
    path = tmp_path / "run.npz"
    part.save(path)
    again = simulate(mdp, agent(), most, 5, method, resume=Run.load(path))  # type: ignore[arg-type]
    assert again.episodes == whole.episodes
    np.testing.assert_array_equal(again.policy, whole.policy)
    for name in whole.phases.dtype.names:
        np.testing.assert_array_equal(again.phases[name], whole.phases[name], err_msg=name)


def test_an_interrupted_run_resumes_to_the_same_result() -> None:
    mdp = make("chain:n=4,horizon=4")
    whole = simulate(mdp, UCFH(mdp.problem, 0.3, 0.1), seed=1)
    calls = 0

    def stop(_: Run) -> None:
        nonlocal calls
        calls += 1
        if calls == 40:
            raise KeyboardInterrupt

    part = simulate(mdp, UCFH(mdp.problem, 0.3, 0.1), seed=1, progress=stop)
    assert part.interrupted
    assert 0 < part.episodes < whole.episodes
    again = simulate(mdp, UCFH(mdp.problem, 0.3, 0.1), seed=1, resume=part)
    assert again.episodes == whole.episodes
    assert not again.interrupted
    assert again.final


@pytest.mark.slow
def test_saved_runs_load_back(tmp_path: Path) -> None:
    mdp = make("chain:n=3")
    run = simulate(mdp, UCFH(mdp.problem, 0.3, 0.1))
    path = tmp_path / "run.npz"
    run.save(path)
    run.plot(tmp_path / "run.svg")
    assert (tmp_path / "run.svg").read_text().startswith("<?xml")
    back = Run.load(path)
    assert str(back) == str(run)
    assert repr(back) == repr(run)
    assert back.about == run.about
    with pytest.raises(InputError, match="exists"):
        run.save(path)
    content = path.read_bytes()
    for cut in (0, 10, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(InputError, match=r"run\.npz: damaged, or not an \.npz file"):
            Run.load(path)
    with pytest.raises(InputError, match="does not exist"):
        Run.load(tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 1}, "its seed is"),
        ({"epsilon": 0.4}, "its epsilon is"),
        ({"problem": "chain:n=4,horizon=3"}, "problem"),
        ({"method": "step"}, "its method is"),
        ({"version": "0.0.1"}, "was made by ucfh 0.0.1, and this is"),
    ],
)
def test_resuming_something_else_is_rejected(change: dict[str, object], words: str) -> None:
    mdp = make("chain:n=3,horizon=3")
    run = simulate(mdp, UCFH(mdp.problem, 0.3, 0.1), 1000)
    if "version" in change:
        run.about["version"] = change["version"]
    other = make(str(change.get("problem", "chain:n=3,horizon=3")))
    agent = UCFH(other.problem, float(str(change.get("epsilon", 0.3))), 0.1)
    with pytest.raises(InputError, match=words):
        simulate(
            other,
            agent,
            2000,
            int(str(change.get("seed", 0))),
            str(change.get("method", "bulk")),  # type: ignore[arg-type]
            resume=run,
        )


def test_prior_knowledge_that_is_false_is_rejected() -> None:
    one, other = (MDP([[[0.5, 0.5]], [[0, 1]]], [[r], [1]], 3) for r in (0.1, 0.2))
    with pytest.raises(InputError, match="rewards"):
        simulate(other, UCFH(one.problem, 0.3, 0.1), 10)
    elsewhere = MDP([[[0.5, 0.5]], [[0, 1]]], [[0.1], [1]], 3, initial=[0.5, 0.5])
    with pytest.raises(InputError, match="start"):
        simulate(one, UCFH(elsewhere.problem, 0.3, 0.1), 10)


def test_counts_that_would_overflow_are_rejected_before_running() -> None:
    problem = make("chain:n=5").problem
    with pytest.raises(InputError, match=r"64-bit counts hold: pass at least ([0-9.e-]+)") as error:
        UCFH(problem, 1e-5, 0.1)
    fits = float(str(error.value).rsplit(" ", 1)[1])
    assert 1e-5 < fits < 1e-2
    UCFH(problem, fits, 0.1)


@pytest.mark.parametrize("episodes", [0, -3])
def test_a_cap_below_one_episode_is_rejected(episodes: int) -> None:
    mdp = make("chain:n=3")
    with pytest.raises(InputError, match="episodes = "):
        simulate(mdp, UCFH(mdp.problem, 0.3, 0.1), episodes)


class WithoutLimits(UCFH):
    """An agent without update limits."""

    def limits(self) -> None:  # type: ignore[override]
        return None

    def observe(self, seen: Counts) -> bool:
        self.v.add(seen)
        often = np.flatnonzero(self.v.visits[:-1] >= 50)
        if not often.size:
            return False
        self._update(int(often[0]))
        self._plan()
        return True


def test_an_agent_without_limits_is_walked() -> None:
    mdp = make("chain:n=3")
    with pytest.warns(UserWarning, match="walking episodes"):
        run = simulate(mdp, WithoutLimits(mdp.problem, 0.3, 0.1), 500)
    assert run.episodes == 500
    assert run.about["method"] == "step"
    assert 5 < len(run.rows) < 100  # one row a policy, not one an episode
