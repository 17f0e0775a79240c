"""Problems for agents that plan in phases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ucfh import MDP, Problem
from ucfh.algorithms.mvp import MVP
from ucfh.algorithms.phased import Phased
from ucfh.algorithms.ucrl import AuerOrtner, UCRLGamma

POINTS = {"A": (5, 2, 5, 0.5, 0.1), "B": (20, 3, 5, 0.25, 0.05), "C": (6, 2, 12, 0.5, 0.1)}


def over(*classes: type[Phased]) -> pytest.MarkDecorator:
    """A test for each of these agents."""
    return pytest.mark.parametrize("cls", classes, ids=[x.name for x in classes])


def random_mdp(seed: int, S: int = 3, A: int = 2, H: int = 3, segments: bool = False) -> MDP:
    """At most two successors of a pair, so that it fits all."""
    rng = np.random.default_rng(seed)
    shape = (H, S, A) if segments else (S, A)
    p = rng.random((*shape, S))
    p[p < np.sort(p)[..., -2:].min(-1, keepdims=True)] = 0
    return MDP(p / p.sum(-1, keepdims=True), rng.random((S, A)), H, rng.dirichlet(np.ones(S)))


def told(point: str) -> tuple[Problem, float, float, int]:
    """A problem of that size with two successors of each pair, and K = 1000."""
    S, A, H, eps, delta = POINTS[point]
    two = np.zeros((S, A, S), bool)
    two[..., :2] = True
    return Problem(S, A, H, 0.5, two, 0), eps, delta, 1000


# What the formulas give, computed by hand (in decimals of 40 digits, or from the papers' pages).


def visits(cls: Any) -> Callable[..., float]:
    return lambda point, scale: cls(*told(point), scale=scale**0.5).m


def width(point: str, scale: float, t: int, n: int) -> float:
    agent = AuerOrtner(*told(point), scale=scale)
    agent.n.visits[0] = t - 1
    return float(agent.width(np.array([float(n)]))[0])


def bonus(point: str, scale: float, n: int, variance: float) -> float:
    terms = MVP(*told(point), scale=scale).coefficients(np.array([float(n)]))
    return float(terms["deviation"][0] * variance**0.5 + terms["flat"][0])


# The same agent, looked at after every single episode.


def small(cls: type[Phased], mdp: MDP, kind: type[Phased] | None = None) -> Phased:
    """An agent whose policy changes within a few hundred episodes."""
    agent = (kind or cls)(mdp.problem, 1.0, 0.1, 3000, 0.05)
    if hasattr(agent, "m") and cls is not UCRLGamma:
        agent.m = 13
        agent.plan()
    return agent
