"""The committed report in a real browser: all figures show, without errors or overflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from slow._browser import measure
from support.settings import DOCS

WIDTHS = (360, 1200)
"""A phone and a desktop."""


@pytest.mark.parametrize("width", WIDTHS)
def test_the_shipped_report_shows(tmp_path: Path, width: int) -> None:
    html = (DOCS / "report.html").read_text()
    seen, complaints = measure(tmp_path, html, width)
    assert complaints == []
    assert len(seen["images"]) >= 8
    assert all(seen["images"])
    assert seen["needed"] <= seen["room"]


def test_errors_are_noticed(tmp_path: Path) -> None:
    html = (
        "<!doctype html><html lang=en><head><link rel=icon href='data:,'>"
        "<meta name=viewport content='width=device-width'></head><body>"
        '<img src="data:image/svg+xml;base64,AAAA" alt="none">'
        "<script>console.error('oh')</script><p style='width: 400px'>wide</p></body></html>"
    )
    seen, complaints = measure(tmp_path, html, 360)
    assert len(complaints) == 1
    assert seen["images"] == [False]
    assert seen["needed"] > seen["room"]
