"""Models with intervals: files of them, and that planning with them is right."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import reference
from support.errors import refusal as fault
from support.model_files import (
    FUZZ,
    GO,
    assert_same,
    blocks,
    example,
    interval_models,
    mdps,
    mutate,
    read,
)
from ucfh import MDP, InputError, Problem, make
from ucfh._utils import memory
from ucfh._utils.arrays import Floats
from ucfh.interval_mdp import IntervalMDP
from ucfh.io import read_intervals, read_model, write_model
from ucfh.transitions import Rewards


def oracle(model: IntervalMDP, optimistic: bool) -> tuple[Floats, Floats]:
    """Q (H, S, A) and V (H+1, S), by the paper's loop over dense arrays."""
    table, H = model.table, model.horizon
    S, A = table.states, table.actions
    lo, hi = (np.broadcast_to(table.dense(x), (H, S, A, S)).copy() for x in (model.lo, model.hi))
    r = np.zeros((H, S, A, S))
    pair, after = model.rewards.pair, model.rewards.successor
    for t in range(H):
        for k, (s, a) in enumerate(zip(table.state, table.action, strict=True)):
            r[t, s, a] = pair[min(t, len(pair) - 1), k]
            if after is not None:
                at = table.entries_of(t * table.stride + k)
                r[t, s, a, table.indices[at]] += after[min(t, len(after) - 1), at]
    # an action that a state lacks stays somewhere, for a reward that nobody takes
    lacks = ~table.available
    lo[:, lacks, 0] = hi[:, lacks, 0] = 1
    r[:, lacks] = -1e9
    return reference.evi(lo, hi, r, H, optimistic, reference.greedy_expectation)


def largest(model: IntervalMDP) -> float:
    after = model.rewards.successor
    return float(model.rewards.pair.max()) + (0.0 if after is None else float(after.max()))


@FUZZ
@given(model=interval_models(), optimistic=st.booleans())
def test_plans_are_those_of_the_slow_planner(model: IntervalMDP, optimistic: bool) -> None:
    plan = model.plan(optimistic, threads=1)
    # sums of at most 4 products over at most 3 steps, and 1 - sum(lo), each off by a few 2^-53
    tolerance = 1e-13 * model.horizon * largest(model)
    Q, V = oracle(model, optimistic)
    np.testing.assert_allclose(plan.values, V, rtol=0, atol=tolerance)
    assert model.at_start(plan.values) == pytest.approx(float(model.initial @ V[0]), rel=1e-12)
    taken = np.take_along_axis(Q, plan.policy[:, :, None].astype(np.int64), axis=2)[:, :, 0]
    np.testing.assert_allclose(taken, V[:-1], rtol=0, atol=3 * tolerance)  # ties count as equal


@FUZZ
@given(model=interval_models(), optimistic=st.booleans(), power=st.integers(-60, 60))
def test_values_have_the_unit_of_the_rewards(
    model: IntervalMDP, optimistic: bool, power: int
) -> None:
    """To the last bit, where the unit is a power of two; so ties do not depend on it either."""
    pair, after = model.rewards.pair, model.rewards.successor
    rewards = Rewards(np.ldexp(pair, power), None if after is None else np.ldexp(after, power))
    other = IntervalMDP(model.problem, rewards, model.initial, model.lo, model.hi)
    one, two = (m.plan(optimistic, threads=1) for m in (model, other))
    np.testing.assert_array_equal(np.ldexp(one.values, power), two.values)
    np.testing.assert_array_equal(one.policy, two.policy)


@pytest.mark.slow
@FUZZ
@given(mdp=mdps())
def test_known_probabilities_are_planned_with_exactly(mdp: MDP, tmp_path: Path) -> None:
    write_model(mdp, tmp_path / "model.npz", force=True)
    model = read_intervals(tmp_path / "model.npz")
    assert model.exact
    one, two = mdp.optimal(), model.plan()
    np.testing.assert_array_equal(one.values, two.values)
    assert mdp.value(two.policy) == pytest.approx(mdp.at_start(one.values), abs=1e-12)


