"""The lemmas and the theorem, line by line, on all problems with both kinds of constants."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from textwrap import fill
from typing import Any, NamedTuple

from ucfh._support.palette import COLOURS, GREY, MARKS
from ucfh.experiments.store import Result
from ucfh.report.section import Figure, Reading, TextTable
from ucfh.report.words import labels, listed, number, plural, times
from ucfh.verification import SURE

CALLED = {"paper": "printed", "corrected": "corrected"}


class ClaimRow(NamedTuple):
    """A line of `ucfh.verification`, and where it was measured."""

    problem: str
    variant: str
    lives: int
    claim: str
    predicted: float
    measured: float
    holds: bool
    proved: bool

    @property
    def margin(self) -> float:
        """How many times as large the prediction is; nan if there is nothing to divide."""
        if self.measured:
            return self.predicted / self.measured
        return inf if self.predicted else nan

    def told(self) -> str:
        """Where it was measured, and what was found there."""
        return (
            f"{self.problem}, {self.variant} constants: {number(self.measured)} measured, "
            f"{number(self.predicted)} predicted"
        )


def read(results: Sequence[Result]) -> Reading:
    """Which claims hold, and how much room they leave."""
    names = labels(result.arguments["problem"] for result in results)
    seen = [
        ClaimRow(
            names[result.arguments["problem"]],
            CALLED.get(result.arguments["variant"], result.arguments["variant"]),
            result.arguments["runs"],
            **{**line, "measured": inf if line["measured"] is None else line["measured"]},
        )
        for result in results
        for line in result.values["lines"]
    ]
    lives = sum(result.arguments["runs"] for result in results)
    where = f"{plural(lives, 'lifetime')} on {plural(len(names), 'problem')}"
    paragraphs = [_finding(seen, where), _room(seen), _doubts(seen)]
    drawn = [x for x in seen if x.margin > 0]
    figures = [_figure(drawn)] if drawn else []
    return Reading([text for text in paragraphs if text], figures, [_table(seen)])


def _finding(seen: list[ClaimRow], where: str) -> str:
    proved = [x for x in seen if x.proved]
    failed = [x for x in proved if not x.holds]
    if not proved:
        text = f"No proved claim is checked here, over {where}"
    elif not failed:
        text = f"All {len(proved)} checks of proved claims hold, over {where}"
    else:
        text = (
            f"{len(failed)} of {len(proved)} checks of proved claims fail, over {where}: "
            + "; ".join(f"{_mid(x.claim)} ({x.told()})" for x in failed)
        )
    printed = [x for x in seen if not x.proved]
    beyond = [x for x in printed if not x.holds]
    if not printed:
        return text + "."
    if not beyond:
        return f"{text}, and so do {len(printed)} checks of claims that are only printed."
    claims = list(dict.fromkeys(x.claim for x in beyond))
    parts = []
    for claim in claims:
        of = [x for x in beyond if x.claim == claim]
        worst = min(of, key=lambda x: x.margin)
        asked = sum(x.claim == claim for x in printed)
        parts.append(
            f'"{_mid(claim)}" fails in {len(of)} of {asked} checks, at worst on {worst.problem} '
            f"with {number(worst.measured)} where {number(worst.predicted)} are allowed"
        )
    return f"{text}; of claims that are only printed, {listed(parts)}."


def _mid(claim: str) -> str:
    """A claim within a sentence, which a full stop would end."""
    return claim.rstrip(".")


def _room(seen: list[ClaimRow]) -> str:
    """The least and the most room among proved claims."""
    finite = [x for x in seen if x.proved and 0 < x.margin < inf]
    if not finite:
        return ""
    tight = min(finite, key=lambda x: x.margin)
    loose = max(finite, key=lambda x: x.margin)
    text = f'The tightest proved claim is "{tight.claim}" ({tight.told()}). '
    if tight.margin == 1:
        text += "It is met exactly: a smaller bound would fail. "
    if loose.margin > tight.margin:
        text += (
            f'The loosest is "{loose.claim}" ({loose.told()}): the prediction is '
            f"{times(loose.margin)} as large as the measurement."
        )
    return text.strip()


def _doubts(seen: list[ClaimRow]) -> str:
    """What a few lifetimes cannot show."""
    lost = [x for x in seen if x.claim.startswith("Lemma 1")]
    text = (
        "One phase is enough to refute a claim about single phases. A claim with a probability is "
        f"refuted by an exact binomial test at the level {number(SURE)}, which a few lifetimes "
        "rarely reach: that it holds here does not show how rarely it fails."
    )
    if not lost:
        return text
    lives = sum(x.lives for x in lost)
    left = sum(round(x.measured * x.lives) for x in lost)
    allowed = max(x.predicted for x in lost)
    text += f" The true model left the sets in {left} of {plural(lives, 'lifetime')}"
    if left:
        return f"{text}, where Lemma 1 allows a share of {number(allowed)}."
    limit = 1 - 0.05 ** (1 / lives)
    return (
        f"{text}, so with 95 % confidence it does so in a share of lifetimes below "
        f"{number(limit, 2)}; Lemma 1 allows {number(allowed)}."
    )


def _table(seen: list[ClaimRow]) -> TextTable:
    variants = list(dict.fromkeys(x.variant for x in seen))
    columns = ["claim"]
    for variant in variants:
        columns += [f"{variant}: holds", "least margin", "on"]
    rows = []
    for claim in dict.fromkeys(x.claim for x in seen):
        row = [claim]
        for variant in variants:
            row += _cells([x for x in seen if x.claim == claim and x.variant == variant])
        rows.append(row)
    caption = (
        "Each claim on all problems. The margin is the prediction divided by the measurement: "
        "below 1 the prediction is exceeded; inf means that the measurement is 0, - that both are "
        "0. A star marks claims that are printed but not proved: they may fail."
    )
    return TextTable(caption, columns, rows)


def _cells(of: list[ClaimRow]) -> list[str]:
    """On how many problems a claim holds, the least margin, and where that is."""
    if not of:
        return ["-", "-", "-"]
    star = "" if all(x.proved for x in of) else "*"
    holds = f"{sum(x.holds for x in of)} of {len(of)}{star}"
    known = [x for x in of if x.margin >= 0]
    if not known:
        return [holds, "-", "-"]
    least = min(known, key=lambda x: x.margin)
    every = all(x.margin == least.margin for x in known) and len(known) > 1
    return [holds, number(least.margin), "all" if every else least.problem]


def _figure(drawn: list[ClaimRow]) -> Figure:
    claims = list(dict.fromkeys(x.claim for x in drawn))
    finite = [x.margin for x in drawn if x.margin < inf]
    far = 10 * max([1.0, *finite])
    near = min([1.0, *finite]) / 3
    below = sum(x.margin < 1 for x in drawn)
    most = number(max(finite), 2) if finite else "inf"

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.axvspan(near, 1, color=GREY, alpha=0.15, lw=0)
        axes.axvline(1, color=GREY, lw=1)
        for k, variant in enumerate(dict.fromkeys(x.variant for x in drawn)):
            of = [x for x in drawn if x.variant == variant]
            axes.plot(
                [min(x.margin, far) for x in of],
                [claims.index(x.claim) + 0.32 * (k - 0.5) for x in of],
                ls="none", marker=MARKS[k % len(MARKS)], color=COLOURS[k % len(COLOURS)],
                mfc="none", mew=1.5, ms=7, label=f"{variant} constants",
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlim(near, 3 * far)
        axes.set_ylim(len(claims) - 0.5, -0.5)
        axes.set_yticks(range(len(claims)), [fill(x, 27) for x in claims], fontsize=9)
        _ticks(axes, far if any(x.margin == inf for x in drawn) else None)
        axes.set_xlabel("predicted / measured (grey: exceeded)")
        axes.grid(alpha=0.25)
        figure.legend(loc="outside upper center", ncols=2, frameon=False)

    caption = (
        "How much room each claim leaves: predicted over measured, one mark per problem. "
        + ("No claim is exceeded." if not below else f"{below} of {len(drawn)} are exceeded.")
        + " Marks at inf: the measurement is 0."
    )
    alt = (
        f"Marks for {plural(len(claims), 'claim')}, over the ratio of prediction to measurement on"
        f" a logarithmic axis from {number(min([1.0, *finite]), 2)} to {most}; {below} of "
        f"{len(drawn)} lie below 1."
    )
    return Figure("claims", caption, alt, draw, 1.3 + 0.42 * len(claims))


def _ticks(axes: Any, inf_at: float | None) -> None:
    """Powers of ten, few, and a place for infinity."""
    low, high = axes.get_xlim()
    exponents = [k for k in range(-30, 60) if low <= 10.0**k <= high]
    shown = {10.0**k: f"$10^{{{k}}}$" for k in exponents[:: max(1, -(-len(exponents) // 6))]}
    shown[1.0] = "1"
    if inf_at is not None:
        shown = {x: text for x, text in shown.items() if x < inf_at / 5} | {inf_at: "inf"}
    axes.set_xticks(list(shown), list(shown.values()), fontsize=9)
    axes.minorticks_off()
