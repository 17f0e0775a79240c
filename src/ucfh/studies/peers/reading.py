"""Learners side by side: who learns, what each loses, and which differences are significant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from ucfh._support.statistics import LEVEL, NOISE, Interval, Place, ranking, seeds_needed
from ucfh.agents.certified import CertifiedUCFH
from ucfh.agents.registry import AGENTS, agent_class
from ucfh.experiments.store import Result
from ucfh.report.section import Reading, TextTable
from ucfh.report.words import bars, listed, number, plural, span
from ucfh.simulation.run import TOLERANCE
from ucfh.studies.peers.learners import (
    CERTIFIED,
    FLOOR,
    PRINTED,
    Field,
    RunsByReplicate,
    curves,
    dots,
    field_of,
    median_of,
)

Places = dict[str, dict[str, Place]]
"""By problem and learner, smallest median regret first."""

RIGHT = 1e-9
"""The largest share that rounding alone may lose."""


def read(results: Sequence[Result]) -> Reading:
    """Who learns, how much each loses, and which differences are significant."""
    field = field_of(results)
    places = {problem: _places(by_name) for problem, by_name in field.runs.items()}
    paragraphs = [_finding(field), _ours(field), _order(field, places), _samples(field)]
    tables = [_losses(field, places), _mistakes(field)] if field.runs else []
    tables += [_sampling(field)] if field.sampling else []
    tables += [table] if (table := _constants(field)).rows else []
    figures = [curves(field), dots(field)] if field.runs else []
    return Reading(
        [text for text in paragraphs if text],
        [figure for figure in figures if figure is not None],
        tables,
    )


def _places(by_name: dict[str, RunsByReplicate]) -> dict[str, Place]:
    regrets = {
        name: {replicate: run.values["regret"] for replicate, run in runs.items()}
        for name, runs in by_name.items()
    }
    return {place.agent: place for place in ranking(regrets)}


def _is_within(run: Result) -> bool:
    """Whether the last policy is within epsilon."""
    return bool(run.values["gap"] <= run.arguments["epsilon"] + TOLERANCE)


def _ends_well(runs: RunsByReplicate) -> bool:
    """Whether most runs end within epsilon."""
    return 2 * sum(map(_is_within, runs.values())) > len(runs)


def _never_moves(runs: RunsByReplicate) -> bool:
    """Whether every episode of every run lost the same, as if the policy never changed."""
    for run in runs.values():
        lost = run.arguments["episodes"] * run.values["regrets"][0] / run.values["after"][0]
        if abs(run.values["regret"] - lost) > 1e-6 * max(lost, 1.0):
            return False
    return True


def _finding(field: Field) -> str:
    names = [name for name in field.learners if name != FLOOR]
    if not names:
        return "No learner that learns from episodes has a result yet."
    well = {name: [_ends_well(runs) for runs in field.of(name).values()] for name in names}
    still = [name for name in names if all(map(_never_moves, field.of(name).values()))]
    everywhere = [name for name in names if all(well[name])]
    nowhere = [name for name in names if not any(well[name])]
    runs = [run for name in names for found in field.of(name).values() for run in found.values()]
    episodes = sorted({run.arguments["episodes"] for run in runs})
    unscaled = all(run.arguments["scale"] == 1 for run in runs)
    text = (
        f"After {listed([f'{n:,}' for n in episodes], 'or')} episodes with "
        f"{'unscaled' if unscaled else 'scaled'} constants, {len(everywhere)} of "
        f"{plural(len(names), 'learner')} {'follows' if len(everywhere) == 1 else 'follow'} a "
        "policy within epsilon of the optimum on every problem tried (in most runs), "
        f"{len(nowhere)} on none"
    )
    if PRINTED in names:
        text += ", and the printed UCFH " + (
            "still follows its first policy"
            if PRINTED in still
            else f"does on {sum(well[PRINTED])} of {plural(len(well[PRINTED]), 'problem')}"
        )
    text += ". "
    text += f"On every problem: {listed(everywhere)}. " if everywhere else ""
    some = [
        f"{name} ({sum(good)} of {len(good)})"
        for name, good in well.items()
        if any(good) and not all(good)
    ]
    text += f"On some problems: {listed(some)}. " if some else ""
    text += f"On no problem: {listed(nowhere)}. " if nowhere else ""
    still = [name for name in still if name != PRINTED]
    if still:
        text += (
            f"All episodes of {listed(still)} lost the same: constants that are made for proofs "
            "make them wait. "
        )
    return text.strip()


def _ours(field: Field) -> str:
    """How the printed algorithm does, and the variant with a certificate."""
    parts = []
    printed = field.of(PRINTED)
    still = [problem for problem, runs in printed.items() if _never_moves(runs)]
    if still:
        parts.append(
            "The printed UCFH waits for m w_min visits of a pair before its first policy change. "
            f"On {listed([field.names[problem] for problem in still])} no pair had that many."
        )
    lost = {x: share.median for x in printed if (share := field.share(x, PRINTED))}
    wrong = [f"{_percent(x)} on {field.names[p]}" for p, x in lost.items() if x > RIGHT]
    if wrong:
        parts.append(f"As a share of {field.whole}, it loses {listed(wrong)}.")
    right = [field.names[p] for p in still if lost.get(p, 1.0) <= RIGHT]
    if right:
        parts.append(f"On {listed(right)} its first policy happens to be optimal.")
    kin = {p: share for p in field.of(CERTIFIED) if (share := field.share(p, CERTIFIED))}
    if kin:
        told = [f"{_interval(share)} on {field.names[p]}" for p, share in kin.items()]
        parts.append(
            'With the sets "best" and a certificate, after which it stops exploring, UCFH loses '
            f"{listed(told)} (medians with their {bars(kin.values())})."
        )
    return " ".join(parts)


def _percent(x: float) -> str:
    return f"{number(100 * x)} %"


def _interval(share: Interval) -> str:
    low, middle, high = (number(100 * x) for x in (share.low, share.median, share.high))
    return f"{middle} %" if low == high else f"{middle} % ({low} to {high})"


def _order(field: Field, places: Places) -> str:
    """Who loses least on each problem, and whether the difference is significant."""
    several = {problem: by_name for problem, by_name in places.items() if len(by_name) > 1}
    if not several:
        return ""
    tested = [problem for problem, by_name in several.items() if _settles(field, problem, by_name)]
    told = [
        f"{_leader(field, problem, by_name, problem in tested)} on {field.names[problem]}"
        for problem, by_name in several.items()
    ]
    text = f"The smallest median regret: {'; '.join(told)}. "
    if not tested:
        return text + "There are too few runs for this number of learners to settle an order."
    best = [
        name
        for name in field.learners
        if all(name in several[x] and several[x][name].first == 1 for x in tested)
    ]
    if best:
        text += f"On none of them does a test rank another learner before {listed(best, 'or')}. "
    text += (
        "All pairs of learners are compared by exact signed-rank tests, with Holm's correction at "
        f"{100 * (1 - LEVEL):.0f} %"
    )
    untested = [field.names[problem] for problem in several if problem not in tested]
    return f"{text}; on {listed(untested)} there are too few runs." if untested else f"{text}."


def _settles(field: Field, problem: str, by_name: dict[str, Place]) -> bool:
    """Whether there are enough runs for any difference to be significant."""
    runs = min(map(len, field.runs[problem].values()))
    return len(by_name) > 1 and runs >= seeds_needed(len(by_name))


def _leader(field: Field, problem: str, by_name: dict[str, Place], tested: bool) -> str:
    regrets = {name: median_of("regret", field.runs[problem][name]) for name in by_name}
    least = min(regrets.values())
    lead = [name for name, x in regrets.items() if x <= least + NOISE * max(1.0, least)]
    share = field.share(problem, lead[0])
    always = ", optimal from the first episode" if least <= NOISE else ""
    text = listed(lead) + (f" ({_percent(share.median)}{always})" if share else "")
    if not tested:
        return text
    alike = [x.agent for x in by_name.values() if x.p is not None and x.p > 1 - LEVEL]
    alike = [name for name in alike if name not in lead]
    if not alike:
        return f"{text}, significantly different from all others,"
    few = listed(alike) if len(alike) <= 4 else f"{len(alike)} others"
    return f"{text}, not significantly different from {few},"


def _samples(field: Field) -> str:
    """What learners with a generative model ask for, and how their runs end."""
    asked: dict[str, list[Result]] = {}
    for by_name in field.sampling.values():
        for name, runs in by_name.items():
            asked.setdefault(name, []).extend(runs.values())
    if not asked:
        return ""
    everything = list(chain.from_iterable(asked.values()))
    bad = sum(not _is_within(run) for run in everything)
    each = []
    for name, found in asked.items():
        each.append(f"{name} for {span(run.values['samples'] for run in found)}")
    return (
        "Learners with a generative model learn before their first episode, and are not ranked. "
        f"They ask for samples: {listed(each)}; {bad or 'none'} of "
        f"{plural(len(everything), 'run')} ended with a policy worse than epsilon."
    )


def _losses(field: Field, places: Places) -> TextTable:
    def cell(problem: str, name: str) -> str:
        share = field.share(problem, name)
        if share is None:
            return "-"
        text, place = number(100 * share.median), places[problem][name]
        if not _settles(field, problem, places[problem]):
            return text
        return f"{text} ({place.first} to {place.last})"

    caption = (
        f"Median regret in % of {field.whole}; in brackets the ranks that tests leave open, where "
        "there are enough runs for a test. 0 is optimal. The learner that ranks best, on average "
        "over the problems, comes first."
    )
    return _table(field, caption, field.learners, cell)


def _mistakes(field: Field) -> TextTable:
    def cell(problem: str, name: str) -> str:
        runs = field.runs.get(problem, {}).get(name)
        if not runs:
            return "-"
        last = median_of("last_mistake", runs)
        episodes = max(run.arguments["episodes"] for run in runs.values())
        end = "-" if last >= episodes else f"{last:,.0f}"
        return f"{median_of('mistakes', runs):,.0f} / {end}"

    caption = (
        "Number of episodes worse than epsilon / the last one of them, medians; - where they "
        "continue until the last episode of the run."
    )
    return _table(field, caption, field.learners, cell)


def _sampling(field: Field) -> TextTable:
    def cell(problem: str, name: str) -> str:
        runs = field.sampling.get(problem, {}).get(name)
        return number(median_of("samples", runs)) if runs else "-"

    names = list(dict.fromkeys(chain.from_iterable(field.sampling.values())))
    caption = "Samples that learners with a generative model ask for before their first episode."
    return _table(field, caption, names, cell)


def _constants(field: Field) -> TextTable:
    """Where the constants of each learner come from."""
    said: dict[str, str] = {}
    for name in [*field.learners, *chain.from_iterable(field.sampling.values())]:
        label, _, _ = name.partition(", ")
        agent, _, _ = label.partition(":")
        if label == CERTIFIED:
            said[name] = CertifiedUCFH.constants
        elif agent in AGENTS:
            said[name] = agent_class(agent).constants
    caption = (
        "Where each learner's constants come from: read in its paper, or in public code only; "
        "derived in this package, with a proof; chosen here, without a proof; or unverified, "
        "quoted from memory."
    )
    return TextTable(
        caption, ["learner", "constants"], [[name, text] for name, text in said.items()]
    )


def _table(
    field: Field, caption: str, learners: list[str], cell: Callable[[str, str], str]
) -> TextTable:
    """Learners down, problems across."""
    rows = [[name, *(cell(problem, name) for problem in field.names)] for name in learners]
    return TextTable(caption, ["learner", *field.names.values()], rows)
