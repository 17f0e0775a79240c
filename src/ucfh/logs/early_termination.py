"""Early termination: episodes whose end the log does not show.

The last row of an episode may lack a next state. If the task was over (done), or at the last step,
the next state is a terminal state called "(end)". Otherwise the episode ends early. An episode also
ends early if its last next state is not terminal and no further step follows before the horizon.
The meaning of early termination has to be declared:

    outcome   the episode is over and yields no further reward: the last step leads to a terminal
              state "(left)", which is assumed to be drawn like any other next state
    lost      the outcome of the last step is missing, possibly not at random: the episode may end
              because of it, but not because of later episodes. The same holds at step H for a blank
              next state, if others are not blank
    random    early termination is independent of the future: a logged next state counts, and a last
              step without one is left out

The same holds at the last step before a horizon that is shorter than the log, if there is a column
of next states and the value is blank.

At the last step every episode is over. If next states are derived from the rows, "(end)" always
follows there, and elsewhere only if the task was over; and no episode can be seen to leave there.
So in both cases the last step is a segment of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ucfh._utils.arrays import Bools, Ints
from ucfh.exceptions import InputError
from ucfh.logs.labels import ENDED, STOPPED
from ucfh.sparse_counts import LOST

END, LEFT = "(end)", "(left)"
"""The labels of the added terminal states."""
LEFT_OUT, FAULTY = LOST - 1, LOST - 2
"""Codes for the next state of rows that are not counted: early termination, or an issue."""
CHOICES = (
    "declare with --dropouts why they end early: outcome (the episode is over, and nothing more "
    "is paid), lost (what followed may be anything) or random (it has nothing to do with what "
    'would have followed), as in dropouts="outcome"'
)
"""The remedy for episodes that end early."""


class EarlyTermination(NamedTuple):
    """The declared treatment of episodes without a logged end.

    Attributes:
        derived: whether next states are those of the next rows.
        dropouts: "outcome", "lost", "random" or None.

    """

    derived: bool = False
    dropouts: str | None = None

    def resolve(
        self, following: Ints, stops: Bools, last: Bools, ended: Bools, end_states: tuple[int, int]
    ) -> Ints:
        """Return the next states (n,) of n rows: the code of a state, `LOST` or `LEFT_OUT`.

        Args:
            following: (n,) the logged codes.
            stops: (n,) whether the episode ends there without being done.
            last: (n,) whether it is the last step.
            ended: (n,) whether the next state is terminal.
            end_states: the codes of "(end)" and "(left)".

        """
        out, none = following.copy(), following == STOPPED
        # a blank in a column of next states is missing at the last step as well
        lost = none & last & (self.dropouts == "lost" and not self.derived)
        out[(following == ENDED) | (none & last)] = end_states[0]
        out[lost] = LOST
        if not self.derived and self.dropouts in ("outcome", "random"):
            out[none & last] = end_states[1] if self.dropouts == "outcome" else LEFT_OUT
        short = (stops | none) & ~last & ~ended
        if self.dropouts == "outcome":
            out[short] = end_states[1]
        elif self.dropouts == "lost":
            out[short] = LOST
        else:
            out[short & none] = LEFT_OUT
        return out

    @property
    def differ_at_last(self) -> bool:
        """True if the last step has other next states: always "(end)", or never "(left)"."""
        return self.derived or self.dropouts == "outcome"

    def last(self, horizon: int | None) -> int | None:
        """Return the horizon, if outcomes are missing only because episodes end before it."""
        return horizon if self.dropouts == "random" else None

    def end_states(self, terminal: Mapping[str, int], pooled: bool) -> tuple[int, int]:
        """Return the codes of "(end)" and "(left)" among the terminal states of a problem.

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

    def name_end_states(self, names: Mapping[str, int], used: list[bool]) -> dict[str, int]:
        """Return the codes of those of "(end)" and "(left)" that are used."""
        out = {name: len(names) + i for i, name in enumerate((END, LEFT)) if used[i]}
        for name in out:
            if name in names:
                raise InputError(
                    f"a state of the log is called {name!r}, like the one that is added where it "
                    "shows no next state: rename it"
                )
        return out
