"""Counting by stage compared with pooling over t, and what a policy that ignores t loses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite, nan
from typing import Any, NamedTuple

from ucfh._support.statistics import Interval, median_interval
from ucfh.experiments.store import Result
from ucfh.report.ratios import Dot, draw_dots, legend, with_interval
from ucfh.report.section import Figure, Reading, TextTable
from ucfh.report.words import labels, number, plural, span, unseeded
from ucfh.studies.stationarity.clocks import (
    Shares,
    figure_of_policies,
    on_policies,
    percent,
    shares_of,
    table_of_policies,
)

MISTAKES, CERTIFICATE = "mistakes", "certificate"
HORIZON, BOUND = "predicted: H", "predicted: Theorem 1"

Measured = Mapping[str, Any]


class Factor(NamedTuple):
    """The ratio of counting by stage to pooling over t, on one problem.

    Attributes:
        kind: `MISTAKES`, or `CERTIFICATE` and the set.
        problem: its name.
        pairs: pairs of runs, one by stage and one pooled, that could be compared.
        left_out: pairs that could not: no certificate, endless mistakes, or no mistakes.
        median, low, high, coverage: of the ratios; nan where there is none.
        bound, m, w_min: the ratios of what Theorem 1 allows, and of constants; nan without them.
        horizon: H.

    """

    kind: str
    problem: str
    pairs: int
    left_out: int
    median: float
    low: float
    high: float
    coverage: float
    bound: float
    m: float
    w_min: float
    horizon: int

    @property
    def wait(self) -> float:
        """The ratio of m w_min, the visits of a pair that an update waits for."""
        return self.m * self.w_min


def read(results: Sequence[Result]) -> Reading:
    """Compare ways to count, and then policies."""
    factors = _factors(results)
    shares = shares_of(results)
    seen = [_finding(factors, shares), *_on_counting(factors), *on_policies(shares)]
    figures = [figure_of_policies(shares)] if shares else []
    if any(factor.median > 0 for factor in factors):
        figures.append(_figure_of_factors(factors))
    tables = [_table_of_factors(factors)] if factors else []
    if shares:
        tables.append(table_of_policies(shares))
    return Reading(seen, figures, tables)


def _factors(results: Sequence[Result]) -> list[Factor]:
    """Runs by stage over pooled ones, replicate by replicate, which are independent."""
    runs: dict[tuple[str, str, str], dict[bool, dict[tuple[str, int], Measured]]] = {}
    for result in results:
        a, values = dict(result.arguments), result.values
        if "stages" in a:
            kind = MISTAKES if "mistakes" in values else f"{CERTIFICATE}, {a['confidence']}"
            stages, problem = a.pop("stages"), a.pop("problem")
            key = kind, unseeded(problem), repr(sorted(a.items()))
            by = runs.setdefault(key, {False: {}, True: {}})
            by[stages][problem, result.replicate] = values
    names = labels(problem for _, problem, _ in runs)
    found = []
    for (kind, problem, _), by in runs.items():
        shared = sorted(by[False].keys() & by[True].keys())
        pairs = [(by[True][key], by[False][key]) for key in shared]
        if not pairs:
            continue
        ratios = [x for pair in pairs if isfinite(x := _ratio(pair, _cost))]
        middle = median_interval(ratios) if ratios else Interval(nan, nan, nan, 0.0)
        if not middle.coverage:
            middle = middle._replace(low=nan, high=nan)
        bound, m, w_min = (_ratio(pairs[0], _value(name)) for name in ("bound", "m", "w_min"))
        left_out, horizon = len(pairs) - len(ratios), pairs[0][0]["horizon"]
        sizes = len(ratios), left_out
        found.append(Factor(kind, names[problem], *sizes, *middle, bound, m, w_min, horizon))
    return found


def _ratio(pair: tuple[Measured, Measured], what: Callable[[Measured], float | None]) -> float:
    """By stage over pooled; nan where there is none."""
    one, other = (what(run) for run in pair)
    return nan if one is None or not other else one / other


def _value(name: str) -> Callable[[Measured], float | None]:
    return lambda run: run.get(name)


def _cost(run: Measured) -> float | None:
    """Mistakes, or episodes to a certificate; None if they never end or there is none."""
    if "certified" in run:
        return float(run["episodes"]) if run["certified"] else None
    return None if run["mistakes"] is None else float(run["mistakes"])


def _spans(factors: Sequence[Factor]) -> str:
    return span(factor.median for factor in factors)


def _split(factors: Sequence[Factor]) -> tuple[list[Factor], list[Factor]]:
    """Factors of mistakes and factors of certificates, if they have a ratio."""
    known = [factor for factor in factors if factor.pairs]
    return (
        [factor for factor in known if factor.kind == MISTAKES],
        [factor for factor in known if factor.kind != MISTAKES],
    )


def _finding(factors: Sequence[Factor], shares: Shares) -> str:
    """The main finding in one sentence, and how many runs it is based on."""
    mistakes, certificates = _split(factors)
    parts = []
    if mistakes:
        allowed = span(factor.bound for factor in mistakes)
        parts.append(
            f"counting by stage made {_spans(mistakes)} times the mistakes of pooling over t"
            + (f", where Theorem 1 allows {allowed} times" if allowed != "-" else "")
        )
    if certificates:
        horizons = span(factor.horizon for factor in certificates)
        what = "by stage a certificate took" if mistakes else "counting by stage took"
        rest = "the episodes" if mistakes else "the episodes of pooling over t to a certificate"
        parts.append(f"{what} {_spans(certificates)} times {rest} (H is {horizons})")
    if shares:
        worst = min(share for some in shares.values() for share in some.values())
        parts.append(
            f"the best policy that does not look at t earns {percent(worst.share)} of the optimum "
            "at worst"
        )
    if not parts:
        return "There is nothing to compare yet."
    text = "; ".join(parts)
    text = f"{text[0].upper()}{text[1:]}."
    known = [*mistakes, *certificates]
    if known:
        coverage = min(factor.coverage for factor in known)
        text += (
            f" Ratios are medians over {span(factor.pairs for factor in known)} pairs of runs; "
            f"their intervals hold with probability {number(coverage)} or more."
            if coverage
            else " Some ratios come from a single pair of runs, and have no interval."
        )
    return text


def _on_counting(factors: Sequence[Factor]) -> list[str]:
    """What was measured of both kinds of factors, compared with H and with Theorem 1."""
    mistakes, certificates = _split(factors)
    paragraphs = []
    if mistakes:
        units = [factor.median / factor.wait for factor in mistakes]
        paragraphs.append(
            f"Mistakes: {_sides(mistakes)}. The theory predicts a factor of H, "
            f"here {span(factor.horizon for factor in mistakes)}, and logarithms, because by stage "
            "there are H times as many states. But two effects are opposed. An update waits "
            f"for m w_min visits of a pair: m is {span(factor.m for factor in mistakes)} times as "
            f"large by stage and w_min {span(factor.w_min for factor in mistakes)} times, so that "
            f"each wait is {span(factor.wait for factor in mistakes)} times as long. And there are "
            f"more pairs to wait for: in units of m w_min, mistakes are {span(units)} times as "
            "many."
        )
    if certificates:
        full = [factor for factor in certificates if factor.median >= factor.horizon]
        paragraphs.append(
            f"Certificates, which do not wait for m w_min visits: {_sides(certificates)}. The "
            f"ratio is H or more in {len(full)} of {plural(len(certificates), 'case')}. Where a "
            "state occurs at few steps only, there is little to pool."
        )
    left_out = sum(factor.left_out for factor in factors)
    if left_out:
        paragraphs.append(
            f"{plural(left_out, 'pair')} of runs could not be compared: a run had no certificate "
            "in time, made endless mistakes, or made none."
        )
    return paragraphs


def _sides(factors: Sequence[Factor]) -> str:
    """How many intervals are above 1 and how many below."""
    known = [factor for factor in factors if factor.coverage]
    if not known:
        return f"{_spans(factors)} times, without intervals"
    more = sum(factor.low > 1 for factor in known)
    fewer = sum(factor.high < 1 for factor in known)
    return (
        f"of {plural(len(known), 'interval')}, {more} {'lies' if more == 1 else 'lie'} above 1 "
        f"(counting by stage takes more) and {fewer} below"
    )


def _table_of_factors(factors: Sequence[Factor]) -> TextTable:
    rows = [
        [
            factor.problem,
            factor.kind,
            with_interval(factor.median, factor.low, factor.high),
            str(factor.horizon),
            number(factor.bound),
            number(factor.wait),
            str(factor.pairs),
        ]
        for factor in factors
    ]
    return TextTable(
        "Mistakes, or episodes to a certificate, with counting by stage relative to pooling over "
        "t: medians of ratios, with exact intervals (95 %; with fewer than six pairs, the range). "
        "Beside them H, and the same ratios of Theorem 1's number and of m w_min.",
        ["problem", "of", "by stage over pooled", "H", "Theorem 1", "m w_min", "pairs"],
        rows,
    )


def _figure_of_factors(factors: Sequence[Factor]) -> Figure:
    dots = []
    for factor in factors:
        dots.append(Dot(factor.problem, factor.kind, factor.median, factor.low, factor.high))
        dots.append(Dot(factor.problem, HORIZON, float(factor.horizon)))
        dots.append(Dot(factor.problem, BOUND, factor.bound))
    dots = list(dict.fromkeys(dot for dot in dots if dot.drawable))
    kinds = list(dict.fromkeys(dot.kind for dot in dots))
    kinds.sort(key=[*(k for k in kinds if k not in (HORIZON, BOUND)), HORIZON, BOUND].index)
    rows = {dot.row for dot in dots}
    height = 1.4 + 0.6 * len(rows)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        draw_dots(axes, dots, kinds)
        axes.set_xlabel("counting by stage relative to pooling over t")
        legend(figure, kinds, 3)

    values = {kind: span(dot.value for dot in dots if dot.kind == kind) for kind in kinds}
    return Figure(
        "stationarity-counting",
        "Mistakes, and episodes to a certificate, with counting by stage relative to pooling over "
        "t, beside H and the ratio of Theorem 1's number. Lines are intervals of medians.",
        "Ratios on a logarithmic axis, by problem: "
        + "; ".join(f"{kind} {text}" for kind, text in values.items())
        + ".",
        draw,
        height,
    )
