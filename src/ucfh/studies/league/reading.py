"""Who stops first, how far from the floor, and whether the policies that are named are right."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from statistics import fmean

from ucfh._support.statistics import LEVEL, share_bound
from ucfh.experiments.store import Result
from ucfh.report.section import Reading, TextTable
from ucfh.report.words import bars, listed, number, plural, span, times
from ucfh.studies.league.figure import figure
from ucfh.studies.league.standings import (
    GIVEN_MORE,
    LEAST,
    Contest,
    Score,
    Standings,
    is_wrong,
    learner_of,
    loss,
    standings,
)


def read(results: Sequence[Result]) -> Reading:
    """The finding, the other learners, the floor, mistakes, and what is counted otherwise."""
    found = standings(results)
    paragraphs = [_floors(found)]
    if found.scores:
        paragraphs = [_first(found), _others(found), *paragraphs, _right(found), _counted(found)]
    tables = [_by_problem(found)] if found.floors else []
    if found.scores:
        tables = [_medians(found), *tables, _by_rule(found)]
    figures = [figure(found)] if found.scores else []
    return Reading([text for text in paragraphs if text], figures, tables)


def _first(found: Standings) -> str:
    """Which rule stops first, where, and how clearly."""
    lead = found.lead
    led = [contest for contest, rule in found.first.items() if rule == lead]
    ends = [found.scores[contest][lead].episodes.median for contest in led]
    clear = sum(_is_clear(found.scores[contest], lead) for contest in led)
    text = (
        f"{lead} stops first on {len(led)} of {plural(len(found.scores), 'problem')}, after "
        f"{span(ends)} episodes (medians). "
    )
    if clear:
        text += (
            f"On {clear} of {'them' if len(led) > 1 else 'it'}, the interval of its median lies "
            "below those of all other rules. "
        )
    elsewhere = [
        f"{rule} on {found.names[contest]} ({_cell(found.scores[contest][rule])} against "
        f"{_cell(found.scores[contest].get(lead))})"
        for contest, rule in found.first.items()
        if rule != lead
    ]
    if elsewhere:
        text += f"Elsewhere others do: {listed(elsewhere)}. "
    return text.strip()


def _is_clear(rules: dict[str, Score], lead: str) -> bool:
    """Whether the interval of the leader is below all others, and those are true intervals."""
    others = [one.episodes for rule, one in rules.items() if rule != lead]
    own = rules[lead].episodes
    sure = all(x.coverage >= LEVEL for x in [own, *others])
    return bool(others) and sure and own.high < min(x.low for x in others)


def _others(found: Standings) -> str:
    """The learners of other papers beside the leader: which takes fewest, and which most."""
    text = ""
    for rewards, noun in (("told", "the other learners"), ("hidden", "those for hidden rewards")):
        ratios = _ratios(found, [contest for contest in found.scores if contest.rewards == rewards])
        order = sorted(ratios, key=lambda rule: fmean(map(log, ratios[rule])))
        if order:
            text += (
                f"Of {noun} that learn from episodes, {order[0]} takes "
                f"{'the fewest, ' if order[1:] else ''}{_times(ratios[order[0]])} as many as "
                f"{found.lead} (on {plural(len(ratios[order[0]]), 'problem')})"
            )
            text += (
                f", and {order[-1]} the most, {_times(ratios[order[-1]])}. " if order[1:] else ". "
            )
    return text.strip()


def _ratios(found: Standings, contests: list[Contest]) -> dict[str, list[float]]:
    """How many times as many episodes as the leader other learners take, on these problems.

    Only of those that stop on most problems: ratios on other problems do not compare.
    """
    ratios: dict[str, list[float]] = {}
    for rules in (found.scores[contest] for contest in contests):
        own = rules.get(found.lead)
        for rule, one in rules.items():
            other = learner_of(rule) != learner_of(found.lead) and not one.by_samples
            if own is not None and other and not own.cut and not one.cut:
                ratio = one.episodes.median / own.episodes.median
                ratios.setdefault(rule, []).append(ratio)
    most = max(map(len, ratios.values()), default=0)
    return {rule: known for rule, known in ratios.items() if len(known) == most}


def _times(ratios: Sequence[float]) -> str:
    return f"{span(ratios, 2)} times"


def _floors(found: Standings) -> str:
    """How few episodes could be enough, and how far the leader and the printed bound are."""
    contests = [contest for contest in found.floors if found.floor(contest) is not None]
    text = ""
    if contests:
        floors = [x for contest in contests if (x := found.floor(contest)) is not None]
        text = (
            f"On {len(contests)} of {plural(len(found.floors), 'problem')} the floor is at least "
            f"one episode: a valid rule needs, in the mean, no fewer than {span(floors, 2)}. "
        )
        far = [
            x
            for contest in contests
            if contest in found.scores and (x := found.distance(contest, found.lead)) is not None
        ]
        if far:
            text += (
                f"{found.lead} takes {_times(far)} as many; how few a rule can reach is not known. "
            )
        bounds = [
            found.floors[contest]["bound"] / floor
            for contest, floor in zip(contests, floors, strict=True)
            if found.floors[contest]["bound"] is not None
        ]
        if bounds:
            text += f"What Theorem 1 allows UCFH as printed is {_times(bounds)} the floor. "
    return (text + _low_floors(found) + _classes(found)).strip()


def _low_floors(found: Standings) -> str:
    """Where the floor says nothing, and why that may be."""
    none = [found.names[contest] for contest, x in found.floors.items() if x["floor"] == 0]
    low = [found.names[contest] for contest, x in found.floors.items() if 0 < x["floor"] < LEAST]
    text = ""
    if none:
        text += (
            f"On {listed(none)} the floor is 0: for every model that was tried, some policy is "
            "within epsilon there and in the true one, so that a rule might need no data. "
        )
    if low:
        text += (
            f"On {listed(low)} it is less than one episode, since a model that would make another "
            "policy necessary is far from the true one. "
        )
    return text + ("There, no distance is given. " if text else "")


def _classes(found: Standings) -> str:
    """Floors of the hard class beside those of its problems."""
    told = []
    for contest, x in found.floors.items():
        if x["class_floor"] is not None:
            higher = "lower" if x["class_floor"] < x["floor"] else "no lower"
            told.append(
                f"{number(x['class_floor'], 2)} for {found.names[contest]} ({higher} than its own)"
            )
    if not told:
        return ""
    return f"On the worst problem of the same hard class the floor is at least {listed(told)}."


def _right(found: Standings) -> str:
    """Whether named policies were within epsilon, rule by rule."""
    stops = {
        rule: [run for one in found.of(rule) for run in one.runs if run.values["certified"]]
        for rule in found.rules
    }
    stops = {rule: runs for rule, runs in stops.items() if runs}
    if not stops:
        return ""
    every = [run for runs in stops.values() for run in runs]
    wrong = sum(map(is_wrong, every))
    shares = {rule: share_bound(sum(map(is_wrong, x)), len(x)) for rule, x in stops.items()}
    delta = min(run.arguments["delta"] for run in every)
    largest = max(loss(run) / run.arguments["epsilon"] for run in every)
    text = (
        f"{wrong or 'None'} of {plural(len(every), 'stop')} named a policy that is worse than "
        f"epsilon; the largest loss was {number(100 * largest, 2)} % of epsilon. "
    )
    over = [rule for rule, share in shares.items() if share > delta]
    if not over:
        text += (
            f"For each rule, the share of wrong stops is below {number(max(shares.values()), 2)} "
            f"({100 * LEVEL:.0f} % confidence, exact), and delta allows {number(delta)}. "
        )
    else:
        which = listed(over) if len(over) < len(shares) else "all rules"
        text += (
            f"For {which} these are too few runs, or too many wrong ones, to say that the "
            f"share of wrong stops is below delta = {number(delta)}. "
        )
    return text.strip()


def _counted(found: Standings) -> str:
    """Samples, policies that are given, and runs that were cut off."""
    sampled = [rule for rule in found.rules if any(one.by_samples for one in found.of(rule))]
    text = ""
    if sampled:
        runs = [run for rule in sampled for one in found.of(rule) for run in one.runs]
        text += (
            f"{listed(sampled)} ask a generative model for "
            f"{span(run.values['samples'] for run in runs)} samples, shown divided by H: it gives "
            "a successor of any state and action, without reaching it first. "
        )
    if GIVEN_MORE in found.rules:
        text += f"{GIVEN_MORE} is given, for each state, a policy that reaches it. "
    if text:
        text += "So the floor, which is about rules that are told less, is not about these. "
    cut = [
        run
        for rule in found.rules
        for one in found.of(rule)
        for run in one.runs
        if not run.values["certified"]
    ]
    if cut:
        by = listed(sorted({run.arguments["agent"].partition(":")[0] for run in cut}))
        text += (
            f"{plural(len(cut), 'run')} of {by} reached the limit of "
            f"{span(run.arguments['most'] for run in cut)} episodes without stopping."
        )
    return text.strip()


def _cell(one: Score | None) -> str:
    """A median as text; > if it is too small."""
    return "-" if one is None else ("> " if one.cut else "") + number(one.episodes.median)


def _medians(found: Standings) -> TextTable:
    contests = list(found.scores)
    rows = [
        [rule, *(_cell(found.scores[contest].get(rule)) for contest in contests)]
        for rule in found.rules
    ]
    if found.floors:
        known = [found.floors.get(contest) for contest in contests]
        bounds = [None if x is None else x["bound"] for x in known]
        floors = ["-" if x is None else number(x["floor"], 2) for x in known]
        rows = [["floor", *floors], *rows]
        rows.append(["ucfh, its bound", *("-" if x is None else number(x) for x in bounds)])
    caption = (
        "Median number of episodes until a rule stops, those that stop first at the top (by the "
        "median over problems of how many times as many they take as the best one); samples are "
        "divided by H. A > marks medians that are known to be larger: runs were cut off."
    )
    return TextTable(caption, ["rule", *(found.names[contest] for contest in contests)], rows)


def _by_problem(found: Standings) -> TextTable:
    rows = []
    for contest, known in found.floors.items():
        first, fewest, far = "-", "-", None
        if contest in found.scores:
            first = found.first[contest]
            one = found.scores[contest][first]
            fewest = f"{_cell(one)} ({number(one.episodes.low)} to {number(one.episodes.high)})"
            far = found.distance(contest, first)
        rows.append(
            [
                _label(contest, found), number(known["floor"], 2), first, fewest,
                "-" if far is None else times(far),
                "-" if known["bound"] is None else number(known["bound"]),
            ]
        )  # fmt: skip
    intervals = [
        rules[found.first[contest]].episodes
        for contest, rules in found.scores.items()
        if contest in found.floors
    ]
    shown = f" (in brackets: {bars(intervals)})" if intervals else ""
    caption = (
        f"By problem: the floor, the rule that stops first, its median number of episodes{shown} "
        "and how many times the floor its mean is; and what Theorem 1 allows UCFH as printed."
    )
    columns = ["problem", "floor", "first", "episodes", "of the floor", "ucfh, its bound"]
    return TextTable(caption, columns, rows)


def _label(contest: Contest, found: Standings) -> str:
    return f"{found.names[contest]}, eps {number(contest.epsilon)}"


def _by_rule(found: Standings) -> TextTable:
    rows = []
    for rule in found.rules:
        scores = found.of(rule)
        runs = [run for one in scores for run in one.runs]
        stops = [run for run in runs if run.values["certified"]]
        wrong = sum(map(is_wrong, stops))
        far = [x for contest in found.scores if (x := found.distance(contest, rule)) is not None]
        wide = max(
            max(one.episodes.high / one.episodes.median, one.episodes.median / one.episodes.low)
            for one in scores
        )
        rows.append(
            [
                rule, f"{len(stops)} of {len(runs)}", str(wrong),
                number(100 * share_bound(wrong, len(stops)), 2) if stops else "-",
                _times(far) if far else "-", f"{100 * (wide - 1):.0f} %",
            ]
        )  # fmt: skip
    caption = (
        "By rule: how many runs stopped; how many of these named a policy that is worse than "
        f"epsilon, and what share in per cent that can be at most ({100 * LEVEL:.0f} % confidence, "
        "exact); the mean number of episodes divided by the floor, where that is at least one; and "
        "how far an interval of a median reaches from it at most. Rules test whether to stop after "
        "every 2 % more episodes, so that many runs stop at the same one: intervals can have no "
        "width."
    )
    columns = ["rule", "stopped", "wrong", "at most, %", "of the floor", "interval"]
    return TextTable(caption, columns, rows)
