"""Models as PRISM's explicit-state files: what other tools export, with intervals or without.

    model.tra     transitions; for MDPs "states choices transitions" and lines "i k j x action",
                  for Markov chains "states transitions" and "i j x"; x is a number or [lo,hi]
    model.sta     what the states are called: "(x,y)", then lines "i:(1,2)"
    model.lab     labels: '0="init" 1="goal"', then lines "i: 0 1"; where an episode starts
    model.srew    "states lines", then lines "i x": what is paid in state i, at every step
    model.trew    as .tra: what is paid for a transition, or for a choice if it is all the same

Only the first is needed, and one of the last two. The horizon is not in them. The total reward of
H steps is what PRISM calls C<=H.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ucfh._utils import files, validation
from ucfh._utils.arrays import Floats, Ints
from ucfh._utils.files import AnyPath, Labels, naming
from ucfh._utils.memory import check_memory
from ucfh._utils.validation import MAX_ROUNDING
from ucfh.exceptions import InputError, check_count
from ucfh.io.building import ModelContent, build_transitions, check_rows
from ucfh.io.header import Header
from ucfh.io.prism_lines import NO_ACTION, Entries, LineFormat, line_of, read_entries, read_sizes
from ucfh.transitions import Rewards, Table

TRANSITION_BYTES, STATE_BYTES = 160, 64
"""At most this many are needed while a model is read, as measured."""

CHOICE = ("state", "choice", "next state")
CHAIN = ("state", "next state")


def _transition(places: tuple[str, ...]) -> LineFormat:
    return LineFormat(
        places,
        "probability",
        True,
        lambda lo, hi: (lo >= 0) & (lo <= hi) & (hi <= 1 + MAX_ROUNDING),
        "it must be in [0, 1], and lo <= hi in an interval",
    )


def _reward(places: tuple[str, ...]) -> LineFormat:
    return LineFormat(
        places,
        "reward",
        False,
        lambda x, _: (x >= 0) & (x < np.inf),
        "it must be a number of at least 0",
    )


@dataclass(frozen=True)
class _Transitions:
    """What a .tra file says.

    Attributes:
        path: the file.
        states: S.
        chain: whether it is a Markov chain, without choices.
        entries: its lines, with choice 0 in each where it is a chain.
        keys: (choices,) state * width + choice, ascending.
        width: the largest number of choices of a state.
        number: (entries,) the place of each one's choice among the keys.

    """

    path: AnyPath
    states: int
    chain: bool
    entries: Entries
    keys: Ints
    width: int
    number: Ints


def from_prism(
    path: AnyPath,
    horizon: int,
    states: AnyPath | None = None,
    labels: AnyPath | None = None,
    state_rewards: AnyPath | None = None,
    transition_rewards: AnyPath | None = None,
) -> ModelContent:
    """What a .tra file and those beside it say of a model; see `ucfh.io.read_intervals`."""
    H = check_count("horizon", horizon)
    sta, lab, srew, trew = (
        _beside(path, given, ending)
        for given, ending in (
            (states, ".sta"),
            (labels, ".lab"),
            (state_rewards, ".srew"),
            (transition_rewards, ".trew"),
        )
    )
    if srew is None and trew is None and Path(path).is_file():
        raise InputError(
            f"{path} has no rewards: put a .srew or .trew file of the same name beside it, or "
            "pass --state-rewards or --transition-rewards"
        )
    tra = _read_transitions(path)
    with naming(path):
        actions, action = _actions(tra)
    head = Header(
        horizon=H,
        states=Labels("state", None if sta is None else _read_states(sta, tra.states), tra.states),
        actions=actions,
        noise=None,
        note="",
        terminal=frozenset(),
    )
    initial = np.zeros(tra.states)
    initial[0 if lab is None else _read_start(lab, tra.states)] = 1
    with naming(path):
        table, lo, hi = _build(head, tra, action, initial)
    of_pair, of_entry = np.zeros(table.pairs), np.zeros(table.entries)
    if srew is not None:
        of_pair = _read_state_rewards(srew, tra.states)[table.state]
    if trew is not None:
        of_entry = _read_transition_rewards(trew, tra, table, action)
    return ModelContent(head, table, lo, hi, initial, _add(table, of_pair, of_entry))


def _beside(path: AnyPath, given: AnyPath | None, ending: str) -> AnyPath | None:
    """The file given, or the one of the same name with another ending, if it exists."""
    if given is not None:
        return given
    other = Path(path).with_suffix(ending)
    return other if other.exists() else None


def _read_transitions(path: AnyPath) -> _Transitions:
    with files.open_bytes(path) as file, naming(path):
        sizes, line = read_sizes(file, {3: "states choices transitions", 2: "states transitions"})
        S, chain, count = sizes[0], len(sizes) == 2, sizes[-1]
        choices = S if chain else sizes[1]
        check_memory(
            f"a model of {S} states and {count} transitions",
            TRANSITION_BYTES * (count + choices) + STATE_BYTES * S,
        )
        if not files.is_count(S):
            raise InputError(f"line {line}: {S} states: there must be at least 1, and below 2^31")
        limits = [S, S] if chain else [S, choices, S]
        form = _transition(CHAIN if chain else CHOICE)
        entries = read_entries(file, form, limits, count, line)
        if chain:
            index = np.insert(entries.index, 1, 0, axis=0)
            entries = Entries(index, entries.lo, entries.hi, entries.label, entries.names)
        state, choice, _ = entries.index
        width = int(choice.max(initial=0)) + 1
        key = state.astype(np.int64) * width + choice
        keys = np.unique(key)
        lacking = np.setdiff1d(np.arange(S), keys // width)
        if lacking.size:
            s = lacking[0]
            raise InputError(
                f"state {s} has no transition: if an episode stays there, write '{s} "
                f"{'' if chain else '0 '}{s} 1'"
            )
        if len(keys) != choices:
            raise InputError(
                f"it has {len(keys)} choices, but line {line} says {choices}: it is cut short, or "
                "that number is wrong"
            )
        number = np.searchsorted(keys, key)
        _refuse_twice(path, number * S + entries.index[2])
        return _Transitions(path, S, chain, entries, keys, width, number)


def _actions(tra: _Transitions) -> tuple[Labels, Ints]:
    """The actions, and (choices,) which of them each choice is: by name, or by number."""
    entries, count = tra.entries, len(tra.entries.names)
    state, choice = np.divmod(tra.keys, tra.width)
    by_number = Labels("action", None, tra.width), choice
    if tra.chain or entries.names == [NO_ACTION]:
        return by_number
    label = np.zeros(len(tra.keys), np.int64)
    label[tra.number] = entries.label
    other = np.flatnonzero(label[tra.number] != entries.label)
    if other.size:
        line = line_of(tra.path, int(other[0]))
        raise InputError(
            f"line {line}: this choice has another action on another line: keep only one"
        )
    if tra.states * count > 16 * len(tra.keys) + 1_000_000:
        return by_number  # names of single choices rather than of actions
    if len(np.unique(state * count + label)) < len(label):
        return by_number  # a state that has two choices of one name
    names = [name.decode(errors="replace") for name in entries.names]
    return Labels("action", validation.check_names("action", names, count), count), label


def _build(
    head: Header, tra: _Transitions, action: Ints, initial: Floats
) -> tuple[Table, Floats, Floats]:
    """The table, and the bounds over it."""
    S, A = tra.states, head.actions.count
    check_memory(f"a table of {S} states and {A} actions", 12 * S * A)
    pair = tra.keys // tra.width * A + action
    available = np.zeros((S, A), bool)
    available.flat[pair] = True
    entries = tra.entries
    table, source, lo, hi = build_transitions(
        head,
        1,
        available,
        pair[tra.number],
        entries.index[2].astype(np.int64),
        entries.lo,
        entries.hi,
        initial,
    )

    def after(row: int) -> str:
        line = line_of(tra.path, int(source[table.entries_of(row)].min()))
        return f"{head.after(table, row)} (from line {line} on)"

    return table, *check_rows(head, table, lo, hi, after)


def _text_lines(path: AnyPath) -> list[tuple[int, str]]:
    """The lines of a short file that say something, with their numbers."""
    text = files.read_text(path)
    lines = text.split("\n")
    if lines.pop():
        raise InputError(
            f"{path}: line {len(lines) + 1} does not end: the file is cut short, or the line "
            "break at its end is missing"
        )
    full = [(i, line.strip()) for i, line in enumerate(lines, 1)]
    return [(i, line) for i, line in full if line and not line.startswith("#")]


def _read_states(path: AnyPath, states: int) -> tuple[str, ...]:
    """The names of the states: the values of the variables, in brackets."""
    names: dict[int, str] = {}
    numbers = Labels("state", None, states)
    for number, line in _text_lines(path)[1:]:
        with naming(path), naming(f"line {number}"):
            index, _, name = line.partition(":")
            s = numbers.find(index)
            if not name or s in names:
                raise InputError(
                    f"{line!r} is not of the form 'i:(values)', or state {s} appears twice"
                )
            names[s] = name
    with naming(path):
        if len(names) < states:
            s = next(s for s in range(states) if s not in names)
            raise InputError(f"state {s} is missing: the file is cut short, or for another model")
        listed = [names[s] for s in range(states)]
        return validation.check_names("state", listed, states) or ()


def _read_start(path: AnyPath, states: int) -> int:
    """The state that has the label init."""
    (_, first), *lines = _text_lines(path) or [(1, "")]
    with naming(path):
        named = [re.fullmatch(r'(\d+)="([^"]*)"', word) for word in first.split()]
        numbers_of = [word[1] for word in named if word and word[2] == "init"]
        if len(numbers_of) != 1 or not all(named):
            raise InputError(
                f"its first line is {first[:60]!r}: it must list the labels and init among them, "
                'such as 0="init" 1="goal"'
            )
        starts = []
        numbers = Labels("state", None, states)
        for number, line in lines:
            with naming(f"line {number}"):
                index, _, labels = line.partition(":")
                s = numbers.find(index)
                if numbers_of[0] in labels.split():
                    starts.append(s)
        if len(starts) != 1:
            raise InputError(
                f"{len(starts)} states have the label init: give it only to the one in which "
                "an episode starts"
            )
        return starts[0]


def _read_rewards(path: AnyPath, sizes: list[int], places: tuple[str, ...]) -> Entries:
    """The lines of a file of rewards, for a model of these sizes."""
    limits = [sizes[-1] if word == "choice" else sizes[0] for word in places]
    with files.open_bytes(path) as file, naming(path):
        words = "states choices rewards" if "choice" in places else "states rewards"
        (*found, count), line = read_sizes(file, {len(words.split()): words})
        if found != sizes:
            raise InputError(f"line {line}: the sizes are {found}, but those of the model {sizes}")
        check_memory(f"{count} rewards", TRANSITION_BYTES * count)
        return read_entries(file, _reward(places), limits, count, line)


def _refuse_twice(path: AnyPath, keys: Ints) -> None:
    """Raise if two lines of a file are about the same thing, by the keys (n,) of the lines."""
    order = np.argsort(keys, kind="stable")
    twice = np.flatnonzero(np.diff(keys[order]) == 0)
    if twice.size:
        one, other = (line_of(path, int(order[i])) for i in (twice[0], twice[0] + 1))
        raise InputError(f"line {other} repeats line {one}: keep only one")


def _read_state_rewards(path: AnyPath, states: int) -> Floats:
    """(S,) what is paid in each state."""
    entries = _read_rewards(path, [states], ("state",))
    at = entries.index[0].astype(np.int64)
    with naming(path):
        _refuse_twice(path, at)
    reward = np.zeros(states)
    reward[at] = entries.lo
    return reward


def _read_transition_rewards(
    path: AnyPath, tra: _Transitions, table: Table, action: Ints
) -> Floats:
    """(entries,) what is paid for each transition of the table."""
    sizes = [tra.states] if tra.chain else [tra.states, len(tra.keys)]
    entries = _read_rewards(path, sizes, CHAIN if tra.chain else CHOICE)
    state, *choices, following = entries.index.astype(np.int64)
    choice = choices[0] if choices else np.zeros_like(state)
    key = state * tra.width + choice
    number = np.minimum(np.searchsorted(tra.keys, key), len(tra.keys) - 1)
    # rows are pairs in order, and every pair is one choice
    pair = tra.keys // tra.width * table.actions + action
    row = np.searchsorted(table.state * table.actions + table.action, pair)[number]
    wanted = row * table.states + following
    have = np.repeat(np.arange(table.rows), table.lengths) * table.states + table.indices
    place = np.minimum(np.searchsorted(have, wanted), table.entries - 1)
    # a choice beyond the width would have the key of one of another state
    known = (choice < tra.width) & (tra.keys[number] == key) & (have[place] == wanted)
    lacking = np.flatnonzero(~known)
    with naming(path):
        if lacking.size:
            line = line_of(path, int(lacking[0]))
            raise InputError(f"line {line}: {tra.path} has no such transition: add it there")
        _refuse_twice(path, place)
    reward = np.zeros(table.entries)
    reward[place] = entries.lo
    return reward


def _add(table: Table, pair: Floats, transition: Floats) -> Rewards:
    """Both kinds of rewards, (R,) and (entries,); as one, if transitions of a choice agree."""
    least, most = (f.reduceat(transition, table.indptr[:-1]) for f in (np.minimum, np.maximum))
    if np.array_equal(least, most):
        return Rewards((pair + least[:-1])[None])
    return Rewards(pair[None], transition[None])
