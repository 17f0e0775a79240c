"""Between what a model file says and a checked model: the part that all formats share.

A file describes transitions as loose entries (row, next state, bounds of the probability), and the
start as a distribution. `build_transitions` makes the successor table of these, and `check_rows`
checks the probabilities. With rewards, which the format lays out over that table, this is the
`ModelContent` of a file: `to_mdp` makes a model to learn on, `to_intervals` one to plan with.

What must hold is what `ucfh._utils.validation` asks of arrays too; here errors name the entry at
fault by its labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ucfh._utils import files, validation
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh._utils.validation import MAX_ROUNDING
from ucfh.exceptions import InputError
from ucfh.interval_mdp import IntervalMDP
from ucfh.io.header import Header
from ucfh.mdp import MDP, Problem
from ucfh.transitions import Rewards, Table, build

REMEDY = "divide all of them, and epsilon, by the same number"


@dataclass(frozen=True)
class ModelContent:
    """What a file says of a model; when it was read, all but the rewards has been checked.

    Attributes:
        head: its header.
        table: the successors of each row.
        lo, hi: (entries,) bounds of the probabilities; one array where these are known.
        initial: (S,) the start distribution.
        rewards: over the table.

    """

    head: Header
    table: Table
    lo: Floats
    hi: Floats
    initial: Floats
    rewards: Rewards


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
    segments: int,
    available: Bools,
    rows: Ints,
    indices: Ints,
    low: Floats,
    high: Floats,
    initial: Floats,
) -> tuple[Table, Ints, Floats, Floats]:
    """Make the table of a model, and the bounds over it, which are not checked yet.

    Args:
        head: the header of the file.
        segments: 1, or H where transitions depend on t.
        available: (S, A) which actions a state has.
        rows: (E,) the rectangular row (t*S + s)*A + a of each entry given.
        indices: (E,) its next state.
        low, high: (E,) bounds of its probability.
        initial: (S,) the start distribution.

    Returns:
        The table; (entries,) the source of each of its entries among those given, or -1; and lo
        and hi (entries,), one array where all bounds agree.

    """
    start = np.flatnonzero(initial)
    if not start.size:
        raise InputError('"initial" sums to 0: it must sum to 1')
    table, source = build(
        head.states.count, available, segments, rows, indices, start, [*head.terminal]
    )
    at = table.entries_of(table.start)

    def spread(given: Floats) -> Floats:
        p = np.ones(table.entries)
        p[source >= 0] = given[source[source >= 0]]
        p[at] = initial[start]
        return p

    lo = spread(low)
    known = np.array_equal(low, high, equal_nan=True)
    return table, source, lo, lo if known else spread(high)


def check_rows(
    head: Header, table: Table, lo: Floats, hi: Floats, after: Callable[[int], str] | None = None
) -> tuple[Floats, Floats]:
    """(lo, hi) if every row allows a distribution; known probabilities are divided out if off.

    Messages refer to successors by ``after(row)``: by its labels, unless a format knows more.
    """
    after = after or partial(head.after, table)
    if lo is hi:
        p = validation.check_probabilities(table, lo, head.states.words, after)
        return p, p
    wrong = np.flatnonzero(~((lo >= 0) & (lo <= hi) & (hi <= 1 + MAX_ROUNDING)))
    if wrong.size:
        e = int(wrong[0])
        row = int(np.searchsorted(table.indptr, e, side="right")) - 1
        raise InputError(
            f"the bounds of {head.states.words(int(table.indices[e]))} {after(row)} are "
            f"[{lo[e]}, {hi[e]}]: they must satisfy 0 <= lo <= hi <= 1"
        )
    least, most = (np.add.reduceat(bound, table.indptr[:-1]) for bound in (lo, hi))
    off = np.flatnonzero((least > 1 + MAX_ROUNDING) | (most < 1 - MAX_ROUNDING))
    if off.size:
        row = int(off[0])
        raise InputError(
            f"no distribution lies between the bounds {after(row)}: lo sums to {least[row]:.12g} "
            f"and hi to {most[row]:.12g}; 1 must lie between them"
        )
    return lo, hi


def start_of(table: Table, p: Floats) -> Floats:
    """(S,) the start distribution, of probabilities (entries,)."""
    at = table.entries_of(table.start)
    initial = np.zeros(table.states)
    initial[table.indices[at]] = p[at]
    return initial


def content_of(model: MDP | IntervalMDP) -> ModelContent:
    """What a file says of a model."""
    problem, noise = model.problem, None
    if isinstance(model, MDP):
        noise, lo, hi = model.noise, model.p, model.p
    else:
        lo, hi = model.lo, model.hi
    states, actions = files.labels_of(problem)
    terminal = frozenset(problem.terminal)
    head = Header(problem.horizon, states, actions, noise, model.note, terminal)
    return ModelContent(head, model.table, lo, hi, model.initial, model.rewards)


def to_mdp(content: ModelContent) -> MDP:
    """A model to learn on: known probabilities, and rewards in [0, 1]."""
    if content.lo is not content.hi:
        raise InputError(
            "its probabilities are intervals, but an agent needs known ones: plan with it "
            "(ucfh plan), or give each probability as one number"
        )
    _check_rewards(content, lambda r, name: validation.check_range(r, name, REMEDY))
    problem = _problem(content, content.rewards)
    return MDP._of(problem, content.lo, content.head.noise, content.head.note)


def to_intervals(content: ModelContent) -> IntervalMDP:
    """A model to plan with: probabilities or intervals, and rewards of at least 0."""
    most = float(np.finfo(np.float64).max) / (2 * content.head.horizon)  # so that values are finite

    def check(r: Floats, name: Callable[[int, int], str]) -> None:
        wrong = np.argwhere(~((r >= 0) & (r <= most)))
        if wrong.size:
            i, j = wrong[0].tolist()
            raise InputError(
                f"the reward {name(i, j)} is {r[i, j]}: rewards must be numbers of at least 0; "
                "add the same number to all of them, if some are negative"
            )

    _check_rewards(content, check)
    return IntervalMDP(
        _problem(content, None),
        content.rewards,
        content.initial,
        content.lo,
        content.hi,
        content.head.note,
    )


def _problem(content: ModelContent, rewards: Rewards | None) -> Problem:
    return Problem._of(
        table=content.table,
        horizon=content.head.horizon,
        rewards=rewards,
        initial=content.initial,
        terminal=tuple(sorted(content.head.terminal)),
        state_names=content.head.states.names,
        action_names=content.head.actions.names,
    )


def _check_rewards(
    content: ModelContent, check: Callable[[Floats, Callable[[int, int], str]], None]
) -> None:
    """Each part, and the sum of both, is in a range; ``check`` says which, given names."""
    head, table = content.head, content.table
    reward, after = content.rewards.pair, content.rewards.successor

    def name_pair(t: int, k: int) -> str:
        time = t if len(reward) > 1 else None
        return f"of {head.pair(int(table.state[k]), int(table.action[k]), time)}"

    check(reward, name_pair)
    if after is None:
        return
    after = after[:, : table.indptr[table.start]]
    segment, of_pair = np.divmod(table.row_of_entry[: after.shape[1]], table.pairs)
    own = (np.minimum(segment, len(reward) - 1)[None], of_pair)
    total = after + reward[own if table.segments > 1 else (slice(None), of_pair)]

    def name_entry(t: int, e: int) -> str:
        where = head.after(table, int(table.row_of_entry[e]))
        time = f", t={t}" if len(total) > 1 else ""
        return f"in {head.states.words(int(table.indices[e]))} {where}{time}"

    # the part of the pair is in range by now, so the other is small enough if the sum is
    check(np.where(after < 0, after, total), name_entry)
