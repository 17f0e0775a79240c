"""Planning over interval MDPs against linear programming, and evaluation against all paths."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracles import reference as ref
from support.settings import many
from ucfh._kernels.interval import expectation
from ucfh._kernels.types import Layout
from ucfh.exceptions import InputError
from ucfh.mdp import MDP
from ucfh.planning import Plan, fixed_horizon_evi

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Values are at most H = 6: a thousand roundings each stay below 1e-12; HiGHS is told 1e-10.
CLOSE, TIGHT = 1e-9, 1e-12


@dataclass
class Intervals:
    """lo, hi (S,A,S) or (H,S,A,S); rewards in the shape given to the planner."""

    lo: Floats
    hi: Floats
    rewards: Floats
    horizon: int

    @property
    def full_rewards(self) -> Floats:
        shape = (self.horizon, *self.lo.shape[-3:-1])
        if self.rewards.ndim == 4:
            shape = (self.horizon, *self.lo.shape[-3:])
        return np.broadcast_to(self.rewards, shape)

    def plan(self, **options: Any) -> Plan:
        return fixed_horizon_evi(self.lo, self.hi, self.rewards, self.horizon, **options)

    def compressed(self, rng: np.random.Generator) -> tuple[Floats, Floats, Ints, Ints]:
        """lo, hi, indptr, indices over rows, each row's successors in random order."""
        flat = self.hi.reshape(-1, self.hi.shape[-1])
        rows = [rng.permutation(np.flatnonzero(row)) for row in flat]
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        indices, row_of = np.concatenate(rows), np.repeat(np.arange(len(rows)), np.diff(indptr))
        lo = self.lo.reshape(flat.shape)[row_of, indices]
        return lo, flat[row_of, indices], indptr, indices


def intervals(
    rng: np.random.Generator, S: int, A: int, H: int, segmented: bool = False
) -> Intervals:
    """Rows of every kind: unknown (0 to 1), exact, on a grid of eighths, absorbing; of mixed
    length or, in half of all cases, of one length, which may be S.
    """
    shape = (H, S, A, S) if segmented else (S, A, S)
    length = int(rng.choice([0, 0, S, int(rng.integers(1, S + 1))]))
    lo, hi = np.zeros(shape), np.zeros(shape)
    for row in np.ndindex(shape[:-1]):
        support = rng.permutation(S)[: length or rng.integers(1, S + 1)]
        p = rng.dirichlet(np.ones(len(support)))
        kind = rng.choice([0, 1, 2, 4]) if length else rng.integers(6)
        width = rng.random(len(support)) * rng.choice([0.05, 0.5])
        if kind == 0:
            lo[row][support], hi[row][support] = 0, 1
        elif kind == 1:
            lo[row][support] = hi[row][support] = p
        elif kind == 2:
            lo[row][support] = np.floor(8 * p) / 8
            hi[row][support] = np.minimum(1, np.ceil(8 * p + rng.integers(0, 2)) / 8)
        elif kind == 3:
            lo[row][row[-2]] = hi[row][row[-2]] = 1
        else:
            lo[row][support] = np.maximum(0, p - width)
            hi[row][support] = np.minimum(1, p + width)
    shapes = [(S, 1), (S, A), (1, S, A), (H, S, 1), (H, S, A), (1, S, A, S), (H, S, A, S)]
    r = rng.random(shapes[rng.integers(len(shapes))])
    if rng.random() < 0.5:
        r = np.round(2 * r) / 2
    return Intervals(lo, hi, r, H)


def chosen(x: Floats, policy: NDArray[Any]) -> Floats:
    """x (H,S,A,...) at the policy's actions: (H,S,...)."""
    t, s = np.indices(policy.shape)
    return np.asarray(x[t, s, policy.astype(np.int64)])


def check_plan(case: Intervals, plan: Plan, Q: Floats, V: Floats) -> None:
    assert plan.values.shape == V.shape
    assert plan.policy.shape == (case.horizon, V.shape[1])
    assert (plan.values[-1] == 0).all()
    assert np.abs(plan.values - V).max() <= CLOSE
    assert (chosen(Q, plan.policy) >= V[:-1] - CLOSE).all()