def test_intervals_of_no_width_are_known_probabilities(tmp_path: Path) -> None:
    document = example()
    document["transitions"][1]["next"] = {"work": [0.8, 0.8], "home": [0.2, 0.2]}
    assert_same(read(document, tmp_path), read(example(), tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["json", "npz"])
@FUZZ
@given(model=interval_models())
def test_round_trip(model: IntervalMDP, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"model.{ending}"
    write_model(model, path, force=True)
    again = read_intervals(path)
    assert_same(again, model, lines=ending == "npz" or model.table.segments == 1)
    content = path.read_bytes()
    write_model(again, path, force=True)
    assert path.read_bytes() == content


def interval_example() -> Any:
    """The example, with the row of intervals that the page shows, and a reward above 1."""
    document = example()
    document["transitions"][1] = json.loads(blocks("json")[1])
    document["transitions"][2]["reward"] = 7
    return document


def read_it(document: Any, tmp_path: Path) -> IntervalMDP:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    return read_intervals(path)


def test_by_hand(tmp_path: Path) -> None:
    model = read_it(interval_example(), tmp_path)
    # go to work and stay there, or at home at the last step
    best, worst = model.plan(), model.plan(optimistic=False)
    assert model.at_start(best.values) == pytest.approx(0.9 * 14 + 0.1 * 0.9 * 7 + 0.1**3)
    at_worst = 0.7 * 14 + 0.3 * 0.7 * 7 + 0.3**2 * 0.1
    assert model.at_start(worst.values) == pytest.approx(at_worst)
    assert best.policy.tolist() == worst.policy.tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 0]]
    np.testing.assert_allclose(oracle(model, True)[1], best.values, rtol=1e-14)


def test_learning_is_rejected(tmp_path: Path) -> None:
    document = example()
    document["transitions"][1] = json.loads(blocks("json")[1])
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    for reader in (read_model, make):
        message = fault(reader, str(path))
        assert message.startswith(f"{path}: its probabilities are intervals")
        assert "ucfh plan" in message
    path.write_text(json.dumps(example() | {"transitions": interval_example()["transitions"]}))
    assert "intervals" in fault(read_model, path)
    document = example()
    document["transitions"][2]["reward"] = 7
    assert read_it(document, tmp_path).exact
    assert "is 7: rewards must be in [0, 1]" in fault(read_model, path)


ROW = f"transitions[1]: {GO}: next: state 'work': "
SUMS = f"no distribution lies between the bounds after {GO}: "
NAN = float("nan")
NEXT_ERRORS: list[tuple[Any, Any, str]] = [
    ([0.9, 0.7], 0.2, ROW + "[0.9, 0.7] is not an interval: it must satisfy 0 <= lo <= hi <= 1"),
    ([-0.1, 0.7], 0.5, ROW + "[-0.1, 0.7] is not an interval"),
    ([0.7, 1.1], 0.2, ROW + "[0.7, 1.1] is not an interval"),
    ([NAN, 1], 1, ROW + "[nan, 1.0] is not an interval"),
    ([0.7], 0.3, ROW + "a list of 1: give a probability, or an interval [lo, hi]"),
    (["a", 1], 0.3, ROW + '"a" is not a number'),
    ([0.7, 0.8], [0.31, 0.4], SUMS + "lo sums to 1.01 and hi to 1.2; 1 must lie between them"),
    ([0.1, 0.5], [0.1, 0.4], SUMS + "lo sums to 0.2 and hi to 0.9; 1 must lie between them"),
    ([0.7, 0.8], -0.1, f"the bounds of state 'home' after {GO} are [-0.1, -0.1]: they must"),
    ([0.7, 0.8], NAN, f"the bounds of state 'home' after {GO} are [nan, nan]: they must"),
]


@pytest.mark.parametrize(("work", "home", "message"), NEXT_ERRORS)
def test_errors_of_intervals_are_named(work: Any, home: Any, message: str, tmp_path: Path) -> None:
    document = interval_example()
    document["transitions"][1]["next"] = {"work": work, "home": home}
    found = fault(read_it, document, tmp_path)
    assert found.startswith(str(tmp_path / "model.json"))
    assert message in found


