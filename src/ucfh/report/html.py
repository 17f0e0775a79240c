"""Studies as one page: an HTML file that needs no other file.

It has no script and fetches nothing, so it can be sent, kept and printed. Figures are inside it as
SVG.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape

from ucfh.report.section import WIDTH, Figure, Section, TextTable

TITLE = "An empirical evaluation of UCFH"

LEAD = """\
<p class="lead">UCFH (C. Dann and E. Brunskill, <cite>Sample Complexity of Episodic Fixed-Horizon
Reinforcement Learning</cite>, NIPS 2015) learns a task that is repeated many times, each time for a
fixed number of steps, and guarantees that few episodes are far from optimal. This is its empirical
evaluation, which the paper left as future work, with whole lifetimes simulated exactly. Each study
says what the theory predicts and what was measured.</p>
"""

STYLE = """
:root {
  color-scheme: light;
  --ink: #1d1f21; --soft: #565b60; --rule: #d5d8db; --link: #0b5a8a;
  --serif: Charter, "Bitstream Charter", "Iowan Old Style", "Sitka Text", Cambria, "Noto Serif",
    serif;
  --sans: "Helvetica Neue", "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif;
  --edge: 1.25rem;
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 3.5rem var(--edge) 5rem; max-width: calc(34rem + 2 * var(--edge));
  background: #fff; color: var(--ink);
  font: 1.125rem/1.55 var(--serif); overflow-wrap: break-word;
}
h1, h2, h3 { line-height: 1.2; font-weight: 600; text-wrap: balance; break-after: avoid; }
h1 { margin: 0 0 1.25rem; font-size: 2.1rem; letter-spacing: -0.01em; }
h2 { margin: 0 0 1.25rem; font-size: 1.5rem; }
h3 { margin: 1.75rem 0 0.4rem; font: 600 0.9rem/1.4 var(--sans); color: var(--soft); }
p { margin: 0 0 0.8em; text-wrap: pretty; }
.lead { font-size: 1.2rem; line-height: 1.5; }
a { color: var(--link); text-underline-offset: 0.18em; text-decoration-thickness: 1px; }
code { font: 0.85em/1.4 ui-monospace, "Cascadia Mono", Menlo, Consolas, "Liberation Mono",
  monospace; white-space: nowrap; }
