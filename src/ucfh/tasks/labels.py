"""States and actions as users give them, as they are stored, and as they are called in a log.

A label is a text, a whole number, True or False, or a tuple of labels. It is stored as JSON with
one way of writing each, so that equal labels have equal texts, and 1, "1" and True three different
ones. In a log they would all be "1" or "True": of two labels that a log cannot tell apart the
second is refused.
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
"""What a log calls the end of an episode that is done."""
LONGEST, DEEPEST, MOST_BITS = 2000, 20, 1000
"""Bytes of a label; how many tuples it may hold, one in the other; bits of a number in it."""
_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def canonical(label: Any, kind: str = "state") -> str:
    """The text that a label is stored as.

    >>> canonical("new"), canonical(3), canonical((1, "b"))
    ('"new"', '3', '[1,"b"]')
    >>> canonical(0.5)
    Traceback (most recent call last):
    ucfh.tasks.errors.Refused: state 0.5 is not a text, a whole number or a tuple of them: cut \
real numbers into bins, and give the name of the bin
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
    """A part of a label, in types that JSON has."""
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
    """The label that is stored as a text; lists and tuples are one, and come back as tuples."""
    return as_tuples(json.loads(text))


def as_tuples(value: Any) -> Any:
    """A label from JSON: lists are tuples."""
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


def name_in_log(text: str) -> str:
    """What a log calls the label that is stored as a text.

    >>> name_in_log('" new"'), name_in_log("3"), name_in_log('[1,"b"]')
    ('new', '3', '[1, "b"]')
    """
    value = json.loads(text)
    return text_of(json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value)


def check_names(texts: Iterable[str], kind: str) -> None:
    """Refuse labels, as they are stored, that are the same, or that a log cannot tell apart."""
    met: dict[str, str] = {}
    for text in texts:
        if (other := met.get(name := name_in_log(text))) is not None:
            raise alike(kind, text, other)
        met[name] = text


def alike(kind: str, text: str, other: str) -> InvalidReport:
    """An error for two labels that a log cannot tell apart, or that are the same."""
    if text == other:
        return InvalidReport(f"{kind} {text} is listed twice in {kind}s. Fix: leave one out")
    return InvalidReport(
        f"{kind} {text} cannot be told from {other} in a log: give it another name, or the same"
    )


class StateIndex:
    """The states of a task by their numbers: 1, 2, ... in the order of finding; 0 is the end.

    It follows the store: numbers and labels are never changed there.

    Attributes:
        texts: labels by number, as they are stored. labels: as users gave them. names: as a log
            calls them.
        actions: the numbers of the actions of each state; None: all.
        number: the number of each text. named: of each name in a log.

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
        """States as the store has them, following those that are known."""
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
            self.keep(known)
            raise

    def check_new(self, text: str) -> None:
        """Raise if a log could not tell a new label from another one."""
        name = name_in_log(text)
        if (other := self.named.get(name)) is not None:
            if other == 0:
                raise InvalidReport(
                    f"state {text} is what a log calls the end: give it another name"
                )
            raise alike("state", text, self.texts[other])

    def keep(self, count: int) -> None:
        """Forget all but the first ones: they were not written."""
        for text in self.texts[count:]:
            self.number.pop(text, None)
            self.named.pop(name_in_log(text), None)
        del self.texts[count:], self.labels[count:], self.actions[count:], self.names[count:]

    def first_action(self, s: int) -> int:
        """The first action of a state."""
        actions = self.actions[s]
        return 0 if actions is None else actions[0]
