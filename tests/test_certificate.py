"""Certificates from counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from oracles.certified_cases import Case, cases, draw_case
from ucfh import MDP, Certificate, Counts, InputError, Problem, certify, make, read_log
from ucfh.certificate import MAX_SOURCES, UncertaintySource
from ucfh.confidence.behavior_policy import behavior_of
from ucfh.confidence.known_states import KnownStateBounds
from ucfh.logs.synthetic import write_log


def expected_counts(mdp: MDP, times: int) -> Any:
    """Counts as they are on average, (S, A, S) or (H, S, A, S)."""
    return np.round(times * mdp.table.dense(mdp.p)).astype(np.int64)


def segmented() -> MDP:
    rng = np.random.default_rng(0)
    return MDP(rng.dirichlet(np.ones(3), (4, 3, 2)), rng.random((4, 3, 2)), 4)


CHAIN = make("chain:n=4,horizon=4")
STAGED = segmented()


@pytest.mark.parametrize("mdp", [CHAIN, STAGED], ids=["(S, A, S)", "(H, S, A, S)"])
@pytest.mark.parametrize("kind", [np.int64, np.uint8, float])
def test_counts_as_arrays(mdp: MDP, kind: Any) -> None:
    found = certify(expected_counts(mdp, 200).astype(kind), mdp.problem, delta=0.01, epsilon=0.5)
    value, optimum = mdp.value(found.policy), mdp.at_start(mdp.optimal().values)
    assert found.lower <= value
    assert optimum <= found.upper
    assert optimum - value - 1e-12 <= found.gap <= found.upper - found.lower
    assert (found.delta, found.epsilon) == (0.01, 0.5)
    assert found.certified == (found.gap <= 0.5)


def test_more_data_says_more() -> None:
    gaps, widths = [], []
    for times in (0, 10, 100, 10**4, 10**6, 10**9):
        found = certify(expected_counts(STAGED, times), STAGED.problem, delta=0.05)
        gaps.append(found.gap)
        widths.append(found.upper - found.lower)
    assert gaps == sorted(gaps, reverse=True)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.01
    assert gaps[-1] < 1e-3


def test_too_little_data_says_so() -> None:
    """With nothing known at all, V* lies between 0 and H."""
    problem = Problem(3, 2, 4)
    found = certify(Counts.zero(problem), problem, delta=0.05, epsilon=0.5)
    assert (found.lower, found.upper, found.gap) == (0, 4, 4)
    assert not found.certified
    assert found.policy.shape == (4, 3)
    assert found.episodes == 0
    with_rewards = Problem(3, 2, 4, rewards=np.full((3, 2), 0.25), initial=0)
    found = certify(np.zeros((3, 2, 3), int), with_rewards, delta=0.05)
    assert (found.lower, found.upper) == pytest.approx((1, 1))
    assert found.gap == pytest.approx(0)
    assert not found.certified  # nothing was asked


@settings(max_examples=80, deadline=None)
@given(cases(honest=True, visits=(0, 2, 20, 500)))
def test_any_counts_give_a_consistent_certificate(case: Case) -> None:
    """With delta = 1e-9 a bound that does not hold would be a fault."""
    found = certify(case.counts, case.problem, delta=1e-9, epsilon=0.3)
    mdp, H = case.mdp, case.problem.horizon
    value, optimum, tiny = mdp.value(found.policy), mdp.at_start(mdp.optimal().values), 1e-12 * H
    assert 0 <= found.lower <= value + tiny
    assert optimum <= found.upper + tiny
    assert found.upper <= H + tiny
    assert optimum - value <= found.gap + tiny
    assert found.gap <= found.upper - found.lower + tiny
    assert found.episodes == case.counts.visits[-1]
    assert len(found.missing) <= MAX_SOURCES
    assert sum(x.share for x in found.missing) <= 1 + 1e-9
    shares = [x.share for x in found.missing]
    assert shares == sorted(shares, reverse=True)
    assert min(shares, default=1) > 0
    assert Certificate.of_dict(found.as_dict(), found.policy).as_dict() == found.as_dict()


@settings(max_examples=40, deadline=None)
@given(cases(hide=(), visits=(0, 3, 40)))
def test_arrays_are_the_same_counts(case: Case) -> None:
    """Also with segments, states with fewer actions, states that end the episode."""
    dense = case.problem.table.dense(case.counts.successors.astype(float))
    case.counts.successors[case.problem.table.entries_of(case.problem.table.start)] = 0
    case.counts.visits[-1] = 0
    one, other = (certify(x, case.problem, delta=0.1) for x in (dense, case.counts))
    assert one.as_dict() == other.as_dict()
    np.testing.assert_array_equal(one.policy, other.policy)


def test_the_better_of_two_policies_is_certified() -> None:
    """Never worse than the robust policy, nor than the difference of the greedy one."""
    for seed in range(30):
        case = draw_case(seed, honest=True, visits=(5, 60))
        found = certify(case.counts, case.problem, delta=0.1)
        best = KnownStateBounds(case.problem, 0.1, ("scores",))
        b = best.bounds(case.counts)
        _, robust = best.robust()
        assert found.gap <= min(b.upper - robust, b.difference) + 1e-12


def test_what_is_missing_is_named() -> None:
    """All data but for one action: that is what the gap waits for."""
    counts = expected_counts(CHAIN, 10**5)
    counts[0, 1] = 0
    counts[0, 1, :2] = 1, 4
    found = certify(counts, CHAIN.problem, delta=0.05)
    worst = found.missing[0]
    assert (worst.segment, worst.state, worst.action, worst.visits) == (0, 0, 1, 5)
    assert worst.share > 0.8
    segmented = expected_counts(STAGED, 10**5)
    segmented[0, 0] //= 2**15
    found = certify(segmented, STAGED.problem, delta=0.05)
    assert {(x.segment, x.state) for x in found.missing[:1]} == {(0, 0)}


def test_what_was_assumed_is_said() -> None:
    problem = CHAIN.problem
    known = certify(expected_counts(CHAIN, 5), problem).assumed
    assert "the given rewards are right" in known
    assert "the given start is right" in known
    assert "only the given successors can follow" in known
    assert any("4 steps" in x for x in known)
    told_less = problem.hiding("rewards", "successors", "initial")
    known = certify(Counts.zero(told_less), told_less).assumed
    assert "rewards lie in [0, 1] and are learned" in known
    assert "the start is learned" in known
    assert not any("successors" in x for x in known)


def test_what_may_depend_on_the_step_is_said() -> None:
    stationary, segmented = (
        certify(expected_counts(mdp, 5), mdp.problem).assumed for mdp in (CHAIN, STAGED)
    )
    alone, with_step = (
        f"the next state and the reward depend on {what} only"
        for what in ("state and action", "step, state and action")
    )
    assert (alone in stationary, with_step in stationary) == (True, False)
    assert (alone in segmented, with_step in segmented) == (False, True)


def test_it_prints_itself() -> None:
    found = certify(expected_counts(CHAIN, 10**4), CHAIN.problem, delta=0.05, epsilon=0.5)
    assert repr(found).startswith("Certificate(certified: ")
    assert "delta 0.05" in repr(found)
    assert UncertaintySource(0, 1, 0, 7, 0.5) == UncertaintySource(
        segment=0, state=1, action=0, visits=7, share=0.5
    )


GOOD = expected_counts(CHAIN, 10)
OUTSIDE = GOOD.copy()
OUTSIDE[0, 0, 3] = 2
HALF = GOOD * 1.0
HALF[0, 0, 0] = 0.5
INFINITE = GOOD * 1.0
INFINITE[0, 0, 0] = np.inf


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (GOOD[None], {}, r"counts have shape \(1, 4, 2, 4\): this problem needs \(4, 2, 4\)"),
        (GOOD - 20, {}, "counts must be at least 0: one of them is -12"),
        (HALF, {}, "counts must be integers"),
        (HALF * np.nan, {}, "counts must be integers"),
        (INFINITE, {}, "counts"),
        (OUTSIDE, {}, "2 counts are of successors that the problem excludes"),
        (GOOD, {"problem": None}, "counts need the problem"),
        (GOOD, {"problem": CHAIN.problem.hiding("rewards")}, "arrays of counts hold no rewards"),
        (GOOD, {"delta": 0}, r"delta = 0 is outside \(0, 1\]"),
        (GOOD, {"delta": 2}, r"delta = 2 is outside \(0, 1\]"),
        (GOOD, {"epsilon": -1}, "epsilon = -1"),
        (Counts.zero(STAGED.problem), {}, "counts"),
        ("no such file.csv", {}, "no such file"),
    ],
)
def test_wrong_arguments(data: Any, options: dict[str, Any], message: str) -> None:
    given = {"problem": CHAIN.problem, **options}
    with pytest.raises(InputError, match=message) as caught:
        certify(data, **given)
    assert "\n" not in str(caught.value)


# -- counts that cannot be ------------------------------------------------------------------------


def coin(**changes: Any) -> Counts:
    """100 visits of one pair with a reward of 0.5 each, but for what is changed."""
    counts = Counts.zero(COIN)
    counts.visits[:] = [100, 100]
    counts.successors[:] = [100, 100]
    counts.rewards[0], counts.least[0], counts.most[0] = 50.0, 0.5, 0.5
    for name, value in changes.items():
        setattr(counts, name, value)
    return counts


COIN = Problem(1, 1, 1)


def test_right_counts_are_taken() -> None:
    known = certify(coin(), COIN)
    assert known.lower < 0.5 < known.upper
    known = certify(coin(rewards=np.array([100 * (1 + 1e-15), 0.0]), most=np.ones(2)), COIN)
    assert known.upper == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": np.array([5000.0, 0])}, r"\(s=0, a=0\): its rewards sum to 5000, outside"),
        ({"rewards": np.array([-300.0, 0])}, r"\(s=0, a=0\): its rewards sum to -300, outside"),
        ({"rewards": np.array([np.nan, 0])}, r"its rewards sum to nan"),
        ({"rewards": np.array([100.1, 0])}, r"its rewards sum to 100.1"),
        ({"rewards": np.zeros(3)}, "the counts have 3 rewards, and this problem has 2"),
        ({"least": np.ones(1)}, "the counts have 1 least, and this problem has 2"),
        (
            {"rewards": np.array([51.0, 0])},
            "its rewards, 51, is not between",
        ),
        ({"least": np.array([0.51, 1])}, "its rewards, 50, is not between"),
        ({"most": np.array([0.49, 0])}, "its rewards, 50, is not between"),
        ({"most": np.array([1.5, 0])}, "is not between the least"),
        ({"least": np.array([-0.5, 1])}, "is not between the least"),
        ({"least": np.array([np.nan, 1])}, "is not between the least"),
        ({"successors": np.array([-100, 100])}, "the count of a successor is -100"),
        ({"successors": np.array([99, 100])}, "the counts of its successors sum to 99, not to"),
        ({"successors": np.array([0.5, 100])}, "successors must be integers"),
        ({"visits": np.array([100.0, 100])}, "visits must be integers"),
        ({"visits": np.full(2, 2**62), "successors": np.full(2, 2**62)}, r"less than 2\^61"),
    ],
)
def test_counts_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        certify(coin(**changes), COIN)


def test_rewards_after_the_end_cannot_be() -> None:
    problem = Problem(2, 1, 2, terminal=[1])
    counts = Counts.zero(problem)
    counts.rewards[2] = 1.0  # entries 0 and 1 are those of the first state
    with pytest.raises(InputError, match=r"\(s=1, a=0\): .* the task is over"):
        certify(counts, problem)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full((1, 1, 1), 2**62), r"less than 2\^61"),
        (np.full((1, 1, 1), 2**63, np.uint64), r"less than 2\^61"),
        (np.full((1, 1, 1), 1e300), r"less than 2\^61"),
        (np.full((1, 1, 1), "7"), "integers"),
        (np.full((1, 1, 1), True), "integers"),
        (np.full((1, 1, 1), None), "integers"),
        (np.full((1, 1, 1), 1j), "integers"),
    ],
)
def test_arrays_of_counts_that_cannot_be(array: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        certify(array, Problem(1, 1, 1, rewards=[[0.5]]))


def test_with_an_unknown_start_the_gap_is_the_smaller_of_two() -> None:
    """The mean of D over what the start may be, and upper - lower: either may be the smaller."""
    smaller = 0
    for seed in range(40):
        case = draw_case(seed, visits=(0, 1, 40), hide=("initial", "rewards"))
        b = KnownStateBounds(case.problem, 0.1).bounds(case.counts)
        assert b.difference <= b.upper - b.lower
        smaller += b.difference == b.upper - b.lower
    assert 0 < smaller < 40


def test_a_log_that_was_read_is_data_too(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("episode,t,state,action,reward,next_state\n1,0,a,go,0,a\n2,0,a,go,1,a\n")
    log, known = read_log(path), certify(path, delta=0.1)
    assert certify(log, delta=0.1).upper == known.upper
    assert certify(log, delta=0.1).assumed == known.assumed == tuple(map(str, log.assumptions))
    with pytest.raises(InputError, match="leave problem out"):
        certify(log, COIN)


# -- what the logged behavior earned -------------------------------------------------------------

GAMBLE = "episode,t,state,action,reward,next_state,done\n"


def gamble(folder: Path, episodes: int, ending: str = "", win: float = 5.0) -> Path:
    """One game with two arms; every third time the better one is taken, and wins every time."""
    path = folder / "gamble.csv"
    rows = "".join(
        f"{k},0,a,{'risky' if k % 3 == 0 else 'safe'},{win if k % 3 == 0 else -1},over,1\n"
        for k in range(episodes)
    )
    path.write_text(GAMBLE + rows + ending)
    return path


def test_the_behavior_and_the_improvement_on_it(tmp_path: Path) -> None:
    log = read_log(gamble(tmp_path, 3000), rewards=(-1, 5))
    found = certify(log, delta=0.1)
    assert found.behavior is not None
    was = found.behavior
    assert (was.mean, was.episodes, was.incomplete) == (1.0, 3000, 0)
    assert 0.7 < was.lower < 1 < was.upper < 1.3
    assert found.improvement == found.lower - was.upper
    assert found.improvement > 3  # the better arm always wins 5
    few = certify(read_log(gamble(tmp_path, 6), rewards=(-1, 5)), delta=0.1)
    assert few.improvement is not None
    assert few.improvement < 0
    assert certify(GOOD, CHAIN.problem).behavior is None
    assert certify(GOOD, CHAIN.problem).improvement is None


def test_episodes_without_an_end_may_have_lost_more(tmp_path: Path) -> None:
    """From below, what was not logged costs as much as is possible."""
    cut = "".join(f"x{k},0,a,risky,5,b,0\n" for k in range(300))
    log = read_log(gamble(tmp_path, 3000, cut), rewards=(-1, 5), horizon=2, accept_losses=True)
    found = certify(log).behavior
    assert found is not None
    assert (found.episodes, found.incomplete) == (3300, 300)
    # by what they cost at worst: 2 from 5, of a span of 12
    known = np.where(np.arange(3000) % 3 == 0, 5.0, -1.0)
    low, high = (
        behavior_of(np.append(known, np.full(300, x)), np.ones(3300, bool), -2.0, 10.0, 0.1)
        for x in (3.0, 10.0)
    )
    assert found.lower == pytest.approx(low.lower, abs=1e-6)
    assert found.upper == pytest.approx(high.upper, abs=1e-6)


def test_a_return_above_the_largest_is_refused(tmp_path: Path) -> None:
    path = gamble(tmp_path, 30)
    assert certify(read_log(path, rewards=(-1, 5), max_return=5)).behavior is not None
    with pytest.raises(InputError, match=r"max_return = 4 .* declare at least 5"):
        read_log(path, rewards=(-1, 5), max_return=4)


def test_known_rewards_give_the_same_returns_as_logged_ones(tmp_path: Path) -> None:
    mdp, path = make("chain:n=3"), tmp_path / "chain.csv"  # rewards without noise
    write_log(mdp, path, episodes=50)
    known = certify(read_log(path, mdp.problem)).behavior
    logged = certify(read_log(path, mdp.problem.hiding("rewards"))).behavior
    assert known is not None
    assert logged is not None
    assert known.mean == pytest.approx(logged.mean)
    assert known.lower == pytest.approx(logged.lower)
    assert known.upper == pytest.approx(logged.upper)
