"""Ctrl-C and SIGTERM: one line, the exit code of shells, and completed work is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.command_line import run
from ucfh import _kernels, simulate
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.problems import make
from ucfh.simulation import verification
from ucfh.simulation.environment import Simulator
from ucfh.simulation.result import Run

Capture = pytest.CaptureFixture[str]
ASKED = ["learn", "chain:n=4", "--epsilon", "0.2"]
both = pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])


def interrupt_call(
    patch: pytest.MonkeyPatch, owner: Any, name: str, number: int = signal.SIGINT, call: int = 1
) -> None:
    """Send a signal at the end of a call of a method."""
    real, calls = getattr(owner, name), []

    def interrupted(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        found = real(*arguments, **more)
        if len(calls) == call:
            signal.raise_signal(number)
        return found

    patch.setattr(owner, name, interrupted)


@both
@pytest.mark.parametrize(("owner", "name"), [(Simulator, "walk"), (CertifiedUCFH, "observe")])
def test_learn_keeps_completed_phases(
    owner: type, name: str, number: int, code: int, tmp_path: Path, capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    save, whole, rest = (str(tmp_path / f"{x}.npz") for x in ("part", "whole", "rest"))
    assert run(capsys, *ASKED, "--save", whole)[0] == 0
    with monkeypatch.context() as patch:
        interrupt_call(patch, owner, name, number, call=5)
        found, out, err = run(capsys, *ASKED, "--save", save)
    said = f"interrupted; this is what was run until then; continue with --resume {save}"
    assert (found, err) == (code, f"ucfh: {said}\n")
    assert "(interrupted)" in out
    part, all_of = Run.load(save), Run.load(whole)
    assert 0 < part.episodes < all_of.episodes
    assert run(capsys, *ASKED, "--resume", save, "--save", rest)[0] == 0
    assert Run.load(rest).episodes == all_of.episodes


@both
def test_a_file_is_written_whole_or_not_at_all(
    number: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    path = tmp_path / "model.json"
    interrupt_call(monkeypatch, Path, "write_bytes", number)
    assert run(capsys, "problems", "chain:n=3", "--write", str(path)) == (
        code, "", "ucfh: interrupted\n"
    )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_signal_handlers_are_restored(capsys: Capture) -> None:
    before = [signal.getsignal(number) for number in signal.valid_signals()]
    assert run(capsys, "--version")[0] == 0
    assert [signal.getsignal(number) for number in signal.valid_signals()] == before


def test_verify_does_not_check_part_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def interrupted(*arguments: Any, **more: Any) -> Run:
        runs.append(1)
        run = simulate(*arguments, **more)
        run.interrupted = True
        return run

    monkeypatch.setattr("ucfh.simulation.verification.simulate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        verification.verify(make("chain:n=3,horizon=3"), 0.5, 0.1, runs=3)
    assert len(runs) == 1


@pytest.mark.slow
@both
def test_compare_keeps_completed_runs(number: int, code: int, tmp_path: Path) -> None:
    """Ctrl-C reaches all processes of a terminal; SIGTERM the first one."""
    arguments = "compare chain:n=4 --agents uniform,own:Slow --episodes 1000 --seeds 40 --workers 2"
    (tmp_path / "own.py").write_text(
        "import time\nfrom multiprocessing import current_process\nfrom pathlib import Path\n"
        "from ucfh.algorithms.baselines import Uniform\n\n"
        "class Slow(Uniform):\n"
        "    def follow(self, *arguments):\n"
        "        if current_process().name != 'MainProcess':\n"
        "            Path(f'{time.time_ns()}.run').touch()\n"
        "        time.sleep(0.3)\n"
        "        return super().follow(*arguments)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "ucfh", *arguments.split()], cwd=tmp_path, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        while len(list(tmp_path.glob("*.run"))) < 6:
            assert process.poll() is None
            time.sleep(0.05)
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert err.startswith("ucfh: interrupted; this is what was run until then: ")
    assert err.count("\n") == 1
    assert "uniform" in out


@both
def test_a_signal_during_compilation_waits_for_its_end(
    number: int, code: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compilers run finalizers, in which Python prints an exception and goes on."""
    done: list[str] = []

    def compile_kernel(*_: Any, **__: Any) -> None:
        with _kernels.uninterrupted():
            signal.raise_signal(number)
            done.append("compiled")
        done.append("went on")

    monkeypatch.setattr("ucfh.simulation.runner.simulate", compile_kernel)
    exit_code, out, err = run(capsys, *ASKED)
    assert (exit_code, done, out) == (code, ["compiled"], "")
    assert err.splitlines() == ["ucfh: interrupted"]
