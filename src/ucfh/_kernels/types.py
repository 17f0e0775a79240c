"""Arrays that belong together, as several kernels take them.

A kernel takes arrays in named groups, and gives arrays by name: it fills those of a group that it
is passed, or returns one. What may be missing is an argument of its own, or None: code for what is
not there is then left out where it is compiled, which a field of a group does not allow. Groups are
passed without references (`ucfh._kernels.lowering`): no kernel returns an array of one that it was
given.

Numba's cache knows a group by its class and the types of its fields, not by their names: were two
fields of one type exchanged, compiled code would go on to take one for the other. So a kernel
imports the classes of the groups that it takes, and what it was compiled to is thrown away when a
file that it imports from has changed (`ucfh._kernels.compiling`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]


class Layout(NamedTuple):
    """The rows of a table (`ucfh.transitions`).

    first (S+1,): the first row of each state within a stage. action (R,): the action of each row
    within a stage. indptr (rows+1,): where the entries of each row begin; the last row is the
    start. indices (entries,): successors. The row of (t, s, i) is t*stride + first[s] + i.
    """

    first: Ints
    action: Ints
    indptr: Ints
    indices: Index
    stride: int


class CountArrays(NamedTuple):
    """Counts: c (entries,) of successors, n (rows,) of visits."""

    c: Ints
    n: Ints


class PlanArrays(NamedTuple):
    """What planning fills: V (H+1, S), values, V[H] = 0 on entry, and policy (H, S), actions."""

    V: Floats
    policy: NDArray[Any]


class EnvironmentArrays(NamedTuple):
    """The world: its table, p (entries,) and running sums of it, mean rewards r (1 or H, R).

    The running sums are infinite from the last possible entry of a row on. position (entries,):
    where its entries stand in the learner's table.
    """

    indptr: Ints
    indices: Index
    cumulative: Floats
    p: Floats
    position: Ints
    r: Floats
    stride: int


class ProblemArrays(NamedTuple):
    """What a learner was told: its table, rewards and the start.

    r (1 or H, R) of pairs; extra (1 or H, entries) on the next state, (1, 0) if there are none.
    start (S,), or (0,) if it is unknown.
    """

    first: Ints
    indptr: Ints
    indices: Index
    stride: int
    r: Floats
    extra: Floats
    start: Floats


class RowPolicy(NamedTuple):
    """A policy that takes rows (H, S), and V (H+1, S), 0 at H, what it is hoped to earn."""

    V: Floats
    rows: Ints


class Record(NamedTuple):
    """Policies that were followed one after the other: (k,) each.

    The episode with which a policy began, counted from the first of the episodes that were asked
    for; what it earns, and what it promised.
    """

    first_episode: Ints
    value: Floats
    promised: Floats


class Progress(NamedTuple):
    """How many episodes were walked, and how many policies recorded."""

    episodes: int
    recorded: int
