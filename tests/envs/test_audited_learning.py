"""Assumption checks during learning: violations are found, without false alarms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucfh
from support.environments import Listed

gymnasium = pytest.importorskip("gymnasium")

COIN: dict[Any, Any] = {s: {a: [(0.5, 0.0, 0), (0.5, 1.0, 1)] for a in (0, 1)} for s in (0, 1)}
"""Two states and two actions, none of which changes anything."""


class Hidden(Listed):
    """The coin depends on the previous action, which no state shows."""

    def __init__(self) -> None:
        super().__init__(COIN)
        self.before = 0

    def reset(self, **given: Any) -> Any:
        self.before = 0
        return super().reset(**given)

    def step(self, action: Any) -> Any:
        p = 0.9 if self.before else 0.1
        self.before = int(action)
        self.s = int(self.np_random.random() < p)
        return self.s, float(self.s), False, False, {}


class Drifting(Listed):
    """A coin that turns after 300 episodes."""

    episodes = 0

    def reset(self, **given: Any) -> Any:
        self.episodes += 1
        return super().reset(**given)

    def step(self, action: Any) -> Any:
        del action
        self.s = int(self.np_random.random() < (0.2 if self.episodes < 300 else 0.8))
        return self.s, float(self.s), False, False, {}


def learn(env: Any, episodes: int, **given: Any) -> ucfh.LearningResult:
    asked = {"horizon": 4, "epsilon": 0.01, "seed": 0, **given}
    return ucfh.learn(env, episodes=episodes, **asked)


@pytest.mark.parametrize(
    ("env", "name", "word"),
    [(Hidden(), "memory", "previous"), (Drifting(COIN), "drift", "episode")],
)
def test_violated_assumptions_are_not_certified(env: Any, name: str, word: str) -> None:
    found = learn(env, 3000)
    known = found.certificate
    assert found.episodes < 3000
    assert found.refuted
    assert known.refuted
    assert not known.certified
    assert name in [finding.name for finding in known.findings]
    assert word in " ".join(x.remedy for x in known.findings if x.name == name)
    assert "refuted" in repr(known)


def test_no_false_alarm() -> None:
    found = learn(Listed(COIN), 1000)
    report = found.audited
    assert report is not None
    assert report.findings == ()
    assert report.episodes == found.episodes == 1000
    assert report.steps == 4000
    assert not found.refuted


def test_the_audit_continues_from_a_store(tmp_path: Path) -> None:
    """A coin that turns is found although learning was stopped before it did."""
    path = tmp_path / "kept.npz"
    env = Drifting(COIN)
    first = learn(env, 250, store=path)
    assert first.audit is not None
    again = learn(env, 250, store=path)  # nothing left to do
    assert again.audit is not None
    for name, array in first.audit.state().items():
        np.testing.assert_array_equal(again.audit.state()[name], array, err_msg=name)
    found = learn(env, 3000, store=path)
    assert "drift" in [finding.name for finding in found.certificate.findings]
    assert learn(env, 5000, store=path).episodes == found.episodes  # it is refuted for good


def test_a_simulated_problem_needs_no_audit() -> None:
    found = ucfh.learn(ucfh.make("chain:n=3,horizon=3"), 0.5, seed=0)
    assert found.audit is None
    assert found.audited is None
    assert not found.refuted
