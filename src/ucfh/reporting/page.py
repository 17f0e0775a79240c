"""The report as a self-contained HTML page without scripts.

It can be printed, read on a phone, in dark mode, without colors and by a screen reader. The page is
a deterministic function of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, isfinite, log10
from pathlib import PurePath

from ucfh._utils.files import Labels
from ucfh._utils.formatting import number, plural
from ucfh.reporting.log_report import LogReport
from ucfh.reporting.policy_table import policy_html
from ucfh.reporting.style import STYLE
from ucfh.reporting.text import (
    ASSUMED,
    WARNING,
    bounds_bars,
    evidence_words,
    headline,
    improvement,
    lead,
    segments_words,
    tested_words,
    uncertainty,
)

MOST_NAMED = 20
"""The largest number of states or actions in a line."""


def answer_page(answer: LogReport) -> str:
    """Return the report as an HTML page."""
    title = f"What the log {answer.name} proves"
    verdict, sentence = headline(answer)
    verdict_class = "yes" if answer.known.certified else "no"
    body = (
        f'<header>\n<p class="over">{escape(title)}</p>\n'
        f'<p class="verdict {verdict_class}">{escape(verdict)}</p>\n<h1>{escape(sentence)}</h1>\n'
        + _paragraphs(lead(answer)).replace(ASSUMED, f'<a href="#assumed">{ASSUMED}</a>')
        + "</header>\n<main>\n"
        + _findings(answer)
        + _improvement(answer)
        + _bounds(answer)
        + _section("plan", "The plan: what to do, and how sure that is", policy_html(answer))
        + _uncertainty(answer)
        + _assumptions(answer)
        + _issues(answer)
        + _summary(answer)
        + "</main>\n"
    )
    return _document(f"{title}: {verdict.lower()}", body)


def _document(title: str, body: str) -> str:
    """Return a self-contained HTML page; ``body`` is HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # without this, a browser asks the server for an icon that does not exist
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"{body}</body>\n</html>\n"
    )


def _section(anchor: str, heading: str, content: str) -> str:
    return (
        f'<section id="{anchor}" aria-labelledby="{anchor}-title">\n'
        f'<h2 id="{anchor}-title">{escape(heading)}</h2>\n{content}</section>\n'
    )


def _paragraphs(texts: list[str]) -> str:
    return "".join(f"<p>{escape(text)}</p>\n" for text in texts)


def _bullets(items: Sequence[tuple[str, str]]) -> str:
    """Return a list of sentences, each with a line in small print."""
    lines = [f"<li>{escape(x)}{f'<small>{escape(y)}</small>' * bool(y)}</li>\n" for x, y in items]
    return f"<ul>\n{''.join(lines)}</ul>\n" if lines else ""


def _sentence(text: str) -> str:
    """Return a text with a full stop, capitalized unless it begins with the column t."""
    return f"{text}." if text.startswith("t ") else f"{text[0].upper()}{text[1:]}."


def _findings(answer: LogReport) -> str:
    """Return the section on refuted assumptions and their remedies, or ""."""
    if not answer.known.findings:
        return ""
    parts = [
        f'<div class="note">\n<p><b>Not true of this log:</b> {escape(x.assumption)}.</p>\n'
        f"<p>{escape(_sentence(f'{x.where}: {x.effect}'))}</p>\n"
        f"<p>What it means: {escape(x.meaning)}.</p>\n"
        f"<p>What to do: {escape(x.remedy)}.</p>\n</div>\n"
        for x in answer.known.findings
    ]
    heading = f"The log contradicts {plural(len(parts), 'assumption')}"
    return _section("contradicted", heading, "".join(parts))


def _improvement(answer: LogReport) -> str:
    heading, texts = improvement(answer)
    return _section("better", heading, _paragraphs(texts))


# -- the bounds -----------------------------------------------------------------------------------

HATCH = (
    '<pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="7" height="7" fill="var(--paper)"/>'
    '<rect width="2.5" height="7" fill="var(--bar)"/></pattern>'
)


