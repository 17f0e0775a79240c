"""The report of an audit: refuted assumptions with location, effect and remedy, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from math import exp
from typing import Any, NamedTuple

import numpy as np

from ucfh._kernels.audits import (
    ACTION,
    DETAIL,
    FOLLOWS,
    LABELS,
    LOSES,
    PAIR,
    PAYS,
    REWARD,
    ROWS,
    STARTS,
    STATE,
    STEP,
)
from ucfh._utils.arrays import Bools, Ints
from ucfh._utils.defaults import ALPHA
from ucfh.auditing.e_process import CODES, DRIFT, Audit, max_log_likelihood
from ucfh.exceptions import check_unit

MAX_LN_E = 700.0
"""Larger logarithms of evidence are reported as this, so that E is finite."""

KINDS = {FOLLOWS: "next state", PAYS: "reward", STARTS: "start", LOSES: "losses"}
CONTEXT_NAMES = {
    ACTION: "previous action",
    STATE: "previous state",
    REWARD: "previous reward",
    STEP: "step",
    DETAIL: "place within the bin",
    PAIR: "state and action",
    DRIFT: "time",
}
ASSUMPTIONS = {
    "memory": "the outcome depends on the state and the action alone, not on earlier steps",
    "step": "the outcome does not depend on the step",
    "bins": "the outcome does not depend on the position of a number in its bin",
    "drift": "the distribution of outcomes is the same early and late in the log",
    "start": "the distribution of start states is the same early and late in the log",
    "losses": "outcomes are missing at a constant rate",
}
"""The assumptions that are tested, by name."""
POOLED = "the bounds pool these cases, so they may be invalid: the policy is not certified"
MIXED = (
    "the bounds describe a mixture of past and present, so they may be invalid: the policy is not "
    "certified"
)
MEANINGS = {
    "memory": POOLED,
    "step": POOLED,
    "bins": POOLED,
    "drift": MIXED,
    "start": MIXED,
    "losses": "outcomes may be missing not at random, so bounds from the others may be invalid: "
    "the policy is not certified",
}


class Remedy(Enum):
    """Remedies of refuted assumptions."""

    EXTEND_STATE = auto()
    DECLARE_SEGMENT = auto()
    EVERY_STEP = auto()
    FINER_BINS = auto()
    SPLIT_DATA = auto()
    DECLARE_MISSING = auto()

    def sentence(self, value: str | int = "", live: bool = False) -> str:
        """Return the remedy in a sentence.

        Args:
            value: of EXTEND_STATE the variable, of DECLARE_SEGMENT the first t of the segment, of
                SPLIT_DATA the first episode after the change.
            live: whether the data are those of a live task, whose declarations are final.

        """
        another = " in another task" if live else ""
        match self:
            case Remedy.EXTEND_STATE:
                return f"make the previous {value} a part of the state"
            case Remedy.DECLARE_SEGMENT:
                option = f"--segments {value} (segments=[{value}])"
                return f"declare the segment that begins there{another}, {option}"
            case Remedy.EVERY_STEP:
                logs, tasks = "--time-dependent (time_dependent=True)", "--segments every"
                option = f"{tasks} (segments=True)" if live else logs
                return f"make every step a segment of its own{another}, {option}"
            case Remedy.FINER_BINS:
                return "use finer bins"
            case Remedy.SPLIT_DATA:
                then = "begin another task" if live else "use the episodes after it as another log"
                return f"find out what changed around episode {value:,}, and {then}"
            case Remedy.DECLARE_MISSING:
                return (
                    "declare the meaning of a missing outcome, --dropouts outcome, or allow any "
                    "outcome in its place, --dropouts lost"
                )


@dataclass(frozen=True)
class Finding:
    """An assumption that the data refute.

    Attributes:
        name: a key of `ASSUMPTIONS`. assumption: the sentence that is refuted.
        where: the row and the context. effect: the difference there, and its size.
        meaning: the consequence for a certificate. remedy: the action to take.
        e_value: the strength of the evidence: a true assumption reaches E with probability 1/E.
        episodes: the number of episodes at which it was largest.

    """

    name: str
    assumption: str
    where: str
    effect: str
    meaning: str
    remedy: str
    e_value: float
    episodes: int

    def __str__(self) -> str:
        return f"{self.where}: {self.effect}; {self.meaning}. Remedy: {self.remedy}"


class AssumptionCheck(NamedTuple):
    """An assumption, the largest E of its tests, and the E from which on it counts as refuted."""

    name: str
    assumption: str
    e_value: float
    threshold: float


@dataclass(frozen=True, eq=False)
class AuditReport:
    """The report of an audit.

    Attributes:
        findings: the assumptions that are refuted, the most strongly refuted first.
        tested: all assumptions that were tested.
        e_values: the E of each single test, such as "next state by previous action".
        alpha: the probability of a finding if all assumptions are true.
        steps, episodes: the numbers of steps and episodes that were tested.
        stopped: the number of steps after which the tests ended, as the data have few repetitions;
            None if they did not end.

    """

    findings: tuple[Finding, ...]
    tested: tuple[AssumptionCheck, ...]
    e_values: dict[str, float]
    alpha: float
    steps: int
    episodes: int
    stopped: int | None

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a dict of numbers and strings."""
        findings = [vars(x) for x in self.findings]
        return {**vars(self), "findings": findings, "tested": [x._asdict() for x in self.tested]}

    def __repr__(self) -> str:
        refuted = ", ".join(x.name for x in self.findings) or "no findings"
        return f"AuditReport({refuted}; {len(self.tested)} assumptions, {self.episodes} episodes)"


