"""What an audit found, in words: which assumption fails, where, by how much, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from ucfh.auditing.e_process import CODES, DRIFT, Audit, best_fit
from ucfh.exceptions import check_unit

MOST_LN = 700.0
"""Larger logarithms of evidence are not distinguished."""

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
    "memory": "what follows depends on the state and the action alone, not on what came before",
    "step": "what follows does not depend on the step",
    "bins": "what follows does not depend on where in its bin a number lies",
    "drift": "what follows is the same early and late in the log",
    "start": "episodes start in the same way early and late in the log",
    "losses": "outcomes are lost at a constant rate",
}
"""What is tested, by name."""
CHANGED = (
    "find out what changed around episode {:,}, and use the episodes after it as a log of their own"
)
EVERY_STEP = "let every step be different, --time-dependent (time_dependent=True)"
IN_LIVE_TASKS = {
    CHANGED: "find out what changed around episode {:,}, and begin another task",
    EVERY_STEP: "let every step be different in another task, --segments every (segments=True)",
}
"""Remedies of logs, and what they are of live tasks."""
POOLED = "the bounds take these cases for one, so they may be false: nothing is certified"
PAST = "the bounds describe a mixture of what was and what is, so they may be false: nothing is "
MEANINGS = {
    "memory": POOLED,
    "step": POOLED,
    "bins": POOLED,
    "drift": PAST + "certified",
    "start": PAST + "certified",
    "losses": "outcomes may be lost because of what they were, and bounds from the others false: "
    "nothing is certified",
}


@dataclass(frozen=True)
class Finding:
    """An assumption that the data refute.

    Attributes:
        name: short, a key of `ASSUMPTIONS`. assumption: the sentence that is refuted.
        where: the row and the context. effect: what differs there, and by how much.
        meaning: what it does to a certificate. remedy: what can be done about it.
        e_value: how strongly it is refuted: a true assumption reaches E with probability 1/E.
        episodes: after how many it was largest.

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
    """One assumption, the largest E of its tests, and the E from which on it counts as refuted."""

    name: str
    assumption: str
    e_value: float
    threshold: float


@dataclass(frozen=True, eq=False)
class AuditReport:
    """What was tested and found.

    Attributes:
        findings: the assumptions that are refuted, the most strongly refuted first.
        tested: all that were tested.
        e_values: of each single test, such as "next state by previous action".
        alpha: the probability of a finding if all that is assumed is true.
        steps, episodes: how many were looked at.
        stopped: after how many steps the tests ended, as too much differs; None if they did not.

    """

    findings: tuple[Finding, ...]
    tested: tuple[AssumptionCheck, ...]
    e_values: dict[str, float]
    alpha: float
    steps: int
    episodes: int
    stopped: int | None

    def as_dict(self) -> dict[str, Any]:
        """All of it, in numbers and texts."""
        findings = [vars(x) for x in self.findings]
        return {**vars(self), "findings": findings, "tested": [x._asdict() for x in self.tested]}

    def __repr__(self) -> str:
        found = ", ".join(x.name for x in self.findings) or "nothing found"
        return f"AuditReport({found}; {len(self.tested)} assumptions, {self.episodes} episodes)"


class Contrast(NamedTuple):
    """A label in some contexts, and in the others: how often it came, of how many draws."""

    inside: tuple[int, int]
    outside: tuple[int, int]

    @property
    def gain(self) -> float:
        """By how much two shares explain the draws better than one, as ln of likelihoods."""
        (c, n), (d, m) = self.inside, self.outside
        return float(best_fit(c, n) + best_fit(d, m) - best_fit(c + d, n + m))

    @property
    def words(self) -> str:
        """How much the shares differ: "much more often"."""
        (c, n), (d, m) = self.inside, self.outside
        change = c / max(n, 1) - d / max(m, 1)
        by = "much " if abs(change) >= 0.3 else "slightly " if abs(change) < 0.05 else ""
        return f"{by}{'more' if change > 0 else 'less'} often"

    def sentence(self, here: str, what: str, there: str) -> str:
        """What comes here more or less often than there."""
        (c, n), (d, m) = self.inside, self.outside
        return (
            f"{here}, {what} {self.words} ({c / max(n, 1):.0%} of {n:,}) than {there} "
            f"({d / max(m, 1):.0%} of {m:,})"
        )


