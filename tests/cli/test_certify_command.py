"""``ucfh certify``, and ``ucfh learn --log``: from a log to a policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import fails, run
from support.log_reports import COLUMNS, write_renewals
from ucfh import make, read_policy
from ucfh.logs.synthetic import write_log


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("logs") / "chain.csv"
    write_log(make("chain:n=3"), path, episodes=2000)
    return str(path)


def test_a_certificate_from_a_log(
    capsys: pytest.CaptureFixture[str], log: str, tmp_path: Path
) -> None:
    mdp, policy = make("chain:n=3"), str(tmp_path / "policy.csv")
    asked = ["certify", log, "--problem", "chain:n=3", "--epsilon", "0.2"]
    code, out, err = run(capsys, *asked, "--json", "--policy", policy)
    assert (code, err) == (0, "")
    known = json.loads(out)
    assert known["certified"] is True
    assert known["gap"] <= 0.2
    assert known["lower"] <= mdp.value(read_policy(policy, mdp))
    assert mdp.at_start(mdp.optimal().values) <= known["upper"]
    assert (known["episodes"], known["rows"], known["more_episodes"]) == (2000, 6000, 0)
    error = fails(capsys, *asked, "--policy", policy)
    assert "exists: pass --force" in error


def test_too_little_data_is_said_honestly(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "little.csv"
    path.write_text("episode,t,state,action,reward,next_state\n1,0,a,go,0,b\n1,1,b,stay,1,a\n")
    code, out, _ = run(capsys, "certify", str(path))
    assert code == 3
    assert "This policy earns at least " in out
    assert "2 states shown" in out
    assert "no states besides" not in out
    assert "there are no actions besides the 2 that the log shows" in out
    code, out, _ = run(capsys, "certify", str(path), "--states", "a,b,c", "--json")
    assert code == 3
    known = json.loads(out)
    assert known["states"] == 3
    assert 1.9 < known["upper"] <= 2
    assert 0 <= known["lower"] < 0.1
    assert "there are no states besides the 3 that were declared" in known["assumed"]
    # both actions of a matter, and at most one was tried there
    assert {(x["state"], x["action"]) for x in known["missing"]} >= {(0, 1)}


def test_faults_are_told_and_strict_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "faulty.csv"
    path.write_text(
        "episode,t,s,action,reward,next_state\n1,0,a,go,0,b\n1,2,b,go,1,a\n2,0,a,go,7,b\n2,1,b,stay,1,a\n"
    )
    named = ["certify", str(path), "--columns", "state=s", "--accept-losses"]
    code, out, _ = run(capsys, *named)
    assert code == 3
    assert out.count("       fault  1 x ") == 2
    assert "line 3" in out
    error = fails(capsys, *named, "--strict")
    assert "line 3" in error
    assert "column" in fails(capsys, "certify", str(path))


def test_learning_begins_with_a_log(capsys: pytest.CaptureFixture[str], log: str) -> None:
    asked = ["learn", "chain:n=3", "--epsilon", "0.05", "--json"]
    _, out, _ = run(capsys, *asked)
    alone = json.loads(out)
    code, out, err = run(capsys, *asked, "--log", log)
    helped = json.loads(out)
    assert (code, helped["certified"]) == (0, True)
    assert err == f"ucfh: starting with 2000 episodes of {log}\n"
    assert helped["episodes"] < alone["episodes"]
    assert helped["gap"] <= 0.05


def test_a_gap_of_rounding_is_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With one action nothing can be better, and nobody wants to read of 1e-14."""
    path = tmp_path / "one.csv"
    path.write_text("episode,t,state,action,reward,next_state\n1,0,a,go,0,a\n2,0,a,go,1,a\n")
    code, out, _ = run(capsys, "certify", str(path), "--states", "a")
    assert code == 0
    assert "It is optimal (90% confidence).\n" in out
    code, out, _ = run(capsys, "certify", str(path))
    assert code == 3  # there may be other states, in which the episode may begin
    assert "It is optimal" not in out


# -- an answer to show ----------------------------------------------------------------------------

RENEWALS = ["--rewards", "0,80", "--max-return", "80", "--epsilon", "10"]
RENEWALS += [x for column, name in COLUMNS.items() for x in ("--columns", f"{column}={name}")]


@pytest.fixture(scope="module")
def renewals(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_renewals(tmp_path_factory.mktemp("logs") / "renewals.csv", 4000))


