"""How ``ucfh compare`` and ``ucfh agents`` are called."""

from __future__ import annotations

from typing import Annotated

import typer

from ucfh.commands.options import AsJson, Delta, Epsilon, Force, Problem
from ucfh.defaults import DELTA


def compare(
    problem: Problem,
    agents: Annotated[
        str | None,
        typer.Option(
            help="names (see: ucfh agents) with commas, such as psrl,ucbvi-bf; default: a dozen "
            "that fit the problem",
            show_default=False,
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(help="of every run")] = 10_000,
    seeds: Annotated[int, typer.Option(help="runs of every agent")] = 20,
    epsilon: Epsilon = 0.1,
    delta: Delta = DELTA,
    scale: Annotated[
        float, typer.Option(help="multiplies the agents' bonuses: less than 1 to explore less")
    ] = 1.0,
    workers: Annotated[
        int | None,
        typer.Option(help="processes; default: one a core; same result", show_default=False),
    ] = None,
    plot: Annotated[str | None, typer.Option(help="draw it: a .png, .svg or .pdf")] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Compare agents on a problem, all with the same seeds, by what they really lose.

    Regret, and mistakes (episodes whose policy is worse than epsilon), are exact for the policies
    followed. The table has medians over the seeds with intervals, and says which agents are told
    apart. Exit code 1 if a run failed: the others are kept. Ctrl-C keeps what was run.

    \b
    Examples:
      ucfh compare chain:n=5 --plot chain.png
      ucfh compare riverswim --agents psrl,ucbvi-bf,uniform --episodes 50000
      ucfh compare hard:n=4 --scale 0.1 --json
    """
    from ucfh.commands.compare import run_compare

    code = run_compare(
        problem,
        agents=agents,
        episodes=episodes,
        seeds=seeds,
        epsilon=epsilon,
        delta=delta,
        scale=scale,
        workers=workers,
        plot=plot,
        force=force,
        json=json,
    )
    raise typer.Exit(code)


def agents(
    name: Annotated[
        str | None, typer.Argument(help="show only this one, in full", show_default=False)
    ] = None,
    json: AsJson = False,
) -> None:
    """List the agents: source, setting, what is proved, and where the constants come from.

    \b
    Examples:
      ucfh agents
      ucfh agents psrl
    """
    from ucfh.commands.compare import show_agents

    show_agents(name, json)
