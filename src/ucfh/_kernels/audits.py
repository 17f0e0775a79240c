"""Bets against the assumption that a row's outcomes are drawn alike, whatever the context.

A row is a source of draws, such as a state-action pair. Its outcomes are labels, numbered in the
order of their first draws; each of the first `MOST_LABELS` is bet on from the draw after its first.
(`ucfh.auditing.e_process` shows that the bets are fair.) Before a draw, with n earlier ones of the
row, c of them the label, and n_z and c_z of the same context z, the label is predicted with
probability

    (c_z + a q)/(n_z + a),    q = (c - 1/2)/n

for strengths a of the pull towards what holds in every context. The product of the predictions of
the outcome, the label or not, is kept for each label, context and strength. Blocks of 8, 16, ...,
2048 visits of a row are also contexts: these bets are against drift. An unknown outcome counts as
the one with the smaller predicted probability.
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FOLLOWS, PAYS, STARTS, LOSES = range(4)
"""Kinds of rows: next states, rewards given the next state, first states, losses."""
ACTION, STATE, REWARD, STEP, DETAIL, PAIR = range(6)
"""Contexts: the previous action, state and reward, the step, the detail of the state, the pair."""
PERIOD = 6
"""A context without bets: a quarter of the doubling in which the number of a visit lies."""
ROWS, LABELS, CONTEXTS = range(3)
"""Kinds of numbers: of rows, labels of a row, contexts of a row."""
MOST_LABELS = 8
"""Of a row, that are bet on."""
STRENGTHS = (2.0, 32.0)
"""Of the pull towards what holds in every context: two."""
OFTEN, EVERY = 2**14, 8
"""Of a row that was visited this often, only every eighth next state and reward is looked at."""
BLOCKS, FIRST_BLOCK, PULL = 9, 3, 4.0
"""Of blocks: their number, the power of two of the shortest, and the strength."""
TINY = 1e-200
"""Smaller products are kept as logarithms."""
UNKNOWN = -2
"""In the place of a next state: it is unknown."""
MOST_NEW = 64
"""More than can be new in one step, of anything."""


class Register(NamedTuple):
    """Hash table of numbers of keys (a, b): number (slots,), -1 where a slot is free.

    a (slots,): the kind of a key and its owner; b (slots,): its code. used (3,): how many keys
    there are of each kind; placed (4,): how many rows of each kind have a place (see `Bets`).
    """

    a: Ints
    b: Ints
    number: NDArray[np.int32]
    used: Ints
    placed: Ints


class Bets(NamedTuple):
    """Counts and products of R rows, L labels and K contexts of rows.

    kind, visits, n, place (R,): kind of the row, visits, known draws that were bet on, and its
    place among the rows of its kind with two visits; given_up (R,): a place among the rows of
    rewards, if an outcome of the row is unknown, so that its rewards are not checked. labels
    (R, 8): the labels that are bet on, -1 for none. owner, symbol, c, after (L,): the row of a
    label, its symbol, its count, and the draws of its row before its first one; unknown (L,):
    unknown draws since then. product, ln (L, 6, 2): products of the predictions by context and
    strength; the logarithm of the whole is ln + ln(product). blocks, ln_blocks (L, 9): products by
    length of blocks; recent (L, 9): counts in the current block. n_z, when (K,): draws in a
    context, and the episode of the first one. c_z (K, 8): counts of each label in a context.
    """

    kind: Ints
    visits: Ints
    n: Ints
    place: Ints
    given_up: Ints
    labels: NDArray[np.int32]
    owner: Ints
    symbol: Ints
    c: Ints
    after: Ints
    unknown: Ints
    product: Floats
    ln: Floats
    blocks: Floats
    ln_blocks: Floats
    recent: NDArray[np.int32]
    n_z: Ints
    when: Ints
    c_z: NDArray[np.int32]


class Draws(NamedTuple):
    """Draws of n steps: row, following, paid, lost, start (n,), episode (n,) and z (n, 6).

    No bet is made on a negative symbol, except `UNKNOWN`.
    """

    row: Ints
    following: Ints
    paid: Ints
    lost: Ints
    start: Ints
    episode: Ints
    z: Ints


@njit()
def _slot(x: Register, a: int, b: int) -> Any:
    """Return the slot of (a, b), or the free slot where it belongs."""
    mask = np.uint64(len(x.number) - 1)
    h = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(b) * np.uint64(0xC2B2AE3D27D4EB4F)
    h = (h ^ (h >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    at = (h ^ (h >> np.uint64(32))) & mask
    while x.number[at] >= 0 and (x.a[at] != a or x.b[at] != b):
        at = (at + np.uint64(1)) & mask
    return at


@njit()
def _number(x: Register, what: int, a: int, b: int) -> int:
    """Return the number of (a, b) among those of kind ``what``, a new one if (a, b) is new."""
    at = _slot(x, a, b)
    if x.number[at] < 0:
        x.a[at], x.b[at], x.number[at] = a, b, x.used[what]
        x.used[what] += 1
    return np.int64(x.number[at])  # type: ignore[return-value]


@njit()
def rehash(old: Register, new: Register) -> None:
    """Move all numbers to the slots of a larger register."""
    for i in range(len(old.number)):
        if old.number[i] >= 0:
            at = _slot(new, old.a[i], old.b[i])
            new.a[at], new.b[at], new.number[at] = old.a[i], old.b[i], old.number[i]


@njit()
def _in_context(k: Bets, row: int, label: int, test: int, here: int) -> None:
    """Bet on a draw by its context, and count it there."""
    n, n_z = 1.0 / max(k.n[row], 1), k.n_z[here]
    weak, strong = 1.0 / (n_z + STRENGTHS[0]), 1.0 / (n_z + STRENGTHS[1])
    for slot in range(MOST_LABELS):
        j = k.labels[row, slot]
        if j < 0:
            break
        if test < PERIOD and k.c[j] > 0:
            q, c_z = (k.c[j] - 0.5) * n, k.c_z[here, slot]
            p, r = (c_z + STRENGTHS[0] * q) * weak, (c_z + STRENGTHS[1] * q) * strong
            if label == UNKNOWN:
                p, r = min(p, 1.0 - p), min(r, 1.0 - r)
            elif j != label:
                p, r = 1.0 - p, 1.0 - r
            p *= k.product[j, test, 0]
            r *= k.product[j, test, 1]
            if min(p, r) < TINY:
                k.ln[j, test, 0] += log(p)
                k.ln[j, test, 1] += log(r)
                p = r = 1.0
            k.product[j, test, 0], k.product[j, test, 1] = p, r
        k.c_z[here, slot] += j == label
    k.n_z[here] += label != UNKNOWN


@njit()
def _in_blocks(k: Bets, row: int, label: int) -> None:
    """Bet on a draw by the blocks of visits that it is in, and count it there."""
    n = k.n[row]
    share = 1.0 / max(n, 1)
    for i in range(BLOCKS):
        before = n & ((1 << i + FIRST_BLOCK) - 1)
        weight = 1.0 / (before + PULL)
        for slot in range(MOST_LABELS):
            j = k.labels[row, slot]
            if j < 0:
                break
            if before == 0:
                k.recent[j, i] = 0
            if k.c[j] > 0:
                p = (k.recent[j, i] + PULL * (k.c[j] - 0.5) * share) * weight
                if label == UNKNOWN:
                    p = min(p, 1.0 - p)
                elif j != label:
                    p = 1.0 - p
                p *= k.blocks[j, i]
                if p < TINY:
                    k.ln_blocks[j, i] += log(p)
                    p = 1.0
                k.blocks[j, i] = p
            k.recent[j, i] += j == label


@njit()
def _bet(x: Register, k: Bets, row: int, label: int, z: Ints, on: Ints, episode: int) -> None:
    """Bet on a draw of a row, by all contexts, and count it there."""
    doubling, n = 0, k.n[row]
    while n + 1 >> doubling + 1:
        doubling += 1
    period = doubling << 2 | (((n + 1) << 2 >> doubling) & 3)
    for test in range(PERIOD + 1):
        if test == PERIOD or on[test]:
            which = period if test == PERIOD else z[test]
            here = _number(x, CONTEXTS, (row * 8 + test) * 4 + CONTEXTS, which)
            if k.n_z[here] == 0:
                k.when[here] = episode
            _in_context(k, row, label, test, here)
    _in_blocks(k, row, label)


@njit()
def _looks(x: Register, k: Bets, row: int, kind: int) -> bool:
    """Count a visit of a row; return whether its draw is used."""
    k.visits[row] += 1
    if k.visits[row] == 1:
        k.kind[row] = kind
    elif k.visits[row] == 2:
        x.placed[kind] += 1
        k.place[row] = x.placed[kind]
    return kind > PAYS or k.visits[row] <= OFTEN or k.visits[row] % EVERY == 0


@njit()
def _draw(
    x: Register, k: Bets, kind: int, code: int, symbol: int, z: Ints, on: Ints, episode: int
) -> int:
    """Bet on one draw, and count it; return the number of its label."""
    row = _number(x, ROWS, kind * 4 + ROWS, code)
    label = _number(x, LABELS, row * 4 + LABELS, symbol)
    if not _looks(x, k, row, kind):
        return label
    if k.c[label] == 0:
        k.owner[label], k.symbol[label], k.after[label] = row, symbol, k.n[row]
        for slot in range(MOST_LABELS):
            if k.labels[row, slot] < 0:
                k.labels[row, slot] = label
                break
    _bet(x, k, row, label, z, on, episode)
    k.n[row] += 1
    k.c[label] += 1
    return label


@njit()
def _miss(x: Register, k: Bets, code: int, z: Ints, on: Ints, episode: int) -> None:
    """Bet on an unknown next state."""
    row = _number(x, ROWS, FOLLOWS * 4 + ROWS, code)
    if k.given_up[row] == 0:  # no reward of this row is checked from now on
        x.placed[PAYS] += 1
        k.given_up[row] = x.placed[PAYS]
    if not _looks(x, k, row, FOLLOWS):
        return
    _bet(x, k, row, UNKNOWN, z, on, episode)
    for slot in range(MOST_LABELS):
        j = k.labels[row, slot]
        if j >= 0:
            k.unknown[j] += 1


@njit()
def bet(x: Register, k: Bets, draws: Draws, begin: int, on: Ints) -> int:
    """Bet on draws from the ``begin``-th on; return the first for which there is no room.

    on (4, 6): nonzero for the contexts that are bet on, by kind of row.
    """
    for i in range(begin, len(draws.row)):
        used = x.used[ROWS] + x.used[LABELS] + x.used[CONTEXTS]
        full = 2 * (used + MOST_NEW) > len(x.number)
        full |= x.used[ROWS] + MOST_NEW > len(k.n) or x.used[LABELS] + MOST_NEW > len(k.c)
        if full or x.used[CONTEXTS] + MOST_NEW > len(k.n_z):
            return i
        z, episode = draws.z[i], draws.episode[i]
        if draws.start[i] >= 0:
            _draw(x, k, STARTS, 0, draws.start[i], z, on[STARTS], episode)
        if draws.lost[i] >= 0:
            _draw(x, k, LOSES, 0, draws.lost[i], z, on[LOSES], episode)
        if draws.following[i] == UNKNOWN:
            _miss(x, k, draws.row[i], z, on[FOLLOWS], episode)
        if draws.following[i] >= 0:
            label = _draw(x, k, FOLLOWS, draws.row[i], draws.following[i], z, on[FOLLOWS], episode)
            if draws.paid[i] >= 0:
                _draw(x, k, PAYS, label, draws.paid[i], z, on[PAYS], episode)
    return len(draws.row)
