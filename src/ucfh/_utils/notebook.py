"""HTML for notebooks: small tables and embedded images."""

from __future__ import annotations

import warnings
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from io import BytesIO
from typing import Any

MOST = 12
"""Most rows and columns shown of a policy."""


class HtmlText(str):
    """Escaped HTML."""


def block(headline: str, *parts: str) -> str:
    """Return a headline followed by HTML parts and lines of text, which are escaped."""
    shown = [x if isinstance(x, HtmlText) else _line(x) for x in parts if x]
    return f"<div><p><b>{escape(headline)}</b></p>{''.join(shown)}</div>"


def _line(text: str) -> str:
    return f'<div style="white-space: pre-wrap">{escape(text)}</div>'


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> HtmlText:
    """Return a table of strings.

    >>> table(["a"], [["<b>"]])
    '<table><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    head = "".join(f"<th>{escape(x)}</th>" for x in columns)
    body = ["".join(f"<td>{escape(x)}</td>" for x in row) for row in rows]
    return HtmlText(f"<table>{''.join(f'<tr>{row}</tr>' for row in (head, *body))}</table>")


def picture(figure: Any, words: str) -> HtmlText:
    """Return a matplotlib figure as an embedded image with an alternative text."""
    file = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # characters that the font lacks
        figure.savefig(file, format="png", dpi=80)
    data = b64encode(file.getvalue()).decode()
    return HtmlText(f'<img alt="{escape(words)}" src="data:image/png;base64,{data}">')


def policy_table(policy: Any, values: Any = None) -> HtmlText:
    """Return a table of the first states and steps of a policy (H, S) with values (H+1, S)."""
    steps, states = policy.shape
    shown = range(min(steps, MOST))
    columns = ["state", *(f"step {t + 1}" for t in shown), *["..."] * (steps > MOST)]
    rows = [
        [str(s), *(str(policy[t, s]) for t in shown), *["..."] * (steps > MOST)]
        for s in range(min(states, MOST))
    ]
    if values is not None:
        columns.append("value")
        rows = [[*row, f"{values[0, s]:.4g}"] for s, row in enumerate(rows)]
    if states > MOST:
        rows.append(["..."] * len(columns))
    return table(columns, rows)
