"""The output of ``ucfh learn``."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from ucfh._utils.files import labels_of
from ucfh._utils.formatting import percent
from ucfh.cli.printing import certificate_lines, print_lines, printable

if TYPE_CHECKING:
    from ucfh.algorithms.base import Agent
    from ucfh.mdp import MDP
    from ucfh.simulation.result import Run

CERTIFIED, PRINTED = "certified-ucfh", "ucfh"


def described(agent: Agent) -> str:
    """Return the name of an agent and its method."""
    from ucfh.algorithms.base import Agent

    if agent.reference == Agent.reference:
        return f"{agent.name} (source {agent.reference})"
    return f"{agent.name}, {_method_of(agent)}"


def _method_of(agent: Agent) -> str:
    if agent.name not in (CERTIFIED, PRINTED):
        return agent.reference
    settings = agent.settings()
    constants, sets = f"{settings['variant']} constants", f"{settings['confidence']} sets"
    if settings["m"] is not None:
        constants += f" but for m = {settings['m']:g}"
    if agent.name == CERTIFIED:
        with_constants = f" with {constants}" if settings["schedule"] == "paper" else ""
        return f"{sets}, {settings['schedule']} schedule{with_constants}"
    return f"{constants}{' (no guarantee)' * (settings['m'] is not None)}, {sets}"


def summary(
    problem: str, mdp: MDP, agent: str, delta: float, seed: int, run: Run
) -> dict[str, Any]:
    """Return a run as a JSON object."""
    from ucfh import __version__

    mistakes, value = run.mistakes(), mdp.value(run.policy)
    known = run.certificate
    return {
        "problem": problem,
        "agent": agent,
        "epsilon": run.epsilon,
        "delta": delta,
        "seed": seed,
        "episodes": run.episodes,
        "phases": len(run.rows),
        "mistakes": None if mistakes == inf else mistakes,
        "bound": run.episode_bound,
        "updates": run.updates,
        "update_bound": run.update_bound,
        "value": value,
        "optimal": run.optimal,
        "gap": run.optimal - value,
        "regret": run.regret,
        "upper": None if known is None else known.upper,
        "lower": None if known is None else known.lower,
        "gap_bound": None if known is None else known.gap,
        "certified": None if known is None else known.certified,
        "contradiction": None if known is None else known.contradiction,
        "missing": None if known is None else [vars(pair) for pair in known.missing],
        "final": run.final,
        "interrupted": run.interrupted,
        "settings": run.about,
        "seconds": run.seconds,
        "version": __version__,
    }


def print_summary(problem: str, mdp: MDP, agent: Agent, hidden: list[str], run: Run) -> None:
    """Print a run as text."""

    mistakes, bound, known = run.mistakes(), run.episode_bound, run.certificate
    why = (
        "certified"
        if known is not None and known.certified
        else "stopped: the data contradict the assumptions"
        if known is not None and known.contradiction is not None
        else f"stopped: within {run.epsilon:g} of optimal, {percent(1 - agent.delta)} confidence"
        if agent.stops and run.final
        else "the policy can never change again"
        if run.final
        else "interrupted"
        if run.interrupted
        else "the limit that was given; the agent is not done"
    )
    lines = {
        "problem": f"{problem}: {mdp.states} states, {mdp.actions} actions, {mdp.horizon} steps",
        "agent": f"{described(agent)}; epsilon {run.epsilon:g}, "
        f"delta {agent.delta:g}" + (f"; hidden: {', '.join(hidden)}" if hidden else ""),
        "episodes": f"{_count(run.episodes)} ({why})",
    }
    if known is not None and known.certified and run.episodes == 0:
        lines["why"] = (
            "prior knowledge leaves no uncertainty: where it matters, transitions are certain, or "
            "all policies have the same value; to learn by stepping alone, see env:NAME"
        )
    if known is None:
        theorem = {"paper": "Theorem 1, as printed,", "corrected": "Theorem 1, corrected,"}
        whose = theorem.get(agent.settings().get("variant", ""), "its theorem")
        lines["mistakes"] = f"{mistakes:.4g} episodes were worse than epsilon" + (
            "" if bound is None else f"; {whose} allows {bound:.3g}"
        )
        if agent.name == PRINTED:
            lines["updates"] = f"{run.updates} updates of the model" + (
                "" if run.update_bound is None else f"; U_max is {run.update_bound:.4g}"
            )
        else:
            lines["policies"] = f"{len(run.rows)} followed, one after the other"
    else:
        lines |= certificate_lines(
            known, *labels_of(mdp.problem), "step" * (mdp.table.segments > 1)
        )
    value = mdp.value(run.policy)
    lines |= {
        "truth": f"this policy really earns {value:.6g}, the best one {run.optimal:.6g} "
        f"(loss {max(0.0, run.optimal - value):.3g})",
        "took": f"{run.seconds:.2f} s",
    }
    if mdp.note:
        lines["note"] = mdp.note
    print_lines(lines)
    print("\nExample episode under this policy:")
    states, actions = labels_of(mdp.problem)
    course = example_episode(mdp, run.policy)
    width = max([5, *(len(str(states.label(s))) for _, s, _ in course)])
    print(f"{'step':>12}  {'state':<{width}}  action")
    for t, s, a in course:
        if len(course) > 20 and t == 10:
            print(f"{'...':>12}")
        if len(course) <= 20 or t < 10 or t >= len(course) - 10:
            row = f"{t + 1:>12}  {states.label(s)!s:<{width}}  {actions.label(a)}"
            print(printable(row))
    print()


def _count(episodes: int) -> str:
    """Format a number of episodes; exact below a million."""
    return str(episodes) if episodes < 1e6 else f"{episodes:.4g}"


def example_episode(mdp: MDP, policy: Any) -> list[tuple[int, int, int]]:
    """Simulate one episode with a fixed seed and return its (t, s, a); policy (H, S)."""
    import numpy as np

    table, rng = mdp.table, np.random.default_rng(0)
    rows = table.rows_of(policy, mdp.horizon)
    s = int(rng.choice(mdp.states, p=mdp.initial))
    course = []
    for t in range(mdp.horizon):
        if s in mdp.problem.terminal:
            break
        course.append((t, s, int(policy[t, s])))
        at = table.entries_of(int(rows[t, s]))
        s = int(rng.choice(table.indices[at], p=mdp.p[at]))
    return course
