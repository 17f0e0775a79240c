"""Claims of a certificate against the truth, and the result of one run of the sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sweep.models import Model

ROUNDING = 1e-7
"""Share of the return range by which sums of floating-point numbers may be off."""
Policy = Sequence[Sequence[int]]


@dataclass
class Result:
    """One run.

    Attributes:
        entry, seed, delta: what was run.
        labels: the value of each option, by name.
        violations: claims that were false after data, each of probability at most delta.
        behavior: false claims about the logged policy. refuted: whether true assumptions were.
        errors: crashes, false claims without data, and contradictory numbers; never allowed.
        looks: how many certificates were checked. certified: whether one was.

    """

    entry: str
    seed: int
    delta: float = 0.1
    labels: dict[str, str] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    behavior: list[str] = field(default_factory=list)
    refuted: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    looks: int = 0
    certified: bool = False


class Checker:
    """Holds certificates of a model against its exact values."""

    def __init__(self, model: Model, epsilon: float, result: Result) -> None:
        self.model, self.epsilon, self.result = model, epsilon, result
        size = model.horizon * max(abs(model.low), abs(model.high))
        self.tolerance = ROUNDING * max(1.0, size)

    def look(
        self,
        known: Any,
        policy: Policy,
        *,
        data: bool,
        largest: float | None = None,
        states: Sequence[int | None] | None = None,
        expected: Sequence[float] | None = None,
    ) -> None:
        """Check a certificate.

        Args:
            known: the certificate.
            policy: (H, S) the action of each state of the model, as the certificate means it.
            data: whether there are any; without, a false claim is an error.
            largest: what ``upper`` has to be without data.
            states: of each state of the certificate, that of the model; for ``suboptimality``.
            expected: the value of the policy of each logged episode, for the behavior.

        """
        result, tol, m = self.result, self.tolerance, self.model
        result.looks += 1
        result.certified |= known.certified
        self.consistent(known)
        if known.refuted:
            why = known.contradiction or f"finding: {known.findings[0].assumption}"
            (result.refuted if data else result.errors).append(why)
        else:
            V = m.values(policy)
            best, value = m.best, m.at_start(V)
            claims = {
                "upper": best - known.upper,
                "lower": known.lower - value,
                "gap": best - value - known.gap,
            }
            if known.certified:
                claims["epsilon"] = best - value - self.epsilon
            if known.suboptimality is not None and states is not None:
                claims["suboptimality"] = self._suboptimality(known.suboptimality, V, states)
            wrong = [f"{name} by {by:.3g}" for name, by in claims.items() if by > tol]
            if wrong:
                where = result.violations if data else result.errors
                where.append(f"{', '.join(wrong)} at {known.episodes} episodes")
        if not data and largest is not None and abs(known.upper - largest) > tol:
            result.errors.append(f"without data upper is {known.upper:g}, not {largest:g}")
        if expected is not None and known.behavior is not None and len(expected):
            was, mean = known.behavior, float(np.mean(expected))
            if not was.lower - tol <= mean <= was.upper + tol:
                result.behavior.append(f"{mean:g} outside [{was.lower:g}, {was.upper:g}]")

    def _suboptimality(self, suboptimality: Any, V: Any, states: Sequence[int | None]) -> float:
        worst = 0.0
        for i, s in enumerate(states):
            if s is not None:
                loss = self.model.optimal[:-1, s] - V[:-1, s] - suboptimality[:, i]
                worst = max(worst, float(np.nanmax(loss, initial=0.0)))
        return worst

    def consistent(self, known: Any) -> None:
        """Check that the numbers of a certificate agree with each other."""
        tol, wrong = self.tolerance, self.result.errors
        numbers = (known.upper, known.lower, known.gap)
        if not all(np.isfinite(numbers)):
            wrong.append(f"not finite: {numbers}")
        if known.delta != self.result.delta:
            wrong.append(f"delta {known.delta} for {self.result.delta}")
        if known.epsilon is not None:
            if known.certified != (known.gap <= known.epsilon and not known.refuted):
                wrong.append(f"certified {known.certified} with gap {known.gap:g}")
            if abs(known.epsilon - self.epsilon) > 1e-9:
                wrong.append(f"epsilon {known.epsilon} for {self.epsilon}")
        if not known.refuted and (known.gap < -tol or known.gap > known.upper - known.lower + tol):
            wrong.append(f"gap {known.gap:g} with bounds {known.lower:g} and {known.upper:g}")
        was = known.behavior
        if was is not None and abs(known.improvement - (known.lower - was.upper)) > tol:
            wrong.append(f"improvement {known.improvement:g}")

    def same(self, where: str, known: Any, shown: Mapping[str, Any], *names: str) -> None:
        """Check that numbers shown elsewhere are those of the certificate."""
        for name in names:
            mine, theirs = getattr(known, name), shown.get(name)
            if isinstance(mine, float) and isinstance(theirs, int | float):
                equal = abs(mine - theirs) <= self.tolerance
            else:
                equal = mine == theirs
            if not equal:
                self.result.errors.append(f"{where} says {name} {theirs!r}, not {mine!r}")


def policy_table(
    model: Model, states: Sequence[int | None], actions: Sequence[int], array: Any
) -> list[list[int]]:
    """(H, S) actions of the model.

    Args:
        model: the model.
        states: the state of the model for each column of the array; None: none.
        actions: the action of the model for each number in the array.
        array: (H, columns).

    States without a column take the first action they have, as every certificate assumes.

    """
    table = [[_first(model, s, actions) for s in range(model.states)] for _ in range(model.horizon)]
    for t, line in enumerate(np.asarray(array).tolist()):
        for s, a in zip(states, line, strict=False):
            if s is not None and s not in model.terminal:
                table[t][s] = actions[a]
    return table


def _first(model: Model, s: int, actions: Sequence[int]) -> int:
    return next((a for a in actions if model.available[s, a]), 0)


def policy_by_asking(model: Model, act: Callable[[int, int], int]) -> list[list[int]]:
    """(H, S) actions of the model, from a policy that says what it does in a state."""
    return [
        [act(t, s) if s not in model.terminal else 0 for s in range(model.states)]
        for t in range(model.horizon)
    ]
