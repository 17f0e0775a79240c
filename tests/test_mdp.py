"""Problems and MDPs in every form they may be given, and every way to give a bad one."""

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracles import reference as ref
from ucfh.algorithms.ucfh import UCFH
from ucfh.exceptions import InputError
from ucfh.mdp import MDP, Problem
from ucfh.transitions import Table

Floats = NDArray[np.float64]

S, A, H = 4, 3, 3


def kernel(seed: int, segments: int = 0, sparse: bool = True) -> Floats:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(S), (segments, S, A) if segments else (S, A))
    if sparse:
        p[p < 0.2] = 0
        p /= p.sum(-1, keepdims=True)
    return np.asarray(p)


def compress(p: Floats, seed: int) -> tuple[Any, Any, Floats]:
    """(indptr, indices, p) with each row's successors in random order."""
    rng = np.random.default_rng(seed)
    flat = p.reshape(-1, p.shape[-1])
    rows = [rng.permutation(np.flatnonzero(row)) for row in flat]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return (
        indptr,
        np.concatenate(rows),
        np.concatenate([p[i] for p, i in zip(flat, rows, strict=True)]),
    )


def assert_same_table(a: Table, b: Table) -> None:
    assert (a.states, a.actions, a.segments) == (b.states, b.actions, b.segments)
    for name in ("first", "action", "indptr", "indices"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name


def assert_same(a: MDP, b: MDP) -> None:
    assert_same_table(a.table, b.table)
    assert np.abs(a.p - b.p).max() <= 2.0**-52
    assert np.array_equal(a.initial, b.initial)
    assert np.abs(a.mean_rewards - b.mean_rewards).max() <= 1e-15
    assert np.abs(a.optimal().values - b.optimal().values).max() <= 1e-14


@pytest.mark.parametrize("segments", [0, H])
def test_dense_and_compressed(segments: int) -> None:
    p, r = kernel(1, segments), np.random.default_rng(2).random((S, A))
    dense = MDP(p, r, H)
    assert_same(dense, MDP(p.tolist(), r.tolist(), H))
    assert_same(dense, MDP(compress(p, 3), r, H))
    indptr, indices, flat = compress(p, 4)
    assert_same(dense, MDP((indptr.tolist(), indices.astype(np.uint8), flat.tolist()), r, H))
    assert dense.table.segments == (segments or 1)
    assert np.abs(dense.table.dense(dense.p) - p).max() <= 2.0**-52
    assert dense.table.lengths[:-1].tolist() == (p > 0).sum(-1).ravel().tolist()


def test_segments_that_are_alike() -> None:
    """The same rows at every segment: another table, the same values."""
    p, r = kernel(5), np.random.default_rng(6).random((H, S, A))
    plain, segmented = MDP(p, r, H), MDP(np.tile(p, (H, 1, 1, 1)), r, H)
    assert np.abs(plain.optimal().values - segmented.optimal().values).max() <= 1e-14
    assert (plain.optimal().policy == segmented.optimal().policy).all()
    policy = plain.optimal().policy
    assert plain.variance(policy) == pytest.approx(segmented.variance(policy), abs=1e-14)


def test_reward_shapes() -> None:
    """One function, told in every shape that can tell it."""
    rng, p = np.random.default_rng(7), kernel(8)
    constant, of_s, of_t = rng.random(), rng.random((S, 1)), rng.random((H, 1, 1))
    shapes: list[tuple[Any, Any]] = [
        (constant, np.full((H, S, A), constant)),
        (np.full((1, 1), constant), np.full((1, S, A, S), constant)),
        (of_s, np.tile(of_s, (H, 1, A))),
        (of_s, of_s[None]),
        (of_s, np.broadcast_to(of_s[:, :, None], (1, S, A, S))),
        (of_t, np.broadcast_to(of_t, (H, S, A))),
        (of_t, np.broadcast_to(of_t[..., None], (H, S, A, S))),
    ]
    for one, other in shapes:
        values = MDP(p, one, H).optimal().values
        assert np.abs(values - MDP(p, other, H).optimal().values).max() <= 1e-14
        assert np.abs(values - ref.plan(p, full(one), H)[1]).max() <= 1e-14
    segmented = kernel(9, H)
    r = rng.random((H, S, A, S))
    assert (
        np.abs(MDP(segmented, r, H).optimal().values - ref.plan(segmented, r, H)[1]).max() <= 1e-14
    )
    assert np.abs(MDP(p, r, H).optimal().values - ref.plan(p, r, H)[1]).max() <= 1e-14


def full(r: Any) -> Floats:
    r = np.asarray(r)
    return np.broadcast_to(r, (H, S, A, S) if r.ndim == 4 else (H, S, A))


def test_start() -> None:
    p, r = kernel(10), np.random.default_rng(11).random((S, A))
    assert_same(MDP(p, r, H, 2), MDP(p, r, H, np.eye(S)[2]))
    assert_same(MDP(p, r, H), MDP(p, r, H, np.int64(0)))
    p0 = np.array([0.5, 0, 0.25, 0.25])
    mdp = MDP(p, r, H, p0)
    assert mdp.table.indices[mdp.table.entries_of(mdp.table.start)].tolist() == [0, 2, 3]
    pi = mdp.optimal().policy
    assert mdp.value(pi) == pytest.approx(p0 @ mdp.values(pi)[0], abs=1e-15)


def test_fewer_actions() -> None:
    """An action that a state lacks is as good as a copy of one that it has."""
    p, r = kernel(12), np.random.default_rng(13).random((S, A))
    have = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1], [1, 1, 1]], bool)
    copied_p, copied_r, broken_p, broken_r = p.copy(), r.copy(), p.copy(), r.copy()
    for s in range(S):
        kept = np.flatnonzero(have[s])[0]
        copied_p[s, ~have[s]], copied_r[s, ~have[s]] = p[s, kept], r[s, kept]
    broken_p[~have], broken_r[~have] = math.nan, 7
    ragged, whole = MDP(broken_p, broken_r, H, available=have), MDP(copied_p, copied_r, H)
    assert ragged.table.pairs == have.sum() == 8
    assert (ragged.table.available == have).all()
    assert np.abs(ragged.optimal().values - whole.optimal().values).max() <= 1e-14
    policy = ragged.optimal().policy
    assert have[np.arange(S), policy].all()
    assert ragged.weights(policy) == pytest.approx(whole.weights(policy), abs=1e-14)
    assert [ragged.table.pair_of(k)[1:] for k in range(8)] == [tuple(x) for x in np.argwhere(have)]
    with pytest.raises(InputError, match=r"policy\[0, 0\] = 2: state 0 has only the actions 0, 1"):
        ragged.value(np.full(S, 2))
    indptr, indices, flat = compress(copied_p, 14)
    assert_same(
        MDP(copied_p, copied_r, H, available=have),
        MDP((indptr, indices, flat), copied_r, H, available=have),
    )


