"""Figures: no display needed, and a failing figure does not affect other files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ucfh.cli.main import main


@pytest.mark.slow
def test_figures_need_no_display(tmp_path: Path) -> None:
    """Nor any place to show them that exists."""
    code = (
        "from ucfh import UCFH, make, simulate\n"
        "mdp = make('chain:n=2')\n"
        "run = simulate(mdp, UCFH(mdp.problem, 0.9, 0.9), 1)\n"
        f"run.plot({str(tmp_path / 'run.png')!r})"
    )
    env = {**os.environ, "MPLBACKEND": "nosuch"}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_figures_do_not_use_pyplot() -> None:
    code = (
        "import matplotlib; matplotlib.use('svg')\n"
        "from ucfh._utils.plotting import new_figure\n"
        "new_figure(3, 2).subplots()\n"
        "from matplotlib import pyplot\n"
        "print(matplotlib.get_backend(), pyplot.get_fignums())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "svg []"


def test_a_figure_that_fails_keeps_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("ucfh.simulation.result.plot_run", fail)
    names = {"--plot": "f.png", "--policy": "p.csv", "--save": "r.npz"}
    files = [x for option, name in names.items() for x in (option, str(tmp_path / name))]
    with pytest.raises(RuntimeError):
        main(["learn", "chain:n=2", "--episodes", "3", *files])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.csv", "r.npz"]
