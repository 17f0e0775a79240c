"""Bayes-UCBVI: the prior and the orders of its theorem, those of its experiments, and bad choices.

What it plans and promises is tested with the other agents that plan after every episode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ucfh import InputError, Problem, make, simulate
from ucfh.algorithms.bayes_ucbvi import BayesUCBVI

A, B, C = (5, 2, 5), (20, 3, 5), (6, 2, 12)  # (S, A, H), delta = 0.1, K = 1000


def new_agent(shape: tuple[int, int, int], segmented: bool = False, **choices: Any) -> BayesUCBVI:
    S, actions, H = shape
    problem = Problem(S, actions, H, np.zeros((S, actions)), initial=0)
    return BayesUCBVI(problem.by_segment() if segmented else problem, 0.5, 0.1, 1000, **choices)


def test_prior_by_hand() -> None:
    """n0, r0 and 1 - kappa, computed apart; a scale of 1.1 would be noticed."""
    agents = [new_agent(x) for x in (A, B, C)]
    assert [x.rule.apart for x in agents] == [839, 839, 854]
    assert [x.rule.pays for x in agents] == [2, 2, 2]
    assert new_agent(A, segmented=True).rule.apart == 813
    assert new_agent(A, scale=1.1).rule.apart == pytest.approx(1.1 * 839)
    tail = agents[0].tail(np.array([1.0, 100]))
    assert tail == pytest.approx([9.77111746567e-13, 2.748782434374e-18], rel=1e-10)
    tail = agents[2].tail(np.array([100.0]))
    assert tail == pytest.approx([9.320167242259e-19], rel=1e-10)


def test_parameters_of_the_experiments() -> None:
    """They find the best policy within few episodes, where the theorem's take thousands."""
    agent = new_agent(A, kappa=0.85, n0=1, r0=1)
    assert agent.tail(np.ones(3)) == pytest.approx([0.15] * 3)
    assert (agent.rule.apart, agent.rule.pays) == (1, 1)
    assert [agent.settings()[x] for x in ("kappa", "n0", "r0")] == [0.85, 1, 1]
    mdp = make("chain:n=3,horizon=3")
    own = BayesUCBVI(mdp.problem, 0.1, 0.1, 1000, kappa=0.85, n0=1, r0=1)
    assert simulate(mdp, own, episodes=1000).gap == pytest.approx(0, abs=1e-12)


def test_an_n0_for_which_there_is_no_quantile() -> None:
    problem = make("chain:n=2,horizon=2").problem
    with pytest.raises(InputError, match=r"n0 = 0\.0001 is so small"):
        BayesUCBVI(problem, 0.1, 0.1, 1000, n0=1e-4)


@pytest.mark.parametrize(
    "wrong", [{"kappa": 0.5}, {"kappa": 1.0}, {"n0": 0}, {"n0": np.inf}, {"r0": 0.9}]
)
def test_bad_choices(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(wrong))} = .* must be"):
        new_agent(A, **wrong)
