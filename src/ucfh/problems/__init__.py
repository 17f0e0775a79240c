"""Named problems: ``make("chain:n=8")`` is an `MDP`, and `catalogue` lists the names.

A problem is a plain function with annotated parameters and defaults that returns an `MDP`; its
name and parameters are those of the function. So a new problem is one more function below, and
everything random about a problem is fixed by its name (``seed=0``). A function of a user's own is
named with its module, ``module:function``.

Whatever takes a problem or an MDP takes a name in its place: see `as_problem` and `as_mdp`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import FunctionType

import numpy as np

from ucfh._utils.arrays import Ints
from ucfh._utils.files import AnyPath
from ucfh._utils.plugins import Plugin, calling, find_own, is_own, unknown_name
from ucfh.exceptions import InputError, wrong_type
from ucfh.mdp import MDP, Problem
from ucfh.problems._text import read_arguments
from ucfh.problems.classic import chain, deepsea, grid, random, riverswim
from ucfh.problems.gym import gym
from ucfh.problems.paper import hard, hypotheses
from ucfh.problems.tasks import calls, revenue, tutoring

__all__ = [
    "AnyMDP", "AnyProblem", "as_mdp", "as_problem", "catalogue", "hypotheses", "make", "name_of",
    "positions_in",
]  # fmt: skip

AnyMDP = MDP | AnyPath
"""An MDP, or what `make` makes one of."""
AnyProblem = Problem | MDP | AnyPath
"""What an agent may be told, or what holds it."""

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
    """Every named problem and the function that builds it.

    >>> print(catalogue()["chain"].__doc__.splitlines()[0])
    A walk along a chain with a small reward at the start and a large one at the end.

    """
    return {builder.__name__: builder for builder in _BUILDERS}


def make(name: AnyPath) -> MDP:
    """The problem of a name: ``problem``, ``problem:parameter=value,...``, or a model's file.

    Args:
        name: a name of the `catalogue`, with parameters after a colon where they differ from
            their defaults (``hard:n=10,gap=0.125``); for an environment of Gymnasium, its id
            comes first (``gym:FrozenLake-v1,horizon=20``). A name that ends in .json or .npz is
            the path of a model. ``module:name`` is an MDP of your own, or a function that returns
            one; its parameters follow a second colon (``machine:vending:size=3``).

    >>> make("hard:n=10,actions=4,horizon=10,gap=0.25")
    MDP(states=13, actions=4, horizon=10, successors<=10)
    >>> make("chain:n=abc")
    Traceback (most recent call last):
    ucfh.exceptions.InputError: chain: n=abc is not a whole number: write one, such as n=5

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
        if is_own(name):
            return _make_own(name)
        own, comma, parameters = name.partition(",")
        if comma and is_own(own):
            raise InputError(
                f"unknown problem {name!r}: parameters of your own follow a second colon, "
                f"{own}:{parameters}"
            )
        raise unknown_name("problem", problem, builders)
    text = text.strip()
    given, named = read_arguments(problem, builders[problem], text)
    if colon and not text:
        raise InputError(f"nothing follows the colon of {name!r}: write name=value, or no colon")
    return builders[problem](*given, **named)


def find_own_problem(name: str) -> Plugin:
    """What ``module:name`` names, where a problem is meant."""
    return find_own("problem", name, lambda x: isinstance(x, MDP | FunctionType))


def _make_own(name: str) -> MDP:
    """The MDP of ``module:name``."""
    label, thing, text = find_own_problem(name)
    if isinstance(thing, MDP):
        return thing
    if isinstance(thing, type) or not callable(thing):
        raise wrong_type(label, thing, "an MDP, or a function that returns one")
    given, named = read_arguments(label, thing, text.strip())
    with calling(label):
        made = thing(*given, **named)
    if not isinstance(made, MDP):
        raise wrong_type(f"{label}()", made, "an MDP: let the function return one")
    return made


def as_mdp(given: AnyMDP) -> MDP:
    """The `MDP` that is given, or named; else raise."""
    if isinstance(given, MDP):
        return given
    if isinstance(given, str | os.PathLike):
        return make(given)
    why = ": a Problem does not hold the transition probabilities"
    raise wrong_type("mdp", given, f"an MDP or a name{why * isinstance(given, Problem)}")


def name_of(given: AnyMDP) -> str:
    """The name by which an MDP is given; "" if it is given itself."""
    return os.fspath(given) if isinstance(given, str | os.PathLike) else ""


def as_problem(given: AnyProblem) -> Problem:
    """What an agent may be told, from a `Problem`, an `MDP`, or the name of one; else raise."""
    if isinstance(given, Problem):
        return given
    if isinstance(given, MDP | str | os.PathLike):
        return as_mdp(given).problem
    raise wrong_type("problem", given, "a Problem, an MDP or a name")


def positions_in(mdp: MDP, told: Problem) -> Ints:
    """(entries,) where each entry of the MDP stands in the table of what an agent is told.

    An error if what is told is not true: the horizon, the rewards, the start.
    """
    if mdp.horizon != told.horizon:
        raise InputError(
            f"the agent was told a horizon of {told.horizon}, the MDP's is {mdp.horizon}: "
            "build the agent from mdp.problem"
        )
    if told.rewards is None:
        mdp.problem.hiding("rewards")  # an error where they cannot be learned
    position = told.table.positions_of(mdp.table)
    if told.rewards is not None:
        same = bool((told.rewards.pair == mdp.rewards.pair).all())
        mine, theirs = mdp.rewards.successor, told.rewards.successor
        if mine is not None and theirs is not None:
            same &= np.array_equal(mine, theirs[:, position])
        if not same or (mine is None) != (theirs is None):
            raise InputError(
                "the agent was told other rewards than the MDP pays: build the agent from "
                "mdp.problem"
            )
    if told.initial is not None and not np.array_equal(told.initial, mdp.initial):
        raise InputError(
            "the agent was told another start than the MDP's: build the agent from mdp.problem"
        )
    return position
