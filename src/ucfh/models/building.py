"""From what a model file says to a checked MDP: the part that both formats share.

A file describes transitions as loose entries (row, next state, probability), and the start as a
distribution. `build_transitions` makes the successor table of these and checks the probabilities;
`build_mdp` adds the rewards, which the format lays out over that table, and checks them.

What must hold is what `ucfh.validation` asks of arrays too; here errors name the entry at fault
by its labels.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ucfh import validation
from ucfh.errors import InputError
from ucfh.models.header import Header
from ucfh.problem import MDP, Problem
from ucfh.table import Bools, Floats, Ints, Rewards, Table, build

REMEDY = "divide all of them, and epsilon, by the same number"


def check_size(head: Header, pairs: int) -> None:
    """Refuse a number of actions that is out of all proportion: arrays are made of that size."""
    S, A = head.states.count, head.actions.count
    if 1000 * pairs + 1_000_000 < S * A:
        raise InputError(
            f'"actions" is {A}, with {S} states and only {pairs} rows: give the largest number '
            "of actions that a state has"
        )


def build_transitions(
    head: Header,
    stages: int,
    available: Bools,
    rows: Ints,
    indices: Ints,
    given: Floats,
    initial: Floats,
) -> tuple[Table, Ints, Floats, Floats]:
    """Make the table of a model, and the probabilities over it.

    Args:
        head: the header of the file.
        stages: 1, or H where transitions depend on t.
        available: (S, A) which actions a state has.
        rows: (E,) the rectangular row (t*S + s)*A + a of each entry given.
        indices: (E,) its next state.
        given: (E,) its probability.
        initial: (S,) the start distribution.

    Returns:
        The table; (entries,) the source of each of its entries among those given, or -1; p
        (entries,); and initial (S,), where p and initial are divided out if they are off.

    """
    start = np.flatnonzero(initial)
    if not start.size:
        raise InputError('"initial" sums to 0: it must sum to 1')
    table, source = build(
        head.states.count, available, stages, rows, indices, start, [*head.terminal]
    )
    p = np.ones(table.entries)
    p[source >= 0] = given[source[source >= 0]]
    at = table.entries_of(table.start)
    p[at] = initial[start]
    p = validation.check_probabilities(table, p, head.states.words, partial(head.after, table))
    initial = np.zeros(table.states)
    initial[start] = p[at]
    return table, source, p, initial


def build_mdp(head: Header, table: Table, p: Floats, initial: Floats, rewards: Rewards) -> MDP:
    """The model, of what `build_transitions` returned and of rewards, which are checked here."""
    _check_rewards(head, table, rewards)
    problem = Problem._of(
        table=table,
        horizon=head.horizon,
        rewards=rewards,
        initial=initial,
        terminal=tuple(sorted(head.terminal)),
        state_names=head.states.names,
        action_names=head.actions.names,
    )
    return MDP._of(problem, p, head.noise, head.note)


def _check_rewards(head: Header, table: Table, rewards: Rewards) -> None:
    """Each part, and the sum of both, is in [0, 1]."""
    reward, after = rewards.pair, rewards.successor

    def name_pair(t: int, k: int) -> str:
        time = t if len(reward) > 1 else None
        return f"of {head.pair(int(table.state[k]), int(table.action[k]), time)}"

    validation.check_range(reward, name_pair, REMEDY)
    if after is None:
        return
    after = after[:, : table.indptr[table.start]]
    stage, of_pair = np.divmod(table.row_of_entry[: after.shape[1]], table.pairs)
    own = (np.minimum(stage, len(reward) - 1)[None], of_pair)
    total = after + reward[own if table.stages > 1 else (slice(None), of_pair)]

    def name_entry(t: int, e: int) -> str:
        where = head.after(table, int(table.row_of_entry[e]))
        time = f", t={t}" if len(total) > 1 else ""
        return f"in {head.states.words(int(table.indices[e]))} {where}{time}"

    # the part of the pair is in [0, 1] by now, so the other is at most 1 if the sum is
    validation.check_range(np.where(after < 0, after, total), name_entry, REMEDY)
