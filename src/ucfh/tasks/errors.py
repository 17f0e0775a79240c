"""Errors of live tasks, and the records of them that a store keeps.

``status`` is the HTTP status. An error that says something about the task or its clients
(contradictory reports, a reward out of range) carries a record for the store in ``kept``: the
rejected call is rolled back, and the record is written.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ucfh.exceptions import InputError


class ErrorRecord(NamedTuple):
    """The record of an error in the store: its kind, its episode and step, and the details."""

    kind: str
    episode: str
    t: int
    detail: dict[str, Any]


def concise(message: str) -> str:
    """Shorten a message in its middle, since the remedy is at its end."""
    return message if len(message) <= 400 else f"{message[:200]} ... {message[-195:]}"


class TaskError(InputError):
    """A rejected call on a live task: nothing was counted."""

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
    """A report contradicts an earlier one. Of two reports of one outcome, neither counts."""

    status = 409


class EpisodeOver(TaskError):
    """The episode is over."""

    status = 409


class OutOfOrder(TaskError):
    """A step is not the next one of its episode."""

    status = 409


class InvalidReport(TaskError):
    """A report contradicts the declaration: a reward out of range, an unknown state."""

    status = 422


class StoreFull(TaskError):
    """The disk is full: nothing was written; reading is still possible."""

    status = 507


class StoreBusy(TaskError):
    """The store is locked; the same call may be repeated."""

    status = 503


class StoreError(TaskError):
    """The store cannot be used: another file, another version, damaged, or read-only."""

    status = 500


def damaged(store: str, why: object) -> StoreError:
    """Return the error of a store whose content is invalid."""
    said = "".join(x if x.isprintable() else "?" for x in " ".join(str(why).split()))
    return StoreError(f"{store} is damaged ({said[:100]}). Fix: restore a backup")


DECODING = (
    ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError,
    RecursionError, zlib.error,
)  # fmt: skip
"""Exceptions of decoders on invalid input."""


@contextmanager
def decoding(store: str) -> Iterator[None]:
    """Raise `StoreError` if the content of a store cannot be decoded."""
    try:
        yield
    except InputError:
        raise
    except DECODING as error:
        raise damaged(store, f"{type(error).__name__}: {error}") from error


class LateOutcomeWarning(UserWarning):
    """An outcome came after its deadline, or after its episode was abandoned: kept, not counted."""

    status = 410
