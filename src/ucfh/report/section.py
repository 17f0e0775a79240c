"""What a study found, ready to be shown: paragraphs, tables and figures.

Everything here is made from results alone; how it is shown (a page, a terminal, JSON) is decided
elsewhere.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from ucfh._support.canvas import EMBEDDED, load_matplotlib, new_figure


@dataclass(frozen=True)
class TextTable:
    """Cells of text under headings; the first column names the rows."""

    caption: str
    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Figure:
    """A figure that can be drawn.

    Attributes:
        name: of its file, without an ending.
        caption: what the figure shows, in a sentence.
        alt: the same for people who cannot see it: what is on the axes and what it shows.
        draw: draws on an empty figure of matplotlib, laid out with "constrained".
        height: in inches on a screen, where all are `WIDTH` wide, so that a phone shows their
            text legibly; in print it is less, as the text is smaller.

    """

    name: str
    caption: str
    alt: str
    draw: Callable[[Any], None]
    height: float = 3.8

    @cached_property
    def svg(self) -> str:
        """The figure for a screen as SVG, the same for the same results; drawn once."""
        return self._drawn("svg", WIDTH, SCREEN).decode()

    def pdf(self, width: float) -> bytes:
        """The figure for print, so many inches wide, with embedded fonts."""
        return self._drawn("pdf", width, PRINT)

    def _drawn(self, kind: str, width: float, points: float) -> bytes:
        size = {"font.size": points, "axes.titlesize": points}
        settings = {"svg.hashsalt": self.name, **EMBEDDED, **size}
        undated = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}}
        with load_matplotlib().rc_context(settings):
            figure = new_figure(width, self.height * points / SCREEN)
            self.draw(figure)
            out = io.BytesIO()
            figure.savefig(out, format=kind, metadata=undated[kind])
        return out.getvalue()


WIDTH = 5.6
"""Inches, of every figure on a screen."""

SCREEN, PRINT = 10.0, 8.0
"""Points, of the text."""


@dataclass(frozen=True)
class Section:
    """One study.

    Attributes:
        name: of the study, as ``ucfh study NAME`` takes it.
        title: a line.
        predicted: what the theory says, a paragraph.
        seen: what was measured, paragraphs made from the numbers.
        figures, tables: what the paragraphs are based on.
        jobs: how many results there are. missing: how many are not there yet.

    """

    name: str
    title: str
    predicted: str
    seen: list[str]
    figures: list[Figure] = field(default_factory=list)
    tables: list[TextTable] = field(default_factory=list)
    jobs: int = 0
    missing: int = 0


class Reading(NamedTuple):
    """What results show; ``seen`` begins with a sentence that says the main finding."""

    seen: list[str]
    figures: list[Figure]
    tables: list[TextTable]
