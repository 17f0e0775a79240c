"""Conformance checks for custom agents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ucfh._utils.plugins import PluginError, describe_error
from ucfh.algorithms.base import Agent
from ucfh.algorithms.registry import AnyAgent, agent_class, label_of, make_agent
from ucfh.counts import Limits
from ucfh.exceptions import InputError, check_type, with_article
from ucfh.mdp import MDP, Problem
from ucfh.problems import AnyMDP, as_mdp
from ucfh.simulation.result import Run
from ucfh.simulation.runner import simulate

EPISODES = 60
"""Episodes of a check."""


class AgentError(AssertionError):
    """Violations of the protocol of `ucfh.algorithms.base.Agent`, listed in the message."""


def small_mdp() -> MDP:
    """Return an MDP with three states, one of which has a single action, and four steps."""
    p = np.array([[[0.1, 0.9, 0], [0.5, 0, 0.5]], [[0, 0.3, 0.7], [1, 0, 0]], [[0, 0, 1]] * 2])
    available = np.array([[True, True], [True, True], [True, False]])
    return MDP(p, [[0.1, 0.0], [0.2, 0.0], [1.0, 1.0]], 4, available=available)


AgentFactory = Callable[[Problem], Agent]
"""AgentFactory a new agent for a problem."""


def check_agent(make: AnyAgent | AgentFactory, mdp: AnyMDP | None = None) -> None:
    """Run an agent on a small MDP and check that it follows the agent protocol.

    Args:
        make: the agent's class, or its name; or a function that makes a new one for a problem
            and is called several times.
        mdp: the MDP to run on; None: a small one with states of one and two actions.

    Raises:
        AgentError: with the list of issues.

    >>> from ucfh import UCFH, check_agent
    >>> check_agent(lambda problem: UCFH(problem, epsilon=0.5, delta=0.1))

    """
    mdp = small_mdp() if mdp is None else as_mdp(mdp)
    name, issues = _examine(make, mdp)
    if issues:
        raise AgentError(f"{name} has {len(issues)} issue(s):\n- " + "\n- ".join(issues))


def find_issues(agent: AnyAgent) -> list[str]:
    """Return the issues that `check_agent` finds; none if the agent rejects the small MDP."""
    try:
        return _examine(agent, small_mdp())[1]
    except InputError:
        return []  # an agent for other problems


def check_parameters(name: str) -> None:
    """Raise an agent's error about the parameters in its name, if it accepts the small MDP."""
    mdp = small_mdp()
    try:
        _new(name, mdp, mdp.problem)
    except InputError:
        try:
            _new(agent_class(name), mdp, mdp.problem)
        except Exception:  # the parameters are not the cause
            return
        raise


def check_runnable(agent: AnyAgent) -> None:
    """Raise an `InputError`, in one line, if an agent has issues."""
    if issues := find_issues(agent):
        name = label_of(agent)
        more = f" ({len(issues) - 1} more: ucfh agents {name})" if len(issues) > 1 else ""
        raise InputError(f"{name} is not an agent that can be run: {issues[0]}{more}")


def _examine(make: AnyAgent | AgentFactory, mdp: MDP) -> tuple[str, list[str]]:
    """Return the name of an agent's class, and its issues on an MDP."""
    check_type("make", make, str | Callable, "an agent's name or class, or a function")
    named = isinstance(make, str) or (isinstance(make, type) and issubclass(make, Agent))
    new: Any = partial(_new, make, mdp) if named else make
    name = getattr(make, "__name__", "the agent")
    try:
        agent = new(mdp.problem)
    except Exception as error:  # user code may raise anything
        return name, [_issue_of(error, "it cannot be made")]
    issues = [*_check_attributes(agent, mdp)]
    try:
        if not issues:
            issues += [*_check_limits(agent), *_check_settings(agent)]
        if not issues:
            issues += _check_runs(new, mdp)
    except Exception as error:
        issues.append(_issue_of(error, "a run of it fails"))
    return type(agent).__name__, issues


def _issue_of(error: Exception, what: str) -> str:
    """Describe an error as an issue; reraise an error by which an agent rejects the MDP."""
    if isinstance(error, PluginError):
        return str(error)
    if isinstance(error, InputError):
        raise error
    return f"{what} ({describe_error(error)})"


def _new(agent: Any, mdp: MDP, problem: Problem) -> Agent:
    return make_agent(agent, mdp, 0.1, 0.1, EPISODES, problem=problem)