@pytest.mark.parametrize("segments", [0, H])
def test_terminal(segments: int) -> None:
    """A terminal state stays, pays nothing and has one action, whatever else was given."""
    p, r = kernel(15, segments), np.random.default_rng(16).random((S, A))
    still_p, still_r = p.copy(), r.copy()
    still_p[..., [1, 3], :, :] = 0
    still_p[..., 1, :, 1] = still_p[..., 3, :, 3] = 1
    still_r[[1, 3]] = 0
    p[..., 1, :, :], r[3] = math.nan, 9
    ended, still = MDP(p, r, H, terminal=[3, 1, 3]), MDP(still_p, still_r, H)
    assert ended.problem.terminal == (1, 3)
    assert ended.table.pairs == 2 * A + 2
    assert np.abs(ended.optimal().values - still.optimal().values).max() <= 1e-14
    told = ended.problem.hiding("successors", "rewards", "initial")
    assert told.table.lengths.tolist() == ([S] * A + [1] + [S] * A + [1]) * (segments or 1) + [S]
    r4 = np.random.default_rng(17).random((1, S, A, S))
    r4[0, 1] = 5
    zeroed = np.where(np.isin(np.arange(S), [1, 3])[:, None, None], 0, r4)
    values = MDP(p, r4, H, terminal=[1, 3]).optimal().values
    assert np.abs(values - MDP(still_p, zeroed, H).optimal().values).max() <= 1e-14


def test_problem_forms() -> None:
    p, r = kernel(18), np.random.default_rng(19).random((S, A))
    mdp = MDP(p, r, H, 1)
    indptr, indices, _ = compress(p, 20)
    mask = p > 0
    for successors in (mask, mask.tolist(), (indptr, indices)):
        problem = Problem(S, A, H, r, successors, initial=1)
        assert_same_table(problem.table, mdp.table)
        assert problem.rewards is not None
        assert np.array_equal(problem.rewards.pair, mdp.rewards.pair)
        assert problem.initial is not None
        assert np.array_equal(problem.initial, mdp.initial)
    anything = Problem(S, A, H)
    assert_same_table(anything.table, Problem(S, A, H, successors=np.ones((S, A, S), bool)).table)
    assert_same_table(anything.table, mdp.problem.hiding("successors", "initial").table)
    assert anything.rewards is None
    assert anything.initial is None
    segmented = Problem(S, A, H, time_dependent=True)
    assert_same_table(
        segmented.table, Problem(S, A, H, successors=np.ones((H, S, A, S), bool)).table
    )


