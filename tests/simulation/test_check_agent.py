"""Agent checks: every kind of issue is found, and none in the built-in agents."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from support.agents import fitting
from ucfh import UCFH, BonusAgent, InputError, check_agent, simulate
from ucfh._kernels.online import Rule
from ucfh.algorithms.registry import AGENTS, make_agent
from ucfh.algorithms.ucbvi import UCBVI
from ucfh.counts import Limits
from ucfh.mdp import Problem
from ucfh.simulation.checker import AgentError, find_issues, small_mdp


def broken(**changes: Any) -> Any:
    """An agent that is right but for some attributes."""
    scale = changes.pop("scale", 1.0)
    cls: Any = type("Broken", (UCBVI,), changes)
    return lambda problem: cls(problem, 0.5, 0.1, 60, scale)


def always(x: Any) -> Any:
    return lambda *_: x


def infinite_optimism(self: Any, V: Any) -> None:
    UCBVI._set_policy(self, V)
    self.optimistic = np.inf


def wrong_action(self: Any) -> None:
    UCBVI._plan(self)
    if self.counts.visits.sum() > 50:
        self.policy = self.policy.copy()
        self.policy[0, 2] = 1  # the state has one action


def restless(self: Any) -> None:
    self.terms[0] *= 1 + 0.5 * np.random.default_rng().random()
    UCBVI._plan(self)


def other_steps(self: Any, steps: Any) -> None:
    UCBVI._count(self, steps)
    UCBVI._count(self, steps)


def forgetful(self: Any) -> dict[str, Any]:
    return {**UCBVI.state(self), "n_visits": 0 * self.counts.visits}


def no_room(self: Any) -> Limits:
    return Limits(np.full(self.problem.table.rows, -1))


ISSUES = [
    (broken(policy=np.zeros((2, 2)), optimistic=0.0, _set_policy=always(None)),
     r"policy has shape \(2, 2\) and type float64: use integers \(4, 3\)"),
    (broken(_set_policy=infinite_optimism), "optimistic = inf: set V~ from the start, or NaN"),
    (broken(limits=always(3)), "limits.. returns an int: return a Limits, or None"),
    (broken(limits=always(Limits(np.zeros(2, np.int64)))), "limits...visits has shape .2,."),
    (broken(limits=no_room), "visits has -1: use 0"),
    (broken(settings=always({"agent": "x", "a": np.ones(2)})), "cannot be written as JSON"),
    (broken(settings=always({"epsilon": 1})), 'settings.. has no "agent"'),
    (broken(state=always({"x": [None, 3]})), "state.. has 'x', which is not an array"),
    (broken(_plan=wrong_action), r"during a run, policy\[0, 2\] = 1: the state has no such action"),
    (broken(_plan=restless, scale=0.01), "two runs with the same seed differ"),
    (broken(state=always({})), "restore.. does not accept what state.. returned"),
    (broken(state=forgetful, rule=Rule(), scale=0.005),
     "restored from state.. it continues differently"),
    (broken(_count=other_steps, scale=1e-3), "follow.. gives a different run than observe"),
]  # fmt: skip


@pytest.mark.parametrize(("make_broken", "message"), ISSUES)
def test_each_issue_is_named(make_broken: Any, message: str) -> None:
    with pytest.raises(AgentError, match=message):
        check_agent(make_broken)


def test_objects_that_are_not_agents() -> None:
    with pytest.raises(AgentError, match="it is an int: derive it from"):
        check_agent(lambda _: 3)  # type: ignore[arg-type, return-value]
    bare: Any = type("Bare", (UCFH,), {"__init__": always(None)})
    with pytest.raises(AgentError, match=r"5 issue\(s\):\n- it has no problem: set it"):
        check_agent(bare)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda n: {"flat": np.where(n == 3, np.nan, 1 / n)},
         "coefficients returns nan for 'flat' at n = 3: return a number"),
        (lambda n: {"flatt": 1 / n},
         r"coefficients: unknown term 'flatt': did you mean 'flat'\? \(known: budget, crowd, "),
        (lambda n: 1 / n, "coefficients returns an array: return a dict, such as {'flat': 1 / n}"),
        (lambda n: n.size, "coefficients returns an int: return a dict, such as {'flat': 1 / n}"),
        (lambda _: {"flat": 0.5},
         "coefficients returns 1 number for 'flat', and n has 1024: return as many"),
        (lambda n: {"flat": 1 / n, "spread": n[:2]},
         "coefficients returns 2 numbers for 'spread', and n has 1024: return as many"),
        (lambda n: {"flat": n / None}, r"it cannot be made \(TypeError: .*, line \d+ of "),
    ],
)  # fmt: skip
def test_issues_of_a_bonus(returned: Any, message: str) -> None:
    """One issue, for a class and for a factory."""
    changes = {"coefficients": lambda _, n: returned(n)}
    cls = type("Broken", (BonusAgent,), changes)
    for agent in (cls, broken(**changes)):
        with pytest.raises(AgentError, match=rf"has 1 issue\(s\):\n- {message}"):
            check_agent(agent)
    (issue,) = find_issues(cls)
    assert re.match(message, issue)


def test_a_bonus_that_fails_only_after_many_visits() -> None:
    """The check does not reach that many visits; a run does."""
    bonus = {"coefficients": lambda _, n: {"flat": np.where(n < 2000, 1 / n, np.nan)}}
    late = type("LateAnswer", (BonusAgent,), bonus)
    check_agent(late)
    with pytest.raises(InputError, match="coefficients returns nan for 'flat' at n = 2000: return"):
        simulate("chain:n=3", late, episodes=2000)


def test_a_class_without_a_name_has_its_own() -> None:
    """In small letters; names that are stated are inherited."""
    cls: Any = type("Hopeful", (BonusAgent,), {"coefficients": lambda _, n: {"flat": 1 / n}})
    below: list[Any] = [type("Other", (parent,), {}) for parent in (cls, UCBVI)]
    assert [x.name for x in (cls, *below)] == ["hopeful", "other", "ucbvi-ch"]
    check_agent(cls)
    assert simulate("chain:n=3", cls, episodes=5).about["agent"] == "hopeful"


def test_an_error_in_a_run_is_an_issue() -> None:
    with pytest.raises(
        AgentError, match=r"a run of it fails \(KeyError: 7, line \d+ of test_check"
    ):
        check_agent(broken(observe=lambda *_: dict[int, int]()[7]))


@pytest.mark.slow
@pytest.mark.parametrize("name", AGENTS)
def test_built_in_agents_pass(name: str) -> None:
    world = fitting(name) if name in ("ucrl-gamma", "eprl") else small_mdp()

    def make_one(_: Problem) -> Any:
        return make_agent(name, world, 0.5, 0.1, 60)

    check_agent(make_one, world)
