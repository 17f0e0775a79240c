"""Simulated power cuts: the possible contents of files if unsynchronized writes may be lost.

A process runs under `file_trace.c`, which writes down what it does to the files of a folder. Of
a moment of that trace, `left_by` makes what a disk may hold if the power fails then: all that was
synchronized, and of the rest, 512 bytes each, whatever chance leaves.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

WRITTEN, CUT, SYNCHRONIZED, MADE, REMOVED = range(5)
SECTOR = 512
FOLDER = ""
HERE = Path(__file__).parent


class Change(NamedTuple):
    """Change of a file: bytes written at an offset, cut to a size, ... ."""

    what: int
    name: str
    offset: int
    data: bytes


def compiled(compiler: str, folder: Path) -> Path:
    """The library that traces."""
    library = folder / "file_trace.so"
    source = HERE / "file_trace.c"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library


def traced(code: str, folder: Path, library: Path, *arguments: str) -> list[Change]:
    """Return the changes that Python code makes to the files of a folder."""
    out = folder.with_suffix(".trace")
    subprocess.run(
        [sys.executable, "-c", code, str(folder), *arguments],
        check=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "LD_PRELOAD": str(library),
            "TRACE_FOLDER": str(folder),
            "TRACE_FILE": str(out),
        },
    )
    trace, head, at, changes = out.read_bytes(), struct.Struct("iiqq"), 0, []
    while at < len(trace):
        what, named, offset, size = head.unpack_from(trace, at)
        at += head.size
        name, at = trace[at : at + named].decode(), at + named
        data, at = trace[at : at + size], at + size
        changes.append(Change(what, name, offset, data))
    return changes


class Disk:
    """A folder as programs see it, and what is certain to be on the disk.

    Attributes:
        names: the numbers of the files that are there by name; kept: as the disk has it.
        images: what is certain of each file by number.
        doubtful: the changes of each file since it was synchronized last.
        renaming: the names that were made or removed since the folder was synchronized last.

    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.kept: dict[str, int] = {}
        self.images: list[bytearray] = []
        self.doubtful: list[list[Change]] = []
        self.renaming: list[tuple[str, int]] = []

    def take(self, change: Change) -> None:
        """Take the next change."""
        name = change.name
        if change.what == MADE:
            self._rename(name, len(self.images))
            self.images.append(bytearray())
            self.doubtful.append([])
        elif change.what == REMOVED:
            self._rename(name, -1)
        elif change.what == SYNCHRONIZED and name == FOLDER:
            self.kept, self.renaming = dict(self.names), []
        elif name in self.names:  # and not one that was removed while it was open
            number = self.names[name]
            if change.what == SYNCHRONIZED:
                for old in self.doubtful[number]:
                    _apply(self.images[number], old)
                self.doubtful[number] = []
            else:
                self.doubtful[number].append(change)

    def _rename(self, name: str, number: int) -> None:
        self.renaming.append((name, number))
        _set(self.names, name, number)

    def left_by(self, draw: Random) -> dict[str, bytes]:
        """Files by name, as a power cut may leave them now."""
        share, names = draw.choice((0.0, 0.2, 0.5, 0.8, 1.0)), dict(self.kept)
        for name, number in self.renaming[: draw.randint(0, len(self.renaming))]:
            _set(names, name, number)
        out = {}
        for name, number in names.items():
            image = bytearray(self.images[number])
            for change in self.doubtful[number]:
                for part in _sectors(change):
                    if draw.random() < share:
                        _apply(image, part)
            out[name] = bytes(image)
        return out


def _set(names: dict[str, int], name: str, number: int) -> None:
    if number < 0:
        names.pop(name, None)
    else:
        names[name] = number


def _sectors(change: Change) -> Iterator[Change]:
    """Parts of a change that a disk does wholly or not at all."""
    if change.what == CUT:
        yield change
        return
    at, end = change.offset, change.offset + len(change.data)
    while at < end:
        then = min(end, at - at % SECTOR + SECTOR)
        part = change.data[at - change.offset : then - change.offset]
        yield change._replace(offset=at, data=part)
        at = then


def _apply(image: bytearray, change: Change) -> None:
    if change.what == CUT:
        missing = change.offset - len(image)
        image.extend(bytes(max(0, missing)))
        del image[change.offset :]
        return
    image.extend(bytes(max(0, change.offset - len(image))))
    image[change.offset : change.offset + len(change.data)] = change.data