def test_hiding() -> None:
    p, r4 = kernel(21), np.random.default_rng(22).random((1, S, A, S))
    told = MDP(p, r4, H, [0.5, 0.5, 0, 0]).problem
    before = (told.table, told.rewards, told.initial)
    less = told.hiding("rewards")
    assert less.rewards is None
    assert_same_table(less.table, told.table)
    less = told.hiding("initial")
    assert less.initial is None
    assert less.table.lengths[-1] == S
    less = told.hiding("successors")
    assert (less.table.lengths[:-1] == S).all()
    assert less.table.lengths[-1] == 2
    assert less.rewards is not None
    assert less.rewards.successor is not None
    rows, indices = less.table.rectangular()
    spread = np.zeros((S * A, S))
    spread[rows, indices] = less.rewards.successor[0, : len(rows)]
    assert np.array_equal(spread.reshape(S, A, S), np.where(p > 0, r4[0], 0))
    assert_same_table(told.hiding().table, told.table)
    assert (told.table, told.rewards, told.initial) == before
    nothing = told.hiding("initial", "rewards", "successors")
    assert_same_table(nothing.table, Problem(S, A, H).table)
    with pytest.raises(InputError, match="cannot hide 'reward'"):
        told.hiding("reward")  # type: ignore[arg-type]


def test_hiding_rewards_that_depend_on_t() -> None:
    """Learned per row: impossible for rows that serve every t, possible for rows of one t each."""
    rng = np.random.default_rng(23)
    for r in (rng.random((H, S, A)), rng.random((H, S, A, S))):
        with pytest.raises(InputError, match="give the transitions per segment"):
            MDP(kernel(24), r, H).problem.hiding("rewards")
        assert MDP(kernel(24, H), r, H).problem.hiding("rewards").rewards is None


def test_names_and_repr() -> None:
    states, actions = ["a", "b", "c", "d"], ("x", "y", "z")
    mdp = MDP(kernel(25), 0.5, H, state_names=states, action_names=actions)
    assert mdp.problem.state_names == tuple(states)
    assert mdp.problem.hiding("rewards").action_names == actions
    assert repr(MDP(kernel(25, sparse=False), 0.5, H)) == (
        "MDP(states=4, actions=3, horizon=3, successors<=4)"
    )
    assert "time-dependent, unknown: rewards, initial" in repr(
        Problem(2, 2, 2, time_dependent=True)
    )


def test_rounding_is_renormalised() -> None:
    p = kernel(26)
    for off in (1e-10, -1e-10):
        near = p.copy()
        near[2, 1] *= 1 + off
        mdp = MDP(near, 0.5, H, np.array([0.5, 0.5 + off, 0, 0]))
        assert np.abs(mdp.table.dense(mdp.p).sum(-1) - 1).max() <= 2.0**-52
        assert np.abs(mdp.table.dense(mdp.p) - p).max() <= 1e-15
        assert abs(mdp.initial.sum() - 1) <= 2.0**-52
        assert mdp.value(np.zeros((H, S), int)) == pytest.approx(0.5 * H, abs=1e-14)


@pytest.mark.slow
@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_offered_rescaling_is_accepted(low: float, span: float, seed: int) -> None:
    p, r = kernel(27), low + span * np.random.default_rng(seed).random((S, A))
    if r.min() >= 0 and r.max() <= 1:
        return
    with pytest.raises(InputError) as caught:
        MDP(p, r, H)
    number = r"([0-9.e+-]+)"
    offer = re.search(rf"pass (?:\(rewards \+ {number}\)|rewards) / {number},", str(caught.value))
    assert offer, caught.value
    shift, scale = float(offer[1] or 0), float(offer[2])
    mdp = MDP(p, (r + shift) / scale, H)
    assert f"epsilon / {offer[2]}" in str(caught.value)
    want = (ref.plan(p, np.broadcast_to(r, (H, S, A)), H)[1][0] + H * shift) / scale
    assert mdp.optimal().values[0] == pytest.approx(want, abs=1e-9)


