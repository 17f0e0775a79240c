"""Borrowed arrays and atomic addition, called as kernels call them."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ucfh._kernels.intrinsics import add_at, borrow, hold


class Pair(NamedTuple):
    x: Any
    n: int


@njit
def scale(pair: Pair, y: Any) -> Any:
    (x, n), y = borrow((pair, y))
    for i in range(len(x)):
        x[i] *= n
        y[i] += x[i]
    return float(y.sum())


@njit
def own(n: int) -> Any:
    """Return the sum of an array that is made here, and used through a borrowed one."""
    made = np.ones(n), n
    x, _ = borrow(made)
    total = 0.0
    for i in range(n):
        other = np.zeros(n)  # would take the memory of ``made`` if that was free
        total += x[i] + other[i]
    hold(made)
    return total


@njit
def count(x: Any) -> Any:
    return add_at(x, 1, 5), add_at(x, 1, 0)


def test_borrowed_arrays_are_those_of_the_caller() -> None:
    x, y = np.arange(3.0), np.ones(3)
    references = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(10):
        scale(Pair(x, 1), y)
    assert (sys.getrefcount(x), sys.getrefcount(y)) == references
    assert y.tolist() == [1, 11, 21]
    assert scale(Pair(x, 2), y) == 33 + 6


def test_an_array_that_is_held_is_not_freed() -> None:
    for n in (1, 10, 1000):
        assert own(n) == n


def test_add_returns_the_old_element() -> None:
    x = np.array([1, 2])
    assert tuple(count(x)) == (2, 7)
    assert x.tolist() == [1, 7]
