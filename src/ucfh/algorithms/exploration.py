"""Bounds and exploration policies of the certified agents.

With confidence sets of the model (`SetExploration`) the agent follows the optimistic policy. With
bounds on values (`GapExploration`) it directs its sampling, and freezes and scores a policy.

Sampling never affects validity, so the only criterion here is the number of episodes. Two routes
lead to a certificate for epsilon:

- the difference D of `ucfh.confidence.known_states`, which falls about like episodes^(-2/3) in
  measurements;
- U - V^pi, where U falls like episodes^(-1/2), and V^pi is bounded by scoring a frozen policy:
  2 Var ln(.../delta)/x^2 episodes for a margin x.

Each plan takes the route that is shorter by these rules. Where the first is more than twice as
long, L, W and D are computed only after 10% more outcomes: they take most of the time, and the
estimate of the first route is kept meanwhile. They are also computed before a policy is certified,
so that the certificate is checked against all bounds. The agent samples the largest sources of
uncertainty: the derivative of the gap by the visits of each pair (`KnownStateBounds.attribute_gap`)
is the reward of an episode, and the optimal policy for it in the empirical model is followed. On
the second route, once more episodes spent on U save fewer scored ones, the greedy policy is frozen
and followed instead.
"""

from __future__ import annotations

from dataclasses import astuple
from math import inf
from typing import Any

import numpy as np

from ucfh._utils.arrays import Floats, Ints
from ucfh.confidence.sets import ModelSet
from ucfh.confidence.value_bounds import BoundContradiction, Bounds, ValueBounds
from ucfh.counts import Counts, ScoringRule
from ucfh.mdp import Problem

BINS = 1000
"""Scores are rounded down to a multiple of epsilon/BINS, to keep few distinct scores."""

TYPICAL_REGRET = 2.0
"""Estimated regret in nats of the bets on some hundred scores against the best bet."""

REFREEZE_SHARE = 0.25
"""A frozen policy is kept while its estimated loss is below this share of the scoring margin."""

LONG_ROUTE = 2.0
"""The difference is bounded less often if its route is this many times as long as the other."""

OUTCOME_GROWTH = 1.1
"""In that case it is bounded after this many times as many outcomes."""

DEVIATION_COST = 0.1
"""Episodes are scored if the estimated loss by deviations from the frozen policy is at most this
share of epsilon."""


class SetExploration:
    """Optimistic exploration with the sets of `ucfh.confidence.sets`, for `CertifiedUCFH`.

    The attributes are those of `GapExploration`.
    """

    scoring_rule = contradiction = None  # earlier bounds are not kept: they contradict none

    def __init__(self, problem: Problem, delta: float, kind: str) -> None:
        self.problem = problem
        self.sets = ModelSet(problem, delta, kind)
        self.learn(Counts.zero(problem), np.zeros(problem.table.rows, np.int64))

    def learn(self, n: Counts, updates: Ints) -> None:
        """Recompute all bounds, and plan."""
        self.sets.learn(n, updates)
        policy, self.upper = self.sets.plan(n, optimistic=True)
        certified, self.lower = self.sets.plan(n, optimistic=False)
        table, H = self.problem.table, self.problem.horizon
        self.following, self.certified = table.rows_of(policy, H), table.rows_of(certified, H)
        self.gap = self.upper - self.lower

    def score(self, scores: Any) -> None:
        """Ignore scores."""

    def state(self) -> dict[str, Any]:
        """Return an empty state: the counts determine everything."""
        return {}

    def restore(self, state: dict[str, Any], n: Counts, updates: Ints) -> None:  # noqa: ARG002
        """Recompute the bounds from the counts."""
        self.learn(n, updates)


