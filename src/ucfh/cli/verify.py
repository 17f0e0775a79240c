"""``ucfh verify``."""

from __future__ import annotations

from dataclasses import asdict
from math import isinf
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ucfh._utils.defaults import DELTA
from ucfh.cli.options import AsJson, Delta, Epsilon
from ucfh.cli.printing import print_json
from ucfh.cli.progress import ProgressBar
from ucfh.exceptions import check_count, check_unit, unknown

if TYPE_CHECKING:
    from ucfh.simulation.verification import ClaimCheck

SMALL = ("chain:n=5", "riverswim:n=4,horizon=6", "hard:n=3,actions=2,horizon=5,gap=0.25")
"""Problems that are verified if none are named."""

VARIANTS: tuple[Literal["paper", "corrected"], ...] = ("paper", "corrected")
REFUTED = 1
"""The exit code if a proved claim fails."""


def verify(
    problems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROBLEM",
            help="names (see: ucfh problems) or model files; default: three small ones",
            show_default=False,
        ),
    ] = None,
    epsilon: Epsilon = 0.2,
    delta: Delta = DELTA,
    variant: Annotated[
        str, typer.Option(help="constants to use: paper, corrected, or both")
    ] = "both",
    runs: Annotated[int, typer.Option(help="number of full runs on each problem")] = 5,
    seed: Annotated[int, typer.Option(help="random seed of the first run")] = 0,
    json: AsJson = False,
) -> None:
    """Check the paper's lemmas and theorem on simulated full runs.

    Prints the prediction, the measurement and the margin of each claim. Published claims that are
    wrong or unproved are included, and may fail. Exit code 1 if a proved claim fails.

    \b
    Examples:
      ucfh verify
      ucfh verify chain:n=5 --epsilon 0.5 --variant corrected --runs 20
    """
    from ucfh import __version__
    from ucfh.problems import make
    from ucfh.simulation.verification import verify as verify_on

    check_unit("epsilon", epsilon)
    check_unit("delta", delta)
    check_count("runs", runs)
    if variant not in (*VARIANTS, "both"):
        raise unknown("variant", variant, (*VARIANTS, "both"))
    problems_by_name = {name: make(name) for name in problems or SMALL}
    chosen = [x for x in VARIANTS if variant in (x, "both")]
    results: list[dict[str, Any]] = []
    failed = False
    for name, mdp in problems_by_name.items():
        for kind in chosen:
            with ProgressBar() as bar:

                def report(
                    done: int, bar: ProgressBar = bar, title: str = f"{name}, {kind}"
                ) -> None:
                    bar.show(f"{title}: {done} of {runs} runs", done / runs)

                lines = verify_on(mdp, epsilon, delta, kind, runs=runs, seed=seed, progress=report)
            failed |= any(line.proved and not line.holds for line in lines)
            if not json:
                _print(f"{name}, {kind} constants, {runs} runs", lines)
            results.append(
                {"problem": name, "variant": kind, "lines": [_as_dict(line) for line in lines]}
            )
    if json:
        about = {"epsilon": epsilon, "delta": delta, "runs": runs, "seed": seed}
        print_json({**about, "verified": not failed, "results": results, "version": __version__})
    raise typer.Exit(REFUTED if failed else 0)


def _as_dict(line: ClaimCheck) -> dict[str, Any]:
    margin = None if isinf(line.margin) else line.margin
    return {**asdict(line), "margin": margin}


def _print(title: str, lines: list[ClaimCheck]) -> None:
    print(f"\n{title}")
    width = max(len(line.claim) for line in lines)
    print(f"  {'':{width}} {'predicted':>10} {'measured':>10} {'margin':>8}")
    for line in lines:
        margin = "-" if isinf(line.margin) else f"{line.margin:.3g}"
        says = "holds" if line.holds else "FAILS" if line.proved else "fails"
        says += "" if line.proved else " (not proved)"
        print(
            f"  {line.claim:{width}} {line.predicted:>10.4g} {line.measured:>10.4g} {margin:>8}  "
            + says
        )