def check_model(case: Intervals, plan: Plan, model: Floats) -> None:
    """p~ (H,S,A,S) lies in the box, sums to one, and the policy earns the values under it."""
    assert model.shape == (case.horizon, *case.lo.shape[-3:])
    assert (model >= case.lo - TIGHT).all()
    assert (model <= case.hi + TIGHT).all()
    assert np.abs(model.sum(-1) - 1).max() <= TIGHT
    r, V = case.full_rewards, np.zeros_like(plan.values)
    for t in reversed(range(case.horizon)):
        z = V[t + 1] if r.ndim == 3 else r[t] + V[t + 1]
        q = np.einsum("sax,sax->sa", model[t], np.broadcast_to(z, model[t].shape))
        q = q + r[t] if r.ndim == 3 else q
        V[t] = np.take_along_axis(q, plan.policy[t].astype(np.int64)[:, None], 1)[:, 0]
    assert np.abs(V - plan.values).max() <= TIGHT


@pytest.mark.slow
@pytest.mark.parametrize("optimistic", [True, False], ids=["optimistic", "robust"])
@pytest.mark.parametrize("seed", range(many(40, 110)))
def test_linear_programming(seed: int, optimistic: bool) -> None:
    rng = np.random.default_rng(seed)
    S, A, H = (int(rng.integers(1, most)) for most in (5, 3, 4))
    case = intervals(rng, S, A, H, segmented=bool(seed % 3 == 0))
    Q, V = ref.evi(case.lo, case.hi, case.full_rewards, H, optimistic)
    plan = case.plan(optimistic=optimistic, return_model=True)
    check_plan(case, plan, Q, V)
    assert plan.transitions is not None
    check_model(case, plan, plan.transitions)


@pytest.mark.slow
@pytest.mark.parametrize("optimistic", [True, False], ids=["optimistic", "robust"])
@pytest.mark.parametrize("seed", range(10))
def test_long_rows(seed: int, optimistic: bool) -> None:
    """Many successors, many of equal value; the greedy oracle, as linear programming is slow."""
    rng = np.random.default_rng(1000 + seed)
    S, A, H = (40, 2, 4) if seed < 8 else (400, 1, 2)
    case = intervals(rng, S, A, H, segmented=seed % 4 == 0)
    Q, V = ref.evi(case.lo, case.hi, case.full_rewards, H, optimistic, ref.greedy_expectation)
    plan = case.plan(optimistic=optimistic, return_model=True)
    check_plan(case, plan, Q, V)
    assert plan.transitions is not None
    check_model(case, plan, plan.transitions)


@pytest.mark.parametrize("seed", range(40))
def test_compressed_rows(seed: int) -> None:
    """The same plan from compressed rows, their successors in any order."""
    rng = np.random.default_rng(2000 + seed)
    S, A, H = int(rng.integers(1, 7)), int(rng.integers(2, 4)), int(rng.integers(1, 5))
    case = intervals(rng, S, A, H, segmented=bool(seed % 2))
    if case.rewards.shape[-1] == 1 and seed % 2:
        case.rewards = case.full_rewards
    lo, hi, indptr, indices = case.compressed(rng)
    dense = case.plan(return_model=True)
    plan = fixed_horizon_evi(
        lo, hi, case.rewards, H, indptr=indptr, indices=indices, return_model=True
    )
    assert np.abs(plan.values - dense.values).max() <= TIGHT
    assert plan.transitions is not None
    assert plan.transitions.shape == ((len(indices),) if seed % 2 and H > 1 else (H, len(indices)))
    model, row_of = np.zeros((H, S, A, S)), np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    if seed % 2 and H > 1:
        model.reshape(-1, S)[row_of, indices] = plan.transitions
    else:
        model.reshape(H, -1, S)[:, row_of, indices] = plan.transitions
    check_model(case, plan, model)


