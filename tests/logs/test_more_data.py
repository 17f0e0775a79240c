"""How much more data of the same kind would reach epsilon: estimated, or said not to exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.log_files import read
from ucfh import Certificate, certification, certify
from ucfh.certificate import DataEstimate, UncertaintySource
from ucfh.certification import certificate_from_log
from ucfh.cli.certify import print_report, summary
from ucfh.reporting.log_report import answer_of
from ucfh.reporting.text import improvement, uncertainty
from ucfh.sparse_counts import LOST, SparseCounts, Steps


def more_of(log: Any, epsilon: float) -> DataEstimate:
    more = certify(log, epsilon=epsilon).more
    assert more is not None
    return more


def one_state(n: int, seed: int, lost: float = 0.0, horizon: int = 2) -> str:
    """Rows of n episodes in one state: x pays 1 with probability 0.6, y with 0.4."""
    rng, rows = np.random.default_rng(seed), []
    for k in range(n):
        for t in range(horizon):
            a = int(rng.integers(2))
            paid, stop = int(rng.random() < (0.6, 0.4)[a]), rng.random() < lost
            if stop and t < horizon - 1:
                rows.append(f"{k},{t},s,{'xy'[a]},{paid},,\n")
                break
            rows.append(f"{k},{t},s,{'xy'[a]},{paid},s,\n")
    return "".join(rows)


LOSING = {"dropouts": "lost", "horizon": 2, "accept_losses": False}


def later_untried(n: int = 400) -> str:
    """Both actions are tried in a, only x in b, where it pays nothing."""
    return "".join(f"{k},0,a,{'xy'[k % 2]},1,b,\n{k},1,b,x,0,b,\n" for k in range(n))


def test_untried_pairs_are_listed_where_bounds_are_at_the_cap(tmp_path: Path) -> None:
    log = read(later_untried(), tmp_path, accept_losses=False)
    known = certify(log, epsilon=0.1)
    assert known.more is not None
    assert (known.more.status, known.more.episodes) == ("untried", None)
    b, y = 1, 1
    assert [(x.state, x.action, x.visits) for x in known.more.untried] == [(b, y, 0)]
    assert known.more.limit == pytest.approx(1, abs=1e-3)


def test_untried_pairs_of_a_segment_are_to_blame(tmp_path: Path) -> None:
    """In the last two steps, y was never tried: that keeps the gap open, not the well-known x."""
    steps = [f"{t},s,{a},{int(t == 0)},s,\n" for t, a in enumerate("xyyyxx")]
    rows = "".join(f"{k},{step}" for k in range(400) for step in steps)
    log = read(rows, tmp_path, segments=[4], accept_losses=False)
    known = certify(log, epsilon=0.1)
    assert known.missing[0] == UncertaintySource(1, 0, 1, 0, known.missing[0].share)
    assert known.missing[0].share > 0.9
    assert known.more is not None
    assert [(x.segment, x.action) for x in known.more.untried] == [(1, 1)]


def test_all_untried_actions_of_a_state_are_listed(tmp_path: Path) -> None:
    rows = "".join(f"{k},0,s,x,{k % 2},end,1\n" for k in range(400))
    log = read(rows, tmp_path, actions=["x", "y", "z"], accept_losses=False)
    assert {x.action for x in more_of(log, 0.1).untried} == {1, 2}


def test_a_pair_with_only_missing_outcomes_was_tried(tmp_path: Path) -> None:
    rows = "".join(f"{k},0,s,{'xy'[k % 2]},,{'s' * (1 - k % 2)},\n" for k in range(400))
    log = read(
        rows.replace(",x,,", ",x,0,") + "400,0,s,x,0,s,\n400,1,s,x,0,s,\n", tmp_path, **LOSING
    )
    more = more_of(log, 0.1)
    assert (more.status, more.episodes, more.untried) == ("missing_outcomes", None, ())


@pytest.mark.parametrize("n", [300, 3000])
def test_missing_outcomes_keep_the_gap_open(tmp_path: Path, n: int) -> None:
    """Of every tenth outcome the next state is missing, however many there are."""
    more = more_of(read(one_state(n, 1, 0.1), tmp_path, **LOSING), 0.05)
    assert (more.status, more.episodes) == ("missing_outcomes", None)
    assert more.limit is not None
    assert 0.04 < more.limit < 0.07  # 100,000 such episodes leave 0.058


def test_scaled_data_keep_losing_at_the_same_rate() -> None:
    data = SparseCounts(1, 1)
    s = data.find()
    following = np.full(40, s)
    following[3::10] = LOST  # the last but six is lost: 4 of 40
    ones = np.ones(40, np.int64)
    reward = np.where(np.arange(40) == 3, np.nan, 0.5)
    data.add(Steps(0 * ones, s * ones, 0 * ones, reward, following, s * ones))
    for k in (1.0, 1.4, 10.0, 1000.0):
        again = data.times(k)
        assert again.visits[0] == pytest.approx(36 * k, abs=0.5)
        assert again.lost[0] == pytest.approx(4 * k, abs=1)
        assert again.visits[0] - again.last_lost[0] == 9  # seen between two losses
        known = again.lost[0] - again.lost_unpaid[0]
        assert again.lost_paid[0] == pytest.approx(0.5 * known)


@pytest.mark.parametrize("epsilon", [1.9, 1.6, 1.0, 0.3])
def test_the_search_never_ends_at_its_upper_end(tmp_path: Path, epsilon: float) -> None:
    more = more_of(read(one_state(3, 1), tmp_path, accept_losses=False), epsilon)
    assert (more.status, more.untried) == ("estimated", ())
    assert more.episodes is not None
    assert 0 < more.episodes < 3 * 999


def test_a_smaller_epsilon_takes_at_least_as_many_episodes(tmp_path: Path) -> None:
    log = read(one_state(300, 1), tmp_path, accept_losses=False)
    gap = certify(log).gap
    found = [more_of(log, gap * x).episodes or 0.0 for x in (0.99, 0.9, 0.7, 0.4, 0.2)]
    assert found == sorted(found)
    assert found[0] < 0.5 * 300


def test_more_than_a_thousand_times_the_data_is_no_number(tmp_path: Path) -> None:
    more = more_of(read(one_state(300, 1), tmp_path, accept_losses=False), 1e-6)
    assert (more.status, more.episodes) == ("over_1000_times", None)
    assert more.limit is not None
    assert more.limit < 1e-3


def test_scaled_data_that_contradict_themselves_give_no_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = read(one_state(30, 1), tmp_path, accept_losses=False)
    compute = certification.certificate_from_sparse_counts

    def contradicted(data: SparseCounts, *rest: Any) -> Certificate:
        known = compute(data, *rest)
        if data.episodes > 1000:
            object.__setattr__(known, "contradiction", "the bounds contradict each other")
        return known

    monkeypatch.setattr(certification, "certificate_from_sparse_counts", contradicted)
    assert more_of(log, 0.1) == DataEstimate("unknown")


def test_the_estimate_is_right_within_a_factor_of_two_where_outcomes_are_lost(
    tmp_path: Path,
) -> None:
    """Compared with more data of the same behavior, of which 2 percent of outcomes are lost."""
    lines = one_state(2000, 3, 0.02, horizon=4).splitlines(keepends=True)
    episode = np.array([int(line.split(",")[0]) for line in lines])

    def known(n: int) -> Certificate:
        rows = "".join(lines[: np.searchsorted(episode, n)])
        return certify(read(rows, tmp_path, **{**LOSING, "horizon": 4}), epsilon=0.3)

    low, high = 100, 2000
    while high > 1.1 * low:
        middle = int((low * high) ** 0.5)
        low, high = (low, middle) if known(middle).certified else (middle, high)
    for n in (100, 200):
        more = known(n).more
        assert more is not None
        assert more.episodes is not None
        assert 0.5 < (n + more.episodes) / high < 2


CASES = {
    "estimated": (one_state(300, 1), {}, 0.1),
    "estimated, with two missing": (
        one_state(298, 1) + "900,0,s,x,1,,\n901,0,s,y,1,,\n",
        {**LOSING, "states": ["s"]},
        0.1,
    ),
    "untried": (later_untried(), {}, 0.1),
    "missing_outcomes": (one_state(300, 1, 0.1), LOSING, 0.05),
    "over_1000_times": (one_state(300, 1), {}, 1e-6),
}


@pytest.mark.parametrize("case", CASES)
def test_text_json_and_page_agree(
    tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, options, epsilon = CASES[case]
    status = case.partition(",")[0]
    log = read(rows, tmp_path, **{"accept_losses": False, **options})
    answer = answer_of("log.csv", log, certificate_from_log(log, 0.1, epsilon))
    more = answer.known.more
    assert more is not None
    json = summary(answer)
    assert (json["more_status"], json["more_episodes"]) == (status, more.episodes)
    assert json["gap_limit"] == more.limit
    assert [x["action"] for x in json["untried"]] == [x.action for x in more.untried]
    print_report(answer)
    printed = " ".join(capsys.readouterr().out.partition("  more  ")[2].split())
    heading, text, listed = uncertainty(answer)
    on_page = f"{heading} {text}"
    for words in (printed, on_page):
        assert ("within a factor of two" in words) == (status == "estimated")
        assert ("1,000 times" in words) == (status == "over_1000_times")
        assert ("missing outcomes" in words) == (status == "missing_outcomes")
        assert ("never tried" in words) == (status == "untried")
    if status == "untried":
        assert "y in state b" in printed
        assert listed[0].startswith("y in state b")
    assert "More data would tell" not in improvement(answer)[1][-1]
