"""What the compiler of kernels does differently from numba's: the same results as Python's."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core.datamodel.models import TupleModel
from numba.core.datamodel.registry import default_manager
from numba.core.errors import TypingError
from numba.extending import overload

import ucfh
from ucfh import compilation
from ucfh._kernels import compiling, emitting, lowering
from ucfh._kernels.compiling import inner, njit, uncounted

RECORD = np.dtype([("x", np.float64), ("n", np.int32), ("sure", np.bool_)])
DTYPES = [np.float64, np.int64, np.int32, np.uint8, np.bool_]
SHAPES = [(7,), (1,), (3, 4), (1, 5), (2, 3, 4), (3, 1, 2)]
COUNTED: dict[str, Any] = {"nogil": True}
KINDS = [{**uncounted, "cache": False}, COUNTED]


def array(shape: tuple[int, ...], dtype: Any) -> Any:
    rng = np.random.default_rng(0)
    return rng.integers(0, 2 if dtype is np.bool_ else 100, shape).astype(dtype)


def at(indices: tuple[int, ...]) -> str:
    return ", ".join("ijk"[: len(indices)])


def made(text: str, kind: dict[str, Any]) -> Any:
    """A function of this text, compiled."""
    space: dict[str, Any] = {"np": np}
    exec(text, space)
    return njit(**kind)(space["f"])


def test_this_version_of_numba_is_tested() -> None:
    """Else kernels are compiled by numba's own means, and nothing here says anything."""
    assert compiling.tested
    kernel = made("def f(x):\n    return x", COUNTED)
    assert kernel._compiler.pipeline_class is lowering.KernelCompiler


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("index", [np.int64, np.int32, np.uint64, np.uint8])
def test_items(shape: tuple[int, ...], index: Any, kind: dict[str, Any]) -> None:
    """All of them, from either end if the type of the index allows it."""
    names = at(shape)
    get = made(f"def f(a, {names}):\n    return a[{names}]", kind)
    put = made(f"def f(a, {names}, x):\n    a[{names}] = x", kind)
    signed = np.issubdtype(index, np.signedinteger)
    for dtype in DTYPES[:: 1 if index is np.int64 else 3]:
        a = array(shape, dtype)
        for places in np.ndindex(*(n * (1 + signed) for n in shape)):
            here = tuple(index(x - n if signed else x) for x, n in zip(places, shape, strict=True))
            assert get(a, *here) == a[here]
            changed, expected = a.copy(), a.copy()
            put(changed, *here, 1)
            expected[here] = 1
            np.testing.assert_array_equal(changed, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_items_of_records_and_of_what_is_only_read(kind: dict[str, Any]) -> None:
    get = made("def f(a, i):\n    return a[i].x + a[i].n + a[i].sure", kind)
    a = np.zeros(3, RECORD)
    a["x"], a["n"], a["sure"] = [0.5, 1.5, 2.5], [1, 2, 3], [True, False, True]
    assert [get(a, i) for i in range(-3, 3)] == [2.5, 3.5, 6.5] * 2
    a.flags.writeable = False
    assert get(a, 1) == 3.5
    put = made("def f(a, i):\n    a[i] = 1.0", kind)
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    with pytest.raises(TypingError):
        put(fixed, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", ["F", "strided"])
def test_items_of_arrays_that_are_not_in_order(layout: str, kind: dict[str, Any]) -> None:
    get = made("def f(a, i, j):\n    return a[i, j]", kind)
    a = array((4, 6), np.float64)
    a = np.asfortranarray(a) if layout == "F" else a[::2, 1::2]
    for i, j in np.ndindex(*a.shape):
        assert get(a, i, j) == a[i, j] == get(a, i - a.shape[0], j)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "given"), [((3, 4), 1), ((2, 3, 4), 1), ((2, 3, 4), 2)])
