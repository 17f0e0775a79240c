"""What can go wrong with a live task, as typed exceptions of one line, and what of it is kept.

``status`` is the code that HTTP has for it. A fault that says something about the task or its
clients (an outcome told in two ways, a reward out of range) also carries what is written to the
store about it, in ``kept``: refusing it rolls back the call that it is about, not the evidence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ucfh.errors import InputError


class Evidence(NamedTuple):
    """What is written to the store about a fault: its kind, where, and what was said."""

    kind: str
    episode: str
    t: int
    detail: dict[str, Any]


def concise(message: str) -> str:
    """A message, without its middle where a long name makes it long: the remedy is at its end."""
    return message if len(message) <= 400 else f"{message[:200]} ... {message[-195:]}"


class TaskFault(InputError):
    """A call on a live task that was refused: nothing was counted."""

    status = 400

    def __init__(self, message: str, kept: Evidence | None = None) -> None:
        super().__init__(concise(message))
        self.kept = kept


class UnknownTask(TaskFault):
    """There is no task of that name."""

    status = 404


class UnknownEpisode(TaskFault):
    """There is no episode of that name."""

    status = 404


class Conflict(TaskFault):
    """It contradicts an earlier report. Of two reports of one outcome, neither counts."""

    status = 409


class EpisodeOver(TaskFault):
    """The episode is over."""

    status = 409


class OutOfOrder(TaskFault):
    """A step that is not the next one: steps come in order, from 0 on."""

    status = 409


class Refused(TaskFault):
    """What was given is not what was declared: a reward out of range, an unknown state."""

    status = 422


class StoreFull(TaskFault):
    """The disk is full: nothing was written; reading goes on."""

    status = 507


class StoreBusy(TaskFault):
    """Others hold the store; the same call may be repeated."""

    status = 503


class StoreFault(TaskFault):
    """The store cannot be used: another file, another version, damaged, or read-only."""

    status = 500


class LateOutcome(UserWarning):
    """An outcome came after its deadline, or after it was given up: kept, but not counted."""

    status = 410
