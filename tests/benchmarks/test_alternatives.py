"""What `make alternatives` measures, without Stable-Baselines3."""

from __future__ import annotations

import json
from math import sqrt
from pathlib import Path
from typing import Any

import bench_alternatives as bench
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from peers import q_learning
from peers.episodic import (
    ModelEnvironment,
    Record,
    Task,
    WithStep,
    cumulated,
    deterministic,
    environment,
)

from ucfh import CertifiedUCFH, make, simulate

BANDIT = Task(
    p=np.ones((1, 2, 1)),
    rewards=np.array([0.2, 1.0]).reshape(1, 1, 2, 1),
    initial=np.ones(1),
    ends=np.zeros(1, bool),
)
"""One step: the second action pays 1, the first 0.2."""
BAD, GOOD = deterministic([[0]], 2), deterministic([[1]], 2)

ROAD = Task(
    p=np.eye(4)[[[1, 3], [2, 3], [2, 2], [3, 3]]],
    rewards=np.broadcast_to(np.array([[0, 0.5], [1, 0], [0, 0], [0, 0]])[None, :, :, None],
                            (3, 4, 2, 4)),
    initial=np.eye(4)[0],
    ends=np.array([False, False, False, True]),
)  # fmt: skip
"""0 -> 1 -> 2 pays 1 on the second step; the other action ends the episode, with 0.5 from 0."""


@pytest.fixture(params=bench.PROBLEMS)
def setup(request: pytest.FixtureRequest) -> bench.Setup:
    return bench.PROBLEMS[request.param]


def test_a_task_is_worth_what_the_problem_is(setup: bench.Setup) -> None:
    mdp, task, rng = make(setup.name), bench.task_of(setup), np.random.default_rng(0)
    H, S, A = task.shape
    assert task.optimum == pytest.approx(mdp.at_start(mdp.optimal().values), abs=1e-12)
    for _ in range(5):
        policy = rng.random((H, S, A)) * mdp.table.available
        actions = policy.argmax(axis=2)
        value = task.value(deterministic(actions, A))
        assert value == pytest.approx(mdp.value(actions), abs=1e-12)


def test_the_largest_return_that_learn_is_told_is_true(setup: bench.Setup) -> None:
    """By backward induction with the best successor that can follow."""
    task = bench.task_of(setup)
    best = np.zeros(task.shape[1])
    for rewards in task.rewards[::-1]:
        best = np.where(task.p > 0, rewards + best, -1.0).max(axis=(1, 2))
    assert best[task.initial > 0].max() <= setup.max_return + 1e-12


def test_a_policy_that_mixes_once_earns_the_mixture() -> None:
    task = bench.task_of(bench.PROBLEMS["tutoring"])
    one = deterministic(np.zeros(task.shape[:2], int), 4)
    other = one.copy()
    other[3, 0] = [0, 0, 1, 0]
    assert task.value(one) != task.value(other)
    mixed = 0.25 * one + 0.75 * other
    assert task.value(mixed) == pytest.approx(
        0.25 * task.value(one) + 0.75 * task.value(other), abs=1e-12
    )


def test_an_action_that_a_state_lacks_does_as_its_first() -> None:
    mdp, task = make("calls"), bench.task_of(bench.PROBLEMS["calls"])
    assert not mdp.table.available[2, 0]
    assert mdp.table.available[2, 1]
    np.testing.assert_array_equal(task.p[2, 0], task.p[2, 1])
    np.testing.assert_array_equal(task.rewards[:, 2, 0], task.rewards[:, 2, 1])
    np.testing.assert_allclose(task.p.sum(axis=2), 1, atol=1e-12)


def test_a_task_survives_its_file(tmp_path: Path) -> None:
    task = bench.task_of(bench.PROBLEMS["FrozenLake"])
    task.save(tmp_path / "task.npz")
    again = Task.load(tmp_path / "task.npz")
    assert (again.env, again.shape, again.optimum) == (task.env, task.shape, task.optimum)


