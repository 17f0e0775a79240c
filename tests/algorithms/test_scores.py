"""Scores of watched episodes, against walking them one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.problems import CHAIN, WORLDS, small, watched
from ucfh import MDP
from ucfh.algorithms.exploration import BINS, GapExploration
from ucfh.confidence.known_states import KnownStateBounds
from ucfh.counts import NEVER, Counts, Limits, ScoringRule
from ucfh.simulation.environment import EpisodeBatch, Simulator

# -- scores ---------------------------------------------------------------------------------------


def walk_and_score(
    mdp: MDP, known: bool, rows: Any, watch: ScoringRule, seed: int, episodes: int
) -> list[float]:
    """Episodes walked with one uniform number a draw; known rewards count with their mean."""
    rng, table = np.random.default_rng(seed), mdp.table
    bonus, pair, scores = mdp.rewards.successor, mdp.rewards.pair, []

    def draw(row: int) -> int:
        at, u = table.entries_of(row), rng.random()
        total = 0.0
        for e in range(at.start, at.stop):
            total += mdp.p[e]
            if u < total:
                return int(e)
        return int(at.stop) - 1

    for _ in range(episodes):
        s, score, follows = int(table.indices[draw(table.start)]), 0.0, True
        for t in range(mdp.horizon):
            row = int(rows[t, s])
            if follows and row != watch.rows[t, s]:
                score, follows = score + watch.leaving[t, s], False
            e = draw(row)
            r = pair[min(t, len(pair) - 1), row - t * table.stride]
            r += 0.0 if bonus is None else bonus[min(t, len(bonus) - 1), e]
            if mdp.noise and not known:
                r = float(rng.random() < r)
            if follows:
                score += r
            s = int(table.indices[e])
        scores.append(float(score))
    return scores


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_scores_episode_by_episode(name: str, seed: int) -> None:
    mdp, problem = WORLDS[name]
    rows, watch = watched(mdp, seed)
    limits = Limits(np.full(problem.table.rows, NEVER), watch=watch)
    stretch = EpisodeBatch(Counts.zero(problem))
    Simulator(mdp, problem).walk(np.random.default_rng(seed), rows, limits, 200, stretch)
    expected = walk_and_score(mdp, problem.rewards is not None, rows, watch, seed, 200)
    np.testing.assert_allclose(stretch.counts.scores, expected, atol=1e-12)


@pytest.mark.parametrize("name", WORLDS)
def test_scores_are_worth_the_watched_policy(name: str) -> None:
    """If what counts on leaving is what it would have earned, their mean is V^pi exactly."""
    mdp, problem = WORLDS[name]
    rows, watch = watched(mdp, 3)
    limits, stretch = Limits(np.full(problem.table.rows, NEVER), watch=watch), None
    stretch = EpisodeBatch(Counts.zero(problem))
    Simulator(mdp, problem).walk(np.random.default_rng(0), rows, limits, 40_000, stretch)
    scores = stretch.counts.scores
    value = mdp.value(mdp.table.policy_of(watch.rows))
    assert abs(scores.mean() - value) <= 4.5 * scores.std() / 200 + 1e-12


def test_scores_stop_with_the_episodes() -> None:
    """A limit that is reached after some episodes leaves as many scores."""
    mdp = small()
    rows, watch = watched(mdp, 0)
    limits = Limits(np.full(mdp.table.rows, 50), watch=watch)
    stretch = EpisodeBatch(Counts.zero(mdp.problem))
    Simulator(mdp, mdp.problem).walk(np.random.default_rng(0), rows, limits, 10_000, stretch)
    assert stretch.ended
    assert len(stretch.counts.scores) == stretch.episodes < 10_000


def test_scores_are_rounded_down() -> None:
    exploration = GapExploration(
        KnownStateBounds(CHAIN.problem, 0.1), 0.5, Counts.zero(CHAIN.problem)
    )
    x = np.random.default_rng(0).random(1000) * 3
    exploration.score(x)
    exploration.score(x[:10])
    found = np.sort(np.repeat([*exploration.scores], [*exploration.scores.values()]))
    exact = np.sort([*x, *x[:10]])
    assert len(found) == 1010
    assert (found <= exact + 1e-15).all()
    assert (found > exact - 0.5 / BINS - 1e-15).all()
    before = dict(exploration.scores)
    exploration.score(np.zeros(0))
    assert exploration.scores == before
