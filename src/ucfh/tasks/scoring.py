"""Scores of concurrent episodes: lower bounds on the value of a frozen policy.

The score of an episode is its return while it takes the actions of the frozen policy and, where its
own first policy deviates, the leaving value (`ucfh.confidence.known_states`, 3). Bets on the scores
in the order in which episodes began are fair if no score depends on later episodes. An open episode
may continue with a newer policy, or with actions that the task did not choose, so
(`docs/theory/flight.md`)

    an episode scores as long as its actions are those of its first policy, and nothing from the
    first other action on.

An open or incomplete episode scores its known rewards. Rewards are nonnegative, so no score exceeds
that of following the first policy to the end. Hence the bets may use any number of first episodes,
and the best number is chosen.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ucfh._utils.arrays import Floats, Ints
from ucfh.algorithms.exploration import GapExploration
from ucfh.sparse_counts import LOST

CHOICES = 9
"""Candidates for the number of first episodes."""


class FrozenPolicy(NamedTuple):
    """The scoring rule of the episodes that begin with one policy.

    Attributes:
        number: of the frozen policy.
        kept, first: (H, S) actions of the frozen policy and of the first policy, in known states.
        leaving: (H+1, S) leaving values.

    """

    number: int
    kept: Ints
    first: Ints
    leaving: Floats


class FrozenPolicyScores:
    """The scores of episodes for one frozen policy, in the order in which the episodes began.

    Attributes:
        number: of the frozen policy.
        x: the scores. open: by episode, its first policy and its index in x.
        watched: by policy, the scoring rule.

    """

    def __init__(self) -> None:
        self.number = 0
        self.x: list[float] = []
        self.open: dict[int, tuple[int, int]] = {}
        self.watched: dict[int, FrozenPolicy] = {}

    def watch(self, policy: int, rule: FrozenPolicy | None) -> None:
        """Score the episodes that begin with a policy; drop earlier rules that are not used."""
        if rule is not None and rule.number != self.number:
            self.number, self.x, self.open = rule.number, [], {}
        used = {policy - 1, *(begun for begun, _ in self.open.values())}
        self.watched = {
            k: x for k, x in self.watched.items() if k in used and x.number == self.number
        }
        if rule is not None:
            self.watched[policy] = rule

    def begin(self, episode: int, policy: int) -> None:
        """Begin an episode with its first policy."""
        if policy in self.watched:
            self.open[episode] = policy, len(self.x)
            self.x.append(0.0)

    def decide(self, episode: int, t: int, state: int, action: int, default: int) -> None:
        """Add a decision; ``default``: the first action of the state."""
        if episode not in self.open:
            return
        policy, index = self.open[episode]
        rule = self.watched[policy]
        known = state < rule.first.shape[1]
        if action != (rule.first[t, state] if known else default):
            del self.open[episode]
        elif action != (rule.kept[t, state] if known else default):
            self.x[index] += float(rule.leaving[t, state]) if known else 0.0
            del self.open[episode]

    def leave(self, episode: int) -> None:
        """Stop scoring an episode after another action or contradictory reports."""
        self.open.pop(episode, None)

    def tell(
        self, episode: int, reward: float, following: int, is_over: bool, after: float
    ) -> None:
        """Add an outcome; ``after``: the reward after the end, if the episode is over."""
        if episode not in self.open:
            return
        _, index = self.open[episode]
        self.x[index] += 0.0 if np.isnan(reward) else reward
        if is_over:
            self.x[index] += 0.0 if following == LOST else after
            del self.open[episode]

    def choose(self, beliefs: GapExploration) -> None:
        """Pass the number of first scores that gives the best bound to ``beliefs``."""
        if beliefs.number != self.number or not self.x:
            return
        complete = min((index for _, index in self.open.values()), default=len(self.x))
        best, best_scores = -1.0, {}
        for end in np.unique(np.linspace(complete, len(self.x), CHOICES).astype(int)).tolist():
            beliefs.scores = {}
            beliefs.score(np.array(self.x[:end]))
            value = beliefs.best.score_bound(beliefs.scores, beliefs.number)
            if value > best:
                best, best_scores = value, beliefs.scores
        beliefs.scores = best_scores

    def state(self) -> dict[str, Any]:
        """Return its state as arrays by name."""
        open_ = [(episode, *where) for episode, where in sorted(self.open.items())]
        out: dict[str, Any] = {
            "scores_number": np.array(self.number),
            "scores_x": np.array(self.x, float),
            "scores_open": np.array(open_, np.int64).reshape(-1, 3),
        }
        for policy, rule in self.watched.items():
            for name in ("kept", "first", "leaving"):
                out[f"watched {policy} {name}"] = getattr(rule, name)
        return out

    def restore(self, arrays: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.number, self.x = int(arrays["scores_number"]), arrays["scores_x"].tolist()
        self.open = {e: (policy, index) for e, policy, index in arrays["scores_open"].tolist()}
        found = {int(name.split()[1]) for name in arrays if name.startswith("watched ")}
        self.watched = {
            k: FrozenPolicy(
                self.number,
                *(arrays[f"watched {k} {name}"] for name in ("kept", "first", "leaving")),
            )
            for k in found
        }
