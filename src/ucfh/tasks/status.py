"""The status of a task, in numbers and as text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskStatus:
    """The status of a task.

    Attributes:
        task, store: its name, and its store.
        begun, open, over: numbers of episodes.
        decisions: number of decisions; waiting: of those without an outcome; oldest: the seconds
            since the oldest open one.
        outcomes, lost: numbers of known and of missing outcomes.
        late, faults: numbers of late outcomes, and of all error records.
        conflicts: number of outcomes with contradictory reports, which count as missing.
        states: number of states.
        policy: the number of the newest policy, 0 if there is none; age: its age in seconds;
            made_from: its number of episodes.
        upper, lower, gap, certified: the bounds of the newest plan; None (certified: False) before
            it, and while they have to be computed again.
        refuted: whether the assumptions were refuted by then.
        planner: the holder of the planning lease, None if there is none.
        error: the last planning error in this process.
        ahead: the seconds by which the last event is ahead of the clock; None up to some minutes.

    """

    task: str
    store: str
    begun: int
    open: int
    over: int
    decisions: int
    waiting: int
    oldest: float | None
    outcomes: int
    lost: int
    late: int
    faults: int
    conflicts: int
    states: int
    policy: int
    age: float | None
    made_from: int
    upper: float | None
    lower: float | None
    gap: float | None
    certified: bool
    refuted: bool
    planner: str | None
    error: str | None
    ahead: float | None

    def __str__(self) -> str:
        wait = "" if self.oldest is None else f", the oldest for {_for(self.oldest)}"
        lines = [
            f"{self.task} in {self.store}: {self.begun} episodes, of which {self.open} are open",
            f"{self.waiting} decisions wait for their outcome{wait}",
            f"{self.outcomes} outcomes, {self.lost} missing; {self.faults} faults, {self.late} of "
            f"them outcomes that came too late; {self.states} states",
        ]
        if self.conflicts:
            lines.append(
                f"{self.conflicts} outcomes have contradictory reports and count as missing"
            )
        if self.policy == 0 or self.age is None:
            lines.append("there is no policy yet: the first action is taken in every state")
        else:
            lines.append(
                f"policy {self.policy}, {_for(self.age)} old, from {self.made_from} episodes"
            )
        if self.refuted:
            lines.append("not certified: the assumptions are refuted (see the certificate)")
        elif self.gap is not None:
            what = "certified" if self.certified else "not certified"
            lines.append(
                f"{what}: it earns at least {self.lower:.4g} per episode, no policy more than "
                f"{self.upper:.4g}, and it is within {self.gap:.4g} of optimal"
            )
        elif self.policy:
            lines.append("not certified: the bounds are being computed again")
        if self.ahead is not None:
            lines.append(
                f"the last event is dated {_for(self.ahead)} later than the clock, which jumped. "
                "Fix: set the clock, and run ucfh task check"
            )
        if self.error is not None:
            lines.append(f"planning failed, and is tried again: {self.error}")
        return "\n".join(lines)


def _for(seconds: float) -> str:
    """Format a duration."""
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"
