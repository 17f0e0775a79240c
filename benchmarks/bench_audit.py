"""The audit of assumptions: time per step, with few states, many, and more than are visited twice.

Run from the repository's root: ``python benchmarks/bench_audit.py``.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from ucfh.auditing.e_process import Audit
from ucfh.auditing.steps import AuditSteps

HORIZON, ACTIONS, BATCH = 5, 3, 10_000


def steps(rng: np.random.Generator, states: int, episodes: int) -> AuditSteps:
    """Steps of which each leads to one of eight states; rewards are real numbers."""
    n = episodes * HORIZON
    t = np.tile(np.arange(HORIZON), episodes)
    s = rng.integers(0, states, n)
    after = (s + rng.integers(0, 8, n)) % states
    lost = rng.random(n) < 0.01
    return AuditSteps(
        new=t == 0,
        t=t,
        state=s,
        action=rng.integers(0, ACTIONS, n),
        following=np.where(lost, -1, after),
        reward=rng.random(n),
        lost=lost,
        detail=rng.integers(0, 2, n),
    )


def main(episodes: int = 200_000) -> None:
    rng = np.random.default_rng(0)
    Audit(details=True).add(steps(rng, 10, 10))
    for states in (10, 1000, 100_000):
        batches = [steps(rng, states, BATCH) for _ in range(episodes // BATCH)]
        audit = Audit(details=True)
        started = perf_counter()
        for batch in batches:
            audit.add(batch)
        added = perf_counter() - started
        audit.update_evidence()
        looked = perf_counter() - started - added
        room = sum(x.nbytes for x in (*audit.bets, *audit.register)) / 2**20
        stopped = "" if audit.stopped is None else f", bets ended after {audit.stopped} steps"
        print(
            f"{states} states, {audit.steps} steps: {1e6 * added / audit.steps:.2f} us a step with "
            f"looks on the way, {looked:.3f} s for a look, {room:.0f} MiB{stopped}"
        )


if __name__ == "__main__":
    main()
