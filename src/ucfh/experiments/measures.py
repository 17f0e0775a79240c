"""What a job may do: plain functions of named arguments that return numbers by name.

The name of a measure, its arguments, their kinds and defaults are those of the function; a spec
is checked against them. All randomness comes from ``seed``; a measure without one is run once.
What is returned is kept as JSON: Python's numbers, texts, lists and dicts, and no timings, so that
the same job gives the same text everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from inspect import signature
from math import isinf
from typing import Annotated, Any, Literal

import numpy as np

from ucfh.agents.certified import CertifiedUCFH
from ucfh.agents.registry import make_agent, read_name
from ucfh.agents.ucfh import UCFH
from ucfh.comparison.result import Failure, grid_of
from ucfh.comparison.runner import SeedRun, makers, run_job
from ucfh.confidence.intervals import choose_set
from ucfh.errors import InputError, check_count, check_unit
from ucfh.instruments import Knownness, best_stationary, weights_by_row
from ucfh.instruments import knownness as table_of
from ucfh.problem import MDP, Problem
from ucfh.problems import make
from ucfh.problems._text import read_arguments
from ucfh.problems.paper import hard
from ucfh.simulation.run import TOLERANCE, Run
from ucfh.simulation.simulate import simulate
from ucfh.theory.bounds import theorem_2
from ucfh.theory.constants import Variant, constants_of
from ucfh.theory.floor import hard_class_floor, least_episodes
from ucfh.verification import verify

Values = dict[str, Any]
CheckedProblem = Annotated[str, make]
"""A name is annotated with the function that refuses unknown ones, a number with one that is given
its own name first."""

CheckedEpsilon = Annotated[float, check_unit]
CheckedDelta = Annotated[float, check_unit]
Count = Annotated[int, check_count]
Set = Annotated[str, choose_set]
CheckedAgent = Annotated[str, read_name]


def lifetime(
    problem: CheckedProblem,
    epsilon: CheckedEpsilon,
    delta: CheckedDelta,
    variant: Variant = "paper",
    confidence: Set = "paper",
    stages: bool = False,
    m_factor: float = 1.0,
    *,
    seed: int,
) -> Values:
    """UCFH until its policy can never change again.

    With ``stages``, it is told that transitions may depend on t, and counts by stage. With another
    ``m_factor`` than 1, m is that many times its true value, and no theorem holds.
    """
    mdp = make(problem)
    told = mdp.problem.by_stage() if stages else mdp.problem
    m = None if m_factor == 1 else m_factor * constants_of(told, epsilon, delta, variant).m
    agent = UCFH(told, epsilon, delta, variant=variant, confidence=confidence, m=m)
    run = simulate(mdp, agent, None, seed)
    mistakes = run.mistakes()
    return {
        **sizes(mdp),
        "episodes": run.episodes,
        "mistakes": None if isinf(mistakes) else int(mistakes),
        "last_mistake": _last_mistake(run),
        "updates": run.updates,
        "bound": run.episode_bound,
        "lower_bound": _lower_bound(mdp, epsilon, delta),
        "optimal": run.optimal,
        "gap": max(run.gap, 0.0),
        "off": abs(run.optimistic - run.value),
        "captured": all(row.captured > 0 for row in run.rows),
        "m": agent.constants.m,
        "w_min": agent.constants.w_min,
    }


def sizes(mdp: MDP) -> Values:
    """S, A, C and H."""
    return {
        "states": mdp.states,
        "actions": mdp.actions,
        "successors": int(mdp.table.lengths[:-1].max()),
        "horizon": mdp.horizon,
    }


def _last_mistake(run: Run) -> int:
    """The last episode, counted from 1, that is worse than epsilon; 0 if there is none."""
    worse = [row for row in run.rows if row.gap > run.epsilon + TOLERANCE]
    return worse[-1].first_episode + worse[-1].episodes if worse else 0


def _lower_bound(mdp: MDP, epsilon: float, delta: float) -> float | None:
    """Theorem 2, where it is valid."""
    try:
        return theorem_2(mdp.states, mdp.actions, mdp.horizon, epsilon, delta)
    except InputError:
        return None


def certificate(
    problem: CheckedProblem,
    epsilon: CheckedEpsilon,
    delta: CheckedDelta,
    confidence: Literal["paper", "kl", "l1", "kl-ball", "kt", "kt-ball", "best"] = "best",
    stages: bool = False,
    successors: bool = False,
    most: Count = 20_000_000,
    *,
    seed: int,
) -> Values:
    """Learning until a certificate; ``successors``: whether the learner is told them."""
    mdp = make(problem)
    told = mdp.problem if successors else mdp.problem.hiding("successors")
    if stages:
        told = told.by_stage()
    agent = CertifiedUCFH(told, epsilon, delta, confidence=confidence)
    run = simulate(mdp, agent, most, seed)
    known = agent.certificate
    return {
        **sizes(mdp),
        "episodes": run.episodes,
        "certified": bool(known.certified),
        "upper": float(known.upper),
        "lower": float(known.lower),
        "optimal": run.optimal,
        "value": float(mdp.value(known.policy)),
    }


def learner(
    problem: CheckedProblem,
    agent: CheckedAgent,
    episodes: Count,
    epsilon: CheckedEpsilon,
    delta: CheckedDelta,
    scale: float = 1.0,
    *,
    seed: int,
) -> Values:
    """A learner by its name: exact regret and mistakes."""
    mdp = make(problem)
    maker = makers(mdp, [agent], epsilon, delta, episodes, scale)[agent]
    outcome = run_job(SeedRun(agent, maker, seed, mdp, episodes, epsilon))
    if isinstance(outcome, Failure):
        raise InputError(outcome.reason)
    shown = slice(None, None, -(-len(outcome.regret_curve) // POINTS))
    return {
        "mistakes": int(outcome.mistakes),
        "last_mistake": int(outcome.last_mistake),
        "regret": outcome.regret,
        "gap": outcome.gap,
        "optimal": mdp.at_start(mdp.optimal().values),
        "samples": outcome.samples,
        "scale": outcome.scale,
        "after": grid_of(episodes)[shown].tolist(),
        "regrets": outcome.regret_curve[shown].tolist(),
    }


def stopping(
    problem: CheckedProblem,
    agent: CheckedAgent,
    epsilon: CheckedEpsilon,
    delta: CheckedDelta,
    most: Count = 1_000_000,
    rewards: Literal["told", "hidden"] = "told",
    *,
    seed: int,
) -> Values:
    """A learner by its name that stops by itself, with a policy that should be within epsilon.

    It has stopped when its policy is final; with a generative model, that is once it has its
    samples. ``rewards``: whether it is told them (see `_shown`).
    """
    mdp, told = _shown(problem, rewards)
    made = make_agent(agent, mdp, epsilon, delta, most, seed, problem=told)
    run = simulate(mdp, made, most, seed)
    return {
        **sizes(mdp),
        "episodes": run.episodes,
        "samples": made.samples,
        "certified": run.final,
        "optimal": run.optimal,
        "value": run.value,
    }


def _shown(problem: str, rewards: str) -> tuple[MDP, Problem]:
    """The MDP, and what is told of it; hidden rewards are paid as 0 or 1.

    A hidden reward that is paid as its mean would be known after one visit.
    """
    mdp = make(problem)
    if rewards == "told":
        return mdp, mdp.problem
    return mdp.noisy(), mdp.problem.hiding("rewards")


def floor(
    problem: CheckedProblem,
    epsilon: CheckedEpsilon,
    delta: CheckedDelta,
    rewards: Literal["told", "hidden"] = "told",
) -> Values:
    """What bounds the episodes until a rule may stop, from below and above; exact.

    ``floor``: no valid rule needs fewer, in the mean. ``class_floor``: nor can it on the worst
    problem of the paper's hard class, if the problem is one of that class. ``bound``: of UCFH as
    printed, how many episodes may be worse than epsilon; None if rewards are hidden from it.
    """
    mdp, told = _shown(problem, rewards)
    known = rewards == "told"
    return {
        **sizes(mdp),
        "floor": least_episodes(mdp, epsilon, delta, told).episodes,
        "class_floor": _class_floor(problem, epsilon, delta) if known else None,
        "bound": constants_of(told, epsilon, delta, "paper").episode_bound if known else None,
    }


def _class_floor(problem: str, epsilon: float, delta: float) -> float | None:
    """Proposition 80, for a problem of the class; None for others, or if epsilon sets its gap."""
    kind, _, text = problem.partition(":")
    if kind != hard.__name__:
        return None
    named = signature(hard).bind(**read_arguments(kind, hard, text)[1])
    named.apply_defaults()
    if named.arguments["epsilon"] is not None:
        return None
    n, actions, horizon, gap, bias = (
        named.arguments[x] for x in ("n", "actions", "horizon", "gap", "bias")
    )
    return hard_class_floor(n, actions, horizon, epsilon, delta, gap, bias)


POINTS = 50
"""About this many points of a curve are kept."""


def stationary(problem: CheckedProblem) -> Values:
    """The optimum, and the best policy that does not look at t; exact."""
    mdp = make(problem)
    value, policies = best_stationary(mdp)
    optimal = mdp.at_start(mdp.optimal().values)
    return {**sizes(mdp), "optimal": optimal, "stationary": value, "policies": policies}


def claims(
    problem: CheckedProblem,
    epsilon: CheckedEpsilon,
    delta: CheckedDelta,
    variant: Variant = "corrected",
    runs: Count = 10,
    *,
    seed: int,
) -> Values:
    """The lemmas and the theorem, each predicted and measured over whole lifetimes."""
    lines = verify(make(problem), epsilon, delta, variant, runs=runs, seed=seed)
    told = [asdict(line) for line in lines]
    # endless mistakes: JSON has no infinite number
    return {"lines": [x | {"measured": None} if isinf(x["measured"]) else x for x in told]}


def knownness(
    problem: CheckedProblem,
    epsilon: CheckedEpsilon,
    delta: CheckedDelta,
    variant: Variant = "paper",
    *,
    seed: int,
) -> Values:
    """One lifetime: balance, gap and |V~ - V| of all phases, and the tables of some."""
    mdp = make(problem)
    agent = UCFH(mdp.problem, epsilon, delta, variant=variant)
    m, w_min = agent.constants.m, agent.constants.w_min

    tables: list[Knownness] = []
    mismatches: list[float] = []

    def look(_: Run) -> None:
        w = weights_by_row(mdp, agent.policy)
        tables.append(table_of(w, agent.n.visits[:-1], m, w_min))
        mismatches.append(float(abs(agent.optimistic - mdp.value(agent.policy))))

    run = simulate(mdp, agent, seed=seed, on_phase=look)
    begins = [int(row.first_episode) for row in run.rows]
    return {
        "moments": [
            {
                "episode": begins[k],
                "cells": [[*cell, size] for cell, size in tables[k].cells.items()],
                "balanced": tables[k].balanced,
            }
            for k in _telling(tables)
        ],
        "phases": {
            "first_episode": begins,
            "balanced": [table.balanced for table in tables],
            "gap": [max(float(row.gap), 0.0) for row in run.rows],
            "mismatch": mismatches,
        },
        "epsilon": epsilon,
        "episodes": int(run.episodes),
    }


MOMENTS = 6
"""The number of phases whose tables are kept."""


def _telling(tables: list[Knownness]) -> list[int]:
    """The first phase, the last unbalanced one and the one after it, and the last.

    And those that differ most from these in how much is known: the mean place of kappa in
    0, 1, 2, 4, 8, 16.
    """
    last = len(tables) - 1
    known = np.array([np.frexp(table.kappa[table.w > 0])[1].clip(0, 5).mean() for table in tables])
    chosen = {0, last}
    unbalanced = [k for k in range(last) if not tables[k].balanced]
    if unbalanced:
        chosen |= {unbalanced[-1], unbalanced[-1] + 1}
    while len(chosen) < min(MOMENTS, last + 1):
        apart = np.abs(known[:, None] - known[sorted(chosen)]).min(1)
        apart[sorted(chosen)] = -1.0
        chosen.add(int(apart.argmax()))
    return sorted(chosen)


MEASURES: dict[str, Callable[..., Values]] = {
    measure.__name__: measure
    for measure in (
        lifetime,
        certificate,
        learner,
        stopping,
        floor,
        stationary,
        claims,
        knownness,
    )
}
