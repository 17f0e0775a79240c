"""Stepped environments: steps, states, errors and interruptions."""

from __future__ import annotations

import sys
from ast import literal_eval
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from support.environments import (
    Recording,
    Row,
    Scripted,
    assert_faulty,
    interrupt_at,
    listed,
    masked,
    run,
    step,
)
from support.errors import refusal as fault
from ucfh.envs import gymnasium_adapter
from ucfh.envs.gymnasium_adapter import Environment
from ucfh.rewards import RewardRange
from ucfh.sparse_counts import END, SparseCounts

START = step(0)
BOX: Any = spaces.Box


# steps


@pytest.mark.parametrize(
    ("name", "horizon", "rewards"),
    [
        ("FrozenLake-v1", 20, (0, 1)),
        ("FrozenLake8x8-v1", 3, (0, 1)),
        ("CliffWalking-v1", 12, (-100, -1)),
        ("Taxi-v4", 15, (-10, 20)),
        ("Blackjack-v1", 4, (-1, 1.5)),
    ],
)
def test_steps_are_those_of_a_slow_recording(
    name: str, horizon: int, rewards: tuple[float, float]
) -> None:
    low, high = min(0, rewards[0]), max(0, rewards[1])
    slow = Recording(name, horizon, low, high - low, seed=7)
    env = Environment(name, horizon=horizon, units=RewardRange.check(rewards), seed=7)
    seen = SparseCounts(horizon, env.actions)
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    starts: list[int] = []
    for episodes in (1, 0, 4, 30):  # the policy knows the states of the earlier runs
        policy = rng.integers(env.actions, size=(horizon, seen.states)).tolist()
        ran = env.run(seen, policy, episodes)
        slow.run(policy, episodes)
        assert (ran.episodes, ran.fault, ran.interrupted) == (episodes, None, False)
        rows += listed(ran.steps)
        starts += ran.steps.starts.tolist()
        seen.add(ran.steps)
    assert rows == slow.rows
    assert starts == slow.starts
    assert env.labels == slow.keys
    assert seen.states == len(env.labels)
    assert seen.episodes == 35
    assert seen.visits.sum() == len(rows)
    assert (env.units.shift, env.units.span) == (-low, high - low)
    for n, key in enumerate(slow.keys[1:], 1):
        assert env.number_of(key) == n
        assert env.name_of(n) == str(key)
    env.close()


def test_blackjack_ends_in_observations_that_also_go_on() -> None:
    slow = Recording("Blackjack-v1", 4, -1, 2, seed=0)
    slow.run([[0]] * 4, 300)
    assert set(slow.last_seen) & set(slow.keys)
    ran, _ = run(Environment("Blackjack-v1", horizon=4, units=RewardRange(-1, 1), seed=0), 300)
    assert listed(ran.steps) == slow.rows
    assert (ran.steps.following == END).sum() == 300  # it sticks at once


def test_taxi_with_masks_has_the_actions_of_each_state() -> None:
    env = Environment("Taxi-v4", horizon=30, units=RewardRange(-10, 20), masks=True, seed=1)
    ran, seen = run(env, 20)
    assert ran.fault is None
    for n in range(1, seen.states):
        expected = env.env.unwrapped.action_mask(env.labels[n])
        assert seen.available(n).tolist() == expected.astype(bool).tolist()
    first = [int(seen.available(s).argmax()) for s in ran.steps.state]  # all were found here
    assert ran.steps.action.tolist() == first
    assert len(set(first)) > 1
    assert len(listed(env.run(seen, [[0] * seen.states] * 30, 1).steps)) == 30


def test_actions_are_numbered_from_zero() -> None:
    toy = Scripted([START, step(1), step(2, end=True)], actions=spaces.Discrete(3, start=-1))
    env = Environment(toy, horizon=5)
    seen = SparseCounts(5, 3)
    ran = env.run(seen, [[0]] * 5, 1)
    assert listed(ran.steps) == [(0, 1, 0, 0, 2), (1, 2, 0, 0, END)]  # no state was known
    ran = env.run(seen, [[0, 2, 1]] * 5, 1)
    assert ran.steps.action.tolist() == [2, 1]
    assert toy.taken == [-1, -1, 1, 0]
    assert all(type(a) is int for a in toy.taken)
    assert (env.actions, env.action_names) == (3, ["-1", "0", "1"])


