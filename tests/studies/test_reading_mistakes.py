"""What is said of mistakes, on invented results whose answers are known."""

from __future__ import annotations

import re
from math import inf
from statistics import median
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucfh.experiments.store import Result
from ucfh.studies.mistakes.reading import read


def result(
    problem: str, mistakes: float | None, replicate: int = 0, label: str = "named", **other: Any
) -> Result:
    """A lifetime; by default S A = 12, m w_min = 10 and Theorem 1's number is 1e6."""
    arguments = {
        "problem": problem, "epsilon": 0.2, "delta": 0.1, "variant": "paper", "m_factor": 1.0,
    }  # fmt: skip
    values = {
        "states": 4, "actions": 3, "successors": 2, "horizon": 5, "mistakes": mistakes,
        "last_mistake": mistakes or 0, "episodes": 10**6, "bound": 1e6, "lower_bound": None,
        "captured": True, "m": 1000.0, "w_min": 0.01,
    }  # fmt: skip
    arguments |= {key: other.pop(key) for key in list(other) if key in arguments}
    return Result(label, arguments, replicate, values | other)


def known() -> list[Result]:
    """The chain waits, riverswim makes no mistake, calls only with the smaller epsilon."""
    found = []
    for k in range(5):
        for variant, m in (("paper", 1000.0), ("corrected", 250.0)):
            both: dict[str, Any] = {"variant": variant, "m": m}
            found += [
                result("chain", m / 20 + k, k, **both),
                result("riverswim", 0, k, **both),
                result("calls", 0, k, **both),
                result("calls", m / 50, k, epsilon=0.05, **both),
            ]
    return found


def say(results: list[Result]) -> str:
    return "\n".join(read(results).seen)


def drawn(results: list[Result]) -> str:
    (figure,) = read(results).figures
    svg = figure.svg
    ElementTree.fromstring(svg)
    return svg


def test_no_run_over_theorem_1() -> None:
    seen = read(known()).seen
    # 20 runs of calls and 10 of each other; 1e6 over 5, with corrected constants, and over 54
    assert seen[0].startswith(
        "None of 40 runs made more mistakes than Theorem 1 allows; where there are mistakes, it "
        "allows 19,000 to 2e+05 times as many. The true MDP was in the confidence sets at every"
    )
    assert "No run makes a mistake on riverswim and calls, eps 0.2: the learner" in seen[1]
    # medians 52 and 20 over 10; 14.5 and 5 over 2.5
    assert "their median is 2 to 5.8 times m w_min" in seen[1]
    assert "in no setting is it more than that for all S A pairs" in seen[1]
    # 52/14.5 is 3.59 where m w_min is 4 times as much: 10 % off
    assert "m w_min is 4 times that of the corrected ones" in seen[1]
    assert (
        "within 10 % in 2 settings run with both: waiting for the first updates does not" in seen[1]
    )
    assert "No setting is in the range of Theorem 2" in seen[2]
    # the last of all is 54; 1e6 over 5 and over 54
    assert "in episode 54 or earlier" in seen[3]
    assert "19,000 to 2e+05 times as many episodes" in seen[3]
    # (12.5 + 4)/12.5
    assert "Each setting has 5 runs, whose mistakes differ by a factor of up to 1.32;" in seen[3]


def test_variants_that_differ_by_the_wait_alone() -> None:
    results = [item for item in known() if item.arguments["problem"] == "calls"]
    assert "within 0 % in 1 setting run with both: as if all were" in say(results)


def test_runs_over_theorem_1_are_told() -> None:
    results = [*known(), result("grid", 1_000_001), result("grid", 1_000_000, 1)]
    text = say(results)
    assert text.startswith(
        "1 of 42 runs made more mistakes than Theorem 1 allows, and delta allows 4.2 on "
        "average; in the others, where there are mistakes, it allows 1 to 2e+05 times as many."
    )
    assert "in 1 of 5 settings it is more than that for all S A pairs" in text


def test_every_run_over_theorem_1() -> None:
    assert say([result("grid", 7, bound=2.0)]).startswith(
        "1 of 1 run made more mistakes than Theorem 1 allows, and delta allows 0.1 on average. The"
    )


