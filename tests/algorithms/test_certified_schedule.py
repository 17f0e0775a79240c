"""When the certified agent learns: as its schedule says, and not before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ucfh import MDP, make
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.algorithms.ucfh import UCFH
from ucfh.counts import NEVER, Counts, Limits
from ucfh.exceptions import InputError
from ucfh.simulation.environment import EpisodeBatch, Simulator

CHAIN = make("chain:n=3,horizon=3")
MIXED = MDP(
    [[[0.5, 0.5, 0], [0, 0, 1]], [[0.2, 0.3, 0.5], [1, 0, 0]], [[0, 1, 0], [0.9, 0, 0.1]]],
    [[0.1, 0.5], [0.7, 0.2], [0.3, 0.4]],
    3,
    [0.3, 0.3, 0.4],
)
"""Some of what follows is certain; the start is not."""
LESS = MIXED.problem.hiding("rewards", "initial")


def walk(mdp: MDP, agent: CertifiedUCFH, rng: np.random.Generator, episodes: int) -> Counts:
    stretch = EpisodeBatch(Counts.zero(agent.problem))
    limits = Limits(np.full(agent.problem.table.rows, NEVER - 1))
    rows = agent.problem.table.rows_of(agent.policy, mdp.horizon)
    Simulator(mdp, agent.problem).walk(rng, rows, limits, episodes, stretch)
    return stretch.counts


def state_of(agent: CertifiedUCFH) -> list[Any]:
    """What it knows and does, but for what it has merely counted."""
    known = [agent.policy, agent.optimistic, agent.lower, agent.gap_bound, agent.updates.tolist()]
    return [np.array(x).tolist() for x in (*known, agent.n.visits, agent.n.successors)]


COIN = MDP(
    [[[0.0, 0.5, 0.5]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]], [[0.0], [1.0], [0.0]], 2, initial=0
)


def flips(n: int) -> Counts:
    """Counts of n first steps, half of them to the state that pays; all others are known."""
    counts = Counts.zero(COIN.problem)
    counts.visits[0], counts.successors[:2] = n, [n // 2, n - n // 2]
    counts.visits[-1] = counts.successors[-1] = n
    return counts


@pytest.mark.parametrize("schedule", ["growth", "doubling"])
@pytest.mark.parametrize(
    ("mdp", "problem"), [(MIXED, MIXED.problem), (MIXED, LESS)], ids=["told", "told less"]
)
def test_it_learns_when_it_is_due(schedule: str, mdp: MDP, problem: Any) -> None:
    """`observe` says whether: by 2 % more episodes, or by a row that doubled; else all stays."""
    agent = CertifiedUCFH(problem, 0.01, 0.1, schedule=schedule, stop=None)
    table, rng = problem.table, np.random.default_rng(1)
    unknown = [len(table.indices[table.entries_of(row)]) > 1 for row in range(table.rows)]
    if problem.rewards is None:
        unknown = [True] * table.rows
    unknown[-1] = problem.initial is None
    old, new = [0] * table.rows, [0] * table.rows  # visits that are learned from, and that wait
    answers, total, updates = set(), 0, [0] * table.rows
    for episodes in (1, 120, *[1] * 50):
        seen, before = walk(mdp, agent, rng, episodes), state_of(agent)
        total += episodes
        new = [a + int(b) for a, b in zip(new, seen.visits, strict=True)]
        if schedule == "growth":
            due = [new[-1] >= max(1, old[-1] * 2 // 100)] * table.rows
        else:
            due = [u and y >= max(1, x) for u, x, y in zip(unknown, old, new, strict=True)]
        answer = agent.observe(seen)
        assert answer is any(due)
        answers.add(answer)
        if not answer:
            assert state_of(agent) == before
        for row in range(table.rows):
            if due[row] and new[row]:
                old[row], new[row] = old[row] + new[row], 0
                updates[row] += 1
        assert agent.updates.tolist() == updates
        assert agent.n.visits.tolist() == old
        assert agent.v.visits.tolist() == new
        assert agent.episodes == total
    assert answers == {True, False}


def test_room_for_episodes() -> None:
    """As many as are missing until it is due, and at least one."""
    agent = CertifiedUCFH(CHAIN.problem, 0.01, 0.1, stop=None)
    for learned, waiting, room in [(0, 0, 1), (100, 0, 2), (100, 1, 1), (449, 3, 5), (450, 20, 1)]:
        agent.n.visits[-1], agent.v.visits[-1] = learned, waiting
        limits = agent.limits()
        assert limits.episodes == room
        assert not limits.drop_surplus
        assert limits.visits.min() == 2**62


@pytest.mark.parametrize("schedule", ["doubling", "paper"])
@pytest.mark.parametrize("confidence", ["kl", "l1", "paper"])
def test_sets_for_doublings_refuse_counts_of_another_schedule(
    confidence: str, schedule: str
) -> None:
    """Such a set is wrong too often if the number of visits was chosen by looking at them."""
    m: dict[str, Any] = {"m": 20.0} if schedule == "paper" else {}
    agent = CertifiedUCFH(
        COIN.problem, 0.05, 0.1, confidence=confidence, schedule=schedule, stop=None, **m
    )
    room = int(agent.limits().visits[0])
    before = state_of(agent)
    with pytest.raises(InputError, match=r"\(s=0, a=0\)"):
        agent.observe(flips(room + 1))
    assert state_of(agent) == before
    assert not agent.v.visits.any()
    assert agent.observe(flips(room))  # as many as it asked for
    assert agent.n.visits[0] == room
    assert agent.limits().visits[0] == room
    with pytest.raises(InputError):
        agent.observe(flips(room + 1))


@pytest.mark.parametrize("confidence", ["tight", "kt", "kl-ball", "kt-ball"])
def test_sets_that_hold_always_take_any_counts(confidence: str) -> None:
    for schedule in ("growth", "doubling"):
        agent = CertifiedUCFH(COIN.problem, 0.05, 0.1, confidence=confidence, schedule=schedule)
        assert agent.observe(flips(777))
        assert agent.n.visits[0] == 777


def test_the_corrected_variant_refuses_counts_of_another_schedule() -> None:
    printed, corrected = (
        UCFH(COIN.problem, 0.5, 0.1, variant=variant, m=30) for variant in ("paper", "corrected")
    )
    enough = int(corrected.limits().visits[0])
    assert printed.observe(flips(enough + 6))
    with pytest.raises(InputError, match=r"\(s=0, a=0\)"):
        corrected.observe(flips(enough + 1))
    assert corrected.observe(flips(enough))
    with pytest.raises(InputError):
        UCFH(COIN.problem, 0.5, 0.1, variant="corrected", m=30).restore(printed.state())
    again = UCFH(COIN.problem, 0.5, 0.1, variant="corrected", m=30)
    again.restore(corrected.state())
    assert again.n.visits.tolist() == corrected.n.visits.tolist()


def test_a_state_of_another_schedule_is_not_restored() -> None:
    source = CertifiedUCFH(COIN.problem, 0.05, 0.1, confidence="kt", stop=None)
    source.observe(flips(777))
    for confidence in ("kl", "l1", "paper"):
        with pytest.raises(InputError, match="schedule"):
            CertifiedUCFH(COIN.problem, 0.05, 0.1, confidence=confidence).restore(source.state())
        own = CertifiedUCFH(COIN.problem, 0.05, 0.1, confidence=confidence, stop=None)
        for n in (1, 1, 2, 4, 3):
            own.observe(flips(n))
        again = CertifiedUCFH(COIN.problem, 0.05, 0.1, confidence=confidence, stop=None)
        again.restore(own.state())
        assert (again.n.visits[0], again.v.visits[0]) == (8, 3)
