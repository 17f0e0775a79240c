"""Commands as a person and as a program run them."""

from __future__ import annotations

import pytest

from ucfh.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of one command."""
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    captured = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, captured.out, captured.err


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a wrong command prints, after exit code 2 and nothing on stdout."""
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("ucfh: ")
    assert err.count("\n") == 1
    return err
