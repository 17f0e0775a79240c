"""Graph of a phase: the relevant rows that an episode under a fixed policy may visit.

*Live* rows are those whose count can still end the phase. Only episodes that *meet* a live row
matter; the others change nothing but the number of episodes. With the policy fixed, let

    u_t(s) = P(some live row is visited at or after t | s_t = s)

which is 1 where the row taken is live and sum p u_{t+1} elsewhere. An episode conditioned on
meeting one is again a Markov chain (an h-transform): until the first live visit it moves by
p(s') u_{t+1}(s')/u_t(s), after it by p. h = u at the start is the share of episodes that meet.

The graph has a node for the start and for each (t, s) that can be reached and from which a live
row can be reached (or is taken); numbers rise along every edge, so one pass in order follows all
episodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.types import Layout

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Paths(NamedTuple):
    """Graph of a phase.

    Node i has row[i], which is live if live[i], and the edges ptr[i] : ptr[i + 1]. row, live
    (nodes,), ptr (nodes+1,). entry (edges,): the entry in nature's table; to (edges,): the next
    node, or -1, which leaves the graph; met, unmet (edges,): probabilities after and before
    meeting.
    """

    row: Ints
    live: Bools
    ptr: Ints
    entry: Ints
    to: Ints
    met: Floats
    unmet: Floats


class Meeting(NamedTuple):
    """u (H+1, S), and the shares of episodes that meet a live row (h) and that do not (rest)."""

    u: Floats
    h: float
    rest: float


class Visits(NamedTuple):
    """Visits of each row: expected and most (rows,) in an episode that meets a live one.

    shares (2,): of the episodes that meet one, and that do not. All are zero on entry.
    """

    expected: Floats
    most: Floats
    shares: Floats


@njit()
def _meeting(layout: Layout, p: Floats, rows: Ints, is_live: Bools) -> Meeting:
    """Return the probabilities of meeting a live row: p (entries,), rows (H, S), is_live (rows,).

    Both shares are sums of positive terms, so each is accurate even where it is tiny.
    """
    indptr, indices = layout.indptr, layout.indices
    H, S = rows.shape
    u = np.zeros((H + 1, S))
    avoid = np.zeros((H + 1, S))
    avoid[H] = 1.0
    for t in range(H - 1, -1, -1):
        for s in range(S):
            row = rows[t, s]
            if is_live[row]:
                u[t, s] = 1.0
                continue
            for e in range(indptr[row], indptr[row + 1]):
                u[t, s] += p[e] * u[t + 1, indices[e]]
                avoid[t, s] += p[e] * avoid[t + 1, indices[e]]
    if is_live[-1]:
        return Meeting(u, 1.0, 0.0)
    h, rest = 0.0, 0.0
    for e in range(indptr[-2], indptr[-1]):
        h += p[e] * u[0, indices[e]]
        rest += p[e] * avoid[0, indices[e]]
    return Meeting(u, h, rest)


@njit()
def _build(layout: Layout, p: Floats, rows: Ints, is_live: Bools, meets: Meeting) -> Paths:
    """Return the graph of a phase, given the result of `_meeting`."""
    indptr, indices, u = layout.indptr, layout.indices, meets.u
    H, S = rows.shape
    start = len(indptr) - 2
    most_edges = indptr[start + 1] - indptr[start]
    for t in range(H):
        for s in range(S):
            if u[t, s] > 0.0:
                most_edges += indptr[rows[t, s] + 1] - indptr[rows[t, s]]
    row = np.empty(1 + H * S, np.int64)
    live = np.empty(1 + H * S, np.bool_)
    ptr = np.empty(2 + H * S, np.int64)
    entry = np.empty(most_edges, np.int64)
    to = np.empty(most_edges, np.int64)
    met = np.empty(most_edges)
    unmet = np.empty(most_edges)

    here = np.empty(S, np.int64)  # the node of each state at the next step
    state = np.empty(1 + H * S, np.int64)
    row[0], live[0], ptr[0], state[0] = start, is_live[start], 0, -1
    node, nodes, edges = 0, 1, 0
    for t in range(-1, H):
        here[:] = -1
        layer = nodes
        while node < layer:
            i = row[node]
            own = meets.h if t < 0 else u[t, state[node]]
            for e in range(indptr[i], indptr[i + 1]):
                if p[e] <= 0.0:
                    continue
                s = indices[e]
                ahead = u[t + 1, s]
                if ahead > 0.0 and here[s] < 0:
                    here[s] = nodes
                    row[nodes], state[nodes] = rows[t + 1, s], s
                    live[nodes] = is_live[row[nodes]]
                    nodes += 1
                entry[edges], to[edges], met[edges] = e, here[s], p[e]
                unmet[edges] = p[e] * ahead / own
                edges += 1
            node += 1
            ptr[node] = edges
    return Paths(
        row=row[:nodes].copy(),
        live=live[:nodes].copy(),
        ptr=ptr[: nodes + 1].copy(),
        entry=entry[:edges].copy(),
        to=to[:edges].copy(),
        met=met[:edges].copy(),
        unmet=unmet[:edges].copy(),
    )


@njit()
def _expect(paths: Paths, out: Visits) -> None:
    """Sum the expected and the maximal visits of each live row."""
    row, live, ptr, to = paths.row, paths.live, paths.ptr, paths.to
    met, unmet, expected, most = paths.met, paths.unmet, out.expected, out.most
    nodes = len(row)
    before, after = np.zeros(nodes), np.zeros(nodes)
    before[0] = 1.0
    for i in range(nodes):
        if live[i]:
            after[i] += before[i]
            before[i] = 0.0
            expected[row[i]] += after[i]
            most[row[i]] += 1.0
        for e in range(ptr[i], ptr[i + 1]):
            if to[e] >= 0:
                before[to[e]] += before[i] * unmet[e]
                after[to[e]] += after[i] * met[e]


@njit()
def build_graph(
    layout: Layout, p: Floats, rows: Ints, is_live: Bools, least: float, out: Visits
) -> Paths:
    """Return the graph of the phase with policy rows (H, S); p (entries,), is_live (rows,).

    If a share of less than ``least`` of all episodes meets a live row, the graph is empty,
    and of the visits only the shares are filled.
    """
    meets = _meeting(layout, p, rows, is_live)
    out.shares[0], out.shares[1] = meets.h, meets.rest
    if meets.h < least:
        none, never, zero = np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0)
        return Paths(none, never, none, none, none, zero, zero)
    paths = _build(layout, p, rows, is_live, meets)
    _expect(paths, out)
    return paths


@njit()
def reaches(row: Ints, live: Bools, flow: Ints, visits: Ints, limit: Ints) -> bool:
    """Return whether a limit (rows,) is reached if flow (nodes,) is added to visits (rows,)."""
    total = np.empty(visits.size, np.int64)
    for i in range(visits.size):
        total[i] = visits[i]
    for i in range(len(row)):
        if live[i]:
            total[row[i]] += flow[i]
            if flow[i] > 0 and total[row[i]] >= limit[row[i]]:
                return True
    return False


@njit()
def tally(
    paths: Paths,
    flow: Ints,
    edge_flow: Ints,
    position: Ints,
    limit: Ints,
    drop_surplus: bool,
    visits: Ints,
    successors: Ints,
) -> bool:
    """Count flows through live nodes in visits (rows,) and successors (the agent's entries,).

    position (entries,): the place of the environment's entries in the agent's table.
    flow (nodes,), edge_flow (edges,): episodes that have met a live row. Returns whether a limit
    (rows,) is reached. Surplus is dropped in the order of time, which is exact for a single
    episode.
    """
    row, live, ptr, entry = paths.row, paths.live, paths.ptr, paths.entry
    reached = False
    for i in range(len(row)):
        if not live[i] or flow[i] == 0:
            continue
        r = row[i]
        if not (drop_surplus and visits[r] >= limit[r]):
            visits[r] += flow[i]
            for e in range(ptr[i], ptr[i + 1]):
                successors[position[entry[e]]] += edge_flow[e]
        if visits[r] >= limit[r]:
            reached = True
    return reached


@njit()
def walk_graph(
    rng: np.random.Generator,
    episodes: int,
    paths: Paths,
    position: Ints,
    limit: Ints,
    drop_surplus: bool,
    visits: Ints,
    successors: Ints,
) -> tuple[int, bool]:
    """Walk up to ``episodes`` episodes that meet a live row, until one reaches a limit (rows,).

    Counts as `tally`. Returns the number of episodes, and whether a limit was reached.
    """
    row, live, ptr, entry, to = paths.row, paths.live, paths.ptr, paths.entry, paths.to
    met, unmet = paths.met, paths.unmet
    for episode in range(episodes):
        reached = False
        i, has_met = 0, False
        while i >= 0:
            has_met = has_met or live[i]
            p = met if has_met else unmet
            u = rng.random()
            chosen = -1
            for e in range(ptr[i], ptr[i + 1]):
                if p[e] > 0.0:
                    chosen = e
                    u -= p[e]
                    if u < 0.0:
                        break
            if live[i]:
                r = row[i]
                if not (drop_surplus and visits[r] >= limit[r]):
                    visits[r] += 1
                    successors[position[entry[chosen]]] += 1
                if visits[r] >= limit[r]:
                    reached = True
            i = to[chosen]
        if reached:
            return episode + 1, True
    return episodes, False
