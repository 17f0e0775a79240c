"""Ctrl-C and SIGTERM: one line, the exit code of shells, and what was run is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command_line import run
from ucfh import simulate
from ucfh._kernels.compiling import _Cache, njit
from ucfh._utils import interrupts
from ucfh._utils.files import write_text
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.cli.main import main
from ucfh.problems import make
from ucfh.simulation.result import Run
from ucfh.theory import verification

Capture = pytest.CaptureFixture[str]
CODES = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
both = pytest.mark.parametrize(("number", "code"), CODES)


class Left(BaseException):
    """The process would have ended here."""


@pytest.fixture(autouse=True)
def staying(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process does not end, and is afterwards as before."""

    def leave(code: int) -> None:
        interrupts._now.__dict__.clear()
        raise Left(code)

    monkeypatch.setattr(os, "_exit", leave)
    yield
    interrupts._now.__dict__.clear()


def left(caught: pytest.ExceptionInfo[Left]) -> int:
    return int(caught.value.args[0])


@both
def test_nothing_to_keep(number: int, code: int, capfd: Capture) -> None:
    print("a result", end="")
    with interrupts.listening(), pytest.raises(Left) as caught:
        signal.raise_signal(number)
    assert left(caught) == code
    assert capfd.readouterr() == ("a result", "ucfh: interrupted\n")


@both
def test_a_file_is_written_or_not_begun(
    number: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    write = Path.write_bytes

    def interrupted(path: Path, content: bytes) -> int:
        signal.raise_signal(number)
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with interrupts.listening(), pytest.raises(Left) as caught:
        write_text(tmp_path / "file.csv", "all of it")
    assert left(caught) == code
    assert [path.name for path in tmp_path.iterdir()] == ["file.csv"]
    assert (tmp_path / "file.csv").read_text() == "all of it"
    assert capfd.readouterr().err == "ucfh: interrupted\n"


@both
def test_something_to_keep(number: int, code: int) -> None:
    with interrupts.listening():
        interrupts.keep()
        signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        interrupts.check()  # once is enough
        assert interrupts.exit_code() == code


@both
def test_while_others_work(number: int, code: int) -> None:
    with interrupts.listening():
        interrupts.keep()
        with pytest.raises(KeyboardInterrupt), interrupts.awaited():
            signal.raise_signal(number)
        assert interrupts.exit_code() == code
    with interrupts.listening():
        interrupts.keep()
        signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt), interrupts.awaited():
            pytest.fail("it waited already")


def test_the_second_ends_it_wherever_it_is(capfd: Capture) -> None:
    with interrupts.listening():
        interrupts.keep()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Left) as caught:
            signal.raise_signal(signal.SIGINT)
    assert left(caught) == 143
    assert capfd.readouterr().err == "ucfh: interrupted\n"


