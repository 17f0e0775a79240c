"""The simulated MDP: its transition table, mapped onto the agent's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np

from ucfh._kernels import walk as kernels
from ucfh._kernels.types import EnvironmentArrays
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh.counts import NEVER, Counts, Limits
from ucfh.mdp import MDP, Problem
from ucfh.planning import evaluate
from ucfh.problems import positions_in


def fingerprint(mdp: MDP, problem: Problem) -> str:
    """Return a short digest of an MDP and of an agent's prior knowledge of it."""
    digest = sha256()
    for table in (mdp.table, problem.table):
        for array in (table.first, table.action, table.indptr, table.indices):
            digest.update(array.tobytes())
    for part in (mdp.p, mdp.rewards.pair, mdp.rewards.successor, problem.initial):
        digest.update(b"-" if part is None else part.tobytes())
    settings = [mdp.horizon, mdp.noise, problem.rewards is None]
    digest.update(json.dumps(settings).encode())
    return digest.hexdigest()[:16]


@dataclass(eq=False)
class EpisodeBatch:
    """Episodes that followed one policy.

    Attributes:
        counts: the observations, over the agent's table.
        episodes: the number of episodes.
        ended: True if the last episode reached one of the agent's limits.

    """

    counts: Counts
    episodes: int = 0
    ended: bool = False


class Simulator:
    """An MDP that produces counts for an agent with prior knowledge ``problem``.

    Attributes:
        p: (agent's entries,) the true probabilities over the agent's table.
        position: (entries,) the index in the agent's table of each entry of the MDP.
        mean_rewards: (rows - 1,) mean reward of each table row, if unknown to the agent; else
            None.

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
        """(entries,) cumulative probabilities of each table row."""
        out = np.empty_like(self.mdp.p)
        kernels.cumulate(self.mdp.table.indptr, self.mdp.p, out)
        return out

    @cached_property
    def model(self) -> EnvironmentArrays:
        """The MDP as the argument of compiled loops."""
        mdp, table = self.mdp, self.mdp.table
        return EnvironmentArrays(
            indptr=table.indptr,
            indices=table.indices,
            cumulative=self._cumulative,
            p=mdp.p,
            position=self.position,
            r=mdp.mean_rewards,
            stride=table.stride,
        )

    def value(self, rows: Ints) -> float:
        """Return the exact value of the policy with table rows (H, S)."""
        mdp = self.mdp
        return mdp.at_start(evaluate(mdp.table, mdp.p, mdp.mean_rewards, rows))

    def walk(
        self,
        rng: np.random.Generator,
        rows: Ints,
        limits: Limits,
        episodes: int,
        batch: EpisodeBatch,
    ) -> None:
        """Walk at most ``episodes`` more episodes until a limit is reached.

        Args:
            rng: the random generator.
            rows: (H, S) table rows of the policy's actions.
            limits: the limits that end the phase.
            episodes: the most episodes to walk.
            batch: the record to extend.

        """
        mdp, counts = self.mdp, batch.counts
        due = bool((limits.visits <= 0).any())
        scored = None
        if limits.watch is not None:
            scores = np.zeros(1 if due else episodes)
            scored = kernels.Watched(limits.watch.rows, limits.watch.leaving, scores)
        steps = np.zeros((episodes, mdp.horizon), np.int64) if limits.steps else None
        rewards = None
        if self.mean_rewards is not None:
            rewards = kernels.Paid(counts.rewards, counts.least, counts.most)
        walked, reached = kernels.walk(
            rng,
            1 if due else episodes,
            rows,
            self.model,
            mdp.rewards.pair,
            mdp.rewards.successor,
            mdp.noise == "bernoulli",
            limits.visits,
            limits.drop_surplus,
            counts.arrays,
            rewards,
            scored,
            steps,
        )
        if steps is not None:
            counts.steps = np.concatenate([counts.steps.reshape(-1, mdp.horizon), steps[:walked]])
        if scored is not None:
            counts.scores = np.concatenate([counts.scores, scored.scores[:walked]])
        batch.episodes += int(walked)
        batch.ended = bool(reached) or due

    def sample(self, rng: np.random.Generator, wants: Ints) -> Counts:
        """Sample a generative model: ``wants`` (rows,) successors of each state-action pair."""
        from ucfh._kernels.sampling import multinomial

        mdp, counts = self.mdp, Counts.zero(self.problem)
        drawn = np.zeros(mdp.table.entries, np.int64)
        for row in np.flatnonzero(wants).tolist():
            entries = mdp.table.entries_of(row)
            multinomial(rng, wants[row], mdp.p[entries], drawn[entries])
        counts.visits[:] = wants
        counts.successors[self.position] = drawn
        self.draw_rewards(rng, counts)
        return counts

    def draw_rewards(self, rng: np.random.Generator, counts: Counts) -> None:
        """Draw the rewards of counts that have none yet.

        Given the counts, rewards are independent: a binomial number of ones for each entry, or
        exactly the mean without noise.
        """
        from ucfh._kernels.sampling import binomials

        if self.mean_rewards is None:
            return
        mdp, table = self.mdp, self.mdp.table
        mean = mdp.rewards.by_entry(table)
        times = counts.successors[self.position]
        sums: Floats = times * mean
        least, most = mean, mean
        if mdp.noise == "bernoulli":
            ones = np.zeros_like(times)
            binomials(rng, times, mean, ones)
            sums, least = ones.astype(float), (ones == times).astype(float)
            most = (ones > 0).astype(float)
        drawn, at = times > 0, self.position[times > 0]
        counts.rewards[at] += sums[drawn]
        counts.least[at] = np.minimum(counts.least[at], least[drawn])
        counts.most[at] = np.maximum(counts.most[at], most[drawn])

    def is_final(self, rows: Ints, limits: Limits) -> bool:
        """Return True if the policy with table rows (H, S) can never change again.

        Then no pair that still has a limit is reachable, and no pair at its limit awaits an update.
        """
        if limits.episodes is not None or (limits.visits <= 0).any():
            return False
        table = self.mdp.table
        reach: Bools = np.zeros(table.rows, bool)
        kernels.reachable(table.indptr, table.indices, self.mdp.p, rows, reach)
        return not (reach & (limits.visits < NEVER)).any()
