"""The report that is shipped: of a full run, of all studies, and whole."""

from __future__ import annotations

from base64 import b64encode
from html.parser import HTMLParser

import pytest

from helpers.paths import DOCS, REPOSITORY
from ucfh.studies.catalogue import STUDIES, read_study


class Text(HTMLParser):
    """The words of a page, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.loads: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [str(value)[:40] for key, value in attrs if tag == "img" and key == "src"]


def test_the_report_is_that_of_all_studies_in_full() -> None:
    page = Text()
    page.feed((DOCS / "report.html").read_text())
    text = " ".join(" ".join(page.words).split())
    studies = [read_study(name) for name in STUDIES]
    for study in studies:
        assert study.title in text
        assert f"ucfh study {study.name}" in text
    jobs = {job.id for study in studies for job in study.jobs()}
    assert f"{len(jobs):,} jobs" in text
    assert len(jobs) > 5000
    assert "results are missing" not in text
    assert "quick versions" not in text
    assert len(page.loads) >= len(STUDIES)
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.loads)


def test_the_findings_in_the_documents_are_those_of_the_report() -> None:
    page = Text()
    page.feed((DOCS / "report.html").read_text())
    report = " ".join("".join(page.words).split())
    pages = [
        " ".join(page.read_text().lower().split())
        for page in (REPOSITORY / "README.md", DOCS / "evaluation.md")
    ]
    for told in ("1.98 (1.94 to 2.01)", "318 to 8,620", "3.1 to 11 times fewer", "78.5 %"):
        assert told in report
        assert all(told in page for page in pages)
    for told in ("13 of 31 learners", "none of 1,380 certified policies was worse than epsilon"):
        assert told in report
        assert all(told in page for page in pages)


@pytest.mark.parametrize("name", ["mistakes.svg", "peers.svg", "league.svg"])
def test_figures_in_the_documents_are_those_of_the_report(name: str) -> None:
    figure = (DOCS / name).read_bytes()
    assert b64encode(figure).decode() in (DOCS / "report.html").read_text()
