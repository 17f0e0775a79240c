"""Models survive writing and reading to the last bit; whatever else a file holds is an error."""

from __future__ import annotations

import copy
import json
import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ucfh import MDP, InputError, files
from ucfh.models import read_model, write_model

DOCS = Path(__file__).parents[1] / "docs" / "formats.md"
FUZZ = settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", DOCS.read_text(), re.DOTALL)


def example() -> Any:
    return json.loads(blocks("json")[0])


def staged_example() -> Any:
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


def fault(action: Callable[..., object], *args: Any) -> str:
    """The message of the error that must come: one line."""
    with pytest.raises(InputError) as caught:
        action(*args)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


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


def assert_same(a: MDP, b: MDP, lines: bool = True) -> None:
    """Bit for bit; ``lines``: rewards kept once or H times count as different."""

    def assert_equal(x: NDArray[Any], y: NDArray[Any]) -> None:
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        assert x.tobytes() == y.tobytes()

    for name in ("states", "actions", "stages"):
        assert getattr(a.table, name) == getattr(b.table, name)
    for name in ("first", "action", "indptr", "indices", "available"):
        assert_equal(getattr(a.table, name), getattr(b.table, name))
    for name in ("terminal", "state_names", "action_names", "horizon"):
        assert getattr(a.problem, name) == getattr(b.problem, name)
    assert (a.noise, a.note) == (b.noise, b.note)
    assert_equal(a.p, b.p)
    assert_equal(a.initial, b.initial)
    assert a.problem.initial is a.initial
    assert a.problem.rewards is a.rewards
    shape = (a.horizon, a.table.pairs)
    x, y = a.rewards.pair, b.rewards.pair
    if not lines:
        x, y = np.broadcast_to(x, shape), np.broadcast_to(y, shape)
    assert_equal(x, y)
    assert (a.rewards.successor is None) == (b.rewards.successor is None)
    if a.rewards.successor is not None and b.rewards.successor is not None:
        assert_equal(a.rewards.successor, b.rewards.successor)


