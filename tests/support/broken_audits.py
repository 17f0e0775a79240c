"""Bets that are not fair: the rules of the audit, each with one mistake that is easily made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

from oracles.audited import Draw, Rules


@dataclass(frozen=True)
class CountsItself(Rules):
    """The present draw is counted before it is predicted."""

    def ln_by_context(self, draws: Sequence[Draw], label: Hashable, test: str, a: float) -> float:
        n = c = 0
        n_z: Counter[Hashable] = Counter()
        c_z: Counter[Hashable] = Counter()
        total = 0.0
        for x, contexts in draws:
            z = contexts[test]
            had = c > 0
            n, n_z[z] = n + 1, n_z[z] + 1
            c, c_z[z] = c + (x == label), c_z[z] + (x == label)
            if had:
                p = (c_z[z] + a * (c - 0.5) / n) / (n_z[z] + a)
                total += log(p if x == label else 1 - p)
        return total

    def ln_by_blocks(self, draws: Sequence[Draw], label: Hashable, length: int) -> float:
        total = 0.0
        c = in_block = 0
        for n, (x, _) in enumerate(draws):
            if n % length == 0:
                in_block = 0
            had = c > 0
            c, in_block = c + (x == label), in_block + (x == label)
            if had:
                p = (in_block + self.pull * (c - 0.5) / (n + 1)) / (n % length + 1 + self.pull)
                total += log(p if x == label else 1 - p)
        return total


@dataclass(frozen=True)
class RunningLikelihood(Rules):
    """Compared with the share so far at each draw, instead of the best probability for all."""

    def ln_most(self, draws: Sequence[Draw], label: Hashable) -> float:
        if self.p is not None:
            return super().ln_most(draws, label)
        total, c = 0.0, 0
        for n, (x, _) in enumerate(draws):
            if c > 0:
                q = (c - 0.5) / n
                total += log(q if x == label else 1 - q)
            c += x == label
        return total


@dataclass(frozen=True)
class FirstDrawToo(Rules):
    """The draw with which a label was chosen counts in the likelihood, but is not predicted."""

    def ln_most(self, draws: Sequence[Draw], label: Hashable) -> float:
        came = [x.label == label for x in draws]
        n, c = len(came) - came.index(True), sum(came)
        p = c / n if self.p is None else self.p[label]
        return c * log(p) + ((n - c) * log(1 - p) if n > c else 0.0)


@dataclass(frozen=True)
class SumOfLabels(Rules):
    """All labels have weight 1, so that several are paid for what one may stake."""

    def e_of_row(self, draws: Sequence[Draw], test: str) -> float:
        looked = self.looked_at(draws)
        labels = list(dict.fromkeys(x.label for x in looked))[: self.most_labels]
        return sum(self.e_of_label(looked, label, test) for label in labels)


@dataclass(frozen=True)
class BestLabel(Rules):
    """The best label counts, without a price for the choice."""

    def e_of_row(self, draws: Sequence[Draw], test: str) -> float:
        looked = self.looked_at(draws)
        labels = list(dict.fromkeys(x.label for x in looked))[: self.most_labels]
        return max(self.e_of_label(looked, label, test) for label in labels)


@dataclass(frozen=True)
class BestRow(Rules):
    """The best row counts, without a price for the choice."""

    def ln_e(self, rows: dict[Any, list[Draw]], test: str) -> float:
        return max((log(self.e_of_row(draws, test)) for draws in rows.values()), default=0.0)


@dataclass(frozen=True)
class BestStrength(Rules):
    """The best strength or length counts, without a price for the choice."""

    def e_of_label(self, draws: Sequence[Draw], label: Hashable, test: str) -> float:
        most = self.ln_most(draws, label)
        if test == "drift":
            return exp(max(self.ln_by_blocks(draws, label, x) for x in self.lengths) - most)
        return exp(max(self.ln_by_context(draws, label, test, a) for a in self.strengths) - most)


@dataclass(frozen=True)
class LooksAhead(Rules):
    """The context is what comes."""

    def ln_by_context(self, draws: Sequence[Draw], label: Hashable, test: str, a: float) -> float:
        ahead = [Draw(x.label, {test: x.label}) for x in draws]
        return super().ln_by_context(ahead, label, test, a)


@dataclass(frozen=True)
class WholeBlock(Rules):
    """The share in a block is that of all its draws, the later ones included."""

    def ln_by_blocks(self, draws: Sequence[Draw], label: Hashable, length: int) -> float:
        total, c = 0.0, 0
        for n, (x, _) in enumerate(draws):
            if c > 0:
                block = draws[n // length * length :][:length]
                share = sum(y.label == label for y in block)
                p = (share + self.pull * (c - 0.5) / n) / (len(block) + self.pull)
                total += log(p if x == label else 1 - p)
            c += x == label
        return total


@dataclass(frozen=True)
class FinalShare(Rules):
    """Blocks are pulled towards the share in all draws, the later ones included."""

    def ln_by_blocks(self, draws: Sequence[Draw], label: Hashable, length: int) -> float:
        total = 0.0
        c = in_block = 0
        share = sum(x.label == label for x in draws) / len(draws)
        for n, (x, _) in enumerate(draws):
            if n % length == 0:
                in_block = 0
            if c > 0 and 0 < share < 1:
                p = (in_block + self.pull * share) / (n % length + self.pull)
                total += log(p if x == label else 1 - p)
            c, in_block = c + (x == label), in_block + (x == label)
        return total


@dataclass(frozen=True)
class ThinsByOutcome(Rules):
    """Of a row that is visited often, the draws in which a context and a label agree are kept."""

    def looked_at(self, draws: Sequence[Draw]) -> list[Draw]:
        kept = draws[: self.often]
        labels = list(dict.fromkeys(x.label for x in kept))
        return [*kept, *(x for x in draws[self.often :] if self._agree(x, labels))]

    @staticmethod
    def _agree(x: Draw, labels: list[Hashable]) -> bool:
        z = next(iter(x.z.values()))
        return x.label in labels and labels.index(x.label) == z


BROKEN: tuple[type[Rules], ...] = (
    CountsItself, RunningLikelihood, FirstDrawToo, SumOfLabels, BestLabel, BestRow, BestStrength,
    LooksAhead, WholeBlock, FinalShare, ThinsByOutcome,
)  # fmt: skip
