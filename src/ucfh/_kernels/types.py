"""Named tuples of arrays that kernels take and fill.

An argument that may be missing is not a field but an argument of its own, or None: numba then
leaves out the code for it.

Numba identifies a named tuple by its class and the types of its fields, not by their names. If two
fields of one type change places, compiled code must be discarded; see `ucfh._kernels._jit`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]


class Layout(NamedTuple):
    """Rows of a table (`ucfh.transitions`): one for each (t, s, a), and the start, which is the
    last.

    first (S+1,): the first row of each state within a segment. action (R,): the action of each row
    within a segment. indptr (rows+1,): the first entry of each row. indices (entries,): next
    states. The row of (t, s, i) is t*stride + first[s] + i.
    """

    first: Ints
    action: Ints
    indptr: Ints
    indices: Index
    stride: int


class CountArrays(NamedTuple):
    """Counts: c (entries,) of next states, n (rows,) of visits."""

    c: Ints
    n: Ints


class PlanArrays(NamedTuple):
    """Output of planning: V (H+1, S), values, V[H] = 0 on entry, and policy (H, S), actions."""

    V: Floats
    policy: NDArray[Any]


class EnvironmentArrays(NamedTuple):
    """Environment: its table, probabilities p (entries,) and mean rewards r (1 or H, R).

    cumulative (entries,): sums of p within each row, infinite from its last possible entry on.
    position (entries,): the place of each entry in the table of the agent.
    """

    indptr: Ints
    indices: Index
    cumulative: Floats
    p: Floats
    position: Ints
    r: Floats
    stride: int


class ProblemArrays(NamedTuple):
    """Known problem: its table, rewards and the start.

    r (1 or H, R): rewards of pairs. extra (1 or H, entries): rewards on the next state, (1, 0) if
    there are none. start (S,): probabilities, or (0,) if they are unknown.
    """

    first: Ints
    indptr: Ints
    indices: Index
    stride: int
    r: Floats
    extra: Floats
    start: Floats


class RowPolicy(NamedTuple):
    """Policy that takes rows (H, S), and its estimated values V (H+1, S), V[H] = 0."""

    V: Floats
    rows: Ints


class Record(NamedTuple):
    """Policies followed one after the other: (k,) each.

    first_episode: the first episode of each policy, counted from the first one of the call. value:
    its expected return. promised: its estimated return.
    """

    first_episode: Ints
    value: Floats
    promised: Floats


class Progress(NamedTuple):
    """Numbers of episodes simulated and of policies recorded."""

    episodes: int
    recorded: int
