"""Agents that stop keep their promise: of reward-free ones, for all rewards at once, exactly.

What the optimum of a model p^ loses in the worst case is found by linear programs. In an MDP of
three steps, let d(pi) be the expected visits of a policy at the first two, and the law of the state
at the third, where the best action is known. Then, over all rewards in [0, 1],

    worst loss = max over pi, pi' of max { (d(pi) - d(pi')) r : (d^(pi') - d^(q)) r >= 0 for all q }

where d^ is that of p^, so that pi' is best for p^ and r.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import linprog

from ucfh import make_agent, simulate
from ucfh.algorithms.reward_free import RewardFree
from ucfh.mdp import MDP

EPSILON, DELTA = 0.1, 0.1
S, A, H = 2, 2, 3
RUNS = 30
Floats = NDArray[np.float64]


def world(seed: int) -> MDP:
    rng = np.random.default_rng([seed, 7])
    return MDP(rng.dirichlet(np.full(S, 0.7), (S, A)), rng.random((S, A)), H)


def visits(p: Floats) -> Floats:
    """(policies, 2 S A + S) d of every policy from state 0, for p (S, A, S)."""
    found = []
    for first, *then in product(range(A), repeat=1 + S):
        d = np.zeros((2, S, A))
        d[0, 0, first] = 1
        d[1, range(S), then] = p[0, first]
        last = sum(p[0, first, s] * p[s, then[s]] for s in range(S))
        found.append(np.concatenate([d.ravel(), last]))
    return np.array(found)


def worst_loss(mdp: MDP, p_hat: Floats) -> tuple[float, Floats]:
    """The largest loss of what is best for p^ (S, A, S), over all rewards, and these."""
    d, d_hat = visits(mdp.table.dense(mdp.p)), visits(p_hat)
    worst, at = 0.0, np.zeros(d.shape[1])
    for chosen in range(len(d)):
        others = d_hat - d_hat[chosen]
        for best in range(len(d)):
            if best != chosen:
                cost = d[chosen] - d[best]
                r = np.asarray(linprog(cost, others, np.zeros(len(d)), bounds=(0, 1)).x)
                if -cost @ r > worst:
                    worst, at = float(-cost @ r), r
    return worst, at


def explored(name: str, seed: int, scale: float) -> tuple[MDP, RewardFree]:
    mdp = world(seed)
    agent = make_agent(f"{name}:schedule=growth", mdp, EPSILON, DELTA, 1, scale=scale)
    assert isinstance(agent, RewardFree)
    simulate(mdp, agent, seed=seed)
    return mdp, agent


def loss_of(mdp: MDP, agent: RewardFree, rewards: Floats) -> float:
    """Return the loss of the agent's plan for these rewards (H, S, A)."""
    truth = MDP(mdp.table.dense(mdp.p), rewards, H)
    plan = agent.plan_for(rewards)
    return truth.at_start(truth.optimal().values) - truth.value(plan.policy)


def losses(name: str, seed: int, scale: float) -> tuple[float, float]:
    """The worst loss over all rewards, and the worst over those tried with the agent itself."""
    mdp, agent = explored(name, seed, scale)
    row = mdp.table.row_of_entry
    n, share = agent.counts.visits[row], 1 / mdp.table.lengths[row]
    p_hat = np.where(n > 0, agent.counts.successors / np.maximum(n, 1), share)
    worst, r = worst_loss(mdp, mdp.table.dense(p_hat))
    rng = np.random.default_rng(seed)
    bad = np.zeros((H, S, A))
    bad[:2], bad[2] = r[: 2 * S * A].reshape(2, S, A), r[2 * S * A :, None]
    # where it is worst, two policies are equally good for p^: either may be made the better one
    tried = [np.clip(bad + rng.normal(0, 1e-7, bad.shape), 0, 1) for _ in range(30)]
    tried += [rng.random(bad.shape) ** rng.choice([0.1, 1, 10]) for _ in range(30)]
    found = max(loss_of(mdp, agent, x) for x in tried)
    assert found <= worst + 1e-5
    return worst, found


def rejected(failed: int, runs: int) -> bool:
    """Return whether this many failures speak against a probability of at most delta."""
    return bool(stats.binom.sf(failed - 1, runs, DELTA) < 1e-3)


PROVED = {"fiechter": 1.0, "rf-ucrl": 0.5, "rf-express": 2 / 9}
"""The smallest scale for which the docstrings prove the promise."""
TOO_SMALL = {"fiechter": 0.03, "rf-ucrl": 0.01, "rf-express": 1e-7}


@pytest.mark.parametrize("name", PROVED)
def test_the_promise_for_all_rewards(name: str) -> None:
    runs = RUNS
    found = np.array([losses(name, seed, PROVED[name]) for seed in range(runs)])
    control = np.array([losses(name, seed, TOO_SMALL[name]) for seed in range(runs)])
    print(
        f"{name}: worst loss {found[:, 0].max():.2g} of {EPSILON} in {runs} runs; with "
        f"{TOO_SMALL[name]:g} of the widths, {np.mean(control[:, 0] > EPSILON):.0%} of runs fail "
        f"for some rewards, {np.mean(control[:, 1] > EPSILON):.0%} for some that were tried"
    )
    assert not rejected(int((found[:, 0] > EPSILON).sum()), runs)
    assert rejected(int((control[:, 0] > EPSILON).sum()), runs)
    assert rejected(int((control[:, 1] > EPSILON).sum()), runs)


def bandit(seed: int) -> MDP:
    """One of five actions leads to what pays with .65, the others with .35: a loss of .6."""
    p = np.zeros((3, 5, 3))
    p[0, :, 1] = 0.35
    p[0, seed % 5, 1] = 0.65
    p[0, :, 2] = 1 - p[0, :, 1]
    p[1, :, 1] = p[2, :, 2] = 1
    return MDP(p, [[0], [1], [0]], H)


def failures(name: str, scale: float) -> int:
    """Runs that end with a policy that is not epsilon-optimal."""
    failed = 0
    for seed in range(RUNS):
        mdp = bandit(seed)
        agent: Any = make_agent(f"{name}:schedule=growth", mdp, EPSILON, DELTA, 1, scale=scale)
        run = simulate(mdp, agent, seed=seed)
        assert agent.done
        failed += run.gap > EPSILON
    return failed


@pytest.mark.parametrize(("name", "too_small"), [("bpi-ucrl", 0.01), ("bpi-ucbvi", 1e-5)])
def test_the_promise_for_the_rewards_that_are_told(name: str, too_small: float) -> None:
    failed, control, runs = failures(name, 1.0), failures(name, too_small), RUNS
    print(f"{name}: {failed} of {runs} runs fail, with {too_small:g} of the widths {control}")
    assert not rejected(failed, runs)
    assert rejected(control, runs)
