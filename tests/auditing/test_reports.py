"""Findings of planted violations: assumption, location, context and frequencies."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import numpy as np
import pytest

import ucfh
from support.audits import PLANTED, audited, pieces, planted_worlds
from ucfh.auditing.e_process import Audit
from ucfh.auditing.report import report_of
from ucfh.auditing.steps import AuditSteps

EFFECTS = {
    "next state by previous action": "if the step before had action '1', state '[0-3]' follows",
    "next state by previous state": "if the step before had state '[013]', state",
    "next state by previous reward": "if the step before had reward 1, state",
    "next state by step": "at t >= 3, state",
    "reward by step, in the last only": "at t = 4, a reward of [01] is paid",
    "next state by half of the bin": "in one part of its bins, state",
    "next state, a change in the middle": "from about episode [0-9]+ on, state",
    "start, a change in the middle": "from about episode [0-9]+ on, an episode starts in state",
    "losses by state and action": "after action '0' in state '0', the outcome is (missing|known)",
    "losses by step": "at t >= 3, the outcome is (missing|known)",
}


@pytest.mark.parametrize("name", EFFECTS)
def test_the_effect_is_named(name: str) -> None:
    """Effects of .4 in each row are found, alone or with what follows from them."""
    rng = np.random.default_rng(0)
    log = planted_worlds(name, 0.4, 1).logs(3000, rng)[0]
    report = report_of(audited(log, details=True))
    by_name = {finding.name: finding for finding in report.findings}
    assert PLANTED[name][0] in by_name
    assert re.match(EFFECTS[name], by_name[PLANTED[name][0]].effect)


def test_the_numbers_are_those_of_the_log() -> None:
    rng = np.random.default_rng(1)
    log = planted_worlds("next state by previous action, in one row", 0.4, 1).logs(10_000, rng)[0]
    finding = report_of(audited(log)).findings[0]
    assert finding.where == "after action '0' in state '0'"
    here = (log.state == 0) & (log.action == 0)
    before = np.where(log.new, -1, np.append(-1, log.action[:-1]))
    shares = []
    for inside in (here & (before == 1), here & (before != 1)):
        came = log.following[inside] == int(re.findall(r"state '(\d)' follows", finding.effect)[0])
        shares.append(f"({came.mean():.0%} of {inside.sum():,})")
    assert re.findall(r"\([^)]*\)", finding.effect) == shares
    assert "make the previous action a part of the state" in finding.remedy


def test_a_change_is_dated() -> None:
    """It came in the middle, and is dated to within a quarter of a doubling."""
    rng = np.random.default_rng(2)
    log = planted_worlds("start, a change in the middle", 0.4, 1).logs(10_000, rng)[0]
    finding = report_of(audited(log)).findings[0]
    since = int(re.findall(r"episode (\d+,?\d*)", finding.effect)[0].replace(",", ""))
    assert 1000 / 1.25 <= since <= 1000 * 1.25


def test_evidence_that_has_gone_again() -> None:
    """The outcomes at t = 0 and t = 1 are exchanged in the second half, so the totals agree:
    the finding stays, and so does what is said of it. State 1 is always at t = 2.
    """
    rng = np.random.default_rng(0)
    n = 6000
    t, nothing = np.arange(n) % 3, np.zeros(n, np.int64)
    likely = (np.arange(n) < n // 2) == (t == 0)
    after = (t < 2) & (rng.random(n) < np.where(likely, 0.9, 0.1))
    log = AuditSteps(
        t == 0, t, (t == 2).astype(int), nothing, after.astype(int), np.zeros(n),
        nothing.astype(bool), nothing,
    )  # fmt: skip
    audit = Audit()
    for piece in pieces(log):
        audit.add(piece)
    step = next(x for x in report_of(audit).findings if x.name == "step")
    assert step.where == "after action '0' in state '0'"


def test_losses_without_assumption_refute_nothing() -> None:
    """Nothing drifts but the losses, of which nothing is assumed: then bounds are true, and must
    not be doubted. In the second half, three of four outcomes of one kind are lost.
    """
    rng = np.random.default_rng(0)
    n = 5000
    nothing = np.zeros(n, np.int64)
    after = rng.integers(0, 2, n)
    lost = (after == 1) & (np.arange(n) >= n // 2) & (rng.random(n) < 0.75)
    log = AuditSteps(
        np.ones(n, bool), nothing, nothing, nothing, np.where(lost, -1, after), np.zeros(n),
        lost, nothing,
    )  # fmt: skip
    assert report_of(audited(log, losses=False)).findings == ()


def test_drop_outs_at_a_constant_rate(tmp_path: Path) -> None:
    """After each step but the last one, after which nobody can drop out, one in twenty does."""
    draw = Random(0)
    lines = ["episode,t,state,action,reward"]
    for episode in range(2000):
        for t in range(5):
            lines.append(f"{episode},{t},{draw.choice('ab')},{draw.choice('xy')},0")
            if t < 4 and draw.random() < 0.05:
                break
    path = tmp_path / "log.csv"
    path.write_text("\n".join([*lines, ""]))
    assert ucfh.audit(ucfh.read_log(path, dropouts="random")).findings == ()