def test_files_to_show(capsys: pytest.CaptureFixture[str], renewals: str, tmp_path: Path) -> None:
    page, plot, policy = (str(tmp_path / f"answer.{x}") for x in ("html", "svg", "csv"))
    asked = ["certify", renewals, *RENEWALS, "--html", page, "--plot", plot, "--policy", policy]
    code, out, err = run(capsys, *asked)
    assert (code, err) == (0, "")
    assert out.endswith(f"      policy  {policy}\n        page  {page}\n      figure  {plot}\n")
    assert Path(page).read_text().startswith("<!DOCTYPE html>")
    assert Path(plot).read_text().startswith("<?xml")
    lines = Path(policy).read_text().splitlines()
    assert lines[:3] == ["t,state,action", "0,cold,mail", "0,warm,call"]
    assert not any("renewed" in line for line in lines)  # nothing is to be done there
    code, out, _ = run(capsys, "act", policy, "--state", "warm", "--t", "2")
    assert (code, out) == (0, "call\n")
    for path in (page, plot, policy):
        before = Path(path).read_bytes()
        option = {page: "--html", plot: "--plot", policy: "--policy"}[path]
        assert "exists: pass --force" in fails(capsys, "certify", renewals, *RENEWALS, option, path)
        assert Path(path).read_bytes() == before
    assert run(capsys, *asked, "--force")[0] == 0
    assert "unknown ending" in fails(capsys, "certify", renewals, "--html", "answer.pdf")
    assert "named twice" in fails(capsys, "certify", renewals, "--policy", renewals)


def test_json_has_names_and_the_policy(capsys: pytest.CaptureFixture[str], renewals: str) -> None:
    code, out, _ = run(capsys, "certify", renewals, *RENEWALS, "--json")
    assert code == 0
    known = json.loads(out)
    assert known["state_names"] == ["cold", "left", "renewed", "warm"]
    assert known["action_names"] == ["call", "mail", "wait"]
    assert known["findings"] == []
    assert known["behavior"]["mean"] == pytest.approx(23.8, abs=0.01)
    assert known["behavior"]["episodes"] == 4000
    assert known["improvement"] == known["lower"] - known["behavior"]["upper"] > 15
    assert known["first_step"] == 0
    rows = known["policy"]
    assert [(x["t"], x["state"]) for x in rows] == [
        (t, s) for t in range(4) for s in ("cold", "warm")
    ]
    assert (rows[0]["action"], rows[0]["visits"]) == ("mail", 2988)
    assert rows[0]["suboptimality"] == pytest.approx(8.577, abs=0.01)
    assert rows[1]["suboptimality"] is None  # nobody is warm in the first week
    assert rows[-1]["suboptimality"] < 1e-9


def test_states_without_names_are_numbers(capsys: pytest.CaptureFixture[str], log: str) -> None:
    _, out, _ = run(capsys, "certify", log, "--json")
    known = json.loads(out)
    assert known["state_names"] == [0, 1, 2]
    assert {row["state"] for row in known["policy"]} == {0, 1, 2}


def test_what_was_earned_is_printed(
    capsys: pytest.CaptureFixture[str], renewals: str, tmp_path: Path
) -> None:
    _, out, _ = run(capsys, "certify", renewals, *RENEWALS)
    assert "      logged  What was done in the log is worth 21." in out
    assert "more per episode than that (80% confidence).\n" in out
    few = str(write_renewals(tmp_path / "few.csv", 100))
    code, out, _ = run(capsys, "certify", few, *RENEWALS)
    assert code == 3
    assert "No improvement on that can be promised.\n" in out


def test_policies_are_in_the_steps_of_the_log(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, policy = write_renewals(tmp_path / "log.csv", 500, first=1), str(tmp_path / "policy.json")
    _, out, _ = run(capsys, "certify", str(path), *RENEWALS, "--json", "--policy", policy)
    known = json.loads(out)
    assert known["first_step"] == 1
    assert {row["t"] for row in known["policy"]} == {1, 2, 3, 4}
    for row in known["policy"]:
        asked = ["act", policy, "--state", row["state"], "--t", str(row["t"])]
        assert run(capsys, *asked)[1].strip() == row["action"]
    assert "steps are 1 to 4" in fails(capsys, "act", policy, "--state", "warm", "--t", "0")