def test_what_the_first_indices_leave(
    shape: tuple[int, ...], given: int, kind: dict[str, Any]
) -> None:
    names = at(shape[:given])
    look = made(
        f"def f(a, {names}):\n    b = a[{names}]\n"
        "    return b.shape, b.strides, b.size, b.itemsize, b.sum()",
        COUNTED,
    )
    put = made(f"def f(a, {names}):\n    b = a[{names}]\n    b[...] = 7", kind)
    a = array(shape, np.float64)
    for here in np.ndindex(*shape[:given]):
        b = a[here]
        assert look(a, *here) == (b.shape, b.strides, b.size, b.itemsize, b.sum())
        back = tuple(x - n for x, n in zip(here, shape, strict=False))
        assert look(a, *back) == look(a, *here)
        changed, expected = a.copy(), a.copy()
        put(changed, *here)
        expected[here] = 7
        np.testing.assert_array_equal(changed, expected)


def test_a_part_keeps_what_it_is_a_part_of() -> None:
    """Where references are counted: of an array made there, and of one that is given."""
    new = made("def f(n):\n    a = np.zeros((n, 3))\n    a[1, 2] = 5.0\n    return a[1]", COUNTED)
    parts = [new(1000) for _ in range(20)]
    gc.collect()
    [np.ones(3000) for _ in range(20)]  # where those would be if they were gone
    assert all(part.tolist() == [0.0, 0.0, 5.0] for part in parts)
    given = made("def f(a):\n    return a[-1]", COUNTED)
    a = array((4, 3), np.float64)
    before = sys.getrefcount(a)
    part = given(a)
    assert np.shares_memory(part, a)
    assert part.tolist() == a[-1].tolist()
    del part
    gc.collect()
    assert sys.getrefcount(a) == before


class Inside(NamedTuple):
    """A group of one type."""

    a: Any
    b: Any


class Around(NamedTuple):
    """A group of several types, with another in it."""

    flat: Any
    number: Any
    table: Any
    other: Any
    cube: Any
    inside: Any
    records: Any


for group in (Inside, Around):
    group.__module__ = "ucfh._kernels.groups"


def around(flipped: bool) -> Around:
    table = array((3, 4), np.int32)
    return Around(
        flat=array((5,), np.float64),
        number=3,
        table=table,
        other=np.asfortranarray(table) if flipped else table[:, ::2],
        cube=array((2, 3, 4), np.bool_),
        inside=Inside(array((6,), np.float64), array((2,), np.float64)),
        records=np.array([(1.5, 2, True), (2.5, 3, False)], RECORD),
    )


