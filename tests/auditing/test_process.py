"""The audit in odd places, against a slow one that computes each E anew from all draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oracles.audited import KINDS, ROUNDED, TESTS, SlowAudit, assert_same, evidence_now, part
from support.audits import CLEAN, clean_worlds, pieces, planted_worlds
from support.settings import many
from ucfh._kernels import audits as kernels
from ucfh.auditing import e_process
from ucfh.auditing.e_process import Audit
from ucfh.auditing.rewards import RewardCodes
from ucfh.auditing.steps import AuditSteps

SEGMENTS: tuple[Any, ...] = ((), (2,), (1, 3), True)


@pytest.mark.parametrize("segments", SEGMENTS)
@pytest.mark.parametrize("kind", CLEAN)
def test_logs_of_worlds(kind: str, segments: Any) -> None:
    """Of 60 states in one case, so that all tables grow."""
    rng = np.random.default_rng(CLEAN.index(kind))
    episodes = 1500 if kind == "large" else many(400, 1500)
    log = clean_worlds(kind, 1, rng).logs(episodes, rng)[0]
    assert_same(log, [7, 7, 400], segments=segments, details=True)


def test_a_row_with_many_labels() -> None:
    """More than are bet on, which come again and again; and more rewards than are values."""
    rng = np.random.default_rng(0)
    n = 600
    zeros, false = np.zeros(n, np.int64), np.zeros(n, bool)
    new = np.arange(n) % 3 == 0
    log = AuditSteps(
        new, np.arange(n) % 3, zeros, rng.integers(0, 2, n), rng.integers(0, 15, n),
        rng.integers(0, 200, n) / 64, false, zeros,
    )  # fmt: skip
    assert_same(log, [5, 333])


def test_strong_evidence() -> None:
    """Products that leave the range of numbers, and E in the hundreds of powers of e."""
    rng = np.random.default_rng(0)
    log = planted_worlds("next state by previous action", 0.45, 1).logs(7000, rng)[0]
    assert_same(log, [100])
    audit = Audit()
    audit.add(log)
    assert audit.evidence.max() > 400
    assert (audit.bets.ln < 0).any()


@pytest.mark.verify
def test_a_row_that_is_visited_very_often() -> None:
    """Beyond `OFTEN` visits, every eighth draw is looked at; new labels still come then."""
    rng = np.random.default_rng(3)
    n = kernels.OFTEN + 3000
    late = np.arange(n) > kernels.OFTEN + 100
    following = np.where(rng.random(n) < 0.3, 1, np.where(late & (rng.random(n) < 0.5), 2, 0))
    zeros, false = np.zeros(n, np.int64), np.zeros(n, bool)
    log = AuditSteps(
        np.ones(n, bool),
        zeros,
        zeros,
        zeros,
        following,
        rng.integers(0, 2, n).astype(float),
        false,
        zeros,
    )
    assert_same(log, [kernels.OFTEN, kernels.OFTEN + 1, n - 1], losses=False)
    audit = Audit()
    audit.add(log)
    rows = audit.register.used[kernels.ROWS]
    often = audit.bets.n[:rows][audit.bets.kind[:rows] <= kernels.PAYS]
    assert often.max() == kernels.OFTEN + 3000 // 8


def test_the_evidence_is_the_largest_of_all_looks() -> None:
    """Looks come after ten per cent more steps, each at the end of a batch. Here the context has
    the opposite effect in the second half, so that E falls again."""
    rng = np.random.default_rng(5)
    halves = [
        planted_worlds("next state by previous action", strength, 1).logs(400, rng)[0]
        for strength in (0.4, -0.4)
    ]
    log = AuditSteps(
        *(np.append(*(vars(half)[name] for half in halves)) for name in vars(halves[0]))
    )
    audit, slow = Audit(), SlowAudit()
    largest = dict.fromkeys(((kind, test) for kind in KINDS for test in TESTS), 0.0)
    after = dict.fromkeys(largest, 0)
    at = looked = episodes = 0
    for piece in pieces(log, 1.04):
        audit.add(piece)
        slow.add(piece)
        at, episodes = at + len(piece.t), episodes + int(piece.new.sum())
        if at >= 1.1 * looked:
            looked = at
            for key in largest:
                if (e := slow.ln_e(*key)) > largest[key]:
                    largest[key], after[key] = e, episodes
    assert largest["follows", "action"] > slow.ln_e("follows", "action") + 1
    for (kind, test), ln in largest.items():
        i, j = KINDS.index(kind), TESTS.index(test)
        assert audit.evidence[i, j] == pytest.approx(ln, abs=ROUNDED)
        assert audit.found_after[i, j] == after[kind, test]


def test_bets_end_where_too_much_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped audit keeps its evidence and the step at which it stopped."""
    monkeypatch.setattr(e_process, "CAPACITY", (700, 700, 700))
    rng = np.random.default_rng(0)
    log = clean_worlds("large", 1, rng).logs(3000, rng)[0]
    audit = Audit()
    audit.add(log)
    assert audit.stopped is not None
    assert 0 < audit.stopped < 3000
    other = Audit()
    other.add(part(log, 0, audit.stopped))
    assert evidence_now(audit) == evidence_now(other)
    audit.add(log)
    assert evidence_now(audit) == evidence_now(other)


def test_nothing_is_added_by_no_steps() -> None:
    audit = Audit()
    empty = AuditSteps(
        *(np.zeros(0, kind) for kind in (bool, int, int, int, int, float, bool, int))
    )
    audit.add(empty)
    audit.update_evidence()
    assert (audit.steps, audit.episodes, audit.evidence.max()) == (0, 0, 0)


def test_the_names_of_rewards() -> None:
    codes = RewardCodes()
    first = codes.of(np.arange(32) / 4)
    assert first.tolist() == list(range(32))
    assert codes.name(3) == "0.75"
    later = codes.of(np.array([-1.0, 0.1, 4.1, 99.0, np.nan, 0.75]))
    assert later.tolist() == [32, 32, 36, 39, -1, 3]
    assert [codes.name(x) for x in (32, 36, 39)] == [
        "less than 0.9688", "3.875 to 4.844", "6.781 or more"
    ]  # fmt: skip
