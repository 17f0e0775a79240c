"""E-processes against the assumptions of certificates, updated step by step.

Every bound assumes that the outcome of a state and an action has the same distribution each time,
whatever the history, at every step, early or late in the log. That can be refuted.

Take a row: a state and an action (in a segment). Its outcomes are labels: next states, say. Choose
a label when it is observed for the first time. From then on, before each draw, its probability is
predicted from the history and a context z: the previous action, or a block of visits. If the label
always has the same probability p, the product of

    (predicted probability of the outcome) / (its probability by p)

is a martingale that begins with 1, where the outcome is that the label is drawn, or not. With n
draws since, c of them the label, the product of the denominators is p^c (1 - p)^(n - c), at most
its value for p = c/n. So with predictions as in `ucfh._kernels.audits`, for every choice of actions
by the past,

    ln E  =  sum of ln(predicted)  -  c ln(c/n) - (n - c) ln(1 - c/n)

is at most the logarithm of a martingale: an e-process. It grows if the context helps to predict,
and not otherwise. The mean over strengths of the predictions, or over lengths of blocks, is an
e-process as well; so is the mean over the labels of a row, the d-th with weight 1/(d(d+1)), and the
product over rows of 1 - w + w E with w = 1/(k + 1), where k is the place of a row in the order of
second visits: each step changes one factor. By Ville's inequality, E >= 1/alpha ever happens with
probability at most alpha, for any number of looks: that is a finding. Each of T tests has alpha/T.

If it is unknown u times whether the label was drawn, possibly because of the outcome, but not
because of later ones (`docs/theory/audit.md`, Proposition 68), then E is at least its value with
the smaller of both predictions each time, over the largest likelihood of c up to c + u of n + u
draws, which one of the two ends has. Rewards are missing together with their next states; their
bets end then: a martingale that falls to 0 is a supermartingale. Rewards that were never observed
for this reason are one more row of that kind, with its own place and E = 0.

A test may leave out draws if that is decided before they are made: it leaves out most draws of rows
that are visited very often (`OFTEN`), and all draws once the tables are full (`CAPACITY`).

Rewards are labels of separate rows, one for each next state of a row: the joint distribution
depends on the context if one of these does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np

from ucfh._kernels import audits as kernels
from ucfh._kernels.audits import (
    ACTION,
    BLOCKS,
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
    UNKNOWN,
    Bets,
    Draws,
    Register,
)
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh.auditing.rewards import RewardCodes
from ucfh.auditing.steps import AuditSteps, PreviousStep

DRIFT = 6
"""The test by blocks of visits; the tests before it are by context."""
CODES = 2**20
"""An exclusive upper bound of the codes of states and actions."""
CAPACITY = (2**17, 2**17, 2**19)
"""The largest numbers of rows, labels and contexts: with more there are few repetitions, and bets
end."""
MIN_STRONGEST = log(20)
"""The ln E from which on the strongest row of a test is kept."""
GROWTH = 1.1
"""The factor between the numbers of steps of two looks."""


class StrongestEvidence(NamedTuple):
    """The row and label with the strongest evidence of a test, by context, in order.

    z, c, n, when (m,): the contexts, the count of the label and of all draws in each, and the
    episode of the first draw.
    """

    row: int
    label: int
    z: Ints
    c: Ints
    n: Ints
    when: Ints


class Audit:
    """Sequential tests of the assumptions.

    Args:
        segments: the first step of each segment after the first, or True: every step is one.
        rewards: whether the steps hold rewards.
        details: whether states are bins, and `AuditSteps.detail` holds the part of the bin.
        losses: whether outcomes are assumed to be missing at a constant rate; if not, missing
            outcomes are arbitrary.

    Attributes:
        steps, episodes: the numbers of steps and episodes so far.
        stopped: the number of steps after which bets ended as `CAPACITY` was reached, or None.
        tests: (4, 7) True for the tests that are made: kinds of rows by contexts, drift last.
        evidence: (4, 7) the largest ln E so far. found_after: (4, 7) episodes at that look.
        strongest: by kind and test, the strongest row at that look, from `MIN_STRONGEST` on.
        state_names, action_names: by code, as far as they are known. times: the t of each
            step; None: 0, 1, ... The log or task that the audit belongs to may set them.

    """

    def __init__(
        self,
        segments: Sequence[int] | bool = (),
        rewards: bool = True,
        details: bool = False,
        losses: bool = True,
    ) -> None:
        self.segments = segments
        self.state_names: Sequence[str] = ()
        self.action_names: Sequence[str] = ()
        self.times: range | None = None
        self.steps = self.episodes = 0
        self.stopped: int | None = None
        self.tests: Bools = np.zeros((4, DRIFT + 1), bool)
        self.tests[FOLLOWS, [ACTION, STATE, REWARD, DRIFT]] = True
        self.tests[FOLLOWS, [STEP, DETAIL]] = segments is not True, details
        self.tests[FOLLOWS, REWARD] = rewards
        if rewards:
            self.tests[PAYS] = self.tests[FOLLOWS]
        self.tests[STARTS, DRIFT] = True
        self.tests[LOSES, [STEP, PAIR, DRIFT]] = losses
        self.evidence: Floats = np.zeros((4, DRIFT + 1))
        self.found_after: Ints = np.zeros((4, DRIFT + 1), np.int64)
        self.strongest: dict[tuple[int, int], StrongestEvidence] = {}
        self.rewards = RewardCodes()
        self.register, self.bets = _register(2**10), _bets(2**7, 2**8, 2**9)
        self._steps_at_look = 0
        self._last: tuple[int, int, int] = (0, 0, 0)  # codes of the step before, each plus 1

    def add(self, steps: AuditSteps, earlier: PreviousStep | None = None) -> None:
        """Bet on steps, in their order.

        Args:
            steps: the steps.
            earlier: the previous step of each; None: the one before it in ``steps``.

        """
        n = len(steps.t)
        if not n or self.stopped is not None:
            return
        reward = self.rewards.of(steps.reward) if self.tests[PAYS].any() else np.full(n, -1)
        before = np.empty((n, 3), np.int64)
        before[0] = self._last
        before[1:] = np.stack([steps.action, steps.state, reward], 1)[:-1] + 1
        if earlier is not None:
            codes = self.rewards.of(earlier.reward)
            before[:] = np.stack([earlier.action, earlier.state, codes], 1) + 1
        before[steps.new] = 0
        self._last = int(steps.action[-1]) + 1, int(steps.state[-1]) + 1, int(reward[-1]) + 1
        z = np.empty((n, 6), np.int64)
        z[:, [ACTION, STATE, REWARD]] = before
        z[:, STEP], z[:, DETAIL], z[:, PAIR] = steps.t, steps.detail, self._code(steps, 0)
        missing = steps.lost.astype(np.int64)
        following = np.where(steps.following < 0, UNKNOWN, steps.following)
        following[missing > 0] = -1 if self.tests[LOSES].any() else UNKNOWN
        draws = Draws(
            row=self._code(steps, self._segment(steps.t)),
            following=following,
            paid=np.where(following < 0, -1, reward),
            lost=missing if self.tests[LOSES].any() else np.full(n, -1),
            start=np.where(steps.new, steps.state, -1),
            episode=self.episodes + np.cumsum(steps.new),
            z=z,
        )
        on, at = self.tests[:, :DRIFT].astype(np.int64), 0
        while (at := kernels.bet(self.register, self.bets, draws, at, on)) < n:
            if not self._grow():
                self.stopped = self.steps + at
                break
        self.steps += n
        self.episodes += int(steps.new.sum())
        if self.steps >= GROWTH * self._steps_at_look or self.stopped is not None:
            self.update_evidence()

    def _segment(self, t: Ints) -> Ints:
        if isinstance(self.segments, bool):
            return t if self.segments else np.zeros_like(t)
        return np.searchsorted(np.asarray(self.segments, np.int64), t, "right")

    @staticmethod
    def _code(steps: AuditSteps, segment: Ints | int) -> Ints:
        return np.asarray((segment * CODES + steps.state) * CODES + steps.action, np.int64)

    def by_label(self) -> Floats:
        """Return (labels, 7) ln E of the bets on each label, by test."""
        k, L = self.bets, self.register.used[LABELS]
        c, unknown = k.c[:L] - 1, k.unknown[:L]
        n = k.n[k.owner[:L]] - k.after[:L] - 1 + unknown
        likelihood = np.maximum(max_log_likelihood(c, n), max_log_likelihood(c + unknown, n))
        out = np.empty((L, DRIFT + 1))
        out[:, :DRIFT] = _ln_mean(k.ln[:L] + np.log(k.product[:L]))
        out[:, DRIFT] = _ln_mean(k.ln_blocks[:L] + np.log(k.blocks[:L]))
        return np.asarray(out - likelihood[:, None])

    def by_row(self) -> Floats:
        """Return (rows, 7) ln E by row and test: the mean over labels, weighted by 1/(d(d+1))."""
        return self._over_labels(self.by_label())

    def _over_labels(self, by_label: Floats) -> Floats:
        """Return (rows, 7) the weighted means over labels of by_label (labels, 7)."""
        k, R = self.bets, self.register.used[ROWS]
        labels = k.labels[:R]
        ln = np.where(labels[..., None] >= 0, by_label[labels], 0.0)
        d = np.arange(1, kernels.MOST_LABELS + 1)
        weights = np.append(1.0 / (d * (d + 1)), 1.0 / (kernels.MOST_LABELS + 1))
        ln = np.concatenate([ln, np.zeros_like(ln[:, :1])], 1)  # the stake that is not bet
        by_row = np.asarray(np.logaddexp.reduce(ln + np.log(weights)[:, None], axis=1))
        by_row[self._rewards_of(np.flatnonzero(k.given_up[:R]))] = -np.inf
        return by_row

    def _rewards_of(self, rows: Ints) -> Ints:
        """Return the rows of rewards that belong to rows of next states."""
        x = self.register
        here = (x.number >= 0) & (x.a == PAYS * 4 + ROWS)
        return np.asarray(x.number[here][np.isin(self.bets.owner[x.b[here]], rows)], np.int64)

    def update_evidence(self) -> None:
        """Compute the evidence from all rows, and keep it where it is larger than before."""
        self._steps_at_look = self.steps
        R = self.register.used[ROWS]
        place, kind, by_label = self.bets.place[:R], self.bets.kind[:R], self.by_label()
        by_row = self._over_labels(by_label)
        w = 1.0 / (np.maximum(place, 1) + 1.0)[:, None]
        factor = np.logaddexp(np.log1p(-w), np.log(w) + by_row)
        factor[place == 0] = 0.0
        given_up = self.bets.given_up[:R][self.bets.given_up[:R] > 0]
        for k in range(4):
            rows = np.flatnonzero(kind == k)
            total = factor[rows].sum(0)
            if k == PAYS:
                total += np.log1p(-1.0 / (given_up + 1.0)).sum()
            now = np.where(self.tests[k], total, 0.0)
            for test in np.flatnonzero(now > self.evidence[k]).tolist():
                self.evidence[k, test], self.found_after[k, test] = now[test], self.episodes
                if now[test] > MIN_STRONGEST:
                    row = int(rows[factor[rows, test].argmax()])
                    self.strongest[k, test] = self._contexts(row, test, by_label)

    def _contexts(self, row: int, test: int, by_label: Floats) -> StrongestEvidence:
        """Return the strongest label of a row by by_label (labels, 7), in a test's contexts."""
        x, k = self.register, self.bets
        labels = k.labels[row][k.labels[row] >= 0]
        slot = int(by_label[labels, test].argmax())
        which = kernels.PERIOD if test == DRIFT else test
        at = (x.number >= 0) & (x.a == (row * 8 + which) * 4 + kernels.CONTEXTS)
        z, here = x.b[at], x.number[at]
        here = here[np.argsort(z)]
        c = k.c_z[here, slot].astype(np.int64)
        return StrongestEvidence(row, int(labels[slot]), np.sort(z), c, k.n_z[here], k.when[here])

    def refutes(self, alpha: float) -> bool:
        """Return True if a test refutes its assumption, by the looks so far."""
        return bool((self.evidence >= self.threshold(alpha)).any())

    def threshold(self, alpha: float) -> float:
        """Return the ln E from which on a test refutes its assumption."""
        return log(self.tests.sum() / alpha)

    def state(self) -> dict[str, Any]:
        """Return copies of all arrays by name, to be stored."""
        stopped = -1 if self.stopped is None else self.stopped
        out = {
            **self.register._asdict(),
            **self.bets._asdict(),
            "evidence": self.evidence,
            "found_after": self.found_after,
            "values": np.array(self.rewards.values),
            "edges": self.rewards.edges,
            "so_far": np.array(
                [self.steps, self.episodes, stopped, self._steps_at_look, *self._last]
            ),
        }
        for (kind, test), (row, label, *parts) in self.strongest.items():
            first = np.array([[row], [label], [0], [0]])
            out[f"strongest {kind} {test}"] = np.hstack([first, np.stack(parts)])
        return {f"audit_{name}": array.copy() for name, array in out.items()}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Restore the arrays returned by `state`."""
        own = {name[6:]: x.copy() for name, x in arrays.items() if name.startswith("audit_")}
        self.register = Register(*(own[name] for name in Register._fields))
        self.bets = Bets(*(own[name] for name in Bets._fields))
        self.evidence, self.found_after = own["evidence"], own["found_after"]
        self.strongest = {}
        for name, array in own.items():
            if name.startswith("strongest"):
                kind, test = map(int, name.split()[1:])
                where = int(array[0, 0]), int(array[1, 0])
                self.strongest[kind, test] = StrongestEvidence(*where, *array[:, 1:])
        self.rewards.values, self.rewards.edges = own["values"].tolist(), own["edges"]
        self.steps, self.episodes, stopped, self._steps_at_look, *last = own["so_far"].tolist()
        self.stopped, self._last = None if stopped < 0 else stopped, (last[0], last[1], last[2])

    def _grow(self) -> bool:
        """Double the tables that are nearly full; return False if `CAPACITY` is reached."""
        x, k = self.register, self.bets
        limits = [len(part) for part in (k.n, k.c, k.n_z)]
        sizes = [
            2 * size if used + kernels.MOST_NEW > size else size
            for used, size in zip(x.used.tolist(), limits, strict=True)
        ]
        if any(size > most for size, most in zip(sizes, CAPACITY, strict=True)):
            return False
        larger = _bets(*sizes)
        for name in Bets._fields:
            old = getattr(k, name)
            getattr(larger, name)[: len(old)] = old
        self.bets = larger
        if 2 * (x.used.sum() + kernels.MOST_NEW) > len(x.number):
            slots = _register(2 * len(x.number))._replace(used=x.used, placed=x.placed)
            kernels.rehash(x, slots)
            self.register = slots
        return True


def _register(slots: int) -> Register:
    """Return an empty hash table."""
    a, b, used = np.zeros(slots, np.int64), np.zeros(slots, np.int64), np.zeros(3, np.int64)
    return Register(a, b, np.full(slots, -1, np.int32), used, np.zeros(4, np.int64))


def _bets(rows: int, labels: int, contexts: int) -> Bets:
    """Allocate zeroed arrays for the given numbers of rows, labels and contexts."""

    def zeros(*shape: int) -> Ints:
        return np.zeros(shape, np.int64)

    def small(*shape: int) -> Any:
        return np.zeros(shape, np.int32)

    tests = (labels, DRIFT, len(kernels.STRENGTHS))
    return Bets(
        kind=zeros(rows), visits=zeros(rows), n=zeros(rows), place=zeros(rows),
        given_up=zeros(rows),
        labels=small(rows, kernels.MOST_LABELS) - 1,
        owner=zeros(labels), symbol=zeros(labels), c=zeros(labels), after=zeros(labels),
        unknown=zeros(labels),
        product=np.ones(tests), ln=np.zeros(tests),
        blocks=np.ones((labels, BLOCKS)), ln_blocks=np.zeros((labels, BLOCKS)),
        recent=small(labels, BLOCKS),
        n_z=zeros(contexts), when=zeros(contexts), c_z=small(contexts, kernels.MOST_LABELS),
    )  # fmt: skip


def _x_ln_x(x: Any) -> Floats:
    return np.asarray(x * np.log(np.maximum(x, 1)), float)


def max_log_likelihood(c: Any, n: Any) -> Floats:
    """Return c ln(c/n) + (n - c) ln(1 - c/n), elementwise."""
    return _x_ln_x(c) + _x_ln_x(n - c) - _x_ln_x(n)


def _ln_mean(ln: Floats) -> Floats:
    """Return (...,) ln of the mean of exp over the last axis."""
    return np.asarray(np.logaddexp.reduce(ln, axis=-1) - log(ln.shape[-1]), float)