ROW_ERRORS: list[tuple[str, Any, str]] = [
    ("next", {}, f"{GO}: next: no state is given: give at least one"),
    ("next", {"7": [0, 1]}, "state 7 does not exist: states are 0 to 2"),
    ("reward", -1, f"the reward of {GO} is -1.0: rewards must be numbers of at least 0"),
    ("reward", float("inf"), f"the reward of {GO} is inf"),
    ("reward", 1e308, f"the reward of {GO} is 1e+308"),
    ("reward", {"work": NAN}, f"the reward in state 'work' after {GO} is nan"),
]


@pytest.mark.parametrize(("key", "value", "message"), ROW_ERRORS)
def test_errors_of_rows_are_named(key: str, value: Any, message: str, tmp_path: Path) -> None:
    document = interval_example()
    document["transitions"][2]["reward"] = 0
    document["transitions"][1][key] = value
    assert message in fault(read_it, document, tmp_path)


def test_the_start_is_known(tmp_path: Path) -> None:
    document = interval_example() | {"initial": {"home": [0.4, 0.6], "work": [0.4, 0.6]}}
    message = fault(read_it, document, tmp_path)
    assert "initial: state 'home': a list is not a number" in message


@pytest.mark.parametrize(("off", "right"), [(5e-10, True), (2e-9, False)])
def test_sums_may_be_off_by_rounding(off: float, right: bool, tmp_path: Path) -> None:
    for bounds in ([0.7 + off, 0.9], [0.3, 0.3]), ([0.6, 0.7 - off], [0.3, 0.3]):
        document = interval_example()
        document["transitions"][1]["next"] = dict(zip(("work", "home"), bounds, strict=True))
        if right:
            plan = read_it(document, tmp_path).plan(threads=1)
            assert plan.values[0, 0] == pytest.approx(0.7 * 14 + 0.3 * 0.7 * 7 + 0.009, abs=1e-7)
        else:
            assert "no distribution lies between" in fault(read_it, document, tmp_path)


NPZ_ERRORS: list[tuple[str, int, float, str]] = [
    ("lo", 1, 0.35, f"the bounds of state 'home' after {GO} are [0.35, 0.3]"),
    ("lo", 1, np.nan, f"the bounds of state 'home' after {GO} are [nan, 0.3]"),
    ("hi", 2, 1.5, f"the bounds of state 'work' after {GO} are [0.7, 1.5]"),
    ("hi", 2, 0.7, SUMS + "lo sums to 0.8 and hi to 0.99999"),
    ("lo", 6, 0.5, '"lo" must be 1 where the state is terminal'),
    ("lo", 7, 0.5, 'the start in "lo" disagrees with "initial"'),
    ("indices", 2, 9, f"successor 9 after {GO} is not a state: states are 0 to 2"),
    ("indices", 2, 0, '"indices" is out of order'),
    ("indptr", 2, 1, f"there is no successor after {GO}: give one"),
    ("reward", 1, -1, f"the reward of {GO} is -1.0: rewards must be numbers of at least 0"),
]


