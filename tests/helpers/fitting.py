"""A small problem for each agent: most take any, and some ask for more."""

from __future__ import annotations

from ucfh import MDP, make

FITTING = {"eprl": "chain:n=3,horizon=3,slip=0"}


def fitting(name: str) -> MDP:
    """A problem within the setting of an agent, given by its name in the registry."""
    return make(FITTING.get(name.partition(":")[0], "chain:n=3,horizon=3"))
