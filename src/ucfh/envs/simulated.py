"""An MDP as a stepped environment with unknown states, many episodes at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ucfh._kernels import walk as kernels
from ucfh._kernels.types import CountArrays
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh._utils.files import labels_of
from ucfh.envs.environment import RunOutput, SteppedEnvironment
from ucfh.logs.labels import text_of
from ucfh.mdp import MDP
from ucfh.simulation.environment import Simulator, fingerprint
from ucfh.sparse_counts import END, SparseCounts, Steps


class SteppedMDP(SteppedEnvironment):
    """A stepped MDP; states are numbered in the order of discovery, and terminal ones are the end.

    Attributes (in addition to those of `SteppedEnvironment`):
        number: (S,) the number of each state of the MDP; -1: undiscovered.

    """

    def __init__(self, mdp: MDP, seed: int | None) -> None:
        self.mdp, self._seed, self.rng = mdp, seed, np.random.default_rng(seed)
        self.name, self.horizon, self.actions = repr(mdp), mdp.horizon, mdp.actions
        self.identity = fingerprint(mdp, mdp.problem)
        self._states, actions = labels_of(mdp.problem)
        self.action_names = [str(actions.label(a)) for a in range(mdp.actions)]
        self._model = Simulator(mdp, mdp.problem).model
        self.number = np.full(mdp.states, -1)
        self.number[list(mdp.problem.terminal)] = END
        self.labels: list[Hashable] = ["end"]

    def number_of(self, state: Any) -> int:
        """Return the number of a state given by its index or name; -1 if it is undiscovered."""
        return int(self.number[self._states.find(state)])

    def name_of(self, s: int) -> str:
        """Return the MDP's name of a state."""
        if s == END:
            name, others = "end", set(map(text_of, self.mdp.problem.state_names or ()))
            while name in others:
                name = f"the {name}"
            return name
        return str(self._states.label(int(str(self.labels[s]))))

    def restore_states(self, labels: Sequence[Hashable], experience: SparseCounts) -> None:
        """Continue with the states of an earlier run."""
        self.labels += labels
        self.number[np.array(labels, np.int64)] = 1 + np.arange(len(labels))
        if self._seed is not None:  # independent of the earlier draws
            self.rng = np.random.default_rng([self._seed, experience.episodes])

    def draw_rewards(self, mean: Floats) -> Floats:
        """(n,) rewards with means (n,), drawn as by the MDP."""
        if self.mdp.noise is None:
            return mean
        return (self.rng.random(len(mean)) < mean).astype(float)

    def rows(self, actions: Any) -> Ints:
        """(H, S) table rows of the MDP for actions (H, k) by state number; else the first."""
        table, given = self.mdp.table, np.asarray(actions)
        policy = np.tile(table.action[table.first[:-1]], (self.horizon, 1))
        known = (self.number > 0) & (self.number < given.shape[1])
        policy[:, known] = given[:, self.number[known]]
        return table.rows_of(policy, self.horizon)

    def run(
        self, experience: SparseCounts, actions: Sequence[Sequence[int]], episodes: int
    ) -> RunOutput:
        """Run episodes of a policy; see `SteppedEnvironment`."""
        mdp, table, H = self.mdp, self.mdp.table, self.horizon
        entry = np.zeros((episodes, H), np.int64)
        kernels.walk(
            self.rng,
            episodes,
            self.rows(actions),
            self._model,
            mdp.rewards.pair,
            mdp.rewards.successor,
            False,
            np.full(table.rows, 2**62),
            False,
            CountArrays(np.zeros(table.entries, np.int64), np.zeros(table.rows, np.int64)),
            None,
            None,
            entry,
        )
        pair = table.row_of_entry[entry] - table.stride * np.arange(H)
        state, following = table.state[pair], table.indices[entry].astype(np.int64)
        ends = np.isin(following, mdp.problem.terminal)
        alive: Bools = np.cumsum(ends, axis=1) - ends == 0
        alive &= ~np.isin(state[:, :1], mdp.problem.terminal)
        self._discover(np.column_stack([state, following[:, -1:]]).ravel(), experience)
        t = np.broadcast_to(np.arange(H), alive.shape)
        steps = Steps(
            t=t[alive],
            state=self.number[state[alive]],
            action=table.action[pair[alive]],
            reward=self.draw_rewards(self._mean(pair, entry)[alive]),
            following=self.number[following[alive]],
            starts=self.number[state[:, 0]],
        )
        return RunOutput(steps, episodes)

    def _mean(self, pair: Ints, entry: Ints) -> Floats:
        """(k, H) the mean reward of each step, by its pair (k, H) and entry (k, H)."""
        of_pair, of_entry = self.mdp.rewards.pair, self.mdp.rewards.successor
        step = np.arange(self.horizon)
        mean = of_pair[np.minimum(step, len(of_pair) - 1), pair]
        if of_entry is not None:
            mean = mean + of_entry[np.minimum(step, len(of_entry) - 1), entry]
        return np.asarray(mean, float)

    def _discover(self, states: Ints, experience: SparseCounts) -> None:
        """Number the undiscovered ones among states (n,) of the MDP, in this order."""
        met, first = np.unique(states, return_index=True)
        for s in met[np.argsort(first)].tolist():
            if self.number[s] < 0:
                have = self.mdp.table.available[s]
                self.number[s] = experience.find(None if have.all() else have)
                self.labels.append(s)