def _bounds(answer: LogReport) -> str:
    """Return the section with the bounds as bars over one scale, each with its text."""
    if answer.known.contradiction is not None:
        return ""
    bars, (least, most) = bounds_bars(answer), answer.ends
    low = min(least, 0.0)
    ticks = _ticks(low, max(*(bar.high for bar in bars), low + (most - least) / 20))
    left, right = ticks[0], ticks[-1]

    def at(x: float) -> str:
        return f"{100 * (min(max(x, left), right) - left) / (right - left):.2f}"

    parts = [f'<svg height="0" aria-hidden="true"><defs>{HATCH}</defs></svg>\n']
    for bar in bars:
        width = f"{float(at(bar.high)) - float(at(bar.low)):.2f}"
        drawn = (
            '<rect class="track" x="0" y="8" width="100%" height="4"/>'
            f'<rect class="sure" x="0" y="1" width="{at(bar.low)}%" height="18"/>'
            f'<rect class="maybe" x="{at(bar.low)}%" y="1" width="{width}%" height="18" '
            'fill="url(#hatch)"/>'
        )
        if isfinite(bar.mean):
            drawn += f'<circle class="mean" cx="{at(bar.mean)}%" cy="10" r="5"/>'
        parts.append(
            f"<p><b>{escape(bar.name)}:</b> {escape(bar.text)}</p>\n"
            f'<svg height="20" aria-hidden="true">{drawn}</svg>\n'
        )
    axis = "".join(
        f'<line class="tick" x1="{at(x)}%" x2="{at(x)}%" y1="0" y2="5"/>'
        f'<text x="{at(x)}%" y="19" text-anchor="'
        f'{"start" if x == left else "end" if x == right else "middle"}">'
        f"{escape(number(x))}</text>"
        for x in ticks
    )
    parts.append(f'<svg height="24" aria-hidden="true">{axis}</svg>\n')
    dot = " The dot is what was paid on average." * any(isfinite(bar.mean) for bar in bars)
    key = (
        f"What is earned {answer.per}, with {answer.sure} confidence. Full: at least this. "
        f"Hatched: perhaps earned, the log does not tell. Beyond the bar: not earned.{dot}"
    )
    warning = f'<p class="note">{WARNING}</p>\n' if answer.known.refuted else ""
    return _section(
        "bounds",
        "The bounds in a picture",
        f'{warning}<figure class="bars">\n{"".join(parts)}<figcaption>{escape(key)}</figcaption>\n'
        "</figure>\n",
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return a few round numbers that cover the range from ``low`` to ``high``.

    >>> _ticks(0, 56.8), _ticks(-13, 2), _ticks(0, 0.61)
    ([0.0, 20.0, 40.0, 60.0], [-15.0, -10.0, -5.0, 0.0, 5.0], [0.0, 0.2, 0.4, 0.6, 0.8])
    """
    span = high - low
    power = 10.0 ** floor(log10(span / 4))
    step = next(x * power for x in (1, 2, 5, 10) if span / (x * power) <= 4.5)
    begin, end = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [float(f"{k * step:.12g}") for k in range(begin, end + 1)]


def _uncertainty(answer: LogReport) -> str:
    heading, text, lines = uncertainty(answer)
    items = [(line, "") for line in lines]
    return _section("missing", heading, _paragraphs([text]) + _bullets(items))


def _assumptions(answer: LogReport) -> str:
    content = _paragraphs(
        [
            "If one of these sentences is false, the numbers on this page may be, too. Read them, "
            "and ask a person who knows how the log was made."
        ]
    ) + _bullets([(_sentence(x.text), evidence_words(answer, x)) for x in answer.log.assumptions])
    if answer.tested:
        content += "<h3>What the log itself could contradict</h3>\n"
        content += _bullets([(_sentence(x.assumption), tested_words(x)) for x in answer.tested])
    return _section("assumed", ASSUMED, content)


def _issues(answer: LogReport) -> str:
    issues = answer.log.faults
    if not issues:
        return _section("faults", "No faults in the log", _paragraphs(["Every row can be read."]))
    items = [
        (
            f"{plural(issue.count, 'time')}: {issue.what}. The first is in {issue.unit} "
            f"{issue.lines[0]:,}: {issue.example}.",
            f"What to do: {issue.remedy}. "
            + ("Harmless." if issue.harmless else "Harmless only if not caused by what happened."),
        )
        for issue in issues
    ]
    heading = f"{plural(len(issues), 'kind')} of faults in the log"
    return _section("faults", heading, _bullets(items))


def _summary(answer: LogReport) -> str:
    from ucfh import __version__

    log, known, how = answer.log, answer.known, answer.log.understood
    beside = "" if how.settings is None else f", with what {PurePath(how.settings).name} says"
    largest = "" if log.max_return is None else f", at most {log.max_return:g} {answer.per}"
    about = {
        "Log": f"{answer.name}: {how.kind}{beside}",
        "Columns": "\n".join(f"{ours}: {theirs}" for ours, theirs in how.columns.items()),
        "Rows": f"{log.rows:,}, of which {log.counted:,} are counted",
        answer.nouns.capitalize(): f"{log.episodes:,}",
        "Steps": f"{log.horizon} at most; t: {how.t}",
        "States": _named(log.states)
        + ("" if log.closed else "; more may exist that the log does not show"),
        "Actions": _named(log.actions),
        "Rewards": f"between {log.units.low:g} and {log.units.high:g} a step{largest}",
        "Counted": segments_words(answer),
        "Notes": "\n".join(log.notes),
        "Confidence": f"{answer.sure} (delta = {known.delta:g})",
        "Asked for": "nothing"
        if known.epsilon is None
        else f"a plan within {known.epsilon:g} {answer.per} of the best (epsilon)",
        "Made by": f"ucfh {__version__}, ucfh certify",
    }
    entries = "".join(
        f"<dt>{escape(key)}</dt>\n<dd>{escape(value)}</dd>\n"
        for key, value in about.items()
        if value
    )
    return _section("reading", "How the log was read", f"<dl>\n{entries}</dl>\n")


def _named(labels: Labels) -> str:
    """Return the number of states or actions, and their names if they are few."""
    names = [str(labels.label(k)) for k in range(min(labels.count, MOST_NAMED + 1))]
    few = f": {', '.join(names)}" if len(names) <= MOST_NAMED else ""
    return f"{labels.count:,}{few}"
