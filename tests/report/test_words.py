"""Numbers and names as readings write them."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ucfh.report.words import listed, number, plural, short, times, unseeded


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (7, "7"),
        (-5.5, "-5.5"),
        (0.1 + 0.2, "0.3"),
        (999.6, "1,000"),
        (12345, "12,300"),
        (99940, "99,900"),
        (99950.1, "1e+05"),
        (123456, "1.23e+05"),
        (10**30, "1e+30"),
        (0.00123456, "0.00123"),
        (0.000999, "9.99e-04"),
        (inf, "inf"),
        (-inf, "-inf"),
        (nan, "-"),
    ],
)
def test_number(x: float, text: str) -> None:
    assert number(x) == text


@given(st.floats(1e-200, 1e200), st.integers(1, 6), st.sampled_from([1, -1]))
def test_a_number_is_what_it_says(x: float, digits: int, sign: int) -> None:
    text = number(sign * x, digits)
    assert float(text.replace(",", "")) == float(f"{sign * x:.{digits - 1}e}")
    mantissa = text.split("e")[0].lstrip("-").replace(",", "")
    assert not ("." in mantissa and mantissa.endswith(("0", ".")))


def test_times_and_plurals() -> None:
    assert times(1234) == "1,200 times"
    assert times(0.25) == "0.25 times"
    assert times(inf) == "inf times"
    assert plural(0, "run") == "0 runs"
    assert plural(1, "policy") == "1 policy"
    assert plural(2, "policy") == "2 policies"
    assert plural(2, "day") == "2 days"
    assert plural(12000, "run") == "12,000 runs"


def test_lists() -> None:
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"], "or") == "a, b or c"


@pytest.mark.parametrize(
    ("problem", "label"),
    [
        ("chain", "chain"),
        ("chain:n=5,slip=0.1", "chain n=5 slip=0.1"),
        ("hard:n=4,actions=3,horizon=10,gap=0.25", "hard n=4 A=3 H=10"),
        ("hard:n=1,actions=2,horizon=3,epsilon=0.000028,seed=3", "hard n=1 A=2 H=3"),
        ("random:states=8,actions=4,successors=4,horizon=8,seed=0", "random S=8 A=4 C=4 H=8"),
        ("random:seed=4", "random"),
        ("gym:FrozenLake-v1,horizon=20", "FrozenLake-v1 H=20"),
        ("models/clinic.json", "clinic"),
        ("clinic:1,seed=2.npz", "clinic:1,seed=2"),
    ],
)
def test_short(problem: str, label: str) -> None:
    assert short(problem) == label


def test_unseeded() -> None:
    assert unseeded("hard:n=4,seed=7,gap=0.25") == "hard:n=4,gap=0.25"
    assert unseeded("random:seed=7") == "random"
    assert unseeded("random") == "random"
    assert unseeded("models/a.json") == "models/a.json"
    assert unseeded("hard:seedling=7") == "hard:seedling=7"
