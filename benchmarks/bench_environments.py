"""Learning from real environments by stepping them: episodes, states, gap, time.

The true gap is that of the policy in the environment's own table, where it has one. The agent's
time per step is compared with that of stepping in the same run. Needs minigrid for MiniGrid.
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ucfh import LearningResult, learn, make


class Trial(NamedTuple):
    """What to learn: the environment, what is told, and at most how many episodes."""

    env: str
    horizon: int
    epsilon: float
    episodes: int
    rewards: tuple[float, float] = (0.0, 1.0)
    max_return: float | None = 1.0
    settings: dict[str, Any] | None = None
    segments: bool = False
    table: bool = True


TRIALS = {
    "FrozenLake 4x4": Trial("FrozenLake-v1", 20, 0.1, 200_000),
    "FrozenLake 8x8": Trial("FrozenLake-v1", 30, 0.1, 200_000, settings={"map_name": "8x8"}),
    "CliffWalking": Trial("CliffWalking-v1", 20, 5.0, 100_000, (-100, -1), -13.0),
    "Blackjack": Trial("Blackjack-v1", 4, 0.5, 500_000, (-1, 1), 1.0, table=False),
    "Taxi": Trial("Taxi-v4", 20, 20.0, 200_000, (-10, 20), 20.0),
    "MiniGrid Empty 5x5": Trial("minigrid", 8, 0.3, 100_000, segments=True, table=False),
}


def environment(trial: Trial) -> Any:
    """The environment, or its id."""
    if trial.env != "minigrid":
        return trial.env
    import gymnasium
    from minigrid.wrappers import FullyObsWrapper

    wrapper: Any = FullyObsWrapper
    return wrapper(gymnasium.make("MiniGrid-Empty-5x5-v0"))


def picture(seen: Any) -> tuple[bytes, int]:
    """A state of MiniGrid: the grid and the direction; the mission is always the same."""
    return seen["image"].tobytes(), int(seen["direction"])


def true_gap(trial: Trial, found: LearningResult) -> float:
    """How much worse than the best the policy is, by the environment's table."""
    settings = "".join(f",{k}={v}" for k, v in (trial.settings or {}).items())
    mdp = make(f"gym:{trial.env},horizon={trial.horizon}{settings}")
    policy = np.zeros((mdp.horizon, mdp.states), np.int64)
    for t in range(mdp.horizon):
        for s in range(mdp.states - 1):  # the last is the end
            policy[t, s] = found.policy.act(t, s)
    best = mdp.at_start(mdp.optimal().values)
    return (best - mdp.value(policy)) * found.units.span


def main(names: list[str] | None = None) -> None:
    print("environment          episodes  states  certified  gap <=  true gap  seconds  "
          "env us/step  agent us/step")  # fmt: skip
    for name in names or TRIALS:
        trial = TRIALS[name]
        began = perf_counter()
        found = learn(
            environment(trial),
            trial.epsilon,
            horizon=trial.horizon,
            settings=trial.settings,
            rewards=trial.rewards,
            max_return=trial.max_return,
            episodes=trial.episodes,
            encode=picture if trial.env == "minigrid" else None,
            segments=trial.segments,
            seed=0,
        )
        took = perf_counter() - began
        gap = f"{true_gap(trial, found):.3g}" if trial.table else "-"
        stepping = (found.seconds - found.planning_seconds) / found.steps
        print(
            f"{name:<20} {found.episodes:>8} {len(found.states):>7} "
            f"{'yes' if found.certificate.certified else 'no':>10} {found.gap:>7.3g} {gap:>9} "
            f"{took:>8.1f} {1e6 * stepping:>12.2f} "
            f"{1e6 * found.planning_seconds / found.steps:>16.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:] or None)
