"""Export and display of a comparison: frames, CSV files, figures, notebooks, repr."""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.command_line import fails, run
from support.dask_cluster import cluster
from ucfh import InputError, compare
from ucfh.comparison.plots import plot_comparison
from ucfh.comparison.result import Comparison, Failure, Outcome, grid_of
from ucfh.comparison.table import cells_of

Capture = pytest.CaptureFixture[str]


def outcome(agent: str, seed: int, regret: float, changed: bool = True) -> Outcome:
    grid = grid_of(3)
    return Outcome(
        agent, seed, 2, 2, regret, 0.5, 1.0, 0, 0.1, 0.2, regret * grid / 3, np.minimum(grid, 2),
        "chosen: <all>", changed,
    )  # fmt: skip


@pytest.fixture
def result() -> Comparison:
    outcomes = [outcome("<a>", k, 1.0 + k / 8) for k in range(6)]
    outcomes += [outcome("b", k, 9.0, changed=False) for k in range(6)]
    return Comparison(["<a>", "b"], 3, 6, 0.1, 1.0, outcomes, problem="chain:n=3")


def test_a_frame_has_a_row_for_each_run(result: Comparison) -> None:
    frame = result.to_frame()
    assert list(frame.columns) == [
        "problem", "agent", "seed", "regret", "mistakes", "last_mistake", "gap", "changed",
        "scale", "samples", "planning_seconds", "seconds", "constants",
    ]  # fmt: skip
    assert len(frame) == 12
    medians = frame.groupby("agent").regret.median()
    assert medians.to_dict() == {x.place.agent: x.of("regret").median for x in result.standings()}
    assert frame.changed.dtype == bool
    assert set(frame.problem) == {"chain:n=3"}


def test_a_frame_of_curves_ends_in_the_totals(result: Comparison) -> None:
    frame = result.to_frame(curves=True)
    assert list(frame.columns) == ["problem", "agent", "seed", "episode", "regret", "mistakes"]
    assert len(frame) == 12 * 3
    one = frame[(frame.agent == "<a>") & (frame.seed == 4)]
    assert one.episode.tolist() == [1, 2, 3]
    assert one.regret.tolist() == pytest.approx([0.5, 1.0, 1.5], rel=1e-15)
    last = frame[frame.episode == 3].set_index(["agent", "seed"]).regret
    totals = result.to_frame().set_index(["agent", "seed"]).regret
    assert last.to_dict() == totals.to_dict()


def test_without_pandas_one_line(result: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError) as error:
        result.to_frame()
    assert str(error.value) == "a frame needs pandas, which is not installed: pip install pandas"


def test_csv_files_equal_frames(capsys: Capture, tmp_path: Path) -> None:
    runs, curves = tmp_path / "runs.csv", tmp_path / "runs-curves.csv"
    asked = ["compare", "chain:n=3", "--agents", "psrl,uniform", "--episodes", "30", "--seeds", "2"]
    asked += ["--workers", "1", "--csv", str(runs)]
    code, out, err = run(capsys, *asked)
    assert (code, err) == (0, "")
    assert f"runs  {runs}\n" in out
    assert f"curves  {curves}\n" in out
    expected = compare("chain:n=3", ["psrl", "uniform"], 30, 2, workers=1)
    for path, frame in ((runs, expected.to_frame()), (curves, expected.to_frame(curves=True))):
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(frame)
        assert list(rows[0]) == list(frame.columns)
        # all digits are written
        assert [float(x["regret"]) for x in rows] == frame.regret.tolist()
        assert [x["agent"] for x in rows] == frame.agent.tolist()
    assert "runs.csv exists: pass --force" in fails(capsys, *asked)
    runs.unlink()
    assert "runs-curves.csv exists: pass --force" in fails(capsys, *asked)
    assert "unknown ending '.txt'" in fails(capsys, *asked[:-1], "runs.txt")


