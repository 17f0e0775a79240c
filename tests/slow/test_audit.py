"""The audit of assumptions: how often it is wrong, and how much it finds.

Clean logs of many kinds, audited while they grow, must be doubted in a share alpha at most; bets
with a mistake must not pass this check. Then violations of three strengths are planted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import ucfh
from oracles.audited import KINDS, TESTS, Draw, Rules, rows_of
from support.audits import (
    CLEAN,
    PLANTED,
    STRENGTHS,
    audited,
    clean_worlds,
    drifting_calls,
    grid,
    pieces,
    planted_worlds,
    simulated,
    taxi,
)
from support.broken_audits import (
    BestRow,
    CountsItself,
    FirstDrawToo,
    LooksAhead,
    RunningLikelihood,
    SumOfLabels,
    ThinsByOutcome,
    WholeBlock,
)
from ucfh.auditing.e_process import Audit
from ucfh.auditing.report import ASSUMPTIONS, report_of
from ucfh.auditing.steps import AuditSteps

SURE = 0.99
"""The confidence of exact bounds on shares."""

EACH = 300
"""Clean logs of each kind."""


def at_most(k: int, n: int) -> float:
    """The exact (Clopper-Pearson) upper bound on a probability, after k of n."""
    return 1.0 if k == n else float(stats.beta.ppf(SURE, k + 1, n - k))


def at_least(k: int, n: int) -> float:
    return 0.0 if k == 0 else float(stats.beta.ppf(1 - SURE, k, n - k + 1))


def clean_audits() -> Iterator[Audit]:
    """Of logs of 2,000 steps, and of some with more visits of a row than are all looked at."""
    segments: list[Any] = [(), (2,), True]
    for i, kind in enumerate(CLEAN):
        rng = np.random.default_rng(i)
        for k, log_ in enumerate(clean_worlds(kind, EACH, rng).logs(2000, rng)):
            yield audited(log_, segments[k % 3], details=True)
    rng = np.random.default_rng(100)
    for log_ in clean_worlds("bandit", 60, rng).logs(60_000, rng):
        yield audited(log_, details=True)
    rng = np.random.default_rng(101)
    for log_ in clean_worlds("small, win-stay", EACH, rng).logs(2000, rng):
        yield audited(losing(log_, rng), details=True, losses=False)


def losing(log_: AuditSteps, rng: np.random.Generator) -> AuditSteps:
    """Outcomes are lost by what they were, more and more of them, of which nothing is assumed.

    The episode is over then: what came later in it is left out.
    """
    n = len(log_.t)
    lost = (log_.following < log_.state) & (rng.random(n) < np.arange(n) / n)
    before: NDArray[np.int64] = np.cumsum(lost) - lost
    at_start = np.maximum.accumulate(np.where(log_.new, before, 0))
    log_ = replace(log_, lost=lost, following=np.where(lost, -1, log_.following))
    return AuditSteps(*(x[before == at_start] for x in vars(log_).values()))


def test_a_clean_log_is_rarely_accused() -> None:
    """All tests together at alpha, and each one that is given all of a larger alpha."""
    n = 0
    found: Counter[tuple[str, float]] = Counter()
    single: Counter[tuple[str, str, float]] = Counter()
    made: Counter[tuple[str, str]] = Counter()
    for audit in clean_audits():
        n += 1
        for alpha in (0.05, 0.01):
            names = {finding.name for finding in report_of(audit, alpha).findings}
            found.update((name, alpha) for name in {*names, *(["any"] if names else [])})
        for i, j in np.argwhere(audit.tests).tolist():
            made[KINDS[i], TESTS[j]] += 1
            for alpha in (0.5, 0.2, 0.05, 0.01):
                hit = audit.evidence[i, j] >= log(1 / alpha)
                single[KINDS[i], TESTS[j], alpha] += bool(hit)
    print(f"{n} clean logs; findings at alpha .05 and .01, with exact bounds:")
    for name in ("any", *ASSUMPTIONS):
        a, b = found[name, 0.05], found[name, 0.01]
        print(f"  {name}: {a} (<= {at_most(a, n):.4f}), {b} (<= {at_most(b, n):.4f})")
    print("each test with all of alpha = .5, .2, .05, .01: logs with a finding")
    for (kind, test), m in made.items():
        shares = [single[kind, test, alpha] for alpha in (0.5, 0.2, 0.05, 0.01)]
        print(f"  {kind} by {test}, {m} logs: {shares}")
    assert n >= 2000
    for alpha in (0.05, 0.01):
        assert at_most(found["any", alpha], n) <= alpha
    for (kind, test, alpha), k in single.items():
        assert at_most(k, made[kind, test]) <= alpha, (kind, test, alpha)


# --------------------------------------------------------------------------------- broken versions

DRAWS: dict[str, tuple[list[float], int, int]] = {
    "coins": ([0.5, 0.5], 1, 160),
    "sure": ([1.0], 10, 80),
    "many labels": ([1 / 20] * 20, 10, 80),
    "all labels rare": ([1 / 500] * 500, 3, 60),
    "many rows": ([0.5, 0.5], 1000, 15),
}
"""Laws, and how many rows are drawn from how often."""


def alarms(rules: Rules, test: str, name: str, alpha: float, logs: int) -> int:
    """In how many clean logs E ever reaches 1/alpha, looked at after each doubling."""
    law, rows, n = DRAWS[name]
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(logs):
        columns = rng.integers(0, rows, rows * n), rng.choice(len(law), rows * n, p=law)
        row, x, z = (column.tolist() for column in (*columns, rng.integers(0, 2, rows * n)))
        drawn = [(row[i], Draw(x[i], {test: z[i]})) for i in range(rows * n)]
        looks = [len(drawn) >> k for k in range(4)]
        found += any(rules.ln_e(rows_of(drawn[:m]), test) >= log(1 / alpha) for m in looks)
    return found


@pytest.mark.parametrize(
    ("broken", "test", "name", "alpha"),
    [
        (CountsItself(), "action", "coins", 0.2),
        (CountsItself(), "drift", "coins", 0.2),
        (RunningLikelihood(), "action", "sure", 0.2),
        (RunningLikelihood(), "drift", "sure", 0.2),
        (FirstDrawToo(), "action", "all labels rare", 0.2),
        (FirstDrawToo(), "drift", "all labels rare", 0.2),
        (SumOfLabels(), "action", "many labels", 0.2),
        (SumOfLabels(), "drift", "many labels", 0.2),
        (BestRow(), "action", "many rows", 0.5),
        (LooksAhead(), "action", "coins", 0.2),
        (WholeBlock(), "drift", "coins", 0.2),
        (ThinsByOutcome(often=20), "action", "coins", 0.2),
    ],
)
def test_broken_tests_are_noticed(broken: Rules, test: str, name: str, alpha: float) -> None:
    """The best label, the best strength and the final share are not tried.

    They gain less than the largest likelihood costs, so that their alarms stay rare; the mean of
    their bets finds them out, in tests/auditing/test_audit_oracle.py.
    """
    logs = 30
    right, wrong = (alarms(rules, test, name, alpha, logs) for rules in (Rules(), broken))
    print(f"{type(broken).__name__} by {test}: {wrong} of {logs} clean logs, right {right}")
    assert at_least(right, logs) <= alpha
    assert at_least(wrong, logs) > alpha


# ------------------------------------------------------------------------------------------ power

LOGS = 100
SIZES = (300, 1000, 3000, 10_000)
ALPHA = 0.01


def found(name: str, strength: float, episodes: int) -> int:
    """In how many logs it is found, with all actions equally often."""
    rng = np.random.default_rng([*PLANTED].index(name))
    logs = planted_worlds(name, strength, LOGS).logs(5 * episodes, rng)
    reports = (report_of(audited(log_, details=True), ALPHA) for log_ in logs)
    return sum(PLANTED[name][0] in {x.name for x in report.findings} for report in reports)


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(name: str) -> None:
    """The more, the stronger it is and the longer the log; where all are found, more are not
    tried."""
    table: dict[float, list[int]] = {}
    for strength in STRENGTHS:
        table[strength] = []
        for episodes in SIZES:
            all_found = LOGS in table[strength]
            table[strength].append(LOGS if all_found else found(name, strength, episodes))
    for strength, shares in table.items():
        print(f"| {name} | {strength} | " + " | ".join(f"{k} %" for k in shares) + " |")
    strong = table[STRENGTHS[-1]]
    assert strong[-1] == LOGS
    assert all(weak <= k for weak, k in zip(table[STRENGTHS[0]], strong, strict=True))


# --------------------------------------------------------------------------- tasks made by stepping


def told(log_: AuditSteps, **given: Any) -> dict[str, tuple[float, int]]:
    """Return findings by name: e-value, and episodes until the first finding."""
    audit = Audit(**given)
    first: dict[str, int] = {}
    for piece in pieces(log_, 1.1):
        audit.add(piece)
        for finding in report_of(audit, ALPHA).findings:
            first.setdefault(finding.name, audit.episodes)
    report = report_of(audit, ALPHA)
    return {x.name: (x.e_value, first[x.name]) for x in report.findings}


def test_a_fickle_passenger() -> None:
    """The destination changes in three of ten rides, right after the taxi has left."""
    fickle, firm = told(taxi(6000, fickle=True)), told(taxi(6000, fickle=False))
    print(f"Taxi, 6,000 rides: fickle {fickle}, firm {firm}")
    assert list(fickle) == ["memory"]
    assert firm == {}


def test_views_of_a_grid() -> None:
    """Of an agent that sees a part of a room with a door and a key; all of it in sight."""
    part, all_ = (told(grid("MiniGrid-DoorKey-5x5-v0", 1000, full=full)) for full in (False, True))
    print(f"MiniGrid-DoorKey-5x5, 1,000 episodes: partial view {part}, all in sight {all_}")
    assert list(part) == ["memory"]
    assert all_ == {}


def test_rewards_that_fall_with_time() -> None:
    """Rewards of MiniGrid depend on the step; with all steps apart, nothing is found."""
    log_ = grid("MiniGrid-Empty-5x5-v0", 1000)
    pooled, apart = told(log_), told(log_, segments=True)
    print(f"MiniGrid-Empty-5x5, 1,000 episodes: steps pooled {pooled}, apart {apart}")
    assert list(pooled) == ["step"]
    assert apart == {}


def test_an_exam_and_a_call_centre(tmp_path: Path) -> None:
    exam = simulated([ucfh.make("tutoring")], 3000, tmp_path)
    pooled, segmented = told(exam), told(exam, segments=(9,))
    print(f"tutoring, 3,000 students: steps pooled {pooled}, a segment for the exam {segmented}")
    assert list(pooled) == ["step"]
    assert segmented == {}
    drifting, steady = (told(drifting_calls(x, 10_000, tmp_path)) for x in (0.2, 0.0))
    print(f"calls, 10,000: simple faults fall from 30 to 10 % {drifting}, do not {steady}")
    assert list(drifting) == ["drift"]
    assert steady == {}
