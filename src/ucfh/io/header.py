"""What .json and .npz models have in common: all but start, transitions and rewards.

A header is a JSON object: ``format`` and ``version``; ``horizon``; ``states`` and ``actions``, each
a list of names or how many there are; and, where they say something, ``noise``, ``note`` and
``terminal``. A .json file has its keys at the top, an .npz file has it as one of its arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ucfh._utils import files, validation
from ucfh._utils.files import JsonObject, Labels, naming
from ucfh.exceptions import InputError, unknown
from ucfh.transitions import Table

FORMAT, VERSION = "ucfh-model", 1
KEYS = ("format", "version", "horizon", "states", "actions")
OPTIONAL_KEYS = ("noise", "note", "terminal")


@dataclass(frozen=True)
class Header:
    """What a header says, and how messages refer to states and actions."""

    horizon: int
    states: Labels
    actions: Labels
    noise: str | None
    note: str
    terminal: frozenset[int]

    def pair(self, s: int, a: int, t: int | None = None) -> str:
        """A pair in words, for messages."""
        time = "" if t is None else f"t={t}, "
        return f"({time}{self.states.words(s)}, {self.actions.words(a)})"

    def after(self, table: Table, row: int) -> str:
        """Where the successors of a row of a table come, in words."""
        if row == table.start:
            return "at the start"
        t, s, a = table.pair_of(row)
        return f"after {self.pair(s, a, t if table.segments > 1 else None)}"


def write_header(head: Header) -> dict[str, Any]:
    """The header as a JSON object, its keys in the order in which they are written."""
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
    """The header in a JSON document, which must have the keys of a header and ``others``."""
    files.check_format(document, FORMAT, VERSION)
    found = files.check_keys(document, (*KEYS, *others), OPTIONAL_KEYS)
    horizon = found["horizon"]
    if not files.is_count(horizon):
        raise InputError(f'"horizon" is {files.show(horizon)}: it must be a number of steps')
    states, actions = (_read_labels(kind, found[f"{kind}s"]) for kind in ("state", "action"))
    noise, note = found.get("noise"), found.get("note", "")
    if noise is not None and noise != "bernoulli":
        raise unknown(
            "noise", noise if isinstance(noise, str) else files.show(noise), ["bernoulli"]
        )
    if not isinstance(note, str):
        raise InputError(f'"note" is {files.show(note)}: it must be text')
    return Header(horizon, states, actions, noise, note, _read_terminal(states, found))


def _read_labels(kind: str, given: Any) -> Labels:
    if files.is_count(given):
        return Labels(kind, None, given)
    if not isinstance(given, list) or not given or not all(isinstance(x, str) for x in given):
        raise InputError(
            f'"{kind}s" is {files.show(given)}: it must be their number, or a list of their names'
        )
    return Labels(kind, validation.check_names(kind, given, len(given)), len(given))


def _read_terminal(states: Labels, found: JsonObject) -> frozenset[int]:
    terminal = found.get("terminal", [])
    if not isinstance(terminal, list):
        raise InputError(f'"terminal" is {files.show(terminal)}: it must be a list of states')
    with naming("terminal"):
        return frozenset(states.find(s) for s in terminal)
