"""Archives of arrays (.npz), of models and of runs: their size is known before they are read."""

from __future__ import annotations

import tracemalloc
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.errors import refusal as fault
from ucfh import UCFH, make, simulate
from ucfh._utils import memory
from ucfh.io import read_intervals, read_model, write_model
from ucfh.simulation.result import Run

READERS: list[Callable[[Path], object]] = [read_model, read_intervals, Run.load]


@pytest.fixture(params=READERS, ids=["model", "intervals", "run"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Path]:
    """A reader, and a file that it reads."""
    mdp = make("chain:n=3")
    path = tmp_path / "file.npz"
    if request.param == Run.load:
        simulate(mdp, UCFH(mdp.problem, 0.3, 0.1), 10).save(path)
    else:
        write_model(mdp, path)
    request.param(path)
    return request.param, path


def test_compressed_arrays_are_rejected_before_they_are_unpacked(case: tuple[Any, Path]) -> None:
    reader, path = case
    arrays = dict(np.load(path))
    np.savez_compressed(path, **arrays, much=np.zeros(2_500_000))
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    message = fault(reader, path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert message == (
        f"{path}: its arrays are compressed, so their size cannot be checked: write them with "
        "np.savez(new, **np.load(old)), not np.savez_compressed"
    )
    assert most < 2_000_000


def npy(header: str, data: bytes) -> bytes:
    """An array in NumPy's format 1.0, with whatever header."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    ("shape", "kind"),
    [("(10000000000,)", "<f8"), ("(4, 10000000000)", "<f8"), ("(1,)", "<f8"), ("(9,)", "<U0")],
)
def test_shapes_that_are_not_those_of_the_data_are_rejected(
    shape: str, kind: str, case: tuple[Any, Path]
) -> None:
    reader, path = case
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("odd.npy", npy(header, bytes(16)))
    assert fault(reader, path).startswith(f"{path}: ")
    assert "its array odd is cut short" in fault(reader, path)


def test_a_directory_that_lists_more_than_there_is_is_rejected(case: tuple[Any, Path]) -> None:
    """Many names for one piece of the file would each be read."""
    reader, path = case
    out = BytesIO()
    np.save(out, np.zeros(1000))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("a0.npy", out.getvalue())
        one = archive.getinfo("a0.npy")
        for k in range(1, 100):
            info = zipfile.ZipInfo(f"a{k}.npy")
            for name in ("header_offset", "CRC", "file_size", "compress_size"):
                setattr(info, name, getattr(one, name))
            archive.filelist.append(info)
            archive.NameToInfo[info.filename] = info
    assert path.stat().st_size < 100 * 8000
    assert "lists more than it holds" in fault(reader, path)


def test_files_that_do_not_fit_into_memory_are_rejected(
    case: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, path = case
    monkeypatch.setattr(memory, "LITTLE", 0)
    monkeypatch.setattr(memory, "free_memory", lambda: 1000)
    assert fault(reader, path).startswith(f"{path}: its content needs about ")


def test_one_array_alone_is_not_an_archive(case: tuple[Any, Path]) -> None:
    reader, path = case
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    assert fault(reader, path).startswith(f"{path}: damaged, or not an .npz file")