# -- axes


def test_own_axes_and_nothing_else_are_drawn_on(result: Comparison) -> None:
    """Also those of another figure than the one that pyplot would draw on."""
    from matplotlib.figure import Figure

    mine, other = Figure(), Figure()
    left, right = mine.subplots(1, 2)
    other.subplots()
    assert result.plot(ax=left) is mine
    assert result.plot(ax=right, curve="mistakes", title="$ _") is mine
    assert (left.get_ylabel(), right.get_ylabel()) == ("regret", "mistakes")
    assert (left.get_title(), right.get_title()) == ("chain:n=3", "$ _")
    assert left.get_legend().get_title().get_text() == "= never left its first policy"
    for axes in (left, right):
        assert [x.get_text() for x in axes.get_legend().get_texts()] == ["<a>", "b ="]
    assert left.lines[0].get_ydata()[-1] == np.median([1.0 + k / 8 for k in range(6)])
    assert right.lines[0].get_ydata()[-1] == 2
    assert len(mine.axes) == 2
    assert other.axes[0].has_data() is False


def test_a_figure_without_a_file(result: Comparison) -> None:
    figure = result.plot()
    assert len(figure.axes) == 2
    assert figure.get_suptitle().startswith("chain:n=3, 6 seeds, epsilon 0.1")
    assert figure.get_supxlabel() == "= never left its first policy"
    result.outcomes = [replace(x, changed=True, scale=0.1) for x in result.outcomes]
    figure = result.plot()
    assert figure.get_suptitle().startswith("chain:n=3, 6 seeds, epsilon 0.1, scale 0.1: median")
    assert figure.get_supxlabel() == ""


def line_styles(axes: Any) -> dict[str, tuple[Any, Any]]:
    return {x.get_label(): (x.get_color(), x.get_linestyle()) for x in axes.lines}


def test_style_does_not_depend_on_rank(result: Comparison) -> None:
    """Also beside a comparison in which one failed."""
    from matplotlib.figure import Figure

    outcomes = [replace(x, regret=-x.regret) for x in result.outcomes]
    other = replace(result, outcomes=outcomes)
    assert [x.place.agent for x in result.standings()] == ["<a>", "b"]
    assert [x.place.agent for x in other.standings()] == ["b", "<a>"]
    alone = replace(result, outcomes=[x for x in outcomes if x.agent == "b"])
    first, second, third = Figure().subplots(1, 3)
    for one, axes in ((result, first), (other, second), (alone, third)):
        one.plot(ax=axes)
    styles = line_styles(first)
    assert len(set(styles.values())) == 2
    assert line_styles(second) == styles
    assert line_styles(third) == {"b =": styles["b ="]}
    # beside the lines of a new figure as well
    labels = {x.get_text(): x.get_color() for x in other.plot().axes[0].texts}
    assert labels == {name: color for name, (color, _) in styles.items()}


@pytest.mark.parametrize("agents", [2, 14])
@pytest.mark.parametrize("layout", [None, "constrained"])
def test_the_legend_covers_no_line(agents: int, layout: Any) -> None:
    """In a small figure with two panels, of lines that reach all corners."""
    from matplotlib.figure import Figure

    names = [f"agent-{k}" for k in range(agents)]
    outcomes = [
        replace(outcome(name, 0, 9.0), regret_curve=np.array([9.0, 9.0, 1.0 + 8 * (k % 2)]))
        for k, name in enumerate(names)
    ]
    figure = Figure(figsize=(7, 3), layout=layout)
    axes = figure.subplots(1, 2)[0]
    Comparison(names, 3, 1, 0.1, 1.0, outcomes, problem="chain").plot(ax=axes)
    figure.draw_without_rendering()
    box = axes.get_legend().get_window_extent()
    top = max(axes.transData.transform(x.get_xydata())[:, 1].max() for x in axes.lines)
    assert top < box.y0
    assert box.y1 <= axes.bbox.y1
    assert axes.bbox.x0 <= box.x0 < box.x1 <= axes.bbox.x1


