"""The reading of the study of confidence conditions: invented results with known answers."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ucfh._support.statistics import holm, ratio_of_means, signed_rank
from ucfh.experiments.store import Result
from ucfh.report.section import Reading
from ucfh.studies.conditions.ablation import compare, grouped
from ucfh.studies.readings import read_results

SETS = ("paper", "without-hoeffding", "without-bernstein", "without-deviation", "kl")


def run(
    mistakes: float | None,
    confidence: str = "paper",
    replicate: int = 0,
    problem: str = "chain:n=5",
    variant: str = "paper",
    m_factor: float = 1.0,
    **more: Any,
) -> Result:
    arguments = {
        "problem": problem, "epsilon": 0.1, "delta": 0.1, "variant": variant,
        "confidence": confidence, "stages": False, "m_factor": m_factor,
    }  # fmt: skip
    values = {
        "mistakes": mistakes, "m": 4e8 * m_factor, "w_min": 1e-2, "captured": True, "bound": 1e15,
        "states": 5, "actions": 2, "successors": 2, "horizon": 5, "off": 0.0,
    }  # fmt: skip
    for key, value in more.items():
        (values if key in values else arguments)[key] = value
    return Result("", arguments, replicate, values)


def study(scale: dict[str, float], n: int = 20, noise: float = 0.01, **more: Any) -> list[Result]:
    """Runs of all sets whose mistakes are 1000 times a scale each, up to noise."""
    rng = np.random.default_rng(1)
    return [
        run(float(1000 * x * (1 + noise * rng.standard_normal())), name, k, **more)
        for k in range(n)
        for name, x in scale.items()
    ]


def read(results: list[Result]) -> Reading:
    reading = read_results("conditions", results)
    assert reading.seen
    assert all(reading.seen)
    for figure in reading.figures:
        assert "nan" not in figure.svg
    for table in reading.tables:
        assert all(len(row) == len(table.columns) for row in table.rows)
    return reading


def finding(reading: Reading) -> str:
    return reading.seen[0].split(". ")[0]


def test_sets_that_do_not_matter() -> None:
    results = study(dict.fromkeys(SETS, 1.0), noise=1e-4)
    reading = read(results)
    means = {
        name: np.mean([r.values["mistakes"] for r in results if r.arguments["confidence"] == name])
        for name in SETS
    }
    shift = max(abs(means[name] / means["paper"] - 1) for name in SETS)
    assert finding(reading) == (
        "With the true m, no choice of conditions changed mean mistakes by more than "
        f"{100 * shift:.2g} %"
    )
    assert "no significant effect of leaving out Hoeffding's" in reading.seen[1]
    assert "All sets are tiny" in reading.seen[1]
    assert "here 4e+06" in reading.seen[1]  # m w_min
    assert "5e-04 or less" in reading.seen[1]


def test_the_same_results_read_the_same() -> None:
    rows = study(dict.fromkeys(SETS, 1.0), n=3)
    one, other = read(rows), read(rows)
    assert (one.seen, one.tables) == (other.seen, other.tables)
    assert [f.svg for f in one.figures] == [f.svg for f in other.figures]


def test_sets_that_matter_are_told_with_their_sizes() -> None:
    scale = {"paper": 1.0, "without-hoeffding": 3.0, "without-bernstein": 1.0, "kl": 0.5}
    reading = read(study(scale, m_factor=1e-6))
    assert finding(reading).startswith(
        "With m/1e+06, leaving out Hoeffding's condition (i) cost the most ("
    )
    assert "taking the KL set instead saved the most (0.5" in finding(reading)
    assert finding(reading).count("times the mistakes, in 1 of 1 case)") == 2
    told = reading.seen[1]
    assert "leaving out Hoeffding's condition (i): more mistakes in 1 of 1 case (" in told
    assert "taking the KL set instead: fewer mistakes in 1 of 1 case (" in told
    assert "no significant effect of leaving out Bernstein's condition (ii)" in told
    assert "All sets are tiny" not in " ".join(reading.seen)
    assert "The first update comes after 4 visits of a pair" in told
    # delta_1 = delta/(2 U_max C) with U_max = SA log2(S H/w_min), w_min = eps/(4 H S)
    u_max = 5 * 2 * np.log2(5 * 5 * 4 * 5 * 5 / 0.1)
    assert f"here {98 / 9 * np.log(6 * 2 * u_max * 2 / 0.1):.3g}, and only where" in told
    row = reading.tables[0].rows[0]
    assert [cell.endswith("*") for cell in row] == [False, False, True, False, True]
    assert "but it made fewer" not in reading.seen[-1]


def test_where_bernstein_becomes_narrower() -> None:
    """The number of visits that the reading names, up to the 1 of n - 1: widths at p = 0."""
    log_term = 13.0
    n = 98 / 9 * log_term
    for visits, narrower in ((0.9 * n, False), (1.1 * n, True)):
        hoeffding = np.sqrt(log_term / (2 * visits))
        bernstein = 7 * log_term / (3 * (visits - 1))
        assert (bernstein < hoeffding) == narrower


def test_fewer_mistakes_with_a_larger_set_are_told() -> None:
    reading = read(study({"paper": 1.0, "without-deviation": 0.5}))
    assert "leaving out the condition on the deviation (iii) saved the most (0.5" in finding(
        reading
    )
    assert "but it made fewer mistakes in 1 case" in reading.seen[-1]


def test_few_runs_claim_nothing() -> None:
    """Five pairs have p = 1/16 at least."""
    reading = read(study({"paper": 1.0, "kl": 100.0}, n=5))
    assert "no difference can be significant with 5 runs of each set" in finding(reading)
    assert "*" not in str(reading.tables)
    assert "most (" in finding(read(study({"paper": 1.0, "kl": 100.0}, n=6)))


def test_noise_is_not_told_apart() -> None:
    """Sets that differ by luck alone, by more than is called hardly."""
    reading = read(study(dict.fromkeys(SETS, 1.0), n=12, noise=0.4, m_factor=1e-6))
    assert "no set is significantly different from the full one" in finding(reading)


def test_ranks_and_means_that_disagree_claim_nothing() -> None:
    """Nineteen runs are a little worse, and one is so much better that the mean is."""
    rows = [run(1000.0 if k else 1e5, "paper", k) for k in range(20)]
    rows += [run(1200.0, "kl", k) for k in range(20)]
    (found,) = compare(grouped(rows)[1.0])
    assert found.ratio < 1
    assert (found.side, found.p < 0.05, found.told) == (1, True, False)
    assert "no set is significantly different" in finding(read(rows))


def test_constants_follow_m_w_min() -> None:
    rows = study({"paper": 1.0, "kl": 1.0}, noise=1e-3)
    rows += study({"paper": 0.25}, noise=1e-3, variant="corrected", m=1e8)
    told = read(rows).seen[1]
    assert "The constants matter more." in told
    assert "made 0.25 times the mistakes that it made with the printed ones" in told
    assert "m w_min is 0.25 times as large, the same within" in told
    rows = study({"paper": 1.0, "kl": 1.0}) + study({"paper": 2.0}, variant="corrected", m=1e8)
    assert "which does not explain it" in read(rows).seen[1]


def test_each_m_is_on_its_own() -> None:
    rows = study(dict.fromkeys(SETS, 1.0), noise=1e-3)
    rows += study({"paper": 1.0, "without-hoeffding": 2.0}, m_factor=1e-6)
    reading = read(rows)
    first, second = finding(reading).split("; ")
    assert first.startswith("With the true m, no choice")
    assert second.startswith("with m/1e+06, leaving out Hoeffding's condition (i) cost the most")
    assert len(reading.tables) == 2
    assert "120 lifetimes" not in reading.seen[0]
    assert "There are 140 lifetimes." in reading.seen[0]


def test_endless_mistakes_and_sets_that_missed_are_told() -> None:
    rows = [
        *study({"paper": 1.0}, n=8),
        *(run(None if k < 3 else 900.0, "kl", k, captured=k > 0) for k in range(8)),
    ]
    reading = read(rows)
    assert "3 runs of 16 ended with a policy worse than epsilon" in reading.seen[-1]
    assert "outside a set at some time in 1 of 16 runs" in reading.seen[-1]
    assert reading.tables[0].rows[0][2] == "-"
    assert not reading.figures


@pytest.mark.parametrize(
    "rows",
    [
        [run(5)],
        [run(5, "kl")],
        [run(None)],
        [run(0), run(0, "kl")],
        [run(0), run(7, "kl")],
        [run(7), run(0, "kl")],
        [run(7), run(None, "kl")],
        [run(k, name, k) for k in range(3) for name in SETS],
        [run(7), run(8, "kl", replicate=1)],
        [run(7, variant="corrected"), run(8, "kl", variant="corrected")],
        [run(7), run(8, "l1"), run(8, m_factor=10.0)],
        [run(7, problem="hard:gap=0.1"), run(8, "kl", problem="hard:gap=0.1"),
         run(7, problem="hard:gap=0.2"), run(8, "kl", problem="hard:gap=0.2")],
        [run(7, problem=f"random:seed={k}", replicate=k) for k in range(3)],
        [run(7, epsilon=0.1), run(7, epsilon=0.2), run(8, "kl", epsilon=0.2)],
        [Result("", {"problem": "chain"}, 0, {"optimal": 1.0})],
    ],
)  # fmt: skip
def test_partial_results_are_read(rows: list[Result]) -> None:
    read(rows)


def test_problems_that_share_a_short_name_are_kept_apart() -> None:
    rows = [
        run(x, name, problem=f"hard:n=2,gap={gap}")
        for gap, x in ((0.1, 5), (0.2, 9))
        for name in SETS
    ]
    assert [row[0] for row in read(rows).tables[0].rows] == ["hard n=2 gap=0.1", "hard n=2 gap=0.2"]


def test_problems_that_differ_between_panels_are_named_apart() -> None:
    rows = [
        run(5, name, problem=f"hard:n=2,gap={gap}", m_factor=factor)
        for gap, factor in ((0.1, 1.0), (0.2, 1e-6))
        for name in SETS
    ]
    reading = read(rows)
    assert [table.rows[0][0] for table in reading.tables] == [
        "hard n=2 gap=0.1",
        "hard n=2 gap=0.2",
    ]


def test_random_problems_are_paired_by_problem() -> None:
    """Problems differ a thousandfold, sets by half: only pairs show it."""
    rows = []
    for k, size in enumerate(np.logspace(1, 4, 20)):
        for name, x in (("paper", 1.0), ("kl", 1.5)):
            rows.append(run(size * x, name, k, problem=f"random:states=8,seed={k}"))
    (found,) = compare(grouped(rows)[1.0])
    assert found.point[0] == "random:states=8"
    assert (found.pairs, found.side, found.told) == (20, 1, True)
    assert (found.ratio, found.low, found.high) == pytest.approx((1.5, 1.5, 1.5))


def test_comparisons_by_hand() -> None:
    """Every ratio and every p, recomputed from the list of results."""
    rng = np.random.default_rng(3)
    rows = [
        run(int(rng.integers(50, 200)) * (2 if name == "kl" else 1), name, k, problem, variant)
        for k in range(9)
        for name in SETS
        for problem in ("chain:n=5", "tutoring")
        for variant in ("paper", "corrected")
    ]

    def mistakes(problem: str, variant: str, name: str) -> Any:
        return np.array(
            [
                r.values["mistakes"]
                for r in rows
                if (problem, variant, name)
                == tuple(r.arguments[key] for key in ("problem", "variant", "confidence"))
            ]
        )

    found = compare(grouped(rows)[1.0])
    assert len(found) == 2 * (2 * 4 + 1)
    p = []
    for c in found:
        base = "paper" if c.confidence == "paper" else c.variant
        one = mistakes(c.point[0], c.variant, c.confidence)
        other = mistakes(c.point[0], base, "paper")
        assert c.ratio == pytest.approx(one.mean() / other.mean())
        assert c.low <= c.ratio <= c.high
        p.append(signed_rank(one - other).p)
    np.testing.assert_allclose([c.p for c in found], holm(p))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=6))
def test_bootstrap_against_all_draws(pairs: list[tuple[int, int]]) -> None:
    """With few pairs all draws can be listed: the share outside the interval is as it should be."""
    one, other = np.array(pairs, float).T
    ratio, low, high = ratio_of_means(one, other)
    if not other.sum():
        assert isnan(ratio)
        return
    n = len(pairs)
    drawn = np.stack(np.meshgrid(*[np.arange(n)] * n), -1).reshape(-1, n)
    above, below = one[drawn].sum(1), other[drawn].sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(above == below, 1.0, above / below)
    assert ratio == pytest.approx(one.mean() / other.mean())
    # 2000 draws: a share of 0.025 has a deviation of 0.0035, and five of them are 0.0175
    assert np.mean(ratios < low) <= 0.025 + 0.0175
    assert np.mean(ratios > high) <= 0.025 + 0.0175
    assert np.mean(ratios <= low) >= 0.025 - 0.0175
    assert np.mean(ratios >= high) >= 0.025 - 0.0175


def test_how_tight_sets_are_at_the_end() -> None:
    results = [
        run(10.0, name, k, off=off * (k + 1), problem=problem)
        for problem, more in (("chain:n=5", 1.0), ("tutoring", 1.5))
        for name, off in (("paper", 0.01), ("kl", 0.008 * more), ("without-bernstein", 0.02))
        for k in range(3)
    ]
    assert (
        "the distance between V~ and V relative to that with the full set is (medians): KL set 0.8 "
        "to 1.2 and without (ii) 2."
    ) in read(results).seen[1]
    # a full set with V~ = V has no ratio
    assert "the distance between V~ and V" not in " ".join(read(study({"paper": 1, "kl": 1})).seen)