@pytest.mark.parametrize(("name", "place", "value", "message"), NPZ_ERRORS)
def test_errors_of_arrays_are_named(
    name: str, place: int, value: float, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.npz"
    write_model(read_it(interval_example(), tmp_path), path)
    arrays = dict(np.load(path))
    arrays[name].flat[place] = value
    if name == "hi" and value == 0.7:
        arrays["hi"][1] = 0.29999
    np.savez(path, **arrays)
    assert message in fault(read_intervals, path)


def test_arrays_that_are_missing_or_too_many(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    write_model(read_it(interval_example(), tmp_path), path)
    whole = dict(np.load(path))
    for name in ("lo", "hi"):
        np.savez(path, **{key: x for key, x in whole.items() if key != name})
        assert f'"{name}" is missing' in fault(read_intervals, path)
    np.savez(path, **whole, p=whole["lo"])
    assert "unknown key 'lo'" in fault(read_intervals, path)


def test_nothing_is_paid_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    model = read_it(interval_example(), tmp_path)
    write_model(model, path)
    arrays = dict(np.load(path))
    arrays["reward_next"][:, -1] = np.nan
    np.savez(path, **arrays)
    np.testing.assert_array_equal(read_intervals(path).plan().values, model.plan().values)


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_truncation_at_every_length(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"whole.{ending}"
    write_model(read_it(interval_example(), tmp_path), path)
    length = len(path.read_bytes().rstrip(b"\n"))
    os.truncate(path, length)
    read_intervals(path)
    for shorter in reversed(range(length)):
        os.truncate(path, shorter)
        assert str(path) in fault(read_intervals, path)


@FUZZ
@given(data=st.data())
def test_mutations(data: st.DataObject, tmp_path: Path) -> None:
    """A mutated file is rejected in one line, or can be planned with."""
    document = interval_example()
    mutate(document, data)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    try:
        model = read_intervals(path)
    except InputError as error:
        message = str(error)
        assert message.startswith(str(path))
        assert len(message.splitlines()) == 1
        return
    sums = [np.add.reduceat(x, model.table.indptr[:-1]) for x in (model.lo, model.hi)]
    assert (sums[0] <= 1 + 1e-8).all()
    assert (sums[1] >= 1 - 1e-8).all()
    if model.horizon < 10:
        for optimistic in (True, False):
            value = model.at_start(model.plan(optimistic, threads=1).values)
            assert 0 <= value <= model.horizon * largest(model) * (1 + 1e-9)


def test_other_arguments_are_for_prism(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(example()))
    assert "horizon is for .tra files" in fault(read_intervals, path, 3)
    message = fault(lambda: read_intervals(path, state_rewards="a.srew"))
    assert message.startswith("state-rewards is for .tra files")
    assert "unknown ending '.txt'" in fault(read_intervals, "a.txt")


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def leave(count: int) -> None:
        monkeypatch.setattr(memory, "LITTLE", 0)
        monkeypatch.setattr(memory, "free_memory", lambda: count)

    return leave


def test_plans_that_do_not_fit_are_rejected(tmp_path: Path, little: Callable[[int], None]) -> None:
    document = example() | {"horizon": 2_000_000_000}
    document["transitions"][2]["reward"] = 0
    model = read_it(document, tmp_path)
    H = model.horizon
    needed = 8 * (H + 1) * 3 + H * 3
    little(needed - 1)
    message = fault(model.plan)
    assert message.startswith(f"a plan of {H} steps in 3 states needs about {needed} bytes")
    assert "54 GB" in message


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_files_that_do_not_fit_are_rejected(
    ending: str, tmp_path: Path, little: Callable[[int], None]
) -> None:
    path = tmp_path / f"model.{ending}"
    write_model(read(example(), tmp_path), path, force=True)
    if ending == "npz":
        with zipfile.ZipFile(path) as archive:
            needed = sum(member.file_size for member in archive.infolist())
    else:
        needed = 18 * path.stat().st_size
    for reader in (read_model, read_intervals):
        little(needed - 1)
        assert f"needs about {needed} bytes of memory" in fault(reader, path)
        little(needed)
        reader(path)


def test_free_memory() -> None:
    free = memory.free_memory()
    assert free is None or 1_000_000 < free < 2**60


def test_threads_do_not_matter(tmp_path: Path) -> None:
    """Enough entries for several to be used."""
    S, A, C = 3000, 3, 5
    rng = np.random.default_rng(4)
    p = rng.dirichlet(np.ones(C), S * A).ravel()
    indices = np.sort(rng.integers(0, S // C, (S * A, C)) + np.arange(C) * (S // C), axis=1)
    mdp = MDP((np.arange(S * A + 1) * C, indices.ravel(), p), rng.random((S, A)), 5)
    lo, hi = np.maximum(mdp.p - 0.1, 0), np.minimum(mdp.p + 0.1, 1)
    lo[-1] = hi[-1] = 1
    problem = Problem._of(**{**vars(mdp.problem), "rewards": None})
    model = IntervalMDP(problem, mdp.rewards, mdp.initial, lo, hi)
    write_model(model, tmp_path / "model.npz")
    model = read_intervals(tmp_path / "model.npz")
    one, two = (model.plan(threads=n) for n in (1, None))
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.policy, two.policy)
