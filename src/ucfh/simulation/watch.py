"""Look at a learner in every phase of its life."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ucfh.agents.base import Agent
from ucfh.counts import Counts
from ucfh.problem import MDP
from ucfh.simulation.run import Run
from ucfh.simulation.simulate import simulate

Seen = TypeVar("Seen")


def watch(
    mdp: MDP, agent: Agent, look: Callable[[], Seen], episodes: int | None = None, seed: int = 0
) -> tuple[Run, list[Seen]]:
    """Run a learner, and call ``look`` whenever it is about to follow a new policy.

    Returns:
        The run, and what was seen: one for each of its phases.

    >>> from ucfh import UCFH, make
    >>> mdp = make("chain:n=3,horizon=3")
    >>> agent = UCFH(mdp.problem, epsilon=0.5, delta=0.1)
    >>> run, promised = watch(mdp, agent, lambda: agent.optimistic)
    >>> promised == [row.optimistic for row in run.rows]
    True

    """
    looks = [look()]
    observe = agent.observe

    def observe_and_look(seen: Counts) -> bool:
        changed = observe(seen)
        if changed:
            looks.append(look())
        return changed

    agent.observe = observe_and_look  # type: ignore[method-assign]
    run = simulate(mdp, agent, episodes, seed)
    return run, looks[: len(run.rows)]
