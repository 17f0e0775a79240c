"""What can go wrong with a live task, as typed exceptions of one line, and what of it is kept.

``status`` is the code that HTTP has for it. A fault that says something about the task or its
clients (an outcome told in two ways, a reward out of range) also carries what is written to the
store about it, in ``kept``: refusing it rolls back the call that it is about, not the evidence.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ucfh.exceptions import InputError


class ErrorRecord(NamedTuple):
    """What is written to the store about a fault: its kind, where, and what was said."""

    kind: str
    episode: str
    t: int
    detail: dict[str, Any]


def concise(message: str) -> str:
    """A message, without its middle where a long name makes it long: the remedy is at its end."""
    return message if len(message) <= 400 else f"{message[:200]} ... {message[-195:]}"


class TaskError(InputError):
    """A call on a live task that was refused: nothing was counted."""

    status = 400

    def __init__(self, message: str, kept: ErrorRecord | None = None) -> None:
        super().__init__(concise(message))
        self.kept = kept


class UnknownTask(TaskError):
    """There is no task of that name."""

    status = 404


class UnknownEpisode(TaskError):
    """There is no episode of that name."""

    status = 404


class Conflict(TaskError):
    """It contradicts an earlier report. Of two reports of one outcome, neither counts."""

    status = 409


class EpisodeOver(TaskError):
    """The episode is over."""

    status = 409


class OutOfOrder(TaskError):
    """A step that is not the next one: steps come in order, from 0 on."""

    status = 409


class InvalidReport(TaskError):
    """What was given is not what was declared: a reward out of range, an unknown state."""

    status = 422


class StoreFull(TaskError):
    """The disk is full: nothing was written; reading goes on."""

    status = 507


class StoreBusy(TaskError):
    """Others hold the store; the same call may be repeated."""

    status = 503


class StoreError(TaskError):
    """The store cannot be used: another file, another version, damaged, or read-only."""

    status = 500


def damaged(store: str, why: object) -> StoreError:
    """The fault of a store whose content cannot be what was written."""
    said = "".join(x if x.isprintable() else "?" for x in " ".join(str(why).split()))
    return StoreError(f"{store} is damaged ({said[:100]}). Fix: restore a backup")


DECODING = (
    ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError,
    RecursionError, zlib.error,
)  # fmt: skip
"""What decoding raises if its input was never encoded."""


@contextmanager
def decoding(store: str) -> Iterator[None]:
    """Raise `StoreError` where the content of a store cannot be what was written to it."""
    try:
        yield
    except InputError:
        raise
    except DECODING as error:
        raise damaged(store, f"{type(error).__name__}: {error}") from error


class LateOutcomeWarning(UserWarning):
    """An outcome came after its deadline, or after it was given up: kept, but not counted."""

    status = 410
