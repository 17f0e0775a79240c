"""Named problems: ``make("chain:n=8")`` is an `MDP`, and `catalogue` lists the names.

A problem is a plain function with annotated parameters and defaults that returns an `MDP`; its
name and parameters are those of the function. So a new problem is one more function below, and
the name of a problem fixes its random parts (``seed=0``). User-defined functions are named with
their module, ``module:function``.

Functions that take a problem or an MDP also take its name: see `as_problem` and `as_mdp`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import FunctionType

import numpy as np

from ucfh._utils.arrays import Ints
from ucfh._utils.files import AnyPath
from ucfh._utils.plugins import (
    Plugin,
    find_plugin,
    is_plugin,
    read_arguments,
    unknown_name,
    user_code,
)
from ucfh.exceptions import InputError, wrong_type
from ucfh.mdp import MDP, Problem
from ucfh.problems.classic import chain, deepsea, grid, random, riverswim
from ucfh.problems.gym import gym
from ucfh.problems.paper import hard, hypotheses
from ucfh.problems.tasks import calls, revenue, tutoring

__all__ = [
    "AnyMDP", "AnyProblem", "as_mdp", "as_problem", "catalogue", "hypotheses", "make", "name_of",
    "positions_in",
]  # fmt: skip

AnyMDP = MDP | AnyPath
"""An MDP, or a name for `make`."""
AnyProblem = Problem | MDP | AnyPath
"""The prior knowledge of an agent, or an MDP or name that contains it."""

_BUILDERS = (
    hard,
    chain,
    riverswim,
    deepsea,
    grid,
    random,
    tutoring,
    revenue,
    calls,
    gym,
)


def catalogue() -> Mapping[str, Callable[..., MDP]]:
    """Return every named problem with the function that builds it.

    >>> print(catalogue()["chain"].__doc__.splitlines()[0])
    A walk along a chain with a small reward at the start and a large one at the end.

    """
    return {builder.__name__: builder for builder in _BUILDERS}


def make(name: AnyPath) -> MDP:
    """Make a problem from a name, ``problem:parameter=value,...``, or the path of a model.

    Args:
        name: a name of the `catalogue`, with parameters after a colon where they differ from
            their defaults (``hard:n=10,gap=0.125``); for an environment of Gymnasium, its id
            comes first (``gym:FrozenLake-v1,horizon=20``). A name that ends in .json or .npz is
            the path of a model. ``module:name`` is an MDP of your own, or a function that returns
            one; its parameters follow a second colon (``machine:vending:size=3``).

    Raises:
        InputError: for an unknown name, parameter or file.

    >>> make("hard:n=10,actions=4,horizon=10,gap=0.25")
    MDP(states=13, actions=4, horizon=10, successors<=10)
    >>> make("chain:n=abc")
    Traceback (most recent call last):
    ucfh.exceptions.InputError: chain: n=abc is not an integer: write one, such as n=5

    """
    if not isinstance(name, str | os.PathLike):
        raise InputError(f"{name!r} is not a problem: pass a name, such as 'chain:n=8', or a path")
    name = os.fspath(name)
    if name.endswith((".json", ".npz")):
        from ucfh.io import read_model

        return read_model(name)
    if name.endswith((".csv", ".jsonl", ".parquet")):
        raise InputError(f"{name} looks like a log, not like a problem: ucfh certify {name}")
    problem, colon, text = name.partition(":")
    if problem == "env":
        raise InputError(f"{name} can only be stepped: ucfh learn {name}, or ucfh.learn in Python")
    builders = catalogue()
    if problem not in builders:
        if is_plugin(name):
            return _make_plugin(name)
        own, comma, parameters = name.partition(",")
        if comma and is_plugin(own):
            raise InputError(
                f"unknown problem {name!r}: parameters of your own problem follow a second colon, "
                f"{own}:{parameters}"
            )
        raise unknown_name("problem", problem, builders)
    text = text.strip()
    given, named = read_arguments(problem, builders[problem], text)
    if colon and not text:
        raise InputError(f"nothing follows the colon of {name!r}: write name=value, or no colon")
    return builders[problem](*given, **named)


def find_problem_plugin(name: str) -> Plugin:
    """Import the problem of ``module:name``."""
    return find_plugin("problem", name, lambda x: isinstance(x, MDP | FunctionType))


def _make_plugin(name: str) -> MDP:
    """Make the MDP of ``module:name``."""
    label, thing, text = find_problem_plugin(name)
    if isinstance(thing, MDP):
        return thing
    if isinstance(thing, type) or not callable(thing):
        raise wrong_type(label, thing, "an MDP, or a function that returns one")
    given, named = read_arguments(label, thing, text.strip())
    with user_code(label):
        made = thing(*given, **named)
    if not isinstance(made, MDP):
        raise wrong_type(f"{label}()", made, "an MDP: let the function return one")
    return made


def as_mdp(given: AnyMDP) -> MDP:
    """Return an MDP from itself or its name; else raise."""
    if isinstance(given, MDP):
        return given
    if isinstance(given, str | os.PathLike):
        return make(given)
    why = ": a Problem does not hold the transition probabilities"
    raise wrong_type("mdp", given, f"an MDP or a name{why * isinstance(given, Problem)}")


def name_of(given: AnyMDP) -> str:
    """Return the name of an MDP given by name, or "" for an `MDP` object."""
    return os.fspath(given) if isinstance(given, str | os.PathLike) else ""


def as_problem(given: AnyProblem) -> Problem:
    """Return the prior knowledge in a `Problem`, an `MDP`, or the name of one; else raise."""
    if isinstance(given, Problem):
        return given
    if isinstance(given, MDP | str | os.PathLike):
        return as_mdp(given).problem
    raise wrong_type("problem", given, "a Problem, an MDP or a name")


def positions_in(mdp: MDP, known: Problem) -> Ints:
    """(entries,) the index of each transition of the MDP in the table of an agent's knowledge.

    Raises:
        InputError: if the known horizon, successors, rewards or start differ from the MDP's.

    """
    if mdp.horizon != known.horizon:
        raise InputError(
            f"the agent's problem has a horizon of {known.horizon}, the MDP {mdp.horizon}: "
            "build the agent from mdp.problem"
        )
    if known.rewards is None:
        mdp.problem.hiding("rewards")  # raises if they cannot be learned
    position = known.table.positions_of(mdp.table)
    if known.rewards is not None:
        same = bool((known.rewards.pair == mdp.rewards.pair).all())
        mine, theirs = mdp.rewards.successor, known.rewards.successor
        if mine is not None and theirs is not None:
            same &= np.array_equal(mine, theirs[:, position])
        if not same or (mine is None) != (theirs is None):
            raise InputError(
                "the agent's problem has other rewards than the MDP: build the agent from "
                "mdp.problem"
            )
    if known.initial is not None and not np.array_equal(known.initial, mdp.initial):
        raise InputError(
            "the agent's problem has another start than the MDP: build the agent from mdp.problem"
        )
    return position
