"""What is said of growth, on invented results whose exponents are known."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucfh.experiments.store import Result
from ucfh.report.html import page
from ucfh.report.section import Section
from ucfh.studies.scaling.reading import read

TRUE, SMALL = "hard, true m", "hard, m/1e6"


def result(
    label: str, mistakes: float | None, replicate: int = 0, problem: str = "hard:n=4", **other: Any
) -> Result:
    """A lifetime; by default C = 4, A = 4 and m w_min = 10, so that the wait is 160 on hard."""
    values = {
        "states": 7, "actions": 4, "successors": 4, "horizon": 10, "mistakes": mistakes,
        "bound": None, "m": 1000.0, "w_min": 0.01,
    }  # fmt: skip
    arguments = {"problem": problem, "epsilon": other.pop("epsilon", 0.1)}
    return Result(label, arguments, replicate, values | other)


def power(
    label: str,
    mistakes: float,
    exponent: float,
    key: str,
    growing: dict[str, Callable[[float], float]],
    runs: int = 3,
) -> list[Result]:
    """Results along an axis that follow a power law exactly, and other values of it."""
    found = []
    for x in OCTAVES:
        other: dict[str, Any] = {name: f(x) for name, f in growing.items()}
        other[key] = 1 / x if key == "epsilon" else x
        found += [result(label, mistakes * x**exponent, k, **other) for k in range(runs)]
    return found


OCTAVES = [4.0, 8.0, 16.0, 32.0]


def known() -> list[Result]:
    """Waiting explains true m; with m/1e6, exponents are near 2, save that of S and C."""
    eps = {"m": lambda x: 1e3 * x**1.25, "bound": lambda x: 1e9 * x**2.5}
    horizon = {"m": lambda x: 1e3 * x**2, "bound": lambda x: 1e9 * x**2.5}
    return [
        *power(f"{TRUE}: 1/eps", 160, 1.25, "epsilon", eps),
        *power(f"{TRUE}: H", 160, 2.0, "horizon", horizon),
        *power(f"{TRUE}: A", 40, 1.0, "actions", {"bound": lambda x: 1e9 * x}),
        *power(f"{SMALL}: 1/eps", 5, 2.1, "epsilon", {"m": lambda x: 10 * x}, 5),
        *power(f"{SMALL}: H", 5, 1.9, "horizon", {}, 5),
        *power(f"{SMALL}: S and C", 5, 1.0, "successors", {}, 5),
    ]


def cells(results: list[Result]) -> dict[str, list[str]]:
    (table,) = read(results).tables
    assert all(len(row) == len(table.columns) for row in table.rows)
    return {row[0]: row[1:] for row in table.rows}


def drawn(results: list[Result]) -> list[str]:
    """The names of the figures, each of which is drawn."""
    figures = read(results).figures
    for figure in figures:
        ElementTree.fromstring(figure.svg)
    return [figure.name for figure in figures]


def first_sentence(results: list[Result]) -> str:
    """As the page shows it among its findings."""
    html = page([Section("scaling", "t", "p", read(results).seen)], {})
    found = re.search(r'<nav id="findings".*?<li><a[^>]*>(.*?)</a>', html, re.S)
    assert found
    return found[1].replace("&#x27;", "'")


def test_exact_powers_are_found_exactly() -> None:
    rows = cells(known())
    assert rows[f"{TRUE}: 1/eps"] == ["3", "3", "2", "2.50", "1.25", "1.25 (1.25 to 1.25)"]
    assert rows[f"{TRUE}: H"] == ["3", "3", "2", "2.50", "2.00", "2.00 (2.00 to 2.00)"]
    assert rows[f"{TRUE}: A"] == ["3", "3", "1", "1.00", "1.00", "1.00 (1.00 to 1.00)"]
    assert rows[f"{SMALL}: 1/eps"] == ["3", "5", "2", "-", "1.00", "2.10 (2.10 to 2.10)"]
    assert rows[f"{SMALL}: S and C"] == ["3", "5", "2", "-", "1.00", "1.00 (1.00 to 1.00)"]


def test_the_finding() -> None:
    assert first_sentence(known()) == (
        "With the true constants, mistakes grow more slowly than Theorem 1's number along 2 of 3 "
        "axes (hard, true m: exponents 1.25 for 1/eps and 2.00 for H where the number has 2.50 and "
        "2.50); with other constants the steepest growth has exponents 2.10 for 1/eps and 1.90 for "
        "H (hard, m/10<sup>6</sup>), where the theorem's order is 2."
    )


def test_what_explains_it() -> None:
    seen = read(known()).seen
    assert "over 96 runs" in seen[0]  # 36 and 60
    # 160 x^2 over 3 octaves: by 64
    assert (
        "mistakes are within 1 % of this wait for all pairs to be tried in 36 of 36 runs, while "
        "they grow by a factor of up to 64: nearly all"
    ) in seen[1]
    assert (
        "grow like Theorem 1's number, within the intervals, along A (hard, true m: 1.00 (1.00 to "
        "1.00) against 1.00)."
    ) in seen[1]
    assert "faster" not in seen[1]
    # 1e9/160 x^(1/2) at x = 4 along H; 1e9/40 along A
    assert "is at least 1.2e+07 times the mean mistakes" in seen[1]
    # 5 x^2.1 over 16 * 0.01 * 10 x, at x = 4 and 32
    low, high = (5 * x**2.1 / (1.6 * x) for x in (4, 32))
    assert f"from {low:.1f} to {high:.0f} times the wait: it takes longer than that" in seen[2]
    slope = np.polyfit(np.log([x - 2 for x in OCTAVES]), 1.9 * np.log(OCTAVES), 1)[0]
    assert (
        f"Only H - 2 steps pay on the hard class; the exponent for H - 2 is {slope:.2f}." in seen[2]
    )
    assert "With S and C together, 1.00 is nearer to the 1 of S alone than to 2" in seen[2]
    assert "3 octaves are few" in seen[3]
    assert "up to 1;" in seen[3]
    assert "Some points have only 3 runs" in seen[3]
    assert drawn(known()) == ["scaling-exponents", "scaling"]


def test_other_numbers_make_other_sentences() -> None:
    """Growth faster than the theorem, far from the wait and far from 2."""
    results = [
        *power(f"{TRUE}: 1/eps", 2, 3.0, "epsilon", {"bound": lambda x: 1e9 * x}),
        *power(f"{SMALL}: 1/eps", 2, 0.5, "epsilon", {"m": lambda x: 1e3 * x}),
        *power(f"{SMALL}: S and C", 5, 2.0, "successors", {}),
    ]
    seen = read(results).seen
    assert "along 0 of 1 axes" in seen[0]
    assert "has exponents 0.50 for 1/eps (hard, m/1e6), where" in seen[0]
    faster = "faster than Theorem 1's number, along 1/eps (hard, true m: 3.00 (3.00 to 3.00)"
    assert f"{faster} against 1.00)" in seen[1]
    assert "within 1 %" not in seen[1]
    # 2 x^3/160 at 4 and 32
    assert "mean mistakes are 0.8 to 410 times this wait for all pairs" in seen[1]
    assert "they do not grow significantly faster" in seen[2]
    assert "nearer to the 1" not in seen[2]


def test_waits_that_overlap_on_other_problems() -> None:
    """Mistakes grow like H, the wait like H^2: off the hard class it is S A m w_min."""
    growing = {"m": lambda x: 1e3 * x**2, "bound": lambda x: x**4}
    results = [
        item._replace(arguments=item.arguments | {"problem": "random:states=7"})
        for item in power("random: H", 28, 1.0, "horizon", growing)
    ]
    assert cells(results)["random: H"][4] == "2.00"
    # 28 x over 7 * 4 * 10 x^2 = 1/(10 x)
    assert "Along H this ratio goes from 0.025 to 0.00313" in read(results).seen[1]
    assert drawn(results) == ["scaling-exponents"]


def test_intervals_are_those_of_the_runs() -> None:
    noisy = [
        result(f"{SMALL}: H", mistakes * horizon, k, horizon=horizon)
        for horizon in (4, 8, 16)
        for k, mistakes in enumerate([50, 80, 100, 120, 200])
    ]
    found = re.fullmatch(r"1\.00 \((\S+) to (\S+)\)", cells(noisy)[f"{SMALL}: H"][-1])
    assert found
    assert 0.4 < float(found[1]) < 1.0 < float(found[2]) < 1.6
    assert "too few to trust" not in read(noisy).seen[-1]


def test_points_without_mistakes_or_without_end_are_left_out_and_told() -> None:
    results = power(f"{SMALL}: 1/eps", 5, 2.0, "epsilon", {}, 5)
    results += [result(f"{SMALL}: 1/eps", 0, k, epsilon=0.5) for k in range(5)]
    results += [result(f"{SMALL}: 1/eps", None if k else 3, k, epsilon=0.001) for k in range(2)]
    assert cells(results)[f"{SMALL}: 1/eps"] == [
        "3", "5", "2", "-", "0.00", "2.00 (2.00 to 2.00)",
    ]  # fmt: skip
    assert "Left out: 2 points" in read(results).seen[-1]
    assert drawn(results) == ["scaling-exponents", "scaling"]


def test_some_runs_without_mistakes_count_in_the_mean() -> None:
    results = [
        result(f"{SMALL}: 1/eps", mistakes, k, epsilon=epsilon)
        for epsilon, values in ((0.2, [0, 4]), (0.1, [0, 8]), (0.05, [0, 16]))
        for k, mistakes in enumerate(values)
    ]
    assert cells(results)[f"{SMALL}: 1/eps"][-1].startswith("1.00 (")
    assert drawn(results) == ["scaling-exponents", "scaling"]


@pytest.mark.parametrize(
    "results",
    [
        [result("hard: 1/eps", 5)],
        [result("hard: 1/eps", 5, k) for k in range(4)],
        [result("hard: 1/eps", 0, epsilon=x) for x in (0.1, 0.2)],
        [result("hard: 1/eps", None, epsilon=x) for x in (0.1, 0.2)],
        [result("", 3), result("what: else", 4)],
        [Result("hard: H", {"problem": "chain"}, 0, {"regret": 1.0})],
    ],
)
def test_no_exponent_without_two_points(results: list[Result]) -> None:
    reading = read(results)
    assert reading == (["No axis has two points with mistakes: no exponent can be fitted."], [], [])


def test_what_is_not_read_is_told() -> None:
    results = [*known(), result("odd", 3), result("odd: B", 3)]
    assert "Not read: 2 results whose label does not end in ': 1/eps'" in read(results).seen[-1]


@settings(max_examples=8)
@given(
    st.lists(
        st.builds(
            result,
            st.sampled_from(["a: H", "a: 1/eps", "b: S and C", "b: C", ": A", "x"]),
            st.none() | st.integers(0, 3) | st.integers(0, 10**20),
            st.integers(0, 3),
            st.sampled_from(["hard:n=4", "chain", "odd_$name$.json"]),
            epsilon=st.sampled_from([0.1, 0.3]),
            horizon=st.integers(1, 3),
            successors=st.integers(1, 3),
            actions=st.integers(1, 2),
            bound=st.none() | st.just(1e6),
        ),
        max_size=10,
    )
)
def test_any_results_are_read_and_drawn(results: list[Result]) -> None:
    reading = read(results)
    assert reading.seen[0].endswith(".")
    assert not re.search(r"\bnan\b|\bNone\b", " ".join(reading.seen))
    drawn(results)
