"""Whether a log can come from a model: false alarms, power, and what is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from support.command_line import fails, run
from ucfh import MDP, Counts, make, write_model
from ucfh.counts import NEVER, Limits
from ucfh.logs import model_consistency
from ucfh.logs.model_consistency import disagreement
from ucfh.logs.synthetic import write_log
from ucfh.mdp import Problem
from ucfh.simulation.environment import EpisodeBatch, Simulator


def model(chance: float = 0.5, pays: float = 0.3) -> MDP:
    """Two states, two actions; the first action of state 0 leads to state 1 with a chance."""
    p = np.array([[[1 - chance, chance], [0.9, 0.1]], [[0.5, 0.5], [0.0, 1.0]]])
    r = np.array([[0.0, 0.0], [pays, pays]])
    return MDP(p, r, 3, [0.5, 0.5], noise="bernoulli", state_names=["out", "in"])


def visits(mdp: MDP, problem: Problem, episodes: int, seed: int) -> Counts:
    """Counts of episodes under a random policy."""
    rng = np.random.default_rng(seed)
    stretch = EpisodeBatch(Counts.zero(problem))
    world = Simulator(mdp, problem)
    for _ in range(8):
        rows = mdp.table.rows_of(rng.integers(0, 2, (3, 2)), 3)
        limits = Limits(np.full(mdp.table.rows, NEVER))
        world.walk(rng, rows, limits, episodes // 8, stretch)
    return stretch.counts


HIDDEN: list[tuple[Any, ...]] = [(), ("rewards",), ("rewards", "successors", "initial")]


def alarms(hidden: tuple[Any, ...], alpha: float, runs: int = 200) -> int:
    mdp = model()
    problem = mdp.problem.hiding(*hidden)
    found = (
        disagreement(visits(mdp, problem, 80, seed), problem, mdp, alpha) for seed in range(runs)
    )
    return sum(said is not None for said in found)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_false_alarms_are_rare(hidden: tuple[Any, ...]) -> None:
    """At most alpha of logs that came from the model, up to chance (one in a thousand)."""
    assert alarms(hidden, 0.2) <= stats.binom.ppf(0.999, 200, 0.2)


def test_a_broken_test_raises_false_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the price of the mixture, and of the rows, more than alpha."""
    monkeypatch.setattr(model_consistency, "excess", lambda *_: None)
    monkeypatch.setattr(model_consistency, "portfolio_regret", np.zeros_like)
    monkeypatch.setattr(model_consistency, "log", lambda x: float(np.log(min(x, 5.0))))
    assert alarms(HIDDEN[2], 0.2) > stats.binom.ppf(0.999, 200, 0.2)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_another_chance_is_found(hidden: tuple[Any, ...]) -> None:
    mdp, other = model(), model(chance=0.8)
    problem = mdp.problem.hiding(*hidden)
    said = disagreement(visits(other, other.problem.hiding(*hidden), 800, 0), problem, mdp)
    assert said is not None
    assert said.startswith("after action '0' in state 'out', state ")
    assert "in the log, but in 50.0% in the model" in said


def test_another_reward_is_found_where_it_is_not_told() -> None:
    mdp, other = model(), model(pays=0.6)
    hidden = visits(other, other.problem.hiding("rewards"), 800, 0)
    said = disagreement(hidden, mdp.problem.hiding("rewards"), mdp)
    assert said is not None
    assert "in state 'in' pays 0." in said
    assert said.endswith("but 0.3 in the model")


def test_another_start_is_found() -> None:
    mdp = model()
    problem = mdp.problem.hiding("initial")
    counts = Counts.zero(problem)
    at = problem.table.entries_of(problem.table.start)
    counts.successors[at], counts.visits[-1] = [300, 100], 400
    said = disagreement(counts, problem, mdp)
    assert said == (
        "an episode begins in state 'out' in 75.0% of 400 cases in the log, but in 50.0% in the "
        "model"
    )


def test_what_the_model_rules_out_is_found_at_once() -> None:
    mdp = make("chain:n=3")
    problem = mdp.problem.hiding("successors")
    counts = Counts.zero(problem)
    at = problem.table.entries_of(0)
    counts.successors[at.start + 2] = counts.visits[0] = 1  # two steps to the right in one
    assert "in 0.0% in the model" in str(disagreement(counts, problem, mdp))


@pytest.mark.parametrize(
    ("pays", "sum_of_rewards"), [(1.0, 0.7 + 0.2 + 0.1), (0.0, 0.1 + 0.2 - 0.3)]
)
def test_rounding_is_no_disagreement(pays: float, sum_of_rewards: float) -> None:
    mdp = MDP(np.ones((1, 1, 1)), [[pays]], 1)
    problem = mdp.problem.hiding("rewards")
    counts = Counts.zero(problem)
    counts.visits[:], counts.successors[:], counts.rewards[0] = 1, 1, sum_of_rewards
    assert disagreement(counts, problem, mdp) is None
    counts.rewards[0] = 0.5
    assert "pays 0.5 in the log" in str(disagreement(counts, problem, mdp))


def test_nothing_seen_agrees_with_anything() -> None:
    for name in ("riverswim", "calls", "chain:n=3"):
        mdp = make(name)
        for hidden in HIDDEN:
            problem = mdp.problem.hiding(*hidden)
            assert disagreement(Counts.zero(problem), problem, mdp) is None


def test_on_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log, real = str(tmp_path / "real.csv"), tmp_path / "model.json"
    write_log(model(chance=0.8), log, episodes=500)
    write_model(model(), real)
    said = fails(capsys, "learn", str(real), "--log", log)
    assert f"{log} and the model disagree: after action '0' in state 'out'" in said
    assert f"ucfh certify {log}" in said
    write_log(model(), log, episodes=500, force=True)
    code, _, err = run(capsys, "learn", str(real), "--log", log, "--epsilon", "0.5")
    assert code == 0
    assert "starting with 500 episodes" in err
