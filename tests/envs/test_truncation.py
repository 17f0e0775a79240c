"""Environments that last longer than the horizon, and errors before the first episode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ucfh
from support.command_line import run
from support.environments import Scripted, step
from ucfh.envs.learning import LearningError

LONG = [step(0), step(1), step(2), step(3), step(4)]
SHORT = [step(0), step(1, end=True)]


def test_episodes_that_are_cut_at_the_horizon_are_counted(tmp_path: Path) -> None:
    env = Scripted(LONG, SHORT, LONG, SHORT, LONG)
    found = ucfh.learn(env, 0.5, horizon=2, episodes=50)
    assert found.truncated == 30
    assert ucfh.learn(Scripted(SHORT), 0.5, horizon=2, episodes=50).truncated == 0
    # and kept when learning is continued
    file = tmp_path / "learned.npz"
    found.save(file)
    again = ucfh.learn(Scripted(LONG), 0.5, horizon=2, episodes=60, resume=file)
    assert again.truncated == 40


def test_an_error_at_the_first_reset_writes_nothing(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("kept.npz", "log.csv")}
    with pytest.raises(LearningError) as caught:
        ucfh.learn(
            Scripted([RuntimeError("no device")]), 0.5, horizon=2,
            store=files["kept.npz"], log=files["log.csv"],
        )  # fmt: skip
    assert caught.value.result.episodes == 0
    assert not any(file.exists() for file in files.values())


MINE = """
import gymnasium


class Mine(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        if {fails}:
            raise RuntimeError("no device")
        return 0, {{}}

    def step(self, action):
        return 1, 0.0, False, False, {{}}


gymnasium.register("mine/{name}-v0", entry_point=Mine)
"""


def _write(folder: Path, name: str, fails: bool) -> str:
    (folder / f"{name}.py").write_text(MINE.format(name=name, fails=fails))
    return f"env:{name}:mine/{name}-v0,horizon=2"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder that Python does not search for modules, as with the command ucfh."""
    import sys

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [x for x in sys.path if x not in ("", str(tmp_path))])
    return tmp_path


def test_the_current_folder_is_searched(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = _write(elsewhere, "works_here", fails=False)
    code, out, _ = run(capsys, "learn", env, "--epsilon", "0.9", "--episodes", "20", "--json")
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    assert (found["episodes"], found["truncated"]) == (20, 20)


def test_the_command_writes_nothing_either(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = _write(elsewhere, "fails_here", fails=True)
    files = ["--policy", "p.csv", "--save", "s.npz", "--log", "l.csv", "--plot", "f.png"]
    code, _, err = run(capsys, "learn", env, "--epsilon", "0.9", *files)
    assert code == 2
    assert "no device" in err
    assert [x.name for x in elsewhere.iterdir() if x.suffix in (".csv", ".npz", ".png")] == []


def test_a_module_that_does_not_import(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (elsewhere / "broken_here.py").write_text("raise KeyError('x')")
    code, _, err = run(capsys, "learn", "env:broken_here:mine/X-v0,horizon=2")
    assert code == 2
    assert "broken_here" in err
    assert "KeyError" in err


def test_a_missing_mask_is_an_error_with_the_keys() -> None:
    shown = (0, 0.0, False, False, {"admissible_actions": [0], "day": 3})
    with pytest.raises(LearningError, match=r"admissible_actions, day"):
        ucfh.learn(Scripted([shown]), 0.5, horizon=2, masks=True)


def test_a_largest_return_that_an_episode_exceeds() -> None:
    paid = [step(0), step(1, 1.0), step(2, 1.0, end=True)]
    with pytest.raises(LearningError, match=r"max_return = 1\.5 .* 2\. "):
        ucfh.learn(Scripted(paid), 0.5, horizon=2, max_return=1.5, episodes=50)
    found = ucfh.learn(Scripted(paid), 0.5, horizon=2, max_return=2, episodes=50)
    assert found.episodes == 50
    # a loss that is still to come may make up for it
    mixed = [step(0), step(1, 1.0), step(2, -1.0, end=True)]
    ucfh.learn(Scripted(mixed), 0.5, horizon=2, max_return=0.5, rewards=(-1, 1), episodes=50)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"horizon": 0}, "horizon"),
        ({"max_return": -1}, "max_return"),
        ({"rewards": (1, 0)}, "rewards"),
    ],
)
def test_bad_declarations_are_named(given: dict[str, Any], name: str) -> None:
    with pytest.raises(ucfh.InputError, match=name):
        ucfh.learn(Scripted(SHORT), 0.5, **{"horizon": 2, **given})
