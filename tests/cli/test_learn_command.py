"""``ucfh learn``: runs that are resumed, what the agent is called, and what a run took."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.command_line import fails, run

Printed = pytest.CaptureFixture[str]


def without_times(out: str) -> list[str]:
    return [line for line in out.splitlines() if not line.startswith("        took")]


@pytest.mark.parametrize(
    "asked",
    [
        ["chain:n=5", "--epsilon", "0.3"],
        ["chain:n=3", "--paper", "--epsilon", "0.5"],
        ["chain:n=3", "--paper", "--episodes", "300"],
        ["chain:n=3", "--agent", "psrl", "--episodes", "100"],
        ["chain:n=3", "--agent", "rmax", "--epsilon", "0.5"],
        ["chain:n=3", "--agent", "indirect", "--epsilon", "0.5"],
        ["chain:n=3", "--agent", "uniform", "--episodes", "100"],
        ["chain:n=3", "--agent", "bpi-ucrl", "--epsilon", "0.5"],
    ],
    ids=lambda asked: " ".join(asked[1:]),
)
def test_a_finished_run_is_printed_again(capsys: Printed, asked: list[str], tmp_path: Path) -> None:
    save, again = str(tmp_path / "s.npz"), str(tmp_path / "again.npz")
    code, first, err = run(capsys, "learn", *asked, "--save", save)
    assert (code, err) == (0, "")
    for saved, other in ((save, again), (again, str(tmp_path / "third.npz"))):
        code, out, err = run(capsys, "learn", *asked, "--resume", saved, "--save", other)
        assert code == 0
        assert without_times(out.replace(other, save)) == without_times(first)
        finished = "the agent is not done" not in out
        said = f"ucfh: the run in {saved} is finished: this is its result again\n"
        assert err == (said if finished else "")


def test_a_agent_that_stops_says_what_it_has_reached(capsys: Printed) -> None:
    asked = ("chain:n=3", "--agent", "bpi-ucrl:schedule=growth", "--epsilon", "0.5")
    _, out, _ = run(capsys, "learn", *asked, "--delta", "0.05")
    assert "(stopped: within 0.5 of optimal, 95% confidence)" in out


def test_agents_that_are_told_how_many_episodes_there_will_be(
    capsys: Printed, tmp_path: Path
) -> None:
    asked, save = ["learn", "chain:n=3", "--agent", "psrl"], str(tmp_path / "s.npz")
    run(capsys, *asked, "--episodes", "100", "--save", save)
    for other in ("50", "200"):
        said = fails(capsys, *asked, "--episodes", other, "--resume", save)
        assert "the saved run was made for 100 episodes" in said
        assert "pass episodes=100 (--episodes 100) again, or start a new run" in said


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("ucfh:m=100", "ucfh, paper constants but for m = 100 (no guarantee), paper sets; epsilon"),
        (
            "ucfh:variant=corrected,m=1e3,confidence=kl",
            "ucfh, corrected constants but for m = 1000 (no guarantee), kl sets; epsilon",
        ),
        ("ucfh:variant=corrected", "ucfh, corrected constants, paper sets; epsilon"),
        (
            "certified-ucfh:schedule=paper,m=50",
            "tight sets, paper schedule with paper constants but for m = 50; epsilon",
        ),
        ("certified-ucfh:confidence=kt", "certified-ucfh, kt sets, growth schedule; epsilon"),
    ],
)
def test_the_agent_is_called_what_it_is(capsys: Printed, agent: str, words: str) -> None:
    asked = ["chain:n=3", "--agent", agent, "--episodes", "50"]
    code, out, _ = run(capsys, "learn", *asked)
    assert code == 0
    assert words in out
    assert "Theorem 1, as printed, allows" not in out


def test_what_a_run_took(capsys: Printed) -> None:
    asked = ["learn", "chain:n=3", "--episodes", "30"]
    found = json.loads(run(capsys, *asked, "--json")[1])
    assert found["seconds"] > 0
    _, out, _ = run(capsys, *asked)
    assert re.search(r"took +\d+\.\d\d s\n", out)
