"""The figure of the knownness-importance table: what it draws, and that it draws it all."""

from dataclasses import replace
from typing import Any

import matplotlib as mpl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle, StepPatch

from helpers.lengths import many
from ucfh.instruments import knownness
from ucfh.report.section import WIDTH
from ucfh.studies.knownness.tables import COLUMNS, knownness_figure

mpl.use("Agg")
Z = (0, 1, 2, 4, 8, 16, 32, 2**14)
CELLS = st.dictionaries(st.tuples(*[st.sampled_from(Z)] * 2), st.integers(1, 99), min_size=1)
BY_HAND: dict[str, Any] = {
    "moments": [
        {"episode": 0, "cells": [[0, 0, 7], [0, 4, 1], [1, 2, 1]], "balanced": False},
        {"episode": 10**9, "cells": [[2, 4, 3], [1, 2, 1], [64, 2, 70]], "balanced": False},
        {"episode": 3 * 10**11, "cells": [[32, 4, 3], [64, 4, 4]], "balanced": True},
    ],
    "phases": {
        "first_episode": [0, 10**9, 2 * 10**11, 3 * 10**11],
        "balanced": [False, False, True, True],
        "gap": [0.5, 0.25, 0.0, 0.0],
        "mismatch": [0.75, 0.0, 1 / 64, 1 / 128],
    },
    "epsilon": 0.25,
    "episodes": 3 * 10**11,
}


def drawn(life: dict[str, Any]) -> list[dict[str, Any]]:
    """What is in the axes of the figure: numbers by (column, row), hatched cells, title."""
    shown = knownness_figure(life, "a problem")
    figure = plt.figure(figsize=(WIDTH, shown.height), layout="constrained")
    try:
        shown.draw(figure)
        return [
            {
                "numbers": {
                    (int(x), int(y)): int(text.get_text())
                    for text in axes.texts
                    for x, y in [text.get_position()]
                    if text.get_text().isdigit()
                },
                "full": {
                    patch.xy for patch in axes.patches
                    if isinstance(patch, Rectangle) and patch.get_hatch()
                },
                "title": axes.get_title("left"),
                "columns": [label.get_text() for label in axes.get_xticklabels()],
                "rows": [label.get_text() for label in axes.get_yticklabels()],
                "words": [text.get_text() for text in axes.texts],
                "spans": [
                    (path.get_extents().x0, path.get_extents().x1)
                    for drawing in axes.collections
                    for path in drawing.get_paths()
                ],
                "stairs": [
                    patch.get_data()[:2] for patch in axes.patches if isinstance(patch, StepPatch)
                ],
            }
            for axes in figure.axes
        ]  # fmt: skip
    finally:
        plt.close(figure)


def test_by_hand() -> None:
    a, b, c, strip = drawn(BY_HAND)
    assert a["columns"] == ["0", "1", "2", "4", "8", "16+"]
    assert a["rows"] == ["4", "2", "1", "0"]
    assert a["numbers"] == {(0, 0): 7, (0, 3): 1, (1, 2): 1}
    assert a["full"] == {(0, 3)}  # importance 0 may be as full as it is
    assert b["numbers"] == {(2, 3): 3, (1, 2): 1, (5, 2): 70}
    assert b["full"] == {(2, 3), (5, 2)}
    assert c["numbers"] == {(5, 3): 7}  # two cells of what is known best
    assert c["full"] == set()
    assert [x["title"] for x in (a, b, c)] == [
        "a: episode 0", "b: episode $1\\cdot 10^{9}$", "c: from $3\\cdot 10^{11}$ on"
    ]  # fmt: skip
    assert [x["words"][-1] for x in (a, b, c)] == ["unbalanced", "unbalanced", "balanced"]
    assert strip["words"] == ["$\\epsilon$ = 0.25", "a", "b", "c"]
    assert strip["spans"] == [(1e8, 2e11)]  # unbalanced: the first two phases
    (mismatch, edges), (gap, _) = strip["stairs"]
    assert edges.tolist() == [1e8, 1e9, 2e11, 3e11, 3e12]
    floor = 1e-3  # stands for 0, below 1/128
    assert mismatch.tolist() == [0.75, floor, 1 / 64, 1 / 128]
    assert gap.tolist() == [0.5, 0.25, floor, floor]


def test_text_is_made_of_the_numbers() -> None:
    """2e11 unbalanced episodes of 3e11; off by 1/64 at most where balanced."""
    figure = knownness_figure(BY_HAND, "chain:n=5")
    assert figure.name == "knownness-chain-n-5"
    assert "2e11 of 3e11 episodes are in unbalanced phases" in figure.caption
    assert "off by at most 0.016, and Lemma 3 allows epsilon = 0.25" in figure.caption
    assert "b, episode 1e9: unbalanced, cells too full: 2; c, episode 3e11: balanced" in figure.alt
    never = {**BY_HAND, "phases": {**BY_HAND["phases"], "balanced": [False] * 4}}
    assert "3e11 of 3e11" in (caption := knownness_figure(never, "x").caption)
    assert "no phase is balanced" in caption


@pytest.mark.slow
def test_svg_is_reproducible() -> None:
    figure = knownness_figure(BY_HAND, "chain:n=5")
    assert "<svg" in (svg := figure.svg)
    assert svg == replace(figure).svg  # drawn anew


@pytest.mark.slow
@given(tables=st.lists(CELLS, min_size=1, max_size=6), first=st.integers(1, 10**30))
@settings(max_examples=many(5, 12))
def test_every_pair_is_shown(tables: list[dict[tuple[int, int], int]], first: int) -> None:
    """All pairs are counted, and cells are hatched if and only if the phase is unbalanced."""
    balanced = [all(size <= k for (k, i), size in table.items() if i > 0) for table in tables]
    begin = [first * k for k in range(len(tables))]
    moments = [
        {"episode": x, "cells": [[*cell, size] for cell, size in table.items()], "balanced": ok}
        for x, table, ok in zip(begin, tables, balanced, strict=True)
    ]
    zeros = [0.0] * len(tables)
    phases = {"first_episode": begin, "balanced": balanced, "gap": zeros, "mismatch": zeros}
    life = {"moments": moments, "phases": phases, "epsilon": 0.1, "episodes": begin[-1]}
    for axes, table, ok in zip(drawn(life), [*tables, {}], [*balanced, True], strict=True):
        assert sum(axes["numbers"].values()) == sum(table.values())
        assert bool(axes["full"]) != ok
        assert all(0 <= column < COLUMNS for column, _ in axes["numbers"])


def test_cells_of_the_instrument() -> None:
    """What `knownness` counts is what the figure takes: pair (0.5, 0) is important and unknown."""
    seen = knownness(w=[0.5, 0.5, 1.0], n=[100, 0, 400], m=100, w_min=0.25)
    cells = [[*cell, size] for cell, size in seen.cells.items()]
    moment = {"episode": 0, "cells": cells, "balanced": seen.balanced}
    table, _ = drawn({**BY_HAND, "moments": [moment]})
    assert table["numbers"] == {(0, 0): 1, (2, 0): 1, (3, 1): 1}
    assert table["full"] == {(0, 0)}


@pytest.mark.slow
@pytest.mark.parametrize("moments", [1, 2, 4, 5])
def test_any_number_of_moments(moments: int) -> None:
    life = {**BY_HAND, "moments": (BY_HAND["moments"] * 2)[:moments]}
    assert len(drawn(life)) == moments + 1
