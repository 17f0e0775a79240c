"""A name stands for a problem or an agent: what it gives is what the object gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ucfh

NAME = "chain:n=3"
MDP3 = ucfh.make(NAME)


def policy(world: Any) -> Any:
    ucfh.write_policy(MDP3.optimal().policy, world, "policy.csv", force=True)
    return ucfh.read_policy("policy.csv", world).tolist()


def logged(world: Any) -> Any:
    ucfh.write_log(world, "log.csv", 50, force=True)
    return (
        ucfh.certify("log.csv", world).upper,
        ucfh.read_log("log.csv", world).counts.visits.tolist(),
        str(ucfh.audit("log.csv", world)),
    )


def learned(world: Any) -> Any:
    return ucfh.learn(world, 0.5, segments=True, episodes=20, seed=0).certificate.upper


@pytest.mark.parametrize(
    "result",
    [
        lambda x: ucfh.UCFH(x, 0.5, 0.1).optimistic,
        lambda x: ucfh.CertifiedUCFH(x, 0.5, 0.1).optimistic,
        lambda x: ucfh.Counts.zero(x).visits.tolist(),
        lambda x: ucfh.make_agent("ucbvi-ch", x, 0.5, 0.1, 10).optimistic,
        lambda x: ucfh.simulate(x, "psrl", 20).regret,
        lambda x: ucfh.compare(x, ["psrl"], 20, 1, workers=1).outcomes[0].regret,
        lambda x: ucfh.verify(x, 0.9, 0.5, runs=1),
        policy,
        logged,
        learned,
    ],
)
def test_of_a_problem(
    result: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ucfh.write_model(MDP3, "model.json")
    expected = result(MDP3)
    assert result(NAME) == expected
    assert result("model.json") == expected


def test_of_a_agent() -> None:
    mdp = MDP3
    made = ucfh.make_agent("psrl", mdp, 0.1, 0.1, 50, seed=4)
    runs = [ucfh.simulate(mdp, x, 50, seed=4) for x in (made, "psrl", ucfh.agent_class("psrl"))]
    assert len({run.regret for run in runs}) == 1
    assert runs[0].about == runs[1].about == runs[2].about
    ucfh.check_agent("psrl")
    ucfh.check_agent("psrl", NAME)


def test_a_agent_that_needs_to_know_how_many_episodes() -> None:
    """Without a number, a very large one is assumed."""
    few, many = (ucfh.make_agent("ucbvi-ch", MDP3, 0.5, 0.1, n).settings() for n in (5, None))
    assert (few["episodes"], many["episodes"]) == (5, 10**9)
