"""``ucfh compare``."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ucfh._utils.defaults import DELTA
from ucfh.cli.options import AsJson, Cluster, Delta, Epsilon, Force, ProblemName
from ucfh.cli.printing import print_json, print_lines
from ucfh.cli.progress import ProgressBar
from ucfh.exceptions import InputError, check_count, check_unit

if TYPE_CHECKING:
    from ucfh.comparison.result import AgentSummary, Comparison
    from ucfh.comparison.runner import Maker
    from ucfh.mdp import MDP

INCOMPLETE = 1
"""The exit code of a comparison in which some run failed."""

USUAL = (
    "ucfh", "rmax", "mbie-eb", "ucrl2", "psrl", "ucbvi-ch", "ucbvi-bf", "ubev", "orlc", "euler",
    "mvp", "ucb-h", "epsilon-greedy", "uniform",
)  # fmt: skip
"""The agents that are compared if none are named, as far as they fit the problem."""


def compare(
    problem: ProblemName,
    agents: Annotated[
        str | None,
        typer.Option(
            help="agents (see: ucfh agents) with commas, such as psrl,ucbvi-bf, or your own, "
            "module:Class; default: the usual fourteen, as far as they fit the problem",
            show_default=False,
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(help="episodes of every run")] = 10_000,
    seeds: Annotated[int, typer.Option(help="runs of every agent")] = 20,
    until_significant: Annotated[
        bool,
        typer.Option(
            "--until-significant",
            help="begin with fewer seeds, and add more, at most --seeds, only where differences "
            "are not significant yet",
        ),
    ] = False,
    epsilon: Epsilon = 0.1,
    delta: Delta = DELTA,
    scale: Annotated[
        float,
        typer.Option(help="factor on all bonuses: below 1 explores less, without a guarantee"),
    ] = 1.0,
    workers: Annotated[
        int | None,
        typer.Option(
            help="number of processes; default: one per core; same result", show_default=False
        ),
    ] = None,
    cluster: Cluster = None,
    plot: Annotated[str | None, typer.Option(help="write a figure: .png, .svg or .pdf")] = None,
    csv: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.csv",
            help="write a row for each run to this file, and their curves to FILE-curves.csv",
        ),
    ] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Compare agents on a problem, and rank them by regret.

    All run with the same seeds. Regret and mistakes (episodes whose policy loses more than epsilon)
    are exact for the policies followed. Prints medians over the seeds with intervals, and which
    differences are significant. Exit code 1 if a run failed: the others are kept. Ctrl-C keeps what
    was run.

    \b
    Examples:
      ucfh compare chain:n=5 --plot chain.png
      ucfh compare riverswim --agents psrl,ucbvi-bf,uniform --episodes 50000
      ucfh compare hard:n=4 --scale 0.1 --json
      ucfh compare chain:n=5 --agents psrl,mine:Eager --seeds 100 --until-significant --csv runs.csv
    """
    from ucfh._utils import plotting
    from ucfh._utils.files import check_outputs
    from ucfh._utils.parallel import check_places
    from ucfh.comparison import frames
    from ucfh.comparison.runner import compare as compare_on
    from ucfh.comparison.runner import makers
    from ucfh.problems import make

    curves = None if csv is None else str(frames.curves_path(csv))
    outputs = [(plot, plotting.ENDINGS), (csv, frames.ENDINGS), (curves, frames.ENDINGS)]
    check_outputs(outputs, [problem], force)
    for name, share in (("epsilon", epsilon), ("delta", delta)):
        check_unit(name, share)
    for name, count in (("episodes", episodes), ("seeds", seeds)):
        check_count(name, count)
    check_places(workers, cluster)
    started = perf_counter()
    mdp = make(problem)
    settings = (epsilon, delta, episodes, scale)
    named = None if agents is None else split_names(agents)
    made = _usual(mdp, settings) if named is None else makers(mdp, named, *settings)
    with ProgressBar() as bar:

        def report(done: int, total: int) -> None:
            bar.show(f"{done} of {total} runs", done / total)

        result = compare_on(
            mdp, made, episodes, seeds, epsilon, workers=workers, progress=report,
            until_significant=until_significant, cluster=cluster,
        )  # fmt: skip
    result.problem = problem
    if result.interrupted and not (result.outcomes or result.failures):
        raise KeyboardInterrupt
    if json:
        about = {"problem": problem, "delta": delta, "scale": scale}
        print_json(about | summary(result) | {"seconds": perf_counter() - started})
    else:
        print_summary(mdp, result, delta)
    written: dict[str, str] = {}
    if plot is not None and result.outcomes:
        result.plot(plot, force=force)
        written["figure"] = plot
    if csv is not None and curves is not None:
        frames.write_csv(frames.totals_of(result), csv, force)
        frames.write_csv(frames.curves_of(result), curves, force)
        written |= {"runs": csv, "curves": curves}
    if not json:
        print_lines(written)
    for failure in result.failures:
        print(f"ucfh: {failure.agent}, seed {failure.seed}: {failure.reason}", file=sys.stderr)
    if result.interrupted:
        raise KeyboardInterrupt(
            f"this is what was run until then: {result.complete} of {seeds} seeds with all agents"
        )
    raise typer.Exit(INCOMPLETE if result.failures else 0)


