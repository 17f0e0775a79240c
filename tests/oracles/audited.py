"""The audit, slowly: each E computed anew from the list of all draws, as its formulas are written.

`Rules` are the formulas for the draws of rows; tests break them one by one. `SlowAudit` makes draws
of the steps of a log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from statistics import quantiles
from typing import Any, NamedTuple

import numpy as np

from ucfh.auditing.e_process import Audit
from ucfh.auditing.steps import AuditSteps

KINDS = ("follows", "pays", "starts", "loses")
TESTS = ("action", "state", "reward", "step", "detail", "pair", "drift")
"""Both in the order of the arrays of `ucfh.auditing.e_process.Audit`."""
ROUNDED = 1e-9
UNKNOWN = "nobody knows"
"""The label of a draw of which it is not known what came."""


class Draw(NamedTuple):
    """What came, and by test in which context."""

    label: Hashable
    z: dict[str, Hashable]


GIVEN_UP = [Draw(UNKNOWN, {})]
"""In the place of the draws of a row of which nothing is said any more."""


@dataclass(frozen=True)
class Rules:
    """E of draws, by the formulas of `ucfh.auditing.e_process` and `ucfh._kernels.audits`.

    Attributes:
        p: the probabilities of labels, if their likelihood is to stand for the largest one: then E
            is a martingale.

    """

    most_labels: int = 8
    strengths: Sequence[float] = (2.0, 32.0)
    lengths: Sequence[int] = tuple(2**k for k in range(3, 12))
    pull: float = 4.0
    often: int = 2**14
    every: int = 8
    p: dict[Hashable, float] | None = None

    def looked_at(self, draws: Sequence[Draw]) -> list[Draw]:
        """Of a row that is visited often, some."""
        return [x for v, x in enumerate(draws, 1) if v <= self.often or v % self.every == 0]

    def ln_by_context(self, draws: Sequence[Draw], label: Hashable, test: str, a: float) -> float:
        """ln of the predictions from the label's first draw on, for one strength of the pull."""
        n = c = 0
        n_z: Counter[Hashable] = Counter()
        c_z: Counter[Hashable] = Counter()
        total = 0.0
        for x, contexts in draws:
            z = contexts[test]
            if c > 0:
                p = (c_z[z] + a * (c - 0.5) / n) / (n_z[z] + a)
                total += log(_predicted(p, x, label))
            if x == UNKNOWN:
                continue
            n, n_z[z] = n + 1, n_z[z] + 1
            c, c_z[z] = c + (x == label), c_z[z] + (x == label)
        return total

    def ln_by_blocks(self, draws: Sequence[Draw], label: Hashable, length: int) -> float:
        """The same, for blocks of one length."""
        total = 0.0
        n = c = in_block = 0
        for x, _ in draws:
            if n % length == 0:
                in_block = 0
            if c > 0:
                p = (in_block + self.pull * (c - 0.5) / n) / (n % length + self.pull)
                total += log(_predicted(p, x, label))
            n += x != UNKNOWN
            c, in_block = c + (x == label), in_block + (x == label)
        return total

    def ln_most(self, draws: Sequence[Draw], label: Hashable) -> float:
        """ln of the largest likelihood of one probability, for the draws after the first."""
        came = [x.label for x in draws]
        later = came[came.index(label) + 1 :]
        n, c, unknown = len(later), later.count(label), later.count(UNKNOWN)
        if self.p is not None:
            return c * log(self.p[label]) + (n - c) * log(1 - self.p[label])
        # whichever of the unknown ones were the label
        likelihoods = [
            sum(k * log(k / n) for k in (x, n - x) if k > 0) for x in range(c, c + unknown + 1)
        ]
        return max(likelihoods)

    def e_of_label(self, draws: Sequence[Draw], label: Hashable, test: str) -> float:
        most = self.ln_most(draws, label)
        if test == "drift":
            ln = [self.ln_by_blocks(draws, label, length) for length in self.lengths]
        else:
            ln = [self.ln_by_context(draws, label, test, a) for a in self.strengths]
        return sum(exp(x - most) for x in ln) / len(ln)

    def e_of_row(self, draws: Sequence[Draw], test: str) -> float:
        """The mean over labels in the order in which they came, the d-th by 1/(d(d+1))."""
        if draws == GIVEN_UP:
            return 0.0
        looked = self.looked_at(draws)
        every = dict.fromkeys(x.label for x in looked if x.label != UNKNOWN)
        labels = list(every)[: self.most_labels]
        weights = [1 / (d * (d + 1)) for d in range(1, len(labels) + 1)]
        bets = [w * self.e_of_label(looked, x, test) for w, x in zip(weights, labels, strict=True)]
        return 1 - sum(weights) + sum(bets)

    def ln_e(self, rows: dict[Any, list[Draw]], test: str) -> float:
        """The product over rows, which are in the order of their second visits."""
        total = 0.0
        for k, draws in enumerate(rows.values(), 1):
            w = 1 / (k + 1)
            total += log(1 - w + w * self.e_of_row(draws, test))
        return total


def _predicted(p: float, came: Hashable, label: Hashable) -> float:
    """The probability that was predicted of what came, if that of the label is p."""
    if came == UNKNOWN:
        return min(p, 1 - p)
    return p if came == label else 1 - p


