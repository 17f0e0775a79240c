"""The reading of certificates, on invented runs whose medians and powers are known."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucfh.experiments.store import Result
from ucfh.report.words import number, times
from ucfh.studies.certificates.reading import read
from ucfh.theory.constants import constants


def run(
    episodes: int,
    replicate: int = 0,
    label: str = "methods",
    problem: str = "chain:n=5",
    confidence: str = "best",
    epsilon: float = 0.2,
    **values: Any,
) -> Result:
    arguments = {
        "problem": problem, "epsilon": epsilon, "delta": 0.1, "confidence": confidence,
        "stages": False, "successors": False, "most": 10**7,
    }  # fmt: skip
    found = {
        "states": 5, "actions": 2, "successors": 2, "horizon": 5, "episodes": episodes,
        "certified": True, "upper": 0.6, "lower": 0.45, "optimal": 0.5, "value": 0.5,
    } | values  # fmt: skip
    return Result(label, arguments, replicate, found)


def many(label: str, replicates: int = 20) -> list[Result]:
    """Best takes 100 + k episodes, kt twice and l1 ten times as many, on two problems."""
    return [
        run(factor * (100 + k), k, label, problem.format(k), kind)
        for k in range(replicates)
        for problem in ("chain:n=5", "random:states=8,seed={}")
        for kind, factor in (("l1", 10), ("kt", 2), ("best", 1))
    ]


def test_the_sets_that_take_fewest_episodes_are_told() -> None:
    found = read(many("methods"))
    middle = median(100 + k for k in range(20))
    assert found.seen[0] == (
        f'With "best", a certificate takes the fewest episodes on 2 of 2 problems (medians of '
        f"{number(middle)}, 2 times fewer than the next best), and none of 120 certified policies "
        "was worse than epsilon. It is significantly different from every other kind on 2 of 2 "
        "(exact signed-rank tests, Holm's correction at 5 %, 20 runs of each kind)."
    )
    [table] = found.tables
    assert table.columns == ["problem", "l1", "kt", "best"]
    cells = [number(factor * middle) for factor in (10, 2, 1)]
    assert table.rows == [["chain, eps 0.2", *cells], ["random, eps 0.2", *cells]]
    [figure] = found.figures
    assert "median and 95 % interval" in figure.caption
    assert "<svg" in figure.svg


def test_what_is_not_told_apart_is_not_claimed() -> None:
    # each is ahead in every other run
    runs = [
        run(1000 + (k + offset) % 2 * 10 + offset, k, confidence=kind)
        for k in range(20)
        for kind, offset in (("kt", 1), ("best", 0))
    ]
    assert "significantly different from every other kind on 0 of 1" in read(runs).seen[0]
    assert "There are too few runs for a test." in read(many("methods", 2)).seen[0]
    assert "median and range" in read(many("methods", 2)).figures[0].caption


def test_another_leader_and_where_it_does_not_lead() -> None:
    runs = [
        run(100, confidence="kt"),
        run(300, confidence="best"),
        run(100, confidence="kt", problem="tutoring"),
        run(500, confidence="best", problem="tutoring"),
        run(900, confidence="kt", problem="calls"),
        run(450, confidence="best", problem="calls"),
    ]
    text = read(runs).seen[0]
    assert text.startswith(
        'With "kt", a certificate takes the fewest episodes on 2 of 3 problems (medians of 100, 3 '
        "to 5 times fewer than the next best)"
    )
    assert 'Elsewhere other sets take fewer: "best" on calls (450 against 900).' in text


def test_certificates_that_are_wrong_are_counted() -> None:
    runs = [
        run(100, 0, value=0.29),  # loses 0.21 > 0.2, and earns less than its bound
        run(100, 1, value=0.29, lower=0.2),
        run(100, 2, upper=0.49),
        run(100, 3, value=0.5 + 1e-16, upper=0.5 - 1e-12),  # rounding
        run(100, 4, value=0.3, lower=0.3),
    ]
    found = read(runs)
    assert "2 of 5 certified policies were worse than epsilon" in found.seen[0]
    assert "was wrong in 2 of 5 runs; delta allows a share of 0.1." in found.seen[1]
    assert "lose more than 100 % of epsilon" in found.seen[1]


def test_runs_without_a_certificate() -> None:
    # of "paper", two of three were cut off; of "best", one
    runs = [
        run(episodes, k, confidence=kind, certified=episodes < 10**7)
        for kind, each in (("paper", (7, 10**7, 10**7)), ("best", (50, 70, 10**7)))
        for k, episodes in enumerate(each)
    ]
    found = read(runs)
    assert "none of 3 certified policies" in found.seen[0]
    assert "(medians of 70)" in found.seen[0]
    assert "3 runs reached the limit of 1e+07 episodes without a certificate" in found.seen[1]
    assert found.tables[0].rows == [["chain, eps 0.2", "> 1e+07", "70"]]
    none = read([run(10**7, certified=False)])
    assert "none of 0 certified policies" in none.seen[0]
    assert len(none.seen) == 2


def test_the_theorem_is_compared_with_the_longest_run() -> None:
    runs = [run(100), run(4000, 1, confidence="kt"), run(200, problem="tutoring", horizon=9)]
    bound = constants(5, 2, 5, 0.2, 0.1, 2).episode_bound
    most = constants(5, 2, 9, 0.2, 0.1, 2).episode_bound
    text = read(runs).seen[2]
    assert f"allows {number(bound)} to {number(most)} episodes" in text
    assert f"at least {times(bound / 4000)} as many as any of these runs needed for its" in text
    assert '(chain, "kt", epsilon 0.2)' in text


EPSILONS = (0.4, 0.2, 0.1, 0.05)


@pytest.mark.parametrize("power", [0, 1, 2, 3])
def test_exact_powers(power: int) -> None:
    runs = [
        run(round(1000 * (0.4 / epsilon) ** power), k, "accuracy", epsilon=epsilon)
        for k in range(3)
        for epsilon in EPSILONS
    ]
    found = read(runs)
    text = found.seen[-1]
    assert f'power {power} ({power} to {power}) with "best" on chain (least squares' in text
    assert f"2 is predicted; between the two smallest epsilon it is {power}." in text
    assert ('costs "best" few more episodes' in text) == (power < 1)
    assert "over all epsilon, as with" not in text
    assert found.tables[0].rows == [
        [
            "chain, best",
            *(number(1000 * (0.4 / epsilon) ** power) for epsilon in EPSILONS),
            f"{power} ({power} to {power})",
            str(power),
        ]
    ]
    assert "<svg" in found.figures[0].svg


def test_a_power_that_falls_and_a_point_that_was_cut_off() -> None:
    runs = [
        run(episodes, 0, "accuracy", epsilon=epsilon)
        for epsilon, episodes in zip(EPSILONS[:3], (1, 1000, 2000), strict=True)
    ]
    runs.append(run(10**7, 0, "accuracy", epsilon=0.05, certified=False))
    found = read(runs)
    assert "between the two smallest epsilon it is 1." in found.seen[-1]
    assert (
        'A power of more than 2 over all epsilon, as with "best" on chain, comes from'
        in found.seen[-1]
    )
    assert found.tables[0].rows[0][4] == "> 1e+07"
    assert found.tables[0].rows[0][-1] == "1"
    one = read(runs[-1:])
    assert one.figures == []
    assert one.tables[0].rows == [["chain, best", "> 1e+07", "-", "-"]]


def test_a_single_run() -> None:
    for label in ("methods", "accuracy", ""):
        found = read([run(5, 0, label)])
        assert "on 1 of 1 problem (medians of 5), and none of 1 certified" in found.seen[0]
        for figure in found.figures:
            assert "<svg" in figure.svg


@settings(max_examples=30)
@given(st.data())
def test_any_part_of_a_study_is_read(data: st.DataObject) -> None:
    accuracy = [
        run(10 * k + round(1 / epsilon), k, "accuracy", epsilon=epsilon, confidence=kind)
        for k in range(2)
        for epsilon in EPSILONS
        for kind in ("kt", "best")
    ]
    whole = many("methods", 3) + accuracy
    part = data.draw(st.lists(st.sampled_from(range(len(whole))), min_size=1, unique=True))
    results = [whole[k] for k in sorted(part)]
    found = read(results)
    assert found.seen[0].startswith("With ")
    for table in found.tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}
    for row in found.tables[0].rows if results[0].label == "methods" else []:
        for kind, cell in zip(found.tables[0].columns[1:], row[1:], strict=True):
            here = [
                x.values["episodes"]
                for x in results
                if x.label == "methods"
                and x.arguments["confidence"] == kind
                and x.arguments["problem"].startswith(row[0].split(",")[0])
            ]
            assert cell == (number(median(here)) if here else "-")
