"""Runs, plans and certificates in notebooks and figures."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import ucfh
from ucfh import InputError, Run, simulate
from ucfh._utils.notebook import MOST, policy_table
from ucfh.certificate import Certificate
from ucfh.confidence.behavior_policy import BehaviorValue

CERTIFIED = simulate("chain:n=3,horizon=3", "certified-ucfh", epsilon=0.5)
PRINTED = simulate("chain:n=3,horizon=3", "ucfh", epsilon=0.5)


def known() -> Certificate:
    assert CERTIFIED.certificate is not None
    return CERTIFIED.certificate


class Balanced(HTMLParser):
    """Every tag that is opened is closed; all that is loaded is in the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images = 0
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "img":
            self.images += 1
            assert dict(attrs)["src"].startswith("data:image/png;base64,iVBOR")
            assert dict(attrs)["alt"]
        else:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize(
    ("thing", "images"),
    [
        (CERTIFIED, 1),
        (PRINTED, 1),
        (CERTIFIED.certificate, 1),
        (replace(known(), contradiction="x < y"), 0),
        (ucfh.make("chain:n=3").optimal(), 0),
    ],
    ids=["certified", "printed", "certificate", "refuted", "plan"],
)
def test_in_a_notebook_and_in_a_line(thing: Any, images: int) -> None:
    page = thing._repr_html_()
    assert Balanced(page).images == images
    assert "http" not in page
    assert len(page) < 200_000
    assert "\n" not in repr(thing)
    assert len(repr(thing)) < 120


def test_a_policy_is_shown_in_part_if_it_is_large() -> None:
    small = policy_table(np.array([[0, 1], [1, 0], [1, 1]]), np.arange(8.0).reshape(4, 2))
    assert small == (
        "<table><tr><th>state</th><th>step 1</th><th>step 2</th><th>step 3</th><th>value</th></tr>"
        "<tr><td>0</td><td>0</td><td>1</td><td>1</td><td>0</td></tr>"
        "<tr><td>1</td><td>1</td><td>0</td><td>1</td><td>1</td></tr></table>"
    )
    large = policy_table(np.zeros((1000, 1000), int))
    assert large.count("<tr>") == MOST + 2
    assert large.count("<th>") == MOST + 2


def test_a_long_run_shows_its_ends() -> None:
    page = CERTIFIED._repr_html_()
    assert len(CERTIFIED.rows) > 10
    assert page.count("<tr>") == 11
    assert f"<td>{len(CERTIFIED.rows) - 1}</td>" in page


@pytest.mark.parametrize("run", [CERTIFIED, PRINTED], ids=["certified", "printed"])
def test_runs_on_own_axes(run: Run) -> None:
    """Only the given axes are drawn on."""
    figure, other = Figure(), Figure()
    first, second = figure.subplots(1, 2)
    other.subplots()
    assert run.plot(ax=second, title="mine") is figure
    assert not first.has_data()
    assert not other.axes[0].has_data()
    assert second.get_legend().get_texts()
    assert (second.get_title(), second.get_xlabel()) == ("mine", "episodes")
    assert run.plot() is not figure


def test_title_of_a_run(tmp_path: Any) -> None:
    """Also after it was saved; a problem that was not named has no name."""
    said = f"chain:n=3,horizon=3: certified-ucfh, {CERTIFIED.episodes} episodes"
    assert CERTIFIED.plot().axes[0].get_title() == said
    CERTIFIED.save(tmp_path / "run.npz")
    assert Run.load(tmp_path / "run.npz").plot().axes[0].get_title() == said
    mdp = ucfh.make("chain:n=3")
    run = simulate(mdp, ucfh.make_agent("ucbvi-bf", mdp, 0.1, 0.1, 5, scale=0.1), 5)
    assert run.plot().axes[0].get_title() == "ucbvi-bf, 5 episodes, scale 0.1"


@pytest.mark.parametrize("layout", [None, "constrained"])
@pytest.mark.parametrize("panels", [1, 2])
@pytest.mark.parametrize("thing", [CERTIFIED, PRINTED, CERTIFIED.certificate])
def test_small_axes_hold_title_and_legend(thing: Any, panels: int, layout: Any) -> None:
    figure = Figure(figsize=(7, 3), layout=layout)
    ax = figure.subplots(1, panels, squeeze=False)[0, -1]
    thing.plot(ax=ax)
    figure.draw_without_rendering()
    title, legend = ax.title.get_window_extent(), ax.get_legend().get_window_extent()
    assert figure.bbox.x0 <= title.x0 < title.x1 <= figure.bbox.x1
    assert title.y1 <= figure.bbox.y1
    assert title.y0 > ax.bbox.y1
    assert ax.bbox.x0 <= legend.x0 < legend.x1 <= ax.bbox.x1
    drawn = [x.get_window_extent() for x in ax.patches or ax.lines[:2]]
    assert max(x.y1 for x in drawn) < legend.y0


def test_certificates_on_own_axes(tmp_path: Any) -> None:
    figure = Figure()
    ax: Any = figure.subplots()
    logged = replace(known(), behavior=BehaviorValue(0.15, 0.1, 0.2, 9, 0))
    assert logged.plot(ax=ax) is figure
    bars: list[Any] = list(ax.patches)
    ends = sorted({round(x.get_x() + x.get_width(), 12) for x in bars})
    assert ends == sorted(round(x, 12) for x in (known().lower, known().upper, 0.1, 0.2))
    known().plot(tmp_path / "known.svg", "$ _")
    assert (tmp_path / "known.svg").read_text().startswith("<?xml")
    with pytest.raises(InputError, match=r"known\.svg exists: pass"):
        known().plot(tmp_path / "known.svg")
    with pytest.raises(InputError):
        replace(known(), contradiction="x").plot()


@pytest.mark.parametrize("thing", [CERTIFIED, PRINTED, CERTIFIED.certificate])
def test_invalid_axes(thing: Any) -> None:
    figure = Figure()
    with pytest.raises(InputError):
        thing.plot(ax=figure)
    with pytest.raises(InputError):
        thing.plot("x.png", ax=figure.subplots())
    with pytest.raises(InputError):
        thing.plot(ax="gca")


def test_a_run_without_episodes() -> None:
    empty = replace(PRINTED, rows=[])
    with pytest.raises(InputError):
        empty.plot()
    assert Balanced(empty._repr_html_()).images == 0


def test_epsilon_is_for_agents_by_name() -> None:
    mdp = ucfh.make("chain:n=3")
    assert simulate(mdp, "psrl", 5).epsilon == 0.1
    assert simulate(mdp, "psrl", 5, epsilon=0.3, delta=0.2).about["delta"] == 0.2
    with pytest.raises(InputError):
        simulate(mdp, ucfh.UCFH(mdp, 0.5, 0.1), 5, epsilon=0.5)


@pytest.mark.parametrize("run", [CERTIFIED, PRINTED], ids=["certified", "printed"])
def test_the_legend_fits(run: Run) -> None:
    figure = run.plot(title="a title")
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    (legend,) = figure.legends
    box, page = legend.get_window_extent(), figure.bbox
    assert page.x0 <= box.x0 < box.x1 <= page.x1
    assert page.y0 <= box.y0 < box.y1 <= page.y1
