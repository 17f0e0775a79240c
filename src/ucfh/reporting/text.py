"""The sentences of a report; each holds if the certificate does."""

from __future__ import annotations

from math import nan
from typing import NamedTuple

from ucfh._utils.formatting import percent, plural, rough_count
from ucfh.auditing.report import AssumptionCheck
from ucfh.logs.assumptions import Assumption, AssumptionCode
from ucfh.reporting.log_report import (
    CLOSE,
    LEVELS,
    OPEN,
    ROUNDING,
    SETTLED,
    UNSEEN,
    Choice,
    ConfidenceLevel,
    LogReport,
    accuracy_words,
    steps_words,
)

ASSUMED = "What has to be true"
"""The heading of the list of assumptions."""
WARNING = "Computed as if all that is assumed were true, which it is not. Do not rely on it."
"""The warning at numbers that rest on a refuted assumption."""
TAKEN = "Taken from the log: correct it if you know better."
DECLARED = "Declared. No row that is counted contradicts it."
UNTESTABLE = "No log can show this: ask a person who knows how it was made."
EVIDENCE = {
    AssumptionCode.SELECTION: UNTESTABLE,
    AssumptionCode.UNCONFOUNDED: UNTESTABLE,
    AssumptionCode.PROBLEM: DECLARED,
    AssumptionCode.MARKOV: "Tested: see below.",
    AssumptionCode.STATES: DECLARED,
    AssumptionCode.ACTIONS: TAKEN,
    AssumptionCode.HORIZON: TAKEN,
    AssumptionCode.REWARDS: DECLARED,
    AssumptionCode.BLANK_REWARD: "Declared.",
    AssumptionCode.MAX_RETURN: DECLARED,
    AssumptionCode.TERMINAL: TAKEN,
    AssumptionCode.ROW_ORDER: TAKEN,
    AssumptionCode.STEP_UNIT: TAKEN,
    AssumptionCode.FIRST_STEP: TAKEN,
    AssumptionCode.REWARD_AT_END: TAKEN,
    AssumptionCode.DROPOUTS_OUTCOME: "Declared.",
    AssumptionCode.DROPOUTS_LOST: "Declared. No log can show this.",
    AssumptionCode.DROPOUTS_RANDOM: "Declared. No log can show this.",
    AssumptionCode.BINS: UNTESTABLE,
    AssumptionCode.ISSUES: "No log can show this: find out where they come from.",
}
"""The evidence for each kind of assumption."""


def headline(answer: LogReport) -> tuple[str, str]:
    """Return the verdict, and a sentence that explains it."""
    known = answer.known
    if known.certified:
        return "Certified", (
            f"This plan earns at least {answer.at_least(known.lower)} {answer.per}, and no plan "
            f"earns more than {answer.at_most(known.upper)}"
        )
    if known.refuted:
        return "Not certified", "The log contradicts what has to be assumed"
    sentence = "the log is not enough to show that this plan is close to the best one"
    if (known.improvement or 0.0) > 0 and known.delta < 0.5:
        sentence = f"this plan is better than what was done, but {sentence}"
    return "Not certified", f"{sentence[0].upper()}{sentence[1:]}"


def lead(answer: LogReport) -> list[str]:
    """Return the first paragraphs of the report."""
    known, per = answer.known, answer.per
    if known.contradiction is not None:
        return [
            f"{known.contradiction[0].upper()}{known.contradiction[1:]}.",
            "So nothing can be promised: something that is assumed about this log is not true.",
        ]
    if known.findings:
        return [
            "Every number about the plan rests on something that is not true of this log. So "
            "nothing can be promised before that is mended."
        ]
    bounds = (
        f"Following this plan earns at least {answer.at_least(known.lower)} {per}; no plan earns "
        f"more than {answer.at_most(known.upper)}. "
    )
    best = "No plan is better than this one"
    if known.gap > ROUNDING * (answer.ends[1] - answer.ends[0]):
        earns = "earns at most" if answer.known.certified else "may earn up to"
        best = (
            f"The best plan there is {earns} {answer.at_most(known.gap)} {per} more than this one"
        )
    asked = "" if known.epsilon is None else f"; at most {known.epsilon:g} was asked for"
    sure = (
        f"We are {answer.sure} sure of this: a page like this one is wrong in at most "
        f"{percent(known.delta)} of all cases."
    )
    return [
        f"{'' if answer.known.certified else bounds}{best}{asked}.",
        f'{sure} And it holds only if what is assumed is true: see "{ASSUMED}".',
    ]


