"""Fairness of bets, by all sequences of a few draws, against an adversary that chooses contexts.

Before each draw the adversary, who knows the history, chooses the row and the context, and may
stop. Nature then draws. E at the stop must have a mean of at most 1 for every adversary. With the
likelihood of the true probabilities in the place of the largest one, E is M, a martingale: its
mean is 1 whatever is chosen, and E is never more. The two together are what is to be shown, and
no slack hides a wrong bet.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.audited import UNKNOWN, Draw, Rules, rows_of

Floats = NDArray[np.float64]
Chosen = tuple[Any, Any]
"""A row and a context."""


@dataclass
class Game:
    """Draws of labels 0, 1, ... with probabilities p[row], up to a depth.

    Attributes:
        test: the test.
        depth: how many draws.
        options: rows and contexts to choose from.
        p: by row, the probabilities of its labels, as many in each row.

    """

    test: str
    depth: int
    options: Sequence[Chosen]
    p: dict[Any, Sequence[float]]

    def drawn(self, played: Sequence[tuple[Chosen, int]]) -> list[tuple[Any, Draw]]:
        """Return the draws as a rule sees them; labels of different rows differ."""
        return [(row, Draw((row, x), {self.test: z})) for (row, z), x in played]

    def chances(self, chosen: Chosen) -> Sequence[float]:
        return self.p[chosen[0]]

    def label_chances(self, played: Sequence[tuple[Chosen, int]]) -> dict[Any, float]:
        """The probabilities of labels as a rule names them."""
        del played
        return {(row, x): p for row, law in self.p.items() for x, p in enumerate(law)}


@dataclass
class Fairness:
    """Largest and smallest means of M at the end; the largest mean of E at a stop.

    Attributes:
        least, largest: the means of M.
        stopped: the largest mean of E, if nobody may stop before two draws; it begins with 1.
        above: by how much E is larger than M, at most.

    """

    least: float
    largest: float
    stopped: float
    above: float

    @property
    def fair(self) -> bool:
        rounded = 1e-9
        return (
            abs(self.least - 1) < rounded
            and abs(self.largest - 1) < rounded
            and self.stopped < 1 + rounded
            and self.above < rounded
        )


def fairness(rules: Rules, game: Game) -> Fairness:
    """Play all that can happen."""
    turns = list(product(game.options, range(len(game.chances(game.options[0])))))
    chance = np.array([game.chances(z) for z in game.options])  # (options, labels)
    e, m = _nodes(rules, game, turns)
    above = max(float((x - y).max()) for x, y in zip(e, m, strict=True))
    return Fairness(
        least=_value(m, chance, np.min, game.depth),
        largest=_value(m, chance, np.max, game.depth),
        stopped=_value(e, chance, np.max, 2),
        above=above,
    )


def _nodes(rules: Rules, game: Game, turns: list[Any]) -> tuple[list[Floats], list[Floats]]:
    """E and M after 0, 1, ... draws, of all that can have happened."""
    e, m = [], []
    for d in range(game.depth + 1):
        both = []
        for played in product(turns, repeat=d):
            rows = rows_of(game.drawn(played))
            true = replace(rules, p=game.label_chances(played))
            both.append((exp(rules.ln_e(rows, game.test)), exp(true.ln_e(rows, game.test))))
        e.append(np.array(both)[:, 0])
        m.append(np.array(both)[:, 1])
    return e, m


def _value(
    nodes: list[Floats], chance: Floats, choose: Callable[..., Any], not_before: int
) -> float:
    """Return the mean for an adversary that chooses, and may stop after so many draws."""
    value = nodes[-1]
    for d in reversed(range(len(nodes) - 1)):
        value = choose((value.reshape(-1, *chance.shape) * chance).sum(-1), axis=1)
        if d >= not_before:
            value = np.maximum(value, nodes[d])
    return float(value[0])


# ---------------------------------------------------------------------------- draws that are lost


class Hidden(str):
    """A lost label, which only nature knows."""

    came: Hashable

    def __new__(cls, came: Hashable) -> Hidden:
        out = super().__new__(cls, UNKNOWN)
        out.came = came
        return out


@dataclass(frozen=True)
class KnowsAll(Rules):
    """The likelihood is that of what came, known or not, by the true probabilities."""

    def ln_most(self, draws: Sequence[Draw], label: Hashable) -> float:
        assert self.p is not None
        first = [x.label for x in draws].index(label)
        came = [x.label.came if isinstance(x.label, Hidden) else x.label for x in draws]
        return sum(
            log(self.p[label] if x == label else 1 - self.p[label]) for x in came[first + 1 :]
        )


def hiding(game: Game, **rules: Any) -> tuple[float, float]:
    """The largest means of E and of M for an adversary that may also hide draws by their labels.

    M has the smaller prediction wherever a draw is hidden, over the likelihood of what came. E has
    to be at most M, and M a supermartingale: so neither mean may be more than 1.
    """
    usual, knows = Rules(**rules), KnowsAll(**rules, p=game.label_chances(()))
    above = 0.0

    def play(drawn: list[tuple[Any, Draw]]) -> tuple[float, float]:
        nonlocal above
        rows = rows_of(drawn)
        e, m = (exp(x.ln_e(rows, game.test)) for x in (usual, knows))
        above = max(above, e - m)
        if len(drawn) == game.depth:
            return e, m
        best = [(e, m)]
        for row, z in game.options:
            means = np.zeros(2)
            for x, p in enumerate(game.p[row]):
                shown, hidden = (
                    play([*drawn, (row, Draw(label, {game.test: z}))])
                    for label in ((row, x), Hidden((row, x)))
                )
                means += np.multiply(p, np.maximum(shown, hidden))
            best.append((means[0], means[1]))
        return max(x for x, _ in best), max(y for _, y in best)

    found = play([])
    assert above < 1e-9
    return found