def test_ties_go_to_the_lowest_action() -> None:
    """Eighths and halves are exact in floating point, so equal values are equal."""
    for seed in range(60):
        rng = np.random.default_rng(3000 + seed)
        S, A, H = 4, 3, 3
        p = rng.multinomial(8, np.full(S, 1 / S), (S, A)) / 8
        more = rng.integers(seed % 2, 3, p.shape) / 8
        lo, hi = np.maximum(0, p - 1 / 8), np.minimum(1, p + more)
        r = rng.integers(0, 2, (S, A)) / 2
        Q, _ = ref.evi(lo, hi, np.broadcast_to(r, (H, S, A)), H, True, ref.greedy_expectation)
        assert (fixed_horizon_evi(lo, hi, r, H).policy == Q.argmax(2)).all()


@pytest.mark.parametrize("seed", range(20))
def test_order_of_states_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(4000 + seed)
    S, A, H = 7, 2, 4
    case = intervals(rng, S, A, H)
    case.rewards = rng.integers(0, 2, (S, A)) / 2
    pi = rng.permutation(S)
    shuffled = Intervals(case.lo[pi][:, :, pi], case.hi[pi][:, :, pi], case.rewards[pi], H)
    for optimistic in (True, False):
        values = case.plan(optimistic=optimistic).values
        assert np.abs(shuffled.plan(optimistic=optimistic).values - values[:, pi]).max() <= TIGHT


EIGHTHS = st.integers(0, 8)


@pytest.mark.slow
@given(st.lists(st.tuples(EIGHTHS, EIGHTHS, st.integers(0, 3)), min_size=1, max_size=9))
@settings(max_examples=700, deadline=None, derandomize=True)
def test_one_row(cells: list[tuple[int, int, int]]) -> None:
    """All small rows on a grid, where every sum is exact: lo, hi in eighths, four values."""
    lo = np.array([min(a, b) for a, b, _ in cells]) / 8
    hi = np.array([max(a, b) for a, b, _ in cells]) / 8
    v = np.array([z for _, _, z in cells], np.float64)
    if not lo.sum() <= 1 <= hi.sum():
        lo, hi = lo / max(1, math.ceil(lo.sum())) / 2, np.ones_like(hi)
    none, ends, indices = np.zeros(0, np.int64), np.array([0, len(v)]), np.arange(len(v))
    layout = Layout(none, none, ends, indices.astype(np.int32), 0)
    best = expectation(0, layout, lo, hi, v, 1.0)
    worst = expectation(0, layout, lo, hi, v, -1.0)
    assert best == pytest.approx(ref.greedy_expectation(lo, hi, v, True), abs=TIGHT)
    assert worst == pytest.approx(ref.greedy_expectation(lo, hi, v, False), abs=TIGHT)


@pytest.mark.parametrize("off", [-9e-10, 9e-10])
def test_rounding_goes_to_the_best(off: float) -> None:
    """Bounds that sum to one only up to rounding still give a p~ that does."""
    lo = hi = np.array([[[0.25, 0.5, 0.25 + off]]] * 3)
    for optimistic in (True, False):
        plan = fixed_horizon_evi(lo, hi, [[0.0], [1.0], [0.5]], 2, optimistic, return_model=True)
        assert plan.transitions is not None
        best = np.eye(3)[1 if optimistic else 0]
        assert plan.transitions[0, 0, 0] == pytest.approx(lo[0, 0] - off * best, abs=1e-15)
        # the residue -off goes to the best successor, of value 1 or (robust) 0
        moved = 0.625 + off * 0.5 - (off if optimistic else 0)
        assert plan.values[0] == pytest.approx(np.array([0, 1, 0.5]) + moved, abs=1e-15)


