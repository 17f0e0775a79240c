"""The record of a simulated learner: one row a phase, that is, a policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 1e-9
"""A gap beyond epsilon by no more than this is rounding: values often lie on grids."""

COLUMNS = [
    ("first_episode", object),
    ("episodes", object),
    ("state", np.int64),
    ("action", np.int64),
    ("n", np.int64),
    ("value", np.float64),
    ("optimistic", np.float64),
    ("gap", np.float64),
    ("captured", np.float64),
]


@dataclass
class Phase:
    """One policy: how long it was followed, what it is worth, what ended it.

    Attributes:
        first_episode: counted from 0. Python integers, as lifetimes may pass 2^63 episodes.
        episodes: how many followed this policy.
        state, action: the pair whose update ended the phase; -1 if none did, or if it was the
            start, learned as one more row.
        n: the pair's visits after the update.
        value: V^pi, exactly. optimistic: V~. gap: V* - V^pi.
        captured: 1 if the true transitions lie in the confidence sets, 0 if not, NaN without.

    """

    first_episode: int
    episodes: int
    value: float
    optimistic: float
    gap: float
    captured: float
    state: int = -1
    action: int = -1
    n: int = 0


@dataclass(eq=False)
class Run:
    """What happened, phase by phase.

    Attributes:
        optimal: V*, the value of the best policy.
        epsilon, delta, episode_bound: what the learner was asked for, and its guarantee.
        policy: (H, S) the last policy.
        final: whether that policy can never change again; its endless phase is the last row,
            with no episodes counted.
        interrupted: whether the run was cut short by the user.
        seconds: how long it took.

    """

    optimal: float
    epsilon: float
    delta: float
    episode_bound: float | None
    policy: NDArray[Any]
    final: bool = False
    interrupted: bool = False
    seconds: float = 0.0
    _rows: list[Phase] = field(default_factory=list)

    @property
    def episodes(self) -> int:
        """How many episodes were run."""
        last = self._rows[-1] if self._rows else None
        return last.first_episode + last.episodes if last else 0

    @property
    def updates(self) -> int:
        """How often the model was updated."""
        return len(self._rows) - 1

    @property
    def phases(self) -> np.recarray[Any, Any]:
        """One record a phase; columns as attributes or by name (see `Phase`)."""
        rows = [tuple(getattr(row, name) for name, _ in COLUMNS) for row in self._rows]
        return np.array(rows, dtype=COLUMNS).view(np.recarray)

    @property
    def value(self) -> float:
        """The exact value of the last policy."""
        return self._rows[-1].value if self._rows else nan

    @property
    def optimistic(self) -> float:
        """What the learner promises itself with the last policy."""
        return self._rows[-1].optimistic if self._rows else nan

    @property
    def gap(self) -> float:
        """How much the last policy falls short of the optimum."""
        return self._rows[-1].gap if self._rows else nan

    def mistakes(self, epsilon: float | None = None) -> int | float:
        """How many episodes followed a policy worse than epsilon; infinite if the final one is."""
        limit = (self.epsilon if epsilon is None else epsilon) + TOLERANCE
        if self.final and self._rows[-1].gap > limit:
            return inf
        return sum(row.episodes for row in self._rows if row.gap > limit)

    @property
    def regret(self) -> float:
        """The reward lost against the optimum, in expectation given the policies followed."""
        return sum(row.episodes * row.gap for row in self._rows)

    def __str__(self) -> str:
        lines = [
            f"{'phase':>6} {'episodes':>10} {'pair':>12} {'n':>10} {'V^pi':>9} {'V~':>9} {'gap':>9}"
        ]
        shown = list(enumerate(self._rows))
        if len(shown) > 24:
            shown = [*shown[:12], *shown[-12:]]
        previous = -1
        for k, row in shown:
            if k > previous + 1:
                lines.append(f"{'...':>6}")
            previous = k
            pair = f"({row.state}, {row.action})" if row.state >= 0 else "-"
            count = "endless" if self.final and k == len(self._rows) - 1 else f"{row.episodes:.3g}"
            lines.append(
                f"{k:>6} {count:>10} {pair:>12} {row.n:>10.3g} {row.value:>9.5f} "
                f"{row.optimistic:>9.5f} {row.gap:>9.5f}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        end = "final" if self.final else "interrupted" if self.interrupted else "capped"
        return (
            f"Run({self.episodes:.4g} episodes, {self.updates} updates, gap {self.gap:.4g}, {end})"
        )
