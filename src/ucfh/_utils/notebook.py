"""What objects show in a notebook: small tables, and pictures that are part of the page."""

from __future__ import annotations

import warnings
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from io import BytesIO
from typing import Any

MOST = 12
"""Rows and columns of a table of a policy that are shown."""


class HtmlText(str):
    """A text that is written as HTML, its names escaped."""


def block(headline: str, *parts: str) -> str:
    """A headline, and below it tables, pictures, and lines of text, which are escaped."""
    shown = [x if isinstance(x, HtmlText) else _line(x) for x in parts if x]
    return f"<div><p><b>{escape(headline)}</b></p>{''.join(shown)}</div>"


def _line(text: str) -> str:
    return f'<div style="white-space: pre-wrap">{escape(text)}</div>'


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> HtmlText:
    """A table of texts.

    >>> table(["a"], [["<b>"]])
    '<table><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    head = "".join(f"<th>{escape(x)}</th>" for x in columns)
    body = ["".join(f"<td>{escape(x)}</td>" for x in row) for row in rows]
    return HtmlText(f"<table>{''.join(f'<tr>{row}</tr>' for row in (head, *body))}</table>")


def picture(figure: Any, words: str) -> HtmlText:
    """A figure of matplotlib as an image inside the page; ``words`` for who cannot see it."""
    file = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a name in a script the font lacks
        figure.savefig(file, format="png", dpi=80)
    data = b64encode(file.getvalue()).decode()
    return HtmlText(f'<img alt="{escape(words)}" src="data:image/png;base64,{data}">')


def policy_table(policy: Any, values: Any = None) -> HtmlText:
    """The first states and steps of a policy (H, S); values (H+1, S): from the first step on."""
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