@pytest.mark.parametrize("seed", range(25))
def test_exact_bounds_are_exact_planning(seed: int) -> None:
    rng = np.random.default_rng(5000 + seed)
    S, A, H = int(rng.integers(1, 7)), int(rng.integers(1, 4)), int(rng.integers(1, 6))
    p = rng.dirichlet(np.ones(S), (S, A) if seed % 2 else (H, S, A))
    r = rng.random([(S, 1), (H, S, A), (1, S, A, S), (H, S, A, S)][seed % 4])
    case = Intervals(p, p, r, H)
    Q, V = ref.plan(p, case.full_rewards, H)
    for optimistic in (True, False):
        check_plan(case, case.plan(optimistic=optimistic), Q, V)
    check_plan(case, MDP(p, r, H).optimal(), Q, V)
    # and a wider box brackets it
    slack = 0.3 * rng.random(p.shape)
    wide = Intervals(np.maximum(0, p - slack), np.minimum(1, p + slack), r, H)
    assert (wide.plan().values >= V - TIGHT).all()
    assert (wide.plan(optimistic=False).values <= V + TIGHT).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_policy_evaluation(seed: int) -> None:
    """Value, occupancy, weights and variance against the enumeration of all paths."""
    rng = np.random.default_rng(6000 + seed)
    S, A, H = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 5))
    p = rng.dirichlet(np.full(S, 0.5), (S, A) if seed % 2 else (H, S, A))
    p[p < 0.05] = 0
    p /= p.sum(-1, keepdims=True)
    shapes = [(), (S, 1), (S, A), (H, 1, 1), (H, S, A), (1, S, A, S), (H, S, A, S)]
    r = rng.random(shapes[seed % 7])
    full = np.broadcast_to(r, (H, S, A, S) if r.ndim == 4 else (H, S, A))
    p0 = rng.dirichlet(np.ones(S)) if seed % 3 else np.eye(S)[rng.integers(S)]
    noise: Any = "bernoulli" if seed % 5 < 2 else None
    mdp = MDP(p, r, H, initial=p0, noise=noise)
    policy = rng.integers(0, A, (H, S))
    assert mdp.value(policy) == pytest.approx(ref.value(p, full, p0, policy), abs=TIGHT)
    assert np.abs(mdp.occupancy(policy) - ref.segment_occupancy(p, p0, policy)).max() <= TIGHT
    weights = mdp.weights(policy)
    assert np.abs(weights - ref.occupancy(p, p0, policy)).max() <= TIGHT
    assert weights.sum() == pytest.approx(H, abs=TIGHT)
    variance = ref.return_variance(p, full, p0, policy, bernoulli=noise is not None)
    assert mdp.variance(policy) == pytest.approx(variance, abs=TIGHT)
    steady = policy[0]
    assert mdp.value(steady) == mdp.value(np.tile(steady, (H, 1)))
    assert (mdp.weights(steady) == mdp.weights(np.tile(steady, (H, 1)))).all()
    values = mdp.values(policy)
    assert values.shape == (H + 1, S)
    assert mdp.value(policy) == pytest.approx(float(p0 @ values[0]), abs=TIGHT)
    assert mdp.value(mdp.optimal().policy) >= mdp.value(policy) - TIGHT


def test_variance_does_not_cancel() -> None:
    """A sure return has variance 0, however large; a rare one keeps its relative accuracy."""
    H, rare = 1000, 1e-12
    sure = MDP([[[1.0]]], [[1.0]], H)
    assert sure.variance([0]) == 0
    split = MDP([[[0, 1 - rare, rare]], [[0, 1, 0]], [[0, 0, 1]]], [[1], [1], [0]], H)
    # the return is H or, with probability 1e-12, 1
    want = rare * (1 - rare) * (H - 1) ** 2
    assert split.variance([0, 0, 0]) == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        ([0, 2], r"policy\[0, 1\] = 2"),
        ([[0, 0], [0, -1], [0, 0]], r"policy\[1, 1\] = -1"),
        ([[0, 0]], "shape"),
        ([0, 0, 0], "shape"),
        ([0, 0.5], "policy"),
        ([0, math.nan], "policy"),
    ],
)
def test_bad_policies(policy: Any, names: str) -> None:
    mdp = MDP(np.full((2, 2, 2), 0.5), [[0.0], [1.0]], 3)
    for use in (mdp.value, mdp.occupancy, mdp.weights, mdp.variance):
        with pytest.raises(InputError, match=names):
            use(policy)


