"""PRISM's explicit-state files, with probabilities or intervals.

    model.tra     transitions; for MDPs "states choices transitions" and lines "i k j x action",
                  for Markov chains "states transitions" and "i j x"; x is a number or [lo,hi]
    model.sta     names of the states: "(x,y)", then lines "i:(1,2)"
    model.lab     labels: '0="init" 1="goal"', then lines "i: 0 1"; "init" marks the start
    model.srew    "states lines", then lines "i x": the reward of state i, at every step
    model.trew    as .tra: the reward of a transition

The first file is required, and one of the last two. The files have no horizon. The total reward of
H steps is C<=H in PRISM.

The first line of a file that is neither blank nor a comment (#) has its sizes. Each line after it
holds the indices of an entry, then a number or an interval [lo,hi], then, in .tra files, optionally
the name of an action:

    0 1 3 0.8 south
    0 1 4 [0.1,0.2] south

Lines are split into words a few megabytes at a time, and words at the same place in lines of the
same length are converted together. If that fails, the lines are converted one by one to find the
invalid one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ucfh._utils import files, validation
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh._utils.files import AnyPath, Labels, naming
from ucfh._utils.memory import check_memory
from ucfh._utils.validation import MAX_ROUNDING
from ucfh.exceptions import InputError, check_count
from ucfh.io.building import Header, ModelContent, build_transitions, check_rows
from ucfh.transitions import Rewards, Table

TRANSITION_BYTES, STATE_BYTES = 160, 64
"""Bytes of memory needed to read a model, at most (measured)."""

CHOICE = ("state", "choice", "next state")
CHAIN = ("state", "next state")

CHUNK = 1 << 20
LONGEST = 1 << 16
"""Most bytes of a line."""
NO_ACTION = b"-"
"""The name of an unnamed action; names in PRISM consist of letters and digits."""


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
    """The content of a .tra file.

    Attributes:
        path: the file.
        states: S.
        chain: True for a Markov chain, without choices.
        entries: its lines, with choice 0 in each line of a chain.
        keys: (choices,) state * width + choice, ascending.
        width: the largest number of choices of a state.
        number: (entries,) the index of each entry's choice among the keys.

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
    """Read a .tra file and its companion files; see `ucfh.io.read_intervals`."""
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
    """Return the given file, or the one of the same name with another ending, if it exists."""
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
        missing = np.setdiff1d(np.arange(S), keys // width)
        if missing.size:
            s = missing[0]
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
    """Return the actions, by name or number, and (choices,) the action of each choice."""
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
    """Return the transition table, and the bounds over it."""
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
    """Return the lines of a file that are neither blank nor comments, with their numbers."""
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
    """Read the names of the states: the values of the variables, in brackets."""
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
    """Read the state with the label init."""
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
    """Read the lines of a file of rewards, for a model of these sizes."""
    limits = [sizes[-1] if word == "choice" else sizes[0] for word in places]
    with files.open_bytes(path) as file, naming(path):
        words = "states choices rewards" if "choice" in places else "states rewards"
        (*given, count), line = read_sizes(file, {len(words.split()): words})
        if given != sizes:
            raise InputError(f"line {line}: the sizes are {given}, but those of the model {sizes}")
        check_memory(f"{count} rewards", TRANSITION_BYTES * count)
        return read_entries(file, _reward(places), limits, count, line)


def _refuse_twice(path: AnyPath, keys: Ints) -> None:
    """Raise if two lines of a file have the same key (n,)."""
    order = np.argsort(keys, kind="stable")
    twice = np.flatnonzero(np.diff(keys[order]) == 0)
    if twice.size:
        one, other = (line_of(path, int(order[i])) for i in (twice[0], twice[0] + 1))
        raise InputError(f"line {other} repeats line {one}: keep only one")


def _read_state_rewards(path: AnyPath, states: int) -> Floats:
    """(S,) the reward of each state."""
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
    """(entries,) the reward of each transition of the table."""
    sizes = [tra.states] if tra.chain else [tra.states, len(tra.keys)]
    entries = _read_rewards(path, sizes, CHAIN if tra.chain else CHOICE)
    state, *choices, following = entries.index.astype(np.int64)
    choice = choices[0] if choices else np.zeros_like(state)
    key = state * tra.width + choice
    number = np.minimum(np.searchsorted(tra.keys, key), len(tra.keys) - 1)
    # table rows are pairs in order, and every pair is one choice
    pair = tra.keys // tra.width * table.actions + action
    row = np.searchsorted(table.state * table.actions + table.action, pair)[number]
    target = row * table.states + following
    have = np.repeat(np.arange(table.rows), table.lengths) * table.states + table.indices
    place = np.minimum(np.searchsorted(have, target), table.entries - 1)
    # a choice beyond the width would have the key of a choice of another state
    known = (choice < tra.width) & (tra.keys[number] == key) & (have[place] == target)
    unknown = np.flatnonzero(~known)
    with naming(path):
        if unknown.size:
            line = line_of(path, int(unknown[0]))
            raise InputError(f"line {line}: {tra.path} has no such transition: add it there")
        _refuse_twice(path, place)
    reward = np.zeros(table.entries)
    reward[place] = entries.lo
    return reward


def _add(table: Table, pair: Floats, transition: Floats) -> Rewards:
    """Combine rewards (R,) and (entries,); into one kind if transitions of a choice agree."""
    least, most = (f.reduceat(transition, table.indptr[:-1]) for f in (np.minimum, np.maximum))
    if np.array_equal(least, most):
        return Rewards((pair + least[:-1])[None])
    return Rewards(pair[None], transition[None])


# -- lines of numbers


@dataclass(frozen=True)
class LineFormat:
    """The format of the lines of a file.

    Attributes:
        places: the words for the indices that begin a line.
        value: the word for the number after them.
        transitions: True if intervals and names of actions are allowed.
        valid: maps lo, hi (n,) to the validity (n,) of the numbers.
        rule: the condition for validity, for messages.

    """

    places: tuple[str, ...]
    value: str
    transitions: bool
    valid: Callable[[Floats, Floats], Bools]
    rule: str

    def __str__(self) -> str:
        tail = ", where the last may be an interval [lo,hi] and an action may follow"
        return f"'{' '.join((*self.places, self.value))}'{tail if self.transitions else ''}"


@dataclass(frozen=True)
class Entries:
    """The entries of a file.

    Attributes:
        index: (places, n) the indices.
        lo, hi: (n,) the numbers, or the ends of the intervals.
        label: (n,) the index of the action's name.
        names: the names of actions, in alphabetical order.

    """

    index: NDArray[np.int32]
    lo: Floats
    hi: Floats
    label: NDArray[np.int32]
    names: list[bytes]


def read_sizes(file: IO[bytes], lengths: dict[int, str]) -> tuple[list[int], int]:
    """Return the numbers in the first line with content, and the number of that line.

    ``lengths`` maps the allowed numbers of sizes to their meaning.
    """
    expected = " or ".join(f"'{words}'" for words in lengths.values())
    number, line = 1, file.readline(LONGEST)
    while line.startswith(b"#") or line.isspace():
        number, line = number + 1, file.readline(LONGEST)
    sizes = [int(word) for word in line.split() if word.isdigit() and len(word) < 19]
    if len(sizes) != len(line.split()) or len(sizes) not in lengths or not line.endswith(b"\n"):
        raise InputError(f"line {number} is {_show(line)}: it must give the sizes, {expected}")
    return sizes, number


def read_entries(
    file: IO[bytes], form: LineFormat, limits: list[int], count: int, line: int
) -> Entries:
    """Read the entries of a file.

    Args:
        file: the file, of which ``line`` lines have been read.
        form: the format of its lines.
        limits: for each index, the number of its kind.
        count: the number of entries, by the first line.
        line: the number of lines read so far.

    """
    index = np.zeros((len(form.places), count), np.int32)
    lo, hi, label = np.zeros(count), np.zeros(count), np.zeros(count, np.int32)
    names: dict[bytes, int] = {}
    done = 0
    for text in _chunks(file, line):
        part = _parse(text, form, names, line)
        _check(part, form, limits, line)
        end = done + len(part.lo)
        if end > count:
            raise InputError(
                f"it has more entries than the {count} that its sizes say: correct the sizes"
            )
        at = slice(done, end)
        index[:, at], lo[at], hi[at], label[at] = part.index, part.lo, part.hi, part.label
        done, line = end, line + text.count(b"\n")
    if done < count:
        raise InputError(
            f"it ends on line {line}, after {done} of {count} entries: it is cut short, or its "
            "sizes are wrong"
        )
    order = sorted(names)
    rank = np.argsort([names[name] for name in order]).astype(np.int32)
    return Entries(index, lo, hi, rank[label] if names else label, order)


def line_of(path: AnyPath, entry: int) -> int:
    """Return the line number of an entry of a file, from 1, for messages."""
    with files.open_bytes(path) as file:
        full = (n for n, x in enumerate(file, 1) if not (x.startswith(b"#") or x.isspace()))
        return next(islice(full, entry + 1, None))  # after the line of the sizes


def _chunks(file: IO[bytes], line: int) -> Iterator[bytes]:
    """Yield the rest of a file in pieces of full lines; ``line`` lines have been read."""
    rest = b""
    while len(rest) <= LONGEST and (block := file.read(CHUNK)):
        block = rest + block
        cut = block.rfind(b"\n") + 1
        rest = block[cut:]
        line += block.count(b"\n")
        if cut:
            yield block[:cut]
    if rest:
        raise InputError(
            f"line {line + 1} does not end: the file is cut short, or the line break at its end "
            "is missing"
        )


@dataclass(frozen=True)
class _Part:
    """The entries of some lines, and (n,) the index of each among these lines."""

    index: Ints
    lo: Floats
    hi: Floats
    label: Ints
    place: Ints


def _parse(text: bytes, form: LineFormat, names: dict[bytes, int], line: int) -> _Part:
    """Parse lines, the first with number ``line`` + 1; new names are added to ``names``."""
    try:
        return _convert(text, form, names)
    except (ValueError, OverflowError):
        for number, one in enumerate(text.split(b"\n"), line + 1):
            try:
                _convert(one + b"\n", form, {})
            except (ValueError, OverflowError):
                raise InputError(f"line {number} is {_show(one)}: it must be {form}") from None
        raise


def _convert(text: bytes, form: LineFormat, names: dict[bytes, int]) -> _Part:
    """Convert lines; a ValueError or OverflowError if one is invalid."""
    for bracket in (b"[", b",", b"]"):
        text = text.replace(bracket, b" " + bracket + b" ")
    words, digits = text.split(), b"_" not in text
    letters = np.frombuffer(text, np.uint8)
    blank = (letters == 32) | ((letters >= 9) & (letters <= 13))  # as split() has it
    begins = ~blank
    begins[1:] &= blank[:-1]
    ends = np.flatnonzero(letters == 10)
    sizes = np.add.reduceat(begins, np.append(0, ends[:-1]), dtype=np.int64)  # of lines, in words
    place = np.flatnonzero(sizes)
    sizes = sizes[place]
    first = np.cumsum(sizes) - sizes
    n, width = len(place), len(form.places)
    index, label = np.zeros((width, n), np.int64), np.zeros(n, np.int64)
    part = _Part(index, np.zeros(n), np.zeros(n), label, place)
    for size in np.unique(sizes).tolist():
        some = np.flatnonzero(sizes == size)

        def column(j: int, some: Ints = some, size: int = size) -> list[bytes]:
            if len(some) == n:
                return words[j::size]
            return [words[i] for i in (first[some] + j).tolist()]

        labeled = form.transitions and size in (width + 2, width + 6)
        numbers = size - width - labeled
        if numbers not in ((1, 5) if form.transitions else (1,)):
            raise ValueError
        for j in range(width):
            part.index[j, some] = _numbers(int, column(j), digits)
        low = high = width
        if numbers == 5:
            for j, bracket in enumerate((b"[", b",", b"]")):
                if {*column(width + 2 * j)} != {bracket}:
                    raise ValueError
            low, high = width + 1, width + 3
        part.lo[some] = _numbers(float, column(low), digits)
        part.hi[some] = part.lo[some] if low == high else _numbers(float, column(high), digits)
        if form.transitions:
            called = column(size - 1) if labeled else [NO_ACTION]
            for name in dict.fromkeys(called):
                names.setdefault(name, len(names))
            part.label[some] = [*map(names.__getitem__, called)]
    return part


def _numbers(kind: type[int] | type[float], words: list[bytes], digits: bool) -> NDArray[Any]:
    """Convert words to numbers; ``digits``: none has the _ that Python allows in 1_000."""
    if not digits and b"_" in b"".join(words):
        raise ValueError
    return np.fromiter(map(kind, words), np.dtype(kind), len(words))


def _check(part: _Part, form: LineFormat, limits: list[int], line: int) -> None:
    """Raise for the first line with an unknown index or an invalid number."""
    wrong = [
        ((index < 0) | (index >= limit)) for index, limit in zip(part.index, limits, strict=True)
    ]
    wrong.append(~form.valid(part.lo, part.hi))
    invalid = [(int(mask.argmax()), j) for j, mask in enumerate(wrong) if mask.any()]
    if not invalid:
        return
    e, j = min(invalid)
    if j < len(limits):
        what = f"{form.places[j]} {part.index[j, e]} does not exist"
        why = f"they are numbered from 0 to {limits[j] - 1}"
    else:
        lo, hi = float(part.lo[e]), float(part.hi[e])
        what = f"the {form.value} is {lo if str(lo) == str(hi) else f'[{lo},{hi}]'}"
        why = form.rule
    raise InputError(f"line {line + part.place[e] + 1}: {what}: {why}")


def _show(line: bytes) -> str:
    """Quote the beginning of a line, for messages."""
    text = line[:60].decode(errors="replace").strip()
    return repr(f"{text}..." if len(line) > 60 else text)