def _check_attributes(agent: Agent, mdp: MDP) -> Iterator[str]:
    """Check the attributes before the first episode."""
    if not isinstance(agent, Agent):
        yield f"it is {with_article(type(agent).__name__)}: derive it from ucfh.Agent"
        return
    for name in ("problem", "policy", "optimistic", "epsilon", "delta"):
        if not hasattr(agent, name):
            yield f"it has no {name}: set it in __init__"
    if hasattr(agent, "policy"):
        yield from _check_policy(agent, mdp)
    if hasattr(agent, "optimistic") and np.isinf(agent.optimistic):
        yield f"optimistic = {agent.optimistic}: set V~ from the start, or NaN if it has none"


def _check_policy(agent: Agent, mdp: MDP) -> Iterator[str]:
    policy = np.asarray(agent.policy)
    shape = (mdp.horizon, mdp.states)
    if policy.shape != shape or policy.dtype.kind not in "iu":
        yield f"policy has shape {policy.shape} and type {policy.dtype}: use integers {shape}"
        return
    outside = (policy < 0) | (policy >= mdp.actions)
    outside |= ~mdp.table.available[np.arange(mdp.states), np.where(outside, 0, policy)]
    for t, s in np.argwhere(outside)[:1]:
        yield f"policy[{t}, {s}] = {policy[t, s]}: the state has no such action"


def _check_limits(agent: Agent) -> Iterator[str]:
    limits = agent.limits()
    if limits is None:
        return
    rows = agent.problem.table.rows
    if not isinstance(limits, Limits):
        yield f"limits() returns {with_article(type(limits).__name__)}: return a Limits, or None"
    elif limits.visits.shape != (rows,) or limits.visits.dtype != np.int64:
        yield (
            f"limits().visits has shape {limits.visits.shape} and type {limits.visits.dtype}: "
            f"use int64, one for each of the {rows} rows of its problem's table"
        )
    elif (limits.visits < 0).any():
        yield f"limits().visits has {limits.visits.min()}: use 0 to stop after one episode"


def _check_settings(agent: Agent) -> Iterator[str]:
    try:
        settings = agent.settings()
        if json.loads(json.dumps(settings)) != settings:
            yield "settings() changes when written as JSON: use numbers, strings, lists and None"
        elif "agent" not in settings:
            yield 'settings() has no "agent": add its name, so that runs can be identified'
    except TypeError as error:
        yield f"settings() cannot be written as JSON ({error})"
    for name, array in agent.state().items():
        if np.asarray(array).dtype == object:
            yield f"state() has {name!r}, which is not an array of numbers or strings"


def _record(run: Run) -> list[tuple[Any, ...]]:
    fields = ("first_episode", "episodes", "value", "optimistic")
    return [tuple(repr(getattr(row, name)) for name in fields) for row in run.rows]


def _check_runs(make: Callable[[Problem], Agent], mdp: MDP) -> Iterator[str]:
    """Check runs: valid policies, reproducible by the seed, and after a restart."""
    policies: list[str] = []

    def record_policies(agent: Agent) -> Callable[[Run], None]:
        return lambda _: policies.extend(_check_policy(agent, mdp))

    first = make(mdp.problem)
    full = simulate(mdp, first, EPISODES, method="step", progress=record_policies(first))
    if policies:
        yield f"during a run, {policies[0]}"
        return
    repeated = simulate(mdp, make(mdp.problem), EPISODES, method="step")
    if _record(repeated) != _record(full):
        yield "two runs with the same seed differ: draw all random numbers from the agent's seed"
        return
    part = simulate(mdp, make(mdp.problem), EPISODES // 2, method="step")
    if part.checkpoint is not None:
        part.checkpoint.agent.update({k: np.array(v) for k, v in part.checkpoint.agent.items()})
        try:
            rest = simulate(mdp, make(mdp.problem), EPISODES, method="step", resume=part)
        except (KeyError, TypeError, ValueError) as error:
            yield f"restore() does not accept what state() returned: {error}"
            return
        if _record(rest) != _record(full):
            yield "restored from state() it continues differently: state() must hold all it learned"
    if first.limits() is not None:
        bulk = simulate(mdp, make(mdp.problem), EPISODES)
        if bulk.episodes != full.episodes and not bulk.final:
            yield f"in bulk it runs only {bulk.episodes} of {EPISODES} episodes"
        compiled = first.follow is not None and not first.randomized
        if compiled and _record(bulk) != _record(full):
            yield "follow() gives a different run than observe() called after each episode"
