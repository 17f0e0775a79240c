"""The world of a simulation: its table, laid over the agent's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ucfh._kernels import walk as kernels
from ucfh._kernels.groups import Nature
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh.counts import NEVER, Counts, Limits
from ucfh.mdp import MDP, Problem
from ucfh.planning import evaluate
from ucfh.problems import positions_in


@dataclass(eq=False)
class EpisodeBatch:
    """Episodes that followed one policy.

    Attributes:
        seen: the counts of what was observed, over the agent's table.
        episodes: the number of episodes.
        ended: whether the last of them reached one of the agent's limits.

    """

    seen: Counts
    episodes: int = 0
    ended: bool = False


class Simulator:
    """An MDP that produces counts for an agent who was told ``problem``.

    Attributes:
        p: (agent's entries,) the true probabilities, laid over the agent's table.
        position: (entries,) where each entry of the world stands in the agent's table.
        mean_rewards: (rows - 1,) of each row, where the agent does not know them; else None.

    """

    def __init__(self, mdp: MDP, problem: Problem) -> None:
        self.mdp, self.problem = mdp, problem
        self.position = positions_in(mdp, problem)
        self.p = np.zeros(problem.table.entries)
        self.p[self.position] = mdp.p
        self.mean_rewards = None
        if problem.rewards is None:
            shape = (mdp.table.segments, mdp.table.pairs)
            self.mean_rewards = np.broadcast_to(mdp.mean_rewards, shape).ravel()

    @cached_property
    def _cumulative(self) -> Floats:
        """(entries,) running sums of each row's probabilities."""
        out = np.empty_like(self.mdp.p)
        kernels.cumulate(self.mdp.table.indptr, self.mdp.p, out)
        return out

    def as_nature(self) -> Nature:
        """The world as the compiled loops of agents take it."""
        return self._nature

    @cached_property
    def _nature(self) -> Nature:
        mdp, table = self.mdp, self.mdp.table
        return Nature(
            indptr=table.indptr,
            indices=table.indices,
            cumulative=self._cumulative,
            p=mdp.p,
            position=self.position,
            r=mdp.mean_rewards,
            stride=table.stride,
        )

    def value(self, rows: Ints) -> float:
        """What the policy that takes rows (H, S) earns in an episode, exactly."""
        mdp = self.mdp
        return mdp.at_start(evaluate(mdp.table, mdp.p, mdp.mean_rewards, rows))

    def walk(
        self,
        rng: np.random.Generator,
        rows: Ints,
        limits: Limits,
        episodes: int,
        stretch: EpisodeBatch,
    ) -> None:
        """Walk at most that many more episodes, taking rows (H, S), until a limit is reached."""
        mdp, seen = self.mdp, stretch.seen
        waiting = bool((limits.visits <= 0).any())
        watched = None
        if limits.watch is not None:
            scores = np.zeros(1 if waiting else episodes)
            watched = kernels.Watched(limits.watch.rows, limits.watch.leaving, scores)
        steps = np.zeros((episodes, mdp.horizon), np.int64) if limits.steps else None
        paid = None
        if self.mean_rewards is not None:
            paid = kernels.Paid(seen.rewards, seen.least, seen.most)
        walked, reached = kernels.walk(
            rng,
            1 if waiting else episodes,
            rows,
            self._nature,
            mdp.rewards.pair,
            mdp.rewards.successor,
            mdp.noise == "bernoulli",
            limits.visits,
            limits.drop_surplus,
            seen.arrays,
            paid,
            watched,
            steps,
        )
        if steps is not None:
            seen.steps = np.concatenate([seen.steps.reshape(-1, mdp.horizon), steps[:walked]])
        if watched is not None:
            seen.scores = np.concatenate([seen.scores, watched.scores[:walked]])
        stretch.episodes += int(walked)
        stretch.ended = bool(reached) or waiting

    def sample(self, rng: np.random.Generator, wants: Ints) -> Counts:
        """What a generative model answers: as many successors of each row (rows,) as wanted."""
        from ucfh._kernels.sampling import multinomial

        mdp, seen = self.mdp, Counts.zero(self.problem)
        drawn = np.zeros(mdp.table.entries, np.int64)
        for row in np.flatnonzero(wants).tolist():
            entries = mdp.table.entries_of(row)
            multinomial(rng, wants[row], mdp.p[entries], drawn[entries])
        seen.visits[:] = wants
        seen.successors[self.position] = drawn
        self.draw_rewards(rng, seen)
        return seen

    def draw_rewards(self, rng: np.random.Generator, seen: Counts) -> None:
        """Add the rewards to counts that have none yet.

        Given the counts, rewards are independent: a binomial number of ones for each entry, or
        exactly the mean where rewards are not noisy.
        """
        from ucfh._kernels.sampling import binomials

        if self.mean_rewards is None:
            return
        mdp, table = self.mdp, self.mdp.table
        mean = mdp.rewards.by_entry(table)
        times = seen.successors[self.position]
        sums: Floats = times * mean
        least, most = mean, mean
        if mdp.noise == "bernoulli":
            ones = np.zeros_like(times)
            binomials(rng, times, mean, ones)
            sums, least = ones.astype(float), (ones == times).astype(float)
            most = (ones > 0).astype(float)
        drawn, at = times > 0, self.position[times > 0]
        seen.rewards[at] += sums[drawn]
        seen.least[at] = np.minimum(seen.least[at], least[drawn])
        seen.most[at] = np.maximum(seen.most[at], most[drawn])

    def is_final(self, rows: Ints, limits: Limits) -> bool:
        """Whether the policy that takes rows (H, S) can never change again.

        This is so if no row that could still change anything can be reached, and none has
        already reached its limit and waits for its update.
        """
        if limits.episodes is not None or (limits.visits <= 0).any():
            return False
        table = self.mdp.table
        reach: Bools = np.zeros(table.rows, bool)
        kernels.reachable(table.indptr, table.indices, self.mdp.p, rows, reach)
        return not (reach & (limits.visits < NEVER)).any()
