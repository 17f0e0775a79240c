"""The word list of the project: standard terms, American spelling, docstrings that name a result.

`CHANGELOG.md` and `docs/report.html` are not checked.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from support.settings import DOCS, REPOSITORY, SOURCE

DIALECT = [
    "as people have", "besides,", "for good", "in the mean", "invented", "is no number",
    "lifetimes?", "may be others", "of one's own", "somebody(?:'s)?", "takes? for one", "whoever",
]  # fmt: skip
STEMS = (
    "author|categor|character|discret|emphas|factor|final|formal|general|initial|local|maxim|memor|"
    "minim|normal|optim|organ|parallel|parametr|penal|priorit|quant|random|real|recogn|regular|"
    "serial|special|stabil|standard|summar|symmetr|synchron|util|vector|visual"
)
BRITISH = [
    r"(?:behavi|col|fav|hon|lab|neighb)our\w*",
    r"\w*(?:label|model|signal|travel)l(?:ed|ing)",
    rf"\w*(?:{STEMS})is(?:e[drs]?|ers|ing|ations?)", r"(?:re)?analys(?:ed?|ing)", "centre[ds]?",
    "artefacts?", "defence", "licence[ds]?", "practise[ds]?",
]  # fmt: skip
PHRASES = [x.replace(" ", r"[\s#>*]+") for x in (*DIALECT, *BRITISH)]  # may cross a line of text
EXCLUDED = re.compile(rf"(?<![\w-])(?:{'|'.join(PHRASES)})(?!\w)", re.IGNORECASE)
PERCENT = re.compile(r"^(?! {4}).*?\d %", re.MULTILINE)
HEADLESS = re.compile(r"(?:What|Who|Whoever|Whether|How|Where|Those|That|Such)\b")

PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
KINDS = {".py", ".pyi", ".html", ".css", ".js", ".jinja"}
PARTS = {
    part: list(paths)
    for part, paths in groupby(
        sorted(path for path in SOURCE.rglob("*") if path.suffix in KINDS),
        lambda path: path.relative_to(SOURCE).parts[0],
    )
}


def hits(path: Path, pattern: re.Pattern[str], fences: bool = True) -> Iterator[str]:
    """Yield each match as file:line: words. Fenced blocks are skipped without ``fences``."""
    text = path.read_text(encoding="utf-8")
    if not fences:
        text = re.sub(
            r"```.*?```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL
        )
    for found in pattern.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield f"{path.relative_to(REPOSITORY)}:{line}: {' '.join(found[0].split())}"


def headless(path: Path) -> Iterator[str]:
    """Yield the first line of each docstring that begins with a headless clause."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if HEADLESS.match(first):
                line = getattr(node, "lineno", 1)
                yield f"{path.relative_to(REPOSITORY)}:{line}: {first}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_pages_use_standard_words(page: Path) -> None:
    assert [*hits(page, EXCLUDED), *hits(page, PERCENT, fences=False)] == []


@pytest.mark.parametrize("part", PARTS)
def test_source_uses_standard_words(part: str) -> None:
    assert [hit for path in PARTS[part] for hit in hits(path, EXCLUDED)] == []


@pytest.mark.parametrize("part", PARTS)
def test_docstrings_name_their_result(part: str) -> None:
    sources = [path for path in PARTS[part] if path.suffix == ".py"]
    assert [hit for path in sources for hit in headless(path)] == []


@pytest.mark.parametrize(
    "text",
    ["gone for\n    # good", "Besides, it", "a neighbouring state", "normalised", "analyse it"],
)
def test_excluded_words_are_found(text: str) -> None:
    assert EXCLUDED.search(text)


@pytest.mark.parametrize("text", ["analyses", "in the meantime", "precise", "otherwise", "control"])
def test_other_words_are_allowed(text: str) -> None:
    assert not EXCLUDED.search(text)
