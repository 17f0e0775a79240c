"""The format-independent content of a model file, and its conversion to checked models.

A header is a JSON object: ``format`` and ``version``; ``horizon``; ``states`` and ``actions``, each
a list of names or their number; and optionally ``noise``, ``note`` and ``terminal``. A .json file
has these keys at the top level, an .npz file in one of its arrays.

A file describes transitions as entries (row, next state, bounds of the probability), and the start
as a distribution. `build_transitions` builds the transition table from these, and `check_rows`
checks the probabilities. Together with the rewards over that table they form the `ModelContent` of
a file: `to_mdp` makes a model for learning, `to_intervals` one for planning.

The conditions are those of `ucfh._utils.validation` for arrays; here errors name the invalid entry
by its labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ucfh._utils import files, validation
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh._utils.files import JsonObject, Labels, naming
from ucfh._utils.validation import MAX_ROUNDING
from ucfh.exceptions import InputError, unknown
from ucfh.interval_mdp import IntervalMDP
from ucfh.mdp import MDP, Problem
from ucfh.transitions import Rewards, Table, build

FORMAT, VERSION = "ucfh-model", 1
KEYS = ("format", "version", "horizon", "states", "actions")
OPTIONAL_KEYS = ("noise", "note", "terminal")
REMEDY = "divide all of them, and epsilon, by the same number"


@dataclass(frozen=True)
class Header:
    """The header of a file; it also names states and actions in messages."""

    horizon: int
    states: Labels
    actions: Labels
    noise: str | None
    note: str
    terminal: frozenset[int]

    def pair(self, s: int, a: int, t: int | None = None) -> str:
        """Name a state-action pair, for messages."""
        time = "" if t is None else f"t={t}, "
        return f"({time}{self.states.words(s)}, {self.actions.words(a)})"

    def after(self, table: Table, row: int) -> str:
        """Name the place of a table row's successors, for messages."""
        if row == table.start:
            return "at the start"
        t, s, a = table.pair_of(row)
        return f"after {self.pair(s, a, t if table.segments > 1 else None)}"


def write_header(head: Header) -> dict[str, Any]:
    """Return the header as a JSON object, its keys in the order of a file."""
    S, A = (list(x.names) if x.names else x.count for x in (head.states, head.actions))
    header: dict[str, Any] = dict(zip(KEYS, (FORMAT, VERSION, head.horizon, S, A), strict=True))
    if head.noise is not None:
        header["noise"] = head.noise
    if head.note:
        header["note"] = head.note
    if head.terminal:
        header["terminal"] = [head.states.label(s) for s in sorted(head.terminal)]
    return header


def read_header(document: Any, *others: str) -> Header:
    """Read the header of a JSON document, which must have its keys and ``others``."""
    files.check_format(document, FORMAT, VERSION)
    values = files.check_keys(document, (*KEYS, *others), OPTIONAL_KEYS)
    horizon = values["horizon"]
    if not files.is_count(horizon):
        raise InputError(f'"horizon" is {files.show(horizon)}: it must be a number of steps')
    states, actions = (_read_labels(kind, values[f"{kind}s"]) for kind in ("state", "action"))
    noise, note = values.get("noise"), values.get("note", "")
    if noise is not None and noise != "bernoulli":
        raise unknown(
            "noise", noise if isinstance(noise, str) else files.show(noise), ["bernoulli"]
        )
    if not isinstance(note, str):
        raise InputError(f'"note" is {files.show(note)}: it must be a string')
    return Header(horizon, states, actions, noise, note, _read_terminal(states, values))


def _read_labels(kind: str, given: Any) -> Labels:
    if files.is_count(given):
        return Labels(kind, None, given)
    if not isinstance(given, list) or not given or not all(isinstance(x, str) for x in given):
        raise InputError(
            f'"{kind}s" is {files.show(given)}: it must be their number, or a list of their names'
        )
    return Labels(kind, validation.check_names(kind, given, len(given)), len(given))


def _read_terminal(states: Labels, values: JsonObject) -> frozenset[int]:
    terminal = values.get("terminal", [])
    if not isinstance(terminal, list):
        raise InputError(f'"terminal" is {files.show(terminal)}: it must be a list of states')
    with naming("terminal"):
        return frozenset(states.find(s) for s in terminal)


@dataclass(frozen=True)
class ModelContent:
    """The content of a model file; after reading, all but the rewards is checked.

    Attributes:
        head: its header.
        table: the transition table.
        lo, hi: (entries,) bounds of the probabilities; one array if these are known.
        initial: (S,) the start distribution.
        rewards: the rewards over the table.

    """

    head: Header
    table: Table
    lo: Floats
    hi: Floats
    initial: Floats
    rewards: Rewards


def check_size(head: Header, pairs: int) -> None:
    """Raise if the number of actions is far too large: arrays have that size."""
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
    """Build the transition table of a model, and its unchecked bounds.

    Args:
        head: the header of the file.
        segments: 1, or H where transitions depend on t.
        available: (S, A) the available actions of each state.
        rows: (E,) the rectangular row (t*S + s)*A + a of each entry given.
        indices: (E,) its next state.
        low, high: (E,) bounds of its probability.
        initial: (S,) the start distribution.

    Returns:
        The table; (entries,) the index of each of its entries among those given, or -1; and lo
        and hi (entries,), one array if all bounds agree.

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
    """Return lo and hi if every table row admits a distribution, known ones renormalized.

    Args:
        head: the header.
        table: the transition table.
        lo, hi: (entries,) the bounds.
        after: names the successors of a row in messages; None: by its labels.

    Raises:
        InputError: for the first invalid row.

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
    """(S,) the start distribution in probabilities p (entries,)."""
    at = table.entries_of(table.start)
    initial = np.zeros(table.states)
    initial[table.indices[at]] = p[at]
    return initial


def content_of(model: MDP | IntervalMDP) -> ModelContent:
    """Return the content of a file for a model."""
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
    """Make a model for learning: known probabilities, and rewards in [0, 1]."""
    if content.lo is not content.hi:
        raise InputError(
            "its probabilities are intervals, but an agent needs known ones: plan with it "
            "(ucfh plan), or give each probability as one number"
        )
    _check_rewards(content, lambda r, name: validation.check_range(r, name, REMEDY))
    problem = _problem(content, content.rewards)
    return MDP._of(problem, content.lo, content.head.noise, content.head.note)


def to_intervals(content: ModelContent) -> IntervalMDP:
    """Make a model for planning: probabilities or intervals, and rewards of at least 0."""
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
    """Apply ``check`` to pair rewards and to their sums with successor rewards, with names."""
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

    # the pair rewards are in range, so the successor rewards are not too large if the sums are
    check(np.where(after < 0, after, total), name_entry)
