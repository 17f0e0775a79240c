"""Learning from environments, their ids and MDPs: results and units."""

from __future__ import annotations

from functools import cache
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import ucfh
from support.environments import Listed, Scripted, masked, step
from support.errors import refusal
from ucfh.envs.learning import LearningError

COIN: dict[Any, Any] = {
    0: {0: [(0.25, 1.0, 0), (0.75, 0.0, 0)], 1: [(0.75, 1.0, 0), (0.25, 0.0, 0)]}
}
"""One state; the second action pays more often."""
FORK: dict[Any, Any] = {
    0: {0: [(0.5, 0.0, 1), (0.5, 0.0, 2)], 1: [(1.0, 0.25, None)]},
    1: {0: [(1.0, 1.0, 1)]},
    2: {0: [(1.0, 0.0, None)]},
}
"""Two ways to go on, ends, and states with different actions."""


def check(found: ucfh.LearningResult, world: Listed) -> None:
    """The certificate is right; here, these runs are known to be no exceptions."""
    H, known = found.horizon, found.certificate
    best = world.value(H)

    def act(t: int, s: Any) -> int:
        a = int(found.policy.act(t, s))
        return a if a in world.table[s] else min(world.table[s])

    mine = world.value(H, act)
    assert known.lower - 1e-9 <= mine <= best <= known.upper + 1e-9
    assert best - mine <= known.gap + 1e-9
    assert known.gap <= known.upper - known.lower + 1e-9
    assert known.contradiction is None


# results


def test_a_gymnasium_id() -> None:
    found = ucfh.learn("FrozenLake-v1", 0.5, horizon=5, max_return=1, seed=0)
    known = found.certificate
    assert (found.horizon, found.epsilon, known.epsilon, known.delta) == (5, 0.5, 0.5, 0.1)
    assert known.certified
    assert known.gap <= 0.5
    assert known.episodes == found.episodes > 0
    assert found.steps >= found.episodes
    assert 0 < found.planning_seconds < found.seconds
    assert found.states[0] == 0
    assert all(type(s) is int for s in found.states)
    assert known.policy.shape == found.policy.actions.shape == (5, len(found.states))
    assert known.policy.tolist() == found.policy.actions.tolist()
    assert not found.interrupted
    mdp = ucfh.make("gym:FrozenLake-v1,horizon=5")
    assert mdp.value(mdp.optimal().policy) <= known.upper
    assert len(known.assumed) == 4


def test_bounds_are_monotone() -> None:
    seen = []
    found = ucfh.learn(
        Listed(FORK), 0.3, horizon=3, seed=1, masks=True,
        progress=lambda so_far: seen.append((so_far.episodes, so_far.upper, so_far.gap)),
    )  # fmt: skip
    check(found, Listed(FORK))
    assert seen == [(episodes, upper, gap) for episodes, upper, _, gap in found.history]
    episodes, upper, lower, gap = (list(x) for x in zip(*found.history, strict=True))
    assert episodes == sorted(set(episodes))
    assert upper == sorted(upper, reverse=True)
    assert gap == sorted(gap, reverse=True)
    assert gap[-1] <= 0.3 < gap[-2]
    assert (upper[-1], lower[-1]) == (found.upper, found.lower)
    assert max(lower) <= Listed(FORK).value(3) <= min(upper)


def test_the_same_seed_gives_the_same() -> None:
    worlds: list[tuple[Any, Any, dict[str, Any]]] = [
        ("FrozenLake-v1", "FrozenLake-v1", {"horizon": 4}),
        (Listed(COIN), Listed(COIN), {"horizon": 2}),
        *[(ucfh.make("chain:n=3,horizon=3"),) * 2 + ({},)],
    ]
    for one, other, given in worlds:
        first, again = (ucfh.learn(x, 0.1, seed=5, episodes=60, **given) for x in (one, other))
        assert first.history == again.history
        assert first.states == again.states
        assert first.policy.actions.tolist() == again.policy.actions.tolist()


