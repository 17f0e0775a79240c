"""The checks of the paper's claims hold, and fail for incorrect agents and simulators."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from support.command_line import run
from support.settings import many
from ucfh import MDP, UCFH, make, simulate, verify
from ucfh.simulation import verification
from ucfh.simulation.verification import ClaimCheck, refuted
from ucfh.transitions import Rewards

Capture = pytest.CaptureFixture[str]
PROBLEM = "riverswim:n=3,horizon=4"


def failing(lines: list[ClaimCheck]) -> set[str]:
    return {line.claim.split(":")[0] for line in lines if line.proved and not line.holds}


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["paper", "corrected"])
@pytest.mark.parametrize("confidence", ["paper", "kl"])
def test_all_that_is_proved_holds(variant: Any, confidence: str) -> None:
    lines = verify(make(PROBLEM), 0.5, 0.1, variant, confidence, runs=3)
    assert failing(lines) == set()
    assert len(lines) == 9
    assert all(line.margin >= 1 for line in lines if line.holds and line.predicted > 0)


def test_the_printed_number_of_updates_is_exceeded() -> None:
    """Errata 8: and it is shown, not hidden, nor counted as a failure."""
    lines = {line.claim: line for line in verify(make(PROBLEM), 0.5, 0.1, "paper", runs=1)}
    printed, right = lines["updates, as printed: U_max"], lines["updates, as corrected"]
    assert not printed.holds
    assert not printed.proved
    assert printed.measured > printed.predicted
    assert right.holds


@pytest.mark.parametrize("variant", ["paper", "corrected"])
def test_lemmas_are_proved_for_the_corrected_variant_only(variant: Any) -> None:
    lines = verify(make("chain:n=2,horizon=2"), 1.0, 0.5, variant, runs=1)
    for name in ("Lemma 1", "Lemma 2", "Lemma 3", "Theorem 1"):
        (line,) = [line for line in lines if line.claim.startswith(name)]
        assert line.proved == (variant == "corrected"), line.claim
    for name in ("Lemma 4", "planning", "identity", "updates, as corrected"):
        (line,) = [line for line in lines if line.claim.startswith(name)]
        assert line.proved, line.claim


def test_segments_ragged_actions_and_rewards_on_next_states() -> None:
    rng = np.random.default_rng(0)
    p, r = rng.dirichlet(np.ones(2), (3, 2, 2)), rng.random((3, 2, 2, 2))
    some = np.array([[True, True], [True, False]])
    assert failing(verify(MDP(p, r, 3, available=some), 1.0, 0.1, runs=1)) == set()


# -- power: each of these bugs must violate a claim --------------------------------------------


class NarrowSet(UCFH):
    """Its confidence sets are a hundredth as wide."""

    def _bound(self, row: int) -> None:
        super()._bound(row)
        at = self.problem.table.entries_of(row)
        p = self.n.successors[at] / self.n.visits[row]
        self.box.lo[at] = p - 0.01 * (p - self.box.lo[at])
        self.box.hi[at] = p + 0.01 * (self.box.hi[at] - p)


class NoReward(UCFH):
    """Its planner forgets the reward of the step, as the printed pseudo-code does."""

    def _plan(self, updated: int | None = None) -> None:
        known = self.problem.rewards
        assert known is not None
        self.problem.rewards = Rewards(0.5 * known.pair)
        super()._plan(updated)
        self.problem.rewards = known


class Restless(UCFH):
    """Updates a pair from its first visit on, not after m w_min of them."""

    def __init__(self, *args: Any, **choices: Any) -> None:
        super().__init__(*args, **choices)
        self._min_visits = 1


BUGS = [
    (NarrowSet, "Lemma 1", 4),
    (NoReward, "planning", 1),
    (Restless, "updates, as corrected", 1),
]
"""The claim that each violates, and the least number of runs."""


@pytest.mark.slow
@pytest.mark.parametrize(("bug", "line", "runs"), BUGS)
@pytest.mark.parametrize("variant", ["paper", "corrected"])
def test_a_bug_is_found(bug: Any, line: str, runs: int, variant: Any) -> None:
    lines = verify(make(PROBLEM), 0.5, 0.1, variant, runs=many(runs, 6), make=bug)
    assert line in {x.claim.split(":")[0] for x in lines if not x.holds}
    assert (line in failing(lines)) == (variant == "corrected" or line != "Lemma 1")


@pytest.mark.slow
def test_a_wrong_sampler_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transitions drawn with probabilities that are off by one per cent."""
    problem, right = make(PROBLEM), simulate

    def off(mdp: MDP, *args: Any, **options: Any) -> Any:
        p = mdp.p.copy()
        for row in range(mdp.table.start):
            at = mdp.table.entries_of(row)
            p[at] = 0.99 * p[at] + 0.01 / (at.stop - at.start)
        return right(MDP._of(mdp.problem, p, mdp.noise, ""), *args, **options)

    monkeypatch.setattr("ucfh.simulation.verification.simulate", off)
    assert "Lemma 1" in failing(verify(problem, 0.5, 0.1, runs=6))


@pytest.mark.parametrize(("k", "n", "chance"), [(0, 5, 0.1), (3, 10, 0.05), (10, 10, 0.5)])
def test_refuted_is_the_binomial_test(k: int, n: int, chance: float) -> None:
    tail = stats.binomtest(k, n, chance, "greater").pvalue
    assert refuted(k, n, chance) == (tail < verification.SURE)


# -- the command ---------------------------------------------------------------------------------


def test_command(capsys: Capture) -> None:
    code, out, _ = run(capsys, "verify", PROBLEM, "--epsilon", "0.5", "--runs", "1")
    assert code == 0
    assert f"{PROBLEM}, paper constants, 1 runs" in out
    assert "fails (not proved)" in out
    assert "FAILS" not in out


def test_command_as_json(capsys: Capture) -> None:
    given = [
        "verify",
        PROBLEM,
        "--epsilon",
        "0.5",
        "--runs",
        "1",
        "--variant",
        "corrected",
        "--json",
    ]
    result = json.loads(run(capsys, *given)[1])
    assert result["verified"] is True
    (found,) = result["results"]
    assert found["problem"] == PROBLEM
    assert {line["claim"] for line in found["lines"]} >= {"updates, as corrected"}


def test_command_says_when_a_claim_fails(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [ClaimCheck("Lemma 0: nothing is 3", 0.0, 3.0, holds=False)]
    monkeypatch.setattr("ucfh.simulation.verification.verify", lambda *_, **__: wrong)
    code, out, _ = run(capsys, "verify", PROBLEM)
    assert code == 1
    assert "FAILS" in out
