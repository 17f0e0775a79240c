"""The reading of learners, on invented runs: who learned, who waited, who differs significantly."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucfh._support.canvas import new_figure
from ucfh.experiments.store import Result
from ucfh.report.words import labels, number, unseeded
from ucfh.studies.peers.learners import CERTIFIED, field_of
from ucfh.studies.peers.reading import read

EPISODES = 1000
KIN = "ucfh:confidence=best,stop=certificate"


def run(
    agent: str,
    gaps: list[tuple[int, float]],
    replicate: int = 0,
    problem: str = "tutoring",
    samples: int = 0,
    **arguments: Any,
) -> Result:
    """A learner whose policies lose ``gaps``, each for so many episodes."""
    given = {
        "problem": problem, "agent": agent, "episodes": EPISODES, "epsilon": 0.1, "delta": 0.1,
        "scale": 1.0,
    } | arguments  # fmt: skip
    lost = [gap for times, gap in gaps for _ in range(times)]
    assert len(lost) == given["episodes"]
    bad = [k for k, gap in enumerate(lost, 1) if gap > 0.1]
    after = [k for k in (1, 10, 100, 300, 900) if k <= len(lost)]
    values = {
        "mistakes": len(bad), "last_mistake": max(bad, default=0), "regret": sum(lost),
        "gap": lost[-1], "optimal": 2.0, "samples": samples, "scale": 1.0,
        "after": [float(k) for k in after], "regrets": [sum(lost[:k]) for k in after],
    }  # fmt: skip
    return Result("", given, replicate, values)


def learns(after: int, start: float = 0.5, end: float = 0.0) -> list[tuple[int, float]]:
    return [(after, start), (EPISODES - after, end)]


STILL = [(EPISODES, 0.5)]


def study(replicates: int) -> list[Result]:
    """On tutoring psrl is first, then the certified one; printed UCFH and rmax never move."""
    found = []
    for k in range(replicates):
        for problem in ("tutoring", f"random:states=8,seed={k}"):
            found += [
                run("ucfh", STILL, k, problem),
                run(KIN, learns(100 + k), k, problem),
                run("psrl", learns(10 + k), k, problem),
                run("rmax", STILL, k, problem),
                run("late", learns(600, end=0.2), k, problem),
                run("uniform", [(EPISODES, 0.4)], k, problem),
                run("azar", [(EPISODES, 0.0)], k, problem, samples=10**9),
            ]
    return found


def test_who_learns() -> None:
    found = read(study(16))
    assert found.seen[0] == (
        "After 1,000 episodes with unscaled constants, 2 of 5 learners follow a policy within "
        "epsilon of the optimum on every problem tried (in most runs), 3 on none, and the "
        "printed UCFH still follows its first policy. On every problem: psrl and certified "
        "ucfh. On no problem: late, ucfh and rmax. All episodes of rmax lost the same: constants "
        "that are made for proofs make them wait."
    )
    shares = [0.5 * (100 + k) / 400 for k in range(16)]
    assert found.seen[1].startswith(
        "The printed UCFH waits for m w_min visits of a pair before its first policy change. On "
        "tutoring and random no pair had that many. As a share of what random actions lose, it "
        "loses 125 % on tutoring and 125 % on random."
    )
    assert f"UCFH loses {number(100 * median(shares))} % (" in found.seen[1]
    assert "psrl (" in found.seen[2]
    assert found.seen[2].count("significantly different from all others") == 2
    assert "does a test rank another learner before psrl." in found.seen[2]
    assert "azar for 1e+09; none of 32 runs ended with a policy worse than" in found.seen[3]


def test_tables() -> None:
    losses, mistakes, sampling, constants = read(study(16)).tables
    assert losses.columns == ["learner", "tutoring", "random"]
    assert [row[0] for row in losses.rows] == [
        "psrl", "certified ucfh", "late", "uniform", "ucfh", "rmax",
    ]  # fmt: skip
    cells = {row[0]: row[1] for row in losses.rows}
    share = number(100 * median(0.5 * (10 + k) / 400 for k in range(16)))
    assert cells["psrl"] == f"{share} (1 to 1)"
    assert (cells["late"], cells["uniform"]) == ("95 (3 to 3)", "100 (4 to 4)")
    assert cells["ucfh"] == cells["rmax"] == "125 (5 to 6)"
    cells = {row[0]: row[1] for row in mistakes.rows}
    assert cells["psrl"] == "18 / 18"  # the median of 10 to 25, rounded to even
    assert cells["late"] == cells["uniform"] == "1,000 / -"
    assert sampling.rows == [["azar", "1e+09", "1e+09"]]
    cells = {row[0]: row[1] for row in constants.rows}
    assert list(cells) == ["psrl", "certified ucfh", "uniform", "ucfh", "rmax", "azar"]
    assert cells["psrl"] == "chosen: the prior"
    assert cells["certified ucfh"].startswith("derived: ")
    assert cells["ucfh"].startswith("published: ")
    assert cells["azar"] == "unverified: 68 and 12; derived: H in the logarithm"


def test_a_lead_that_no_test_supports() -> None:
    # "other" is behind by its median, and ahead in every other run
    runs = [
        run(agent, learns(cost), k)
        for k in range(16)
        for agent, cost in (("psrl", 100), ("other", 101 - 20 * (k % 2) + 20 * (k % 4 > 1)))
    ]
    text = read(runs).seen[1]
    assert "psrl (2.5 %), not significantly different from other, on tutoring" in text
    assert "does a test rank another learner before psrl or other." in text


def test_learners_that_ran_on_few_problems_are_placed_by_their_share() -> None:
    # the last of two; uniform is the fourth of six on both others
    runs = [*study(1), run("alone", STILL, 0, "chain:n=5"), run("psrl", learns(5), 0, "chain:n=5")]
    names = [row[0] for row in read(runs).tables[0].rows]
    assert names.index("alone") == names.index("uniform") + 1


def test_few_runs_settle_nothing() -> None:
    found = read(study(3))
    assert found.seen[2].endswith(
        "There are too few runs for this number of learners to settle an order."
    )
    assert "significantly different" not in found.seen[2]
    assert "(medians with their range)" in found.seen[1]


def test_ties_share_the_lead_and_a_right_first_policy_is_told() -> None:
    right = [(EPISODES, 0.0)]
    runs = [
        run(agent, gaps, k, "riverswim")
        for k in range(12)
        for agent, gaps in (("ucfh", right), ("ucrl2", right), ("uniform", STILL))
    ]
    found = read(runs)
    assert "On riverswim its first policy happens to be optimal." in found.seen[1]
    assert "it loses" not in found.seen[1]
    assert (
        "ucfh and ucrl2 (0 %, optimal from the first episode), significantly different from all "
        "others, on riverswim" in found.seen[2]
    )
    assert "2 of 2 learners follow a policy" in found.seen[0]
    for figure in found.figures:
        assert "<svg" in figure.svg


def test_who_learns_on_some_problems() -> None:
    # of three runs on tutoring two end well, of four on chain two
    found = read(
        [run("psrl", learns(10, end=0.0 if k else 0.2), k) for k in range(3)]
        + [run("psrl", learns(10, end=0.2 * (k % 2)), k, "chain:n=5") for k in range(4)]
    )
    assert "0 of 1 learner follow a policy" in found.seen[0]
    assert "On some problems: psrl (1 of 2)." in found.seen[0]


def test_a_printed_ucfh_that_moves() -> None:
    found = read([run("ucfh", learns(10)), run("uniform", STILL)])
    assert "and the printed UCFH does on 1 of 1 problem." in found.seen[0]
    assert "1 of 1 learner follows" in found.seen[0]
    assert "waits" not in " ".join(found.seen)


def test_without_random_actions_losses_are_shares_of_the_optimum() -> None:
    found = read([run("psrl", learns(10)), run("rmax", STILL)])
    assert "what the optimum earns" in found.tables[0].caption
    # 10 x 0.5 and 1000 x 0.5 of 1000 x 2
    assert [row[:2] for row in found.tables[0].rows] == [
        ["psrl", "0.25"],
        ["rmax", "25"],
    ]


def test_samples_that_do_not_suffice_are_told() -> None:
    found = read([run("azar", STILL, k, samples=5 + k) for k in range(2)])
    assert found.seen[0] == "No learner that learns from episodes has a result yet."
    assert found.seen[1].endswith(
        "azar for 5 to 6; 2 of 2 runs ended with a policy worse than epsilon."
    )
    assert found.figures == []
    assert len(found.tables) == 2


def test_scales_are_told_apart() -> None:
    found = read([run("psrl", learns(10)), run("psrl", learns(20), scale=0.1)])
    assert [row[0] for row in found.tables[0].rows] == ["psrl", "psrl, scale 0.1"]
    assert "with scaled constants" in found.seen[0]


def test_regret_of_all_learners_on_all_problems() -> None:
    runs = [*study(3), run("psrl", learns(5), 0, "chain:n=5"), run("ucfh", STILL, 0, "chain:n=5")]
    figure = read(runs).figures[0]
    canvas = new_figure(5.5, 4.0)
    figure.draw(canvas)
    # few ran on the chain, and azar asks for samples
    assert [axes.get_title() for axes in canvas.axes] == ["tutoring", "random"]
    assert "Reward lost so far by 6 learners, medians of 3 runs" in figure.caption
    for axes in canvas.axes:
        lines = {line.get_label(): line for line in axes.get_lines()}
        assert list(lines) == ["psrl", "certified ucfh", "others", "uniform", "ucfh"]
        assert len(axes.get_lines()) == 6  # of the others, two
        assert len({(x.get_color(), x.get_marker()) for x in lines.values()}) == len(lines)
        end = {name: float(line.get_ydata()[-1]) for name, line in lines.items()}
        assert end["psrl"] == pytest.approx(0.5 * 11)
        assert end["uniform"] == pytest.approx(0.4 * EPISODES)
    (legend,) = canvas.legends
    said = [text.get_text() for text in legend.get_texts()]
    assert said == ["psrl", "certified ucfh", "uniform", "ucfh", "others"]
    assert "on tutoring between 5.5 and 500 (least: psrl)" in figure.alt


def test_degenerate_figures() -> None:
    zero = [(EPISODES, 0.0)]
    assert read([run("psrl", zero)]).seen
    for runs in (
        [run("psrl", zero)],
        [run("psrl", zero), run("uniform", zero)],
        [run("psrl", [(1, 0.5)], episodes=1), run("uniform", [(1, 0.5)], episodes=1)],
        [run(f"agent-{k}", learns(10 * k + 1)) for k in range(30)],
        study(1),
    ):
        for figure in read(runs).figures:
            assert "<svg" in figure.svg


def test_problems_are_named_shortly() -> None:
    assert unseeded("random:seed=3,states=8") == "random:states=8"
    assert unseeded("models/clinic.json") == "models/clinic.json"
    names = labels(["hard:n=4,gap=0.1", "hard:n=4,gap=0.2", "hard:n=5,gap=0.2", "tutoring"])
    assert list(names.values()) == ["hard n=4 gap=0.1", "hard n=4 gap=0.2", "hard n=5", "tutoring"]


@settings(max_examples=40)
@given(st.data())
def test_any_part_of_a_study_is_read(data: st.DataObject) -> None:
    whole = study(3)
    part = data.draw(st.lists(st.sampled_from(range(len(whole))), min_size=1, unique=True))
    results = [whole[k] for k in sorted(part)]
    found = read(results)
    assert found.seen[0]
    for table in found.tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}
    field = field_of(results)
    for problem, by_name in field.runs.items():
        for name in by_name:
            share = field.share(problem, name)
            slow = [
                x.values["regret"] / floor
                for x in results
                if unseeded(x.arguments["problem"]) == problem
                and x.arguments["agent"] == (KIN if name == CERTIFIED else name)
                and (floor := _whole(x, results, field.against_floor))
            ]
            assert (share is None) == (not slow)
            assert share is None or abs(share.median - median(slow)) < 1e-12


def _whole(of: Result, results: list[Result], against: bool) -> float:
    """What random actions lose beside a run, or the optimum earns."""
    if not against:
        return EPISODES * 2.0
    return sum(
        float(x.values["regret"])
        for x in results
        if x.arguments["agent"] == "uniform"
        and x.replicate == of.replicate
        and x.arguments["problem"] == of.arguments["problem"]
    )
