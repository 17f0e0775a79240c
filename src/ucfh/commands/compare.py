"""``ucfh compare``."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ucfh._support.defaults import DELTA
from ucfh.commands.options import AsJson, Delta, Epsilon, Force, ProblemName
from ucfh.commands.printing import print_json, print_lines
from ucfh.commands.progress import Bar
from ucfh.errors import InputError, check_count, check_unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from ucfh._support.statistics import Interval
    from ucfh.comparison.runner import Comparison, Maker, Standing
    from ucfh.problem import MDP

INCOMPLETE = 1
"""The exit code of a comparison in which some run failed."""

USUAL = (
    "ucfh", "rmax", "mbie-eb", "ucrl2", "psrl", "ucbvi-ch", "ucbvi-bf", "ubev", "orlc", "euler",
    "mvp", "ucb-h", "epsilon-greedy", "uniform",
)  # fmt: skip
"""The learners that are compared if none are named, as far as they fit the problem."""


def compare(
    problem: ProblemName,
    agents: Annotated[
        str | None,
        typer.Option(
            help="learners (see: ucfh agents) with commas, such as psrl,ucbvi-bf; default: the "
            "usual fourteen, as far as they fit the problem",
            show_default=False,
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(help="episodes of every run")] = 10_000,
    seeds: Annotated[int, typer.Option(help="runs of every learner")] = 20,
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
    plot: Annotated[str | None, typer.Option(help="write a figure: .png, .svg or .pdf")] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Compare learners on a problem, and rank them by regret.

    All run with the same seeds. Regret and mistakes (episodes whose policy loses more than epsilon)
    are exact for the policies followed. Prints medians over the seeds with intervals, and which
    differences are significant. Exit code 1 if a run failed: the others are kept. Ctrl-C keeps what
    was run.

    \b
    Examples:
      ucfh compare chain:n=5 --plot chain.png
      ucfh compare riverswim --agents psrl,ucbvi-bf,uniform --episodes 50000
      ucfh compare hard:n=4 --scale 0.1 --json
    """
    from ucfh._support.canvas import ENDINGS
    from ucfh._support.files import check_outputs
    from ucfh._support.interrupts import exit_code
    from ucfh.comparison.figures import plot_comparison
    from ucfh.comparison.runner import compare as compare_on
    from ucfh.comparison.runner import makers
    from ucfh.problems import make

    check_outputs([(plot, ENDINGS)], [problem], force)
    for name, share in (("epsilon", epsilon), ("delta", delta)):
        check_unit(name, share)
    for name, count in (("episodes", episodes), ("seeds", seeds)):
        check_count(name, count)
    started = perf_counter()
    mdp = make(problem)
    settings = (epsilon, delta, episodes, scale)
    named = None if agents is None else split_names(agents)
    made = _usual(mdp, settings) if named is None else makers(mdp, named, *settings)
    with Bar() as bar:

        def report(done: int, total: int) -> None:
            bar.show(f"{done} of {total} runs", done / total)

        result = compare_on(mdp, made, episodes, seeds, epsilon, workers=workers, progress=report)
    if json:
        about = {"problem": problem, "delta": delta, "scale": scale}
        print_json(about | summary(result) | {"seconds": perf_counter() - started})
    else:
        print_summary(problem, mdp, result, delta)
    standings = result.standings()
    if plot is not None and standings:
        plot_comparison(result, standings, f"{problem}, {_scaled(result)}", plot, force)
        if not json:
            print_lines({"figure": plot})
    for failure in result.failures:
        print(f"ucfh: {failure.agent}, seed {failure.seed}: {failure.reason}", file=sys.stderr)
    if result.interrupted:
        print(
            f"ucfh: interrupted; this is what was run until then: {result.complete} of {seeds} "
            "seeds with all learners",
            file=sys.stderr,
        )
        raise typer.Exit(exit_code())
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
    """The usual learners, without those that do not fit the problem."""
    from ucfh.comparison.runner import makers

    found: dict[str, Maker] = {}
    for name in USUAL:
        try:
            found |= makers(mdp, [name], *settings)
        except InputError as error:
            print(f"ucfh: left out: {error}", file=sys.stderr)
    return found


def _scaled(result: Comparison) -> str:
    """How many seeds, and by what bonuses were scaled."""
    scales = sorted({x.scale for x in result.outcomes} - {1.0})
    said = "" if not scales else f", scale {', '.join(f'{x:g}' for x in scales)}"
    return f"{result.seeds} seeds, epsilon {result.epsilon:g}{said}"