def test_what_cannot_follow_is_never_drawn() -> None:
    p = np.array([0.1] * 10 + [0.0])
    assert p.cumsum()[-1] < 1, "else there is nothing to test"
    assert cumulated(p).searchsorted(np.nextafter(1.0, 0.0), side="right") == 9


def test_steps_follow_the_model() -> None:
    env = ModelEnvironment(ROAD)
    assert env.reset(seed=0) == (0, {})
    assert env.step(0) == (1, 0.0, False, False, {})
    assert env.step(0) == (2, 1.0, False, False, {})
    env.reset()
    assert env.step(1) == (3, 0.5, True, False, {})


def test_observations_have_the_step_and_episodes_end() -> None:
    env = WithStep(environment(ROAD), ROAD)
    seen, _ = env.reset(seed=0)
    assert seen.tolist() == [0, 0]
    went = [env.step(0) for _ in range(3)]
    assert [x[0].tolist() for x in went] == [[1, 1], [2, 2], [2, 2]]
    assert [x[2] for x in went] == [False, False, True]
    env.reset()
    assert env.step(1)[2], "the state ends it"


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
def test_environments_keep_gymnasiums_rules(setup: bench.Setup) -> None:
    task = bench.task_of(setup)
    check_env(WithStep(ModelEnvironment(task), task), skip_render_check=True)


def test_episodes_earn_what_the_policy_is_worth(setup: bench.Setup) -> None:
    """Their mean is off by at most 4 of its standard deviations, with this seed."""
    task, n = bench.task_of(setup), 1000
    mdp = make(setup.name)
    actions, env = mdp.optimal().policy, WithStep(environment(task), task)
    env.reset(seed=0)
    total = 0.0
    for _ in range(n):
        (s, t), _ = env.reset()
        over = False
        while not over:
            (s, t), reward, over, _, _ = env.step(int(actions[t, s]))
            total += reward
    deviation = sqrt(mdp.variance(actions) / n)
    assert abs(total / n - task.optimum) <= 4 * deviation


def test_a_record_by_hand() -> None:
    record = Record(BANDIT, 6, 0.1)
    record.add(BAD, BAD)  # after 0 episodes: loss 0.8
    record.add(GOOD, 0.5 * GOOD + 0.5 * BAD, 2)  # after 1 and 2: loss 0; each loses 0.4
    record.add(BAD, GOOD)  # after 3: lost again
    record.add(GOOD, GOOD, 2)  # after 4 and 5
    assert record.full
    measured = record.close(GOOD)
    assert measured == {
        "first": 1, "for_good": 4, "regret": pytest.approx(0.8 + 2 * 0.4), "loss": 0.0,
    }  # fmt: skip


def test_a_record_of_a_agent_that_ends_badly_or_begins_well() -> None:
    record = Record(BANDIT, 2, 0.1)
    record.add(GOOD, GOOD, 2)
    assert record.close(BAD)["for_good"] is None
    record = Record(BANDIT, 2, 0.1)
    record.add(GOOD, GOOD, 2)
    assert record.close(GOOD) == {"first": 0, "for_good": 0, "regret": 0.0, "loss": 0.0}
    record = Record(BANDIT, 2, 0.1)
    record.add(BAD, BAD, 2)
    measured = record.close(BAD)
    assert (measured["first"], measured["for_good"]) == (None, None)


def test_a_record_leaves_out_what_comes_after_n() -> None:
    record = Record(BANDIT, 2, 0.1)
    record.add(BAD, BAD, 5)
    record.add(GOOD, GOOD, 5)
    measured = record.close(GOOD)
    assert measured["regret"] == pytest.approx(2 * 0.8)
    assert measured["first"] is None
    assert measured["loss"] == pytest.approx(0.8)


def test_a_loss_of_epsilon_is_within_epsilon() -> None:
    record = Record(BANDIT, 1, 0.8)
    record.add(BAD, BAD)
    assert record.close(BAD)["first"] == 0