def improvement(answer: LogReport) -> tuple[str, list[str]]:
    """Return a heading and paragraphs that compare the policy with the behavior policy."""
    known, base, per = answer.known, answer.known.behavior, answer.per
    gain = known.improvement
    assert base is not None
    assert gain is not None
    low, high = answer.at_least(base.lower), answer.at_most(base.upper)
    seen = (
        f"What was done in the log earned {answer.about(base.mean)} {per} on average, over "
        f"{plural(base.episodes, answer.noun)}. Part of that is luck: it is worth between {low} "
        f"and {high} {per} ({answer.sure} sure)."
    )
    if base.incomplete:
        seen += (
            f" {base.incomplete:,} of them are not in the log to their end: for the smaller number "
            "they earn as little as is possible from there on, for the larger one as much."
        )
    if answer.known.refuted:
        return "What was earned so far", [
            seen,
            "What the plan would earn is not known, as the log contradicts what has to be assumed.",
        ]
    at_most = answer.at_most(max(0.0, known.upper - base.lower))
    if gain > 0 and known.delta < 0.5:
        promised = answer.at_least(gain)
        return f"Better than before: at least {promised} more {per}", [
            seen,
            f"The plan earns at least {answer.at_least(known.lower)}. So following it earns at "
            f"least {promised} more {per} than what was done before. As two statements have to be "
            f"right for that, we are {answer.both_sure} sure of it. No plan can earn more than "
            f"{at_most} above what was done.",
        ]
    return "Better than before? That cannot be promised yet", [
        seen,
        f"The plan earns at least {answer.at_least(known.lower)}, which may be less than what was "
        "done is worth. So no improvement can be promised. That does not say that the plan is "
        f"worse: it may also be better, by up to {at_most} {per}.",
    ]


class BoundsBar(NamedTuple):
    """A bar of the figure: full up to ``low``, hatched up to ``high``; mean: a dot, or nan."""

    name: str
    text: str
    low: float
    high: float
    mean: float = nan


def bounds_bars(answer: LogReport) -> list[BoundsBar]:
    """Return the bars of the figure."""
    known, base, per = answer.known, answer.known.behavior, answer.per
    bars = []
    if base is not None:
        text = f"between {answer.at_least(base.lower)} and {answer.at_most(base.upper)} {per}"
        bars.append(BoundsBar("What was done in the log", text, base.lower, base.upper, base.mean))
    text = f"at least {answer.at_least(known.lower)} {per}"
    bars.append(BoundsBar("This plan", text, known.lower, known.upper))
    text = f"at most {answer.at_most(known.upper)} {per}"
    bars.append(BoundsBar("Any plan", text, answer.ends[0], known.upper))
    return bars


def level_words(answer: LogReport, level: ConfidenceLevel) -> str:
    """Return the meaning of a level of confidence."""
    epsilon = answer.known.epsilon
    return {
        SETTLED: "no other choice can be better here",
        CLOSE: f"no other choice can earn more than {epsilon or 0:g} {answer.per} above this one",
        OPEN: "another choice may be better",
        UNSEEN: f"the log shows no {answer.noun} in this state at this step",
    }[level]


def seen_words(choice: Choice) -> str:
    """Return the visits of an action: "1,174", or "12 to 40" over several steps."""
    if choice.least == choice.most:
        return f"{choice.least:,}"
    return f"{choice.least:,} to {choice.most:,}"