def test_invalid_axes(result: Comparison) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    gone = figure.add_subplot()
    gone.remove()
    several = figure.subplots(1, 2)
    round_one = figure.add_subplot(projection="polar")
    odd: list[Any] = [figure, several, list(several), gone, round_one, 5]
    for ax in odd:
        with pytest.raises(InputError, match=r"^ax "):
            result.plot(ax=ax)
    with pytest.raises(InputError, match=r"^ax "):
        result.plot("file.png", ax=several[0])
    wrong: Any = "regrets"
    with pytest.raises(InputError, match="curve"):
        result.plot(curve=wrong)
    with pytest.raises(InputError):
        plot_comparison(Comparison(["a"], 3, 6, 0.1, 1.0))


# -- texts


def test_in_a_line(result: Comparison) -> None:
    assert repr(result) == "Comparison(2 agents, 6 seeds, 3 episodes; best: <a>)"
    best, other = result.standings()
    assert repr(best) == "AgentSummary(<a>, rank 1, 6 seeds)"
    assert repr(other.outcomes[0]) == "Outcome(b, seed 0: regret 9)"
    failed = Comparison(["a"], 3, 1, 0.1, 1.0, failures=[Failure("a", 0, "no")], interrupted=True)
    assert repr(failed) == (
        "Comparison(1 agent, 1 seed, 3 episodes; every run failed; interrupted)"
    )
    result.failures.append(Failure("a", 7, "no"))
    assert repr(result).endswith("; best: <a>; 1 run failed)")
    names = list("abcde")
    once = [replace(result.outcomes[0], agent=name) for name in names]
    many = Comparison(names, 3, 1, 0.1, 1.0, once)
    assert repr(many).endswith("; best: a, not significantly better than 4 others)")


def test_in_a_notebook(result: Comparison) -> None:
    page = result._repr_html_()
    assert "<a>" not in page
    assert "<td>&lt;a&gt;</td>" in page
    assert '<img alt="regret and mistakes over the episodes" src="data:image/png;base64,' in page
    assert "http" not in page
    assert len(page) < 200_000
    assert "<img" not in Comparison(["a"], 3, 1, 0.1, 1.0)._repr_html_()


def test_agents_with_unchanged_policy_are_marked(result: Comparison) -> None:
    standings = result.standings()
    columns, rows = cells_of(result, standings)
    at = columns.index("agent")
    assert [row[at] for row in rows] == ["<a>", "b ="]


def test_the_paper_s_agent_keeps_its_first_policy_on_riverswim() -> None:
    """The first policy is optimal there: the agent ranks first without learning."""
    found = compare("riverswim", ["ucfh", "psrl"], 300, seeds=2, workers=1)
    changed = {x.place.agent: x.changed for x in found.standings()}
    assert changed == {"ucfh": False, "psrl": True}
    assert found.standings()[0].place.agent == "ucfh"


@pytest.mark.slow
def test_on_a_cluster_as_here() -> None:
    here = compare("chain:n=3", ["psrl", "ucbvi-ch"], 30, 3, workers=1)
    with cluster(2) as address:
        there = compare("chain:n=3", ["psrl", "ucbvi-ch"], 30, 3, cluster=address)
    assert [x.regret for x in there.outcomes] == [x.regret for x in here.outcomes]
    assert there.failures == []


def test_processes_or_a_cluster(capsys: Capture) -> None:
    message = "--workers"
    with pytest.raises(InputError, match=message):
        compare("chain:n=3", ["psrl"], 30, 3, workers=1, cluster="tcp://x:1")
    asked = ["compare", "chain:n=3", "--agents", "psrl", "--cluster", "tcp://127.0.0.1:9"]
    assert message in fails(capsys, *asked, "--workers", "1")
