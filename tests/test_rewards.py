"""Ranges of rewards and segments: scaling and input checks."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.errors import refusal
from ucfh.rewards import DEFAULT, RewardRange, check_segments

NUMBERS = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    ("given", "shift", "span", "after_end"),
    [
        ((0, 1), 0, 1, 0),
        ((-1, 1), 1, 2, 0.5),
        ((-100, -1), 100, 100, 1),  # after the end rewards are 0, the best possible
        ((-3, 0), 3, 3, 1),
        ((1, 3), 0, 3, 0),  # and here the worst
        ((0, 0.25), 0, 0.25, 0),
        ([np.float32(-0.5), np.int64(2)], 0.5, 2.5, 0.2),
        (iter("01"), 0, 1, 0),
    ],
)
def test_ranges(given: Any, shift: float, span: float, after_end: float) -> None:
    units = RewardRange.check(given)
    assert (units.shift, units.span, units.after_end) == (shift, span, after_end)
    assert type(units.low) is type(units.high) is float


@given(NUMBERS, NUMBERS, st.floats(0, 1), st.lists(st.floats(0, 1), max_size=5))
def test_scaled_rewards_are_a_task_of_the_same_order(
    one: float, other: float, part: float, parts: list[float]
) -> None:
    low, high = sorted((one, other))
    assume(high - low > 1e-3)
    units = RewardRange(low, high)
    rewards = [min(low + x * (high - low), high) for x in [part, *parts]]
    scaled = [float(units.scaled(r)) for r in rewards]
    assert min(scaled) >= 0
    assert max(scaled) <= 1
    size = 1e-12 * (units.span + units.shift)
    assert abs(units.unscaled(scaled[0]) - rewards[0]) <= size
    # an episode of 9 steps that ends after these is paid after_end for each of the others
    earned = sum(scaled) + (9 - len(scaled)) * units.after_end
    assert abs(units.value(earned, 9) - sum(rewards)) <= 9 * size
    most = units.scaled_return(sum(rewards) + 2 * size, 9)
    assert most is not None
    assert earned <= most + 1e-12 <= 9 + 1e-12


def test_the_largest_return() -> None:
    assert DEFAULT.scaled_return(None, 5) is None
    assert DEFAULT.scaled_return(2, 5) == 2
    assert DEFAULT.scaled_return(99, 5) == 5  # above H: no restriction
    cliff = RewardRange(-100, -1)
    assert cliff.scaled_return(-13, 20) == 19.87
    assert cliff.scaled_return(0, 20) == 20
    assert RewardRange(1, 3).scaled_return(4.5, 2) == 1.5
    assert (str(cliff), str(RewardRange(0, 0.5))) == ("[-100, -1]", "[0, 0.5]")


@pytest.mark.parametrize(
    "given",
    [
        (1, 0),
        (1, 1),
        (0, inf),
        (-inf, 0),
        (nan, 1),
        (0, 1, 2),
        (0,),
        (),
        5,
        None,
        "01",
        "ab",
        ("a", "b"),
        ((0, 1), (0, 1)),
        {"low": 0, "high": 1},
        (0, 10**400),
        (-1e308, 1e308),
        np.eye(3),
    ],
)
def test_ranges_that_are_refused(given: Any) -> None:
    message = refusal(RewardRange.check, given)
    assert message.startswith(f"rewards = {' '.join(repr(given).split())[:100]}")
    assert len(message) < 250


@pytest.mark.parametrize(
    ("units", "given", "least"),
    [
        (DEFAULT, 0, "0"),
        (DEFAULT, -1, "0"),
        (DEFAULT, nan, "0"),
        (DEFAULT, "1", "0"),
        (DEFAULT, [1], "0"),
        (DEFAULT, inf, "0"),
        (DEFAULT, 10**400, "0"),
        (RewardRange(-1, 1), -4, "-4"),
        (RewardRange(-1, 1), -inf, "-4"),
        (RewardRange(-100, -1), -400, "-400"),
    ],
)
def test_largest_returns_that_are_refused(units: RewardRange, given: Any, least: str) -> None:
    message = refusal(units.scaled_return, given, 4)
    assert message.startswith(f"max_return = {repr(given)[:100]}")
    assert f" must be more than {least}, " in message


def test_segments() -> None:
    assert check_segments((), 5) == check_segments(False, 5) == ()
    assert check_segments(True, 5) == (1, 2, 3, 4)
    assert check_segments([4], 5) == (4,)
    whole: Any = np.array([1, 3])
    assert check_segments(whole, 5) == (1, 3)
    assert check_segments(range(1, 3), 5) == (1, 2)
    assert check_segments(True, 1) == check_segments((), 1) == ()


@pytest.mark.parametrize(
    "given",
    [
        (0,),
        (5,),
        (-1,),
        (2, 1),
        (1, 1),
        3,
        None,
        "x",
        "12",
        ["a"],
        object(),
        (1.5,),
        (inf,),
        (True,),
    ],
)
def test_segments_that_are_refused(given: Any) -> None:
    message = refusal(check_segments, given, 5)
    assert message.startswith(f"segments = {given!r} ")


def test_one_step_has_one_segment() -> None:
    assert refusal(check_segments, (1,), 1).startswith("segments = (1,) ")
