"""Agents and problems for tests of agents, comparisons and phases."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ucfh import MDP, UCFH, Problem, make
from ucfh.algorithms.mvp import MVP
from ucfh.algorithms.phased import Phased
from ucfh.algorithms.ucrl import AuerOrtner, UCRLGamma


def good(mdp: MDP, seed: int) -> UCFH:
    """Learns the chain in some hundred episodes; its m is no published one."""
    del seed
    return UCFH(mdp.problem, epsilon=0.5, delta=0.1, m=10.0)


def late(mdp: MDP, seed: int) -> UCFH:
    """Needs more than the good one."""
    del seed
    return UCFH(mdp.problem, epsilon=0.5, delta=0.1, m=1e4)


def killed(mdp: MDP, seed: int) -> UCFH:
    """Its process is killed, whenever the seed is 1."""
    if seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return good(mdp, seed)


def faulty(mdp: MDP, seed: int) -> UCFH:
    """Raises when the seed is 2, in two lines."""
    if seed == 2:
        raise RuntimeError("no\n way")
    return good(mdp, seed)


def endless(mdp: MDP, seed: int) -> UCFH:
    """Goes on for a minute from the second seed on, and leaves a file in $UCFH_MARKS."""
    if seed >= 1:
        (Path(os.environ["UCFH_MARKS"]) / "endless").touch()
        time.sleep(60)
    return good(mdp, seed)


FITTING = {"eprl": "chain:n=3,horizon=3,slip=0"}


def fitting(name: str) -> MDP:
    """A problem within the setting of an agent, given by its name in the registry."""
    return make(FITTING.get(name.partition(":")[0], "chain:n=3,horizon=3"))


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