def box(**changes: Any) -> dict[str, Any]:
    """A good call for S = 3, A = 2, H = 2, but for the changes."""
    given = {
        "lo": np.full((3, 2, 3), 0.2),
        "hi": np.full((3, 2, 3), 0.5),
        "rewards": np.zeros((3, 2)),
        "horizon": 2,
    }
    return {**given, **changes}


def changed(which: str, entry: Any, value: float) -> dict[str, Any]:
    call = box()
    call[which][entry] = value
    return call


def only_negative() -> dict[str, Any]:
    """A negative lower bound where the upper one is 0."""
    call = box(lo=np.zeros((3, 2, 3)), hi=np.ones((3, 2, 3)))
    call["lo"][0, 1, 1], call["hi"][0, 1, 1] = -0.1, 0
    return call


CSR = {"indptr": [0, 3, 4, 5, 6, 7, 8], "indices": [0, 1, 2, 0, 0, 1, 1, 2], "lo": np.zeros(8)}
ROWS: dict[str, Any] = {**box(), **CSR, "hi": np.ones(8)}


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (changed("lo", (2, 1, 0), 0.6), r"state 0 after \(s=2, a=1\)"),
        (changed("lo", (1, 0, 2), math.nan), r"state 2 after \(s=1, a=0\)"),
        (changed("hi", (1, 0, 2), math.nan), r"state 2 after \(s=1, a=0\)"),
        (changed("lo", (0, 1, 1), -0.1), r"state 1 after \(s=0, a=1\)"),
        (changed("hi", (0, 1, 1), 1.1), r"state 1 after \(s=0, a=1\)"),
        (changed("hi", (0, 1, 1), -0.1), r"state 1 after \(s=0, a=1\)"),
        (only_negative(), r"state 1 after \(s=0, a=1\)"),
        (changed("lo", (2, 0), 0.4), r"\(s=2, a=0\): lo sums to 1.2"),
        (changed("hi", (2, 0), 0.3), r"\(s=2, a=0\).* hi to 0.9"),
        ({**changed("hi", (2, 0), 0), "lo": np.zeros((3, 2, 3))}, r"\(s=2, a=0\)"),
        (box(lo=np.zeros((3, 2, 2))), r"lo has shape \(3, 2, 2\) and hi \(3, 2, 3\)"),
        (box(lo=np.zeros((2, 2, 3)), hi=np.ones((2, 2, 3))), r"\(2, 2, 3\)"),
        (
            box(lo=np.zeros((3, 3, 2, 3)), hi=np.ones((3, 3, 2, 3))),
            "3 segments and the horizon is 2",
        ),
        (box(lo=[[0], [0, 1]]), "lo must be an array of numbers"),
        (box(hi="many"), "hi must be an array of numbers"),
        (box(rewards=[0, 0, 0]), r"rewards have shape \(3,\)"),
        (box(rewards=np.zeros((4, 2))), r"rewards have shape \(4, 2\)"),
        (box(rewards=[[0], [0], [2]]), "s=2"),
        (box(horizon=0), "horizon = 0"),
        (box(horizon=1.5), "horizon = 1.5"),
        ({**ROWS, "indices": [0, 1, 3, 0, 0, 1, 1, 2]}, r"successor 3 of \(s=0, a=0\)"),
        ({**ROWS, "indices": [0, 1, 2, 0, 0, 1, -1, 2]}, r"successor -1 of \(s=2, a=0\)"),
        ({**ROWS, "indices": [0, 1, 1, 0, 0, 1, 1, 2]}, r"\(s=0, a=0\) lists successor 1 twice"),
        ({**ROWS, "indptr": [0, 3, 3, 5, 6, 7, 8]}, r"\(s=0, a=1\) has no successor"),
        ({**ROWS, "indptr": [0, 3, 4, 5, 6, 7]}, "indptr describes 5 rows"),
        ({**ROWS, "indptr": [0, 4, 3, 5, 6, 7, 8]}, "falls"),
        ({**ROWS, "indptr": [0, 3, 4, 5, 6, 7, 9]}, "indptr must rise from 0 to"),
        ({**ROWS, "indptr": [0.0, 3, 4, 5, 6, 7, 8]}, "indptr must be a 1-d array of"),
        ({**ROWS, "indices": None}, "indices"),
        ({**ROWS, "hi": [1, 1, 1, 1, 1, 0.5, 1, 1]}, r"\(s=1, a=1\).* hi to 0.5"),
        ({**ROWS, "lo": np.zeros(7), "hi": np.ones(7)}, r"\(7,\).*\(8,\)"),
    ],
)
def test_bad_bounds(call: dict[str, Any], names: str) -> None:
    assert fixed_horizon_evi(**box()).policy.shape == (2, 3)
    assert fixed_horizon_evi(**ROWS).policy.shape == (2, 3)
    with pytest.raises(InputError, match=names) as caught:
        fixed_horizon_evi(**call)
    assert "\n" not in str(caught.value)


