"""The reading of the league, on invented runs whose medians, floors and mistakes are known."""

from __future__ import annotations

from statistics import fmean, median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucfh._support.statistics import share_bound
from ucfh.experiments.store import Result
from ucfh.report.words import number
from ucfh.studies.league.reading import read
from ucfh.studies.league.standings import rule_of

BEST, KT = "certified-ucfh:confidence=best", "certified-ucfh:confidence=kt"


def run(
    agent: str,
    episodes: int,
    replicate: int = 0,
    problem: str = "chain:n=5",
    rewards: str = "told",
    **values: Any,
) -> Result:
    """A run that stopped with the best policy, unless told otherwise."""
    arguments = {
        "problem": problem, "agent": agent, "epsilon": 0.2, "delta": 0.1, "most": 10**7,
        "rewards": rewards,
    }  # fmt: skip
    found = {
        "states": 5, "actions": 2, "successors": 2, "horizon": 5, "episodes": episodes,
        "samples": 0, "certified": True, "optimal": 0.5, "value": 0.5,
    } | values  # fmt: skip
    return Result("rules", arguments, replicate, found)


def floor(least: float, problem: str = "chain:n=5", rewards: str = "told", **more: Any) -> Result:
    arguments = {"problem": problem, "epsilon": 0.2, "delta": 0.1, "rewards": rewards}
    values = {"floor": least, "class_floor": None, "bound": 1e12} | more
    return Result("floor", arguments, 0, values)


FACTORS = {BEST: 1, KT: 3, "bpi-ucrl:schedule=growth": 20, "rf-express:schedule=growth": 10**6}


def many(replicates: int = 20) -> list[Result]:
    """Rules that take 1, 3, 20 and 10^6 times 100 + k episodes, twice that on tutoring."""
    return [
        run(agent, size * factor * (100 + k), k, problem)
        for k in range(replicates)
        for problem, size in (("chain:n=5", 1), ("tutoring", 2))
        for agent, factor in FACTORS.items()
    ]


def test_names_of_rules() -> None:
    assert rule_of(BEST) == "certified-ucfh best"
    assert rule_of("bpi-ucrl:schedule=growth") == "bpi-ucrl"
    assert rule_of("azar") == "azar"


def test_who_stops_first_is_told() -> None:
    found = read(many())
    assert found.seen[0] == (
        "certified-ucfh best stops first on 2 of 2 problems, after 110 to 219 episodes (medians). "
        "On 2 of them, the interval of its median lies below those of all other rules."
    )
    assert found.seen[1] == (
        "Of the other learners that learn from episodes, bpi-ucrl takes the fewest, 20 times as "
        "many as certified-ucfh best (on 2 problems), and rf-express the most, 1e+06 times."
    )
    table = found.tables[0]
    assert table.columns == ["rule", "chain", "tutoring"]
    assert [row[0] for row in table.rows] == [rule_of(agent) for agent in FACTORS]
    middle = median(100 + k for k in range(20))
    assert [row[1:] for row in table.rows] == [
        [number(factor * middle), number(2 * factor * middle)] for factor in FACTORS.values()
    ]


def test_intervals_that_overlap_are_not_claimed_to_be_apart() -> None:
    close = [run(agent, x + k, k) for k in range(20) for agent, x in ((BEST, 100), (KT, 103))]
    assert "interval of its median" not in read(close).seen[0]
    few = [run(agent, x, k) for k in range(5) for agent, x in ((BEST, 100), (KT, 900))]
    assert "interval of its median" not in read(few).seen[0]


def test_another_leader_and_where_it_does_not_lead() -> None:
    runs = [
        run("eprl", 50), run(BEST, 90),
        run("eprl", 60, problem="calls"), run(BEST, 70, problem="calls"),
        run("eprl", 800, problem="tutoring"), run(BEST, 70, problem="tutoring"),
    ]  # fmt: skip
    assert read(runs).seen[0] == (
        "eprl stops first on 2 of 3 problems, after 50 to 60 episodes (medians). Elsewhere others "
        "do: certified-ucfh best on tutoring (70 against 800)."
    )


def test_learners_are_compared_on_the_same_problems() -> None:
    """One that stops on one problem only, after few episodes, is neither fewest nor most."""
    runs = [*many(1), run("fiechter", 101)]
    runs += [run("eprl", 400, rewards="hidden"), run(BEST, 100, rewards="hidden")]
    assert read(runs).seen[1] == (
        "Of the other learners that learn from episodes, bpi-ucrl takes the fewest, 20 times as "
        "many as certified-ucfh best (on 2 problems), and rf-express the most, 1e+06 times. Of "
        "those for hidden rewards that learn from episodes, eprl takes 4 times as many as "
        "certified-ucfh best (on 1 problem)."
    )