class Contrast(NamedTuple):
    """Counts of a label, and of all draws, in some contexts and in the others."""

    inside: tuple[int, int]
    outside: tuple[int, int]

    @property
    def gain(self) -> float:
        """The log-likelihood ratio of two probabilities against one."""
        (c, n), (d, m) = self.inside, self.outside
        apart = max_log_likelihood(c, n) + max_log_likelihood(d, m)
        return float(apart - max_log_likelihood(c + d, n + m))

    @property
    def comparison(self) -> str:
        """The size of the difference: "much more often"."""
        (c, n), (d, m) = self.inside, self.outside
        change = c / max(n, 1) - d / max(m, 1)
        by = "much " if abs(change) >= 0.3 else "slightly " if abs(change) < 0.05 else ""
        return f"{by}{'more' if change > 0 else 'less'} often"

    def sentence(self, here: str, event: str, there: str) -> str:
        """Return the comparison of an event here and there, with its frequencies."""
        (c, n), (d, m) = self.inside, self.outside
        return (
            f"{here}, {event} {self.comparison} ({c / max(n, 1):.0%} of {n:,}) than {there} "
            f"({d / max(m, 1):.0%} of {m:,})"
        )


def report_of(audit: Audit, alpha: float = ALPHA, live: bool = False) -> AuditReport:
    """Return the report of an audit so far.

    Args:
        audit: the tests.
        alpha: the probability of a finding if all assumptions are true.
        live: whether the steps are those of a live task, and not of a log.

    """
    check_unit("alpha", alpha)
    audit.update_evidence()
    threshold, tests = audit.threshold(alpha), np.argwhere(audit.tests).tolist()
    strongest: dict[str, tuple[int, int]] = {}
    for kind, test in tests:
        name = _name(kind, test)
        best = strongest.setdefault(name, (kind, test))
        if audit.evidence[kind, test] > audit.evidence[best]:
            strongest[name] = kind, test
    refuted = [at for at in strongest.values() if audit.evidence[at] >= threshold]
    refuted.sort(key=lambda at: -audit.evidence[at])
    renderer = _FindingRenderer(audit, live)
    return AuditReport(
        findings=tuple(renderer.finding(*at) for at in refuted),
        tested=tuple(
            AssumptionCheck(name, ASSUMPTIONS[name], _exp(audit.evidence[at]), exp(threshold))
            for name, at in sorted(strongest.items(), key=lambda x: [*ASSUMPTIONS].index(x[0]))
        ),
        e_values={
            f"{KINDS[kind]} by {CONTEXT_NAMES[test]}": _exp(audit.evidence[kind, test])
            for kind, test in tests
        },
        alpha=alpha,
        steps=audit.steps,
        episodes=audit.episodes,
        stopped=audit.stopped,
    )


def _name(kind: int, test: int) -> str:
    """Return the assumption of a test."""
    if kind in (STARTS, LOSES):
        return "start" if kind == STARTS else "losses"
    return {STEP: "step", DETAIL: "bins", DRIFT: "drift"}.get(test, "memory")


def _exp(ln: float) -> float:
    return exp(min(float(ln), MAX_LN_E))