sup { font-size: 0.72em; line-height: 0; }
nav ul, nav ol { margin: 0 0 1.5em; padding-left: 1.4em; }
nav li { margin: 0 0 0.45em; padding-left: 0.2em; }
nav li::marker { color: var(--soft); font-variant-numeric: lining-nums; }
nav a { text-decoration-color: #b5c7d3; }
nav a:hover { text-decoration-color: currentcolor; }
#findings a { color: inherit; }
nav h2 { margin: 2.25rem 0 0.6rem; font-size: 1.25rem; }
section { margin-top: 3.5rem; padding-top: 2.5rem; border-top: 1px solid var(--rule); }
.number { margin-right: 0.35em; color: var(--soft); font-weight: 400; }
figure { margin: 2rem 0; }
img { display: block; width: 100%; height: auto; }
figcaption, caption { font: 0.9rem/1.45 var(--sans); color: var(--soft); text-align: left;
  text-wrap: pretty; }
figcaption { margin-top: 0.6rem; }
figcaption b, caption b { color: var(--ink); font-weight: 600; }
.table {
  margin: 2rem 0; overflow-x: auto;
  /* a shadow shows that there is more; at the end, the layer that scrolls covers it */
  background:
    linear-gradient(to left, #fff 1rem, #fff0) 100% 0 / 2rem 100% local no-repeat,
    linear-gradient(to left, #0003, #0000) 100% 0 / 0.6rem 100% no-repeat;
}
.table:focus-visible { outline: 2px solid var(--link); outline-offset: 4px; }
table {
  margin: 0 auto; min-width: min(34rem, 100%); border-collapse: separate; border-spacing: 0;
  border-bottom: 1.5px solid var(--ink);
  font: 0.9rem/1.4 var(--sans); font-variant-numeric: lining-nums tabular-nums;
}
caption { position: sticky; left: 0; padding-bottom: 0.6rem;
  max-width: min(34rem, 100vw - 2 * var(--edge) - 1.2rem); }
th, td { padding: 0.32rem 0.7rem; text-align: left; vertical-align: baseline; font-weight: 400; }
th:first-child { position: sticky; left: 0; max-width: 17rem; padding-left: 0.1rem;
  background: #fff; }
th:last-child, td:last-child { padding-right: 0.1rem; }
thead th { font-weight: 600; vertical-align: bottom; border-top: 1.5px solid var(--ink);
  border-bottom: 1px solid var(--ink); }
tbody tr + tr > * { border-top: 1px solid #eceeef; }
th.n, td.n { text-align: right; }
td.n { white-space: nowrap; }
.missing { margin: 1.25rem 0; padding: 0.6rem 0.9rem; border-left: 4px solid #b45309;
  background: #fff7e8; color: #6b2f00; font: 0.95rem/1.45 var(--sans); }
.rerun { margin-top: 1.5rem; font: 0.9rem/1.45 var(--sans); color: var(--soft); }
.rerun code { color: var(--ink); }
dl { display: grid; grid-template-columns: fit-content(11rem) minmax(0, 1fr);
  gap: 0.35rem 1.25rem; margin: 1rem 0; font: 0.9rem/1.45 var(--sans); }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; white-space: pre-line; }
@media screen and (min-width: 36.01rem) {
  .table { margin-inline: calc(50% - min(30rem, 50vw - var(--edge))); }
}
@media screen and (max-width: 36rem) {
  body { padding-top: 2rem; font-size: 1.0625rem; }
  h1 { font-size: 1.75rem; }
  .lead { font-size: 1.1rem; }
  figure img { --out: calc(var(--edge) - 0.25rem); width: calc(100% + 2 * var(--out));
    margin: 0 calc(-1 * var(--out)); }
  table { font-size: 0.85rem; }
  th, td { padding: 0.32rem 0.5rem; }
  th:first-child { max-width: 8.5rem; }
  dl { display: block; }
  dd { margin-bottom: 0.6rem; }
}
@page { margin: 20mm 22mm 22mm; @bottom-center { content: counter(page); font: 9pt serif; } }
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; line-height: 1.4; }
  h1 { font-size: 20pt; }
  h2 { font-size: 14pt; margin-bottom: 0.6rem; }
  h3, figcaption, table, caption, .missing, .rerun, dl { font-size: 8.5pt; }
  h3 { margin-top: 1rem; }
  .lead { font-size: 11pt; }
  a { color: inherit; text-decoration: none; }
  p { orphans: 3; widows: 3; }
  nav { break-inside: avoid; }
  nav h2 { margin: 1.2rem 0 0.6rem; font-size: 12pt; }
  nav li { margin-bottom: 0.15em; }
  section { margin-top: 1.6rem; padding-top: 1.2rem; }
  figure, .table, .missing, tr, dl { break-inside: avoid; }
  figure { width: 100mm; margin: 1.1rem auto; }
  .table { margin: 1.1rem 0; overflow: visible; background: none; }
  table { min-width: 100%; }
  caption { max-width: none; }
  caption, th:first-child { position: static; background: none; }
  th, td { padding: 0.2rem 0.45rem; }
  td.n { white-space: normal; }
}
"""

MINUS = "\N{MINUS SIGN}"

NUMERIC = {"e", "inf", "nan", "of", "to", "s", "ms"}
"""The words that may stand beside a number in a cell."""


def page(sections: Sequence[Section], about: Mapping[str, str], title: str = TITLE) -> str:
    """The page of some studies and how they were made; the same input gives the same page."""
    findings = [(study, _first_sentence(study.seen[0])) for study in sections if study.seen]
    return document(
        title,
        STYLE,
        f"<header>\n<h1>{escape(title)}</h1>\n{LEAD}</header>\n"
        + _links("findings", "Findings", "ul", findings)
        + _links("contents", "Contents", "ol", [(study, study.title) for study in sections])
        + "<main>\n"
        + "".join(_section(number, study) for number, study in enumerate(sections, 1))
        + "</main>\n"
        + _made(about),
    )


def document(title: str, style: str, body: str) -> str:
    """A page that needs no other file; ``body`` is HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # without this, a browser asks the server for an icon that does not exist
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"{body}</body>\n</html>\n"
    )


def _links(name: str, heading: str, kind: str, items: list[tuple[Section, str]]) -> str:
    """A list of texts, each a link to its study; empty if there are none."""
    if not items:
        return ""
    entries = "".join(
        f'<li><a href="#{_anchor(study)}">{_text(text)}</a></li>\n' for study, text in items
    )
    return (
        f'<nav id="{name}" aria-labelledby="{name}-heading">\n'
        f'<h2 id="{name}-heading">{heading}</h2>\n<{kind}>\n{entries}</{kind}>\n</nav>\n'
    )


def _section(number: int, study: Section) -> str:
    anchor = _anchor(study)
    command = f"<code>ucfh study {escape(study.name)}</code>"
    parts = [
        f'<section id="{anchor}" aria-labelledby="{anchor}-title">\n<h2 id="{anchor}-title">'
        f'<span class="number">{number}</span> {_text(study.title)}</h2>\n'
    ]
    if study.missing:
        parts.append(
            f'<p class="missing">{study.missing} of {study.jobs + study.missing} results are '
            f"missing. {command} adds them.</p>\n"
        )
    parts.append(f"<h3>What the theory predicts</h3>\n<p>{_text(study.predicted)}</p>\n")
    if study.seen:
        parts.append("<h3>What was measured</h3>\n")
    parts += [f"<p>{_text(text)}</p>\n" for text in study.seen]
    parts += [_figure(f"{number}.{k}", figure) for k, figure in enumerate(study.figures, 1)]
    parts += [
        _table(f"{number}.{k}", f"{anchor}-table-{k}", table)
        for k, table in enumerate(study.tables, 1)
    ]
    parts.append(f'<p class="rerun">To run this study again: {command}</p>\n</section>\n')
    return "".join(parts)


def _figure(number: str, figure: Figure) -> str:
    data = b64encode(figure.svg.encode()).decode()
    # the size in pixels, so that text does not move while the page loads
    return (
        f'<figure>\n<img src="data:image/svg+xml;base64,{data}" alt="{escape(figure.alt)}" '
        f'width="{round(96 * WIDTH)}" height="{round(96 * figure.height)}">\n'
        f"<figcaption><b>Figure {number}.</b> {_text(figure.caption)}</figcaption>\n</figure>\n"
    )


def _table(number: str, anchor: str, table: TextTable) -> str:
    """A table in a frame that scrolls sideways, by keyboard too, where the page is narrower."""
    kinds = [
        ' class="n"' if _is_numeric([row[k] for row in table.rows]) else ""
        for k in range(len(table.columns))
    ]
    head = "".join(
        f'<th scope="col"{kind}>{_text(text)}</th>'
        for kind, text in zip(kinds, table.columns, strict=True)
    )
    lines = [
        f'<div class="table" role="region" aria-labelledby="{anchor}" tabindex="0">\n<table>\n'
        f'<caption id="{anchor}"><b>Table {number}.</b> {_text(table.caption)}</caption>\n'
        f"<thead>\n<tr>{head}</tr>\n</thead>\n<tbody>\n"
    ]
    for row in table.rows:
        cells = zip(kinds[1:], row[1:], strict=True)
        data = "".join(f"<td{kind}>{_text(text)}</td>" for kind, text in cells)
        # a name may be as long as hard:n=10,actions=4,horizon=10; it is shown as it is typed
        name = escape(row[0]).replace(",", ",<wbr>")
        lines.append(f'<tr><th scope="row"{kinds[0]}>{name}</th>{data}</tr>\n')
    lines.append("</tbody>\n</table>\n</div>\n")
    return "".join(lines)


def _made(about: Mapping[str, str]) -> str:
    entries = "".join(
        f"<dt>{escape(key)}</dt>\n<dd>{escape(value)}</dd>\n" for key, value in about.items()
    )
    return (
        '<section id="made" aria-labelledby="made-title">\n'
        '<h2 id="made-title">How this report was made</h2>\n'
        "<p>The program that ran the studies made all numbers, paragraphs, tables and figures from "
        "the results. To run everything again: <code>ucfh study all</code>. Results that exist "
        "already are kept, so an interrupted run continues.</p>\n"
        + (f"<dl>\n{entries}</dl>\n" if entries else "")
        + "</section>\n"
    )


def _text(text: str) -> str:
    """Text as HTML, with powers set as such.

    >>> _text("4.1e+08 < 1e-06 H^2")
    '4.1&times;10<sup>8</sup> &lt; 10<sup>−6</sup> H<sup>2</sup>'
    """
    html = re.sub(r"\b([0-9][0-9.]*)e\+?(-?)0*([0-9]+)\b", r"\1&times;10^\2\3", escape(text))
    html = re.sub(r"(?<![0-9.])1&times;10\^", "10^", html)
    return re.sub(r"\^(-?)(\w+|\*)", lambda m: f"<sup>{m[1] and MINUS}{m[2]}</sup>", html)


def _anchor(study: Section) -> str:
    return "study-" + escape(study.name)


def _is_numeric(cells: list[str]) -> bool:
    """Whether a column's cells are numbers, or say that there is none.

    >>> _is_numeric(["1.2e+09", "2.0 (1.9 to 2.1)", "-", ""]), _is_numeric(["hard:n=4", "3"])
    (True, False)
    """
    words = {word for cell in cells for word in re.findall(r"[^\W\d_]+", cell)}
    return words <= NUMERIC and any(re.search(r"\d", cell) for cell in cells)


def _first_sentence(text: str) -> str:
    """The text up to a full stop that a capital letter follows; a decimal point does not count.

    >>> _first_sentence("At most 0.5 of 1.2e9, i.e. few. All others: none.")
    'At most 0.5 of 1.2e9, i.e. few.'
    """
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", text, maxsplit=1)[0]
