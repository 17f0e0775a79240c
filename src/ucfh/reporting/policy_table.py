"""The policy of a report as HTML tables: states by step, with levels of confidence."""

from __future__ import annotations

from html import escape

from ucfh._utils.formatting import listed, plural
from ucfh.reporting.log_report import (
    OPEN,
    UNSEEN,
    Choice,
    LogReport,
    PolicyRow,
    columns_of,
    most_visited,
)
from ucfh.reporting.text import WARNING, counted_words, level_words, levels_used, seen_words

MOST_SHOWN = 60
"""The number of most visited states that are shown; others are folded."""
MOST_LISTED = 2000
"""The largest number of folded states; others are only in the policy file."""
MOST_COLUMNS = 20
"""The largest number of columns of a table, which fits on paper."""
MOST_NAMED = 20
"""The largest number of states in a sentence."""


def policy_html(answer: LogReport) -> str:
    """Return the policy tables with a legend, as HTML."""
    rows = answer.rows
    texts = [
        f"Find the state{answer.called('state')}, what is known before acting, on the left, and "
        f"the step{answer.called('t')} at the top. Neighboring steps with the same entry share a "
        "cell. The software calls a plan a policy."
    ]
    if answer.over:
        names = [str(answer.log.states.label(s)) for s in answer.over[:MOST_NAMED]]
        more = len(answer.over) - len(names)
        names += [f"{more} more"] if more else []
        texts.append(f"It is over, and nothing is to be done, in these states: {listed(names)}.")
    shown, folded = most_visited(rows, MOST_SHOWN)
    if folded:
        texts.append(
            f"The {MOST_SHOWN} states that the log shows most often come first; "
            f"{plural(len(folded), 'other')} are folded away below them."
        )
    words = {f"{x.mark} {x.name}": level_words(answer, x) for x in levels_used(answer)}
    if f"{OPEN.mark} {OPEN.name}" in words:
        words["+2.5"] = f"how much more another choice may earn {answer.per}, at most"
    words["57\N{MULTIPLICATION SIGN}"] = counted_words(answer)
    legend = "".join(f"<dt>{escape(x)}</dt><dd>{escape(y)}</dd>\n" for x, y in words.items())
    content = (
        "".join(f"<p>{escape(text)}</p>\n" for text in texts)
        + f'<dl class="key">\n{legend}</dl>\n'
        + _grid(answer, "plan-table", "What to do in each state at each step", shown)
    )
    if folded:
        caption = f"{plural(len(folded), 'more state')}, seen less often"
        content += f"<details>\n<summary>{escape(caption)}</summary>\n"
        content += _grid(
            answer, "plan-rest", "What to do in the other states", folded[:MOST_LISTED]
        )
        if len(folded) > MOST_LISTED:
            rest = len(folded) - MOST_LISTED
            content += f"<p>{rest:,} more states are in the file that --policy writes.</p>\n"
        content += "</details>\n"
    if answer.known.refuted:
        return f'<p class="note">{WARNING}</p>\n{content}'
    return (
        content + '<p class="small">All entries are right at once, with the same confidence of '
        f"{escape(answer.sure)}.</p>\n"
    )


def _grid(answer: LogReport, anchor: str, caption: str, rows: list[PolicyRow]) -> str:
    """Return tables of states by step; steps without a change share a column."""
    columns = columns_of(rows, answer.log.times.step)
    blocks = [columns[k : k + MOST_COLUMNS] for k in range(0, len(columns), MOST_COLUMNS)]
    out = []
    for k, block in enumerate(blocks):
        name = f"{anchor}-{k + 1}"
        text = caption
        if len(blocks) > 1:
            text += f", steps {block[0][0]} to {block[-1][1]}"
        head = "".join(f'<th scope="col">{_span(*column)}</th>' for column in block)
        lines = "".join(
            f'<tr><th scope="row">{escape(row.state)}</th>'
            + "".join(_cell(answer, choice, block) for choice in row.choices)
            + "</tr>\n"
            for row in rows
        )
        out.append(
            f'<div class="table long" role="region" aria-labelledby="{name}" tabindex="0">\n'
            f'<table class="plan">\n<caption id="{name}">{escape(text)}</caption>\n<thead>\n'
            f'<tr><th scope="col" rowspan="2">State</th><th scope="colgroup" '
            f'colspan="{len(block)}">Step</th></tr>\n<tr>{head}</tr>\n</thead>\n<tbody>\n{lines}'
            "</tbody>\n</table>\n</div>\n"
        )
    return "".join(out)


def _span(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}\N{EN DASH}{last}"


def _cell(answer: LogReport, choice: Choice, block: list[tuple[int, int]]) -> str:
    """Return a cell that spans the columns of the block in which the choice is taken."""
    width = sum(choice.first <= first <= choice.last for first, _ in block)
    if not width:
        return ""
    how = f"{choice.level.mark} {choice.level.name}"
    if choice.level == OPEN:
        how += f" +{answer.at_most(choice.suboptimality)}"
    if choice.level != UNSEEN:
        how += f" · {seen_words(choice)}\N{MULTIPLICATION SIGN}"
    columns = f' colspan="{width}"' if width > 1 else ""
    return (
        f'<td class="{choice.level.key}"{columns}><b>{escape(choice.action)}</b>'
        f'<span class="how">{escape(how)}</span></td>'
    )