def test_too_large_for_memory() -> None:
    """Refused before anything is allocated, with the bytes that it would need."""
    one = np.ones((1, 1, 1))
    with pytest.raises(InputError, match=r"a plan needs about 9000000000008 bytes of memory"):
        fixed_horizon_evi(one, one, [[0.0]], 10**12)
    many = np.ones((1, 1000, 1))
    with pytest.raises(InputError, match=r"p~ needs about 800000000000000 bytes of memory"):
        fixed_horizon_evi(many, many, [[0.0]], 10**11, return_model=True)


def test_bad_segment_is_named() -> None:
    lo, hi = np.zeros((2, 3, 2, 3)), np.ones((2, 3, 2, 3))
    lo[1, 2, 0, 1] = 1.5
    with pytest.raises(InputError, match=r"state 1 after \(t=1, s=2, a=0\)"):
        fixed_horizon_evi(lo, hi, np.zeros((3, 2)), 2)


@pytest.mark.slow
def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On several threads, however many states a block has: the same to the bit."""
    monkeypatch.setattr("ucfh.planning.optimistic.MIN_PARALLEL", 0)
    rng = np.random.default_rng(0)
    for S, length in ((1, 1), (3, 3), (7, 2), (300, 20), (40, 40)):
        case = intervals(rng, S, 3, 6)
        lo, hi, indptr, indices = case.compressed(rng)
        call: dict[str, Any] = {"indptr": indptr, "indices": indices} if length < S else {}
        bounds = (lo, hi) if length < S else (case.lo, case.hi)
        for optimistically in (True, False):
            plans = [
                fixed_horizon_evi(
                    *bounds, case.full_rewards, 6, optimistically, threads=threads, **call
                )
                for threads in (1, 2, 5, None)
            ]
            for plan in plans[1:]:
                np.testing.assert_array_equal(plan.values, plans[0].values)
                np.testing.assert_array_equal(plan.policy, plans[0].policy)
    with pytest.raises(InputError, match="threads = 0"):
        fixed_horizon_evi(**box(threads=0))


def test_values_that_differ_by_rounding_are_ties() -> None:
    """Ten ways to add up the same reward: the first action is taken, by either planner."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(9), 9)[:, None, :] * np.ones((1, 10, 1))
    p[:, 1:] *= 1 + rng.uniform(-4e-16, 4e-16, (9, 9, 1))
    mdp = MDP(p, rng.random((9, 1)), 30)
    assert (mdp.optimal().policy == 0).all()
    q = mdp.table.dense(mdp.p)
    plan = fixed_horizon_evi(
        q * 0.9, np.minimum(q * 1.1, 1), mdp.rewards.pair[0].reshape(9, 10), 30
    )
    assert (plan.policy == 0).all()
