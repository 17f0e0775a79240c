"""Files of learning: the state, the log of steps, and the policy."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import ucfh
from support.environments import Listed, Scripted, named_counts, step
from support.errors import refusal

COIN: dict[Any, Any] = {0: {0: [(0.5, 1.0, 0), (0.5, 0.0, 0)]}}
GAMBLE: dict[Any, Any] = {
    0: {0: [(0.5, -1.0, 1), (0.3, 0.25, 0), (0.2, 0.0, None)], 1: [(0.9, (-1.0, 2.0), 2)]},
    1: {0: [(0.5, 2.0, None), (0.5, 0.125, 0)], 1: [(1.0, 0.0, 1)]},
    2: {0: [(1.0, -0.5, None)], 1: [(0.5, 0.3, 0), (0.5, 0.1, 1)]},
}
"""Rewards of all kinds, and ends at any step."""


def drawn(episodes: int) -> list[list[Any]]:
    """Episodes of up to three steps of a small chain, which do not depend on the actions."""
    rng, shown = random.Random(0), []
    for _ in range(episodes):
        shown.append([step(rng.choice([3, 4, 7]))])
        while len(shown[-1]) < 4:
            state, end = rng.choice([3, 4, 7]), rng.random() < 0.2
            paid = {3: [1.0], 4: [0.5], 7: [0.125, 0.75]}[state]
            shown[-1].append(step(state, rng.choice(paid), end=end))
            if end:
                break
    return shown


SHOWN = drawn(32)


def scripted(episodes: int, **given: Any) -> ucfh.LearningResult:
    """The episodes above, again and again."""
    asked = {"horizon": 3, "epsilon": 0.01, **given}
    return ucfh.learn(Scripted(*SHOWN, actions=spaces.Discrete(1)), episodes=episodes, **asked)


def csv_of(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


# the store


@pytest.mark.parametrize("given", [{}, {"segments": [1]}, {"rewards": (-1, 2), "max_return": 4}])
def test_learning_continues_from_a_store(tmp_path: Path, given: dict[str, Any]) -> None:
    path = tmp_path / "kept.npz"
    whole = scripted(80, **given)
    first = scripted(32, store=path, **given)
    assert path.exists()
    assert first.episodes == 32
    again = scripted(80, store=path, **given)
    other = scripted(80, resume=path, **given)  # all that there is to do is done
    assert again.states == other.states == whole.states
    assert again.history == whole.history[32:]
    for found in (again, other):
        assert found.episodes == 80
        assert found.certificate.as_dict() == whole.certificate.as_dict()
        assert found.policy.actions.tolist() == whole.policy.actions.tolist()
        kept, expected = found.agent.state(), whole.agent.state()
        assert kept.keys() == expected.keys()
        for name, x in expected.items():
            np.testing.assert_array_equal(kept[name], x, err_msg=name)
    assert other.steps == 0


def test_a_resumed_file_is_not_modified(tmp_path: Path) -> None:
    path, new = tmp_path / "kept.npz", tmp_path / "new.npz"
    scripted(32).save(path)
    before = path.read_bytes()
    assert scripted(40, resume=path, store=new).episodes == 40
    assert path.read_bytes() == before
    assert scripted(44, resume=new).episodes == 44


def test_another_accuracy_continues(tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    rough = ucfh.learn(Listed(COIN), 0.4, horizon=1, store=path)
    assert rough.certificate.certified
    fine = ucfh.learn(Listed(COIN), 0.1, horizon=1, store=path)
    assert fine.certificate.certified
    assert fine.episodes > rough.episodes
    assert ucfh.learn(Listed(COIN), 0.4, horizon=1, store=path).steps == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"horizon": 2}, "its horizon is 3, and now it is 2"),
        ({"delta": 0.2}, "its delta is 0.1, and now it is 0.2"),
        ({"rewards": (0, 2)}, "its rewards is [0.0, 1.0], and now it is [0.0, 2.0]"),
        ({"max_return": 3}, "its max_return is None, and now it is 3"),
        ({"segments": [2]}, "its segments is [], and now it is [2]"),
        ({"segments": True}, "its segments is [], and now it is [1, 2]"),
    ],
)
def test_a_store_of_something_else_is_rejected(
    tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    path = tmp_path / "kept.npz"
    scripted(8, store=path)
    before = path.read_bytes()
    for way in ("store", "resume"):
        text = refusal(scripted, 16, **{way: path}, **given)
        assert text == f"{path} cannot continue: {message}; pass the same, or another file"
    assert path.read_bytes() == before


def test_a_store_of_another_environment_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    ucfh.learn("FrozenLake-v1", 0.1, horizon=4, episodes=5, store=path)
    others: list[tuple[Any, dict[str, Any], str]] = [
        ("FrozenLake8x8-v1", {"horizon": 4}, "its environment is 'FrozenLake-v1', and now it is"),
        (Listed(COIN), {"horizon": 4}, "and now it is 'Listed'"),
        (ucfh.make("chain:n=3,horizon=4"), {}, "and now it is 'MDP(states=3, "),
    ]
    for env, given, message in others:
        assert message in refusal(ucfh.learn, env, 0.1, resume=path, **given)
    old = np.load(path)
    head = json.loads(str(old["head"]))
    np.savez(path, **{**old, "head": np.array(json.dumps({**head, "version": "0.5.0"}))})
    assert f"{path} was made by ucfh 0.5.0, and this is " in refusal(
        ucfh.learn, "FrozenLake-v1", 0.1, horizon=4, resume=path
    )


@pytest.mark.parametrize("which", ["settings", "masks", "mdp"])
def test_another_task_of_the_same_name_is_rejected(tmp_path: Path, which: str) -> None:
    path, P = tmp_path / "kept.npz", np.full((2, 2, 2), 0.5)
    tasks: dict[str, list[tuple[Any, dict[str, Any]]]] = {
        "settings": [
            ("FrozenLake-v1", {"horizon": 4, "settings": {"is_slippery": slips}})
            for slips in (True, False)
        ],
        "masks": [(Listed(COIN), {"horizon": 2, "masks": masks}) for masks in (True, False)],
        "mdp": [(ucfh.MDP(P, np.full((2, 2), r), 3), {}) for r in (0.0, 1.0)],
    }
    (env, given), (other, now) = tasks[which]
    ucfh.learn(env, 0.1, episodes=5, store=path, **given)
    before = path.read_bytes()
    for way in ("store", "resume"):
        text = refusal(ucfh.learn, other, 0.1, episodes=9, **{way: path}, **now)
        assert text.startswith(f"{path} cannot continue: its settings is ")
    assert path.read_bytes() == before
    assert ucfh.learn(env, 0.1, episodes=9, store=path, **given).episodes == 9


def test_damaged_stores_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    found = scripted(8, store=path)
    whole = path.read_bytes()
    for n in [0, 1, 40, len(whole) // 2, len(whole) - 30]:
        path.write_bytes(whole[:n])
        assert str(path) in refusal(scripted, 16, resume=path)
    for name in ("U", "c", "reached"):  # a bit of an array
        array = found.agent.state()[name]
        at = whole.index(array.tobytes()) + array.nbytes // 2
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert str(path) in refusal(scripted, 16, resume=path)
    path.write_text("hello")
    assert refusal(scripted, 16, resume=path).startswith(f"{path}: damaged, or not an .npz file")
    np.savez(path, a=np.zeros(3))
    assert refusal(scripted, 16, resume=path).startswith(f"{path}: ")
    assert "does not exist" in refusal(scripted, 16, resume=tmp_path / "none.npz")
    assert "unknown ending '.csv'" in refusal(scripted, 16, resume=tmp_path / "none.csv")


@pytest.mark.parametrize("which", ["environment", "mdp"])
def test_a_continued_run_draws_new_outcomes(tmp_path: Path, which: str) -> None:
    """The same outcomes, counted twice, would make bounds narrow that are not."""
    path, logs = tmp_path / "kept.npz", [tmp_path / "1.csv", tmp_path / "2.csv"]
    P = np.zeros((3, 1, 3))
    P[0, 0, 1:], P[1, 0, 1], P[2, 0, 2] = 0.5, 1.0, 1.0
    for log, episodes in zip(logs, (50, 100), strict=True):
        if which == "mdp":
            mdp = ucfh.MDP(P, np.array([[0.0], [1.0], [0.0]]), 1)
            ucfh.learn(mdp, 1e-3, seed=1, episodes=episodes, store=path, log=log)
        else:
            ucfh.learn(
                Listed(COIN), 1e-3, horizon=1, seed=1, episodes=episodes, store=path, log=log
            )
    one, two = ([row[4:6] for row in csv_of(log)] for log in logs)
    assert len(one) == len(two) == 51
    assert one != two


@pytest.mark.parametrize("name", ["kept.txt", "nowhere/kept.npz"])
def test_a_store_that_cannot_be_written_is_rejected_at_once(tmp_path: Path, name: str) -> None:
    toy = Scripted(*SHOWN)
    refusal(ucfh.learn, toy, 0.1, horizon=3, episodes=4, store=tmp_path / name)
    assert toy.seeds == []  # nothing was run


def test_states_that_cannot_be_saved_keep_the_result(tmp_path: Path) -> None:
    store = tmp_path / "kept.npz"
    with pytest.raises(ucfh.LearningError, match="cannot be saved") as caught:
        ucfh.learn(
            Listed(COIN), 0.1, horizon=2, episodes=9, store=store,
            encode=lambda seen: frozenset([seen]),
        )  # fmt: skip
    assert caught.value.result.episodes == 9
    assert not store.exists()


# the log


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (lambda: Listed(GAMBLE), {"horizon": 4, "rewards": (-1, 2)}),
        (lambda: Listed(GAMBLE), {"horizon": 3, "rewards": (-1, 2), "segments": True}),
        (lambda: Listed(GAMBLE), {"horizon": 5, "rewards": (-3, 7), "segments": [2, 4]}),
        (lambda: Listed(GAMBLE, {0: 0.5, 2: 0.5}), {"horizon": 1, "rewards": (-1, 2)}),
        (lambda: Listed(COIN), {"horizon": 3, "max_return": 3}),
        (lambda: Scripted(*SHOWN), {"horizon": 3}),
        (lambda: "FrozenLake-v1", {"horizon": 8, "max_return": 1}),
        (lambda: "Blackjack-v1", {"horizon": 4, "rewards": (-1, 1.5)}),
        (lambda: ucfh.make("tutoring"), {"segments": [9]}),
    ],
)
def test_the_log_is_read_to_the_same_counts(
    tmp_path: Path, make: Callable[[], Any], given: dict[str, Any]
) -> None:
    path = tmp_path / "steps.csv"
    found = ucfh.learn(make(), 0.01, seed=3, episodes=60, log=path, **given)
    assert_same_counts(found, path, given)


def assert_same_counts(
    found: ucfh.LearningResult, path: Path, given: dict[str, Any], **more: Any
) -> None:
    """The log has no issues, and gives the counts of learning."""
    options = {key: given[key] for key in ("rewards", "max_return", "segments") if key in given}
    segments = options.pop("segments", ())
    more |= {"time_dependent": True} if segments is True else {"segments": segments}
    log = ucfh.read_log(
        path, horizon=found.horizon, actions=found.world.action_names, **options, **more
    )
    assert log.faults == ()
    assert (log.rows, log.episodes, log.counted) == (found.steps, found.episodes, found.steps)
    assert log.shown is not None

    def name_of(s: int) -> str:
        return "end" if s == 0 else str(log.states.label(s - 1))

    mine = named_counts(found.agent.experience, found.world.name_of)
    its = named_counts(log.shown.experience, name_of)
    assert its.keys() == mine.keys()
    for what, expected in mine.items():
        assert its[what] == expected, what
    known = ucfh.certify(log, delta=0.5)
    assert known.episodes == found.episodes
    assert "there are no states besides" not in " ".join(known.assumed)


def test_a_log_continues_with_its_store(tmp_path: Path) -> None:
    path, store = tmp_path / "steps.csv", tmp_path / "kept.npz"
    given: dict[str, Any] = {"rewards": (-1, 2), "horizon": 4}
    first = ucfh.learn(Listed(GAMBLE), 0.01, episodes=30, log=path, store=store, **given)
    assert_same_counts(first, path, given)
    again = ucfh.learn(Listed(GAMBLE), 0.01, episodes=70, log=path, store=store, **given)
    again.steps += first.steps
    assert_same_counts(again, path, given)


def test_a_log_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    scripted(4, log=path)
    before = path.read_text()
    assert (
        refusal(scripted, 4, log=path) == f"{path} exists: pass --force (force=True) to overwrite"
    )
    assert path.read_text() == before
    scripted(8, log=path, force=True)
    assert len(path.read_text()) > len(before)
    assert "unknown ending '.jsonl' (known: .csv)" in refusal(scripted, 4, log=tmp_path / "a.jsonl")
    assert "does not exist" in refusal(scripted, 4, log=tmp_path / "nowhere" / "a.csv")
    assert refusal(scripted, 4, log=tmp_path).startswith(f"{tmp_path}: unknown ending ''")


def test_rewards_at_the_end_of_their_range_are_in_it(tmp_path: Path) -> None:
    low, high = -2171.5513271689924, -785.2289203053107
    path = tmp_path / "steps.csv"
    given: dict[str, Any] = {"rewards": (low, high), "horizon": 2}
    world = Listed({0: {0: [(0.5, low, 0), (0.5, high, 0)]}})
    found = ucfh.learn(world, 1.0, seed=0, episodes=20, log=path, **given)
    assert_same_counts(found, path, given)


def test_names_that_a_log_takes_for_one(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    given: dict[str, Any] = {"horizon": 2}
    toy = Scripted([step("1"), step("1.0"), step("01", 1.0)], space=spaces.Text(9))
    assert_same_counts(ucfh.learn(toy, 0.1, episodes=9, log=path, **given), path, given)
    for kind, names in (("state", ["1", "1.0"]), ("action", ["a", " a"])):
        named: Any = {f"{kind}_names": names}
        mdp = ucfh.MDP(np.full((2, 2, 2), 0.5), np.eye(2), 2, **named)
        assert refusal(ucfh.learn, mdp, 0.1, episodes=9, log=tmp_path / "a.csv") == (
            f"a log cannot tell the {kind}s {names[0]!r} and {names[1]!r} apart: rename one, or "
            "leave log out"
        )
        assert ucfh.learn(mdp, 0.1, episodes=9).episodes == 9


def test_no_log_of_episodes_that_may_begin_at_the_end(tmp_path: Path) -> None:
    """A log without these episodes would have a wrong start distribution."""
    path, P = tmp_path / "steps.csv", np.eye(2)[:, None]
    mdp = ucfh.MDP(P, np.array([[1.0], [0.0]]), 1, [0.5, 0.5], terminal=[1])
    assert refusal(ucfh.learn, mdp, 1e-3, seed=1, episodes=300, log=path) == (
        "an episode that begins in terminal state 1 leaves no row in a log: leave log out"
    )
    assert not path.exists()
    assert ucfh.learn(mdp, 1e-3, 0.01, seed=1, episodes=300).lower <= 0.5
    certain = ucfh.MDP(P, np.array([[1.0], [0.0]]), 1, [1.0, 0.0], terminal=[1])
    assert_same_counts(ucfh.learn(certain, 0.1, seed=1, episodes=9, log=path), path, {})


def test_a_state_that_is_called_end(tmp_path: Path) -> None:
    P = np.zeros((3, 1, 3))
    P[0, 0, 1:], P[1, 0, 1], P[2, 0, 2] = 0.5, 1.0, 1.0
    for names in (["door", "end", "left"], ["the end", "end", "left"]):
        mdp = ucfh.MDP(P, np.array([[0.0], [1.0], [0.0]]), 3, terminal=[2], state_names=names)
        path = tmp_path / f"{names[0]}.csv"
        assert_same_counts(ucfh.learn(mdp, 0.1, seed=1, episodes=30, log=path), path, {})


# the policy


def test_a_policy_is_written_with_the_names_of_the_environment(tmp_path: Path) -> None:
    toy = Scripted(
        [step("home, or so"), step("end", 1.0), step("a\nb", 0.5), step("x", end=True)],
        space=spaces.Text(20),
        actions=spaces.Discrete(3, start=5),
    )
    found = ucfh.learn(toy, 0.5, horizon=3, episodes=20)
    names = ["home, or so", "end (state 2)", r"'a\nb'"]
    for ending in ("csv", "json"):
        found.policy.write(tmp_path / f"p.{ending}")
    table = csv_of(tmp_path / "p.csv")
    assert table[0] == ["t", "state", "action"]
    expected = [
        [str(t), name, str(5 + found.policy.actions[t, i])]
        for t in range(3)
        for i, name in enumerate(names)
    ]
    assert table[1:] == expected
    listed = json.loads((tmp_path / "p.json").read_text())
    assert (listed["format"], listed["horizon"]) == ("ucfh-policy", 3)
    assert (
        [list(line.items()) for line in listed["policy"]]
        == found.policy.named()
        == [[(name, a) for t, name, a in expected if t == str(at)] for at in range(3)]
    )
    assert refusal(found.policy.write, tmp_path / "p.csv").endswith("to overwrite")
    found.policy.write(tmp_path / "p.csv", force=True)
    assert "unknown ending '.txt'" in refusal(found.policy.write, tmp_path / "p.txt")


def test_a_policy_of_an_mdp_is_read_back(tmp_path: Path) -> None:
    mdp = ucfh.make("tutoring")
    found = ucfh.learn(mdp, 0.5, episodes=300, seed=0, segments=[9])
    assert len(found.states) == mdp.states
    for name in ("p.csv", "p.json"):
        found.policy.write(tmp_path / name)
        pi = ucfh.read_policy(tmp_path / name, mdp)
        order = np.array([int(str(s)) for s in found.states])
        assert pi[:, order].tolist() == found.policy.actions.tolist()
        assert found.lower <= mdp.value(pi) <= mdp.value(mdp.optimal().policy) <= found.upper