@st.composite
def mdps(draw: st.DrawFn) -> MDP:
    S, A, H = (draw(st.integers(1, n)) for n in (4, 3, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    # compressed rows of one action would be taken for H actions
    stages = draw(st.sampled_from([1, H])) if A > 1 else 1
    rows = stages * S * A
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


word = st.sampled_from(["0", "1", "2", "", " a", "a", "home", "ζ", "a,b", 'a"b', "x\ny", "\r"])


@pytest.mark.parametrize("ending", ["json", "npz"])
@FUZZ
@given(mdp=mdps())
def test_round_trip(mdp: MDP, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"model.{ending}"
    write_model(mdp, path, force=True)
    assert_same(read_model(path), mdp, lines=ending == "npz" or mdp.table.stages == 1)
    content = path.read_bytes()
    write_model(read_model(path), path, force=True)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_round_trip_keeps_rounding_errors(ending: str, tmp_path: Path) -> None:
    """Rows that are off by their rounding error after division are not divided once more."""
    rng = np.random.default_rng(1)
    divided_again = 0
    for S in (2, 7, 9, 64, 300):
        p = rng.dirichlet(np.full(S, 0.5), (S, 1))
        mdp = MDP(p, np.zeros((S, 1)), 3, p[0, 0])
        again = MDP(mdp.table.dense(mdp.p), np.zeros((S, 1)), 3, mdp.initial)
        divided_again += not np.array_equal(again.p, mdp.p)
        path = tmp_path / f"{S}.{ending}"
        write_model(mdp, path)
        assert_same(read_model(path), mdp)
    assert divided_again  # or the test tests nothing


def test_json_by_hand(tmp_path: Path) -> None:
    mdp = read(staged_example(), tmp_path)
    p = np.zeros((2, 3, 2, 3))
    p[0, 0, 0] = 0.25, 0.75, 0
    p[0, 0, 1, 1] = p[0, 1, 1, 0] = p[1, 0, 0, 0] = p[1, 0, 1, 0] = p[1, 1, 1, 1] = 1
    p[:, 2, 0, 2] = 1
    np.testing.assert_array_equal(mdp.table.dense(mdp.p), p)
    r = np.zeros((2, 3, 2))
    r[0, 0, 0], r[0, 1, 1], r[1, 0, 1], r[1, 1, 1] = 0.5, 0.25, 1, 1
    pairs = [[0, 0], [0, 1], [1, 1], [2, 0]]
    np.testing.assert_array_equal(np.argwhere(mdp.table.available), pairs)
    np.testing.assert_array_equal(mdp.mean_rewards, r[:, *np.transpose(pairs)])
    assert mdp.rewards.successor is not None
    np.testing.assert_array_equal(mdp.initial, [0.5, 0.5, 0])
    assert (mdp.noise, mdp.note, mdp.problem.terminal) == ("bernoulli", "halved", (2,))
    # the zero after (t=1, s=0, a=0) is told to the learner
    assert mdp.table.lengths.tolist() == [2, 1, 1, 1, 2, 1, 1, 1, 2]


def test_names_and_numbers_are_interchangeable(tmp_path: Path) -> None:
    document = example()
    by_name = read(document, tmp_path)
    numbers = {"home": 0, "work": 1, "done": 2, "stay": 0, "go": 1, "present": 2}
    text = json.dumps(document["transitions"])
    for name, number in numbers.items():
        text = text.replace(f'"{name}":', f'"{number}":').replace(f'"{name}"', str(number))
    rows = list(reversed(json.loads(text)))
    document |= {"transitions": rows, "initial": {"0": 1}, "terminal": [2, "done"]}
    assert_same(read(document, tmp_path), by_name)
    # digits that are a name are that name
    swapped = {"states": ["1", "0", "2"], "initial": "0", "terminal": ["2"]}
    mdp = read(example() | swapped | {"transitions": rows}, tmp_path)
    np.testing.assert_array_equal(mdp.initial, [0, 1, 0])
    assert mdp.table.dense(mdp.p)[0, 1].tolist() == [0.8, 0.2, 0]


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
    assert Path("best.json").read_text() == blocks("json")[1]


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


def change(*keys: Any, to: Any) -> Callable[[Any], None]:
    """A change of one entry of a document; None takes it out."""

    def apply(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        if to is None:
            del document[keys[-1]]
        else:
            document[keys[-1]] = to

    return apply


ROW, GO = "transitions[1]: ", "(state 'home', action 'go')"
NEXT, REWARD = ("transitions", 1, "next"), ("transitions", 1, "reward")
FAULTS: list[tuple[Callable[[Any], None], str]] = [
    (change("format", to=None), 'its "format" is missing: it must be "ucfh-model"'),
    (change("format", to="ucfh-policy"), 'its "format" is "ucfh-policy": it must be'),
    (change("version", to=2), 'its "version" is 2: this version of ucfh reads 1'),
    (change("version", to=True), 'its "version" is true'),
    (change("horizon", to=None), '"horizon" is missing: add it'),
    (change("horizon", to=0), '"horizon" is 0: it must be'),
    (change("horizon", to=2.0), '"horizon" is 2.0: it must be'),
    (change("horizon", to=10**4000), '"horizon" is 1000'),
    (change("horzion", to=3), "unknown key 'horzion': did you mean 'horizon'?"),
    (change("states", to=[]), '"states" is a list: it must be how many there are, or a list of'),
    (change("states", to=["a", 1]), '"states" is a list: it must be'),
    (change("states", to=["home", "home", "work"]), "state name 'home' is given twice"),
    (change("actions", to=True), '"actions" is true'),
    (change("noise", to="normal"), "unknown noise 'normal'"),
    (change("note", to=3), '"note" is 3: it must be text'),
    (change("terminal", to="done"), '"terminal" is "done": it must be a list of states'),
    (change("terminal", to=["dnoe"]), "terminal: unknown state 'dnoe': did you mean 'done'?"),
    (change("terminal", to=None), "state 'done' has no row"),
    (change("terminal", to=["work", "done"]), "(state 'work', action 'stay'): its state is term"),
    (change("initial", to=None), '"initial" is missing'),
    (change("initial", to="hmoe"), "initial: unknown state 'hmoe': did you mean 'home'?"),
    (change("initial", to=3), "initial: state 3 does not exist: states are 0 to 2"),
    (change("initial", to={}), "initial: no state is given"),
    (change("initial", to=[1, 0, 0]), "initial: a list is no state: give its name, or its number"),
    (change("initial", to={"home": 0.5, "0": 0.5}), "initial: state 'home' is given twice"),
    (change("initial", to={"home": 0.5, "work": 0.4}), "the probabilities at the start sum to 0.9"),
    (change("initial", to={"home": 0}), '"initial" sums to 0'),
    (
        change("initial", to={"home": -1, "work": 2}),
        "probability of state 'home' at the start is -1",
    ),
    (change("transitions", to={}), '"transitions" is an object: it must be a list of rows'),
    (change("transitions", 1, to=7), ROW + "it must be an object {...}, not 7"),
    (
        change("transitions", 1, "state", to="hom"),
        ROW + "unknown state 'hom': did you mean 'home'?",
    ),
    (change("transitions", 1, "action", to=1.5), ROW + "1.5 is no action: give its name"),
    (
        change("transitions", 1, "action", to="stay"),
        ROW + "(state 'home', action 'stay') is given in",
    ),
    (change("transitions", 1, "t", to=0), ROW + 'give "t" in every row, or in none'),
    (change("transitions", 0, "t", to=5), "transitions[0]: t = 5: it must be a time step, 0 to 2"),
    (
        change("transitions", 1, "rewards", to=0),
        ROW + "unknown key 'rewards': did you mean 'reward'?",
    ),
    (change(*NEXT, to=None), ROW + '"next" is missing'),
    (
        change(*NEXT, to={"werk": 1}),
        ROW + GO + ": next: unknown state 'werk': did you mean 'work'?",
    ),
    (change(*NEXT, to={"work": "1"}), ROW + GO + ": next: state 'work': \"1\" is not a number"),
    (change(*NEXT, to={"work": 10**400}), ROW + GO + ": next: state 'work': 1000"),
    (change(*NEXT, to={"work": 0.8}), f"the probabilities after {GO} sum to 0.8: they must sum"),
    (change(*NEXT, to={"work": 1.5, "home": -0.5}), f"of state 'home' after {GO} is -0.5: it must"),
    (change(*NEXT, to={"work": float("nan")}), f"of state 'work' after {GO} is nan: it must"),
    (change(*REWARD, to="much"), ROW + GO + ': reward: "much" is not a number'),
    (change(*REWARD, to=[0, 1]), ROW + GO + ": reward: 2 numbers, but the row is for 3 time steps"),
    (change(*REWARD, to={"done": 1}), ROW + GO + ": reward: state 'done' is not among next"),
    (change(*REWARD, to=2), "the reward of (t=0, state 'home', action 'go') is 2: rewards must"),
    (change(*REWARD, to=[0, 1, 2]), "the reward of (t=2, state 'home', action 'go') is 2"),
    (change(*REWARD, to=float("nan")), "the reward of (t=0, state 'home', action 'go') is nan"),
    (change(*REWARD, to={"work": -1}), f"the reward in state 'work' after {GO}, t=0 is -1"),
    (change(*REWARD, to={"work": [0, 2, 0]}), f"the reward in state 'work' after {GO}, t=1 is 2"),
]


@pytest.mark.parametrize(("spoil", "message"), FAULTS)
def test_faults_are_named(spoil: Callable[[Any], None], message: str, tmp_path: Path) -> None:
    document = example()
    spoil(document)
    assert message in fault(read, document, tmp_path)


def test_faults_of_stages_are_named(tmp_path: Path) -> None:
    document = staged_example()
    last = document["transitions"].pop()
    message = fault(read, document, tmp_path)
    assert "no row for (t=1, state 1, action 1): with t, list every pair at every" in message
    document["transitions"].append(last | {"reward": [1, 1]})
    message = fault(read, document, tmp_path)
    assert "(t=1, state 1, action 1): reward: 2 numbers, but the row is for 1 time step:" in message
    document["transitions"][-1] = last | {"next": {"0": 0.5}}
    message = fault(read, document, tmp_path)
    assert "the probabilities after (t=1, state 1, action 1) sum to 0.5" in message
    document["transitions"][-1] = last | {"reward": 1.5}
    message = fault(read, document, tmp_path)
    assert "the reward of (t=1, state 1, action 1) is 1.5" in message
    document["transitions"][-1] = last
    message = fault(read, document | {"states": 10**9}, tmp_path)
    assert "state 3 has no row: add one for each of its actions" in message
    message = fault(read, document | {"actions": 10**9}, tmp_path)
    assert '"actions" is 1000000000, with 3 states and only 6 rows' in message
    document["transitions"][-1] = last | {"next": {"first": 1}}
    assert "unknown state 'first': states have no names" in fault(read, document, tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: not JSON, or cut short"),
        ("[]", "a ucfh-model file holds a JSON object, not a list"),
        ('{\n "format": "ucfh-model",\n "version": 1,}', "line 3, column 15: not JSON"),
        ('{"format": "ucfh-model", "version": 1, "version": 1}', "'version' is given twice"),
        ("[" * 100_000, "not JSON that can be read"),
        ("1" * 5000, "not JSON that can be read"),
        (b"{\n\xff}", "line 2 is not text in UTF-8"),
    ],
)
def test_text_that_is_no_model(text: str | bytes, message: str, tmp_path: Path) -> None:
    assert f"model.json: {message}" in fault(read_text, text, tmp_path)


def test_twice_in_one_object(tmp_path: Path) -> None:
    text = blocks("json")[0].replace('"work": 0.8', '"work": 0.4, "work": 0.4')
    message = fault(read_text, text, tmp_path)
    assert message.endswith(f"transitions[1]: {GO}: next: 'work' is given twice: leave one")


def test_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    text = blocks("json")[0]
    assert_same(read_text("\ufeff" + text, tmp_path), read_text(text, tmp_path))


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


def test_flipped_bits_of_npz(tmp_path: Path) -> None:
    """A changed bit is noticed, or does not matter (the archive's dates, say)."""
    path = tmp_path / "whole.npz"
    mdp = read(staged_example(), tmp_path)
    write_model(mdp, path)
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(3)
    for i in range(0, len(content), 3):
        changed = content.copy()
        changed[i] ^= 1 << int(rng.integers(8))
        found = read_or_refuse(bytes(changed), tmp_path, "changed.npz")
        if found is not None:
            assert_same(found, mdp)


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


@FUZZ
@given(data=st.data(), staged=st.booleans())
def test_mutations_of_json(data: st.DataObject, staged: bool, tmp_path: Path) -> None:
    document = staged_example() if staged else example()
    mutate(document, data)
    mdp = read_or_refuse(json.dumps(document), tmp_path, "model.json")
    if mdp is not None and mdp.horizon < 10:
        assert 0 <= mdp.at_start(mdp.optimal().values) <= mdp.horizon


NPZ_FAULTS: list[tuple[str, Any, str]] = [
    ("header", np.frombuffer(b"{}", np.uint8), 'header: its "format" is missing'),
    ("header", np.arange(3), '"header" is int64 of shape (3,): it must be uint8 of shape (any)'),
    ("p", None, '"p" is missing'),
    ("q", np.zeros(1), "unknown key 'q'"),
    ("p", np.zeros(3), '"p" is float64 of shape (3,): it must be float64 of shape (8)'),
    ("p", np.zeros(8, np.float32), '"p" is float32 of shape (8,)'),
    ("p", np.array([1, 0.2, 0.7, 1, 0.5, 0.5, 1, 1]), f"the probabilities after {GO} sum to 0.9"),
    ("p", np.array([1, 0.2, 0.8, 1, 0.5, 0.5, 0, 1]), '"p" disagrees with "initial" or with term'),
    ("p", np.array([1, 0.2, 0.8, 1, 0.5, 0.5, 1, np.nan]), '"p" disagrees with "initial"'),
    ("initial", np.array([0, 0, 0.0]), '"initial" sums to 0'),
    ("initial", np.array([0, 1, 0.0]), '"indices" is out of order, or disagrees with "initial"'),
    ("first", np.array([0, 2, 2, 5]), '"first" must have 4 numbers, each larger than the one'),
    ("first", np.array([0, 2, 4]), '"first" must rise from 0 to 5'),
    ("action", np.array([0, 1, 0, 3, 0]), '"action" must be between 0 and 2'),
    ("action", np.array([1, 0, 0, 2, 0]), '"action" is out of order'),
    ("action", np.array([0, 1, 0, 2, 1]), '"action" is out of order, or disagrees'),
    ("indptr", np.arange(7), '"indptr" must rise from 0 to'),
    ("indptr", np.array([0, 1, 3, 4, 6, 8]), '"indptr" describes 5 rows: there must be 5, or 3'),
    ("indptr", np.array([0, 1, 4, 3, 6, 7, 8]), '"indptr" must rise from 0 to 8'),
    ("indices", np.array([0, 1, 0, 1, 1, 2, 2, 0], np.int32), '"indices" is out of order'),
    ("indices", np.array([0, 0, 9, 1, 1, 2, 2, 0], np.int32), "successor 9 of (s=0, a=1) is not"),
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
]


@pytest.fixture
def arrays(tmp_path: Path) -> dict[str, Any]:
    write_model(read(example(), tmp_path), tmp_path / "whole.npz")
    return dict(np.load(tmp_path / "whole.npz"))


@pytest.mark.parametrize(("name", "value", "message"), NPZ_FAULTS)
def test_faults_of_arrays_are_named(
    name: str, value: Any, message: str, tmp_path: Path, arrays: dict[str, Any]
) -> None:
    if value is None:
        del arrays[name]
    else:
        arrays[name] = value
    path = tmp_path / "model.npz"
    np.savez(path, **arrays)
    assert message in fault(read_model, path)


@FUZZ
@given(data=st.data(), staged=st.booleans())
def test_mutations_of_npz(data: st.DataObject, staged: bool, tmp_path: Path) -> None:
    whole = tmp_path / "whole.npz"
    write_model(read(staged_example() if staged else example(), tmp_path), whole, force=True)
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


def test_endings(tmp_path: Path) -> None:
    mdp = read(example(), tmp_path)
    message = "unknown ending '.jsn': did you mean '.json'? (known: .json, .npz)"
    assert fault(write_model, mdp, "a.jsn") == f"a.jsn: {message}"
    assert fault(read_model, "a.jsn") == f"a.jsn: {message}"
    assert "unknown ending ''" in fault(read_model, "model")
    write_model(mdp, tmp_path / "LOUD.JSON")
    assert_same(read_model(tmp_path / "LOUD.JSON"), mdp)


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_nothing_is_overwritten_unasked(ending: str, tmp_path: Path) -> None:
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
        assert message == f"{path} is not a file: pass the name of one"
    assert "cannot write" in fault(write_model, mdp, tmp_path / f"{'x' * 300}.json")
    assert "cannot write" in fault(write_model, mdp, f"{tmp_path}/\0.json")
    surrogate = MDP([[[1]]], [[0]], 1, state_names=["\ud800"])
    message = fault(write_model, surrogate, tmp_path / "out.json")
    assert "'\\ud800' is no character of UTF-8" in message
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
    write_model(read(example(), tmp_path), link)
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


def test_names_with_line_breaks_do_not_break_messages(tmp_path: Path) -> None:
    document = example() | {"states": ["home", "work", "a\nb"], "initial": "away"}
    document["terminal"] = ["a\nb"]
    assert "known: a b, home, work" in fault(read, document, tmp_path)
