"""How many more episodes it takes: power laws are continued, and nothing is said of standstill."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ucfh.tasks.status import FARTHEST, MOST, episodes_left


@given(st.floats(0.5, MOST), st.integers(50, 100_000), st.floats(1.05, 8.0))
def test_a_power_law_is_continued(power: float, n: int, ratio: float) -> None:
    """The gap c n^-b is epsilon where n has grown by ratio^(1/b)."""
    plans = [(k, k**-power) for k in range(n // 3, n + 1, max(1, n // 50))]
    n = plans[-1][0]
    found = episodes_left(plans, n**-power / ratio)
    assert found == pytest.approx(n * (ratio ** (1 / power) - 1), rel=1e-6, abs=1)


def test_nothing_is_said_without_reason() -> None:
    still = [(n, 0.9) for n in range(100, 400, 10)]
    slow = [(n, n**-0.3) for n in range(100, 400, 10)]
    assert episodes_left(still, 0.1) is None
    assert episodes_left(slow, 0.1) is None
    assert episodes_left([], 0.1) is None
    assert episodes_left([(0, 1.0)], 0.1) is None
    assert episodes_left([(100, 0.5), (101, 0.4)], 0.1) is None
    far = [(n, n**-0.5) for n in range(100, 401, 10)]
    assert episodes_left(far, 400**-0.5 / (FARTHEST + 1) ** 0.5) is None
    assert episodes_left(far, 400**-0.5 / (FARTHEST - 1) ** 0.5) is not None


def test_what_is_reached_needs_no_more() -> None:
    assert episodes_left([(10, 0.3), (20, 0.1)], 0.1) == 0
    assert episodes_left([(10, 0.0)], 0.1) == 0


def test_early_plans_do_not_count() -> None:
    """What the gap did before half of the episodes says nothing of what it does now."""
    now = [(n, n**-0.5) for n in range(200, 401, 10)]
    before = [(n, 1.0) for n in range(1, 200)]
    assert episodes_left(before + now, 0.02) == episodes_left(now, 0.02)
