"""The page of a report: read back with a parser, since nobody sees what a browser forgives."""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.html_pages import Reader, contrast
from ucfh.report.html import page
from ucfh.report.section import Figure, Section, TextTable


def draw(figure: Any) -> None:
    figure.subplots().plot([1, 2], [3, 1], label="<a & b>")


ODD = "less < more & \"quoted\" > 'here'"
TABLE = TextTable(
    "no </script> and no </style> here",
    ["problem", "mistakes", "share", "kind"],
    [["chain:n=8,horizon=3", "4.1e+08", "0 of 20", "<b>"], ["hard", "-", "1.5 (1.2 to 1.9)", "2"]],
)
SECTIONS = [
    Section(
        "mistakes",
        ODD,
        "At most H^2.",
        ["Few: 0.5 of 1e-06, i.e. none. The rest is here.", "And <i>here</i>."],
        [Figure("one", "caption </figure>", 'an "alt" <text>', draw, 2.0)],
        [TABLE, TABLE],
        jobs=7,
        missing=3,
    ),
    Section("scaling", "Growth", "Slow.", ["Slow? Yes."], jobs=5),
    Section("peers", "Others", "Nothing.", []),
]
ABOUT = {"Versions": "ucfh 1 & others", "Commit": "0123e45"}


@pytest.fixture(scope="module")
def html() -> str:
    return page(SECTIONS, ABOUT)


@pytest.fixture(scope="module")
def read(html: str) -> Reader:
    return Reader(html)


def test_same_input_same_bytes(html: str) -> None:
    anew = [replace(x, figures=[replace(figure) for figure in x.figures]) for x in SECTIONS]
    assert page(anew, ABOUT) == html
    assert page(SECTIONS[:2], ABOUT) != html


def test_anchors_resolve_and_are_unique(read: Reader) -> None:
    ids = read.values("id")
    assert len(set(ids)) == len(ids)
    links = [href for href in read.values("href") if href != "data:,"]
    assert len(links) == 5
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert set(read.values("aria-labelledby")) <= set(ids)


def test_needs_nothing_besides_itself(html: str, read: Reader) -> None:
    assert all(value.startswith(("#", "data:")) for value in read.values("src", "href"))
    assert {tag for tag, _, _ in read.elements}.isdisjoint({"script", "iframe", "object", "base"})
    assert not {name for _, found, _ in read.elements for name in found if name.startswith("on")}
    (style,) = read.texts("style")
    assert "url(" not in style
    assert "@import" not in style
    assert "http" not in html


def test_figures_are_pictures(read: Reader) -> None:
    ((_, image, _),) = [element for element in read.elements if element[0] == "img"]
    assert image["alt"] == 'an "alt" <text>'
    kind, _, data = (image["src"] or "").partition(",")
    assert kind == "data:image/svg+xml;base64"
    root = ElementTree.fromstring(b64decode(data, validate=True))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    # points of 1/72 inch against pixels of 1/96
    for side in ("width", "height"):
        size = float(root.attrib[side].removesuffix("pt"))
        assert abs(size * 96 / 72 - int(image[side] or 0)) <= 0.5
    assert read.texts("figcaption") == ["Figure 1.1. caption </figure>"]


def test_text_is_as_given(read: Reader) -> None:
    assert read.texts("h2", id="study-mistakes-title") == ["1 " + ODD]
    assert read.texts("caption")[0] == "Table 1.1. " + TABLE.caption
    assert "And <i>here</i>." in read.texts("p")
    assert read.texts("dt") == list(ABOUT)
    assert read.texts("dd") == list(ABOUT.values())
    assert "ucfh study mistakes" in read.texts("code")
    assert "ucfh study all" in read.texts("code")