def test_the_first_reset_is_seeded() -> None:
    toy = Scripted([START, step(1, end=True)])
    env = Environment(toy, horizon=2, seed=5)
    _, seen = run(env, 2)
    env.run(seen, [[0]] * 2, 1)
    assert toy.seeds == [5, None, None]
    ran = [run(Environment("FrozenLake-v1", seed=3), 50)[0].steps for _ in range(2)]
    assert listed(ran[0]) == listed(ran[1])
    other, _ = run(Environment("FrozenLake-v1", seed=4), 50)
    assert listed(other.steps) != listed(ran[0])


def test_the_limit_of_steps() -> None:
    assert Environment("FrozenLake-v1").horizon == 100
    assert Environment(gymnasium.make("Taxi-v4")).horizon == 200
    for env in (
        Environment("Taxi-v4", horizon=30, units=RewardRange(-10, 20)),
        Environment("Taxi-v4", horizon=250, units=RewardRange(-10, 20)),  # more than its own 200
        Environment(gymnasium.make("Taxi-v4"), units=RewardRange(-10, 20)),  # is cut at H
    ):
        ran, _ = run(env, 2)
        assert (ran.fault, ran.episodes, len(ran.steps)) == (None, 2, 2 * env.horizon)
        assert (ran.steps.following != END).all()
    ran, _ = run(Environment(gymnasium.make("Taxi-v4"), horizon=250, units=RewardRange(-10, 20)), 2)
    assert (ran.episodes, len(ran.steps), ran.steps.starts.tolist()) == (0, 200, [1])
    assert str(ran.fault).startswith("Taxi-v4 truncated an episode after 200 of 250 steps: pass")


def test_settings_and_modules_of_an_id() -> None:
    env = Environment("gymnasium.envs:FrozenLake-v1", horizon=6, settings={"is_slippery": False})
    ran = env.run(SparseCounts(6, 4), [[2] * 20] * 6, 1)
    assert [env.labels[n] for n in ran.steps.state] == [0, 1, 2, 3, 3, 3]  # to the right
    assert env.name == "FrozenLake-v1"


# states


@pytest.mark.parametrize(
    ("space", "observations", "names"),
    [
        (spaces.Discrete(3, start=-1), [-1, np.int64(1), np.array(0)], ["-1", "1", "0"]),
        (spaces.MultiDiscrete([3, 4]), [np.array([2, 3]), [0, 1]], ["[2, 3]", "[0, 1]"]),
        (spaces.MultiBinary(2), [np.array([True, False]), np.array([0, 1])], ["[1, 0]", "[0, 1]"]),
        (spaces.MultiBinary([1, 2]), [np.array([[0, 1]], np.int8)], ["[[0, 1]]"]),
        (spaces.Text(9), ["a b", "end", "", "14"], ["a b", "end (state 2)", "''", "14"]),
        (BOX(-9, 9, (2, 2), int), [np.array([[1, -2], [3, 4]])], ["[[1, -2], [3, 4]]"]),
        (BOX(0, 9, (), np.uint8), [np.array(7, np.uint8), np.uint8(5)], ["7", "5"]),
        (BOX(0, 1, (2,), bool), [np.array([True, False])], ["[1, 0]"]),
        (
            spaces.Tuple([spaces.Discrete(32), spaces.Discrete(2)]),
            [(14, 1), (np.int64(3), 0)],
            ["(14, 1)", "(3, 0)"],
        ),
        (
            spaces.Tuple([spaces.Text(3), spaces.MultiBinary(1)]),
            [("end", np.array([1])), ("a", np.array([0]))],
            ["('end', [1])", "('a', [0])"],
        ),
        (
            spaces.Dict({"view": BOX(0, 9, (2,), int), "do": spaces.Text(3), "at": spaces.Dict()}),
            [{"view": np.array([1, 2]), "do": "go", "at": {}}],
            ["{'at': {}, 'do': 'go', 'view': [1, 2]}"],
        ),
        (spaces.Sequence(spaces.Discrete(3)), [(), (2, 1), (2,)], ["()", "(2, 1)", "(2,)"]),
        (
            spaces.OneOf([spaces.Discrete(3), spaces.Text(2)]),
            [(0, 2), (np.int64(1), "2")],
            ["(0, 2)", "(1, '2')"],
        ),
    ],
)  # fmt: skip
def test_observations_become_states(space: Any, observations: list[Any], names: list[str]) -> None:
    toy = Scripted([step(seen) for seen in [*observations, observations[0]]], space=space)
    env = Environment(toy, horizon=len(observations))
    ran, _ = run(env)
    numbers = list(range(1, len(observations) + 1))
    assert ran.fault is None
    assert ran.steps.state.tolist() == numbers
    assert ran.steps.following[-1] == 1
    assert [env.name_of(n) for n in (0, *numbers)] == ["end", *names]
    assert [env.number_of(seen) for seen in observations] == numbers
    assert [literal_eval(repr(key)) for key in env.labels] == env.labels
    assert "np." not in repr(env.labels)