def summary(result: Comparison) -> dict[str, Any]:
    """A comparison for programs."""
    from ucfh import __version__

    return {
        "agents": [_summary_of(standing) for standing in result.standings()],
        "grid": result.grid.tolist(),
        "episodes": result.episodes,
        "seeds": result.seeds,
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


def _summary_of(standing: Standing) -> dict[str, Any]:
    from ucfh._support.statistics import LEVEL

    place = standing.place
    runs = [{name: getattr(x, name) for name in ("seed", *NUMBERS)} for x in standing.outcomes]
    curves = {
        name: dict(zip(("q1", "median", "q3"), standing.curve(curve).tolist(), strict=True))
        for name, curve in (("regret", "regret_curve"), ("mistakes", "mistakes_curve"))
    }
    return {
        "agent": place.agent,
        "rank": [place.first, place.last],
        "p": place.p,
        "best": place.p is None or place.p > 1 - LEVEL,
        "scale": standing.outcomes[0].scale,
        "constants": standing.outcomes[0].constants,
        **{name: standing.of(name)._asdict() for name in NUMBERS},
        "curves": curves,
        "runs": runs,
    }


def print_summary(problem: str, mdp: MDP, result: Comparison, delta: float) -> None:
    """A comparison for a person."""
    standings = result.standings()
    lines = {
        "problem": f"{problem}: {mdp.states} states, {mdp.actions} actions, {mdp.horizon} steps",
        "compared": f"{len(result.agents)} learners, {result.episodes} episodes, {result.seeds} "
        f"seeds; epsilon {result.epsilon:g}, delta {delta:g}",
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
    _print_table(standings, result)
    print()
    _print_notes(standings, result.episodes)
    _print_constants(standings)


def _print_table(standings: list[Standing], result: Comparison) -> None:
    columns: dict[str, Callable[[Standing], str]] = {
        "rank": lambda x: f"{x.place.first}" + f"-{x.place.last}" * (x.place.last > x.place.first),
        "learner": lambda x: x.place.agent,
        "regret": lambda x: _show(x.of("regret")),
        "mistakes": lambda x: _show(x.of("mistakes")),
        "last mistake": lambda x: _show(x.of("last_mistake"), most=result.episodes),
        "planning": lambda x: f"{x.of('planning_seconds').median:.2f} s",
        "p": lambda x: "best" if x.place.p is None else f"{x.place.p:.1g}",
    }
    if any(outcome.samples for outcome in result.outcomes):
        columns["samples"] = lambda x: _number(x.of("samples").median)
    if len(result.outcomes) < len(result.agents) * result.seeds:
        columns["seeds"] = lambda x: str(len(x.outcomes))
    table = [list(columns), *([cell(x) for cell in columns.values()] for x in standings)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [
            cell.ljust(width) if name == "learner" else cell.rjust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ]
        print("  ".join(cells).rstrip())


def _print_notes(standings: list[Standing], episodes: int) -> None:
    from ucfh._support.statistics import LEVEL, seeds_needed

    coverage = min(x.of("regret").coverage for x in standings)
    few = "" if coverage >= LEVEL else f" (too few seeds for {LEVEL:.0%}: the whole range)"
    print(f"[ ]   {coverage:.1%} confidence interval of the median over all seeds{few}")
    if any(x.of("last_mistake").high >= episodes for x in standings):
        print("+     the last episode was still a mistake")
    best, *others = (x.place for x in standings)
    if others:
        print(
            "p     of the difference in regret, paired by seed: exact signed-rank test, corrected"
        )
        print("      for all pairs (Holm); rank: by the differences that are significant at 5 %")
        close = [place.agent for place in others if place.p is not None and place.p > 1 - LEVEL]
        needed = seeds_needed(len(standings))
        if max(len(x.outcomes) for x in standings) < needed:
            print(f"No difference can be significant with so few seeds: pass --seeds {needed}.")
        elif close:
            print(f"{best.agent} is not significantly better than: {', '.join(close)}")
        else:
            print(f"{best.agent} is significantly better than all others")


def _print_constants(standings: list[Standing]) -> None:
    """Whose constants were read, derived, chosen or are uncertain."""
    by_origin: dict[str, list[str]] = {}
    for x in sorted(standings, key=lambda x: _told_first(x.outcomes[0].constants)):
        told = _origins(x.outcomes[0].constants)
        by_origin.setdefault(told, []).append(x.place.agent)
    print("Where the learners' constants come from (one in full: ucfh agents NAME):")
    for told, agents in by_origin.items():
        print(f"  {told}: {', '.join(agents)}")


def _origins(constants: str) -> str:
    """The kinds of origin that a text names, in a few words."""
    from ucfh.agents.registry import origins

    return ", ".join(origins(constants)) or "none"


def _told_first(constants: str) -> list[int]:
    """Sorts texts by the origins that they name, published ones first."""
    from ucfh.agents.registry import ORIGINS, origins

    return [ORIGINS.index(origin) for origin in origins(constants)] or [len(ORIGINS)]


def _show(x: Interval, most: float | None = None) -> str:
    """A median with its interval; + where it is as large as can be."""
    median, low, high = (
        _number(value) + "+" * (most is not None and value >= most) for value in x[:3]
    )
    return median if low == high else f"{median} [{low}, {high}]"


def _number(value: float) -> str:
    """Three digits, or all of a whole part of up to six; no zeros in exponents.

    >>> [_number(x) for x in (0.0, 0.12345, 12.345, 123456.7, 2.5e15)]
    ['0', '0.123', '12.3', '123457', '2.5e15']
    """
    if 100 <= value < 1e6:
        return f"{value:.0f}"
    return f"{value:.3g}".replace("e+", "e").replace("e0", "e").replace("e-0", "e-")
