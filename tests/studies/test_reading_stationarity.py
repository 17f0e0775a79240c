"""The reading of the study of stationarity: invented results with known answers."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from ucfh.experiments.store import Result
from ucfh.report.section import Reading
from ucfh.studies.readings import read_results
from ucfh.studies.stationarity.clocks import percent, shares_of


def lifetime(
    mistakes: float | None,
    stages: bool,
    replicate: int = 0,
    problem: str = "chain:n=5",
    **more: Any,
) -> Result:
    arguments = {
        "problem": problem, "epsilon": 0.2, "delta": 0.1, "variant": "paper",
        "confidence": "paper", "stages": stages, "m_factor": 1.0,
    }  # fmt: skip
    values = {
        "horizon": 5, "mistakes": mistakes, "updates": 100, "bound": 30e12 if stages else 2e12,
        "m": 2e9 if stages else 1e9, "w_min": 1e-3 if stages else 5e-3,
    }  # fmt: skip
    return Result("lifetimes", arguments, replicate, {**values, **more})


def certificate(
    episodes: int,
    stages: bool,
    replicate: int = 0,
    problem: str = "chain:n=5",
    confidence: str = "kt",
    certified: bool = True,
) -> Result:
    arguments = {
        "problem": problem, "epsilon": 0.2, "delta": 0.1, "confidence": confidence,
        "stages": stages, "successors": False, "most": 1000,
    }  # fmt: skip
    values = {"horizon": 5, "episodes": episodes, "certified": certified}
    return Result("certificates", arguments, replicate, values)


def policies(problem: str, horizon: int, optimal: float, stationary: float) -> Result:
    values = {"horizon": horizon, "optimal": optimal, "stationary": stationary, "policies": 32}
    return Result("policies", {"problem": problem}, 0, values)


def read(results: list[Result]) -> Reading:
    reading = read_results("stationarity", results)
    assert reading.seen
    assert all(reading.seen)
    for figure in reading.figures:
        assert "nan" not in figure.svg
    for table in reading.tables:
        assert all(len(row) == len(table.columns) for row in table.rows)
    return reading


PAIRS = [(100, 320), (110, 290), (90, 310), (105, 300), (95, 250), (101, 400), (99, 305)]


def both(make: Any, pairs: list[tuple[int, int]], **more: Any) -> list[Result]:
    return [
        make(x, stages, k, **more)
        for k, pair in enumerate(pairs)
        for stages, x in zip((False, True), pair, strict=True)
    ]


def test_ratios_of_mistakes_by_hand() -> None:
    reading = read(both(lifetime, PAIRS))
    ratios = sorted(b / a for a, b in PAIRS)
    middle = f"{median(ratios):.3g}"
    assert reading.seen[0].startswith(
        f"Counting by stage made {middle} times the mistakes of pooling over t, where Theorem 1 "
        "allows 15 times. Ratios are medians over 7 pairs of runs; their intervals hold with "
        "probability 0.984 or more."
    )
    # of seven, the least and the most hold the median but for 2/2^7
    assert reading.tables[0].rows == [
        ["chain", "mistakes", f"{middle} ({ratios[0]:.3g} to {ratios[-1]:.3g})", "5", "15",
         "0.4", "7"]
    ]  # fmt: skip
    told = reading.seen[1]
    assert "of 1 interval, 1 lies above 1 (counting by stage takes more) and 0 below" in told
    assert "m is 2 times as large by stage and w_min 0.2 times" in told
    assert "each wait is 0.4 times as long" in told
    assert f"mistakes are {median(ratios) / 0.4:.3g} times as many" in told


def test_fewer_mistakes_by_stage_are_told_as_such() -> None:
    reading = read(both(lifetime, [(b, a) for a, b in PAIRS]))
    assert "0 lie above 1 (counting by stage takes more) and 1 below" in reading.seen[1]


def test_an_interval_around_1_is_on_neither_side() -> None:
    reading = read(both(lifetime, [*PAIRS[:6], (100, 90)]))
    assert (
        "of 1 interval, 0 lie above 1 (counting by stage takes more) and 0 below"
        in (reading.seen[1])
    )


def test_certificates_against_the_horizon() -> None:
    rows = both(certificate, PAIRS) + both(
        certificate, [(a, 2 * b) for a, b in PAIRS], confidence="best"
    )
    reading = read(rows)
    middle = median(b / a for a, b in PAIRS)
    assert reading.seen[0].startswith(
        f"Counting by stage took {middle:.3g} to {2 * middle:.3g} times the episodes of pooling "
        "over t to a certificate (H is 5)."
    )
    assert "The ratio is H or more in 1 of 2 cases" in reading.seen[1]
    assert [row[1] for row in reading.tables[0].rows] == ["certificate, kt", "certificate, best"]


def test_runs_without_an_end_are_left_out_and_told() -> None:
    rows = both(certificate, PAIRS[:6])
    rows += [certificate(100, False, 6), certificate(1000, True, 6, certified=False)]
    rows += [lifetime(0, False), lifetime(5, True), lifetime(7, False, 1), lifetime(None, True, 1)]
    reading = read(rows)
    assert any("3 pairs of runs could not be compared" in text for text in reading.seen)
    assert [row[-1] for row in reading.tables[0].rows] == ["6", "0"]
    assert reading.tables[0].rows[1][2] == "-"


def test_problems_that_share_a_short_name_are_kept_apart() -> None:
    rows = both(lifetime, [(1, 2)], problem="hard:gap=0.1")
    rows += both(lifetime, [(1, 8)], problem="hard:gap=0.2")
    found = [row[::2][:2] for row in read(rows).tables[0].rows]
    assert found == [["hard gap=0.1", "2"], ["hard gap=0.2", "8"]]


def test_random_problems_are_pooled_over_their_seeds() -> None:
    rows = [
        result
        for k, pair in enumerate(PAIRS)
        for result in both(lifetime, [pair], problem=f"random:states=4,seed={k}")
    ]
    (row,) = read(rows).tables[0].rows
    assert (row[0], row[-1]) == ("random", "7")


def test_shares_by_hand() -> None:
    rows = [
        policies("chain:n=5,horizon=8", 8, 2.0, 1.6),
        policies("chain:n=5,horizon=4", 4, 1.0, 1.0),
        policies("chain:n=5,horizon=16", 16, 4.0, 3.98),
        policies("tutoring:horizon=2", 2, 0.5, 0.45),
        policies("tutoring:horizon=24", 24, 0.9, 0.81),
    ]
    shares = shares_of(rows)
    assert list(shares) == ["chain", "tutoring"]
    assert list(shares["chain"]) == [4, 8, 16]
    reading = read(rows)
    assert reading.seen[0] == (
        "The best policy that does not look at t earns 80 % of the optimum at worst."
    )
    assert reading.seen[1] == (
        "Policies, exactly: of 2 problems, looking at t helps most on chain, where the best policy "
        "that ignores t earns 80 % of the optimum at H = 8. At the longest horizon a policy that "
        "ignores t earns at least 99 % on 1, but not on tutoring (90 % at H = 24)."
    )
    assert reading.tables[0].rows == [
        ["chain", "32", "80 %", "8", "99.5 %", "16"],
        ["tutoring", "32", "90 %", "2", "90 %", "24"],
    ]


def test_a_clock_that_is_worth_nothing() -> None:
    reading = read([policies("chain:horizon=2", 2, 1.0, 1.0), policies("calls", 3, 0.0, 0.0)])
    assert "looking at t helps on none of them" in reading.seen[1]


def test_percents_do_not_round_to_all() -> None:
    assert percent(1 - 1e-6) == "99.99 %"
    assert percent(0.9996) == "99.9 %"
    assert percent(0.5) == "50 %"
    assert percent(1 + 1e-15) == percent(1 - 1e-15) == "100 %"


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows",
    [
        [lifetime(5, True)],
        [lifetime(5, True), lifetime(6, False, 1)],
        both(lifetime, [(5, 6)]),
        both(lifetime, [(5, 0), (5, 0)]),
        both(lifetime, [(0, 0)]),
        both(lifetime, [(5, 6)], bound=None),
        both(certificate, [(5, 6)], certified=False),
        both(certificate, [(5, 6), (5, 50)]),
        [policies("chain:n=5", 5, 0.0, 0.0)],
        [policies("chain:n=5", 5, 0.5, 0.0)],
        [policies(f"chain:n=5,horizon={h}", h, 2.0, 1.0) for h in range(1, 40)],
        [policies(f"random:states={k},horizon=4", 4, 1.0, 0.9) for k in range(2, 12)],
        [Result("", {"problem": "chain"}, 0, {"regret": 1.0})],
    ],
)
def test_partial_results_are_read(rows: list[Result]) -> None:
    read(rows)
