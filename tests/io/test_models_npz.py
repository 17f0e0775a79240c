"""Models in NumPy's format: large ones, and that damaged or foreign arrays are an error."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.errors import refusal as fault
from support.model_files import (
    FUZZ,
    GO,
    assert_same,
    example,
    mutate,
    read,
    read_or_refuse,
    segmented_example,
)
from ucfh import MDP
from ucfh.io import read_model, write_model


@pytest.mark.verify
@pytest.mark.slow
def test_large_sparse_models(tmp_path: Path) -> None:
    """A million pairs, and rewards on (s, a, s') where S x S would not fit into memory."""
    S, A, C = 250_000, 4, 2
    rng = np.random.default_rng(2)
    p = rng.random((S * A, C))
    p /= p.sum(1, keepdims=True)
    indices = (np.repeat(np.arange(S), A)[:, None] + rng.integers(1, 9, (S * A, 1)) * [1, 2]) % S
    mdp = MDP((np.arange(S * A + 1) * C, indices.ravel(), p.ravel()), rng.random((S, A)), 10)
    path = tmp_path / "large.npz"
    begin = time.perf_counter()
    write_model(mdp, path)
    assert_same(read_model(path), mdp)
    assert time.perf_counter() - begin < 20
    arrays = dict(np.load(path))
    arrays["reward"] /= 2
    arrays["reward_next"] = rng.random((1, len(arrays["p"]))) / 2
    np.savez(path, **arrays)
    mdp = read_model(path)
    write_model(mdp, path, force=True)
    assert_same(read_model(path), mdp)
    assert mdp.rewards.successor is not None


@pytest.mark.slow
def test_flipped_bits_of_npz(tmp_path: Path) -> None:
    """A changed bit is noticed, or does not matter (the archive's dates, say)."""
    path = tmp_path / "whole.npz"
    mdp = read(segmented_example(), tmp_path)
    write_model(mdp, path)
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(3)
    for i in range(0, len(content), 3):
        changed = content.copy()
        changed[i] ^= 1 << int(rng.integers(8))
        found = read_or_refuse(bytes(changed), tmp_path, "changed.npz")
        if found is not None:
            assert_same(found, mdp)


NPZ_ERRORS: list[tuple[str, Any, str]] = [
    ("header", np.frombuffer(b"{}", np.uint8), 'header: its "format" is missing'),
    ("header", np.arange(3), '"header" is int64 of shape (3,): it must be uint8 of shape (any)'),
    ("p", None, '"p" is missing'),
    ("q", np.zeros(1), "unknown key 'q'"),
    ("p", np.zeros(3), '"p" is float64 of shape (3,): it must be float64 of shape (8)'),
    ("p", np.zeros(8, np.float32), '"p" is float32 of shape (8,)'),
    ("p", np.array([1, 0.2, 0.7, 1, 0.5, 0.5, 1, 1]), f"the probabilities after {GO} sum to 0.9"),
    ("p", np.array([1, 0.2, 0.8, 1, 0.5, 0.5, 0, 1]), "(state 'done', action 'stay') sum to 0"),
    ("p", np.array([1, 0.2, 0.8, 1, 0.5, 0.5, 1 - 1e-10, 1]), '"p" must be 1 where the state is'),
    ("p", np.array([1, 0.2, 0.8, 1, 0.5, 0.5, 1, np.nan]), "of state 'home' at the start is nan"),
    ("initial", np.array([0, 0, 0.0]), "initial sums to 0"),
    ("initial", np.array([np.nan, 0, 0]), "initial[0] = nan"),
    ("initial", np.array([0, 1, 0.0]), 'the last row of "indices" disagrees with "initial"'),
    ("first", np.array([0, 2, 2, 5]), '"first" must have 4 numbers, each larger than the one'),
    ("first", np.array([0, 2, 4]), '"first" must rise from 0 to 5'),
    ("action", np.array([0, 1, 0, 3, 0]), '"action" must be between 0 and 2'),
    ("action", np.array([1, 0, 0, 2, 0]), '"action" is out of order'),
    ("action", np.array([0, 1, 0, 2, 1]), "a terminal state must have one pair, action 0"),
    ("indptr", np.arange(7), '"indptr" must rise from 0 to'),
    ("indptr", np.array([0, 1, 3, 4, 6, 8]), '"indptr" describes 5 rows: there must be 5, or 3'),
    ("indptr", np.array([0, 1, 4, 3, 6, 7, 8]), '"indptr" must rise from 0 to 8'),
    ("indptr", np.array([0, 1, 1, 4, 6, 7, 8]), f"there is no successor after {GO}: give one"),
    ("indices", np.array([0, 1, 0, 1, 1, 2, 2, 0], np.int32), '"indices" is out of order'),
    ("indices", np.array([0, 0, 9, 1, 1, 2, 2, 0], np.int32), f"successor 9 after {GO} is not a"),
    ("reward", np.zeros((2, 5)), '"reward" has 2 lines: it must have 1 or 3'),
    ("reward", np.full((1, 5), 0.5), "must be 0 where the state is terminal"),
    (
        "reward",
        np.full((1, 5), -0.5) * [1, 1, 1, 1, 0],
        "the reward of (state 'home', action 'stay')",
    ),
    ("reward_next", np.full((1, 8), 0.5), "must be 0 where the state is terminal"),
    (
        "reward_next",
        np.array([[0.95, 0, 0, 0, 0, 0, 0, 0]]),
        "the reward in state 'home' after (state 'home', action 'stay'), t=0 is 1.05",
    ),
    (
        "reward_next",
        np.array([[-0.05, 0, 0, 0, 0, 0, 0, 0]]),
        "the reward in state 'home' after (state 'home', action 'stay'), t=0 is -0.05",
    ),
    (
        "reward_next",
        np.array([[0, np.nan, 0, 0, 0, 0, 0, 0]]),
        f"the reward in state 'home' after {GO}, t=0 is nan: rewards must be numbers in [0, 1]",
    ),
]


@pytest.fixture
def arrays(tmp_path: Path) -> dict[str, Any]:
    write_model(read(example(), tmp_path), tmp_path / "whole.npz")
    return dict(np.load(tmp_path / "whole.npz"))


@pytest.mark.parametrize(("name", "value", "message"), NPZ_ERRORS)
def test_errors_of_arrays_are_named(
    name: str, value: Any, message: str, tmp_path: Path, arrays: dict[str, Any]
) -> None:
    if value is None:
        del arrays[name]
    else:
        arrays[name] = value
    path = tmp_path / "model.npz"
    np.savez(path, **arrays)
    assert message in fault(read_model, path)


@pytest.mark.slow
@FUZZ
@given(data=st.data(), segmented=st.booleans())
def test_mutations_of_npz(data: st.DataObject, segmented: bool, tmp_path: Path) -> None:
    whole = tmp_path / "whole.npz"
    write_model(read(segmented_example() if segmented else example(), tmp_path), whole, force=True)
    arrays = dict(np.load(whole))
    name = data.draw(st.sampled_from([*arrays]))
    array = arrays[name]
    what = data.draw(st.sampled_from(["entry", "entry", "shape", "type", "remove", "swap"]))
    if name == "header":
        document = json.loads(array.tobytes())
        mutate(document, data)
        arrays[name] = np.frombuffer(json.dumps(document).encode(), np.uint8)
    elif what == "entry" and array.size:
        values = st.integers(-1, 9) if array.dtype.kind == "i" else st.floats()
        array.flat[data.draw(st.integers(0, array.size - 1))] = data.draw(values)
    elif what == "shape":
        arrays[name] = data.draw(st.sampled_from([array[:-1], array[None], array[:0], array.sum()]))
    elif what == "type":
        arrays[name] = array.astype(data.draw(st.sampled_from(["U4", ">f8", "i2", "c16", "?"])))
    elif what == "swap":
        arrays[name] = arrays[data.draw(st.sampled_from([*arrays]))]
    else:
        del arrays[name]
    changed = tmp_path / "changed.npz"
    np.savez(changed, **arrays)
    mdp = read_or_refuse(changed.read_bytes(), tmp_path, "changed.npz")
    if mdp is not None and mdp.horizon < 10:
        assert 0 <= mdp.at_start(mdp.optimal().values) <= mdp.horizon + 1e-9


def test_no_pickles(tmp_path: Path, arrays: dict[str, Any]) -> None:
    arrays["header"] = np.array([{"format": "ucfh-model"}])
    path = tmp_path / "model.npz"
    np.savez(path, **arrays)
    assert fault(read_model, path).endswith("damaged, or not an .npz file: write it again")
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    assert "damaged, or not an .npz file" in fault(read_model, path)
