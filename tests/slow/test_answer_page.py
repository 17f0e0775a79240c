"""The page of an answer in a real browser: on a desk, on a phone, in the dark and on paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from slow._browser import measure
from support.log_reports import faulty_answer, large_answer, refuted_answer, small_answer
from ucfh.reporting.page import answer_page

KINDS = {
    "small": small_answer,
    "faulty": faulty_answer,
    "large": large_answer,
    "refuted": refuted_answer,
}
WIDTHS = (360, 1280)
"""A phone and a desk."""
PAPER = 627
"""The width of an A4 page between its margins, in pixels."""
DARK, LIGHT = "--blink-settings=preferredColorScheme=0", "--blink-settings=preferredColorScheme=1"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {kind: answer_page(make(tmp_path_factory.mktemp(kind))) for kind, make in KINDS.items()}


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_page_shows(
    pages: dict[str, str], tmp_path: Path, kind: str, width: int, look: str
) -> None:
    seen, complaints = measure(tmp_path, pages[kind], width, look)
    assert complaints == []
    assert seen["width"] == width
    assert seen["needed"] <= seen["room"]
    assert seen["outside"] == []
    assert seen["background"] == ("rgb(22, 24, 26)" if look == DARK else "rgb(255, 255, 255)")
    if kind == "small":  # nobody has to scroll sideways
        assert all(needed <= room for room, needed in seen["tables"])


@pytest.mark.parametrize("kind", KINDS)
def test_page_fits_on_paper(pages: dict[str, str], tmp_path: Path, kind: str) -> None:
    """With the style of print: nothing is wider than the paper, and no table is cut off."""
    html = pages[kind].replace("@media print", "@media all").replace("@media screen", "@media tv")
    seen, complaints = measure(tmp_path, html, PAPER, DARK)
    assert complaints == []
    assert seen["needed"] <= seen["room"]
    assert seen["outside"] == []
    assert all(needed <= room for room, needed in seen["tables"])
    assert seen["background"] == "rgb(255, 255, 255)"
    assert seen["folded"] == []


def test_faults_would_be_noticed(pages: dict[str, str], tmp_path: Path) -> None:
    wide = "<p style='width: 400px'>wide</p><script>console.error('oh')</script></body>"
    seen, complaints = measure(tmp_path, pages["small"].replace("</body>", wide), 360)
    assert len(complaints) == 1
    assert seen["needed"] > seen["room"]
    assert seen["outside"] == ["P"]
    html = pages["large"].replace("content-visibility: visible", "opacity: 1")
    seen, _ = measure(tmp_path, html.replace("@media print", "@media all"), PAPER)
    assert seen["folded"] != []
