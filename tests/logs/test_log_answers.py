"""What a log answers: the logged policy, the horizon, bounds within range, data still needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucfh
from support.log_files import read
from ucfh import InputError, Problem, certify
from ucfh.certification import certificate_from_log
from ucfh.logs.synthetic import write_log

KNOWN = Problem(
    2,
    2,
    2,
    rewards=[[0.0, 0.5], [1.0, 1.0]],
    initial=0,
    state_names=["a", "b"],
    action_names=["x", "y"],
)


def _episodes(rows: str, times: int) -> str:
    """The rows of an episode, once for each of several; {} stands for its number."""
    return "".join(rows.format(*[k] * rows.count("{}")) for k in range(times))


def test_the_logged_policy_is_compared_with_where_rewards_are_known(tmp_path: Path) -> None:
    # 0 + 1 in even episodes, 0.5 + 1 in odd ones, whatever the column of rewards says
    rows = [f"{k},0,a,{'xy'[k % 2]},9,b,\n{k},1,b,x,9,b,1\n" for k in range(400)]
    log = read("".join(rows), tmp_path, KNOWN)
    was = certify(log).behavior
    assert was is not None
    assert was.mean == pytest.approx(1.25)
    assert was.lower < 1.25 < was.upper <= 2.0
    assert was.incomplete == 0
    assert certify(log).improvement is not None


def test_known_rewards_that_depend_on_the_next_state_count(tmp_path: Path) -> None:
    successor = np.zeros((2, 2, 2))
    successor[:, :, 1] = 0.25
    problem = Problem(
        2, 2, 2, rewards=successor[None], state_names=["a", "b"], action_names=["x", "y"]
    )
    rows = [f"{k},0,a,x,,{'ab'[k % 2]},\n{k},1,{'ab'[k % 2]},x,,b,1\n" for k in range(40)]
    log = read("".join(rows), tmp_path, problem)
    assert log.returns is not None
    assert sorted(set(log.returns.tolist())) == [0.25, 0.5]


def test_steps_beyond_the_horizon_are_beyond_it(tmp_path: Path) -> None:
    """The return of the first H steps is known, so the logged policy's value is as well."""
    rows = "{},0,a,x,0.5,b,0\n{},1,b,x,0.25,a,0\n{},2,a,x,1,b,0\n{},3,b,x,1,c,1\n"
    short = _episodes("{},0,a,x,0.5,b,0\n{},1,b,x,0.25,a,0\n", 50)
    cut = read(_episodes(rows, 50), tmp_path, horizon=2, accept_losses=False)
    whole = read(short, tmp_path, horizon=2, accept_losses=False)
    assert cut.complete.all()
    assert cut.truncated == 50
    assert whole.truncated == 0
    assert cut.returns is not None
    assert cut.returns.tolist() == [0.75] * 50
    one, other = certify(cut), certify(whole)
    assert one.behavior == other.behavior
    assert (one.lower, one.upper) == (other.lower, other.upper)


def test_what_is_wrong_beyond_the_horizon_costs_nothing(tmp_path: Path) -> None:
    rows = "{},0,a,x,0.5,b,0\n{},1,b,x,0.25,a,0\n{},7,a,x,1,b,0\n{},9,b,x,one,c,1\n"
    log = read(_episodes(rows, 50), tmp_path, horizon=2, accept_losses=False)
    assert log.complete.all()
    assert (log.counted, log.truncated) == (100, 50)


