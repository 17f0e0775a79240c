"""Agents by name: all can be made, say where they come from, and refuse what does not fit."""

from __future__ import annotations

import pytest

from support.agents import fitting
from ucfh import InputError, make, make_agent, simulate
from ucfh.algorithms.registry import AGENTS, agent_class, describe_parameters, parameters_of

NAMED = [
    "certified-ucfh",
    "rmax", "kakade", "mbie", "mbie-eb", "delayed-q", "ucrl2", "ucrl-gamma", "mormax", "beb",
    "auer-ortner", "fiechter", "reveliotis", "phased-q", "indirect", "azar", "psrl", "ucbvi-ch",
    "ucbvi-bf", "ubev", "orlc", "euler", "mvp", "ucb-h", "ucb-b", "bpi-ucbvi", "opsrl",
    "bpi-ucrl", "rf-ucrl", "rf-express", "eqo", "rlsvi", "bayes-ucbvi", "q-early-settled", "eprl",
    "epsilon-greedy", "uniform", "optimal", "ucfh",
]  # fmt: skip


def test_all_that_are_named_are_here() -> None:
    assert sorted(AGENTS) == sorted(NAMED)


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


@pytest.mark.parametrize("name", AGENTS)
def test_each_runs(name: str) -> None:
    """A few episodes, twice with the same seed: the same policies, worth at most the optimum."""
    mdp = fitting(name)

    def values() -> list[tuple[int, float]]:
        agent = make_agent(name, mdp, 0.5, 0.1, 50, seed=3)
        run = simulate(mdp, agent, episodes=50, seed=1)
        assert run.final or run.episodes == 50
        assert all(-1e-12 <= row.gap <= mdp.horizon for row in run.rows)
        return [(row.first_episode, row.value) for row in run.rows]

    assert values() == values()


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
    """What it does, and what it accepts: values in quotation marks, or a range."""
    for x in describe_parameters(agent_class(name)):
        assert x.kind in ("a whole number", "a number", "text")
        assert x.words.endswith("."), x
        accepts = ('"',) if x.kind == "text" else ("at least", "positive", "between", " in (0, 1]")
        assert any(words in x.words for words in accepts), x


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
    with pytest.raises(InputError, match="scale = -1 must be a positive number"):
        make_agent("ucbvi-ch", mdp, 0.5, 0.1, 10, scale=-1)
