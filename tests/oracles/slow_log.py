"""What a log of episodes shows, counted one step after the other, by the rules of the docs.

The episodes are as they happened, whatever the form in which they were then written down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from oracles.open_world import SlowExperience
from ucfh.sparse_counts import LOST

Parts = tuple[Any, ...]
"""What a state is made of: texts and numbers."""


class Happened(NamedTuple):
    """An episode: steps (state, action, reward or None), and where and why it stopped."""

    steps: list[tuple[Parts, str, float | None]]
    done: bool
    after: Parts | None


@dataclass
class Form:
    """What of episodes a form shows, and what is declared of it."""

    names: tuple[str, ...]  # of the parts of a state
    horizon: int | None = None
    segments: tuple[int, ...] = ()
    shows_next: bool = True  # there is a column of next states
    whole: bool = False  # a line is an episode
    dropouts: str | None = None
    cuts: Mapping[str, Sequence[float]] = field(default_factory=dict)
    apart: int = 0
    rewards: tuple[float, float] = (0.0, 1.0)


class SlowLog:
    """All that is counted, by name.

    Attributes:
        outcomes: (t, s, a, reward, what followed: a name, LOST, or None if it is not counted).
        lost: of each of these, 1 if it is assumed to be lost for no reason, 0 if it is not, and -1
            if it could not be.
        starts, returns, complete: of each episode.
        details: of each outcome, in which halves of bins its state lies.

    """

    def __init__(self, episodes: Sequence[Happened], form: Form, split_after: int) -> None:
        self.form = form
        longest = max(len(episode.steps) for episode in episodes)
        self.horizon = form.horizon or longest
        self.names: set[str] = set()
        self.outcomes: list[tuple[int, str, str, float | None, Any]] = []
        self.lost: list[int] = []
        self.starts: list[str] = []
        self.returns: list[float] = []
        self.complete: list[bool] = []
        self.details: list[int] = []
        self._met: dict[tuple[str, int], list[float]] = {}
        self._split_after = split_after
        ended = [x for x in episodes if x.done and x.after is not None and form.shows_next]
        self.terminal = {
            self.label(x.after) for x in ended if x.after and len(x.steps) < self.horizon
        }
        for k, episode in enumerate(episodes):
            for parts, _, _ in episode.steps:
                self.names.add(self.label(parts))
            if form.shows_next and episode.after is not None:
                self.names.add(self.label(episode.after))
            if k >= form.apart:
                self._count(episode, k + 1 == len(episodes))

    def _count(self, episode: Happened, last_of_all: bool) -> None:
        form, H, steps = self.form, self.horizon, episode.steps
        self.starts.append(self.label(steps[0][0]))
        self.returns.append(sum(reward or 0.0 for _, _, reward in steps))
        self.complete.append(episode.done or len(steps) == H)
        for t, (parts, action, reward) in enumerate(steps):
            detail, lost, then = self._detail(parts), False, None
            if t + 1 < len(steps):
                then = self.label(steps[t + 1][0])
            else:
                if form.shows_next and episode.after is not None:
                    then = self.label(episode.after)
                ended = episode.done or t + 1 == H or then in self.terminal
                if ended and then is None:
                    then = "(end)"
                if not ended and last_of_all and not form.whole:
                    if then is None:
                        continue  # the log is cut off there
                elif not ended:
                    then, lost = self._left(then)
                    self.complete[-1] = form.dropouts == "outcome"
                self.complete[-1] |= then in self.terminal
            self.outcomes.append((t, self.label(parts), action, reward, then))
            # where only drop-outs are lost, nothing can be at the last step
            never = form.dropouts == "random" and t + 1 == H
            self.lost.append(-1 if never else int(lost))
            self.details.append(detail)
            if isinstance(then, str):
                self.names.add(then)

    def _left(self, then: str | None) -> tuple[Any, bool]:
        """What an episode that stops short led to, and whether it counts as lost by chance."""
        if self.form.dropouts == "outcome":
            return "(left)", False
        if self.form.dropouts == "lost":
            return LOST, False
        return then, then is None

    @property
    def counted(self) -> int:
        """How many rows are in the counts."""
        return sum(isinstance(then, str) for *_, then in self.outcomes)

    def label(self, parts: Parts) -> str:
        """What a state is called."""
        out = []
        for name, part in zip(self.form.names, parts, strict=True):
            edges = self.form.cuts.get(name)
            out.append(str(part) if edges is None else bin_label(name, part, edges))
        return "|".join(out)

    def _detail(self, parts: Parts) -> int:
        """One bit for each number: whether it lies in the upper half of its bin."""
        out, bit = 0, 1
        for name, x in zip(self.form.names, parts, strict=True):
            edges = self.form.cuts.get(name)
            if edges is None:
                continue
            place = sum(x >= edge for edge in edges)
            if 0 < place < len(edges):
                split = (edges[place - 1] + edges[place]) / 2
            else:
                met = self._met.setdefault((name, place), [])
                split = median(met) if len(met) >= self._split_after else float("inf")
                if len(met) < self._split_after:
                    met.append(x)
            out += bit * (x >= split)
            bit *= 2
        return out

    def experience(self, states: Sequence[str], actions: Sequence[str]) -> SlowExperience:
        """The same as an experience, with states and actions in that order."""
        segments = {*self.form.segments}
        if (not self.form.shows_next or self.form.dropouts == "outcome") and self.horizon > 1:
            segments.add(self.horizon - 1)  # other things follow there
        out = SlowExperience(sorted(segments))
        low, high = min(self.form.rewards[0], 0), max(self.form.rewards[1], 0)
        for s in self.starts:
            out.begin(1 + states.index(s))
        for t, s, a, reward, then in self.outcomes:
            if then is None:
                continue
            nothing = 0.0 if isinstance(then, str) else float("nan")
            paid = ((nothing if reward is None else reward) - low) / (high - low)
            after = LOST if then == LOST else 1 + states.index(then)
            out.step(t, 1 + states.index(s), actions.index(a), paid, after)
        return out


def bin_label(name: str, x: float, edges: Sequence[float]) -> str:
    """The name of a bin: that of the first two edges which enclose it."""
    if x < edges[0]:
        return f"{name}<{edges[0]:g}"
    for low, high in pairwise(edges):
        if low <= x < high:
            return f"{low:g}<={name}<{high:g}"
    return f"{name}>={edges[-1]:g}"
