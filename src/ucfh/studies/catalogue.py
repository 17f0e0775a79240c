"""Studies by name, or from your own files."""

from __future__ import annotations

from pathlib import Path

from ucfh._support.files import AnyPath, read_text
from ucfh.errors import unknown
from ucfh.experiments.spec import Study, parse_study

STUDIES = (
    "mistakes", "scaling", "conditions", "peers", "certificates", "league", "stationarity",
    "claims", "knownness",
)  # fmt: skip
"""The studies that come with the package, in the order of a report."""


def read_study(name: AnyPath) -> Study:
    """A study by its name, or from a .toml file.

    >>> read_study("mistakes").title
    'Mistakes against Theorems 1 and 2'
    >>> read_study("mistaks")
    Traceback (most recent call last):
    ucfh.errors.InputError: unknown study 'mistaks': did you mean 'mistakes'? ...

    """
    path, stem = Path(name), Path(name).stem
    if path.suffix != ".toml":
        if str(name) not in STUDIES:
            raise unknown("study", str(name), STUDIES)
        path, stem = Path(__file__).parent / name / "study.toml", str(name)
    return parse_study(stem, read_text(path), path)
