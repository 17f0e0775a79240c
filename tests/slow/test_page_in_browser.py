"""The report in a real browser: all figures show, nothing is complained of, nothing sticks out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.browser import measure
from helpers.paths import DOCS
from ucfh._support.palette import COLOURS, GREY, MARKS
from ucfh.report.html import page
from ucfh.report.section import Figure, Section, TextTable

WIDTHS = (360, 1200)
"""A phone and a desk."""

ABOUT = {
    "Version": "ucfh 0.0.0, Python 3.13.0, NumPy 2.0.0",
    "Commit": "0123456789abcdef0123456789abcdef01234567",
    "Seed": "0",
    "Commands": "ucfh study all --seed 0\nucfh report",
}


def sections() -> list[Section]:
    """Two invented studies, one with a table that no phone is wide enough for."""

    def scaling(figure: Any) -> None:
        axes = figure.subplots()
        x = 2.0 ** np.arange(1, 8)
        for k, (name, power) in enumerate({"horizon": 1.7, "states": 0.9, "actions": 1.0}.items()):
            axes.loglog(x, 3e3 * x**power, color=COLOURS[k], marker=MARKS[k], label=name)
        axes.loglog(x, 1e4 * x**2, color=GREY, ls="--", label="the theorem's square")
        axes.set(xlabel="size", ylabel="mistakes, median of 20 lifetimes")
        axes.grid(alpha=0.2)
        axes.legend(frameon=False)

    def bars(figure: Any) -> None:
        axes = figure.subplots()
        names = ["chain", "hard", "riverswim", "tutoring"]
        axes.barh(names, [4e8, 3.6e9, 7e10, 9.8e8], color=COLOURS[0], label="seen")
        axes.axvline(1.6e16, color=COLOURS[1], ls="--", label="Theorem 1")
        axes.set_xscale("log")
        axes.set_xlabel("mistakes")
        figure.legend(loc="outside lower center", ncols=2, frameon=False)

    wide = TextTable(
        "Mistakes by problem. All numbers are invented: they are here to fill a table that is "
        "wider than a phone.",
        ["Problem", "States", "Actions", "Steps", "epsilon", "Lifetimes", "Mistakes, median",
         "Mistakes, most", "Theorem 1", "Share of the bound", "Sets left"],
        [
            ["chain:n=8", "8", "2", "8", "0.1", "20", "4.1e+08", "4.4e+08", "3.1e+15", "1.4e-07",
             "0 of 20"],
            ["hard:n=10,actions=4,horizon=10,gap=0.25", "12", "4", "10", "0.2", "20", "3.6e+09",
             "3.7e+09", "1.6e+16", "2.3e-07", "0 of 20"],
            ["riverswim", "6", "2", "20", "0.1", "20", "7.0e+10", "7.9e+10", "8.8e+16", "9.0e-07",
             "-"],
        ],
    )  # fmt: skip
    small = TextTable(
        "Exponents fitted to mistakes, with 95 % intervals.",
        ["Grows", "Theorem 1", "Seen", "Agrees"],
        [["H", "2", "1.71 [1.65, 1.77]", "below"], ["1/epsilon", "2", "1.98 [1.95, 2.01]", "yes"]],
    )
    text = (
        "In every one of 80 lifetimes fewer than 1e-06 of the mistakes that the theorem allows "
        "were made. The bound is loose by seven orders of magnitude on these problems, most of "
        "which lies in the constant: how mistakes grow is told by the next study. No lifetime "
        "left its confidence sets."
    )
    return [
        Section(
            "mistakes",
            "How many mistakes are made in a lifetime",
            "With probability 1 - delta at most O(C S A H^2 / epsilon^2 log 1/delta) episodes are "
            "more than epsilon worse than optimal (Theorem 1), and no learner can do with fewer "
            "than a constant times S A H^2 / epsilon^2 (Theorem 2) on the hard class.",
            [text, "Medians and extremes are within a tenth of each other."],
            [Figure("mistakes", "Mistakes of lifetimes on four problems.", "Bars", bars, 2.8)],
            [wide],
            jobs=77,
            missing=3,
        ),
        Section(
            "scaling",
            "How mistakes grow",
            "As the square of H and of 1/epsilon, and as S, A and C.",
            ["Mistakes grow more slowly with H than the theorem says: 1.71 instead of 2. " * 2],
            [Figure("scaling", "Growth, both axes logarithmic.", "Lines.", scaling)],
            [small],
            jobs=420,
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
def test_page_shows(tmp_path: Path, width: int) -> None:
    seen, complaints = measure(tmp_path, page(sections(), ABOUT), width)
    assert complaints == []
    assert seen["images"] == [True, True]
    assert seen["width"] == width
    assert seen["needed"] <= seen["room"]
    # in its frame, the wide table scrolls on a phone; the small one need not on a desk
    (wide_frame, wide), (small_frame, small) = seen["tables"]
    assert wide > wide_frame if width == 360 else small == small_frame


@pytest.mark.parametrize("width", WIDTHS)
def test_the_shipped_report_shows(tmp_path: Path, width: int) -> None:
    html = (DOCS / "report.html").read_text()
    seen, complaints = measure(tmp_path, html, width)
    assert complaints == []
    assert len(seen["images"]) >= 8
    assert all(seen["images"])
    assert seen["needed"] <= seen["room"]


def test_faults_would_be_noticed(tmp_path: Path) -> None:
    faults = (
        '<img src="data:image/svg+xml;base64,AAAA" alt="none">'
        "<script>console.error('oh')</script><p style='width: 400px'>wide</p></body>"
    )
    html = page(sections(), ABOUT).replace("</body>", faults)
    seen, complaints = measure(tmp_path, html, 360)
    assert len(complaints) == 1
    assert seen["images"] == [True, True, False]
    assert seen["needed"] > seen["room"]
