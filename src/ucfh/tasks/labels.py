"""Labels of states and actions, their canonical form, and their names in a log.

A label is a string, an integer, True or False, or a tuple of labels. It is stored as canonical
JSON: equal labels have equal texts, and 1, "1" and True have different ones. In a log, 1 and "1"
have the same name: of two labels with the same name the second is rejected.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ucfh.envs.spaces import plain, short
from ucfh.logs.labels import text_of
from ucfh.tasks.errors import InvalidReport
from ucfh.tasks.records import StateRecord

END_NAME = "(end)"
"""The name of the end state in a log."""
LONGEST, DEEPEST, MOST_BITS = 2000, 20, 1000
"""Limits of a label: bytes, depth of nested tuples, bits of an integer."""
_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def canonical(label: Any, kind: str = "state") -> str:
    """Return the canonical form of a label.

    >>> canonical("new"), canonical(3), canonical((1, "b"))
    ('"new"', '3', '[1,"b"]')
    >>> canonical(0.5)
    Traceback (most recent call last):
    ucfh.tasks.errors.InvalidReport: state 0.5 is not a text, a whole number or a tuple of them: \
cut real numbers into bins, and give the name of the bin
    """
    label = plain(label)
    name = label.strip() if isinstance(label, str) else label
    if isinstance(name, str | tuple | list) and not name:
        raise InvalidReport(f"{kind} {label!r:.80} is blank: give it a name that can be read")
    text = _write(_checked(label, label, kind, DEEPEST))
    if len(text.encode("utf-8", "surrogatepass")) > LONGEST:
        raise InvalidReport(
            f"{kind} {short(text)} has more than {LONGEST:,} bytes: give it a shorter name"
        )
    return text


def _checked(part: Any, label: Any, kind: str, deeper: int) -> Any:
    """A part of a label in JSON types."""
    part = plain(part)
    if isinstance(part, str) and not part.isprintable():
        raise InvalidReport(
            f"{kind} {label!r:.80} holds a line break or an invisible letter: give it a name that "
            "can be read"
        )
    if isinstance(part, str) or (isinstance(part, int) and part.bit_length() < MOST_BITS):
        return part
    if isinstance(part, int):
        raise InvalidReport(f"{kind} {short(hex(part))} is too large a number: give it a name")
    if isinstance(part, list | tuple):
        if deeper == 0:
            raise InvalidReport(
                f"{kind} of tuples in tuples, {DEEPEST} deep and more: give it a name"
            )
        return [_checked(x, label, kind, deeper - 1) for x in part]
    remedy = "give it a name"
    if isinstance(part, float):
        remedy = "cut real numbers into bins, and give the name of the bin"
    raise InvalidReport(
        f"{kind} {short(label)} is not a text, a whole number or a tuple of them: {remedy}"
    )


def label_of(text: str) -> Any:
    """Return the label of a canonical form; lists become tuples."""
    return as_tuples(json.loads(text))


def as_tuples(value: Any) -> Any:
    """Return a label from JSON, with lists as tuples."""
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


def name_in_log(text: str) -> str:
    """Return the name in a log of a label in canonical form.

    >>> name_in_log('" new"'), name_in_log("3"), name_in_log('[1,"b"]')
    ('new', '3', '[1, "b"]')
    """
    value = json.loads(text)
    return text_of(json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value)


def check_names(texts: Iterable[str], kind: str) -> None:
    """Raise `InvalidReport` if two canonical labels are equal, or have the same name in a log."""
    met: dict[str, str] = {}
    for text in texts:
        if (other := met.get(name := name_in_log(text))) is not None:
            raise duplicate_error(kind, text, other)
        met[name] = text


def duplicate_error(kind: str, text: str, other: str) -> InvalidReport:
    """Return the error of two labels that are equal, or have the same name in a log."""
    if text == other:
        return InvalidReport(f"{kind} {text} is listed twice in {kind}s. Fix: leave one out")
    return InvalidReport(
        f"{kind} {text} has the same name as {other} in a log: give it another name, or the same"
    )


class StateIndex:
    """The states of a task by number: 1, 2, ... in order of discovery; 0 is the end.

    Attributes:
        texts, labels, names: by number, the canonical form, the label and the name in a log.
        actions: the numbers of the actions of each state; None: all.
        number: by canonical form, the number. named: by name in a log.

    """

    def __init__(self) -> None:
        self.texts: list[str] = [""]
        self.labels: list[Any] = [None]
        self.names: list[str] = [END_NAME]
        self.actions: list[tuple[int, ...] | None] = [()]
        self.number: dict[str, int] = {}
        self.named: dict[str, int] = {END_NAME: 0}

    def __len__(self) -> int:
        return len(self.texts)

    def add(self, records: Sequence[StateRecord]) -> None:
        """Add the next states of the store."""
        known = len(self)
        try:
            for number, text, actions in records:
                assert number == len(self.texts)
                self.texts.append(text)
                self.labels.append(label_of(text))
                self.actions.append(actions)
                self.names.append(name_in_log(text))
                self.number[text] = number
                self.named[self.names[number]] = number
        except BaseException:  # Ctrl-C, for one: all or none
            self.truncate(known)
            raise

    def check_new(self, text: str) -> None:
        """Raise `InvalidReport` if a new label has the name of another one in a log."""
        name = name_in_log(text)
        if (other := self.named.get(name)) is not None:
            if other == 0:
                raise InvalidReport(
                    f"state {text} is the name of the end in a log: give it another name"
                )
            raise duplicate_error("state", text, self.texts[other])

    def truncate(self, count: int) -> None:
        """Remove all but the first ``count`` states, after a rollback."""
        for text in self.texts[count:]:
            self.number.pop(text, None)
            self.named.pop(name_in_log(text), None)
        del self.texts[count:], self.labels[count:], self.actions[count:], self.names[count:]

    def first_action(self, s: int) -> int:
        """Return the first action of a state."""
        actions = self.actions[s]
        return 0 if actions is None else actions[0]