def test_encode_makes_the_states() -> None:
    pair = (np.int64(2), np.float64(0.5))
    keys = [1, "1", pair, "end", np.float32(0.1), None, "(2, 0.5)", "a\nb"]
    toy = Scripted([step(np.array([i / 2])) for i in range(8)], space=BOX(0, 4))
    env = Environment(toy, horizon=7, encode=lambda seen: keys[int(2 * seen[0])])
    assert env.number_of(np.array([0.0])) == -1  # never seen
    ran, _ = run(env, 2)
    assert (ran.fault, ran.episodes, len(env.labels)) == (None, 2, 9)
    names = [env.name_of(n) for n in range(9)]
    assert names[:5] == ["end", "1", "1 (state 2)", "(2, 0.5)", "end (state 4)"]
    assert names[6:] == ["None", "(2, 0.5) (state 7)", r"'a\nb'"]
    assert env.number_of(np.array([1.0])) == 3
    assert type(env.labels[5]) is float
    assert fault(env.name_of, 9) == "state 9 does not exist: states are 0 to 8"


def test_an_older_experience_continues() -> None:
    env = Environment("Blackjack-v1", horizon=4, units=RewardRange(-1, 1), seed=0)
    ran, seen = run(env, 50)
    seen.add(ran.steps)
    again = Environment("Blackjack-v1", horizon=4, units=RewardRange(-1, 1), seed=1)
    again.labels += literal_eval(repr(env.labels[1:]))
    older = SparseCounts(4, 2)
    older.restore(seen.state())
    policy = [[1] * seen.states] * 4
    ran = again.run(older, policy, 50)
    assert again.labels[: len(env.labels)] == env.labels
    assert again.number_of(env.labels[3]) == 3
    assert ran.steps.action[ran.steps.state < seen.states].all()


# errors

MASK = {"masks": True}
AT = "at step 1 (state 3, action 0)"
HASHABLE = ", which is not hashable: return a number, a string or a tuple of them"


