"""Runs of stopping rules, by problem and rule, and the floors beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from statistics import fmean, median
from typing import NamedTuple

from ucfh._support.statistics import Interval, median_interval
from ucfh.experiments.measures import Values
from ucfh.experiments.store import Result
from ucfh.report.words import labels, unseeded
from ucfh.simulation.run import TOLERANCE

LEAST = 1.0
"""A floor below one episode says nothing: no distance to it is given."""

GIVEN_MORE = "reveliotis"
"""It is given a policy that reaches each state: the floor is about rules that are told less."""


class Contest(NamedTuple):
    """A problem, without its seed, the accuracy asked for, and whether rewards are told."""

    problem: str
    epsilon: float
    rewards: str


def contest_of(result: Result) -> Contest:
    """What a result is about."""
    arguments = result.arguments
    return Contest(unseeded(arguments["problem"]), arguments["epsilon"], arguments["rewards"])


def rule_of(agent: str) -> str:
    """The name of a rule: of its learner and, where it has several, of the kind of sets.

    >>> rule_of("certified-ucfh:confidence=kt"), rule_of("rf-express:schedule=growth")
    ('certified-ucfh kt', 'rf-express')
    """
    name, _, given = agent.partition(":")
    kinds = [part.partition("=")[2] for part in given.split(",") if part.startswith("confidence=")]
    return " ".join([name, *kinds])


def learner_of(rule: str) -> str:
    """The learner of a rule."""
    return rule.partition(" ")[0]


def cost(run: Result) -> float:
    """Episodes, at least one; samples of a generative model are divided by H."""
    values = run.values
    return max(1.0, float(values["episodes"] + values["samples"] / values["horizon"]))


def loss(run: Result) -> float:
    """What the named policy loses, without rounding errors."""
    return max(float(run.values["optimal"] - run.values["value"]), 0.0)


def is_wrong(run: Result) -> bool:
    """Whether it stopped with a policy that is worse than epsilon."""
    return bool(run.values["certified"]) and loss(run) > run.arguments["epsilon"] + TOLERANCE


class Score(NamedTuple):
    """A rule on a problem.

    Attributes:
        runs: at least one.
        episodes: the median and its interval; too small if it is cut.
        unfinished: how many runs reached their limit before they stopped.
        cut: whether these are so many that the median is too small.
        by_samples: whether it asks a generative model.

    """

    runs: list[Result]
    episodes: Interval
    unfinished: int
    cut: bool
    by_samples: bool


def score(runs: list[Result]) -> Score:
    """The score of a rule on a problem."""
    unfinished = sum(not run.values["certified"] for run in runs)
    by_samples = any(run.values["samples"] for run in runs)
    episodes = median_interval([cost(run) for run in runs])
    return Score(runs, episodes, unfinished, 2 * unfinished >= len(runs), by_samples)


@dataclass(frozen=True, eq=False)
class Standings:
    """All that is known, in the order given.

    Attributes:
        scores: by problem and rule.
        floors: what `ucfh.experiments.measures.floor` says of each problem.

    """

    scores: dict[Contest, dict[str, Score]]
    floors: dict[Contest, Values]

    @cached_property
    def names(self) -> dict[Contest, str]:
        """Short labels of problems."""
        contests = list(dict.fromkeys([*self.floors, *self.scores]))
        short = labels(contest.problem for contest in contests)
        several = len(short) < len(contests)
        return {
            contest: short[contest.problem]
            + (f" eps={contest.epsilon:g}" if several else "")
            + (" (hidden rewards)" if contest.rewards == "hidden" else "")
            for contest in contests
        }

    @cached_property
    def first(self) -> dict[Contest, str]:
        """The rule with the fewest episodes on each problem."""
        return {
            contest: min(rules, key=lambda rule: (rules[rule].cut, rules[rule].episodes.median))
            for contest, rules in self.scores.items()
        }

    @cached_property
    def rules(self) -> list[str]:
        """Those that stop first, first: by how many times as many episodes they take as the best.

        That is the median over the problems on which a rule was run.
        """
        behind: dict[str, list[float]] = {}
        for contest, rules in self.scores.items():
            fewest = rules[self.first[contest]].episodes.median
            for rule, one in rules.items():
                behind.setdefault(rule, []).append(log(one.episodes.median / fewest))
        return sorted(behind, key=lambda rule: median(behind[rule]))

    @cached_property
    def lead(self) -> str:
        """The rule that is first on most problems."""
        return max(self.rules, key=list(self.first.values()).count)

    def floor(self, contest: Contest) -> float | None:
        """The floor, where it is known and says something."""
        found = self.floors.get(contest)
        return None if found is None or found["floor"] < LEAST else float(found["floor"])

    def distance(self, contest: Contest, rule: str) -> float | None:
        """The mean number of episodes, divided by the floor; None if the floor is not about it."""
        one, floor = self.scores[contest].get(rule), self.floor(contest)
        if one is None or floor is None or one.unfinished or one.by_samples or rule == GIVEN_MORE:
            return None
        return fmean(cost(run) for run in one.runs) / floor

    def of(self, rule: str) -> list[Score]:
        """A rule on all problems."""
        return [rules[rule] for rules in self.scores.values() if rule in rules]


def standings(results: Sequence[Result]) -> Standings:
    """Results of the measures ``stopping`` and ``floor``, put in order."""
    runs: dict[Contest, dict[str, list[Result]]] = {}
    floors = {}
    for result in results:
        contest = contest_of(result)
        if "agent" in result.arguments:
            of_rule = runs.setdefault(contest, {})
            of_rule.setdefault(rule_of(result.arguments["agent"]), []).append(result)
        else:
            floors[contest] = result.values
    scores = {
        contest: {rule: score(found) for rule, found in rules.items()}
        for contest, rules in runs.items()
    }
    return Standings(scores, floors)