def counted_words(answer: LogReport) -> str:
    """Return the meaning of the numbers of visits."""
    at = {"step": " at this step", "segment": ", at this step and those counted with it", "": ""}
    return f"how often the log shows this action in this state{at[answer.segment_word]}"


def segments_words(answer: LogReport) -> str:
    """Return the time segments in words."""
    word = answer.segment_word
    if word == "segment":
        return "together: " + "; ".join(steps_words(*x) for x in answer.segments)
    return "each step by itself" if word else "all steps together"


def levels_used(answer: LogReport) -> list[ConfidenceLevel]:
    """Return the levels of confidence in the policy, highest first."""
    used = {choice.level for row in answer.rows for choice in row.choices}
    return [level for level in LEVELS if level in used]


def uncertainty(answer: LogReport) -> tuple[str, str, list[str]]:
    """Return a heading, a paragraph and a list: the amount and kind of missing data."""
    known = answer.known
    where = f"where {answer.nouns} start"
    lines = [
        f"{f'{answer.pair(x)}: tried' if x.state >= 0 else f'{where}: seen'} "
        f"{plural(x.visits, 'time')}, "
        f"{x.share:.0%} of the uncertainty"
        for x in answer.missing
    ]
    if known.refuted:
        text = "More data of the same kind do not help while what has to be assumed is not true."
        return "What is missing", text, []
    if known.epsilon is None:
        return "What is missing", "Most of the uncertainty comes from", lines
    if known.gap <= known.epsilon:
        text = "The plan is as close to the best one as was asked for."
        return "Nothing is missing", f"{text} More data would narrow the bounds further.", []
    assert known.more is not None
    more, epsilon = known.more, f"{known.epsilon:g}"
    if more.status == "untried":
        return (
            "What is missing: actions that were never tried",
            f"More {answer.nouns} help only if actions are tried of which the log has no data, or "
            "if they are declared impossible. The largest shares of the uncertainty come from",
            [f"{answer.pair(x)}: {x.share:.0%} of the uncertainty" for x in answer.untried],
        )
    heading, text = "What is missing", ""
    if more.status == "missing_outcomes":
        assert more.limit is not None
        heading += ": missing outcomes"
        text = (
            f"Missing outcomes alone leave an optimality gap of about {answer.about(more.limit)}, "
            f"however many {answer.nouns} of this kind there are, so no number can be given "
            f"for {epsilon}."
        )
    elif more.status == "over_1000_times":
        text = (
            f"By an estimate, it takes more than 1,000 times as many {answer.nouns} of this kind "
            f"to reach {epsilon}."
        )
    elif more.status == "unknown":
        text = "How many more are needed cannot be estimated from these data."
    else:
        assert more.episodes is not None
        count = rough_count(more.episodes)
        heading += f": about {count} more {answer.noun if count == '1' else answer.nouns}"
        text = (
            f"This is {accuracy_words(known.episodes)}, for data of the same kind: the same "
            "actions are tried as often."
        )
    if known.gap_if_random is not None:
        text += (
            " If outcomes had been lost at random, which is not assumed, another plan could be at "
            f"most {answer.at_most(known.gap_if_random)} better."
        )
    return heading, f"{text} Most of the uncertainty comes from", lines


def tested_words(x: AssumptionCheck) -> str:
    """Return the result of an assumption check, and its e-value."""
    result = "Not contradicted"
    if x.e_value >= x.threshold**0.5:
        result = "Doubtful, but not refuted"
    if x.e_value >= x.threshold:
        result = "Refuted"
    much = f"{x.e_value:.2g}" if x.e_value < 1e6 else "more than a million"
    return f"{result} (evidence {much}; from {x.threshold:,.0f} on it is refuted)."


def evidence_words(answer: LogReport, assumption: Assumption) -> str:
    """Return the evidence for an assumption, in words."""
    if assumption.code == AssumptionCode.MARKOV and not answer.tested:
        return "Not tested."
    return EVIDENCE[assumption.code]
