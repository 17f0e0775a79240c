"""The figure of an answer: drawn for any names and sizes, in every format."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.log_reports import answer_of_log, large_answer, refuted_answer, small_answer
from ucfh import InputError, read_log
from ucfh.reporting import figure as figure_module
from ucfh.reporting.figure import plot_answer


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_every_format(tmp_path: Path, ending: str) -> None:
    answer, path = small_answer(tmp_path), tmp_path / f"answer.{ending}"
    plot_answer(answer, path)
    assert path.stat().st_size > 5000
    assert b"/Type3" not in path.read_bytes()  # fonts of a PDF are embedded
    with pytest.raises(InputError, match="exists: pass --force"):
        plot_answer(answer, path)
    plot_answer(answer, path, force=True)
    with pytest.raises(InputError, match="unknown ending"):
        plot_answer(answer, tmp_path / "answer.gif")


def test_it_says_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read from the figure before it is saved."""
    kept = []
    monkeypatch.setattr(figure_module, "save", lambda figure, *_: kept.append(figure))
    answer = small_answer(tmp_path)
    plot_answer(answer, "answer.png")
    (figure,) = kept
    above, below = figure.axes
    texts = [x.get_text() for x in above.texts]
    assert [x.partition(":")[0] for x in texts] == [
        "What was done in the log", "This plan", "Any plan",
    ]  # fmt: skip
    assert any(f"at least {answer.at_least(answer.known.lower)} per " in x for x in texts)
    full = f"full: at least, with {answer.sure} confidence; hatched: perhaps; dot: paid on average)"
    assert full in above.get_xlabel()
    right = max(bar.get_x() + bar.get_width() for bar in above.patches)
    assert right == pytest.approx(answer.known.upper)
    cells = [x.get_text() for x in below.texts]
    assert cells == ["◐ mail", "◐ call", "\N{EN DASH} call", "◐ call", "● call"]
    assert [x.get_text() for x in below.get_xticklabels()] == ["0", "1\N{EN DASH}2", "3"]
    assert [x.get_text() for x in below.get_yticklabels()] == ["cold", "warm"]
    assert "Certified" in figure.get_suptitle()


def test_many_states_and_what_is_refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    monkeypatch.setattr(figure_module, "save", lambda figure, *_: kept.append(figure))
    plot_answer(large_answer(tmp_path, 300), "answer.png")
    assert "110 states that the log shows less often are left out" in kept[0].axes[1].get_xlabel()
    refuted = refuted_answer(tmp_path)
    plot_answer(refuted, "answer.png")
    assert "Not certified: the log contradicts" in kept[1].get_suptitle()
    known = replace(refuted.known, contradiction="one bound is above another")
    plot_answer(replace(refuted, known=known), "answer.png")
    assert len(kept[2].axes[0].patches) == 0


def test_names_are_not_formulas(tmp_path: Path) -> None:
    """Dollar signs would begin one; and long names are cut."""
    path = tmp_path / "log.csv"
    names = ["$x^{", "a" * 300, "two words " * 40]
    rng = np.random.default_rng(0)
    rows = "".join(
        f"{k},0,{names[rng.integers(3)].strip()},{names[rng.integers(3)].strip()},0,$y$\n"
        for k in range(60)
    )
    path.write_text(f"episode,t,state,action,reward,next_state\n{rows}")
    plot_answer(answer_of_log(read_log(path), "$log$.csv", 0.1), tmp_path / "answer.png")