GOOD: dict[str, Any] = {"transitions": kernel(28), "rewards": np.full((S, A), 0.5), "horizon": H}
EMPTY, FULL = np.zeros((0, 1)), kernel(28, sparse=False)


def changed(name: str, entry: Any, value: float) -> dict[str, Any]:
    array = GOOD[name].copy()
    array[entry] = value
    return {name: array}


def rows(which: int, value: Any) -> dict[str, Any]:
    parts = list(compress(GOOD["transitions"], 29))
    parts[which] = value(parts[which])
    return {"transitions": tuple(parts)}


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (changed("transitions", (1, 2, 0), -0.1), r"state 0 after \(s=1, a=2\) is -0.1"),
        (changed("transitions", (3, 0, 2), math.nan), r"state 2 after \(s=3, a=0\) is nan"),
        (changed("transitions", (3, 0, 2), math.inf), r"state 2 after \(s=3, a=0\) is inf"),
        (changed("transitions", (0, 1, 1), 1.5), r"state 1 after \(s=0, a=1\) is 1.5"),
        (changed("transitions", (2, 1), 0), r"after \(s=2, a=1\) sum to 0: .*divide"),
        ({"transitions": FULL * (1 + 1e-6)}, r"after \(s=0, a=0\) sum to 1.000001.*divide"),
        ({"transitions": FULL * (1 - 1e-6)}, r"after \(s=0, a=0\) sum to 0.999999.*divide"),
        ({"transitions": np.zeros((S, A))}, r"shape \(4, 3\): they must be \(S, A, S\)"),
        ({"transitions": np.zeros((S, A, S + 1))}, r"shape \(4, 3, 5\)"),
        ({"transitions": kernel(28, H + 1)}, "4 segments and the horizon is 3"),
        ({"transitions": np.zeros((0, A, 0))}, r"shape \(0, 3, 0\)"),
        ({"transitions": [[[1.0], [0.5, 0.5]]]}, "transitions must be an array of numbers"),
        ({"transitions": "p"}, "transitions must be an array of numbers"),
        (rows(1, lambda x: x + 1), r"successor 4 of \(s=\d, a=\d\).*states are 0 to 3"),
        (rows(1, lambda x: x - 1), r"successor -1 of \(s=\d, a=\d\).*states are 0 to 3"),
        (rows(1, lambda x: x[:-1]), "indptr must rise from 0 to len"),
        (rows(1, lambda x: x * 0), r"\(s=\d, a=\d\) lists successor 0 twice"),
        (rows(1, lambda x: x.astype(float)), "indices must be a 1-d array of integers"),
        (rows(0, lambda x: x[:-1]), "indptr describes 11 rows: there must be"),
        (rows(0, lambda x: x[::-1]), "indptr must rise from 0"),
        (rows(2, lambda x: x[:-1]), "give one probability for each index"),
        (rows(2, lambda x: -x), r"after \(s=0, a=0\) is -"),
        ({**rows(1, np.asarray), "rewards": [0.5] * S}, r"r\(s\) is \(S, 1\)"),
        ({**rows(1, np.asarray), "rewards": EMPTY}, "rewards"),
        ({"rewards": [0.5] * A}, r"rewards have shape \(3,\).*r\(s\) is \(S, 1\) = \(4, 1\)"),
        ({"rewards": [0.5] * S}, r"rewards have shape \(4,\)"),
        ({"rewards": np.zeros((A, S))}, r"rewards have shape \(3, 4\)"),
        ({"rewards": np.zeros((H + 1, S, A))}, r"rewards have shape \(4, 4, 3\)"),
        ({"rewards": np.zeros((1, 1, S, A, S))}, "rewards have shape"),
        (changed("rewards", (2, 1), 1.5), r"reward at \(t=0, s=2, a=1\) is 1.5.*rewards / 1.5"),
        (changed("rewards", (2, 1), -1), r"s=2, a=1\) is -1.*pass \(rewards \+ 1\S*\) / 2"),
        (changed("rewards", (2, 1), math.nan), r"reward at \(t=0, s=2, a=1\) is nan"),
        (changed("rewards", (2, 1), -math.inf), r"reward at \(t=0, s=2, a=1\) is -inf"),
        ({"rewards": 2 * (np.arange(H) == 1)[:, None, None]}, r"reward at \(t=1, s=0, a=0\) is 2"),
        ({"rewards": 3 * np.ones((1, S, A, S))}, r"reward at \(t=0, s=0, a=0, s'=\d\) is 3"),
        ({"rewards": None}, "rewards"),
        ({"horizon": 0}, "horizon = 0"),
        ({"horizon": -1}, "horizon = -1"),
        ({"horizon": 2.5}, "horizon = 2.5"),
        ({"horizon": math.nan}, "horizon"),
        ({"horizon": math.inf}, "horizon"),
        ({"initial": S}, "initial state 4 does not exist: states are 0 to 3"),
        ({"initial": -1}, "initial state -1"),
        ({"initial": 0.5}, "initial state 0.5"),
        ({"initial": math.nan}, "initial"),
        ({"initial": math.inf}, "initial"),
        ({"initial": None}, "initial"),
        ({"initial": [0.5, 0.5]}, r"initial has shape \(2,\)"),
        ({"initial": [0.5, 0.6, 0, 0]}, "initial sums to 1.1.*divide"),
        ({"initial": [0.5, 0.5 + 1e-6, 0, 0]}, "initial sums to 1.000001"),
        ({"initial": [1.5, -0.5, 0, 0]}, r"initial\[1\] = -0.5"),
        ({"initial": [0.5, math.nan, 0.5, 0]}, r"initial\[1\] = nan"),
        ({"noise": "gaussian"}, "unknown noise 'gaussian'.*'bernoulli'"),
        ({"available": np.ones((S, A))}, "available has .*must be boolean"),
        ({"available": np.ones((A, S), bool)}, r"available has shape \(3, 4\)"),
        ({"available": np.arange(S)[:, None] > np.zeros(A)}, "state 0 has no action"),
        ({"terminal": [0, S]}, "terminal state 4 does not exist"),
        ({"terminal": [-1]}, "terminal state -1"),
        ({"state_names": ["a", "b"]}, "2 state names for 4 states"),
        ({"action_names": ["x", "y", "x"]}, "action name 'x' is given twice"),
    ],
)
def test_bad_mdp(change: dict[str, Any], names: str) -> None:
    with pytest.raises(InputError, match=names) as caught:
        MDP(**{**GOOD, **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"states": 0}, "states = 0"),
        ({"actions": 1.5}, "actions = 1.5"),
        ({"horizon": 0}, "horizon = 0"),
        ({"rewards": [0, 0]}, r"rewards have shape \(2,\)"),
        ({"rewards": [[0], [2]]}, "s=1, a=0"),
        ({"initial": 2}, "initial state 2 does not exist"),
        ({"successors": np.ones((2, 2, 2))}, "boolean mask .*float64"),
        ({"successors": np.ones((2, 2), bool)}, "successors must be .*mask"),
        ({"successors": np.zeros((2, 2, 2), bool)}, r"\(s=0, a=0\) has no successor"),
        ({"successors": ([0, 1, 2, 3, 4], [0, 1, 2, 0])}, r"successor 2 of \(s=1, a=0\)"),
        ({"successors": ([0, 1, 2, 3], [0, 1, 0])}, "indptr describes 3 rows"),
    ],
)
def test_bad_problem(change: dict[str, Any], names: str) -> None:
    with pytest.raises(InputError, match=names) as caught:
        Problem(**{"states": 2, "actions": 2, "horizon": 3, **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", [0, -0.1, 1.1, math.nan, math.inf])
@pytest.mark.parametrize("name", ["epsilon", "delta"])
def test_bad_accuracy(name: str, bad: float) -> None:
    problem = MDP(**GOOD).problem
    with pytest.raises(InputError, match=rf"{name} = .*outside \(0, 1\]"):
        UCFH(problem, bad if name == "epsilon" else 0.5, bad if name == "delta" else 0.5)


def test_accuracy_beyond_counting() -> None:
    """The epsilon that the message offers is accepted."""
    problem = MDP(**GOOD).problem
    with pytest.raises(InputError, match="pass at least") as caught:
        UCFH(problem, 1e-9, 0.1)
    UCFH(problem, float(str(caught.value).split()[-1]), 0.1)


def test_noisy_rewards_keep_their_mean() -> None:
    exact = MDP([[[1.0]]], rewards=[[0.3]], horizon=2)
    coins = exact.noisy()
    assert (exact.noise, coins.noise) == (None, "bernoulli")
    policy = exact.optimal().policy
    assert coins.value(policy) == exact.value(policy) == 0.6
    assert exact.variance(policy) == pytest.approx(0, abs=1e-15)
    assert coins.variance(policy) == pytest.approx(2 * 0.3 * 0.7, rel=1e-12)
