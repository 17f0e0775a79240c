"""Measures against the public functions that they stand for."""

from __future__ import annotations

import json
from math import isinf
from typing import Any, Literal

import pytest

from ucfh import (
    UCFH,
    InputError,
    hard_class_floor,
    least_episodes,
    make,
    make_agent,
    simulate,
    verify,
)
from ucfh.agents.certified import CertifiedUCFH
from ucfh.experiments.measures import MEASURES
from ucfh.instruments import knownness, weights_by_row

LIFETIME, CERTIFICATE, LEARNER = (MEASURES[x] for x in ("lifetime", "certificate", "learner"))


@pytest.mark.parametrize("variant", ["paper", "corrected"])
def test_lifetime_is_a_simulated_lifetime(variant: Literal["paper", "corrected"]) -> None:
    name = "chain:n=4,horizon=4"
    values = LIFETIME(name, 0.2, 0.1, variant, "kl", seed=5)
    mdp = make(name)
    run = simulate(mdp, UCFH(mdp.problem, 0.2, 0.1, variant=variant, confidence="kl"), seed=5)
    assert values["mistakes"] == run.mistakes()
    assert values["episodes"] == run.episodes
    assert values["updates"] == run.updates
    assert values["bound"] == run.episode_bound
    assert values["captured"] is True
    assert values["lower_bound"] is None
    bad = [row for row in run.rows if row.gap > 0.2 + 1e-9]
    assert values["last_mistake"] == bad[-1].first_episode + bad[-1].episodes
    assert [values[x] for x in ("states", "actions", "successors", "horizon")] == [4, 2, 2, 4]


def test_lifetime_with_less_of_m_has_no_bound() -> None:
    values = LIFETIME("chain:n=3,horizon=3", 0.5, 0.1, m_factor=1e-4, seed=0)
    mdp = make("chain:n=3,horizon=3")
    true = UCFH(mdp.problem, 0.5, 0.1)
    assert values["bound"] is None
    assert values["m"] == pytest.approx(1e-4 * true.constants.m, rel=1e-12)


def test_lifetime_by_stage_has_the_constants_of_stages() -> None:
    mdp = make("chain:n=3,horizon=3")
    values = LIFETIME("chain:n=3,horizon=3", 0.5, 0.1, stages=True, seed=0)
    assert values["bound"] == UCFH(mdp.problem.by_stage(), 0.5, 0.1).episode_bound
    assert values["bound"] > LIFETIME("chain:n=3,horizon=3", 0.5, 0.1, seed=0)["bound"]


def test_lifetime_knows_where_theorem_2_is_valid() -> None:
    name = "hard:n=1,actions=2,horizon=3,epsilon=0.000028"
    values = LIFETIME(name, 0.000028, 0.0001, seed=0)
    assert 0 < values["lower_bound"] < values["mistakes"] < values["bound"]


@pytest.mark.parametrize("stages", [False, True])
def test_certificate_is_that_of_a_run(stages: bool) -> None:
    name = "chain:n=3,horizon=3"
    values = CERTIFICATE(name, 0.5, 0.1, "kt", stages, seed=3)
    mdp = make(name)
    told = mdp.problem.hiding("successors")
    told = told.by_stage() if stages else told
    run = simulate(mdp, CertifiedUCFH(told, 0.5, 0.1, confidence="kt"), seed=3)
    assert run.certificate is not None
    assert values["episodes"] == run.episodes
    assert (values["upper"], values["lower"]) == (run.certificate.upper, run.certificate.lower)
    assert values["certified"] is True
    assert values["lower"] <= values["value"] <= values["optimal"] <= values["upper"]


def test_certificate_that_is_not_reached() -> None:
    values = CERTIFICATE("chain:n=5", 0.01, 0.1, most=50, seed=0)
    assert (values["certified"], values["episodes"]) == (False, 50)


def test_learner_is_a_learner_of_the_registry() -> None:
    mdp = make("riverswim:n=4,horizon=6")
    values = LEARNER("riverswim:n=4,horizon=6", "psrl", 500, 0.1, 0.1, seed=7)
    run = simulate(mdp, make_agent("psrl", mdp, 0.1, 0.1, 500, 7), 500, 7)
    assert values["regret"] == pytest.approx(run.regret, rel=1e-12)
    assert values["mistakes"] == run.mistakes(0.1)
    assert len(values["after"]) == len(values["regrets"]) <= 60
    assert values["regrets"] == sorted(values["regrets"])
    with pytest.raises(InputError, match="two successors"):
        LEARNER("riverswim:n=4,horizon=6", "ucrl-gamma", 500, 0.1, 0.1, seed=7)


def test_stopping_learners_stop() -> None:
    name = "chain:n=3,horizon=3"
    values = MEASURES["stopping"](name, "fiechter", 0.5, 0.1, seed=1)
    assert values["certified"] is True
    assert values["optimal"] - values["value"] <= 0.5
    short = MEASURES["stopping"](name, "fiechter", 0.5, 0.1, values["episodes"] - 1, seed=1)
    assert (short["certified"], short["episodes"]) == (False, values["episodes"] - 1)


def test_stopping_by_samples() -> None:
    name = "chain:n=3,horizon=3"
    values = MEASURES["stopping"](name, "indirect", 0.5, 0.1, seed=1)
    wants = make_agent("indirect", make(name), 0.5, 0.1).wants
    assert wants is not None
    assert (values["certified"], values["episodes"]) == (True, 0)
    assert values["samples"] == wants.sum() > 0
    assert values["optimal"] - values["value"] <= 0.5