def test_exploration_falls_as_in_the_tutorials() -> None:
    blackjack = [q_learning.epsilon_of(q_learning.BLACKJACK, k, 100) for k in (0, 20, 45, 90)]
    assert blackjack == pytest.approx([1.0, 0.6, 0.1, 0.1])
    assert q_learning.epsilon_of(q_learning.FROZEN_LAKE, 50, 100) == 0.1


def test_ties_of_greedy_actions() -> None:
    q = np.array([[1.0, 3.0, 3.0]])
    assert q_learning.greedy(q, random_ties=True).tolist() == [[0, 0.5, 0.5]]
    assert q_learning.greedy(q, random_ties=False).tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("by_step", [True, False])
def test_q_values_by_hand(by_step: bool) -> None:
    """Two episodes along the road, rate 0.5, discount 0.9: Q(1) = 0.5, then Q(0) = 0.5 (0.9/2)."""
    setting = q_learning.Setting(0.5, 0.9, 0.0, 0.0, by_step=by_step)
    env, q = WithStep(environment(ROAD), ROAD), np.zeros((3 if by_step else 1, 4, 2))
    rng = np.random.default_rng(0)
    q_learning._learn_from_episode(env, q, setting, 0.0, rng)
    assert q.sum() == pytest.approx(0.5), "nothing is known to follow yet"
    q_learning._learn_from_episode(env, q, setting, 0.0, rng)
    found = [q[0, 0, 0], q[1 if by_step else 0, 1, 0]]
    assert found == pytest.approx([0.225, 0.75])


def test_nothing_follows_the_end() -> None:
    """Two episodes of the bandit, rate 0.5: Q = 0.2/2, then 0.2 (1 - 1/4)."""
    setting, q = q_learning.Setting(0.5, 0.9, 0.0, 0.0), np.zeros((1, 1, 2))
    env, rng = WithStep(environment(BANDIT), BANDIT), np.random.default_rng(0)
    for value in (0.1, 0.15):
        q_learning._learn_from_episode(env, q, setting, 0.0, rng)
        assert q[0, 0].tolist() == pytest.approx([value, 0])


def test_the_regret_of_q_learning_contains_its_exploration() -> None:
    """A setting that never learns takes the first action, or with 0.1 a random one."""
    setting = q_learning.Setting(0.0, 1.0, 0.1, 0.1)
    measured = q_learning.run(BANDIT, setting, 50, 0.1, seed=0)
    assert measured["regret"] == pytest.approx(50 * (0.95 * 0.8))
    assert measured["loss"] == pytest.approx(0.8)


def test_q_learning_learns_a_road_and_repeats_itself() -> None:
    runs = [q_learning.run(ROAD, q_learning.UNDISCOUNTED, 200, 0.1, seed=3) for _ in range(2)]
    for measured in runs:
        del measured["seconds"]
    assert runs[0] == runs[1]
    assert runs[0]["loss"] == 0
    assert 0 <= runs[0]["first"] <= runs[0]["for_good"] <= 200


def test_the_record_of_ours_agrees_with_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "EPISODES", 500)
    measured = bench.run(bench.Job("chain", "CertifiedUCFH", 1))
    mdp = make(bench.PROBLEMS["chain"].name)
    run = simulate(mdp, CertifiedUCFH(mdp.problem, 0.1, 0.1), seed=1)
    assert measured["knows"] == run.episodes < 500
    assert measured["certified_loss"] == pytest.approx(run.gap, abs=1e-12)
    after = (500 - run.episodes) * run.gap
    assert measured["regret"] == pytest.approx(run.regret + after, abs=1e-9)


def test_learn_is_recorded_until_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "EPISODES", 2000)
    measured = bench.run(bench.Job("chain", "ucfh.learn", 1))
    assert 0 <= measured["first"] <= measured["for_good"] <= measured["knows"] < 2000
    assert measured["certified_loss"] <= 0.1
    assert measured["loss"] == measured["certified_loss"]
    assert 0 < measured["regret"] < measured["knows"]


