"""Render the report: hand-written text in report.html.jinja, numbers from the analyses."""

from __future__ import annotations

import platform
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from evaluation.formatting import number
from evaluation.grid import source_digest
from evaluation.plotting import Analysis

TIMES, MINUS = "\N{MULTIPLICATION SIGN}", "\N{MINUS SIGN}"
POWER = re.compile(r"([0-9.]+)e([+-])0*([0-9]+)")


def typeset(text: object) -> Markup:
    """Return text as HTML, with powers of ten set as such.

    >>> typeset("3.5e+09 to 1e+10, 2e-05")
    Markup('3.5×10<sup>9</sup> to 10<sup>10</sup>, 2×10<sup>−5</sup>')
    """

    def power(found: re.Match[str]) -> str:
        factor = "" if found[1] == "1" else f"{found[1]}{TIMES}"
        return f"{factor}10<sup>{MINUS * (found[2] == '-')}{found[3]}</sup>"

    return Markup(POWER.sub(power, str(escape(str(text)))))  # the text is escaped


def render_number(x: float | str, digits: int = 3) -> Markup:
    """Return a number or a formatted range as HTML."""
    return typeset(x if isinstance(x, str) else number(x, digits))


def render_table(table: pd.DataFrame) -> Markup:
    """Return the rows of a table as HTML; the first column names them."""
    head = "".join(f"<th scope=col>{typeset(name)}</th>" for name in table)
    body = "".join(
        f"<tr><th scope=row>{typeset(first)}</th>"
        + "".join(f"<td>{typeset(cell)}</td>" for cell in cells)
        + "</tr>\n"
        for first, *cells in table.itertuples(index=False)
    )
    return Markup(f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>")  # cells are escaped


def write_figures(analysis: Analysis, folder: Path) -> None:
    """Save the figures of a study as SVG and, for papers, as PDF with embedded fonts."""
    for name, figure in analysis.figures.items():
        with mpl.rc_context({"svg.hashsalt": name, "pdf.fonttype": 42}):
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
            figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})


def write_report(
    analyses: Mapping[str, Analysis],
    folder: Path,
    quick: bool,
    seed: int,
    records: Sequence[Mapping[str, Any]],
) -> Path:
    """Write report.html, with the figures in the folder, and return its path.

    The file needs no other file: figures are embedded.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, undefined=StrictUndefined,
    )  # fmt: skip
    environment.filters |= {"n": render_number, "rows": render_table}
    figures = {
        name: "data:image/svg+xml;base64,"
        + b64encode((folder / f"{name}.svg").read_bytes()).decode()
        for analysis in analyses.values()
        for name in analysis.figures
    }
    about = {
        "ucfh": version("ucfh"), "source": source_digest(), "Python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba", "scipy")}, "seed": str(seed),
        "results": f"{len({record['key'] for record in records}):,} jobs",
        "computing time": f"{sum(x['seconds'] for x in records) / 60:.1f} minutes on one core",
    }  # fmt: skip
    path = folder / "report.html"
    numbers = {name: analysis.numbers for name, analysis in analyses.items()}
    tables = {name: analysis.tables for name, analysis in analyses.items()}
    page = environment.get_template("report.html.jinja").render(
        **numbers, tables=tables, figures=figures, about=about, quick=quick
    )
    path.write_text(page)
    return path
