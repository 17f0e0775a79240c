"""Pages read back with a parser, since nobody sees what a browser forgives."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "img", "wbr"}


class Reader(HTMLParser):
    """Elements in order, with attributes and the text inside; refuses what is not nested."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[int] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID:
            self.open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self.open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        for k in self.open:
            self.elements[k][2].append(data)

    def texts(self, tag: str, **attributes: str) -> list[str]:
        """Return the text of all elements of a kind, nested elements included."""
        return [
            "".join(text)
            for name, found, text in self.elements
            if name == tag and attributes.items() <= found.items()
        ]

    def values(self, *names: str) -> list[str]:
        """Of attributes."""
        return [
            value or ""
            for _, attributes, _ in self.elements
            for name, value in attributes.items()
            if name in names
        ]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colors by WCAG 2, from 1 to 21."""
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def luminance(color: str) -> float:
    shares = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
