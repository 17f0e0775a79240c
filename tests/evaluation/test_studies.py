"""Each study in its smallest setting: measurements, tables, figures and the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from importlib import import_module
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation import grid, statistics
from evaluation.__main__ import STUDIES
from evaluation.baselines import run_baseline
from evaluation.claims import check_claims
from evaluation.knownness import record_knownness
from evaluation.measurements import certificate, full_run, sizes
from evaluation.plotting import Analysis
from evaluation.report import write_figures, write_report
from evaluation.stationarity import stationary
from evaluation.stopping_rules import bound_episodes, run_stopping_rule
from ucfh.problems import make

SMALL: dict[Callable[..., dict[str, Any]], dict[str, Any]] = {
    full_run: {"epsilon": 0.5, "delta": 0.1},
    certificate: {"epsilon": 0.5, "delta": 0.1},
    run_baseline: {"agent": "psrl", "episodes": 50, "epsilon": 0.5, "delta": 0.1},
    run_stopping_rule: {"agent": "certified-ucfh", "epsilon": 0.5, "delta": 0.1},
    bound_episodes: {"epsilon": 0.1, "delta": 0.1},
    stationary: {},
    check_claims: {"epsilon": 0.5, "delta": 0.1, "runs": 1},
    record_knownness: {"epsilon": 0.5, "delta": 0.1},
}


@cache
def measured(measure: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    (job,) = grid.grid(measure, problem="chain:n=3,horizon=3", **SMALL[measure])
    record = grid.execute(job)
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    values: dict[str, Any] = record["values"]
    return values


def stand_in(job: grid.Job, number: int) -> dict[str, Any]:
    """A result with the names of a real one, and different numbers for each job."""
    values = dict(measured(job.measure))
    if job.measure is full_run:
        values |= sizes(make(job.parameters["problem"]))
        true = job.parameters["m_factor"] == 1
        values |= {"mistakes": 10 + number, "last_mistake": 20 + number, "off": 0.1}
        values |= {"bound": 1e12 + number if true else None}
        values |= {"lower_bound": 3.0 if job.parameters["delta"] < 0.01 else None}
    elif "regret" in values:
        values |= {"regret": 5.0 + number}
    elif "certified" in values:
        values |= {"episodes": 100 + number, "certified": True}
    return values


@cache
def analysis(study: str, folder: Path) -> tuple[Analysis, list[dict[str, Any]]]:
    module = import_module(f"evaluation.{study}")
    jobs, path = module.jobs(quick=True), folder / f"{study}.jsonl"
    lines = [
        {"key": job.key, "values": stand_in(job, number), "source": grid.source_digest()}
        | {"seconds": 0.1}
        for number, job in enumerate(jobs)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return module.analyze(grid.results(jobs, path)), lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.mark.parametrize("study", STUDIES)
def test_studies_have_tables_and_figures(study: str, folder: Path) -> None:
    found, _ = analysis(study, folder)
    assert found.numbers
    for table in found.tables.values():
        assert len(table) > 0
        assert not table.isna().to_numpy().any()
    for figure in found.figures.values():
        figure.draw_without_rendering()


def test_figures_are_saved_for_screen_and_print(folder: Path, tmp_path: Path) -> None:
    found, _ = analysis("claims", folder)
    write_figures(found, tmp_path)
    assert (tmp_path / "claims.svg").read_text().startswith("<?xml")
    assert (tmp_path / "claims.pdf").read_bytes().startswith(b"%PDF")


class Page(HTMLParser):
    """The ids, links and images of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.images: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids |= {str(given["id"])} if "id" in given else set()
        self.links |= {str(given["href"])} if tag == "a" else set()
        self.images += [given] if tag == "img" else []


def test_the_report_has_a_section_for_each_study(folder: Path) -> None:
    found = {study: analysis(study, folder) for study in STUDIES}
    for result, _ in found.values():
        for name in result.figures:
            (folder / f"{name}.svg").write_text("<svg/>")
    records = [line for _, lines in found.values() for line in lines]
    path = write_report({study: x for study, (x, _) in found.items()}, folder, True, 0, records)
    text = path.read_text()
    page = Page(text)
    assert set(STUDIES) <= page.ids
    assert page.links == {f"#{study}" for study in STUDIES}
    assert len(page.images) == sum(len(x.figures) for x, _ in found.values())
    assert all(image["alt"] for image in page.images)
    assert "built-in method" not in text  # a number whose name is that of a method
    assert "nan" not in text.partition("</style>")[2].lower().split()


@pytest.mark.parametrize("power", [0.5, 2.0])
def test_exponents(power: float) -> None:
    rng = np.random.default_rng(0)
    x = [1.0, 2.0, 4.0, 8.0]
    found = statistics.exponent(x, [3 * a**power * rng.gamma(50, 0.02, 20) for a in x])
    assert found.low < power < found.high
    assert found.high - found.low < 0.2
    assert isnan(statistics.exponent([1, 2], [[1], [2]]).low)
    assert statistics.exponent([1, 2], [[2**70] * 2, [2**72] * 2]).value == pytest.approx(2.0)


def test_medians_and_ratios() -> None:
    assert statistics.median([5, 1, 4, 2, 3, 6]) == (3.5, 1, 6)
    assert statistics.median([1, 9, 2]) == (2, 1, 9)
    assert statistics.ratio_of_means([2, 6], [1, 3]) == pytest.approx((2, 2, 2))
    assert statistics.largest_share(0, 54) == pytest.approx(1 - 0.05 ** (1 / 54))
