"""What becomes of episodes whose end the log does not show.

The last row of an episode may show no next state. If the task was over (done), or it was the last
step, what follows is the end: a terminal state that is called "(end)". Otherwise the episode stops
short: a drop-out. Where there is a next state, but no further step before the horizon, and the
state is not terminal, it is one, too. What that means, somebody has to say:

    outcome   who leaves has left for good, and is paid nothing more: the last step leads to a
              terminal state "(left)". It is assumed that this is drawn like any other outcome
    lost      what the last step led to may be anything, and the episode may stop because of that,
              but not because of what later episodes show; so may it at step H, if its next state is
              left blank, though others are not
    random    it has nothing to do with what would have followed: a next state that is shown counts,
              and a last step that shows none is left out

The same holds at the last step before a horizon that is shorter than the log, where there is a
column of next states and it is left blank.

At the last step every episode is over, whatever would have followed. If next states are derived
from the rows, "(end)" follows there always, and nowhere else unless the task was over; and nobody
can be seen to leave there. So, in both cases, the last step is counted apart from the others, as a
segment of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ucfh._utils.arrays import Bools, Ints
from ucfh.exceptions import InputError
from ucfh.logs.labels import ENDED, STOPPED
from ucfh.sparse_counts import LOST

END, LEFT = "(end)", "(left)"
"""What the states are called that the log does not name."""
LEFT_OUT, FAULTY = LOST - 1, LOST - 2
"""Codes of what followed a row that is not counted: it stops short, or has a fault."""
CHOICES = (
    "declare with --dropouts why they end early: outcome (the episode is over, and nothing more "
    "is paid), lost (what followed may be anything) or random (it has nothing to do with what "
    'would have followed), as in dropouts="outcome"'
)
"""What can be done about episodes that end early."""


class EarlyTermination(NamedTuple):
    """What was declared of ends.

    Attributes:
        derived: whether next states are those of the next rows.
        dropouts: "outcome", "lost", "random" or None.

    """

    derived: bool = False
    dropouts: str | None = None

    def resolve(
        self, following: Ints, stops: Bools, last: Bools, ended: Bools, own: tuple[int, int]
    ) -> Ints:
        """(n,) what became of n rows: the code of a state, `LOST` or `LEFT_OUT`.

        Args:
            following: (n,) codes, as the log shows them.
            stops: (n,) whether the episode goes on no more, and is not done.
            last: (n,) whether it is the last step.
            ended: (n,) whether the state that followed is terminal.
            own: the codes of "(end)" and "(left)".

        """
        out, none = following.copy(), following == STOPPED
        # at the last step a next state that is left blank, though there is a column, is lost, too
        lost = none & last & (self.dropouts == "lost" and not self.derived)
        out[(following == ENDED) | (none & last)] = own[0]
        out[lost] = LOST
        if not self.derived and self.dropouts in ("outcome", "random"):
            out[none & last] = own[1] if self.dropouts == "outcome" else LEFT_OUT
        short = (stops | none) & ~last & ~ended
        if self.dropouts == "outcome":
            out[short] = own[1]
        elif self.dropouts == "lost":
            out[short] = LOST
        else:
            out[short & none] = LEFT_OUT
        return out

    @property
    def differ_at_last(self) -> bool:
        """Whether other things can follow the last step: "(end)" always, or "(left)" never."""
        return self.derived or self.dropouts == "outcome"

    def last(self, horizon: int | None) -> int | None:
        """The horizon, if outcomes are lost only because episodes stop short of it."""
        return horizon if self.dropouts == "random" else None

    def own_states(self, terminal: Mapping[str, int], pooled: bool) -> tuple[int, int]:
        """The codes of "(end)" and "(left)" among the terminal states of a problem, if needed.

        ``pooled``: whether its last step has the probabilities of others.
        """
        if self.differ_at_last and pooled:
            remedy = "name the column of next_state" if self.derived else "declare other dropouts"
            raise InputError(
                "a problem with the same probabilities at all steps needs what follows the last "
                f"step. Fix: {remedy}"
            )
        for name, needed, remedy in (
            (END, self.derived, "name the column of next_state"),
            (LEFT, self.dropouts == "outcome", "add it to the problem"),
        ):
            if needed and name not in terminal:
                raise InputError(
                    f"the problem has no terminal state {name!r} for episodes that show no end. "
                    f"Fix: {remedy}"
                )
        if self.dropouts == "lost":
            raise InputError(
                "a problem cannot hold missing outcomes (dropouts = 'lost'). Fix: leave the "
                "problem out"
            )
        return terminal.get(END, LEFT_OUT), terminal.get(LEFT, LEFT_OUT)

    def name_own(self, names: Mapping[str, int], used: list[bool]) -> dict[str, int]:
        """The codes of those of "(end)" and "(left)" that are used, besides the names of a log."""
        out = {name: len(names) + i for i, name in enumerate((END, LEFT)) if used[i]}
        for name in out:
            if name in names:
                raise InputError(
                    f"a state of the log is called {name!r}, like the one that is added where it "
                    "shows no next state: rename it"
                )
        return out