def test_every_episode_of_learn_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    class Counting(Record):
        def add(self, handed: Any, followed: Any, episodes: int = 1) -> None:
            counted.append(episodes)
            super().add(handed, followed, episodes)

    monkeypatch.setattr(bench, "Record", Counting)
    measured = bench.run(bench.Job("chain", "ucfh.learn", 1))
    *learning, after, last = counted
    assert sum(learning) == measured["knows"]
    assert (after, last) == (bench.EPISODES, 1)


def made_up(agent: str, seed: int, **changed: Any) -> bench.Result:
    knows = 900 if agent in bench.OURS else None
    plain = {"problem": "chain", "agent": agent, "seed": seed, "first": 50, "for_good": 100,
             "regret": 10.0, "loss": 0.0, "seconds": 1.0, "total": 2.0, "knows": knows,
             "certified_loss": 0.05}  # fmt: skip
    return {**plain, **changed}


def test_the_finding_names_who_is_first() -> None:
    runs = [made_up(x, k) for x in bench.LEARNERS for k in range(5)]
    slow = [made_up(x, k, for_good=None) for x in bench.LEARNERS for k in range(5)]
    first, cheap = "Q-learning, undiscounted", "PPO, zoo"
    changed: dict[str, Any] = {
        first: {"for_good": 40},
        cheap: {"regret": 3.0},
        "ucfh.learn": {"regret": 5.0},
    }
    mixed = [x | changed.get(x["agent"], {}) for x in runs]
    assert bench.finding("chain", mixed) == (
        "- chain: ucfh.learn is within 0.1 for good after 100 episodes, and knows it after 900; "
        'the first of the others, "Q-learning, undiscounted", after 40. The regret of ucfh.learn '
        'is 5; the least of the others, of "PPO, zoo", 3.'
    )
    assert "; none of the others is in most of its runs. The" in bench.finding("chain", slow)


def test_the_suboptimality_counts_what_was_lost_and_what_was_right() -> None:
    others = [made_up("PPO, zoo", 0), made_up("PPO, zoo", 1, for_good=50),
              made_up("PPO, zoo", 2, first=None, for_good=None),
              made_up("PPO, zoo", 3, for_good=None)]  # fmt: skip
    ours = [made_up("ucfh.learn", 0), made_up("ucfh.learn", 1, certified_loss=0.2),
            made_up("ucfh.learn", 2, knows=None)]  # fmt: skip
    said = bench.suboptimality(others + ours)
    assert "in 3 of 4 runs, and in 2 of these" in said
    assert "in 2 of 3 runs; its policy was within 0.1 in 1 of these" in said


def test_the_table_shows_medians_and_who_never_was_good() -> None:
    runs = [
        made_up(x, k, first=10 * k, for_good=None if k < 4 else 7)
        for x in bench.LEARNERS
        for k in range(10)
    ]
    rows = bench.rows_of(runs)
    assert [row[0] for row in rows] == list(bench.LEARNERS)
    assert rows[0] == [
        bench.LEARNERS[0], "45 (10 to 80)", "7 (7 to never)", "6 of 10", "10 (10 to 10)", "1", "-",
    ]  # fmt: skip
    assert rows[-1][-1] == "900 (900 to 900)"


def test_kept_runs_are_not_done_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [bench.Job("chain", "DQN, zoo", seed) for seed in (1, 0)]
    kept = [made_up(job.agent, job.seed) for job in reversed(jobs)]
    monkeypatch.setattr(bench, "KEPT", tmp_path / "results" / "kept.jsonl")
    bench.KEPT.parent.mkdir()
    bench.KEPT.write_text("".join(json.dumps(x) + "\n" for x in kept))
    assert [x["seed"] for x in bench.run_all(jobs)] == [1, 0]
    assert "min left" not in capsys.readouterr().err
