"""Checks of parameters and construction of transition tables, shared by the problems."""

from __future__ import annotations

from typing import Any

import numpy as np

from ucfh._utils.arrays import Floats, Ints
from ucfh.exceptions import InputError

MAX_ENTRIES = 10**8
"""Most transitions of a named problem; more would not fit into memory."""


def check_whole(name: str, value: int, low: int, high: int = 10**6) -> int:
    """Return ``value`` if it is an integer from ``low`` to ``high``; else raise."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | np.integer)
        or not (low <= value <= high)
    ):
        raise InputError(
            f"{name}={value} is out of range: {name} must be an integer from {low} to {high}"
        )
    return int(value)


def check_real(name: str, value: float, low: float, high: float) -> float:
    """Return ``value`` if it is a number from ``low`` to ``high``; else raise."""
    if not low <= value <= high:
        raise InputError(
            f"{name}={value} is out of range: {name} must be a number from {low:g} to {high:g}"
        )
    return float(value)


def check_room(entries: int, remedy: str, most: int = MAX_ENTRIES) -> None:
    """Raise an error with the remedy if a problem would have too many transitions."""
    if entries > most:
        raise InputError(
            f"the problem would have up to {entries} transitions, more than {most}: {remedy}"
        )


def compress(
    states: int, actions: int, *pieces: tuple[Any, Any, Any, Any]
) -> tuple[Ints, Ints, Floats]:
    """Build transitions (indptr, indices, p) over rows s*A + a, as `MDP` takes them.

    Each piece is (state, action, successor, probability), arrays that broadcast to one shape.
    Probabilities of equal transitions are added up; zeros leave no entry.

    Returns:
        indptr (S*A + 1,), indices (entries,), p (entries,).

    >>> compress(2, 1, ([0, 1], 0, 1, 0.5), ([0, 1], 0, [0, 1], 0.5))
    (array([0, 2, 3]), array([0, 1, 1]), array([0.5, 0.5, 1. ]))

    """
    flat = [[x.ravel() for x in np.broadcast_arrays(*piece)] for piece in pieces]
    s, a, following, p = (np.concatenate(parts) for parts in zip(*flat, strict=True))
    key = (s.astype(np.int64) * actions + a) * states + following
    keys, place = np.unique(key[p > 0], return_inverse=True)
    rows, indices = np.divmod(keys, states)
    indptr = np.searchsorted(rows, np.arange(states * actions + 1))
    total = np.bincount(place, weights=p[p > 0])
    return indptr.astype(np.int64), indices, total.astype(np.float64)
