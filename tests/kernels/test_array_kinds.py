"""However arrays lie in memory: the same compiled code, or a user would wait for it once more."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ucfh import MDP, _kernels, fixed_horizon_evi, simulate
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.sparse_counts import SparseCounts

Floats = NDArray[np.float64]
H, S, A = 4, 3, 2


def kinds() -> dict[str, int]:
    """For how many kinds of arguments each kernel is compiled, or was loaded, in this process."""
    names = [x.name for x in pkgutil.iter_modules(_kernels.__path__) if x.name != "compiling"]
    modules = [import_module(f"{_kernels.__name__}.{name}") for name in names]
    return {
        f"{module.__name__}.{name}": len(x.signatures)
        for module in modules
        for name, x in vars(module).items()
        if hasattr(x, "signatures")
    }


def use(rewards: Floats, policy: Any) -> None:
    """Plan, evaluate and learn."""
    p = np.random.default_rng(0).dirichlet(np.ones(S), (S, A))
    mdp = MDP(p, rewards, H)
    mdp.optimal()
    mdp.value(policy)
    fixed_horizon_evi(0.5 * p, np.minimum(1, 1.5 * p), rewards, H)
    simulate(mdp, CertifiedUCFH(mdp.problem, 0.5, 0.1), episodes=9, seed=0)


@pytest.mark.parametrize("shape", [(S, A), (S, A, S)], ids=["pair", "successor"])
def test_rewards_and_policies(shape: tuple[int, ...]) -> None:
    r = np.random.default_rng(1).random((H, *shape))
    use(r[:1].copy(), np.zeros((H, S), int))
    before = kinds()
    assert sum(before.values()) > 0
    use(r, np.zeros((H, S), int))
    use(np.asfortranarray(r), np.zeros(S, int))
    use(np.broadcast_to(r[0], r.shape), np.zeros((S, H), int).T)
    assert kinds() == before


def test_states_that_are_found() -> None:
    """Those of a task that is not known in advance are like those of one that is."""
    found = SparseCounts(H, A)
    for available in (None, np.array([True, False]), None):
        found.find(available)
    assert found.pairs.action.tolist() == [0, 1, 0, 0, 1]
    assert found.pairs.action.flags.c_contiguous
