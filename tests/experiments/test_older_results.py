"""Results of an older version, kept as the file that it wrote: read for ever, never added to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from helpers.paths import TESTS
from ucfh.cli import main
from ucfh.errors import InputError
from ucfh.experiments.store import FILE, Store

KEPT = TESTS / "data" / "results-0.4.0"
"""Two results of version 0.4.0, in a study of the lemmas on "chain:n=3,horizon=3"."""


RENAMED = TESTS / "data" / "results-0.5.0"
"""Four results of version 0.5.0, of which two are of a learner that is called otherwise now."""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A copy, which may be written to."""
    return shutil.copytree(KEPT, tmp_path / "older")


def test_older_results_are_read(older: Path) -> None:
    with Store(older) as store:
        (asked,) = store.asked()
        assert (asked.study.name, asked.study.title, asked.quick) == (
            "small",
            "A small study",
            False,
        )
        jobs = asked.jobs()
        assert {job.id for job in jobs} == store.done()
        found = store.results(jobs)
        made_with, seconds = store.made_with(), store.seconds()
    assert [x.arguments["variant"] for x in found] == ["paper", "corrected"]
    assert [x.arguments["problem"] for x in found] == ["chain:n=3,horizon=3"] * 2
    for result in found:
        claims = [line["claim"] for line in result.values["lines"]]
        assert "Theorem 1: episodes worse than epsilon" in claims
        assert all(line["holds"] for line in result.values["lines"])
    assert (made_with["ucfh"], made_with["source"]) == ("0.4.0", "a9c00d1ea6dc")
    assert seconds > 0


def test_older_results_are_reported(older: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["report", str(older)])
    assert ended.value.code == 0
    assert capsys.readouterr().err == ""
    page = (older / "report.html").read_text()
    for text in ("A small study", "0.4.0", "2 jobs", "All 14 checks of proved claims hold"):
        assert text in page
    assert "are missing" not in page


def test_older_results_are_not_added_to(older: Path) -> None:
    before = (older / FILE).read_bytes()
    with pytest.raises(InputError) as caught:
        Store(older, write=True)
    message = str(caught.value)
    assert message.startswith(f"{older} has results of ")
    assert "made with ucfh 0.4.0" in message
    assert "pass another folder (--out)" in message
    assert len(message.splitlines()) == 1
    assert (older / FILE).read_bytes() == before


def test_learners_that_were_renamed_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(RENAMED, tmp_path / "renamed")
    with Store(folder) as store:
        (asked,) = store.asked()
        assert len(store.results(asked.jobs())) == 4
    with pytest.raises(SystemExit) as ended:
        main(["report", str(folder)])
    assert (ended.value.code, capsys.readouterr().err) == (0, "")
    page = (folder / "report.html").read_text()
    assert "certified ucfh" in page
    assert "stop=certificate" not in page
