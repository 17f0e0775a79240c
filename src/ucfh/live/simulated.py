"""An MDP as a world of which a learner is told nothing: it is only stepped, many episodes at once."""

from __future__ import annotations

import numpy as np

from ucfh._kernels import walk as kernels
from ucfh._kernels.groups import Seen
from ucfh._support.arrays import Floats, Ints
from ucfh.experience import END, Experience, Steps
from ucfh.problem import MDP
from ucfh.simulation.world import World


class SimulatedWorld:
    """Steps of an MDP; its states are numbered as they are met, and terminal ones are the end.

    Attributes:
        number: (S,) of each state of the MDP in the learner's experience; -1: not met yet.
        met: the states of the MDP by number; of the end, -1.

    """

    def __init__(self, mdp: MDP, seed: int) -> None:
        self.mdp, self.rng = mdp, np.random.default_rng(seed)
        self._nature = World(mdp, mdp.problem).as_nature()
        self.number = np.full(mdp.states, -1)
        self.number[list(mdp.problem.terminal)] = END
        self.met = [-1]

    def pay(self, mean: Floats) -> Floats:
        """(n,) rewards with these means (n,), as the MDP draws them."""
        if self.mdp.noise is None:
            return mean
        return (self.rng.random(len(mean)) < mean).astype(float)

    def rows(self, actions: Ints) -> Ints:
        """(H, S) the MDP's rows for actions (H, k) by number; where there is none, the first."""
        mdp, table = self.mdp, self.mdp.table
        first = table.action[table.first[:-1]]
        known = (self.number > 0) & (self.number < actions.shape[1])
        policy = np.tile(first, (mdp.horizon, 1))
        policy[:, known] = actions[:, self.number[known]]
        return table.rows_of(policy, mdp.horizon)

    def run(self, experience: Experience, actions: Ints, episodes: int) -> Steps:
        """That many episodes that take actions (H, k) by number; see `rows`."""
        mdp, table, H = self.mdp, self.mdp.table, self.mdp.horizon
        seen = Seen(np.zeros(table.entries, np.int64), np.zeros(table.rows, np.int64))
        entry = np.zeros((episodes, H), np.int64)
        begins = np.zeros(episodes, np.int64)
        kernels.walk(
            self.rng,
            episodes,
            self.rows(actions),
            self._nature,
            mdp.rewards.pair,
            mdp.rewards.successor,
            False,
            np.full(table.rows, 2**62),
            False,
            seen,
            None,
            None,
            entry,
        )
        del begins
        row = table.row_of_entry[entry]
        pair = row - table.stride * np.arange(H)
        state, following = table.state[pair], table.indices[entry].astype(np.int64)
        ends = np.isin(following, mdp.problem.terminal)
        alive = np.cumsum(ends, axis=1) - ends == 0
        line = np.minimum(np.arange(H), len(mdp.rewards.pair) - 1)
        mean = mdp.rewards.pair[line, pair]
        if mdp.rewards.successor is not None:
            line = np.minimum(np.arange(H), len(mdp.rewards.successor) - 1)
            mean = mean + mdp.rewards.successor[line, entry]
        self._meet(np.column_stack([state, following[:, -1:]]).ravel(), experience)
        t = np.broadcast_to(np.arange(H), alive.shape)
        return Steps(
            t=t[alive],
            state=self.number[state[alive]],
            action=table.action[pair[alive]],
            reward=self.pay(mean[alive]),
            following=self.number[following[alive]],
            starts=self.number[state[:, 0]],
        )

    def _meet(self, states: Ints, experience: Experience) -> None:
        """Number states (n,) of the MDP that were not met before, in this order."""
        met, first = np.unique(states, return_index=True)
        for s in met[np.argsort(first)].tolist():
            if self.number[s] < 0:
                have = self.mdp.table.available[s]
                self.number[s] = experience.find(None if have.all() else have)
                self.met.append(s)