def test_findings_are_first_sentences(read: Reader) -> None:
    found = read.texts("a", href="#study-mistakes")
    assert found == ["Few: 0.5 of 10\N{MINUS SIGN}6, i.e. none.", ODD]
    assert read.texts("a", href="#study-scaling") == ["Slow?", "Growth"]
    assert read.texts("a", href="#study-peers") == ["Others"]
    assert Reader(page(SECTIONS[2:], {})).texts("nav", id="findings") == []


def test_missing_results_are_said(read: Reader) -> None:
    (note,) = read.texts("p", **{"class": "missing"})
    assert note.startswith("3 of 10 results are missing")


def test_tables_have_heads_and_numbers_stand_right(read: Reader) -> None:
    assert read.texts("th", scope="col") == TABLE.columns * 2
    assert read.texts("th", scope="row") == [row[0] for row in TABLE.rows] * 2
    numbers = ["4.1\N{MULTIPLICATION SIGN}108", "0 of 20", "-", "1.5 (1.2 to 1.9)"]
    assert read.texts("td", **{"class": "n"}) == numbers * 2
    assert read.texts("td") == [*numbers[:2], "<b>", *numbers[2:], "2"] * 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1e-06", "10[-6]"),
        ("-1e+15 and 2e15, 1.0e0", "-10[15] and 2x10[15], 1.0x10[0]"),
        ("21e3 0.1e3", "21x10[3] 0.1x10[3]"),
        ("V^* - V^pi, H^2/2^-3", "V[*] - V[pi], H[2]/2[-3]"),
        ("x1e5 3e4f 5e ^ e5 1e+ {2}^{3}", "x1e5 3e4f 5e ^ e5 1e+ {2}^{3}"),
    ],
)
def test_powers_are_raised(text: str, shown: str) -> None:
    html = page([Section("a", "a", text, [])], {})
    html = html.replace("<sup>", "[").replace("</sup>", "]").replace("&times;", "x")
    assert Reader(html).texts("p")[1].replace("\N{MINUS SIGN}", "-") == shown


# without powers, which are shown in other characters
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="^0123456789"))


@given(st.lists(TEXT, min_size=8, max_size=8))
def test_any_text_comes_back(texts: list[str]) -> None:
    title, predicted, seen, caption, column, name, cell, about = texts
    table = TextTable(caption, [column, ""], [[name, cell]])
    section = Section("a", title, predicted, [seen], tables=[table])
    read = Reader(page([section], {about: about}, title))
    assert read.texts("title") == read.texts("h1") == [title]
    assert read.texts("h2", id="study-a-title") == ["1 " + title]
    assert read.texts("p")[1:3] == [predicted, seen]
    assert read.texts("caption") == ["Table 1.1. " + caption]
    assert read.texts("th") == [column, "", name]
    assert read.texts("td") == [cell]
    assert read.texts("dt") == read.texts("dd") == [about]


def test_colours_can_be_read(html: str) -> None:
    """At least 4.5 to 1, as WCAG 2 asks of text."""
    named = dict(re.findall(r"--(\w+): (#\w{6})", html))
    pairs = [(named[name], "#ffffff") for name in ("ink", "soft", "link")]
    note = re.search(r"background: (#\w{6}); color: (#\w{6})", html)
    assert note
    for text, ground in [*pairs, (note[2], note[1])]:
        assert contrast(text, ground) >= 4.5, text


@pytest.mark.parametrize("width", [3.3, 5.5])
def test_figures_for_print(width: float) -> None:
    sizes: list[float] = []

    def measured(figure: Any) -> None:
        draw(figure)
        sizes.append(figure.axes[0].xaxis.label.get_size())

    figure = Figure("one", "", "", measured, height=2.0)
    found = figure.pdf(width)
    assert sizes == [8.0]
    (box,) = re.findall(rb"/MediaBox \[ 0 0 (\S+) (\S+) \]", found)
    assert [float(x) for x in box] == pytest.approx([72 * width, 72 * 1.6])
    assert b"/FontFile2" in found  # text in whole fonts
    assert b"/Type3" not in found
    assert found == figure.pdf(width)
