"""Pages that name files of the repository: the files are there, and each walk goes forward."""

from __future__ import annotations

import re

import pytest

from support.settings import DOCS, REPOSITORY

FILES = re.compile(r"`((?:src|tests|docs|benchmarks|evaluation)/[\w./-]+)`")
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_is_named_exists(page: str) -> None:
    named = FILES.findall((REPOSITORY / page).read_text())
    assert len(named) > 10
    # where a recipe says NAME, the reader puts one
    gone = {name for name in named if "NAME" not in name and not (REPOSITORY / name).exists()}
    assert not gone


def test_walks_go_through_each_file_once() -> None:
    page = (DOCS / "architecture.md").read_text()
    walks = re.findall(r"\| file \|.*?\n\n", page, re.DOTALL)
    assert len(walks) == 2
    for walk in walks:
        steps = re.findall(r"^\| `(.*?)` \|", walk, re.MULTILINE)
        assert len(steps) == len(set(steps)) > 5
