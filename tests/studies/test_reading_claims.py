"""The reading of claims: what holds is said to hold, and what fails is named."""

from __future__ import annotations

from math import inf
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ucfh.experiments.store import Result
from ucfh.report.words import number
from ucfh.studies.claims.reading import read


def line(claim: str, predicted: float, measured: float | None, **other: Any) -> dict[str, Any]:
    holds = measured is not None and measured <= predicted
    return {
        "claim": claim, "predicted": predicted, "measured": measured, "holds": holds,
        "proved": True,
    } | other  # fmt: skip


def result(lines: list[dict[str, Any]], problem: str = "chain:n=5", **arguments: Any) -> Result:
    given = {"problem": problem, "epsilon": 0.2, "delta": 0.1, "variant": "paper", "runs": 10}
    return Result("", given | arguments, 0, {"lines": lines})


GOOD = [
    line("Lemma 1: share of lifetimes in which the MDP leaves the sets", 0.05, 0.0),
    line("Lemma 3: |V~ - V| in balanced phases", 0.2, 0.05),
    line("planning: V* - V~", 0.0, 0.0),
    line("updates, as corrected", 150, 135),
    line("Theorem 1: episodes worse than epsilon", 1e13, 1e6, proved=False),
]


def test_all_hold() -> None:
    found = read([result(GOOD), result(GOOD, "tutoring", variant="corrected")])
    assert found.seen[0] == (
        "All 8 checks of proved claims hold, over 20 lifetimes on 2 problems, and so do 2 "
        "checks of claims that are only printed."
    )
    assert '"updates, as corrected" (chain, printed constants: 135 measured, 150' in found.seen[1]
    assert '"Lemma 3: |V~ - V| in balanced phases"' in found.seen[1]
    assert "the prediction is 4 times as large" in found.seen[1]
    assert "met exactly" not in found.seen[1]
    # 0 of 20: the share p with (1 - p)^20 = 0.05
    assert (
        "0 of 20 lifetimes, so with 95 % confidence it does so in a share of lifetimes below 0.14"
        in (found.seen[2])
    )
    [table] = found.tables
    assert [len(row) for row in table.rows] == [7] * 5
    rows = {row[0]: row[1:4] for row in table.rows}
    assert rows["planning: V* - V~"] == ["1 of 1", "-", "-"]
    assert rows["updates, as corrected"] == ["1 of 1", "1.11", "chain"]
    assert rows["Theorem 1: episodes worse than epsilon"] == ["1 of 1*", "1e+07", "chain"]
    assert rows["Lemma 1: share of lifetimes in which the MDP leaves the sets"][1] == "inf"
    assert "<svg" in found.figures[0].svg


def test_failures_are_named() -> None:
    bad = [line("Lemma 3: |V~ - V| in balanced phases", 0.2, 0.3)]
    found = read([result(GOOD), result(bad, "tutoring")])
    assert found.seen[0].startswith(
        "1 of 5 checks of proved claims fail, over 20 lifetimes on 2 problems: Lemma 3: |V~ - V| in"
        " balanced phases (tutoring, printed constants: 0.3 measured, 0.2 predicted)"
    )
    assert "1 of 5 are exceeded" in found.figures[0].caption


def test_what_is_only_printed_may_fail() -> None:
    beyond = [line("updates, as printed: U_max", 108, 120, proved=False)]
    within = [line("updates, as printed: U_max", 130, 120, proved=False)]
    barely = [line("updates, as printed: U_max", 119, 120, proved=False)]
    found = read([result(beyond + GOOD), result(within, "tutoring"), result(barely, "calls")])
    assert found.seen[0] == (
        "All 4 checks of proved claims hold, over 30 lifetimes on 3 problems; of claims that are "
        'only printed, "updates, as printed: U_max" fails in 2 of 3 checks, at worst on '
        "chain with 120 where 108 are allowed."
    )
    row = next(row for row in found.tables[0].rows if "U_max" in row[0])
    assert row[1:] == ["1 of 3*", "0.9", "chain"]


def test_models_that_left_the_sets_are_counted() -> None:
    lost = line("Lemma 1: share of lifetimes", 0.05, 0.3, holds=True)
    found = read([result([lost]), result([lost], "tutoring", runs=20)])
    assert (
        "left the sets in 9 of 30 lifetimes, where Lemma 1 allows a share of 0.05."
        in (found.seen[-1])
    )


def test_a_bound_that_is_met_exactly() -> None:
    found = read([result([line("updates, as corrected", 120, 120)])])
    assert "It is met exactly" in found.seen[1]
    assert "loosest" not in found.seen[1]


def test_endless_mistakes_and_nothing_at_all() -> None:
    endless = line("Theorem 1: episodes worse than epsilon", 1e13, None)
    found = read([result([endless])])
    assert "inf measured" in found.seen[0]
    assert found.figures == []
    assert read([result([])]).tables[0].rows == []
    only_zero = read([result([line("planning: V* - V~", 0.0, 0.0)])])
    assert only_zero.figures == []
    nothing = read([result([line("Lemma 1: share", 0.05, 0.0)])])
    assert "<svg" in nothing.figures[0].svg


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from(["paper", "corrected"]),
            st.sampled_from([0.0, 1e-12, 0.5, 3e15]),
            st.sampled_from([0.0, 1e-12, 0.5, 3e15]),
            st.booleans(),
        ),
        min_size=1,
    )
)
def test_any_lines_are_read(drawn: list[tuple[str, str, float, float, bool]]) -> None:
    results = [
        result([line(claim, predicted, measured, proved=proved)], variant=variant)
        for claim, variant, predicted, measured, proved in drawn
    ]
    found = read(results)
    proved = [x for x in drawn if x[4]]
    failed = sum(x[3] > x[2] for x in proved)
    start = f"{failed} of {len(proved)}" if failed else f"All {len(proved)}"
    assert found.seen[0].startswith(f"{start} checks" if proved else "No proved claim")
    variants = list(dict.fromkeys(x[1] for x in drawn))
    for row in found.tables[0].rows:
        for k, variant in enumerate(variants):
            of = [x for x in drawn if x[:2] == (row[0], variant)]
            margins = [x[2] / x[3] if x[3] else inf for x in of if x[2] or x[3]]
            assert row[3 * k + 2] == (number(min(margins)) if margins else "-")
