"""``ucfh certify``, and ``ucfh learn --log``: from a log to a policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.command_line import fails, run
from ucfh import make, read_policy
from ucfh.logs.samples import write_log


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
    assert "It is optimal (90 % confidence).\n" in out
    code, out, _ = run(capsys, "certify", str(path))
    assert code == 3  # there may be other states, in which the episode may begin
    assert "It is optimal" not in out
