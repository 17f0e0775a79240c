"""The graph of a phase: what episodes meet, and how often, by walking every way with its chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.certified_cases import draw_case
from ucfh.mdp import MDP
from ucfh.simulation.bulk import make_graph
from ucfh.simulation.environment import Simulator


def episodes(mdp: MDP, rows: Any) -> list[tuple[float, list[int]]]:
    """The chance of every episode under rows (H, S), and the rows that it visits."""
    table, found = mdp.table, []

    def go(t: int, row: int, chance: float, visited: list[int]) -> None:
        at = table.entries_of(row)
        for p, s in zip(mdp.p[at].tolist(), table.indices[at].tolist(), strict=True):
            if p == 0:
                continue
            if t == mdp.horizon:
                found.append((chance * p, [*visited, row]))
            else:
                go(t + 1, int(rows[t, s]), chance * p, [*visited, row])

    go(0, table.start, 1.0, [])
    return found


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 3),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_expected_visits(
    seed: int, S: int, H: int, segmented: bool, sparse: bool, spread: bool, counts_start: bool
) -> None:
    """Of live rows, in episodes that meet one; the start is a row like any other."""
    mdp = draw_case(seed, S, 2, H, segmented=segmented, sparse=sparse, spread=spread).mdp
    table, rng = mdp.table, np.random.default_rng(seed)
    rows = table.rows_of(rng.integers(0, 2, (H, S)), H)
    live = rng.random(table.rows) < rng.choice([0.1, 0.5])
    live[-1] = counts_start
    all_of_them = episodes(mdp, rows)
    meets = [(p, [x for x in visited if live[x]]) for p, visited in all_of_them]
    share = sum(p for p, visited in meets if visited)
    graph = make_graph(Simulator(mdp, mdp.problem), rows, live)
    if share == 0:
        assert graph is None
        return
    assert graph is not None
    assert graph.share == pytest.approx(share, rel=1e-12)
    for row in range(table.rows):
        weight = sum(p * visited.count(row) for p, visited in meets) / share
        most = max(visited.count(row) for _, visited in meets)
        assert graph.weight[row] == pytest.approx(weight, rel=1e-12, abs=1e-15)
        assert most <= graph.spread[row] <= (1 if segmented or row == table.start else H)
        assert (graph.spread[row] > 0) == (most > 0)


def test_expected_visits_by_hand() -> None:
    """From 0, with chance 1/4, it stays in 1; from 2 it may go there, from 3 never."""
    p = np.zeros((4, 1, 4))
    p[0, 0, [1, 3]] = 0.25, 0.75
    p[1, 0, 1] = p[3, 0, 3] = 1
    p[2, 0, [1, 3]] = 0.5, 0.5
    mdp = MDP(p, np.zeros((4, 1)), 3, [0.4, 0, 0.4, 0.2])
    rows = mdp.table.rows_of(np.zeros((3, 4), int), 3)
    graph = make_graph(
        Simulator(mdp, mdp.problem), rows, np.array([False, True, False, False, False])
    )
    assert graph is not None
    assert graph.share == pytest.approx(0.4 * 0.25 + 0.4 * 0.5)
    assert graph.weight.tolist() == pytest.approx([0, 2, 0, 0, 0])  # at both steps after the first
    assert graph.spread.tolist() == [0, 2, 0, 0, 0]
    graph = make_graph(
        Simulator(mdp, mdp.problem), rows, np.array([True, True, False, False, False])
    )
    assert graph is not None
    share = 0.4 + 0.4 * 0.5
    assert graph.share == pytest.approx(share)
    assert graph.weight[:2].tolist() == pytest.approx(
        [0.4 / share, 2 * (0.4 * 0.25 + 0.4 * 0.5) / share]
    )