def test_runs_without_end() -> None:
    results = [*known(), result("grid", None), result("grid", 4, 1), result("deepsea", None)]
    text = say(results)
    assert text.startswith("2 of 43 runs made more")
    assert "2 runs ended with a policy that is worse than epsilon" in text
    rows = {row[0]: row for row in read(results).tables[0].rows}
    assert rows["grid"][2] == "inf (4 to inf)"
    assert rows["deepsea"][2:6] == ["inf", "1e+06", "-", "inf"]
    assert "no end" in drawn(results)


def test_sets_that_lost_the_truth() -> None:
    results = [*known(), result("grid", 5, captured=False)]
    assert "outside the confidence sets at some update in 1 of 41 runs" in say(results)


def test_theorem_2() -> None:
    ranged = [
        result(f"hard:n=1,seed={k}", 600 + k, k, "range", delta=1e-4, lower_bound=low)
        for k, low in enumerate([2.0, 3.0, 4.0])
    ]
    text = say([*known(), *ranged])
    assert "Theorem 2 holds for 1 setting." in text
    assert "needs 2 to 4 episodes on average; UCFH makes 600 to 602 mistakes" in text
    assert "Every run made at least 150 times as many as it says" in text  # 602/4
    fewer = [*ranged, result("hard:n=1,seed=9", 1, 9, "range", delta=1e-4, lower_bound=2.0)]
    assert "1 of 4 runs made fewer than it says, which it rules out only on average" in say(fewer)
    table = read(ranged).tables[0]
    assert table.columns.index("Theorem 2") == 5
    assert table.rows == [
        ["hard:n=1", "0.2", "601 (600 to 602)", "1e+06", "1,700", "3", "602", "1e+06"]
    ]
    assert "delta 1e-04" in table.caption


def test_one_variant_without_mistakes() -> None:
    results = [result("chain", 0), result("chain", 5, variant="corrected")]
    assert "No run makes a mistake on chain (printed): the learner" in say(results)


def test_nothing_but_zeros() -> None:
    results = [result("chain", 0, k) for k in range(3)]
    assert say(results).startswith(
        "None of 3 runs made more mistakes than Theorem 1 allows, because none made any."
    )
    assert "m w_min" not in say(results)
    drawn(results)


def test_no_theorem_holds() -> None:
    results = [result("chain", 4, bound=None, m_factor=0.1)]
    assert say(results).startswith("Theorem 1 holds for none of the settings.")
    assert read(results).tables[0].rows[0][3:5] == ["-", "-"]
    drawn(results)


def test_nothing_to_read() -> None:
    other = Result("x", {"problem": "chain"}, 0, {"regret": 1.0})
    assert read([other]) == (["No result contains the mistakes of a lifetime."], [], [])


def test_settings_that_differ_in_something_else_are_told_apart() -> None:
    results = [result("chain", 4), result("chain", 8, m_factor=0.5, bound=None)]
    svg = drawn(results)
    assert "m_factor 1.0" in svg
    assert "m_factor 0.5" in svg


value = st.none() | st.just(0) | st.integers(1, 50) | st.integers(1, 10**25)


@pytest.mark.slow
@settings(max_examples=8)
@given(
    st.lists(
        st.builds(
            result,
            st.sampled_from(["chain", "hard:n=1,seed=3", "odd_$name$.json"]),
            value,
            st.integers(0, 3),
            st.sampled_from(["", "named"]),
            variant=st.sampled_from(["paper", "corrected"]),
            epsilon=st.sampled_from([0.1, 0.3]),
            lower_bound=st.none() | st.floats(1e-3, 1e3),
            bound=st.none() | st.floats(1.0, 1e20),
            captured=st.booleans(),
        ),
        min_size=1,
        max_size=9,
    )
)
def test_any_results_are_read_and_drawn(results: list[Result]) -> None:
    reading = read(results)
    assert not re.search(r"\bnan\b|\bNone\b(?! of)", " ".join(reading.seen))
    drawn(results)
    for table in reading.tables:
        assert all(len(row) == len(table.columns) for row in table.rows)
    over = sum(
        (inf if item.values["mistakes"] is None else item.values["mistakes"]) > item.values["bound"]
        for item in results
        if item.values["bound"] is not None
    )
    assert (f"{over} of " in reading.seen[0]) or not over


@pytest.mark.parametrize("runs", [1, 2, 5])
def test_medians(runs: int) -> None:
    mistakes = [7, 1, 10, 4, 4][:runs]
    rows = read([result("chain", x, k) for k, x in enumerate(mistakes)]).tables[0].rows
    assert rows[0][2].split()[0] == f"{median(mistakes):g}"
