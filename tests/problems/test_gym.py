"""Gymnasium environments as problems: tables, merged outcomes and rescaled rewards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import gymnasium
import numpy as np
import pytest

from support.problems import Floats, dense, optimum
from ucfh.problems import catalogue, make


def raw_values(table: Any, horizon: int, policy: Any = None) -> Floats:
    """(S,) values of a Gymnasium table in its own rewards: optimal, or of a policy."""
    values = np.zeros(len(table))
    for t in reversed(range(horizon)):
        before = np.zeros(len(table))
        for s, actions in table.items():
            q = {
                a: sum(p * (r + (0 if done else values[to])) for p, to, r, done in outcomes)
                for a, outcomes in actions.items()
            }
            before[s] = max(q.values()) if policy is None else q[int(policy[t, s])]
        values = before
    return values


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings", "shift", "span"),
    [
        ("FrozenLake-v1,horizon=20", {}, 0, 1),
        ("FrozenLake-v1,horizon=20,is_slippery=false", {"is_slippery": False}, 0, 1),
        (
            "FrozenLake-v1,horizon=30,map_name=8x8,success_rate=0.8",
            {"map_name": "8x8", "success_rate": 0.8},
            0,
            1,
        ),
        ("FrozenLake8x8-v1,horizon=40", {}, 0, 1),
        ("CliffWalking-v1,horizon=15", {}, 100, 100),
        ("CliffWalking-v1,horizon=25,is_slippery=1", {"is_slippery": True}, 100, 100),
        ("CliffWalkingSlippery-v1,horizon=25", {}, 100, 100),
        ("Taxi-v4,horizon=30", {}, 10, 30),
        ("Taxi-v4,horizon=20,is_rainy=true", {"is_rainy": True}, 10, 30),
    ],
)
def test_gym_equals_dynamic_programming_on_the_raw_table(
    name: str, settings: dict[str, Any], shift: float, span: float
) -> None:
    mdp = make(f"gym:{name}")
    env = gymnasium.make(name.partition(",")[0], **settings)
    table, start = env.unwrapped.P, env.unwrapped.initial_state_distrib  # type: ignore[attr-defined]
    policy = mdp.optimal().policy
    best = float(start @ raw_values(table, mdp.horizon))
    assert span * optimum(mdp) - mdp.horizon * shift == pytest.approx(best, abs=1e-9)
    assert start @ raw_values(table, mdp.horizon, policy) == pytest.approx(best, abs=1e-9)
    rng = np.random.default_rng(0)
    other = rng.integers(mdp.actions, size=policy.shape)
    other[:, -1] = 0
    expected = float(start @ raw_values(table, mdp.horizon, other))
    assert span * mdp.value(other) - mdp.horizon * shift == pytest.approx(expected, abs=1e-9)
    assert bool(mdp.note) == (span != 1)
    if mdp.note:
        assert f"(r + {shift}) / {span}" in mdp.note
        assert f"{span} v - {mdp.horizon * shift}" in mdp.note
    names = mdp.problem.state_names
    assert names is not None
    assert names[-1] == "end"
    assert mdp.problem.terminal == (() if shift else (len(table),))


class Merging(gymnasium.Env[Any, Any]):
    """Successors listed twice, with other rewards or ends; a state with fewer actions."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, scale: float = 1.0) -> None:
        self.P = {
            0: {
                0: [
                    (0.2, 1, 0.0, False),
                    (0.3, 1, 1.0 * scale, False),
                    (0.1, 1, 0.5 * scale, True),
                    (0.3, 0, 1.0 * scale, True),
                    (0.1, 0, 0.25 * scale, False),
                    (0.0, 0, 99.0, False),
                ],
                1: [(1.0, 0, 0.1 * scale, False)],
            },
            1: {0: [(0.5, 0, 1.0 * scale, False), (0.5, 0, 1.0 * scale, False)]},
        }

    def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
        return 1, {}


@pytest.fixture
def merging() -> Iterator[str]:
    gymnasium.register("Merging-v0", entry_point=cast(Any, Merging))
    yield "Merging-v0"
    del gymnasium.registry["Merging-v0"]


def test_gym_merges_outcomes(merging: str) -> None:
    mdp = make(f"gym:{merging},horizon=3")
    assert dense(mdp)[0, 0] == pytest.approx([0.1, 0.5, 0.4])
    assert mdp.rewards.successor is not None
    found = mdp.rewards.successor[0, mdp.table.entries_of(0)]
    assert found == pytest.approx([0.25, 0.3 / 0.5, (0.1 * 0.5 + 0.3) / 0.4])
    assert mdp.table.available.tolist() == [[True, True], [True, False], [True, False]]
    assert mdp.initial.tolist() == [0, 1, 0]


@pytest.mark.parametrize("scale", [1.0, 3.0, -2.0])
def test_gym_rescales_merged_outcomes(merging: str, scale: float) -> None:
    H = 7
    mdp = make(f"gym:{merging},horizon={H},scale={scale}")
    low, high = min(0.0, scale), max(0.0, scale)
    shift, span = (0.0, 1.0) if scale == 1 else (-low, high - low)
    table = Merging(scale).P
    table[0][0].pop()
    best = raw_values(table, H)[1]
    assert span * optimum(mdp) - H * shift == pytest.approx(best)


def test_gym_keeps_rewards_of_pairs() -> None:
    assert make("gym:Taxi-v4").rewards.successor is None
    assert make("gym:FrozenLake-v1").rewards.successor is not None


def test_gym_as_a_function_takes_values() -> None:
    mdp = catalogue()["gym"]("FrozenLake-v1", horizon=6, is_slippery=False)
    assert optimum(mdp) == 1
    assert optimum(make("gym:FrozenLake-v1,horizon=5,is_slippery=0")) == 0