class _FindingRenderer:
    """Renders the strongest row, label and contexts of a test as a finding."""

    def __init__(self, audit: Audit, live: bool) -> None:
        self.audit, self.live = audit, live

    def finding(self, kind: int, test: int) -> Finding:
        """Return the finding of a test."""
        audit = self.audit
        row, number, z, c, n, when = audit.strongest[kind, test]
        ordered = test in (STEP, DRIFT)
        inside = _split(c, n, ordered)
        contrast = _contrast(c, n, inside)
        name = _name(kind, test)
        since = int(when[inside].min())
        where = self._row(row, kind)
        label = self._label(kind, int(audit.bets.symbol[number]))
        here, there = self._context(test, z[inside], z[~inside], since)
        return Finding(
            name=name,
            assumption=ASSUMPTIONS[name],
            where=where,
            effect=contrast.sentence(here, label, there),
            meaning=MEANINGS[name],
            remedy=self._remedy(name, test, z, c, n, inside, since),
            e_value=_exp(audit.evidence[kind, test]),
            episodes=int(audit.found_after[kind, test]),
        )

    def _parts(self, row: int) -> tuple[int, int, int]:
        """Return segment, state and action of a row of next states."""
        x = self.audit.register
        code = int(x.b[(x.number == row) & (x.a == FOLLOWS * 4 + ROWS)][0])
        return code // CODES**2, code // CODES % CODES, code % CODES

    def _row(self, row: int, kind: int) -> str:
        """Return the location of a row."""
        if kind == STARTS:
            return "where episodes start"
        if kind == LOSES:
            return "in the whole log"
        follows = ""
        x = self.audit.register
        if kind == PAYS:
            label = int(x.b[(x.number == row) & (x.a == PAYS * 4 + ROWS)][0])
            owner = (x.number == label) & (x.a % 4 == LABELS)
            row = int(x.a[owner][0]) // 4
            follows = f" with next state {self._state(int(self.audit.bets.symbol[label]))}"
        segment, s, a = self._parts(row)
        at = ""
        if self.audit.segments is True:
            at = f" at t = {self._t(segment)}"
        elif self.audit.segments:
            at = f" in segment {segment + 1}"
        return f"after action {self._action(a)} in state {self._state(s)}{at}{follows}"

    def _label(self, kind: int, symbol: int) -> str:
        """Return the event of a label."""
        if kind == STARTS:
            return f"an episode starts in state {self._state(symbol)}"
        if kind == LOSES:
            return f"the outcome is {'missing' if symbol else 'known'}"
        if kind == PAYS:
            return f"a reward of {self.audit.rewards.name(symbol)} is paid"
        return f"state {self._state(symbol)} follows"

    def _context(self, test: int, z: Ints, others: Ints, since: int) -> tuple[str, str]:
        """Return the contexts of the effect, and all others."""
        if test == DRIFT:
            return f"from about episode {since:,} on", "before"
        if test == STEP:
            span = f"t {'>=' if len(z) > 1 else '='} {self._t(int(z.min()))}"
            return f"at {span}", "at other steps"
        code = int(z[0])
        if test == DETAIL:
            if max(code, int(others.max())) > 1:  # several numbers are cut into bins
                return "in one part of its bins", "in the others"
            halves = "lower half of its bin", "upper half"
            return f"in the {halves[code]}", f"in the {halves[1 - code]}"
        if test == PAIR:
            state, action = code // CODES % CODES, code % CODES
            return f"after action {self._action(action)} in state {self._state(state)}", "elsewhere"
        if code == 0:
            return "in the first step", "in later steps"
        previous = {
            ACTION: lambda: f"action {self._action(code - 1)}",
            STATE: lambda: f"state {self._state(code - 1)}",
            REWARD: lambda: f"reward {self.audit.rewards.name(code - 1)}",
        }[test]()
        return f"if the step before had {previous}", "otherwise"

    def _remedy(
        self, name: str, test: int, z: Ints, c: Ints, n: Ints, inside: Bools, since: int
    ) -> str:
        """Return the remedy of a finding, from its contexts; see `StrongestEvidence`."""
        if name == "memory":
            variable = CONTEXT_NAMES[test].removeprefix("previous ")
            return Remedy.EXTEND_STATE.sentence(variable)
        if name in ("drift", "start"):
            return Remedy.SPLIT_DATA.sentence(since, self.live)
        if name == "step" and z[inside].min() > z[~inside].max():
            total = float(max_log_likelihood(c, n).sum() - max_log_likelihood(c.sum(), n.sum()))
            if _contrast(c, n, inside).gain >= 0.9 * total:  # one change explains the effect
                first = self._t(int(z[inside].min()))
                return Remedy.DECLARE_SEGMENT.sentence(first, self.live)
        by_name = {
            "step": Remedy.EVERY_STEP,
            "bins": Remedy.FINER_BINS,
            "losses": Remedy.DECLARE_MISSING,
        }
        return by_name[name].sentence(live=self.live)

    def _t(self, step: int) -> int:
        times = self.audit.times
        return step if times is None else times[step]

    def _state(self, code: int) -> str:
        return repr(_name_or_code(self.audit.state_names, code))

    def _action(self, code: int) -> str:
        return repr(_name_or_code(self.audit.action_names, code))


def _name_or_code(names: Sequence[str], code: int) -> str:
    return names[code] if code < len(names) else str(code)


def _split(c: Ints, n: Ints, ordered: bool) -> Bools:
    """Return (k,) the contexts that differ most from the others: one, or if ordered the last ones.

    c, n (k,): the counts of a label, and of all draws, in each context.
    """
    k = len(n)
    options = [np.arange(k) == i for i in range(k)]
    if ordered:
        options += [np.arange(k) >= i for i in range(1, k)]
    return max(options, key=lambda inside: _contrast(c, n, inside).gain)


def _contrast(c: Ints, n: Ints, inside: Bools) -> Contrast:
    return Contrast(
        (int(c[inside].sum()), int(n[inside].sum())),
        (int(c[~inside].sum()), int(n[~inside].sum())),
    )
