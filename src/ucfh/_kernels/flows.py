"""Many episodes at once through the graph of a phase (`ucfh._kernels.phase_graph`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.phase_graph import Paths
from ucfh._kernels.sampling import multinomial, multivariate_hypergeometric

Ints = NDArray[np.int64]


class Flow(NamedTuple):
    """Numbers of episodes that pass: nodes (2, nodes), edges (2, edges).

    Line 0 counts those that have met no live row yet, line 1 those that have.
    """

    nodes: Ints
    edges: Ints


@njit()
def send(rng: np.random.Generator, n: int, paths: Paths, out: Flow) -> None:
    """Send n episodes through the graph."""
    live, ptr, to, p = paths.live, paths.ptr, paths.to, (paths.unmet, paths.met)
    node_flow, edge_flow = out.nodes, out.edges
    node_flow[:] = 0
    node_flow[0, 0] = n
    for i in range(len(live)):
        if live[i]:
            node_flow[1, i] += node_flow[0, i]
            node_flow[0, i] = 0
        edges = slice(ptr[i], ptr[i + 1])
        for k in range(2):
            edge_flow[k, edges] = 0
            if node_flow[k, i] == 0:
                continue
            multinomial(rng, node_flow[k, i], p[k][edges], edge_flow[k, edges])
            for e in range(ptr[i], ptr[i + 1]):
                if to[e] >= 0:
                    node_flow[k, to[e]] += edge_flow[k, e]


@njit()
def split(rng: np.random.Generator, n: int, paths: Paths, flow: Flow, part: Flow) -> None:
    """Take the first n episodes out of a flow, into the part.

    Episodes are exchangeable: the first n are a sample without replacement of those that start,
    and so are, at every node, the ways out of those of them that come by.
    """
    live, ptr, to = paths.live, paths.ptr, paths.to
    node_flow, edge_flow, node_part, edge_part = flow.nodes, flow.edges, part.nodes, part.edges
    node_part[:] = 0
    node_part[0, 0] = n
    for i in range(len(live)):
        if live[i]:
            node_part[1, i] += node_part[0, i]
            node_part[0, i] = 0
        edges = slice(ptr[i], ptr[i + 1])
        for k in range(2):
            ways = edge_flow[k, edges]
            multivariate_hypergeometric(rng, ways, node_part[k, i], edge_part[k, edges])
            node_flow[k, i] -= node_part[k, i]
            for e in range(ptr[i], ptr[i + 1]):
                edge_flow[k, e] -= edge_part[k, e]
                if to[e] >= 0:
                    node_part[k, to[e]] += edge_part[k, e]