class GapExploration:
    """Exploration directed at the gap of the value bounds, for ``confidence="tight"``.

    Args:
        best: the value bounds.
        epsilon: the accuracy of the certificate.
        data: the counts of ``best``, usually empty.

    Attributes:
        following: (H, S) the pairs of the policy to follow next.
        upper, lower, gap: bounds of the certificate, for the policy ``certified`` (H, S).
        by_difference: whether the gap was bounded by the difference D, not by scores.
        frozen: (H, S) the pairs of the policy whose episodes are scored, or None.
        number: the number of policies frozen so far. scores: the number of episodes by score.
        scoring_rule: the scoring rule of the next episodes, or None.
        contradiction: the first contradiction of bounds; from then on no policy is certified.

    """

    def __init__(self, best: ValueBounds, epsilon: float, data: Any) -> None:
        self.best, self.epsilon = best, epsilon
        self.frozen: Ints | None = None
        self.number = 0
        self.scores: dict[float, int] = {}
        self.scoring_rule: ScoringRule | None = None
        self.upper, self.lower, self.gap = inf, -inf, inf
        self.certified: Ints = np.zeros((best.horizon, 0), np.int64)
        self.by_difference = True
        self.routes = inf, inf  # lengths in episodes
        self.bounded = 0  # number of outcomes when the difference was bounded last
        self.contradiction: BoundContradiction | None = None
        self.learn(data)

    def score(self, scores: Floats) -> None:
        """Add the scores (k,) of episodes under the scoring rule."""
        width = self.epsilon / BINS
        bins = np.floor(scores / width)
        bins -= bins * width > scores  # the division may have been rounded up
        for k, times in zip(*np.unique(bins, return_counts=True), strict=True):
            x = float(k) * width
            self.scores[x] = self.scores.get(x, 0) + int(times)

    def learn(self, data: Any, updates: Any = None) -> None:  # noqa: ARG002
        """Recompute the bounds from data, and choose the next policy."""
        first, second = self.routes
        near = (
            self.best.watched
            or first <= LONG_ROUTE * second
            or data.visits.sum() >= OUTCOME_GROWTH * self.bounded
        )
        b = self.update_bounds(data, near)
        if self.gap <= self.epsilon and not near:
            b = self.update_bounds(data)
        if self.contradiction is not None or self.gap <= self.epsilon:
            self.scoring_rule = None
            self.following = self.certified
            return
        self.following = self._choose(b)
        self._set_scoring_rule()

    def update_bounds(self, data: Any, difference: bool = True) -> Bounds:
        """Recompute all bounds from data, and keep the tightest ones so far.

        Without ``difference``, compute upper bounds only.
        """
        best = self.best
        self.bounds = b = best.bounds(data, difference)
        if difference:
            self.bounded = int(data.visits.sum())
        self.certified = best.widen(self.certified)
        self.upper = min(self.upper, b.upper)
        self.gap = min(self.gap, self.upper - self.lower)
        self._consider(b.greedy, b.lower, b.difference, by_difference=True)
        if self.frozen is not None:
            self.frozen = best.widen(self.frozen)
            by_scores = best.score_bound(self.scores, self.number)
            self._consider(self.frozen, by_scores, inf, by_difference=False)
        self.contradiction = self.contradiction or b.contradiction or self._find_contradiction()
        return b

    def _find_contradiction(self) -> BoundContradiction | None:
        """Return a contradiction between the bounds of the policy about to be certified, if any."""
        if self.gap > self.epsilon:
            return None
        upper = min(self.upper, self.best.upper_value(self.certified))
        if self.lower - upper <= self.best.rounding:
            return None
        return BoundContradiction(0, -1, upper, self.lower)

    def _consider(self, rows: Ints, lower: float, gap: float, by_difference: bool) -> None:
        """Keep the policy rows (H, S) if its gap is the smallest so far."""
        gap = min(gap, self.upper - lower)
        if gap < self.gap:
            self.certified, self.lower, self.gap = rows.copy(), lower, gap
            self.by_difference = by_difference

    def _choose(self, b: Bounds) -> Ints:
        """Return the pairs (H, S) of the policy to follow next."""
        if b.upper >= self.best.pay.cap[0]:
            return b.up  # U is trivial, so its derivative is of no use
        episodes = max(1, int(self.best.evidence.known["n"][-1]))
        ahead = max(b.upper - b.estimate, 1e-12)
        by_difference = True
        if self.best.enabled["scores"]:
            # the variance of few episodes may be 0 by chance: hence the second term
            variance = max(0.0, b.second - b.estimate**2) + b.upper**2 / episodes
            tail = 2 * variance * (self.best.cost_of_scores(max(1, self.number)) + TYPICAL_REGRET)
            margins = self.epsilon * np.arange(1, 100) / 100
            spent = episodes * np.maximum(1.0, (ahead / (self.epsilon - margins)) ** 2)
            second_route = float((spent + tail / margins**2).min())
            first_route = self.routes[0]  # the last estimate, if D is left out
            if not b.from_above:
                first_route = episodes * (b.difference / self.epsilon) ** 1.5
            self.routes = first_route, second_route
            # where D was left out and its route is the shorter one now, it is bounded next time
            by_difference = first_route < second_route and not b.from_above
            margin = self.epsilon - ahead
            if not by_difference and margin > 0 and tail * ahead / (margin**3 * episodes) <= 1:
                return self._freeze(b, margin)
        if not self.best.enabled["directed"]:
            return b.up
        return self.best.explore(self.best.attribute_gap(b, by_difference))

    def _freeze(self, b: Bounds, margin: float) -> Ints:
        """Freeze the greedy policy unless the frozen one is about as good; return its pairs."""
        if self.frozen is not None:
            frozen_value = self.best.mean_at_start(self.best.mean_values(self.frozen))
            if b.estimate - frozen_value < REFREEZE_SHARE * margin:
                return self.frozen
        self.frozen = b.greedy.copy()
        self.number += 1
        self.scores = {}
        return self.frozen

    def _set_scoring_rule(self) -> None:
        """Score the next episodes if they rarely deviate from the frozen policy."""
        self.scoring_rule = None
        if self.frozen is None:
            return
        leaving = self.best.lower_values(self.frozen)
        mean_values = self.best.mean_values(self.frozen)
        loss = self.best.loss_by_leaving(self.following, self.frozen, mean_values, leaving)
        if loss <= DEVIATION_COST * self.epsilon:
            self.scoring_rule = ScoringRule(self.frozen, leaving)

    def state(self) -> dict[str, Any]:
        """Return the bounds, the policies, and the scores of the frozen policy."""
        rule, contradiction = self.scoring_rule, self.contradiction
        return {
            "frozen": np.zeros((0, 0), np.int64) if self.frozen is None else self.frozen.copy(),
            "number": self.number,
            "known": np.array([self.upper, self.lower, self.gap, float(self.by_difference)]),
            "routes": np.array([*self.routes, self.bounded], float),
            "certified": self.certified.copy(),
            "crossing": np.array([] if contradiction is None else astuple(contradiction), float),
            "following": self.following.copy(),
            "leaving": np.zeros((0, 0)) if rule is None else rule.leaving.copy(),
            "U": self.best.U.copy(),
            "L": self.best.L.copy(),
            "found": np.hstack(self.best.roots),
            "scores": np.array([*self.scores], float),
            "times": np.array([*self.scores.values()], np.int64),
        }

    def restore(self, state: dict[str, Any], data: Any, updates: Any = None) -> None:  # noqa: ARG002
        """Continue from the result of `state`; ``following`` is not chosen again."""
        self.best.update(data)
        frozen = np.asarray(state["frozen"], np.int64)
        self.frozen = frozen if frozen.size else None
        self.number = int(state["number"])
        self.upper, self.lower, self.gap = (float(x) for x in state["known"][:3])
        self.by_difference = bool(state["known"][3])
        first, second, bounded = state["routes"].tolist()
        self.routes, self.bounded = (first, second), int(bounded)
        self.certified = np.asarray(state["certified"], np.int64)
        self.contradiction = None
        if len(state["crossing"]):
            step, where, above, below = state["crossing"].tolist()
            self.contradiction = BoundContradiction(int(step), int(where), above, below)
        known = state["U"].shape[1]  # states discovered later have no bounds yet
        self.best.U[:, :known], self.best.L[:, :known] = state["U"], state["L"]
        pairs = state["found"].shape[1] // 2 - known
        parts = np.hsplit(state["found"], np.cumsum([pairs, pairs, known]))
        for array, part in zip(self.best.roots, parts, strict=True):
            array[:, : part.shape[1]] = part
        self.following = np.asarray(state["following"], np.int64)
        self.scoring_rule = None
        if state["leaving"].size and self.frozen is not None:
            self.scoring_rule = ScoringRule(self.frozen, state["leaving"].copy())
        self.scores = dict(zip(state["scores"].tolist(), state["times"].tolist(), strict=True))
