"""Names with terminal escapes, and settings files that are nested too deeply."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import run
from support.errors import refusal
from support.log_files import HEAD
from ucfh import read_log
from ucfh.cli.printing import printable

ODD = "\x1b[31mred\x07\u202e"


def test_what_is_not_printable_is_escaped() -> None:
    assert printable(ODD) == "\\x1b[31mred\\x07\\u202e"
    assert printable("Zoë\nin\ttwo\N{NO-BREAK SPACE}lines \N{PILE OF POO}") == (
        "Zoë\nin\ttwo\N{NO-BREAK SPACE}lines \N{PILE OF POO}"
    )


@pytest.mark.parametrize("options", [["--check"], [], ["--states", "a,b"]])
def test_names_of_a_log_do_not_reach_the_terminal_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    path = tmp_path / "log.csv"
    rows = [f"{k},0,{ODD},x{ODD},1,b,0\n{k},1,b,x{ODD},0,c{ODD},1\n" for k in range(30)]
    path.write_text(HEAD + "".join(rows), encoding="utf-8")
    _, out, err = run(capsys, "certify", str(path), *options)
    assert "red" in out + err
    assert not set(out + err) & set("\x1b\x07\u202e")


def test_names_of_a_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    rows = [f"{k},0,{ODD},x{ODD},1,b,1\n" for k in range(30)]
    path.write_text(HEAD + "".join(rows), encoding="utf-8")
    policy = str(tmp_path / "policy.csv")
    run(capsys, "certify", str(path), "--policy", policy)
    code, out, err = run(capsys, "act", policy, "--state", "nothing", "--t", "0")
    assert code == 2
    assert not set(out + err) & set("\x1b\x07\u202e")


@pytest.mark.parametrize(
    "text",
    [
        "horizon = " + "[" * 5000 + "]" * 5000,
        ".".join(["a"] * 20000) + " = 1",
        "horizon = 1 # " + "x" * 2_000_000,
    ],
    ids=["nested", "dotted", "long"],
)
def test_settings_that_are_no_settings(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEAD + "0,0,a,x,1,b,1\n")
    (tmp_path / "log.csv.toml").write_text(text)
    said = refusal(read_log, path)
    assert "log.csv.toml" in said
    assert len(said) < 500
