"""Experience and scores of an open world, counted in dictionaries, one step after the other."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from ucfh.sparse_counts import END, LOST, SHIFT, SparseCounts, Steps

Step = tuple[int, int, int, float, int]
"""t, s, a, r and s'; s' is `LOST` if it is not known, and r nan."""


class SlowExperience:
    """What `SparseCounts` counts; all by (segment, s, a) and, of entries, s' behind it."""

    def __init__(self, segments: list[int]) -> None:
        self.segments = segments
        self.paid: dict[tuple[int, int, int, int], list[float]] = {}
        self.visits: Counter[tuple[int, int, int]] = Counter()
        self.last_new: dict[tuple[int, int, int], int] = {}
        self.lost: dict[tuple[int, int, int], list[float]] = {}  # what was paid
        self.last_lost: dict[tuple[int, int, int], int] = {}
        self.place: dict[tuple[int, int], int] = {}
        self.reached: set[tuple[int, int]] = set()
        self.started: Counter[int] = Counter()
        self.started_new = 0

    def segment(self, t: int) -> int:
        return sum(t >= first for first in self.segments)

    def begin(self, s: int) -> None:
        self.started[s] += 1
        if self.started[s] == 1:
            self.started_new = self.started.total()

    def step(self, t: int, s: int, a: int, r: float, after: int) -> None:
        row = self.segment(t), s, a
        if (s, row[0]) not in self.place:
            self.place[s, row[0]] = len(self.place) + 1
        self.reached.add((s, t))
        if after == LOST:
            self.lost.setdefault(row, []).append(r)
            self.last_lost[row] = self.visits[row]
            return
        self.visits[row] += 1
        if (*row, after) not in self.paid:
            self.paid[*row, after] = []
            self.last_new[row] = self.visits[row]
        self.paid[*row, after].append(r)


def assert_same(data: SparseCounts, slow: SlowExperience) -> None:
    """All arrays of an `SparseCounts` are as counted slowly; sums up to rounding."""
    entries = {}
    for i, key in enumerate(data.key.tolist()):
        segment, s, a = data.pair_of(key >> SHIFT)
        amounts = (data.c[i], data.paid[i], data.least[i], data.most[i])
        entries[segment, s + 1, a, key & (2**SHIFT - 1)] = tuple(float(x) for x in amounts)
    expected = {
        entry: (len(paid), sum(paid), min(paid), max(paid)) for entry, paid in slow.paid.items()
    }
    assert entries.keys() == expected.keys()
    for entry, (c, paid, least, most) in entries.items():
        assert (c, least, most) == (expected[entry][0], *expected[entry][2:])
        assert abs(paid - expected[entry][1]) <= 1e-12 * c
    assert (np.diff(data.key) > 0).all()
    for row in range(len(data.visits)):
        segment, s, a = data.pair_of(row)
        assert data.visits[row] == slow.visits[segment, s + 1, a]
        assert data.last_new[row] == slow.last_new.get((segment, s + 1, a), 0)
        assert data.last_lost[row] == slow.last_lost.get((segment, s + 1, a), 0)
        lost = slow.lost.get((segment, s + 1, a), [])
        known = [r for r in lost if not math.isnan(r)]
        assert (data.lost[row], data.lost_unpaid[row]) == (len(lost), len(lost) - len(known))
        assert (data.lost_least[row], data.lost_most[row]) == (min([1, *known]), max([0, *known]))
        assert abs(data.lost_paid[row] - sum(known)) <= 1e-12 * len(known)
    assert data.visits.sum() == slow.visits.total()
    assert data.lost.sum() == sum(len(lost) for lost in slow.lost.values())
    places = data.place.reshape(-1, data.P)
    assert {(s, p): places[s, p] for s, p in np.argwhere(places).tolist()} == slow.place
    assert data.found == len(slow.place)
    assert set(map(tuple, np.argwhere(data.reached).tolist())) == slow.reached
    assert dict(enumerate(data.started.tolist())) == {
        s: slow.started[s] for s in range(data.states)
    }
    assert (data.started_new, data.episodes) == (slow.started_new, slow.started.total())


def slow_scores(
    episodes: list[list[Step]], data: SparseCounts, watch: Any, after_end: float
) -> list[float]:
    """The score of each episode: its reward while it takes the watched rows, then what is left.

    From where it leaves them, the leaving value counts; after the end, what is paid there; in a
    state that is newer than the watch, the first action is the watched one, and leaving it counts
    as nothing. What was paid counts as nothing if that is not known.
    """
    known, out = watch.rows.shape[1], []
    for episode in episodes:
        score = 0.0
        for t, s, a, r, after in episode:
            row = _row(data, t, s, a)
            first = int(np.flatnonzero(data.available(s))[0])
            wanted = watch.rows[t, s] if s < known else _row(data, t, s, first)
            if row != wanted:
                score += watch.leaving[t, s] if s < known else 0.0
                break
            score += 0.0 if math.isnan(r) else r
            if after == END:
                score += after_end * (data.horizon - t - 1)
        out.append(float(score))
    return out


def _row(data: SparseCounts, t: int, s: int, a: int) -> int:
    """The row of a step, counted from the first state on."""
    before = sum(int(data.available(x).sum()) for x in range(s))
    pair = before + int(data.available(s)[:a].sum())
    return pair * data.P + int(data.segment[t])


def steps_of(rows: list[Step], starts: list[int]) -> Steps:
    """Steps in arrays, and where episodes began."""
    t, s, a, r, after = (list(x) for x in zip(*rows, strict=True)) if rows else ([],) * 5
    ints = [np.array(x, np.int64) for x in (t, s, a, after, starts)]
    return Steps(ints[0], ints[1], ints[2], np.array(r, float), ints[3], ints[4])
