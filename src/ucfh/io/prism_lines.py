"""Lines of numbers, as PRISM's explicit files of transitions and rewards have them.

The first line that is neither blank nor a comment (#) says how many states, choices and lines
there are. Each line after it holds the indices of an entry, then a number or an interval [lo,hi],
then, in files of transitions, perhaps the name of an action:

    0 1 3 0.8 south
    0 1 4 [0.1,0.2] south

Lines are split into words a few megabytes at a time, and words with the same place in lines of the
same length are converted together. Where that fails, the same is tried line by line, which finds
the one at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ucfh._utils import files
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh._utils.files import AnyPath
from ucfh.exceptions import InputError

CHUNK = 1 << 20
LONGEST = 1 << 16
"""The most bytes of a line: a file with more in one is not of this kind."""
NO_ACTION = b"-"
"""What an action without a name is called; names in PRISM are made of letters and digits."""


@dataclass(frozen=True)
class LineFormat:
    """What the lines of a file say.

    Attributes:
        places: the words for the indices that begin a line.
        value: the word for the number after them.
        transitions: whether that may be an interval, and the name of an action may follow.
        right: from lo, hi (n,) to whether they are such numbers (n,).
        rule: that in words.

    """

    places: tuple[str, ...]
    value: str
    transitions: bool
    right: Callable[[Floats, Floats], Bools]
    rule: str

    def __str__(self) -> str:
        tail = ", where the last may be an interval [lo,hi] and an action may follow"
        return f"'{' '.join((*self.places, self.value))}'{tail if self.transitions else ''}"


@dataclass(frozen=True)
class Entries:
    """What the lines of a file said.

    Attributes:
        index: (places, n) the indices.
        lo, hi: (n,) the numbers, or the ends of the intervals.
        label: (n,) which of the names the action has.
        names: of actions, in alphabetical order.

    """

    index: NDArray[np.int32]
    lo: Floats
    hi: Floats
    label: NDArray[np.int32]
    names: list[bytes]


def read_sizes(file: IO[bytes], lengths: dict[int, str]) -> tuple[list[int], int]:
    """The numbers in the first line that says something, and which line that is.

    How many these may be, and what they stand for, is in ``lengths``.
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
    """The entries of a file.

    Args:
        file: the file, of which ``line`` lines have been read.
        form: what its lines say.
        limits: for each index, how many there are of its kind.
        count: how many entries there are, by the first line.
        line: how many lines have been read.

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
    """The line on which an entry of a file is, counted from 1; for messages."""
    with files.open_bytes(path) as file:
        full = (n for n, x in enumerate(file, 1) if not (x.startswith(b"#") or x.isspace()))
        return next(islice(full, entry + 1, None))  # the sizes come before


def _chunks(file: IO[bytes], line: int) -> Iterator[bytes]:
    """The rest of a file in pieces, each of them whole lines; ``line`` lines have been read."""
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
    """As `Entries`, of some lines; and (n,) the place of each among these lines."""

    index: Ints
    lo: Floats
    hi: Floats
    label: Ints
    place: Ints


def _parse(text: bytes, form: LineFormat, names: dict[bytes, int], line: int) -> _Part:
    """Some lines, of which the first is number ``line`` + 1; new names are added to ``names``."""
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
    """The same, or a ValueError or OverflowError if a line is wrong."""
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

        labelled = form.transitions and size in (width + 2, width + 6)
        numbers = size - width - labelled
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
            called = column(size - 1) if labelled else [NO_ACTION]
            for name in dict.fromkeys(called):
                names.setdefault(name, len(names))
            part.label[some] = [*map(names.__getitem__, called)]
    return part


def _numbers(kind: type[int] | type[float], words: list[bytes], digits: bool) -> NDArray[Any]:
    """Words as numbers; ``digits``: none of them has the _ that Python allows in 1_000."""
    if not digits and b"_" in b"".join(words):
        raise ValueError
    return np.fromiter(map(kind, words), np.dtype(kind), len(words))


def _check(part: _Part, form: LineFormat, limits: list[int], line: int) -> None:
    """Indices exist, and numbers are right; else an error that names the first line at fault."""
    wrong = [
        ((index < 0) | (index >= limit)) for index, limit in zip(part.index, limits, strict=True)
    ]
    wrong.append(~form.right(part.lo, part.hi))
    faults = [(int(mask.argmax()), j) for j, mask in enumerate(wrong) if mask.any()]
    if not faults:
        return
    e, j = min(faults)
    if j < len(limits):
        what = f"{form.places[j]} {part.index[j, e]} does not exist"
        why = f"they are numbered from 0 to {limits[j] - 1}"
    else:
        lo, hi = float(part.lo[e]), float(part.hi[e])
        what = f"the {form.value} is {lo if str(lo) == str(hi) else f'[{lo},{hi}]'}"
        why = form.rule
    raise InputError(f"line {line + part.place[e] + 1}: {what}: {why}")


def _show(line: bytes) -> str:
    """A line in a message, whatever it is."""
    text = line[:60].decode(errors="replace").strip()
    return repr(f"{text}..." if len(line) > 60 else text)