@pytest.mark.parametrize(
    ("second", "given", "message"),
    [
        (step(4, 1.5), {}, f"returned reward 1.5 {AT}, outside of [0, 1]: "),
        (step(4, -0.1, end=True), {}, f"returned reward -0.1 {AT}, outside of [0, 1]: "),
        (step(4, 0.0), {"units": RewardRange(1, 2)}, f"returned reward 0 {AT}, outside of [1, 2]"),
        (step(4, 1 + 2e-9), {}, f"returned reward 1.000000002 {AT}, outside of [0, 1]: "),
        (step(4, float("nan")), {}, f"returned reward nan {AT}, outside of [0, 1]: "),
        (step(4, None), {}, f"returned reward None {AT}, which is not a number"),
        (step(4, "1"), {}, f"returned reward '1' {AT}, which is not a number"),
        (step(4, [1.0]), {}, f"returned reward [1.0] {AT}, which is not a number"),
        (step(4, np.zeros(1)), {}, f"returned reward array([0.]) {AT}, which is not a number"),
        (step(4, [[1], [1, 2]]), {}, f"returned reward [[1], [1, 2]] {AT}, which is not a number"),
        (ValueError("no\n way"), {}, f"raised ValueError {AT}: no way"),
        ((1, 2), {}, f"raised ValueError {AT}: not enough values to unpack (expected 5, got 2)"),
        (step(0.5), {}, f"returned 0.5 {AT}, which is not in its observation space"),
        (step("x"), {}, f"returned 'x' {AT}, which is not in .*: correct one, or pass"),
        (masked(4, [0, 1, 1]), MASK, f"gave the action_mask [0, 1, 1] {AT}: it must be 2 of"),
        (masked(4, [0, 2]), MASK, f"gave the action_mask [0, 2] {AT}: it must be 2 of 0 or 1"),
        (masked(4, [0, 0]), MASK, f"gave the action_mask [0, 0] {AT}: .*, not all 0"),
        (masked(4, ["0", "1"]), MASK, f"gave the action_mask ['0', '1'] {AT}: it must be"),
        (step(4), MASK, f"gave no info[\"action_mask\"] {AT} (info has: nothing)"),
        ((4, 0.0, False, False, None), MASK, f"gave the action_mask None {AT}: "),
        (
            masked(3, np.array([1, 0])), MASK,
            f"gave state 3 the action_mask [1, 0] {AT}, but [1, 1] at its first visit: add to",
        ),
    ],
)  # fmt: skip
def test_errors_of_a_step(second: Any, given: dict[str, Any], message: str) -> None:
    one = [1, 1]
    first = (3, 1.0, False, False, {"action_mask": one})
    toy = Scripted([masked(3, one), first, first], [masked(3, one), first, second])
    env = Environment(toy, horizon=2, **given)
    seen = SparseCounts(2, 2)
    ran = env.run(seen, [[0]] * 2, 3)
    assert_faulty(ran, "Scripted " + message)
    r = (1 + env.units.shift) / env.units.span
    assert listed(ran.steps) == [(0, 1, 0, r, 1), (1, 1, 0, r, 1), (0, 1, 0, r, 1)]
    assert (ran.steps.starts.tolist(), ran.episodes, ran.interrupted) == ([1, 1], 1, False)
    seen.add(ran.steps)
    toy.episodes = toy.episodes[:1]  # it can go on
    assert env.run(seen, [[0] * seen.states] * 2, 3).episodes == 3


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda seen: [seen], "encode returned [4] at step 1 (state 3, action 0)" + HASHABLE),
        (lambda seen: np.array([seen / 2]), f"encode returned array([2.]) {AT}{HASHABLE}"),
        (lambda seen: (seen, [1]), f"encode returned (4, [1]) {AT}{HASHABLE}"),
        (lambda _: float("nan"), f"encode returned nan {AT}, not equal to itself: pass encode=f"),
        (lambda seen: (np.float64("nan"), seen), f"encode returned (np.float64(nan), 4) {AT}, not"),
        (lambda seen: {0: 0}[seen], f"encode raised KeyError {AT}: 4"),
    ],
)
def test_errors_of_encode(encode: Callable[[Any], Any], message: str) -> None:
    toy = Scripted([step(3), step(3), step(4)])
    env = Environment(toy, horizon=2, encode=lambda seen: seen if seen == 3 else encode(seen))
    ran, _ = run(env)
    assert_faulty(ran, message)
    assert (len(ran.steps), ran.episodes) == (1, 0)
    if "not" not in message or HASHABLE in message:
        assert fault(env.number_of, 4).startswith(message.partition(" at ")[0])


def test_errors_of_a_reset() -> None:
    for shown, message in (
        (RuntimeError("broken\npipe"), "Scripted raised RuntimeError at the reset: broken pipe"),
        (step(0.5), "Scripted returned 0.5 at the reset, which is not in its observation space"),
    ):
        env = Environment(Scripted([START, step(1, end=True)], [shown]), horizon=3)
        ran, _ = run(env, 5)
        assert_faulty(ran, message)
        assert (ran.episodes, len(ran.steps), ran.steps.starts.tolist()) == (1, 1, [1])
    ran, _ = run(Environment(Scripted([START]), horizon=3, masks=True))
    assert_faulty(ran, 'Scripted gave no info["action_mask"] at the reset ')
    assert (ran.episodes, len(ran.steps), len(ran.steps.starts)) == (0, 0, 0)


