"""The reference: every public name is on one page, and its signature shows every argument."""

from __future__ import annotations

import inspect
import re
from collections import Counter

import pytest

import ucfh
from support.settings import DOCS

NAMES = [name for name in ucfh.__all__ if name != "__version__"]


def shown() -> Counter[str]:
    """Return the number of entries of each name in the reference."""
    pages = "".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    return Counter(re.findall(r"^\.\. auto\w+:: ucfh\.(\w+)$", pages, re.MULTILINE))


def test_every_public_name_has_one_place() -> None:
    assert shown() == Counter(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_signatures_show_every_argument(name: str) -> None:
    thing = getattr(ucfh, name)
    if isinstance(thing, type) and issubclass(thing, Exception):
        return
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for argument in inspect.signature(thing).parameters.values():
        assert argument.kind not in starred, argument