def test_the_distance_to_the_floor_is_that_of_the_mean() -> None:
    runs = [run(BEST, episodes, k) for k, episodes in enumerate((10, 20, 90))]
    found = read([floor(4), floor(0.3, "grid"), floor(0, "riverswim"), *runs])
    distance = fmean((10, 20, 90)) / 4
    text = found.seen[1]
    assert text.startswith(
        "On 1 of 3 problems the floor is at least one episode: a valid rule needs, in the mean, no "
        f"fewer than 4. certified-ucfh best takes {number(distance)} times as many; how few a rule "
        "can reach is not known. What Theorem 1 allows UCFH as printed is 2.5e+11 times the floor. "
    )
    assert "On riverswim the floor is 0: for every model that was tried, some policy" in text
    assert "On grid it is less than one episode" in text
    by_problem, by_rule = found.tables[1:]
    assert by_problem.rows == [
        ["chain, eps 0.2", "4", "certified-ucfh best", "20 (10 to 90)", "10 times", "1e+12"],
        ["grid, eps 0.2", "0.3", "-", "-", "-", "1e+12"],
        ["riverswim, eps 0.2", "0", "-", "-", "-", "1e+12"],
    ]
    assert by_rule.rows[0][4:] == ["10 times", "350 %"]


@pytest.mark.parametrize(("of_class", "word"), [(3.0, "lower"), (5.0, "no lower")])
def test_the_floor_of_the_class_is_compared(of_class: float, word: str) -> None:
    found = read([floor(4, "hard:n=4", class_floor=of_class)])
    assert found.seen[0].endswith(
        "On the worst problem of the same hard class the floor is at least "
        f"{number(of_class)} for hard ({word} than its own)."
    )
    assert found.figures == []


def test_rules_that_are_given_more_have_no_distance() -> None:
    """A floor is no bound for who has a generative model, or policies that reach each state."""
    runs = [run("azar", 0, samples=500), run("reveliotis", 70), run(BEST, 40)]
    found = read([floor(4), *runs])
    distances = {row[0]: row[4] for row in found.tables[2].rows}
    assert distances == {"certified-ucfh best": "10 times", "reveliotis": "-", "azar": "-"}
    assert found.tables[0].rows[1:4] == [
        ["certified-ucfh best", "40"], ["reveliotis", "70"], ["azar", "100"],
    ]  # fmt: skip
    assert "azar ask a generative model for 500 samples, shown divided by H" in found.seen[-1]
    assert "reveliotis is given, for each state, a policy that reaches it." in found.seen[-1]


def test_wrong_stops_are_counted() -> None:
    runs = [run(BEST, 100, k, value=0.28 if k < 2 else 0.4) for k in range(100)]
    runs += [run(KT, 300, k) for k in range(20)]
    found = read(runs)
    assert found.seen[1] == (
        "2 of 120 stops named a policy that is worse than epsilon; the largest loss was 110 % of "
        "epsilon. For certified-ucfh kt these are too few runs, or too many wrong ones, to say "
        "that the share of wrong stops is below delta = 0.1."
    )
    bound = number(100 * share_bound(2, 100), 2)
    assert found.tables[1].rows[0][:4] == ["certified-ucfh best", "100 of 100", "2", bound]
    fine = read(runs[:100]).seen[1]
    assert f"the share of wrong stops is below {number(share_bound(2, 100), 2)} (95 %" in fine
    assert "delta allows 0.1" in fine


def test_runs_that_do_not_stop() -> None:
    """They are marked, wrong ones among them do not count, and they give no distance."""
    runs = [run("reveliotis", 10**7, k, certified=False, value=0.0) for k in range(3)]
    runs += [run(BEST, episodes, k, certified=k > 0) for k, episodes in enumerate((10**7, 5, 6))]
    found = read([floor(2), *runs])
    assert found.tables[0].rows[1:3] == [["certified-ucfh best", "6"], ["reveliotis", "> 1e+07"]]
    assert [row[1:5] for row in found.tables[2].rows] == [
        ["2 of 3", "0", number(100 * share_bound(0, 2), 2), "-"],
        ["0 of 3", "0", "-", "-"],
    ]
    assert "None of 2 stops named" in " ".join(found.seen)
    assert found.seen[-1].endswith(
        "4 runs of certified-ucfh and reveliotis reached the limit of 1e+07 episodes without "
        "stopping."
    )


@settings(max_examples=30)
@given(st.data())
def test_any_part_of_a_study_is_read(data: st.DataObject) -> None:
    whole = [
        *many(2), floor(4), floor(0, "tutoring"), floor(2, "deepsea", "hidden", bound=None),
        run("azar", 0, samples=900), run("eprl", 70, 0, "deepsea", "hidden"),
        run("reveliotis", 10**7, certified=False),
    ]  # fmt: skip
    part = data.draw(st.lists(st.sampled_from(range(len(whole))), min_size=1, unique=True))
    found = read([whole[k] for k in sorted(part)])
    assert found.seen[0]
    for table in found.tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_a_rule_that_needs_no_episode_counts_as_one() -> None:
    found = read([floor(2), run(BEST, 0), run(KT, 7)])
    assert "certified-ucfh best stops first on 1 of 1 problem, after 1 episodes" in found.seen[0]
    assert found.tables[2].rows[0][4] == "0.5 times"


def test_the_figure_is_drawn() -> None:
    runs = [*many(6), run("azar", 0, samples=900), run("reveliotis", 10**7, certified=False)]
    [figure] = read([floor(4), floor(0, "tutoring"), *runs]).figures
    assert "<svg" in figure.svg
    assert "interval" in figure.caption
    assert "Marks of 6 rules on 2 problems" in figure.alt