def test_truncated_is_an_error_before_the_horizon() -> None:
    toy = Scripted([START, step(1), step(2, cut=True), step(3)])
    ran, _ = run(Environment(toy, horizon=3))
    assert_faulty(ran, "Scripted truncated an episode after 2 of 3 steps: pass a smaller")
    assert listed(ran.steps) == [(0, 1, 0, 0, 2), (1, 2, 0, 0, 3)]  # what it led to was seen
    assert ran.episodes == 0
    ran, _ = run(Environment(toy, horizon=2), 2)
    assert (ran.fault, ran.episodes, len(ran.steps)) == (None, 2, 4)
    ran, _ = run(Environment(Scripted([START, step(1, cut=True, end=True)]), horizon=2))
    assert (ran.fault, listed(ran.steps)) == (None, [(0, 1, 0, 0, END)])


def test_rewards_are_rescaled() -> None:
    given = [2, np.float32(-1), True, np.array(0.5), 2 + 1e-9, -1 - 2e-9, np.int8(0), 2]
    toy = Scripted([step(0, r) for r in [0, *given]])
    env = Environment(toy, horizon=len(given), units=RewardRange(-1, 2))
    ran, _ = run(env)
    assert (ran.fault, env.units.shift, env.units.span) == (None, 1, 3)
    expected = (np.array([2, -1, 1, 0.5, 2, -1, 0, 2]) + 1) / 3
    assert ran.steps.reward.tolist() == expected.tolist()
    for rewards, shift, span in (((1, 3), 0, 3), ((-3, -1), 3, 3), ((0, 1), 0, 1)):
        env = Environment(toy, horizon=1, units=RewardRange.check(rewards))
        assert (env.units.shift, env.units.span) == (shift, span)


def test_many_different_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gymnasium_adapter, "CACHED", 3)
    paid = np.random.default_rng(0).random(50).tolist()
    ran, _ = run(Environment(Scripted([step(0, r) for r in [0, *paid]]), horizon=50))
    assert ran.steps.reward.tolist() == paid


# interruptions


