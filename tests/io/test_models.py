"""Model files: exact round trips; files are neither overwritten nor half-written."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.errors import refusal as fault
from support.model_files import FUZZ, assert_same, blocks, example, mdps, read, read_or_refuse
from ucfh import MDP
from ucfh._utils import files
from ucfh.io import read_model, write_model


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["json", "npz"])
@FUZZ
@given(mdp=mdps())
def test_round_trip(mdp: MDP, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"model.{ending}"
    write_model(mdp, path, force=True)
    assert_same(read_model(path), mdp, lines=ending == "npz" or mdp.table.segments == 1)
    content = path.read_bytes()
    write_model(read_model(path), path, force=True)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_round_trip_keeps_rounding_errors(ending: str, tmp_path: Path) -> None:
    """Rows that are off by their rounding error after division are not divided once more."""
    rng = np.random.default_rng(1)
    off = 0
    for S in (2, 7, 9, 64, 300):
        p = rng.dirichlet(np.full(S, 0.5), (S, 1))
        mdp = MDP(p, np.zeros((S, 1)), 3, p[0, 0])
        again = MDP(mdp.table.dense(mdp.p), np.zeros((S, 1)), 3, mdp.initial)
        assert_same(again, mdp)
        off += int((np.add.reduceat(mdp.p, mdp.table.indptr[:-1]) != 1).sum())
        path = tmp_path / f"{S}.{ending}"
        write_model(mdp, path)
        assert_same(read_model(path), mdp)
    assert off  # or the test tests nothing


@pytest.mark.parametrize("ending", ["json", "npz"])
@pytest.mark.parametrize("units", [-9, -8, -3, 0, 3, 8, 9, 10, 100])
def test_round_trip_of_a_start_in_few_of_many_states(
    ending: str, units: int, tmp_path: Path
) -> None:
    """The rounding tolerance depends on the number of start states, not on S."""
    S = 100
    initial = np.zeros(S)
    initial[[3, 70]] = 0.5, 0.5 + units * 2.0**-52
    mdp = MDP(np.eye(S)[:, None], np.zeros((S, 1)), 2, initial)
    np.testing.assert_array_equal(mdp.p[-2:], mdp.initial[[3, 70]])
    path = tmp_path / f"model.{ending}"
    write_model(mdp, path)
    assert_same(read_model(path), mdp)


def test_documented_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("commute.json").write_text(blocks("json")[0])
    (code,) = blocks("python")
    exec(code, {})
    assert capsys.readouterr().out.split() == re.findall(r"# ([\d.]+)\n", code)
    assert Path("best.csv").read_text() == blocks("csv")[0]
    from ucfh.policies import write_policy

    mdp = read_model("commute.json")
    write_policy(mdp.optimal().policy, mdp, "best.json")
    assert Path("best.json").read_text() == blocks("json")[2]


@pytest.mark.parametrize("ending", ["json", "npz"])
@FUZZ
@given(content=st.binary(max_size=300))
def test_random_bytes(content: bytes, ending: str, tmp_path: Path) -> None:
    assert read_or_refuse(content, tmp_path, f"model.{ending}") is None


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_truncation_at_every_length(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"whole.{ending}"
    write_model(read(example(), tmp_path), path)
    length = len(path.read_bytes().rstrip(b"\n"))
    os.truncate(path, length)
    read_model(path)
    for shorter in reversed(range(length)):
        os.truncate(path, shorter)
        assert str(path) in fault(read_model, path)


def test_endings(tmp_path: Path) -> None:
    mdp = read(example(), tmp_path)
    message = "unknown ending '.jsn': did you mean '.json'? (known: .json, .npz)"
    assert fault(write_model, mdp, "a.jsn") == f"a.jsn: {message}"
    assert fault(read_model, "a.jsn") == f"a.jsn: {message}"
    assert "unknown ending ''" in fault(read_model, "model")
    write_model(mdp, tmp_path / "LOUD.JSON")
    assert_same(read_model(tmp_path / "LOUD.JSON"), mdp)


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_files_are_not_overwritten_without_force(ending: str, tmp_path: Path) -> None:
    mdp = read(example(), tmp_path)
    path = tmp_path / f"out.{ending}"
    path.write_text("mine")
    message = fault(write_model, mdp, path)
    assert message == f"{path} exists: pass --force (force=True) to overwrite"
    assert path.read_text() == "mine"
    write_model(mdp, path, force=True)
    assert_same(read_model(path), mdp)


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_nothing_is_left_half_written(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mdp = read(example(), tmp_path)
    path = tmp_path / "out" / f"out.{ending}"
    path.parent.mkdir()
    path.write_text("mine")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    message = fault(write_model, mdp, path, True)
    assert message == f"cannot write {path}: No space left on device"

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_model(mdp, path, force=True)
    assert os.listdir(path.parent) == [path.name]
    assert path.read_text() == "mine"


def test_places_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = read(example(), tmp_path)
    path = tmp_path / "no" / "out.json"
    message = fault(write_model, mdp, path)
    assert message == f"cannot write {path}: the directory {path.parent} does not exist"
    path = tmp_path / "dir.json"
    path.mkdir()
    for force in (False, True):
        message = fault(write_model, mdp, path, force)
        assert message == f"{path} is not a file: pass the name of a file"
    assert "cannot write" in fault(write_model, mdp, tmp_path / f"{'x' * 300}.json")
    assert "cannot write" in fault(write_model, mdp, f"{tmp_path}/\0.json")
    surrogate = MDP([[[1]]], [[0]], 1, state_names=["\ud800"])
    message = fault(write_model, surrogate, tmp_path / "out.json")
    assert "UTF-8 cannot hold '\\ud800'" in message
    monkeypatch.setattr("os.access", lambda *_: False)
    message = fault(write_model, mdp, tmp_path / "out.json")
    assert message.endswith(f"the directory {tmp_path} is not writable")
    assert sorted(os.listdir(tmp_path)) == ["dir.json", "model.json"]


def test_places_that_cannot_be_read(tmp_path: Path) -> None:
    for ending in ("json", "npz"):
        path = tmp_path / f"dir.{ending}"
        assert fault(read_model, path) == f"{path} does not exist: check the name"
        path.mkdir()
        assert "Is a directory" in fault(read_model, path)
        assert "cannot read" in fault(read_model, f"\0.{ending}")


def test_links_and_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    link.symlink_to(target)
    model = read(example(), tmp_path)
    assert "exists" in fault(write_model, model, link)  # what it points to does not
    write_model(model, link, force=True)
    assert link.is_symlink()
    assert_same(read_model(target), read_model(link))
    (tmp_path / "plain").touch()
    modes = {stat.S_IMODE(p.stat().st_mode) for p in (target, tmp_path / "plain")}
    assert len(modes) == 1


def test_figures_are_written_the_same_way(tmp_path: Path) -> None:
    path = tmp_path / "figure.png"
    with files.replacing(path) as temporary:
        assert temporary.suffix == ".png"
        assert temporary.parent == tmp_path
        temporary.write_bytes(b"figure")
    assert path.read_bytes() == b"figure"
    with pytest.raises(TypeError), files.replacing(path, force=True) as temporary:
        temporary.write_bytes("half")  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == ["figure.png"]
    assert path.read_bytes() == b"figure"
    assert "exists: pass --force" in fault(files.refuse_existing, path)
    files.refuse_existing(path, force=True)