def test_an_mdp_is_stepped_like_an_environment() -> None:
    mdp = ucfh.make("chain:n=3,horizon=3")
    found = ucfh.learn(mdp, 0.3, seed=0)
    known = found.certificate
    assert known.certified
    assert sorted(found.states, key=str) == [0, 1, 2]
    pi = [[found.policy.act(t, s) for s in range(3)] for t in range(3)]
    best = mdp.value(mdp.optimal().policy)
    assert known.lower <= mdp.value(np.array(pi)) <= best <= known.upper
    assert best - mdp.value(np.array(pi)) <= known.gap
    tutoring = ucfh.make("tutoring")
    named = ucfh.learn(tutoring, 0.5, episodes=50, seed=0, segments=[9])
    name = "A mastered, B unknown"
    assert named.policy.act(0, name) == named.policy.act(0, 6)
    assert {name for name, _ in named.policy.named()[0]} <= set(tutoring.problem.state_names or ())


def test_an_mdp_with_missing_actions_and_a_terminal_state() -> None:
    P = np.zeros((3, 2, 3))
    P[0, 0, [0, 1]], P[0, 1, 2], P[1, 0, 0], P[2, 0, 2] = 0.5, 1.0, 1.0, 1.0
    mdp = ucfh.MDP(
        P, np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]), 4, [0.5, 0.25, 0.25],
        available=[[True, True], [True, False], [True, False]], terminal=[2],
    )  # fmt: skip
    found = ucfh.learn(mdp, 0.9, seed=3)
    assert sorted(found.states, key=str) == [0, 1]  # the terminal one is the end
    pi = np.array([[found.policy.act(t, s) for s in range(3)] for t in range(4)])
    best = mdp.value(mdp.optimal().policy)
    assert found.lower <= mdp.value(pi) <= best <= found.upper
    assert found.certificate.certified


# edge cases


@pytest.mark.parametrize(
    ("table", "given"),
    [
        ({0: {0: [(1.0, 0.75, 0)]}}, {"horizon": 1}),  # one of everything
        ({0: {0: [(1.0, 0.5, None)]}}, {"horizon": 3}),  # it ends at once
        ({0: {0: [(0.5, 1.0, None), (0.5, -1.0, None)]}}, {"horizon": 2, "rewards": (-1, 1)}),
        ({0: {0: [(1.0, -1.0, 0)], 1: [(1.0, -3.0, None)]}}, {"horizon": 4, "rewards": (-3, -1)}),
        ({0: {0: [(1.0, 2.0, 0)], 1: [(1.0, 3.0, None)]}}, {"horizon": 3, "rewards": (1, 3)}),
        ({0: {0: [(1.0, (0.2, 0.9), 0)], 1: [(1.0, (0.0, 0.5), 0)]}}, {"horizon": 2}),
        (COIN, {"horizon": 2, "segments": True}),
        (COIN, {"horizon": 3, "segments": [2], "max_return": 3}),
        (FORK, {"horizon": 3, "masks": True}),
        (FORK, {"horizon": 4, "masks": True, "segments": (1, 3), "max_return": 3}),
    ],
)
def test_small_environments(table: dict[Any, Any], given: dict[str, Any]) -> None:
    world = Listed(table)
    found = ucfh.learn(Listed(table), 0.05, 0.1, seed=11, episodes=120, **given)
    check(found, world)
    assert found.episodes <= 120
    assert found.upper < found.units.value(given["horizon"], given["horizon"])  # it has learned
    segments = given.get("segments", ())
    more = 1 if segments is True else len(segments)
    assert 1 + more == found.agent.experience.P


def test_a_start_that_varies() -> None:
    table: dict[Any, Any] = {s: {0: [(1.0, s / 4, None)]} for s in range(5)}
    world = Listed(table, {0: 0.4, 3: 0.3, 4: 0.3})
    found = ucfh.learn(Listed(table, world.starts), 0.2, horizon=2, seed=0)
    check(found, world)
    assert set(found.states) == {0, 3, 4}
    assert found.agent.experience.started.sum() == found.episodes


