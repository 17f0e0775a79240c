"""Simulation: steps a second by walking, and whole lifetimes in bulk against walking them."""

from __future__ import annotations

import resource
from time import perf_counter

from ucfh import UCFH, make, simulate


def walking() -> float:
    """Steps a second of step-by-step simulation on chain:n=10."""
    mdp = make("chain:n=10")
    simulate(mdp, UCFH(mdp.problem, 0.1, 0.1), 1000, method="step")  # compile
    best = 0.0
    for seed in range(5):
        episodes = 2_000_000
        started = perf_counter()
        simulate(mdp, UCFH(mdp.problem, 0.1, 0.1), episodes, seed, method="step")
        best = max(best, episodes * mdp.horizon / (perf_counter() - started))
    return best


def lifetime(name: str, epsilon: float, delta: float, repeats: int) -> None:
    """A whole lifetime with the printed constants."""
    mdp = make(name)
    best = float("inf")
    for _ in range(repeats):
        run = simulate(mdp, UCFH(mdp.problem, epsilon, delta))
        best = min(best, run.seconds)
    short = 200_000 // mdp.horizon
    started = perf_counter()
    simulate(mdp, UCFH(mdp.problem, epsilon, delta), short, method="step")
    walked = short / (perf_counter() - started)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{name}, eps {epsilon}, delta {delta}: {run.episodes:.3g} episodes, {run.updates} updates "
        f"in {best:.2f} s = {run.episodes / best:.2g} episodes/s, "
        f"{run.episodes / best / walked:.2g} times walking; "
        f"mistakes {run.mistakes():.3g} of {run.episode_bound:.3g} allowed; "
        f"peak memory {memory:.2f} GiB",
        flush=True,
    )


def main() -> None:
    print(f"walking chain:n=10: {walking():.3g} steps/s", flush=True)
    lifetime("hard:n=10,actions=4,horizon=10,gap=0.25", 0.2, 0.1, 5)
    lifetime("tutoring", 0.1, 0.1, 3)
    lifetime("grid:rows=4,cols=4", 0.2, 0.1, 1)
    lifetime("random:states=100,actions=4,successors=10,horizon=50", 0.1, 0.05, 1)


if __name__ == "__main__":
    main()
