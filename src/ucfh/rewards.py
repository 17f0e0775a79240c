"""The range of rewards, and the map from the user's units to [0, 1].

A reward r between ``low`` and ``high`` becomes r' = (r + shift)/span in [0, 1]. Rewards after the
end of an episode are 0, so 0 is always in the range: shift = -min(0, low),
span = max(0, high) + shift. After the end r' = shift/span, so for every episode of H steps

    the sum of r'  =  (the sum of r + H shift)/span:

one increasing function of the return, whenever the episode ends. So the order of policies is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from ucfh.exceptions import InputError, check_accuracy, check_count, wrong_type

ROUNDING = 1e-9
"""The share of the span by which a rounded reward may be outside its range."""

LARGEST = 1e12
"""The largest size of a reward: larger numbers could not be printed with their decimals."""


@dataclass(frozen=True)
class RewardRange:
    """The range of the reward of a step, from ``low`` to ``high``.

    >>> cliff = RewardRange(-100.0, -1.0)
    >>> cliff.shift, cliff.span, cliff.value(19.87, steps=20)
    (100.0, 100.0, -13.0)
    """

    low: float = 0.0
    high: float = 1.0

    @classmethod
    def check(cls, given: Any) -> RewardRange:
        """Return the range (low, high), or raise `InputError`."""
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
        """The number that is added to a reward."""
        return max(0.0, -self.low)

    @property
    def span(self) -> float:
        """The number by which the shifted reward is divided."""
        return max(0.0, self.high) + self.shift

    @property
    def after_end(self) -> float:
        """The scaled reward of a step after the end of an episode, in [0, 1]."""
        return self.shift / self.span

    def scaled(self, reward: Any) -> Any:
        """Return a reward, or an array of rewards, scaled to [0, 1]."""
        return (reward + self.shift) / self.span

    def unscaled(self, reward: Any) -> Any:
        """Return a scaled reward, or an array, in the user's units."""
        return reward * self.span - self.shift

    def value(self, scaled: float, steps: int) -> float:
        """Return the sum, in the user's units, of ``steps`` rewards with a ``scaled`` sum."""
        return scaled * self.span - steps * self.shift

    def scaled_accuracy(
        self, epsilon: float, horizon: int, max_return: float | None = None
    ) -> float:
        """Return epsilon for rewards scaled to [0, 1].

        Args:
            epsilon: in the user's units.
            horizon: H.
            max_return: the declared largest return, in the user's units.

        Raises:
            InputError: if epsilon is not below the range of possible returns.

        """
        check_accuracy(epsilon)
        self.scaled_return(max_return, horizon)  # checks it
        least, most = self.return_range(horizon, max_return)
        if epsilon >= most - least:
            raise InputError(
                f"epsilon = {epsilon:g} is not below {most - least:g}, the range of possible "
                "returns, so every policy is epsilon-optimal. Fix: pass a smaller epsilon"
            )
        return float(epsilon) / self.span

    def scaled_return(self, most: Any, horizon: int) -> float | None:
        """Return the declared largest return, scaled to [0, H]; None if there is none."""
        if most is None:
            return None
        least = 0.0 - horizon * self.shift
        what = f"more than {least:g}, the least return of {horizon} steps: the largest sum of "
        try:
            scaled = (float(most) + horizon * self.shift) / self.span
        except (TypeError, ValueError, OverflowError):
            scaled = 0.0
        if isinstance(most, str) or not isfinite(scaled) or scaled <= 0:
            raise wrong_type("max_return", most, f"{what}an episode's rewards")
        return min(scaled, float(horizon))

    def return_range(self, horizon: int, max_return: float | None) -> tuple[float, float]:
        """Return the least and the largest possible return of H steps, by the declared largest.

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
        given: the first t of each segment after the first; True: every step is a segment.
        horizon: H.
        times: (H,) the value of t at each step; 0 to H - 1 by default.

    Raises:
        InputError: if the values are not ascending, or not among ``times``.

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
            what += f"{times[0]}: the first step of each segment after the first"
        raise wrong_type("segments", given, what)
    return tuple(steps)