TEXT = """
def look(g, i):
    h = g.inside
    sizes = g.flat.size + g.table.size + g.other.size + g.cube.size + h.a.size + h.b.size
    steps = g.flat.strides[0] + g.table.strides[0] + g.table.strides[1] + g.other.strides[0]
    steps += g.cube.strides[0] + g.cube.strides[1] + g.cube.strides[2] + g.records.itemsize
    items = g.flat[i] + g.number * g.table[i, 2] + g.other[i, -1] + g.cube[1, i, -1]
    items += h.a[-1] - h.b[i - 1] + g.records[-1]['x'] + g.records[0]['n']
    part = g.table[-1]
    return sizes, steps, items + part[i] + g.flat[1:][i] + len(g.records)
def f(g, i):
    g.flat[i] = 50.0
    sizes, steps, items = look(g, i)
    h, j = g.inside, i - 1
    h.a[j] = items
    return sizes, steps, items + look(g, j)[2]
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flipped", [False, True])
def test_groups(kind: dict[str, Any], flipped: bool) -> None:
    """As in Python: passed from there, and from one function to another."""
    plain: dict[str, Any] = {}
    exec(TEXT, plain)
    compiled = dict(plain)
    compiled["look"] = njit(**kind, **inner)(plain["look"])
    run: Any = type(plain["f"])(plain["f"].__code__, compiled)
    run = njit(**kind)(run)
    for i in (0, 1):
        ours, expected = around(flipped), around(flipped)
        held = sys.getrefcount(ours.flat)
        found = run(ours, i)
        kept = sys.getrefcount(ours.flat)
        assert (found, kept) == (plain["f"](expected, i), held)
        np.testing.assert_array_equal(ours.flat, expected.flat)
        np.testing.assert_array_equal(ours.inside.a, expected.inside.a)


def test_named_tuples_of_others_are_passed_as_ever() -> None:
    """What somebody else has compiled, and kept, goes on to be called as it was compiled."""

    class Theirs(NamedTuple):
        a: Any
        n: int

    typeof: Any = numba.typeof
    theirs, ours = typeof(Theirs(np.zeros(3), 1)), typeof(around(False))
    assert type(default_manager[theirs]) is TupleModel
    assert type(default_manager[ours]) is lowering._Group


NUMBERS = [np.bool_(1), np.int64(-7), np.int32(3), np.uint64(5), np.float64(-2.5), np.float32(0.5)]
OPERATORS = ["+", "-", "*", "/", "//", "%", "<", "<=", "==", "!=", ">"]


def test_operators() -> None:
    """On all pairs of types, twice in a function and with a constant: what numba makes of them."""
    cases = [f"{x} {symbol} {y}" for symbol in OPERATORS for x, y in ("xy", "xy", "x2", "3y")]
    text = f"def f(x, y):\n    return {', '.join(cases)}"
    space: dict[str, Any] = {}
    exec(text, space)
    ours = made(text, {**KINDS[0], "error_model": "numpy"})
    theirs: Any = numba.njit(error_model="numpy")(space["f"])
    for x in NUMBERS:
        for y in NUMBERS[1:] if x is NUMBERS[0] else NUMBERS:  # bools have no -
            assert ours(x, y) == theirs(x, y)
    assert [x.return_type for x in ours.nopython_signatures] == [
        x.return_type for x in theirs.nopython_signatures
    ]


def ratio(x: float, y: float) -> float:
    """What kernels call; how it is compiled depends on them."""
    return x / y


overload(ratio)(lambda x, y: lambda x, y: x / y)  # noqa: ARG005


def test_what_a_kernel_calls_is_compiled_as_it_is() -> None:
    """Also where one that it calls is compiled otherwise: each has its own, not the other's."""
    within: Any = njit(**inner, error_model="numpy")(lambda x, y: ratio(x, y))
    kernel: Any = njit(**COUNTED)(lambda x, y: (ratio(x, y), within(x, y), ratio(x, y)))
    assert kernel(1.0, 2.0) == (0.5, 0.5, 0.5)
    with pytest.raises(ZeroDivisionError):
        kernel(1.0, 0.0)
    eager: Any = njit(**inner, fastmath={"nnan"})(lambda x, a: x in a)
    exact: Any = njit(**inner)(lambda x, a: x in a)
    both: Any = njit(**COUNTED)(lambda x, a: (eager(x, a), exact(x, a)))
    assert not both(np.nan, np.array([np.nan, 1.0]))[1]


def test_powers_and_the_rest() -> None:
    """Where a constant is more than a number, or code depends on the function around it."""
    text = "def f(x, n):\n    return x**2, x**-1, x**n, max(x, 1.0), min(n, 3), abs(x), -x, int(x)"
    space: dict[str, Any] = {}
    exec(text, space)
    ours = made(text, KINDS[0])
    for x in (-1.5, 0.25, 7.0):
        for n in (2, 5):
            assert ours(x, n) == pytest.approx(space["f"](x, n))


def test_numba_is_as_it_was() -> None:
    """After a kernel was compiled, and after one could not be."""
    before = [vars(owner)[name] for owner, name, _ in emitting.SHORTER]
    assert all(x is not ours for x, (*_, ours) in zip(before, emitting.SHORTER, strict=True))
    assert made("def f(x):\n    return abs(x)", KINDS[0])(-1.0) == 1.0
    assert [vars(owner)[name] for owner, name, _ in emitting.SHORTER] == before
    with pytest.raises(TypingError):
        made("def f(x):\n    return x.nothing", KINDS[0])(1.0)
    assert [vars(owner)[name] for owner, name, _ in emitting.SHORTER] == before
    assert gc.isenabled()


def test_files_without_kernels_are_known() -> None:
    """Else all kernels would be compiled in one process, as they all import from them."""
    folder = Path(ucfh.__file__).parent / "_kernels"
    without = {x.stem for x in folder.glob("*.py") if "@njit" not in x.read_text()}
    assert without - {"__init__"} == compilation.SERVING
