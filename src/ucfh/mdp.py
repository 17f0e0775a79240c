"""The prior knowledge of an agent (`Problem`), and the model with its probabilities (`MDP`).

A fixed-horizon MDP is M = (S, A, r, p, p0, H): an episode starts in s_1 ~ p0 and lasts H steps;
at step t the agent in s_t takes a_t, receives a reward with mean r_t(s_t, a_t) in [0, 1], and
moves to s_{t+1} ~ p(.|s_t, a_t). An agent knows S, A, H and, unless hidden, the rewards, the
successor sets S(s, a) and the start; never p.

Conventions: states and actions are numbered from 0, and so are time steps (the paper's t = 1 is
index 0). Rewards are stored as a part on the pair and, where given, a part on the next state.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ucfh._utils import validation
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh._utils.memory import check_memory
from ucfh.exceptions import InputError, check_count
from ucfh.transitions import Rewards, Table, build

if TYPE_CHECKING:
    from ucfh.planning import Plan

Hidden = Literal["rewards", "successors", "initial"]
ENTRY_BYTES = 100
"""Memory in bytes per entry while a table is built: 90 measured, at 5e6 and 2e7 entries."""


class Problem:
    """The part of an MDP that is known to an agent.

    Args:
        states: S.
        actions: A, the largest number of actions of a state.
        horizon: H.
        rewards: mean rewards in [0, 1], NumPy-broadcast to (H, S, A), so r(s) is (S, 1);
            4-d (1 or H, S, A, S) where they depend on the next state; None if unknown.
        successors: the possible next states: a boolean mask (S, A, S) or (H, S, A, S), or
            (indptr, indices) over rows s*A + a or (t*S + s)*A + a; None: all states.
        initial: the start, a state or a distribution (S,); None if unknown.
        available: (S, A) boolean, True where the state has the action; None: all.
        terminal: absorbing states that end the episode, without reward.
        time_dependent: whether transitions may depend on t, if ``successors`` is not given.
        state_names, action_names: labels for tables and files.

    Attributes:
        table: the successors of each row; its last row is the start.
        rewards: `Rewards`, or None.
        initial: (S,) the start distribution, or None.

    >>> Problem(states=5, actions=2, horizon=5)
    Problem(states=5, actions=2, horizon=5, successors<=5, unknown: rewards, initial)

    """

    table: Table
    horizon: int
    rewards: Rewards | None
    initial: Floats | None
    terminal: tuple[int, ...]
    state_names: tuple[str, ...] | None
    action_names: tuple[str, ...] | None

    def __init__(
        self,
        states: int,
        actions: int,
        horizon: int,
        rewards: Any = None,
        successors: Any = None,
        initial: Any = None,
        *,
        available: Any = None,
        terminal: Sequence[int] = (),
        time_dependent: bool = False,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
    ) -> None:
        S, A = check_count("states", states), check_count("actions", actions)
        H = check_count("horizon", horizon)
        validation.check_truth("time_dependent", time_dependent)
        have = validation.check_available(available, S, A)
        ends = validation.check_states("terminal", terminal, S)
        p0 = None if initial is None else validation.check_initial(initial, S)
        if successors is None:
            segments = H if time_dependent else 1
            rows, indices = _every_entry(segments, S, A)
        else:
            segments, rows, indices = validation.check_successors(successors, S, A, H)
        self.table, _ = build(S, have, segments, rows, indices, _start_states(p0, S), ends)
        self.horizon = H
        self.rewards = None
        if rewards is not None:
            self.rewards = Rewards(*validation.check_rewards(rewards, self.table, H, ends))
        self.initial = p0
        self.terminal = tuple(ends)
        self.state_names = validation.check_names("state", state_names, S)
        self.action_names = validation.check_names("action", action_names, A)

    @classmethod
    def _of(cls, **fields: Any) -> Problem:
        """Return a problem from fields that have been checked."""
        problem = cls.__new__(cls)
        vars(problem).update(fields)
        return problem

    @property
    def states(self) -> int:
        """S."""
        return self.table.states

    @property
    def actions(self) -> int:
        """A, the largest number of actions of a state."""
        return self.table.actions

    @property
    def reward_unknown(self) -> Bools:
        """(rows - 1,) True for unknown mean rewards; the rewards of terminal states are zero."""
        table = self.table
        ends = np.isin(table.state, self.terminal)
        return np.tile(~ends & (self.rewards is None), table.segments)

    def hiding(self, *what: Hidden) -> Problem:
        """Return the problem with some parts hidden: "rewards", "successors", "initial".

        Without successors any state may follow any pair (C = S), but terminal states stay
        terminal: an environment reports the end of an episode. Unknown rewards are learned per row,
        so rewards that depend on t need transitions per segment.

        Raises:
            InputError: if a name is unknown, or rewards depend on t and transitions do not.

        """
        for name in what:
            if name not in ("rewards", "successors", "initial"):
                raise InputError(
                    f"cannot hide {name!r}: choose among rewards, successors and initial"
                )
        old, rewards = self.table, self.rewards
        if "rewards" in what:
            if rewards is not None and rewards.by_segment and old.segments == 1:
                raise InputError(
                    "rewards that depend on t cannot be learned per pair (s, a): give the "
                    "transitions per segment, with shape (H, S, A, S), to learn them per (t, s, a)"
                )
            rewards = None
        p0 = None if "initial" in what else self.initial
        if "successors" in what:
            rows, indices = _every_entry(old.segments, old.states, old.actions)
        else:
            rows, indices = old.rectangular()
        start = _start_states(p0, old.states)
        table, _ = build(
            old.states, old.available, old.segments, rows, indices, start, self.terminal
        )
        if rewards is not None and rewards.successor is not None:
            # a successor that cannot occur has probability zero: its reward does not matter
            by_entry = np.zeros((len(rewards.successor), table.entries))
            by_entry[:, table.positions_of(old)] = rewards.successor
            rewards = Rewards(rewards.pair, by_entry)
        return Problem._of(**{**vars(self), "table": table, "rewards": rewards, "initial": p0})

    def optimistic_start_value(self, V: Floats) -> float:
        """Return the mean of V (S,) over the start if that is known, else the largest V."""
        return float(V.max() if self.initial is None else self.initial @ V)

    def by_segment(self) -> Problem:
        """Return the problem with a row for each time step."""
        table, rewards = self.table.by_segment(self.horizon), self.rewards
        if rewards is not None and rewards.successor is not None and self.table.segments == 1:
            rewards = Rewards(rewards.pair, _by_step(rewards.successor, self.table, self.horizon))
        return Problem._of(**{**vars(self), "table": table, "rewards": rewards})

    def __repr__(self) -> str:
        parts = {"rewards": self.rewards, "initial": self.initial}
        unknown = [name for name, value in parts.items() if value is None]
        segments = ", time-dependent" if self.table.segments > 1 else ""
        return (
            f"Problem(states={self.states}, actions={self.actions}, horizon={self.horizon}, "
            f"successors<={int(self.table.lengths[:-1].max())}{segments}"
            f"{', unknown: ' + ', '.join(unknown) if unknown else ''})"
        )


class MDP:
    """A fixed-horizon MDP: a problem and its true transition probabilities.

    Args:
        transitions: p(s'|s, a) as (S, A, S); p_t(s'|s, a) as (H, S, A, S); or
            (indptr, indices, p) over rows s*A + a or (t*S + s)*A + a, where the shape of
            ``rewards`` gives S and, unless its last axis is 1, A (else the shape of ``available``,
            and without it the rows are assumed not to depend on t).
        rewards: mean rewards in [0, 1], NumPy-broadcast to (H, S, A), so r(s) is (S, 1);
            4-d (1 or H, S, A, S) where they depend on the next state.
        horizon: H.
        initial: the start, a state or a distribution (S,).
        noise: None if rewards equal their mean; "bernoulli" if they are 1 with their mean as the
            probability, and 0 otherwise.
        available: (S, A) boolean, True where the state has the action; None: all. Entries of
            ``transitions`` and ``rewards`` for unavailable actions are ignored.
        terminal: absorbing states that end the episode, without reward; their entries of
            ``transitions`` and ``rewards`` are ignored.
        state_names, action_names: labels for tables and files.
        note: a remark to show with results, such as a rescaling of rewards.

    >>> coin = MDP([[[0.5, 0.5]], [[0, 1]]], rewards=[[0], [1]], horizon=3)
    >>> coin
    MDP(states=2, actions=1, horizon=3, successors<=2)
    >>> coin.value(coin.optimal().policy)  # 1/2 at the second step, 3/4 at the third
    1.25

    """

    def __init__(
        self,
        transitions: Any,
        rewards: Any,
        horizon: int,
        initial: Any = 0,
        *,
        noise: Literal["bernoulli"] | None = None,
        available: Any = None,
        terminal: Sequence[int] = (),
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        note: str = "",
    ) -> None:
        H = check_count("horizon", horizon)
        if noise not in (None, "bernoulli"):
            raise InputError(f"unknown noise {noise!r}: pass None or 'bernoulli'")
        if not isinstance(note, str):
            raise InputError(f"note = {note!r} must be a string")
        S, A, segments, rows, indices, given = validation.check_transitions(
            transitions, rewards, H, available
        )
        have = validation.check_available(available, S, A)
        ends = validation.check_states("terminal", terminal, S)
        p0 = validation.check_initial(initial, S)
        start = _start_states(p0, S)
        table, source = build(S, have, segments, rows, indices, start, ends)
        p = np.where(source >= 0, given[source], 1.0)
        p[table.entries_of(table.start)] = p0[start]
        self.p = validation.check_probabilities(table, p)
        self.rewards = Rewards(*validation.check_rewards(rewards, table, H, ends))
        self.initial = p0
        self.noise = noise
        self.note = note
        self.problem = Problem._of(
            table=table,
            horizon=H,
            rewards=self.rewards,
            initial=p0,
            terminal=tuple(ends),
            state_names=validation.check_names("state", state_names, S),
            action_names=validation.check_names("action", action_names, A),
        )

    @classmethod
    def _of(cls, problem: Problem, p: Floats, noise: str | None, note: str) -> MDP:
        """Return an MDP from parts that have been checked; p (entries,) is not rounded."""
        mdp = cls.__new__(cls)
        vars(mdp).update(problem=problem, p=p, noise=noise, note=note)
        vars(mdp).update(rewards=problem.rewards, initial=problem.initial)
        return mdp

    def by_segment(self) -> MDP:
        """Return the MDP with a row for each time step."""
        p = self.p
        if self.table.segments == 1:
            p = _by_step(p[None], self.table, self.horizon)[0]
        return MDP._of(self.problem.by_segment(), p, self.noise, self.note)

    def noisy(self) -> MDP:
        """Return the MDP with Bernoulli rewards of the same means."""
        return MDP._of(self.problem, self.p, "bernoulli", self.note)

    @property
    def table(self) -> Table:
        """The successors of each row; the last row is the start."""
        return self.problem.table

    @property
    def horizon(self) -> int:
        """H."""
        return self.problem.horizon

    @property
    def states(self) -> int:
        """S."""
        return self.table.states

    @property
    def actions(self) -> int:
        """A, the largest number of actions of a state."""
        return self.table.actions

    @cached_property
    def mean_rewards(self) -> Floats:
        """(1 or H, R) the mean reward of each pair, averaged over the next state."""
        from ucfh.planning import mean_rewards

        return mean_rewards(self.table, self.p, self.rewards)

    def optimal(self) -> Plan:
        """Return an optimal ``policy`` (H, S) and ``values`` (H+1, S), by backward induction."""
        from ucfh.planning import backward_induction

        return backward_induction(self.table, self.p, self.mean_rewards, self.horizon)

    def values(self, policy: Any) -> Floats:
        """Return (H+1, S) V^pi_t(s), the expected reward from step t on; V^pi_{H+1} = 0."""
        from ucfh.planning import evaluate

        rows = self.table.rows_of(policy, self.horizon)
        return evaluate(self.table, self.p, self.mean_rewards, rows)

    def value(self, policy: Any) -> float:
        """Return R^pi, the expected return of an episode."""
        return self.at_start(self.values(policy))

    def at_start(self, values: Floats) -> float:
        """Return the mean of V_1 over the start; values (H+1, S)."""
        return float(self.initial @ values[0])

    def occupancy(self, policy: Any) -> Floats:
        """Return (H, S) the probability of each state at each step."""
        from ucfh.planning import occupancy

        return occupancy(self.table, self.p, self.table.rows_of(policy, self.horizon))

    def weights(self, policy: Any) -> Floats:
        """Return (S, A) w(s, a), the expected visits to each pair in an episode; they sum to H."""
        table = self.table
        rows = table.rows_of(policy, self.horizon)
        pairs = rows - table.stride * np.arange(self.horizon)[:, None]
        w = np.zeros((self.states, self.actions))
        w[table.state, table.action] = np.bincount(
            pairs.ravel(), self.occupancy(policy).ravel(), table.pairs
        )
        return w

    def variance(self, policy: Any) -> float:
        """Return the variance of an episode's return, including the random start and noise."""
        from ucfh.planning import return_variance

        rows = self.table.rows_of(policy, self.horizon)
        return return_variance(
            self.table, self.p, self.rewards, rows, noisy=self.noise == "bernoulli"
        )

    def __repr__(self) -> str:
        return repr(self.problem).replace("Problem", "MDP", 1)


def _start_states(p0: Floats | None, states: int) -> Ints:
    """Return the states in which an episode may begin: all of them if the start is unknown."""
    return np.asarray(np.arange(states) if p0 is None else np.flatnonzero(p0), np.int64)


def _by_step(x: Floats, table: Table, horizon: int) -> Floats:
    """Return x (1 or H, entries) over the entries of `Table.by_segment`, with shape (1, ...)."""
    body = int(table.indptr[table.start])
    by_segment = np.broadcast_to(x[:, :body], (horizon, body))
    return np.concatenate([by_segment.ravel(), x[0, body:]])[None]


def _every_entry(segments: int, states: int, actions: int) -> tuple[Ints, Ints]:
    """Return rectangular row and successor of each entry of a table with full support."""
    entries = segments * states * actions * states
    check_memory(
        f"a table in which any of {states} states may follow any pair",
        ENTRY_BYTES * entries,
        "pass the successors",
    )
    rows, indices = np.divmod(np.arange(entries), states)
    return rows, indices
