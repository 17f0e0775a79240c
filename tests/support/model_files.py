"""Models in files, for tests: examples, faults, random models and random damage."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.settings import DOCS, many
from ucfh import MDP, InputError, Problem
from ucfh.interval_mdp import IntervalMDP
from ucfh.io import read_model
from ucfh.transitions import Rewards

FORMATS = DOCS / "howto" / "formats.md"
GO = "(state 'home', action 'go')"  # a pair of the example, as messages call it
FUZZ = settings(
    deadline=None,
    max_examples=many(50, 100),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", FORMATS.read_text(), re.DOTALL)


def example() -> Any:
    return json.loads(blocks("json")[0])


def segmented_example() -> Any:
    """Two steps, transitions that depend on t, rewards of every kind."""
    rows = [
        {"t": 0, "state": 0, "action": 0, "next": {"0": 0.25, "1": 0.75}, "reward": 0.5},
        {"t": 0, "state": 0, "action": 1, "next": 1},
        {"t": 0, "state": 1, "action": 1, "next": 0, "reward": {"0": 0.25}},
        {"t": 1, "state": 0, "action": 0, "next": {"0": 1, "1": 0}},
        {"t": 1, "state": 0, "action": 1, "next": 0, "reward": 1},
        {"t": 1, "state": 1, "action": 1, "next": 1, "reward": [1]},
    ]
    return example() | {
        "horizon": 2,
        "states": 3,
        "actions": 2,
        "initial": {"0": 0.5, "1": 0.5, "2": 0},
        "terminal": [2],
        "noise": "bernoulli",
        "note": "halved",
        "transitions": rows,
    }


def read_text(text: str | bytes, tmp_path: Path, name: str = "model.json") -> MDP:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_model(path)


def read(document: Any, tmp_path: Path) -> MDP:
    return read_text(json.dumps(document), tmp_path)


def read_or_refuse(text: str | bytes, tmp_path: Path, name: str) -> MDP | None:
    """The model in a file that may be damaged; None if it is refused, in one line."""
    try:
        mdp = read_text(text, tmp_path, name)
    except InputError as error:
        message = str(error)
    else:
        sums = np.add.reduceat(mdp.p, mdp.table.indptr[:-1])
        np.testing.assert_allclose(sums, 1, atol=1e-8)
        return mdp
    assert message.startswith(str(tmp_path / name))
    assert len(message.splitlines()) == 1
    return None


def assert_same(a: MDP | IntervalMDP, b: MDP | IntervalMDP, lines: bool = True) -> None:
    """Bit for bit; ``lines``: rewards kept once or H times count as different."""

    def assert_equal(x: NDArray[Any], y: NDArray[Any]) -> None:
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        assert x.tobytes() == y.tobytes()

    for name in ("states", "actions", "segments"):
        assert getattr(a.table, name) == getattr(b.table, name)
    for name in ("first", "action", "indptr", "indices", "available"):
        assert_equal(getattr(a.table, name), getattr(b.table, name))
    for name in ("terminal", "state_names", "action_names", "horizon"):
        assert getattr(a.problem, name) == getattr(b.problem, name)
    assert a.note == b.note
    if isinstance(a, MDP) and isinstance(b, MDP):
        assert a.noise == b.noise
        assert_equal(a.p, b.p)
        assert a.problem.rewards is a.rewards
    else:
        assert isinstance(a, IntervalMDP)
        assert isinstance(b, IntervalMDP)
        assert a.exact == b.exact
        assert_equal(a.lo, b.lo)
        assert_equal(a.hi, b.hi)
        assert a.problem.rewards is None
    assert_equal(a.initial, b.initial)
    assert a.problem.initial is a.initial
    shape = (a.horizon, a.table.pairs)
    x, y = a.rewards.pair, b.rewards.pair
    if not lines:
        x, y = np.broadcast_to(x, shape), np.broadcast_to(y, shape)
    assert_equal(x, y)
    assert (a.rewards.successor is None) == (b.rewards.successor is None)
    if a.rewards.successor is not None and b.rewards.successor is not None:
        assert_equal(a.rewards.successor, b.rewards.successor)


word = st.sampled_from(["0", "1", "2", "", " a", "a", "home", "ζ", "a,b", 'a"b', "x\ny", "\r"])


@st.composite
def mdps(draw: st.DrawFn) -> MDP:
    S, A, H = (draw(st.integers(1, n)) for n in (4, 3, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    # compressed rows of one action would be taken for H actions
    segments = draw(st.sampled_from([1, H])) if A > 1 else 1
    rows = segments * S * A
    mask = rng.random((rows, S)) < draw(st.floats(0.2, 1))
    mask[np.arange(rows), rng.integers(0, S, rows)] = True
    p = rng.dirichlet(np.full(S, 0.3), rows) * mask * (rng.random((rows, S)) < 0.9)
    p[p.sum(1) == 0] = mask[p.sum(1) == 0]
    p /= p.sum(1, keepdims=True)
    shape = draw(st.sampled_from([(S, A), (H, S, A), (1, S, A, S), (H, S, A, S)]))
    # entries of probability zero stay in the table: the compressed form keeps them
    transitions = (np.append(0, np.cumsum(mask.sum(1))), np.nonzero(mask)[1], p[mask])
    available = rng.random((S, A)) < 0.7
    available[np.arange(S), rng.integers(0, A, S)] = True
    names = [draw(st.none() | st.lists(word, min_size=n, max_size=n, unique=True)) for n in (S, A)]
    return MDP(
        transitions,
        rng.random(shape) * (rng.random(shape) < draw(st.sampled_from([0, 0.8, 1]))),
        H,
        draw(st.sampled_from([int(rng.integers(S)), rng.dirichlet(np.ones(S))])),
        noise=draw(st.sampled_from([None, "bernoulli"])),
        available=draw(st.sampled_from([None, available])),
        terminal=draw(st.lists(st.integers(1, S - 1), max_size=3)) if S > 1 else (),
        state_names=names[0],
        action_names=names[1],
        note=draw(st.sampled_from(["", "rewards / 3\nκ"])),
    )


@st.composite
def interval_models(draw: st.DrawFn) -> IntervalMDP:
    """A random model whose intervals hold a distribution; some have no width, some are [0, 1]."""
    mdp = draw(mdps())
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    known, scale = draw(st.booleans()), draw(st.sampled_from([1.0, 0.25, 3.0, 1e-9, 1e6]))
    below, above = (
        np.select([rng.random(mdp.p.shape) < q for q in (0.3, 0.2)], [0.0, 1.0], rng.random())
        for _ in range(2)
    )
    lo, hi = mdp.p * (1 - below), mdp.p + above * (1 - mdp.p)
    table = mdp.table
    ends = np.isin(table.state, mdp.problem.terminal)
    fixed = np.append(np.tile(ends, table.segments), True)[table.row_of_entry]
    lo, hi = np.where(fixed, mdp.p, lo), np.where(fixed, mdp.p, np.minimum(hi, 1))
    if known or np.array_equal(lo, hi):
        lo = hi = mdp.p
    after = mdp.rewards.successor
    rewards = Rewards(mdp.rewards.pair * scale, None if after is None else after * scale)
    problem = Problem._of(**{**vars(mdp.problem), "rewards": None})
    return IntervalMDP(problem, rewards, mdp.initial, lo, hi, mdp.note)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 4)
    | st.integers()
    | st.floats()
    | st.sampled_from(
        ["home", "work", "done", "go", "0", "1", "t", "reward", "bernoulli", "\ud800"]
    )
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["home", "work", "0", "state", "next"]), inner, max_size=3
        )
    ),
    max_leaves=4,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each entry of nested lists and objects: what holds it, and its key there."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    found = []
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], dict | list):
            found += places(value[key])
    return found


def mutate(document: Any, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        options = places(document)
        if not options:
            return
        holder, key = options[data.draw(st.integers(0, len(options) - 1))]
        what = data.draw(st.sampled_from(["change", "remove", "double", "swap"]))
        if what == "change":
            holder[key] = data.draw(json_values)
        elif what == "remove":
            del holder[key]
        elif what == "double" and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        elif what == "double":
            holder[data.draw(st.sampled_from(["home", "t", "1", "reward"]))] = holder[key]
        else:
            other, at = options[data.draw(st.integers(0, len(options) - 1))]
            holder[key] = copy.deepcopy(other[at])
