"""Agents by name: all can be made, say where they come from, and refuse what does not fit."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest

from support.agents import fitting
from ucfh import InputError, make, make_agent
from ucfh.algorithms.registry import (
    AGENTS,
    KINDS,
    agent_class,
    describe_parameters,
    parameters_of,
)


def test_ucfh_has_no_parameter_stop() -> None:
    mdp = make("chain:n=3")
    with pytest.raises(InputError, match=r"for stop='certificate' use ucfh.CertifiedUCFH"):
        make_agent("ucfh:stop=certificate", mdp, 0.5, 0.1, 10)
    assert "stop" not in parameters_of(agent_class("ucfh"))


@pytest.mark.parametrize("name", AGENTS)
def test_each_says_what_it_is(name: str) -> None:
    cls = agent_class(name)
    assert cls.name == name
    for text in (cls.reference, cls.setting, cls.guarantee):
        assert text
        assert "\n" not in text
    assert cls.__doc__


def test_parameters_follow_a_colon() -> None:
    mdp = make("chain:n=3")
    assert make_agent("psrl:prior=2", mdp, 0.5, 0.1, 10).settings()["prior"] == 2.0
    made = make_agent("opsrl:J=3,kappa=2", mdp, 0.5, 0.1, 10).settings()
    assert (made["J"], made["kappa"]) == (3, 2.0)
    made = make_agent("certified-ucfh:confidence=kt", mdp, 0.5, 0.1, 10).settings()
    assert (made["confidence"], made["stop"]) == ("kt", "certificate")
    assert parameters_of(agent_class("opsrl")) == {"J": 8, "kappa": 1.0, "n0": 1.0, "r0": 1.0}


@pytest.mark.parametrize("name", AGENTS)
def test_each_parameter_is_described(name: str) -> None:
    described = describe_parameters(agent_class(name))
    assert {x.name: x.default for x in described} == parameters_of(agent_class(name))
    assert all(x.kind in KINDS.values() and x.words != "not described" for x in described)


def test_none_is_said_where_it_is_allowed() -> None:
    mdp = make("chain:n=3")
    assert make_agent("certified-ucfh:stop=none", mdp, 0.5, 0.1).settings()["stop"] is None
    with pytest.raises(InputError, match="J of opsrl is 'none': it must be a whole number"):
        make_agent("opsrl:J=none", mdp, 0.5, 0.1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ucbv-ch", "unknown agent 'ucbv-ch': did you mean 'ucbvi-ch'"),
        ("psrl:priors=1", "unknown parameter of psrl 'priors': did you mean 'prior'"),
        ("eqo:lambda=2", "eqo has no parameters: leave out 'lambda'"),
        ("opsrl:J=many", "J of opsrl is 'many': it must be a whole number"),
        ("opsrl:kappa=x", "kappa of opsrl is 'x': it must be a number"),
        ("psrl:prior", "prior of psrl is ''"),
    ],
)
def test_bad_names(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_agent(name, make("chain:n=3"), 0.5, 0.1, 10)


def test_scale_goes_to_those_that_have_one() -> None:
    mdp = make("chain:n=3")
    assert make_agent("ucbvi-ch", mdp, 0.5, 0.1, 10, scale=0.1).scale == 0.1
    assert make_agent("psrl", mdp, 0.5, 0.1, 10, scale=0.1).scale == 1.0


WRONG = {"epsilon": 0, "delta": 2, "episodes": 0, "scale": -1.0, "seed": -1}


@pytest.mark.parametrize("name", AGENTS)
def test_wrong_arguments_are_refused(name: str) -> None:
    mdp, accepted = fitting(name), signature(agent_class(name).__init__).parameters
    for key in WRONG.keys() & accepted.keys():
        given: dict[str, Any] = {"epsilon": 0.5, "delta": 0.1, "episodes": 9, key: WRONG[key]}
        with pytest.raises(InputError, match=key):
            make_agent(name, mdp, **given)


LEARN_REWARDS = {"ucfh", "certified-ucfh", "eprl", "fiechter", "rf-ucrl", "rf-express", "optimal"}


@pytest.mark.parametrize("name", sorted(AGENTS.keys() - LEARN_REWARDS))
def test_unknown_rewards_are_refused(name: str) -> None:
    mdp = fitting(name)
    with pytest.raises(InputError, match=f"{name} needs known rewards.*ucfh"):
        make_agent(name, mdp, 0.5, 0.1, 10, problem=mdp.problem.hiding("rewards"))