def rows_of(drawn: Sequence[tuple[Any, Draw]]) -> dict[Any, list[Draw]]:
    """Draws by row, of those that were drawn from twice, in the order in which they were."""
    seen: dict[Any, list[Draw]] = {}
    twice: dict[Any, list[Draw]] = {}
    for row, draw in drawn:
        seen.setdefault(row, []).append(draw)
        if len(seen[row]) == 2 or seen[row] == GIVEN_UP:
            twice[row] = seen[row]
    return twice


@dataclass
class SlowCodes:
    """Rewards as labels: the first values as they are, and later ones by eighths of those."""

    most_values: int = 32
    parts: int = 8
    values: list[float] = field(default_factory=list)

    def of(self, reward: float) -> Hashable:
        """The label, None if there is none."""
        if reward != reward:
            return None
        if reward not in self.values:
            if len(self.values) == self.most_values:
                limits = quantiles(self.values, n=self.parts, method="inclusive")
                return "interval", sum(x <= reward for x in set(limits))
            self.values.append(reward)
        return "value", reward


class SlowAudit:
    """The draws of the steps of a log, of each kind, and the evidence in them."""

    def __init__(
        self,
        segments: Sequence[int] | bool = (),
        rewards: bool = True,
        details: bool = False,
        losses: bool = True,
        rules: Rules | None = None,
    ) -> None:
        self.segments, self.rules = segments, rules or Rules()
        follows = ["action", "state", "drift"] + ["reward"] * rewards + ["detail"] * details
        follows += ["step"] * (segments is not True)
        self.tests = {
            "follows": follows,
            "pays": follows if rewards else [],
            "starts": ["drift"],
            "loses": ["step", "pair", "drift"] if losses else [],
        }
        self.drawn: dict[str, list[tuple[Any, Draw]]] = {kind: [] for kind in KINDS}
        self.given_up: set[tuple[int, int, int]] = set()
        self.codes = SlowCodes()
        self.before: tuple[Any, Any, Any] = (None, None, None)

    def add(self, steps: AuditSteps) -> None:
        columns = (steps.new, steps.t, steps.state, steps.action, steps.following, steps.reward,
                   steps.lost, steps.detail)  # fmt: skip
        for step in zip(*(x.tolist() for x in columns), strict=True):
            self._step(*step)

    def _step(
        self, new: bool, t: int, s: int, a: int, after: int, r: float, lost: int, detail: int
    ) -> None:
        reward = self.codes.of(r) if self.tests["pays"] else None
        if new:
            self.before = (None, None, None)
            self.drawn["starts"].append(((), Draw(s, {})))
        z: dict[str, Hashable] = dict(zip(TESTS, self.before, strict=False))
        z |= {"step": t, "detail": detail, "pair": (s, a)}
        self.before = a, s, reward
        if lost >= 0:
            self.drawn["loses"].append(((), Draw(lost > 0, z)))
        segment = t if self.segments is True else sum(t >= first for first in self.segments or ())
        if after < 0 or lost > 0:
            if lost <= 0 or not self.tests["loses"]:
                self.drawn["follows"].append(((segment, s, a), Draw(UNKNOWN, z)))
                if (segment, s, a) not in self.given_up:
                    self.given_up.add((segment, s, a))
                    self.drawn["pays"].append(((segment, s, a), GIVEN_UP[0]))
            return
        self.drawn["follows"].append(((segment, s, a), Draw(after, z)))
        if reward is not None:
            self.drawn["pays"].append(((segment, s, a, after), Draw(reward, z)))

    def ln_e(self, kind: str, test: str) -> float:
        """The evidence of one test now; 0 if it is not made."""
        if test not in self.tests[kind]:
            return 0.0
        rows = rows_of(self.drawn[kind])
        if kind == "pays":
            rows = {x: GIVEN_UP if x[:3] in self.given_up else rows[x] for x in rows}
        rules = self.rules
        if kind in ("starts", "loses"):  # all of them are looked at
            rules = replace(rules, often=len(self.drawn[kind]))
        return rules.ln_e(rows, test)


def part(log: AuditSteps, begin: int, end: int) -> AuditSteps:
    return AuditSteps(*(x[begin:end] for x in vars(log).values()))


def evidence_now(audit: Audit) -> dict[tuple[str, str], float]:
    """ln E of all tests now, where an audit keeps the largest so far."""
    audit.evidence[:] = -np.inf
    audit.update_evidence()
    return {
        (kind, test): float(audit.evidence[i, j])
        for i, kind in enumerate(KINDS)
        for j, test in enumerate(TESTS)
    }


def assert_same(log: AuditSteps, cuts: list[int], **given: Any) -> None:
    """The audit of a log that is cut at some steps says the same as the slow one, all tests."""
    audit, slow = Audit(**given), SlowAudit(**given)
    slow.add(log)
    for begin, end in zip([0, *cuts], [*cuts, len(log.t)], strict=True):
        audit.add(part(log, begin, end))
    assert (audit.steps, audit.episodes) == (len(log.t), log.new.sum())
    for (kind, test), ln in evidence_now(audit).items():
        assert audit.tests[KINDS.index(kind), TESTS.index(test)] == (test in slow.tests[kind])
        assert abs(ln - slow.ln_e(kind, test)) < ROUNDED, (kind, test)
