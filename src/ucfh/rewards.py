"""Rewards in the user's own units, and in [0, 1], as agents take them.

A reward r between ``low`` and ``high`` becomes r' = (r + shift)/span in [0, 1]. An episode that is
over pays 0 a step, so 0 is always in the range: shift = -min(0, low), span = max(0, high) + shift.
After the end a step pays shift/span then, and of every episode of H steps

    the sum of r'  =  (the sum of r + H shift)/span:

one increasing function of what it earns, whenever it ends. So policies are ordered as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from ucfh.exceptions import InputError, check_accuracy, check_count, wrong_type

ROUNDING = 1e-9
"""The part of the span by which a reward may be outside its range, as a rounded number may be."""


LARGEST = 1e12
"""Of a reward: what is larger could not be shown with its decimals."""


@dataclass(frozen=True)
class RewardRange:
    """The least and the largest reward of a step that are possible.

    >>> cliff = RewardRange(-100.0, -1.0)
    >>> cliff.shift, cliff.span, cliff.value(19.87, steps=20)
    (100.0, 100.0, -13.0)
    """

    low: float = 0.0
    high: float = 1.0

    @classmethod
    def check(cls, given: Any) -> RewardRange:
        """The range (low, high), or an error that says what is wrong with it."""
        try:
            low, high = (float(x) for x in given)
        except (TypeError, ValueError, OverflowError):
            low, high = inf, -inf
        if isinstance(given, str) or not low < high or not isfinite(high - low):
            what = "the least and the largest reward of a step that are possible, such as (0, 1)"
            raise wrong_type("rewards", given, what)
        if max(abs(low), abs(high)) > LARGEST:
            raise wrong_type("rewards", given, f"at most {LARGEST:g} in size: use larger units")
        return cls(low, high)

    @property
    def shift(self) -> float:
        """What is added to a reward."""
        return max(0.0, -self.low)

    @property
    def span(self) -> float:
        """What the sum is divided by."""
        return max(0.0, self.high) + self.shift

    @property
    def after_end(self) -> float:
        """What a step after the end pays, in [0, 1]."""
        return self.shift / self.span

    def scaled(self, reward: Any) -> Any:
        """A reward, or an array of them, in [0, 1]."""
        return (reward + self.shift) / self.span

    def unscaled(self, reward: Any) -> Any:
        """The inverse of `scaled`."""
        return reward * self.span - self.shift

    def value(self, earned: float, steps: int) -> float:
        """What rewards in [0, 1] that sum to ``earned`` over so many steps sum to in own units."""
        return earned * self.span - steps * self.shift

    def scaled_accuracy(
        self, epsilon: float, horizon: int, max_return: float | None = None
    ) -> float:
        """Return epsilon where rewards are in [0, 1], or raise if any policy is within it.

        ``max_return``: as declared, in own units.
        """
        check_accuracy(epsilon)
        self.scaled_return(max_return, horizon)  # or an error that says why not
        least, most = self.return_range(horizon, max_return)
        if epsilon >= most - least:
            raise InputError(
                f"epsilon = {epsilon:g} is not below {most - least:g}, the range of possible "
                "returns, so every policy is within it. Fix: pass a smaller epsilon"
            )
        return float(epsilon) / self.span

    def scaled_return(self, most: Any, horizon: int) -> float | None:
        """The largest return in [0, H], from that in own units; None if there is none."""
        if most is None:
            return None
        least = 0.0 - horizon * self.shift
        what = f"more than {least:g}, the least that {horizon} steps can pay: the largest sum of "
        try:
            scaled = (float(most) + horizon * self.shift) / self.span
        except (TypeError, ValueError, OverflowError):
            scaled = 0.0
        if isinstance(most, str) or not isfinite(scaled) or scaled <= 0:
            raise wrong_type("max_return", most, f"{what}an episode's rewards")
        return min(scaled, float(horizon))

    def return_range(self, horizon: int, max_return: float | None) -> tuple[float, float]:
        """The least and the largest return of H steps; ``max_return``: as declared, if it was.

        >>> RewardRange(-1.0, 40.0).return_range(4, 100.0)
        (-4.0, 100.0)
        """
        most = self.value(float(horizon), horizon)
        least = self.value(0.0, horizon)
        return least, most if max_return is None else min(most, float(max_return))

    def __str__(self) -> str:
        return f"[{self.low:g}, {self.high:g}]"


DEFAULT = RewardRange()
"""Rewards in [0, 1]."""


def check_segments(
    given: Sequence[int] | bool, horizon: int, times: range | None = None
) -> tuple[int, ...]:
    """Return the index of the first step of each segment after the first.

    Args:
        given: the values of t with which segments begin; True: every step is a segment.
        horizon: H.
        times: (H,) the value of t at each step; 0 to H - 1 by default.

    """
    times = range(horizon) if times is None else times
    if isinstance(given, bool):
        return tuple(range(1, horizon)) if given else ()
    try:
        values = [] if isinstance(given, str) else [check_count("segments", x) for x in given]
        steps = [0] if isinstance(given, str) else [times.index(x) for x in values]
    except (TypeError, ValueError, InputError):
        steps = [0]
    if 0 in steps or steps != sorted(set(steps)):
        what = "left out: an episode of one step has one segment"
        if horizon > 1:
            apart = f" at intervals of {times.step}" if times.step > 1 else ""
            what = f"steps from {times[1]} to {times[-1]}{apart}, ascending, where the first is "
            what += f"{times[0]}: those with which a new segment begins"
        raise wrong_type("segments", given, what)
    return tuple(steps)