def report_of(audit: Audit, alpha: float = ALPHA, live: bool = False) -> AuditReport:
    """What an audit has found so far; ``live``: in a task that goes on, and not in a log."""
    check_unit("alpha", alpha)
    audit.look()
    threshold, made = audit.threshold(alpha), np.argwhere(audit.tests).tolist()
    strongest: dict[str, tuple[int, int]] = {}
    for kind, test in made:
        name = _name(kind, test)
        best = strongest.setdefault(name, (kind, test))
        if audit.evidence[kind, test] > audit.evidence[best]:
            strongest[name] = kind, test
    found = [at for at in strongest.values() if audit.evidence[at] >= threshold]
    found.sort(key=lambda at: -audit.evidence[at])
    words = _Words(audit, live)
    return AuditReport(
        findings=tuple(words.finding(*at) for at in found),
        tested=tuple(
            AssumptionCheck(name, ASSUMPTIONS[name], _exp(audit.evidence[at]), exp(threshold))
            for name, at in sorted(strongest.items(), key=lambda x: [*ASSUMPTIONS].index(x[0]))
        ),
        e_values={
            f"{KINDS[kind]} by {CONTEXT_NAMES[test]}": _exp(audit.evidence[kind, test])
            for kind, test in made
        },
        alpha=alpha,
        steps=audit.steps,
        episodes=audit.episodes,
        stopped=audit.stopped,
    )


def _name(kind: int, test: int) -> str:
    """The assumption that a test is of."""
    if kind in (STARTS, LOSES):
        return "start" if kind == STARTS else "losses"
    return {STEP: "step", DETAIL: "bins", DRIFT: "drift"}.get(test, "memory")


def _exp(ln: float) -> float:
    return exp(min(float(ln), MOST_LN))


class _Words:
    """Finds the row, label and contexts in which a test found most, and says it."""

    def __init__(self, audit: Audit, live: bool) -> None:
        self.audit, self.live = audit, live

    def finding(self, kind: int, test: int) -> Finding:
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
        """Segment, state and action of a row of next states."""
        x = self.audit.register
        code = int(x.b[(x.number == row) & (x.a == FOLLOWS * 4 + ROWS)][0])
        return code // CODES**2, code // CODES % CODES, code % CODES

    def _row(self, row: int, kind: int) -> str:
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
        if kind == STARTS:
            return f"an episode starts in state {self._state(symbol)}"
        if kind == LOSES:
            return f"what follows is {'lost' if symbol else 'known'}"
        if kind == PAYS:
            return f"a reward of {self.audit.rewards.name(symbol)} is paid"
        return f"state {self._state(symbol)} follows"

    def _context(self, test: int, z: Ints, others: Ints, since: int) -> tuple[str, str]:
        """Where a label came more or less often, and all else."""
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
            return "in the first step", "in later ones"
        what = {
            ACTION: lambda: f"action {self._action(code - 1)}",
            STATE: lambda: f"state {self._state(code - 1)}",
            REWARD: lambda: f"reward {self.audit.rewards.name(code - 1)}",
        }[test]()
        return f"if the step before had {what}", "otherwise"

    def _remedy(
        self, name: str, test: int, z: Ints, c: Ints, n: Ints, inside: Bools, since: int
    ) -> str:
        if name == "step":
            whole = float(best_fit(c, n).sum() - best_fit(c.sum(), n.sum()))
            begins = self._t(int(z[inside].min()))
            if z[inside].min() > z[~inside].max() and _contrast(c, n, inside).gain >= 0.9 * whole:
                how = f"--segments {begins} (segments=[{begins}])"
                return f"declare the segment that begins there, {how}"
            return self._said(EVERY_STEP)
        if name == "memory":
            what = {ACTION: "action", STATE: "state", REWARD: "reward"}[test]
            return f"make the previous {what} a part of the state"
        return {
            "bins": "cut the bins finer",
            "drift": self._said(CHANGED).format(since),
            "start": self._said(CHANGED).format(since),
            "losses": "say what a missing outcome means, --dropouts outcome, or count it as "
            "anything, --dropouts lost",
        }[name]

    def _said(self, remedy: str) -> str:
        return IN_LIVE_TASKS[remedy] if self.live else remedy

    def _t(self, step: int) -> int:
        times = self.audit.times
        return step if times is None else times[step]

    def _state(self, code: int) -> str:
        return repr(_called(self.audit.state_names, code))

    def _action(self, code: int) -> str:
        return repr(_called(self.audit.action_names, code))


def _called(names: Sequence[str], code: int) -> str:
    return names[code] if code < len(names) else str(code)


def _split(c: Ints, n: Ints, ordered: bool) -> Bools:
    """(k,) the contexts that differ most from the others: one, or if ordered the last ones.

    c, n (k,): how often a label came in each, and of how many draws.
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
