"""Episodes that overlap, slowly: from the list of all events, what may be counted at its end.

Written from docs/theory/flight.md; nothing is kept between two looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from oracles.open_world import SlowExperience
from ucfh.sparse_counts import END, LOST
from ucfh.tasks.records import DecisionRecord, OutcomeRecord

Events = Sequence[DecisionRecord | OutcomeRecord]


class Taken(NamedTuple):
    """A decision: in which episode, at which step, where and what; outcome None: it is open.

    An outcome is the reward in [0, 1], nan if it is not known, and the next state.
    """

    episode: int
    t: int
    state: int
    action: int
    first: int
    outcome: tuple[float, int] | None


@dataclass
class SlowFlight:
    """What is declared, and all events so far.

    have: by state, the actions that it has, the end first. shift, span: of the rewards, which
    become (r + shift)/span.
    """

    horizon: int
    segments: list[int]
    have: list[list[int]]
    shift: float
    span: float
    events: Events

    def taken(self) -> list[Taken]:
        """All decisions in their order, with what came of them."""
        told = {(x.episode, x.t): x for x in self.events if isinstance(x, OutcomeRecord)}
        out = []
        for x in self.events:
            if isinstance(x, DecisionRecord):
                came = told.get((x.episode, x.t))
                outcome = None
                if came is not None:
                    outcome = ((came.reward + self.shift) / self.span, came.following)
                out.append(Taken(x.episode, x.t, x.state, x.action, x.first, outcome))
        return out

    def is_over(self, t: int, following: int) -> bool:
        """Whether an episode is over after that outcome of step t."""
        return following in (END, LOST) or t + 1 == self.horizon or not self.have[following]

    # -- rows --------------------------------------------------------------------------------------

    def in_order(self) -> SlowExperience:
        """Of each row, what comes before its first open decision."""
        out, open_rows = self.found(), set[tuple[int, int, int]]()
        for x in self.taken():
            row = out.segment(x.t), x.state, x.action
            if x.outcome is None:
                open_rows.add(row)
            elif row not in open_rows:
                out.step(x.t, x.state, x.action, *x.outcome)
        return out

    def all_as_lost(self) -> SlowExperience:
        """All decisions, with outcomes that are yet to come as lost."""
        out = self.found()
        for x in self.taken():
            out.step(x.t, x.state, x.action, *(x.outcome or (math.nan, LOST)))
        return out

    def found(self) -> SlowExperience:
        """Starts, and places by the order of decisions, whatever came of them."""
        out = SlowExperience(self.segments)
        for x in self.taken():
            if x.t == 0:
                out.begin(x.state)
            pair = x.state, out.segment(x.t)
            out.place.setdefault(pair, len(out.place) + 1)
            out.reached.add((x.state, x.t))
        return out

    # -- the audit ---------------------------------------------------------------------------------

    def line(self) -> list[tuple[Any, ...]]:
        """Decisions before the first open one: t, state, action, reward, next state, and before.

        before: action, state and reward of the step before in its episode; None at its first.
        """
        out, last = [], dict[int, tuple[int, int, float]]()
        for x in self.taken():
            if x.outcome is None:
                break
            out.append((x.t, x.state, x.action, *x.outcome, last.get(x.episode)))
            last[x.episode] = x.action, x.state, x.outcome[0]
        return out

    # -- scores ------------------------------------------------------------------------------------

    def scores(self, how_of: dict[int, Any], after_end: float) -> list[float]:
        """Of episodes in the order of beginning, those whose first policy is in how_of.

        how_of: by policy, the actions kept and first (H, S) of the frozen and of that policy, and
        the leaving values (H+1, S), in the states that were known.
        """
        of_episode: dict[int, list[Taken]] = {}
        for x in self.taken():
            of_episode.setdefault(x.episode, []).append(x)
        return [
            self._score(steps, how_of[steps[0].first], after_end)
            for steps in of_episode.values()
            if steps[0].first in how_of
        ]

    def _score(self, steps: list[Taken], how: Any, after_end: float) -> float:
        """What an episode has scored by now."""
        earned = 0.0
        for x in steps:
            default = self.have[x.state][0]
            known = x.state < len(how.kept[0])
            first = how.first[x.t][x.state] if known else default
            kept = how.kept[x.t][x.state] if known else default
            if x.action != first:  # nothing that the first policy would have done
                return earned
            if first != kept:
                return earned + float(how.leaving[x.t][x.state])
            if x.outcome is None:
                return earned
            reward, following = x.outcome
            earned += 0.0 if math.isnan(reward) else reward
            if following != LOST and self.is_over(x.t, following):
                earned += (self.horizon - x.t - 1) * after_end
        return earned


def wealth(scores: Sequence[float], value: float) -> float:
    """What bets of all that one has make of 1, if scores of this mean are fair."""
    return math.prod(x / value for x in scores)
