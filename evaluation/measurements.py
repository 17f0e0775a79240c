"""Measurements that several studies share."""

from __future__ import annotations

from math import isinf
from typing import Any

from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.algorithms.ucfh import UCFH
from ucfh.exceptions import InputError
from ucfh.mdp import MDP
from ucfh.problems import make
from ucfh.simulation.result import TOLERANCE
from ucfh.simulation.runner import simulate
from ucfh.theory.bounds import theorem_2
from ucfh.theory.constants import Variant, constants_of

Values = dict[str, Any]


def sizes(mdp: MDP) -> Values:
    """Return S, A, C and H."""
    return {
        "states": mdp.states,
        "actions": mdp.actions,
        "successors": int(mdp.table.lengths[:-1].max()),
        "horizon": mdp.horizon,
    }


def full_run(
    problem: str,
    epsilon: float,
    delta: float,
    variant: Variant = "paper",
    confidence: str = "paper",
    per_step: bool = False,
    m_factor: float = 1.0,
    *,
    seed: int,
) -> Values:
    """Run UCFH until its policy is final.

    With ``per_step``, transitions may depend on t and are counted for each step. With an
    ``m_factor`` other than 1, m is that many times its true value, and no theorem holds.
    """
    mdp = make(problem)
    known = mdp.problem.by_segment() if per_step else mdp.problem
    m = None if m_factor == 1 else m_factor * constants_of(known, epsilon, delta, variant).m
    agent = UCFH(known, epsilon, delta, variant=variant, confidence=confidence, m=m)
    run = simulate(mdp, agent, None, seed)
    mistakes = run.mistakes()
    suboptimal = [row for row in run.rows if row.gap > run.epsilon + TOLERANCE]
    try:
        lower_bound = theorem_2(mdp.states, mdp.actions, mdp.horizon, epsilon, delta)
    except InputError:  # outside the range of Theorem 2
        lower_bound = None
    return {
        **sizes(mdp),
        "episodes": run.episodes,
        "mistakes": None if isinf(mistakes) else int(mistakes),
        "last_mistake": (
            suboptimal[-1].first_episode + suboptimal[-1].episodes if suboptimal else 0
        ),
        "updates": run.updates,
        "bound": run.episode_bound,
        "lower_bound": lower_bound,
        "optimal": run.optimal,
        "gap": max(run.gap, 0.0),
        "off": abs(run.optimistic - run.value),
        "captured": all(row.captured > 0 for row in run.rows),
        "m": agent.constants.m,
        "w_min": agent.constants.w_min,
    }


def certificate(
    problem: str,
    epsilon: float,
    delta: float,
    confidence: str = "tight",
    per_step: bool = False,
    successors: bool = False,
    max_episodes: int = 20_000_000,
    *,
    seed: int,
) -> Values:
    """Run certified UCFH until a certificate; ``successors``: whether they are known."""
    mdp = make(problem)
    known = mdp.problem if successors else mdp.problem.hiding("successors")
    if per_step:
        known = known.by_segment()
    agent = CertifiedUCFH(known, epsilon, delta, confidence=confidence)
    run = simulate(mdp, agent, max_episodes, seed)
    certified = agent.certificate
    return {
        **sizes(mdp),
        "episodes": run.episodes,
        "certified": bool(certified.certified),
        "upper": float(certified.upper),
        "lower": float(certified.lower),
        "optimal": run.optimal,
        "value": float(mdp.value(certified.policy)),
    }
