"""Exact simulation of many episodes at once.

Within a phase the policy is fixed, so N episodes need not be walked one by one: the counts at the
start are multinomial, and the episodes in a state at a step continue as a multinomial over its
successors. The cost does not depend on N, and the distribution is exact.

A phase ends with the first episode at whose end some state-action pair has reached its visit
limit. Jumps find this episode: send M episodes, M short of the expected end by a few standard
deviations, so that the remainder shrinks like a square root each time. A jump that overshoots is
split: by exchangeability the first half of its episodes is a sample without replacement, at the
start and at every state passed; bisection finds the exact episode. The margin only decides how
often that happens. The last few episodes are walked.

Only episodes that visit a *live* pair, one that still has a limit, are sent (see
`ucfh._kernels.phase_graph`). If a share h of the episodes visits one, M such episodes come with a
negative binomial number of others; so a phase that waits for a pair of weight 1e-28 costs no more
than another. Visits of pairs that are not live are not counted, because nothing depends on them.

A phase that may end soon begins with walked episodes (see `ucfh.simulation.runner`): for many
phases these are enough, and no graph is built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

from ucfh._kernels import flows, sampling
from ucfh._kernels import phase_graph as graphs
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh.counts import NEVER, Limits
from ucfh.exceptions import InputError
from ucfh.simulation.environment import EpisodeBatch, Simulator

MARGIN = 3.0
"""The distance of a jump from the limit, in standard deviations."""

WALK_STEPS = 5_000
"""Most expected steps to walk in a small graph: a jump would not be cheaper."""

JUMP_EDGES = 1_200
"""Edges that double the time of a jump: larger graphs are walked more."""

MAX_SENT = 2**60
"""Most episodes sent at once. Expected visits stay below the limits, hence below 2^62."""

NEGLIGIBLE = 1e-280
"""A smaller share of episodes that visit a live pair counts as 0: no run is that long."""


@dataclass(eq=False)
class Graph:
    """The graph of a phase (see `ucfh._kernels.phase_graph`), and buffers for two flows."""

    paths: graphs.Paths
    share: float
    """h, the share of episodes that visit a live pair, in double precision."""
    weight: Floats
    """(rows,) expected visits of each live pair in an episode that visits one."""
    spread: Floats
    """(rows,) the largest number of visits in one episode."""

    def __post_init__(self) -> None:
        nodes, edges = len(self.paths.row), len(self.paths.to)
        self.flow = flows.Flow(np.zeros((2, nodes), int), np.zeros((2, edges), int))
        self.part = flows.Flow(np.zeros((2, nodes), int), np.zeros((2, edges), int))

    def send(self, rng: np.random.Generator, episodes: int) -> None:
        """Send episodes through the graph; their counts become the flow."""
        flows.send(rng, episodes, self.paths, self.flow)

    def split(self, rng: np.random.Generator, first: int) -> None:
        """Move the first episodes of the flow into the part."""
        flows.split(rng, first, self.paths, self.flow, self.part)

    def keep_part(self) -> None:
        """Replace the flow by the part."""
        self.flow, self.part = self.part, self.flow


def make_graph(simulator: Simulator, rows: Ints, live: Bools) -> Graph | None:
    """Build the graph of a phase; None if no live pair can be visited.

    Args:
        simulator: the MDP.
        rows: (H, S) table rows of the policy's actions.
        live: (rows,) pairs that still have a visit limit.

    """
    table, p = simulator.mdp.table, simulator.mdp.p
    visits = graphs.Visits(np.zeros(table.rows), np.zeros(table.rows), np.zeros(2))
    paths = graphs.build_graph(table.arrays, p, rows, live, NEGLIGIBLE, visits)
    h, rest = visits.shares.tolist()
    if h < NEGLIGIBLE:
        return None
    return Graph(paths, h / (h + rest), visits.expected, visits.most)


class BulkPhase:
    """Bulk simulation of one phase.

    Args:
        simulator: the MDP.
        rng: the random generator.
        rows: (H, S) table rows of the policy's actions.
        limits: the visit limits that end the phase.
        max_episodes: the episode cap, if any.
        batch: the record to fill.

    """

    def __init__(
        self,
        simulator: Simulator,
        rng: np.random.Generator,
        rows: Ints,
        limits: Limits,
        max_episodes: int | None,
        batch: EpisodeBatch,
    ) -> None:
        self.simulator, self.rng, self.limits = simulator, rng, limits
        self.max_episodes, self.batch = max_episodes, batch
        self.horizon = len(rows)
        graph = make_graph(simulator, rows, limits.visits < NEVER)
        if graph is not None:
            self.graph = graph
        elif max_episodes is not None:
            batch.episodes = max_episodes
        else:
            raise InputError(
                "the next update waits for a pair that is visited less than once in "
                f"{1 / NEGLIGIBLE:g} episodes: pass episodes=N (--episodes N)"
            )

    def run(self, tick: Callable[[], None]) -> None:
        """Fill the batch until a limit or the episode cap is reached."""
        while not self.batch.ended and not self._is_over():
            safe, mean = self._distances()
            if mean * self.horizon <= WALK_STEPS * (1 + len(self.graph.paths.to) / JUMP_EDGES):
                self._walk(4 * ceil(mean) + 16)
            else:
                size = safe if 2 * safe >= mean else mean
                self._jump(self._bounded(size))
            tick()

    def _is_over(self) -> bool:
        return self.max_episodes is not None and self.batch.episodes >= self.max_episodes

    def _distances(self) -> tuple[float, float]:
        """Return a number of episodes that probably reaches no limit, and the expected number.

        M episodes visit a pair of weight w M w times on average, with a variance of at most
        M w k if an episode makes at most k visits. So M w + z sqrt(M w k) = room is solved for M.
        """
        graph = self.graph
        at = np.flatnonzero(graph.weight > NEGLIGIBLE)
        w, k = graph.weight[at], graph.spread[at]
        room = (self.limits.visits[at] - self.batch.counts.visits[at]).astype(float)
        zk = MARGIN * np.sqrt(w * k)
        root = (np.sqrt(zk * zk + 4 * w * room) - zk) / (2 * w)
        return float((root * root).min()), float((room / w).min())

    def _bounded(self, size: float) -> int:
        """Limit a number of episodes to send: at least one, and few enough to be counted.

        With a cap, episodes without a live pair must fit in 64 bits too, or surely come before
        the cap (by ten standard deviations). Otherwise the cap does not change the draws.
        """
        bound = float(MAX_SENT)
        if self.max_episodes is not None:
            before = (self.max_episodes - self.batch.episodes) * self.graph.share
            bound = min(bound, max(MAX_SENT / 8 * self.graph.share, before - 10 * sqrt(before)))
        return max(1, int(min(size, bound)))

    def _walk(self, episodes: int) -> None:
        """Walk episodes that visit a live pair."""
        episodes = self._bounded(episodes)
        before, saved = self.rng.bit_generator.state, self.batch.counts.copy()
        walked, reached = self._walk_graph(episodes)
        total = self._add_others(walked)
        if not self._exceeds_cap(total):
            self.batch.episodes += total
            self.batch.ended = reached
            return
        kept = self._before_cap(walked, total)
        after = self.rng.bit_generator.state
        self.batch.counts = saved
        self.rng.bit_generator.state = before
        self._walk_graph(kept)  # the same episodes again, up to the cap
        self.rng.bit_generator.state = after

    def _walk_graph(self, episodes: int) -> tuple[int, bool]:
        counts, limits = self.batch.counts, self.limits
        walked, reached = graphs.walk_graph(
            self.rng,
            episodes,
            self.graph.paths,
            self.simulator.position,
            limits.visits,
            limits.drop_surplus,
            counts.visits,
            counts.successors,
        )
        return int(walked), bool(reached)

    def _jump(self, episodes: int) -> None:
        """Send episodes; if they reach a limit, bisect to the one that does."""
        graph = self.graph
        graph.send(self.rng, episodes)
        while self._reaches(graph.flow) and episodes > 1:
            half = episodes // 2
            graph.split(self.rng, half)
            if self._reaches(graph.part):
                graph.keep_part()
                episodes = half
            else:
                if self._commit(graph.part, half):
                    return
                episodes -= half
        self._commit(graph.flow, episodes)

    def _reaches(self, flow: flows.Flow) -> bool:
        """Return True if these episodes, run next, reach a limit."""
        paths, visits, limit = self.graph.paths, self.batch.counts.visits, self.limits.visits
        return bool(graphs.reaches(paths.row, paths.live, flow.nodes[1], visits, limit))

    def _commit(self, flow: flows.Flow, episodes: int) -> bool:
        """Count the next episodes and the others among them; True if the cap cuts them."""
        total = self._add_others(episodes)
        cut = self._exceeds_cap(total)
        if cut:
            kept = self._before_cap(episodes, total)
            graph = self.graph
            if flow is graph.part:
                graph.keep_part()
            graph.split(self.rng, kept)
            flow = graph.part
        counts, limits = self.batch.counts, self.limits
        reached = graphs.tally(
            self.graph.paths,
            flow.nodes[1],
            flow.edges[1],
            self.simulator.position,
            limits.visits,
            limits.drop_surplus,
            counts.visits,
            counts.successors,
        )
        if not cut:
            self.batch.episodes += total
            self.batch.ended = bool(reached)
        return cut

    def _add_others(self, episodes: int) -> int:
        """Return ``episodes`` that visit a live pair plus a draw of the others among them."""
        if self.graph.share >= 1.0:
            return episodes
        return episodes + sampling.negative_binomial(self.rng, episodes, self.graph.share)

    def _exceeds_cap(self, total: int) -> bool:
        return self.max_episodes is not None and self.batch.episodes + total > self.max_episodes

    def _before_cap(self, visiting: int, total: int) -> int:
        """Draw the number of the ``visiting`` episodes, of ``total``, that precede the cap.

        The last episode visits a live pair; the order of the first total - 1 is uniform. The
        batch then ends at the cap.
        """
        assert self.max_episodes is not None
        left = self.max_episodes - self.batch.episodes
        self.batch.episodes = self.max_episodes
        if visiting == 1:
            return 0
        return int(sampling.hypergeometric(self.rng, visiting - 1, total - visiting, left))
