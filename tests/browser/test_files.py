"""The report of a log and the shipped report: on desk, phone and paper, in light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from browser._chromium import PHONE, page_at, sticks_out
from support.log_reports import faulty_answer, large_answer, refuted_answer, small_answer
from support.settings import DOCS
from ucfh.reporting.page import answer_page

KINDS = {
    "small": small_answer,
    "faulty": faulty_answer,
    "large": large_answer,
    "refuted": refuted_answer,
}
DESK = (1280, 900)
PAPER = (627, 900)
"""The width of an A4 page between its margins, in pixels."""
BACKGROUND = {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 24, 26)"}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in KINDS}
    for kind, folder in folders.items():
        html = answer_page(KINDS[kind](folder))
        (folder / "page.html").write_text(html, encoding="utf-8")
    return {kind: folder / "page.html" for kind, folder in folders.items()}


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def fits(page: Page) -> bool:
    """Return whether nobody has to scroll the page sideways."""
    element = "document.documentElement"
    return bool(page.evaluate(f"{element}.scrollWidth <= {element}.clientWidth"))


def tables_fit(page: Page) -> bool:
    script = "[...document.querySelectorAll('.table')].every(x => x.scrollWidth <= x.clientWidth)"
    return bool(page.evaluate(script))


def folded(page: Page) -> list[str]:
    """Return the captions of tables that are hidden in a closed fold."""
    script = """() => [...document.querySelectorAll("details table")]
      .filter(x => !x.checkVisibility()).map(x => x.caption.textContent)"""
    found: list[str] = page.evaluate(script)
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_report_fits_on_a_screen(
    browser: Browser, pages: dict[str, Path], kind: str, size: tuple[int, int], scheme: str
) -> None:
    with page_at(browser, pages[kind].as_uri(), size, color_scheme=scheme) as (page, complaints):
        assert complaints == []
        assert fits(page)
        assert sticks_out(page) == []
        assert background(page) == BACKGROUND[scheme]
        if kind == "small":
            assert tables_fit(page)


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_fits_on_paper(browser: Browser, pages: dict[str, Path], kind: str) -> None:
    with page_at(browser, pages[kind].as_uri(), PAPER, color_scheme="dark") as (page, complaints):
        page.emulate_media(media="print")
        assert complaints == []
        assert fits(page)
        assert sticks_out(page) == []
        assert tables_fit(page)
        assert background(page) == BACKGROUND["light"]
        assert folded(page) == []


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_the_shipped_report_shows(browser: Browser, size: tuple[int, int]) -> None:
    with page_at(browser, (DOCS / "report.html").as_uri(), size) as (page, complaints):
        images = page.evaluate("[...document.images].map(x => x.naturalWidth > 0 && x.width > 0)")
        assert complaints == []
        assert len(images) >= 8
        assert all(images)
        assert fits(page)


def test_faults_would_be_noticed(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    wide = "<p style='width: 400px'>wide</p><script>console.error('oh')</script></body>"
    html = pages["large"].read_text(encoding="utf-8").replace("</body>", wide)
    path = tmp_path / "page.html"
    path.write_text(html.replace("content-visibility: visible", "opacity: 1"), encoding="utf-8")
    with page_at(browser, path.as_uri(), PHONE) as (page, complaints):
        assert len(complaints) == 1
        assert not fits(page)
        assert len(sticks_out(page)) == 1
        page.emulate_media(media="print")
        assert folded(page) != []