def test_stopping_with_hidden_rewards() -> None:
    """Those of a learner that was told none, on rewards that are paid as 0 or 1."""
    name = "chain:n=3,horizon=3,slip=0"
    values = MEASURES["stopping"](name, "certified-ucfh", 0.5, 0.1, rewards="hidden", seed=1)
    mdp = make(name)
    agent = CertifiedUCFH(mdp.problem.hiding("rewards"), 0.5, 0.1)
    run = simulate(mdp.noisy(), agent, 10**6, 1)
    assert (values["episodes"], values["value"]) == (run.episodes, run.value)
    told = MEASURES["stopping"](name, "certified-ucfh", 0.5, 0.1, seed=1)
    assert told["episodes"] < values["episodes"]


def test_floor_is_that_of_the_public_functions() -> None:
    name = "hard:n=2,actions=2,horizon=4,gap=0.2,bias=0.15"
    values = MEASURES["floor"](name, 0.04, 0.1)
    assert values["floor"] == least_episodes(name, 0.04, 0.1).episodes > 0
    assert values["class_floor"] == hard_class_floor(2, 2, 4, 0.04, 0.1, 0.2, 0.15) > 0
    assert values["bound"] == UCFH(make(name).problem, 0.04, 0.1).episode_bound
    default = MEASURES["floor"]("hard:n=2,horizon=3", 0.9, 0.1)
    assert default["class_floor"] == hard_class_floor(2, 4, 3, 0.9, 0.1)
    by_proof = MEASURES["floor"]("hard:n=1,actions=2,horizon=3,epsilon=0.000028", 0.5, 0.1)
    assert by_proof["class_floor"] is None


def test_floor_with_hidden_rewards() -> None:
    name = "chain:n=2,horizon=2,slip=0"
    mdp = make(name)
    values = MEASURES["floor"](name, 0.2, 0.1, "hidden")
    hidden = mdp.problem.hiding("rewards")
    assert values["floor"] == least_episodes(mdp.noisy(), 0.2, 0.1, hidden).episodes > 0
    assert values["bound"] is values["class_floor"] is None
    assert MEASURES["floor"](name, 0.2, 0.1)["floor"] == 0  # nothing is random, and all is told


def test_claims_are_those_of_verify() -> None:
    values = MEASURES["claims"]("chain:n=3,horizon=3", 0.5, 0.1, runs=2, seed=1)
    lines = verify(make("chain:n=3,horizon=3"), 0.5, 0.1, runs=2, seed=1)
    assert [(x["claim"], x["measured"]) for x in values["lines"]] == [
        (line.claim, line.measured) for line in lines
    ]


def test_knownness_begins_with_nothing_known_and_ends_with_the_run() -> None:
    name = "chain:n=3,horizon=3"
    mdp = make(name)
    values = MEASURES["knownness"](name, 0.5, 0.1, seed=2)
    agent = UCFH(mdp.problem, 0.5, 0.1)
    c = agent.constants
    before = knownness(weights_by_row(mdp, agent.policy), agent.n.visits[:-1], c.m, c.w_min)
    run = simulate(mdp, agent, seed=2)
    after = knownness(weights_by_row(mdp, agent.policy), agent.n.visits[:-1], c.m, c.w_min)
    for moment, table in ((values["moments"][0], before), (values["moments"][-1], after)):
        assert {(k, i): size for k, i, size in moment["cells"]} == table.cells
        assert moment["balanced"] == table.balanced
    phases = values["phases"]
    assert {len(column) for column in phases.values()} == {len(run.rows)}
    assert phases["first_episode"] == [row.first_episode for row in run.rows]
    assert phases["mismatch"] == [abs(row.optimistic - row.value) for row in run.rows]
    assert len(values["moments"]) <= 6
    unbalanced = [k for k, fine in enumerate(phases["balanced"]) if not fine]
    shown = [moment["episode"] for moment in values["moments"]]
    assert phases["first_episode"][unbalanced[-1]] in shown
    assert phases["first_episode"][unbalanced[-1] + 1] in shown


ARGUMENTS = {"problem": "chain:n=3,horizon=3", "epsilon": 0.5, "delta": 0.1}
OTHERS: dict[str, dict[str, Any]] = {
    "lifetime": ARGUMENTS,
    "certificate": ARGUMENTS,
    "learner": {**ARGUMENTS, "agent": "ucbvi-bf", "episodes": 50},
    "stopping": {**ARGUMENTS, "epsilon": 0.3, "agent": "bpi-ucrl"},
    "floor": ARGUMENTS,
    "stationary": {"problem": "chain:n=3,horizon=3"},
    "claims": {**ARGUMENTS, "runs": 1},
    "knownness": ARGUMENTS,
}


@pytest.mark.parametrize("name", list(MEASURES))
def test_values_are_json_and_the_same_for_the_same_seed(name: str) -> None:
    exact = name in ("stationary", "floor")
    seed: dict[str, Any] = {} if exact else {"seed": 11}
    first, again = (
        json.dumps(MEASURES[name](**OTHERS[name], **seed), allow_nan=False) for _ in range(2)
    )
    assert first == again
    if not exact and name != "claims":
        other = json.dumps(MEASURES[name](**OTHERS[name], seed=12), allow_nan=False)
        assert other != first


def test_endless_mistakes_are_none() -> None:
    """With next to no m, nothing is updated any more before it is known."""
    name = "hard:n=2,actions=3,horizon=4,gap=0.01,hypothesis=1-2"
    values = LIFETIME(name, 0.001, 0.1, m_factor=1e-13, seed=0)
    assert values["mistakes"] is None
    mdp = make(name)
    agent = UCFH(mdp.problem, 0.001, 0.1, m=values["m"])
    assert isinf(simulate(mdp, agent, seed=0).mistakes())