def split_names(text: str) -> list[str]:
    """The agents in a list parted by commas; a parameter after a comma belongs to the last.

    >>> split_names("psrl, ucfh:variant=corrected,confidence=kl,uniform")
    ['psrl', 'ucfh:variant=corrected,confidence=kl', 'uniform']
    """
    names: list[str] = []
    for part in text.split(","):
        if names and "=" in part.partition(":")[0]:
            names[-1] += "," + part.strip()
        elif part.strip():
            names.append(part.strip())
    return names


def _usual(mdp: MDP, settings: tuple[float, float, int, float]) -> dict[str, Maker]:
    """The usual agents, without those that do not fit the problem."""
    from ucfh.comparison.runner import makers

    found: dict[str, Maker] = {}
    for name in USUAL:
        try:
            found |= makers(mdp, [name], *settings)
        except InputError as error:
            print(f"ucfh: left out: {error}", file=sys.stderr)
    return found


def summary(result: Comparison) -> dict[str, Any]:
    """A comparison for programs."""
    from ucfh import __version__

    return {
        "agents": [_summary_of(standing) for standing in result.standings()],
        "grid": result.grid.tolist(),
        "episodes": result.episodes,
        "seeds": result.seeds,
        "looks": result.looks,
        "complete_seeds": result.complete,
        "epsilon": result.epsilon,
        "optimal": result.optimal,
        "failures": [failure._asdict() for failure in result.failures],
        "interrupted": result.interrupted,
        "version": __version__,
    }


NUMBERS = (
    "regret", "mistakes", "last_mistake", "gap", "planning_seconds", "seconds", "samples"
)  # fmt: skip


def _summary_of(standing: AgentSummary) -> dict[str, Any]:
    from ucfh._utils.statistics import LEVEL

    place = standing.place
    told = ("seed", *NUMBERS, "changed")
    runs = [{name: getattr(x, name) for name in told} for x in standing.outcomes]
    curves = {
        name: dict(zip(("q1", "median", "q3"), standing.curve(curve).tolist(), strict=True))
        for name, curve in (("regret", "regret_curve"), ("mistakes", "mistakes_curve"))
    }
    return {
        "agent": place.agent,
        "rank": [place.first, place.last],
        "p": place.p,
        "best": place.p is None or place.p > 1 - LEVEL,
        "changed": standing.changed,
        "scale": standing.outcomes[0].scale,
        "constants": standing.outcomes[0].constants,
        **{name: standing.of(name)._asdict() for name in NUMBERS},
        "curves": curves,
        "runs": runs,
    }


def print_summary(mdp: MDP, result: Comparison, delta: float) -> None:
    """A comparison for a person."""
    from ucfh.comparison.table import cells_of, notes_on

    standings = result.standings()
    lines = {
        "problem": f"{result.problem}: {mdp.states} states, {mdp.actions} actions, "
        f"{mdp.horizon} steps",
        "compared": f"{len(result.agents)} agents, {result.episodes} episodes, "
        f"{result.seeds_run}; epsilon {result.epsilon:g}, delta {delta:g}",
        "optimum": f"the best policy earns {result.optimal:.6g} per episode",
    }
    scaled = [f"{x.place.agent} {s:g}" for x in standings if (s := x.outcomes[0].scale) != 1]
    if scaled:
        lines["scale"] = f"bonuses are scaled, no theorem holds: {', '.join(scaled)}"
    print_lines(lines)
    print()
    if not standings:
        print("Every run failed.")
        return
    columns, rows = cells_of(result, standings)
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        cells = [
            cell.ljust(width) if name == "agent" else cell.rjust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ]
        print("  ".join(cells).rstrip())
    print()
    for line in notes_on(result, standings):
        print(line)
