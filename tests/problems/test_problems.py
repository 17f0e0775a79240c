"""Every named problem against its definition and its optimum, and invalid names."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import product
from math import comb, e
from typing import Any

import numpy as np
import pytest

from oracles.reference import hard_mdp
from support.problems import dense, optimum, reward
from ucfh import InputError
from ucfh.problems import catalogue, hypotheses, make
from ucfh.problems.classic import _draw_sets

# the catalogue


def test_catalogue_lists_every_problem_with_a_summary_of_one_line() -> None:
    names = ["hard", "chain", "riverswim", "deepsea", "grid", "random"]
    assert list(catalogue()) == [*names, "tutoring", "revenue", "calls", "gym"]
    for builder in catalogue().values():
        summary, blank = (builder.__doc__ or "").splitlines()[:2]
        assert summary.endswith(".")
        assert not blank.strip()
        assert "Optimum" in (builder.__doc__ or "")


@pytest.mark.parametrize(
    ("name", "shape", "best"),
    [
        ("hard", (13, 4, 10, 10), 5.6),
        ("chain", (5, 2, 5, 2), 0.5192),
        ("chain:linear=1", (5, 2, 5, 2), 1.7536),
        ("riverswim", (6, 2, 12, 3), 0.762392),
        ("deepsea", (100, 2, 10, 1), 1.0),
        ("grid", (25, 4, 20, 4), 11.224546),
        ("random", (20, 3, 5, 20), 2.889866),
        ("tutoring", (9, 4, 10, 6), 0.85505),
        ("revenue", (21, 4, 13, 5), 3.34043),
        ("calls", (8, 6, 8, 4), 0.919154),
        ("gym:FrozenLake-v1,horizon=20", (17, 4, 20, 3), 0.199133),
        ("gym:FrozenLake-v1", (17, 4, 100, 3), 0.74419),
        ("gym:CliffWalking-v1,horizon=20", (49, 4, 20, 1), 19.87),
        ("gym:Taxi-v4", (501, 6, 200, 1), 66.931),
    ],
)
def test_sizes_and_optima_as_documented(name: str, shape: tuple[int, ...], best: float) -> None:
    mdp = make(name)
    successors = int(mdp.table.lengths[:-1].max())
    assert (mdp.states, mdp.actions, mdp.horizon, successors) == shape
    assert optimum(mdp) == pytest.approx(best, abs=5e-7)


@pytest.mark.parametrize(
    "name",
    [
        "hard:n=1,actions=1,horizon=1",
        "hard:n=1,actions=2,horizon=2,gap=0.5",
        "hard:n=2,actions=1,horizon=3,gap=0",
        "chain:n=2,horizon=1",
        "chain:n=7,horizon=3,slip=1",
        "chain:n=2,slip=0,linear=true",
        "riverswim:n=2,horizon=1",
        "deepsea:n=1",
        "deepsea:n=1,slip=1",
        "deepsea:n=7,slip=0.3",
        "grid:rows=1,cols=1",
        "grid:rows=1,cols=7,slip=1,horizon=1",
        "grid:rows=6,cols=1,slip=0",
        "random:states=1,actions=1,horizon=1",
        "random:states=7,actions=1,successors=1,horizon=3,segments=1",
        "random:states=9,actions=2,successors=8,horizon=4,alpha=0.01,segments=1",
        "random:states=7,actions=2,successors=2,horizon=1,segments=1",
        "tutoring:horizon=1",
        "tutoring:horizon=2",
        "revenue:stock=1,horizon=1",
        "revenue:stock=3,horizon=2",
        "calls:horizon=1",
        "gym:CliffWalking-v1,horizon=1",
        "gym:FrozenLake-v1,horizon=1,success_rate=1.0",
    ],
)
def test_odd_sizes(name: str) -> None:
    mdp = make(name)
    parts = [mdp.rewards.pair]
    if mdp.rewards.successor is not None:
        parts.append(mdp.rewards.successor)
    assert all(((part >= 0) & (part <= 1)).all() for part in parts)
    assert 0 <= optimum(mdp) <= mdp.horizon + 1e-12
    assert np.allclose(np.add.reduceat(mdp.p, mdp.table.indptr[:-1]), 1)
    assert mdp.occupancy(mdp.optimal().policy).sum() == pytest.approx(mdp.horizon)


def test_a_name_is_a_function_call() -> None:
    name = "hard:n=3, actions=2 ,horizon=4,gap=0.125,bias=0.0,hypothesis=1-0-1"
    same = catalogue()["hard"](n=3, actions=2, horizon=4, gap=0.125, bias=0.0, hypothesis="1-0-1")
    assert np.array_equal(make(name).p, same.p)
    assert make("random:seed=1").p.tolist() == make("random:seed=1").p.tolist()
    assert make("random:seed=1").p.tolist() != make("random:seed=2").p.tolist()
    assert make("hard:seed=1").p.tolist() != make("hard:seed=2").p.tolist()


# the paper's hard class


def test_hard_is_figure_1_for_every_hypothesis_of_a_small_class() -> None:
    n, A, H, gap = 2, 3, 6, 0.25
    whole = list(hypotheses(n, A))
    assert len(set(whole)) == A**n
    for text in whole:
        p, r, p0, best = hard_mdp(n, A, H, gap, [int(i) for i in text.split("-")])
        mdp = make(f"hard:n={n},actions={A},horizon={H},gap={gap},hypothesis={text}")
        assert np.allclose(dense(mdp), p, atol=1e-15)
        assert np.array_equal(mdp.mean_rewards.reshape(-1, A), r[0])
        assert np.array_equal(mdp.initial, p0)
        assert optimum(mdp) == pytest.approx(best, abs=1e-12)
    assert mdp.problem.state_names == ("0", "1", "2", "+", "-")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bias", ["", ",bias=0", ",bias=0.4"])
def test_hard_optimum_formula(seed: int, bias: str) -> None:
    n, A, H = 7, 3, 9
    mdp = make(f"hard:n={n},actions={A},horizon={H},gap=0.2,seed={seed}{bias}")
    lead = dense(mdp)[1 : n + 1, :, n + 1] - 0.5
    first = float(bias.partition("bias=")[2] or 0.1)
    assert np.allclose(lead[:, 0], first)
    assert (np.isclose(lead[:, 1:], 0.2).sum(axis=1) <= 1).all()
    assert np.isin(lead[:, 1:].round(12), [0, 0.2]).all()
    assert optimum(mdp) == pytest.approx((H - 2) * (0.5 + lead.max(axis=1).mean()), abs=1e-12)


def test_hard_seeds_draw_from_the_whole_class() -> None:
    drawn = set()
    for seed in range(60):
        lead = dense(make(f"hard:n=2,actions=2,seed={seed}"))[1:3, 1, 3]
        drawn.add(tuple(lead))
    assert drawn == set(product([0.5, 0.75], repeat=2))


def test_hard_gap_of_the_proof() -> None:
    epsilon, H = 1e-4, 10
    mdp = make(f"hard:n=1,actions=2,horizon={H},hypothesis=1,epsilon={epsilon}")
    gap = 16 * epsilon * e**4 / ((H - 2) * 0.1)
    assert dense(mdp)[1, :, 2] == pytest.approx([0.5 + gap / 2, 0.5 + gap])
    most = (H - 2) / (640 * e**4)
    mdp = make(f"hard:n=1,actions=2,horizon={H},hypothesis=1,epsilon={most!r}")
    assert dense(mdp)[1, 1, 2] == pytest.approx(0.75)
    with pytest.raises(InputError, match=r"epsilon=0.00023.* at most .* = 0.000228945"):
        make("hard:horizon=10,epsilon=0.00023")


# the classics


def test_chain_is_the_slip_chain() -> None:
    mdp = make("chain")
    p = dense(mdp)
    for s, a, following in product(range(5), range(2), range(5)):
        right = 0.8 if a == 1 else 0.2
        expected = right * (following == min(s + 1, 4)) + (1 - right) * (following == max(s - 1, 0))
        assert p[s, a, following] == pytest.approx(expected, abs=1e-15)
        assert reward(mdp, s, a) == {0: 0.05, 4: 1.0}.get(s, 0.0)
        assert reward(make("chain:linear=1"), s, a) == s / 4
    assert mdp.initial.tolist() == [1, 0, 0, 0, 0]
    assert mdp.horizon == 5
    assert make("chain:n=8").horizon == 8


@pytest.mark.parametrize(("n", "H"), [(2, 1), (4, 3), (5, 5), (5, 9), (30, 31), (30, 40)])
def test_chain_without_slips(n: int, H: int) -> None:
    best = optimum(make(f"chain:n={n},horizon={H},slip=0"))
    assert best == pytest.approx(max(0.05 * H, 0.05 + H - n + 1))
    if n <= H:
        assert optimum(make(f"chain:n={n},horizon={H},slip=0,linear=1")) == pytest.approx(H - n / 2)


def test_riverswim_is_the_river() -> None:
    mdp = make("riverswim")
    left, right = np.zeros((6, 6)), np.zeros((6, 6))
    for s in range(6):
        left[s, max(s - 1, 0)] = 1
    right[0, [0, 1]] = 0.4, 0.6
    for s in range(1, 5):
        right[s, [s - 1, s, s + 1]] = 0.05, 0.6, 0.35
    right[5, [4, 5]] = 0.4, 0.6
    assert np.allclose(dense(mdp), np.stack([left, right], axis=1), atol=1e-15)
    for s, a in product(range(6), range(2)):
        assert reward(mdp, s, a) == {0: 0.005, 5: 1.0}.get(s, 0.0)
    assert mdp.initial[0] == 1
    assert optimum(make("riverswim:n=6,horizon=5")) == pytest.approx(0.025)


@pytest.mark.parametrize("slip", [0.0, 0.1, 0.9])
def test_deepsea_optimum(slip: float) -> None:
    n, cost = 8, 0.01 / 8
    best = 1.0
    for k in reversed(range(n - 1)):
        best = max((n - k) * cost, (1 - slip) * best + slip * (n - k - 1) * cost)
    assert optimum(make(f"deepsea:n={n},slip={slip}")) == pytest.approx(best, abs=1e-12)


def test_deepsea_is_bsuite_plus_a_hundredth() -> None:
    n = 5
    mdp = make(f"deepsea:n={n}")
    rng = np.random.default_rng(0)
    walks = [np.ones(n, int), np.zeros(n, int), *rng.integers(2, size=(20, n))]
    for actions in walks:
        column, total = 0, 0.0
        for right in actions:
            if right:
                total += (column == n - 1) - 0.01 / n
            column = int(np.clip(column + (1 if right else -1), 0, n - 1))
        policy = np.repeat(actions[:, None], n * n, axis=1)
        assert mdp.value(policy) == pytest.approx(total + 0.01)


@pytest.mark.parametrize(("rows", "cols", "H"), [(1, 1, 4), (3, 4, 10), (4, 3, 5), (4, 3, 4)])
def test_grid_without_slips(rows: int, cols: int, H: int) -> None:
    mdp = make(f"grid:rows={rows},cols={cols},slip=0,horizon={H}")
    assert optimum(mdp) == max(0, H - (rows + cols - 2))


def test_grid_entry_by_entry() -> None:
    rows, cols, slip = 3, 4, 0.2
    expected = np.zeros((12, 4, 12))
    for y, x, a, way in product(range(rows), range(cols), range(4), range(4)):
        dy, dx = [(-1, 0), (0, 1), (1, 0), (0, -1)][way]
        to = min(max(y + dy, 0), rows - 1) * cols + min(max(x + dx, 0), cols - 1)
        s = y * cols + x
        expected[s, a, 11 if s == 11 else to] += slip / 4 + (1 - slip) * (a == way)
    mdp = make(f"grid:rows={rows},cols={cols},slip={slip}")
    assert np.allclose(dense(mdp), expected, atol=1e-15)
    assert [reward(mdp, s, 0) for s in range(12)] == [0.0] * 11 + [1.0]


@pytest.mark.verify
@pytest.mark.slow
def test_large_problems_are_built_sparsely() -> None:
    start = time.perf_counter()
    mdp = make("grid:rows=100,cols=100,horizon=200")
    assert time.perf_counter() - start < 2
    assert mdp.table.lengths.max() <= 5
    start = time.perf_counter()
    mdp = make("random:states=100000,actions=4,successors=10")
    assert time.perf_counter() - start < 20
    assert mdp.table.entries == 4_000_001


def test_random_problem_by_its_parameters() -> None:
    mdp = make("random:states=8,actions=2,successors=3,horizon=4,alpha=0.5")
    assert (mdp.table.lengths[:-1] == 3).all()
    segmented = make("random:states=8,actions=2,successors=3,horizon=4,segments=1")
    assert segmented.table.segments == 4
    assert not np.array_equal(dense(segmented)[0], dense(segmented)[1])
    single = make("random:states=8,actions=1,successors=3,horizon=4,segments=1")
    assert (single.table.segments, single.actions) == (4, 1)
    assert (single.table.lengths[:-1] == 3).all()
    assert make("random:successors=20").p.tolist() == make("random").p.tolist()
    full = make("random:states=2,actions=5000")
    assert full.mean_rewards[0, 0] == full.mean_rewards[0, 4999]
    assert dense(full)[0, :, 0].var() == pytest.approx(1 / 12, rel=0.05)
    peaked = make("random:states=2,actions=5000,alpha=2")
    assert dense(peaked)[0, :, 0].var() == pytest.approx(1 / 20, rel=0.05)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_random_sets_are_equally_likely(size: int) -> None:
    draws = 6000
    sets = _draw_sets(np.random.default_rng(0), draws, 5, size)
    assert (np.diff(sets, axis=1) > 0).all()
    _, counts = np.unique(sets, axis=0, return_counts=True)
    ways = comb(5, size)
    assert len(counts) == ways
    assert (np.abs(counts - draws / ways) < 5 * np.sqrt(draws / ways)).all()


# bad names


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("", "problem"),
        ("chian", "did you mean 'chain'"),
        ("chian:n=5", "did you mean 'chain'"),
        ("hard:", "'hard:'"),
        ("hard:gapp=0.1", "did you mean 'gap'"),
        ("hard:n=abc", "n=abc"),
        ("hard:n=2.5", "n=2.5"),
        ("hard:gap=x", "gap=x"),
        ("hard:bias=x", "bias=x"),
        ("chain:linear=maybe", "linear=maybe"),
        ("hard:n", "'n'"),
        ("hard:n=", "'n='"),
        ("hard:=3", "'=3'"),
        ("hard:n=3,,gap=0.1", "''"),
        ("hard:n=3,n=4", "twice"),
        ("hard:n=0", "n=0"),
        ("hard:n=100000000000", "n=100000000000"),
        ("hard:n=1000000,actions=10000", "30000000000"),
        ("hard:actions=0", "actions=0"),
        ("hard:horizon=0", "horizon=0"),
        ("hard:seed=-1", "seed=-1"),
        ("hard:gap=0.6", "gap=0.6"),
        ("hard:gap=nan", "gap=nan"),
        ("hard:bias=-0.1", "bias=-0.1"),
        ("hard:n=3,hypothesis=0-1", "hypothesis=0-1"),
        ("hard:n=1,hypothesis=4", "hypothesis=4"),
        ("hard:n=2,hypothesis=0-x", "hypothesis=0-x"),
        ("hard:epsilon=0", "epsilon=0"),
        ("hard:epsilon=nan", "epsilon=nan"),
        ("hard:epsilon=0.1,horizon=2", "horizon=2"),
        ("chain:n=1", "n=1"),
        ("chain:horizon=-1", "horizon=-1"),
        ("chain:slip=1.5", "slip=1.5"),
        ("riverswim:n=1", "n=1"),
        ("riverswim:horizon=0", "horizon=0"),
        ("deepsea:n=0", "n=0"),
        ("deepsea:slip=-1", "slip=-1"),
        ("grid:rows=0", "rows=0"),
        ("grid:cols=0", "cols=0"),
        ("grid:slip=2", "slip=2"),
        ("grid:rows=1000000,cols=1000", "transitions"),
        ("random:states=0", "states=0"),
        ("random:actions=0", "actions=0"),
        ("random:successors=21", "successors=21"),
        ("random:alpha=0", "alpha=0"),
        ("random:states=100000", "transitions"),
        ("random:horizon=0", "horizon=0"),
        ("tutoring:horizon=0", "horizon=0"),
        ("revenue:stock=0", "stock=0"),
        ("revenue:horizon=0", "horizon=0"),
        ("calls:horizon=0", "horizon=0"),
        ("gym", "environment"),
        ("gym: ", "environment"),
        ("gym:horizon=20", "environment"),
        ("gym:FrozenLake-v1,20", "'20'"),
        ("gym:FrozenLake-v1,horizon=x", "horizon=x"),
        ("gym:FrozenLake-v1,horizon=-1", "horizon=-1"),
        ("gym:FrozenLake", "did you mean 'FrozenLake-v1'"),
        ("gym:Taxi-v3", "did you mean 'Taxi-v4'"),
        ("gym:a b", "'a b'"),
        ("gym:no_such_module:X-v0", "'no_such_module'"),
        ("gym::X-v0", "':X-v0'"),
        ("gym:CliffWalking-v1", "horizon"),
        ("gym:CartPole-v1", "unwrapped.P"),
        ("gym:FrozenLake-v1,slippery=0", "did you mean 'is_slippery'"),
        ("gym:FrozenLake-v1,render_mode=human", "'render_mode'"),
        ("gym:FrozenLake-v1,map_name=9x9", "map_name=9x9"),
        ("no_such_model.json", "no_such_model.json"),
    ],
)
def test_bad_names(name: str, token: str) -> None:
    with pytest.raises(InputError) as caught:
        make(name)
    assert token in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_values_of_a_function() -> None:
    for n in (2.5, True, float("inf"), "3"):
        with pytest.raises(InputError, match="n="):
            catalogue()["chain"](n=n)


def test_gym_without_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(InputError, match=r"pip install gymnasium$"):
        make("gym:FrozenLake-v1")


def test_import_is_light() -> None:
    code = "import sys, ucfh.problems; print({'numba', 'gymnasium', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_models_are_read_by_their_ending(tmp_path: Any) -> None:
    from ucfh.io import write_model

    mdp = make("calls")
    for name in ("model.json", "model.npz"):
        path = str(tmp_path / name)
        write_model(mdp, path)
        assert optimum(make(path)) == pytest.approx(optimum(mdp), abs=1e-12)
        assert optimum(make(tmp_path / name)) == optimum(make(path))
    for odd in (None, 3, ["chain"], b"chain"):
        with pytest.raises(InputError):
            make(odd)  # type: ignore[arg-type]
