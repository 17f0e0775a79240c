"""Many episodes at once, exactly.

Within a phase the policy is fixed, so N episodes need not be walked one by one: the counts at the
start are multinomial, and those that pass a state at a step continue as a multinomial over its
successors. The cost does not depend on N, and the law is exact.

A phase ends with the first episode at whose end some row has reached its limit. It is found by
jumps: send M episodes through, M short of the expected end by a margin of a few standard
deviations, so that what remains shrinks like a square root each time. If a jump overshoots, it is
split: by exchangeability the first half of its episodes is a sample without replacement, at the
start and at every state passed; bisecting in this way finds the exact episode. The margin only
decides how often that happens. The last few episodes are walked.

Only episodes that meet a *live* row, one that has not reached its limit for good, are sent (see
`ucfh._kernels.phase`). If a share h of episodes meets one, M that do come with a negative binomial
number that do not; a phase that waits for a pair of weight 1e-28 costs no more than another. What
happens in rows that are not live is not counted, because nothing depends on it.

A phase that may end soon begins with episodes that are walked (see `ucfh.simulation.runner`):
for many phases that is all, and they need no graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

from ucfh._kernels import flows, sampling
from ucfh._kernels import phase as graphs
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh.counts import NEVER, Limits
from ucfh.exceptions import InputError
from ucfh.simulation.environment import EpisodeBatch, Simulator

MARGIN = 3.0
"""How many standard deviations a jump keeps from the limit."""

WALK_STEPS = 5_000
"""Up to this many expected steps are walked in a small graph: a jump would not be cheaper."""

JUMP_EDGES = 1_200
"""A jump through this many edges takes as long as its rest: larger graphs are walked more."""

MOST = 2**60
"""The most episodes sent at once. Expected visits stay below the limits, so below 2^62."""

NEVER_MET = 1e-280
"""A smaller share of episodes that meet a live row counts as 0: no run is that long."""


@dataclass(eq=False)
class Graph:
    """The graph of a phase (see `ucfh._kernels.phase`), and room for two flows through it."""

    paths: graphs.Paths
    share: float
    """h, the share of episodes that meet a live row, in double precision."""
    weight: Floats
    """(rows,) expected visits of each live row in an episode that meets one."""
    spread: Floats
    """(rows,) the most visits that one episode can make."""

    def __post_init__(self) -> None:
        nodes, edges = len(self.paths.row), len(self.paths.to)
        self.flow = flows.Flow(np.zeros((2, nodes), int), np.zeros((2, edges), int))
        self.part = flows.Flow(np.zeros((2, nodes), int), np.zeros((2, edges), int))

    def send(self, rng: np.random.Generator, episodes: int) -> None:
        """Send that many episodes through; the flow says where they went."""
        flows.send(rng, episodes, self.paths, self.flow)

    def split(self, rng: np.random.Generator, first: int) -> None:
        """Take that many of the first episodes out of the flow: they become the part."""
        flows.split(rng, first, self.paths, self.flow, self.part)

    def keep_part(self) -> None:
        """Let the part take the place of the flow."""
        self.flow, self.part = self.part, self.flow


def make_graph(world: Simulator, rows: Ints, live: Bools) -> Graph | None:
    """The graph of the phase in which the policy takes rows (H, S) and ``live`` (rows,) matter.

    None if no live row is ever met.
    """
    table, p = world.mdp.table, world.mdp.p
    visits = graphs.Visits(np.zeros(table.rows), np.zeros(table.rows), np.zeros(2))
    paths = graphs.build_graph(table.arrays, p, rows, live, NEVER_MET, visits)
    h, rest = visits.shares.tolist()
    if h < NEVER_MET:
        return None
    return Graph(paths, h / (h + rest), visits.expected, visits.most)


class BulkPhase:
    """One phase, simulated in bulk."""

    def __init__(
        self,
        world: Simulator,
        rng: np.random.Generator,
        rows: Ints,
        limits: Limits,
        most: int | None,
        stretch: EpisodeBatch,
    ) -> None:
        self.world, self.rng, self.limits = world, rng, limits
        self.most, self.stretch = most, stretch
        self.horizon = len(rows)
        graph = make_graph(world, rows, limits.visits < NEVER)
        if graph is not None:
            self.graph = graph
        elif most is not None:
            stretch.episodes = most
        else:
            raise InputError(
                f"the next update waits for a pair that is met less than once in {1 / NEVER_MET:g} "
                "episodes: pass episodes=N (--episodes N)"
            )

    def run(self, tick: Callable[[], None]) -> None:
        """Fill the stretch: until a limit is reached, or ``most`` episodes are over."""
        while not self.stretch.ended and not self._is_over():
            safe, mean = self._distances()
            if mean * self.horizon <= WALK_STEPS * (1 + len(self.graph.paths.to) / JUMP_EDGES):
                self._walk(4 * ceil(mean) + 16)
            else:
                size = safe if 2 * safe >= mean else mean
                self._jump(self._bounded(size))
            tick()

    def _is_over(self) -> bool:
        return self.most is not None and self.stretch.episodes >= self.most

    def _distances(self) -> tuple[float, float]:
        """Episodes that probably reach no limit, and the expected number until one does.

        A row with weight w is visited M w times by M episodes, with a variance of at most M w k,
        if an episode makes at most k visits. So M w + z sqrt(M w k) = room is solved for M.
        """
        graph = self.graph
        at = np.flatnonzero(graph.weight > NEVER_MET)
        w, k = graph.weight[at], graph.spread[at]
        room = (self.limits.visits[at] - self.stretch.seen.visits[at]).astype(float)
        zk = MARGIN * np.sqrt(w * k)
        root = (np.sqrt(zk * zk + 4 * w * room) - zk) / (2 * w)
        return float((root * root).min()), float((room / w).min())

    def _bounded(self, size: float) -> int:
        """How many episodes to send: at least one, and few enough to be counted.

        With a cap, those that meet no live row must fit in 64 bits too, or surely come before it
        (by ten standard deviations). Otherwise the cap does not affect it, and so not the draws.
        """
        bound = float(MOST)
        if self.most is not None:
            before = (self.most - self.stretch.episodes) * self.graph.share
            bound = min(bound, max(MOST / 8 * self.graph.share, before - 10 * sqrt(before)))
        return max(1, int(min(size, bound)))

    def _walk(self, episodes: int) -> None:
        """Walk episodes that meet a live row."""
        episodes = self._bounded(episodes)
        before, saved = self.rng.bit_generator.state, self.stretch.seen.copy()
        walked, reached = self._walk_graph(episodes)
        total = self._with_others(walked)
        if not self._passes_cap(total):
            self.stretch.episodes += total
            self.stretch.ended = reached
            return
        kept = self._before_cap(walked, total)
        after = self.rng.bit_generator.state
        self.stretch.seen = saved
        self.rng.bit_generator.state = before
        self._walk_graph(kept)  # the same ones again, but no more than fit
        self.rng.bit_generator.state = after

    def _walk_graph(self, episodes: int) -> tuple[int, bool]:
        seen, limits = self.stretch.seen, self.limits
        walked, reached = graphs.walk_graph(
            self.rng,
            episodes,
            self.graph.paths,
            self.world.position,
            limits.visits,
            limits.drop_surplus,
            seen.visits,
            seen.successors,
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
        """Whether a limit is reached, if these episodes come next."""
        paths, visits, limit = self.graph.paths, self.stretch.seen.visits, self.limits.visits
        return bool(graphs.reaches(paths.row, paths.live, flow.nodes[1], visits, limit))

    def _commit(self, flow: flows.Flow, episodes: int) -> bool:
        """Count the next episodes, and the others between them; True if the cap cuts them."""
        total = self._with_others(episodes)
        cut = self._passes_cap(total)
        if cut:
            kept = self._before_cap(episodes, total)
            graph = self.graph
            if flow is graph.part:
                graph.keep_part()
            graph.split(self.rng, kept)
            flow = graph.part
        seen, limits = self.stretch.seen, self.limits
        reached = graphs.tally(
            self.graph.paths,
            flow.nodes[1],
            flow.edges[1],
            self.world.position,
            limits.visits,
            limits.drop_surplus,
            seen.visits,
            seen.successors,
        )
        if not cut:
            self.stretch.episodes += total
            self.stretch.ended = bool(reached)
        return cut

    def _with_others(self, episodes: int) -> int:
        """That many episodes that meet a live row, and those between them that do not."""
        if self.graph.share >= 1.0:
            return episodes
        return episodes + sampling.negative_binomial(self.rng, episodes, self.graph.share)

    def _passes_cap(self, total: int) -> bool:
        return self.most is not None and self.stretch.episodes + total > self.most

    def _before_cap(self, meeting: int, total: int) -> int:
        """How many of ``meeting`` among ``total`` episodes, the last of them, fit in the cap.

        The others are anywhere among the first total - 1. The stretch then ends at the cap.
        """
        assert self.most is not None
        left = self.most - self.stretch.episodes
        self.stretch.episodes = self.most
        if meeting == 1:
            return 0
        return int(sampling.hypergeometric(self.rng, meeting - 1, total - meeting, left))