def test_texts_tuples_and_actions_that_begin_elsewhere() -> None:
    shown = [step("home"), step("away", 1.0), step("home", 0.5), step("x", 0.25, end=True)]
    space, actions = spaces.Text(9), spaces.Discrete(3, start=-1)
    toy = Scripted(shown, space=space, actions=actions)
    found = ucfh.learn(toy, 1.0, horizon=3, episodes=30)
    assert found.states == ["home", "away"]
    assert all(found.policy.act(t, s) in (-1, 0, 1) for t in range(3) for s in ("home", "away"))
    assert found.policy.act(0, "nowhere") == -1
    assert {a for line in found.policy.named() for _, a in line} <= {"-1", "0", "1"}
    coded = ucfh.learn(
        Scripted(shown, space=space), 1.0, horizon=3, episodes=5, encode=lambda seen: (len(seen), 1)
    )
    assert coded.states == [(4, 1)]
    assert coded.policy.act(2, "back") in (0, 1)  # of the same length: the same state


def test_acting() -> None:
    found = ucfh.learn(Listed(COIN), 0.3, horizon=2, seed=0)
    assert found.policy.act(0, 0) == found.policy.act(1, np.int64(0)) == 1
    assert found.policy.act(0, 99) == 0  # never seen: the first action
    for t in (2, -1, 0.5, "0", None, True):
        assert refusal(found.policy.act, t, 0).startswith(f"t = {t!r} ")
    assert "Discrete(1)" in refusal(found.policy.act, 0, "a")


def test_a_state_without_the_first_action() -> None:
    toy = Scripted([masked(0, [0, 1]), masked(3, [0, 1]), masked(0, [0, 1])])
    found = ucfh.learn(toy, 1.0, horizon=2, episodes=20, masks=True)
    assert [found.policy.act(t, s) for t in range(2) for s in (0, 3)] == [1] * 4
    assert any("actions" in x for x in found.certificate.assumed)


# units


@cache
def learned_in_units(a: float, b: float, most: float | None) -> ucfh.LearningResult:
    """A small world where a reward of r becomes a*r + b."""
    table: dict[Any, Any] = {
        s: {x: [(p, a * r + b, s1) for p, r, s1 in y] for x, y in actions.items()}
        for s, actions in {
            0: {0: [(0.5, 0.5, 1), (0.5, 0.0, 0)], 1: [(1.0, 0.125, 0)]},
            1: {0: [(0.25, 1.0, 0), (0.75, 0.0, 1)], 1: [(1.0, 0.25, 0)]},
        }.items()
    }
    G = None if most is None else a * most + 2 * b
    return ucfh.learn(
        Listed(table), 0.5 * a, horizon=2, rewards=(b, a + b), max_return=G, seed=2, episodes=150
    )


@pytest.mark.parametrize("most", [None, 1.5])
@pytest.mark.parametrize(
    ("low", "high"), [(0, 4), (0, 0.25), (-2, 0), (-1, 1), (-96, 32), (-0.5, 0)]
)
def test_other_units_are_another_scale(low: float, high: float, most: float | None) -> None:
    span = high - low
    one, other = learned_in_units(1.0, 0.0, most), learned_in_units(span, low, most)
    assert other.episodes == one.episodes
    assert other.states == one.states
    assert other.policy.actions.tolist() == one.policy.actions.tolist()
    size = 1e-12 * (span + abs(low))
    for mine, its in zip(one.history, other.history, strict=True):
        expected = [mine[1] * span + 2 * low, mine[2] * span + 2 * low, mine[3] * span]
        np.testing.assert_allclose(its[1:], expected, atol=size)
    known, same = one.certificate, other.certificate
    assert -size <= same.upper - (known.upper * span + 2 * low) < 10 * size  # rounded outward
    assert -size <= (known.lower * span + 2 * low) - same.lower < 10 * size
    assert same.certified == known.certified
    assert [x.share for x in same.missing] == pytest.approx([x.share for x in known.missing])


def test_a_largest_return_helps() -> None:
    table: dict[Any, Any] = {0: {0: [(0.9, 0.0, 0), (0.1, 1.0, None)], 1: [(1.0, 0.0, None)]}}
    took = [
        ucfh.learn(Listed(table), 0.4, horizon=4, max_return=most, seed=0).episodes
        for most in (1, 2, None)
    ]
    assert took == sorted(took)
    assert took[0] < 0.7 * took[2]


@pytest.mark.parametrize("most", [0.01, 0.5, 1.0])
def test_a_largest_return_that_is_too_small(most: float) -> None:
    with pytest.raises(LearningError, match="max_return") as caught:
        ucfh.learn(
            Listed({0: {0: [(1.0, 1.0, 0)], 1: [(1.0, 0.9, 0)]}}),
            min(most / 2, 0.1), horizon=3, max_return=most, seed=0, episodes=400,
        )  # fmt: skip
    assert caught.value.result.episodes < 400