def test_an_interruption_anywhere_keeps_all_that_was_done() -> None:
    shown = [masked(0, [0, 1]), masked(1, [1, 1]), masked(0, [0, 1]), step(2, 1.0, end=True)]
    whole = listed(run(Environment(Scripted(shown), horizon=3, masks=True), 2)[0].steps)
    assert [row[1:3] for row in whole] == [(1, 1), (2, 0), (1, 1)] * 2
    lengths = set()
    for line in range(1, 1000):
        toy = Scripted(shown)
        env, seen = Environment(toy, horizon=3, masks=True), SparseCounts(3, 2)
        try:
            ran = interrupt_at(line, partial(env.run, seen, [[0]] * 3, 2))
        except KeyboardInterrupt:  # before the first step, or after the last one
            assert len(toy.taken) in (0, 6)
            continue
        if ran is None:
            break
        n = len(ran.steps)
        lengths.add(n)
        assert ran.interrupted
        assert ran.fault is None
        assert listed(ran.steps) == whole[:n]
        assert ran.episodes == n // 3
        assert len(ran.steps.starts) in (-(-n // 3), n // 3 + 1)
        assert len(env.labels) == seen.states
        seen.add(ran.steps)
        again = env.run(seen, [[0]] * 3, 2)
        assert [(row[0], env.labels[row[1]], row[2]) for row in listed(again.steps)] == [
            (0, 0, 1), (1, 1, 0), (2, 0, 1)
        ] * 2  # fmt: skip
    assert ran is None
    assert lengths == set(range(7))


@pytest.mark.parametrize("where", ["step", "reset"])
def test_interruptions_in_the_environment(where: str) -> None:
    shown: list[Any] = [START, step(1), KeyboardInterrupt()]
    if where == "reset":
        shown = [KeyboardInterrupt()]
    toy = Scripted([START, step(1, end=True)], shown)
    ran, _ = run(Environment(toy, horizon=4), 9)
    assert (ran.interrupted, ran.fault, ran.episodes) == (True, None, 1)
    assert len(ran.steps) == (2 if where == "step" else 1)


# invalid arguments


@pytest.mark.parametrize(
    ("env", "given", "message"),
    [
        ("FrozenLak-v1", {}, "unknown environment of gym 'FrozenLak-v1': did you mean 'FrozenLake"),
        ("MiniGrid-X-v9", {}, "write MODULE:ID"),
        ("no_such:X-v0", {}, "env: cannot import 'no_such' of 'no_such:X-v0'"),
        ("FrozenLake-v1", {"settings": {"slip": 1}}, "parameter of env:FrozenLake-v1 'slip'"),
        ("FrozenLake-v1", {"horizon": 0}, "horizon = 0"),
        ("FrozenLake-v1", {"seed": -1}, "seed = -1"),
        ("FrozenLake-v1", {"encode": 5}, "encode = 5 must be a function of the observation"),
        ("FrozenLake-v1", {"masks": "no"}, "masks = 'no' must be True or False"),
        ("CliffWalking-v1", {}, "CliffWalking-v1 has no step limit: pass horizon"),
        ("CartPole-v1", {}, "Box(.*, float32) holds real numbers: pass encode=f, where f(observ"),
        ("MountainCar-v0", {}, "or wrap the environment in gymnasium.wrappers.DiscretizeObs"),
        ("Pendulum-v1", {}, "its action space is Box(.*, but actions must be Discrete: wrap the"),
        (Scripted, {}, "must be an environment of Gymnasium, or its id: 'FrozenLake-v1'"),
        (5, {}, "env = 5 must be an environment of Gymnasium, or its id: 'FrozenLake-v1'"),
        (Scripted(), {}, "Scripted has no step limit: pass horizon"),
        (Scripted(), {"settings": {"a": 1}}, "settings are for the id of an environment: make"),
    ],
)  # fmt: skip
def test_invalid_arguments(env: Any, given: dict[str, Any], message: str) -> None:
    found = fault(lambda: Environment(env, **given))
    for part in message.split(".*"):
        assert part in found


def test_several_environments_at_once_are_rejected() -> None:
    several = gymnasium.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync")
    assert "is several environments at once: pass one of them" in fault(Environment, several)
    several.close()


@pytest.mark.parametrize(
    "space",
    [
        BOX(0, 1),
        spaces.Graph(spaces.Discrete(2), None),
        spaces.Sequence(BOX(0, 1)),
        spaces.Sequence(spaces.Discrete(2), stack=True),
        spaces.Tuple([spaces.Discrete(2), BOX(0, 1)]),
        spaces.Dict({"a": spaces.Dict({"b": BOX(0, 1)})}),
        spaces.OneOf([spaces.Discrete(2), BOX(0, 1)]),
    ],
)
def test_observations_that_cannot_be_states_are_rejected(space: Any) -> None:
    message = fault(lambda: Environment(Scripted(space=space), horizon=3))
    assert message.startswith("Scripted: its observation space ")
    assert "pass encode=f, where f(observation) is a number" in message
    assert ("DiscretizeObservation" in message) == isinstance(space, BOX)  # it takes no other
    assert Environment(Scripted(space=space), horizon=3, encode=str).actions == 2


def test_without_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Scripted([START])
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.setitem(sys.modules, "gymnasium.vector", None)
    for env in (toy, "FrozenLake-v1"):
        assert fault(Environment, env).endswith("pip install gymnasium")


def test_an_experience_of_something_else_is_rejected() -> None:
    env = Environment("FrozenLake-v1", horizon=5)
    for other, steps in ((SparseCounts(4, 4), 5), (SparseCounts(5, 3), 5), (SparseCounts(5, 4), 4)):
        message = fault(env.run, other, [[0]] * steps, 1)
        assert message.startswith("FrozenLake-v1 has H, A, S = (5, 4, 1), the experience (")
    _, seen = run(env)
    assert "pass the experience of the earlier runs" in fault(run, env)
    assert fault(env.run, seen, [[0]] * 5, -1).startswith("episodes = -1")
    assert fault(env.run, 5, [[0]] * 5, 1) == "experience = 5 must be an Experience"
