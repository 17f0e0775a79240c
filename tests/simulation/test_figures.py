"""Figures of runs: nothing is cut off at their edges."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from ucfh import make, make_agent, simulate
from ucfh.simulation import plots


@pytest.mark.parametrize("name", ["certified-ucfh", "ucfh"])
def test_the_legend_fits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(plots, "save", lambda figure, *_: drawn.append(figure))
    mdp = make("chain:n=3,horizon=3")
    simulate(mdp, make_agent(name, mdp, 0.5, 0.1, 1)).plot("figure.png", "a title")
    (figure,) = drawn
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    (legend,) = figure.legends
    box, page = legend.get_window_extent(), figure.bbox
    assert page.x0 <= box.x0 < box.x1 <= page.x1
    assert page.y0 <= box.y0 < box.y1 <= page.y1