# assumptions


def test_an_mdp_that_depends_on_the_step() -> None:
    """The task is known to depend on the step: one segment for all would certify nonsense."""
    mdp = ucfh.MDP(np.ones((1, 2, 1)), np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), 2)
    changes = "change at step {}, counted from 0: pass segments={}"
    assert refusal(ucfh.learn, mdp, 0.2, seed=0).endswith(changes.format(1, True))
    found = ucfh.learn(mdp, 0.2, seed=0, segments=True)
    assert found.certificate.certified
    assert 2 - mdp.value(found.certificate.policy) <= 0.2
    P = np.stack([np.eye(2)[:, None], np.eye(2)[::-1, None], np.eye(2)[:, None]])
    moving = ucfh.MDP(P, np.array([[1.0], [0.0]]), 3)
    by_successor = np.zeros((3, 1, 1, 1))
    by_successor[2] = 1.0
    paying = ucfh.MDP(np.ones((1, 1, 1)), by_successor, 3)
    for other, segments, message in (
        (ucfh.make("tutoring"), (), changes.format(9, [9])),
        (ucfh.make("tutoring"), [4], changes.format(9, [9])),
        (moving, (), changes.format(1, True)),
        (moving, [1], changes.format(2, [2])),
        (paying, [1], changes.format(2, [2])),
    ):
        assert refusal(ucfh.learn, other, 0.2, segments=segments).endswith(message)
    assert ucfh.learn(paying, 0.2, segments=[2], episodes=5).agent.experience.P == 2


def test_an_mdp_without_a_seed_is_random() -> None:
    mdp = ucfh.MDP(np.full((40, 1, 40), 1 / 40), np.zeros((40, 1)), 40)
    one, other = (ucfh.learn(mdp, 0.1, episodes=3).states for _ in range(2))
    assert one != other


def test_an_environment_of_the_user_stays_open() -> None:
    mine = Listed(COIN)
    ucfh.learn(mine, 0.5, horizon=1, episodes=5)
    assert not mine.closed
    refusal(ucfh.learn, mine, 0.5, horizon=1, segments=[9])
    assert not mine.closed


def test_epsilon_is_in_the_users_units() -> None:
    assert "epsilon = 9 is not below 4" in refusal(ucfh.learn, Listed(COIN), 9, horizon=4)
    found = ucfh.learn(Listed(COIN), 9, horizon=4, rewards=(-4, 8), episodes=50)
    assert found.certificate.epsilon == 9
    for epsilon in (0, -1, 9e-13, float("nan"), float("inf"), "0.1", None, True):
        assert refusal(ucfh.learn, Listed(COIN), epsilon, horizon=4).startswith("epsilon = ")


@pytest.mark.parametrize(
    "given",
    [
        {"delta": 0},
        {"horizon": 0},
        {"episodes": 0},
        {"rewards": (1, 0)},
        {"max_return": -1},
        {"segments": [4]},
        {"seed": -1},
        {"encode": 3},
        {"masks": 1.5},
        {"progress": 3},
        {"settings": {"a": 1}},
    ],
    ids=str,
)
def test_invalid_arguments(given: dict[str, Any]) -> None:
    (name,) = given
    assert refusal(ucfh.learn, Listed(COIN), 0.1, **{"horizon": 4, **given}).startswith(name)


def test_an_environment_without_a_step_limit_needs_a_horizon() -> None:
    assert "horizon" in refusal(ucfh.learn, Listed(COIN), 0.1)


def test_options_that_do_not_apply_to_mdps() -> None:
    mdp = ucfh.make("chain:n=3,horizon=3")
    assert "horizon" in refusal(ucfh.learn, mdp, 0.1, horizon=4)
    for given in ({"rewards": (0, 2)}, {"encode": str}, {"masks": True}, {"settings": {"a": 1}}):
        assert next(iter(given)) in refusal(ucfh.learn, mdp, 0.1, **given)
    for env in (mdp.problem, gymnasium.make_vec("FrozenLake-v1", num_envs=2)):
        assert refusal(ucfh.learn, env, 0.1).startswith("env = ")
