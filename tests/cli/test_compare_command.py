"""``ucfh compare`` and ``ucfh agents``, as a person and as a program use them."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import agents
from support.command_line import fails, run
from support.settings import DOCS, LONG
from ucfh import make
from ucfh._utils.parallel import DIED
from ucfh._utils.plotting import spread
from ucfh.algorithms.registry import AGENTS, agent_class
from ucfh.cli import compare as command
from ucfh.comparison import runner
from ucfh.comparison.plots import plot_comparison
from ucfh.comparison.result import Comparison, Outcome, grid_of

Capture = pytest.CaptureFixture[str]
PAGE = DOCS / "howto" / "compare.md"
TWO = ["--agents", "psrl,ucbvi-ch", "--episodes", "300", "--epsilon", "0.2"]


def without_times(result: Any) -> Any:
    """A JSON result without what a clock said."""
    if isinstance(result, dict):
        return {k: without_times(v) for k, v in result.items() if not k.endswith("seconds")}
    return [without_times(x) for x in result] if isinstance(result, list) else result


@pytest.mark.slow
def test_one_json_object(capsys: Capture) -> None:
    asked = ["compare", "chain:n=4", *TWO, "--seeds", "7", "--scale", "0.5", "--json"]
    code, out, err = run(capsys, *asked, "--workers", "1")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["optimal"] == pytest.approx(make("chain:n=4").at_start(
        make("chain:n=4").optimal().values
    ))  # fmt: skip
    assert {k: result[k] for k in ("problem", "episodes", "seeds", "complete_seeds", "scale")} == {
        "problem": "chain:n=4", "episodes": 300, "seeds": 7, "complete_seeds": 7, "scale": 0.5
    }  # fmt: skip
    assert (result["epsilon"], result["delta"], result["interrupted"]) == (0.2, 0.1, False)
    assert result["failures"] == []
    assert result["grid"] == grid_of(300).tolist()
    best, other = result["agents"]
    assert (best["p"], best["best"]) == (None, True)
    assert best["regret"]["median"] < other["regret"]["median"]
    for agent in result["agents"]:
        runs = agent["runs"]
        assert [x["seed"] for x in runs] == list(range(7))
        for name in ("regret", "mistakes", "last_mistake", "gap"):
            values = [x[name] for x in runs]
            assert agent[name]["median"] == np.median(values)
            assert (agent[name]["low"], agent[name]["high"]) == (min(values), max(values))
            assert agent[name]["coverage"] == 1 - 2 / 2**7
        assert agent["planning_seconds"]["median"] > 0
        assert agent["constants"] == agent_class(agent["agent"]).constants
        assert agent["scale"] == (0.5 if agent["agent"] == "ucbvi-ch" else 1)
        assert len(agent["curves"]["regret"]["median"]) == len(result["grid"])
        assert agent["curves"]["mistakes"]["median"][-1] == agent["mistakes"]["median"]
    _, out, _ = run(capsys, *asked, "--workers", "2")
    assert without_times(json.loads(out)) == without_times(result)


@pytest.mark.slow
def test_a_table_and_a_figure_for_people(capsys: Capture, tmp_path: Path) -> None:
    figure = tmp_path / "figure.svg"
    asked = ["compare", "chain:n=4", *TWO, "--scale", "0.5", "--plot", str(figure)]
    code, out, err = run(capsys, *asked, "--seeds", "8")
    assert (code, err) == (0, "")
    head, first, second = out.split("\n\n")[1].splitlines()
    assert re.split("  +", head) == [
        "rank", "agent", "regret", "mistakes", "last mistake", "planning", "p"
    ]  # fmt: skip
    assert first.split()[:2] == ["1", "psrl"]
    assert first.endswith("best")
    assert second.split()[:2] == ["2", "ucbvi-ch"]
    assert "99.2% confidence interval of the median over all seeds" in out
    assert "bonuses are scaled, no theorem holds: ucbvi-ch 0.5\n" in out
    assert "  published: ucbvi-ch\n  chosen: psrl\n" in out
    assert "psrl is significantly better than all others" in out
    assert figure.read_text().startswith("<?xml")
    assert "figure.svg exists: pass --force" in fails(capsys, *asked)
    code, out, _ = run(capsys, *asked, "--seeds", "2", "--force")
    assert "50.0% confidence interval of the median over all seeds (too few seeds for 95%" in out
    assert "pass --seeds 6." in out


def test_progress_is_shown_to_who_watches(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, out, err = run(capsys, "compare", "chain:n=4", *TWO, "--seeds", "2", "--json")
    assert code == 0
    assert len(json.loads(out)["agents"]) == 2
    assert "of 4 runs" in err


@pytest.mark.slow
def test_what_failed_is_told_and_the_rest_kept(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = ("killed",) if LONG else ()  # processes that die cost seconds: see test_comparison.py
    made = {name: getattr(agents, name) for name in ("good", *killed, "faulty")}
    told = {
        "killed": f"ucfh: killed, seed 1: {DIED}",
        "faulty": "ucfh: faulty, seed 2: RuntimeError: no way",
    }
    monkeypatch.setattr(runner, "makers", lambda *_: made)
    code, out, err = run(capsys, "compare", "chain:n=4", *TWO, "--seeds", "3")
    assert code == 1
    assert err.splitlines() == [told[name] for name in made if name in told]
    rows = {line.split()[1]: line.split()[-1] for line in out.split("\n\n")[1].splitlines()}
    assert rows == {"agent": "seeds", **{name: "2" if name in told else "3" for name in made}}
    monkeypatch.setattr(runner, "makers", lambda *_: {"faulty": _always})
    code, out, err = run(capsys, "compare", "chain:n=4", *TWO, "--seeds", "2")
    assert code == 1
    assert "Every run failed." in out
    assert err.count("\n") == 2


def _always(*_: object) -> Any:
    raise ZeroDivisionError


def test_interrupted(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    curve = np.ones(len(grid_of(300)))
    outcomes = [
        Outcome(name, seed, 1, 1, 1.0, 0.0, 1.0, 0, 0.0, 0.0, curve, curve)
        for name, seed in (("a", 0), ("b", 0), ("a", 1))
    ]
    result = Comparison(["a", "b"], 300, 20, 0.1, 1.0, outcomes, interrupted=True)
    monkeypatch.setattr(runner, "compare", lambda *_, **__: result)
    code, out, err = run(capsys, "compare", "chain:n=4", *TWO)
    assert code == 130
    assert err == (
        "ucfh: interrupted; this is what was run until then: 1 of 20 seeds with all agents\n"
    )
    assert out.split("\n\n")[1].count("\n") == 2


def test_agents_without_names_are_those_that_fit(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "USUAL", ("psrl", "nobody", "ucbvi-ch"))
    code, out, err = run(
        capsys, "compare", "chain:n=4", "--seeds", "1", "--episodes", "5", "--json"
    )
    assert code == 0
    assert {x["agent"] for x in json.loads(out)["agents"]} == {"psrl", "ucbvi-ch"}
    assert err.startswith("ucfh: left out: unknown agent 'nobody'")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--agents", "pslr"], "did you mean 'psrl'?"),
        (["--agents", "psrl:proir=1"], "did you mean 'prior'?"),
        (["--agents", "psrl,psrl"], "psrl is given twice"),
        (["--agents", ","], "no agents are given"),
        (["--seeds", "0"], "seeds = 0"),
        (["--episodes", "-1"], "episodes = -1"),
        (["--workers", "0", "--agents", "psrl"], "workers = 0"),
        (["--delta", "2"], "delta = 2.0 is outside (0, 1]"),
        (["--scale", "0", "--agents", "ucbvi-ch"], "scale = 0.0"),
        (["--plot", "x.jpg"], "unknown ending '.jpg'"),
        (["--plot", "none/x.png"], "the directory none does not exist"),
    ],
)
def test_wrong_turns_are_one_line(arguments: list[str], words: str, capsys: Capture) -> None:
    assert words in fails(capsys, "compare", "chain:n=4", *arguments)


def test_agents_are_listed(capsys: Capture) -> None:
    _, out, _ = run(capsys, "agents", "--json")
    listed = json.loads(out)["agents"]
    assert {"ucfh", "psrl", "ucbvi-bf"} <= {x["name"] for x in listed}
    for agent in listed:
        assert all(agent[key] for key in ("reference", "setting", "guarantee"))
        assert agent["constants"] == agent_class(agent["name"]).constants
    _, out, _ = run(capsys, "agents")
    assert all(x["name"] in out for x in listed)
    _, out, _ = run(capsys, "agents", "psrl")
    assert "parameter  prior (a number): the Dirichlet parameter of each successor, pos" in out
    assert "constants  chosen: the prior\n" in out
    _, out, _ = run(capsys, "agents", "psrl:prior=1")
    assert "(a number; given: 1.0)" in out
    _, out, _ = run(capsys, "agents", "opsrl:J=3", "--json")
    (opsrl,) = json.loads(out)["agents"]
    assert [opsrl["parameters"]["J"][key] for key in ("default", "given")] == [8, 3]
    assert "given" not in opsrl["parameters"]["r0"]
    _, out, _ = run(capsys, "agents", "eqo")
    assert "parameter  none\n" in out
    assert "eqo has no parameters: leave out 'lambda'" in fails(capsys, "agents", "eqo:lambda=2")
    assert "prior = -1.0 must be a positive number" in fails(capsys, "agents", "psrl:prior=-1")
    assert "unknown parameter of psrl 'prio'" in fails(capsys, "agents", "psrl:prio=1")
    assert "did you mean 'psrl'?" in fails(capsys, "agents", "pslr")


@pytest.mark.parametrize("count", [1, 2, 9, 30])
def test_labels_stand_apart_and_near(count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(50):
        at = rng.choice([0.0, 0.1, 0.5, 1.0], count) + rng.choice([0.0, 1e-3], count)
        gap = 1 / 31
        places = spread(at, gap)
        order = np.argsort(at, kind="stable")
        assert (np.diff(places[order]) >= gap - 1e-12).all()
        assert places.min() >= 0
        assert places.max() <= 1 + 1e-12
    free = np.linspace(0.1, 0.9, count)
    if count < 20:
        np.testing.assert_allclose(spread(free, 1 / 31), free)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_nothing_lost_and_one_episode_can_be_drawn(level: float, tmp_path: Path) -> None:
    curve = np.full(1, level)
    outcomes = [Outcome("a", 0, 0, 0, level, level, 1.0, 0, 0.0, 0.0, curve, curve)]
    result = Comparison(["a"], 1, 1, 0.1, 1.0, outcomes)
    plot_comparison(result, "$ odd _ title", tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_page_says_what_happens(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    sessions = re.findall(r"```console\n\$ ucfh (.*?)\n(.*?)```", text, re.DOTALL)
    assert sessions

    def timeless(table: str) -> str:
        return re.sub(r" +[\d.e-]+ s ", " ? s ", table)

    for line, printed in sessions:
        code, out, err = run(capsys, *shlex.split(line))
        assert (code, err) == (0, "")
        assert timeless(out) == timeless(printed)


def test_the_usual_ones_have_names() -> None:
    assert set(command.USUAL) <= set(AGENTS)