def test_no_next_state_and_a_shorter_horizon(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = "{},0,a,x,0.5\n{},1,b,x,0.25\n{},2,a,x,1\n"
    path.write_text("episode,t,state,action,reward\n" + _episodes(rows, 50))
    log = ucfh.read_log(path, horizon=2)
    assert log.complete.all()
    assert log.truncated == 50


@pytest.mark.parametrize(
    ("rewards", "max_return"), [((0, 40), None), ((-30, 10), None), ((0, 40), 41)]
)
def test_bounds_stay_within_what_is_possible(
    tmp_path: Path, rewards: tuple[float, float], max_return: float | None
) -> None:
    rows = "{},0,a,x,3.3,b,0\n{},1,b,y,0.1,a,0\n{},2,a,x,1,b,0\n{},3,b,x,1,c,0\n"
    log = read(_episodes(rows, 3), tmp_path, rewards=rewards, max_return=max_return)
    known = certificate_from_log(log, 0.1, 1.0)
    least, most = 4 * min(0, rewards[0]), 4 * rewards[1] if max_return is None else max_return
    assert least <= known.lower <= known.upper <= most
    assert known.gap <= most - least
    assert known.suboptimality is not None
    assert np.nanmax(known.suboptimality) <= most - least


def test_an_outcome_in_every_row_is_noticed(tmp_path: Path) -> None:
    """Exports often repeat the outcome of an episode in all of its rows."""
    rows = [f"{k},0,a,x,{k % 2},b,0\n{k},1,b,x,{k % 2},c,1\n" for k in range(20)]
    with pytest.raises(InputError, match=r"max_return = 1 .*every row"):
        read("".join(rows), tmp_path, max_return=1)
    assert any("every row" in note for note in read("".join(rows), tmp_path).notes)
    # a cost of each step is no outcome of the episode
    costs = [f"{k},0,a,x,1,b,0\n{k},1,b,x,1,c,1\n" for k in range(20)]
    assert not any("every row" in note for note in read("".join(costs), tmp_path).notes)
    with pytest.raises(InputError, match="declare at least 2"):
        read("".join(costs), tmp_path, max_return=1)


def _needed(mdp: ucfh.MDP, folder: Path, epsilon: float, **options: Any) -> tuple[list[float], int]:
    """By 500 and 1,000 episodes, how many are needed in all; and how many really are."""
    path = folder / "simulated.csv"
    write_log(mdp, path, 16000, seed=1)
    head, *lines = path.read_text().splitlines(keepends=True)
    episode = np.array([int(line.split(",")[0]) for line in lines])

    def known(n: int) -> ucfh.Certificate:
        some = folder / "some.csv"
        some.write_text("".join([head, *lines[: np.searchsorted(episode, n)]]))
        return certify(ucfh.read_log(some, horizon=mdp.horizon, **options), epsilon=epsilon)

    estimates = []
    for n in (500, 1000):
        more = known(n).more
        assert more is not None
        assert more.episodes is not None
        estimates.append(n + more.episodes)
    low, high = 1000, 16000
    while high > 1.1 * low:
        middle = int((low * high) ** 0.5)
        low, high = (low, middle) if known(middle).certified else (middle, high)
    return estimates, high


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "epsilon", "options"),
    [
        ("chain:n=3,horizon=3", 0.05, {}),
        ("riverswim:horizon=6", 0.2, {}),
        ("tutoring", 0.4, {"segments": [9], "max_return": 1}),
    ],
)
def test_the_estimate_of_more_episodes_is_right_within_a_factor_of_two(
    tmp_path: Path, name: str, epsilon: float, options: dict[str, Any]
) -> None:
    estimates, needed = _needed(ucfh.make(name), tmp_path, epsilon, **options)
    assert all(0.5 < x / needed < 2 for x in estimates)


def test_no_number_of_episodes_is_promised_for_what_is_never_tried(tmp_path: Path) -> None:
    """The logged policy never takes action y, in any of 40 states: more of its data do not help."""
    rows = [f"{k},0,s{k % 40},x,{k % 2},end,1\n" for k in range(4000)]
    log = read("".join(rows), tmp_path, actions=["x", "y"], accept_losses=False)
    more = certify(log, epsilon=0.2).more
    assert more is not None
    assert more.episodes is None
    assert more.limit == pytest.approx(1 - 0.5, abs=0.01)
    assert {(x.action, x.visits) for x in more.untried} == {(1, 0)}


def test_nor_where_counts_are_of_a_problem(tmp_path: Path) -> None:
    mdp, path = ucfh.make("chain:n=3,horizon=3"), tmp_path / "log.csv"
    write_log(mdp, path, 2000, policy=np.zeros(3, int))
    more = certify(ucfh.read_log(path, mdp.problem.hiding("successors")), epsilon=0.2).more
    assert more is not None
    assert more.episodes is None
    assert {x.action for x in more.untried} == {1}


def test_no_more_data_are_asked_for_where_none_are_needed(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    write_log(ucfh.make("chain:n=3,horizon=3"), path, 2000)
    log = ucfh.read_log(path)
    assert certify(log, epsilon=0.5).more is None
    assert certify(log).more is None
