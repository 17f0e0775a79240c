"""Rewards that are paid as 0 or 1."""

from __future__ import annotations

from ucfh import MDP


def noisy(mdp: MDP) -> MDP:
    """The same MDP, whose rewards are 1 with their mean as the probability, and 0 otherwise."""
    return MDP._of(mdp.problem, mdp.p, "bernoulli", mdp.note)