def test_what_is_to_be_ignored_is() -> None:
    """As after nohup."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts.listening():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_python_hears_as_before_after_a_command(capsys: Capture) -> None:
    before = [signal.getsignal(number) for number in interrupts.SIGNALS]
    assert run(capsys, "--version")[0] == 0
    assert [signal.getsignal(number) for number in interrupts.SIGNALS] == before


# -- commands ------------------------------------------------------------------------------------

ASKED = ["learn", "chain:n=4", "--epsilon", "0.2"]


@both
@pytest.mark.parametrize("where", ["walking", "planning"])
def test_learn_keeps_what_was_run(
    number: int,
    code: int,
    where: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    save, whole, rest = (str(tmp_path / f"{x}.npz") for x in ("part", "whole", "rest"))
    assert run(capsys, *ASKED, "--save", whole)[0] == 0
    with monkeypatch.context() as patch:
        _interrupt_after(patch, where, number, calls=5)
        found, out, err = run(capsys, *ASKED, "--save", save)
    assert (found, err) == (
        code, f"ucfh: interrupted; this is what was run until then; continue with --resume {save}\n"
    )  # fmt: skip
    assert "(interrupted)" in out
    part, all_of = Run.load(save), Run.load(whole)
    assert 0 < part.episodes < all_of.episodes
    assert run(capsys, *ASKED, "--resume", save, "--save", rest)[0] == 0
    assert Run.load(rest).episodes == all_of.episodes


def _interrupt_after(patch: pytest.MonkeyPatch, where: str, number: int, calls: int) -> None:
    """Send a signal amid a walk of episodes, or while the agent plans."""
    from ucfh.simulation.environment import Simulator

    cls, name = {"walking": (Simulator, "walk"), "planning": (CertifiedUCFH, "observe")}[where]
    real, seen = getattr(cls, name), []

    def interrupted(self: Any, *arguments: Any) -> Any:
        seen.append(1)
        if len(seen) == calls:
            signal.raise_signal(number)
        return real(self, *arguments)

    patch.setattr(cls, name, interrupted)


@both
def test_a_result_is_written_if_it_came_before(
    number: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    """All is done but for the files: they are written, and the exit code says what happened."""
    from ucfh.cli.run_printing import print_summary as real

    def interrupted(*arguments: Any) -> None:
        signal.raise_signal(number)
        real(*arguments)

    monkeypatch.setattr("ucfh.cli.learn.print_summary", interrupted)
    policy = tmp_path / "policy.csv"
    with pytest.raises(SystemExit) as caught:
        main([*ASKED, "--policy", str(policy)])
    assert caught.value.code == code
    assert policy.exists()
    assert capfd.readouterr().err == "ucfh: interrupted\n"


@both
def test_a_signal_amid_compilation(
    number: int, code: int, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    """Nothing was run yet: nothing waits until all is compiled."""

    def interrupted(*_: Any) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr(_Cache, "load_overload", interrupted)

    def double(x: float) -> float:
        return 2 * x

    with interrupts.listening(), pytest.raises(Left) as caught:
        njit(cache=True)(double)(1.0)
    assert left(caught) == code
    assert capfd.readouterr().err == "ucfh: interrupted\n"


def test_verify_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A life that was cut short is none: it ends there, and is not the next one's turn."""
    lives = []

    def interrupted(*arguments: Any, **more: Any) -> Run:
        lives.append(1)
        run = simulate(*arguments, **more)
        run.interrupted = True
        return run

    monkeypatch.setattr("ucfh.theory.verification.simulate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        verification.verify(make("chain:n=3,horizon=3"), 0.5, 0.1, runs=3)
    assert len(lives) == 1


LOADING = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = {arguments!r}
from ucfh.__main__ import main
main()
"""


@pytest.mark.slow
@both
@pytest.mark.parametrize(
    ("module", "arguments"),
    [("typer", ["--help"]), ("numpy", ["problems", "chain"]), ("numba", ["problems", "chain"])],
)
def test_a_signal_while_it_loads(number: int, code: int, module: str, arguments: list[str]) -> None:
    done = python(LOADING.format(module=module, number=int(number), arguments=arguments))
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "ucfh: interrupted\n")


CLEANING = """
import atexit, os, signal, sys

def interrupt():
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(os.getpid(), number)

atexit.register(interrupt)
sys.argv[1:] = ["--version"]
from ucfh.__main__ import main
main()
"""


def test_a_signal_when_all_is_done() -> None:
    done = python(CLEANING)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ucfh ")


ENDING = """
import atexit, os, signal, sys
import joblib
from ucfh._utils import parallel

atexit.register(print, "cleaned up")
parallel.end_workers = lambda: os.kill(os.getpid(), {number})
sys.argv[1:] = ["--version"]
from ucfh.__main__ import main
main()
"""


@pytest.mark.slow
@both
def test_a_signal_while_workers_end(number: int, code: int) -> None:
    """Whatever else there is to clean up is: what joblib leaves is complained of by another."""
    done = python(ENDING.format(number=int(number)))
    assert (done.returncode, done.stderr) == (code, "ucfh: interrupted\n")
    assert done.stdout.endswith("\ncleaned up\n")


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
