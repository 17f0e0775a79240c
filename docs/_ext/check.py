"""Check a built site: every link within it leads somewhere, and nothing is loaded from elsewhere.

    python docs/_ext/check.py docs/_build/html

Links that lead out of the site are left to ``make links``, which needs a network.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}
POINTERS = {"canonical", "next", "prev", "index", "search"}
"""Kinds of <link> that load nothing."""


class Page(HTMLParser):
    """What a page loads, where it links to, and the places in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect."""
        given = {key: value or "" for key, value in attrs}
        self.ids |= {given[key] for key in ("id", "name") if key in given}
        for key, value in given.items():
            if (tag, key) in LOADED and not set(given.get("rel", "").split()) & POINTERS:
                self.loads.append(value)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])


def faults(root: Path) -> list[str]:
    """What is wrong, a line each."""
    pages = {path.resolve(): Page(path.read_text()) for path in root.rglob("*.html")}
    found = []
    for path, page in sorted(pages.items()):
        name = path.relative_to(root.resolve())
        for address in page.loads:
            if urlsplit(address).netloc:
                found.append(f"{name} loads {address}")
        for address in [*page.loads, *page.links]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{name} links to {address}, which does not exist")
            elif parts.fragment and unquote(parts.fragment) not in pages[target].ids:
                found.append(f"{name} links to {address}, which has no such place")
    for path in sorted(root.rglob("*.css")):
        foreign = re.findall(
            r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", path.read_text()
        )
        found += [f"{path.relative_to(root)} loads {address}" for address in foreign]
    return found


if __name__ == "__main__":
    lines = faults(Path(sys.argv[1]))
    print("\n".join(lines) or "all links within the site lead somewhere; it loads nothing else")
    sys.exit(bool(lines))
