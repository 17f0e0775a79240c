"""Q-learning with epsilon-greedy exploration, as Gymnasium's tutorials have it.

    Q(x, a) += rate (r + discount max_b Q(x', b) - Q(x, a)),   nothing follows the end

with probability epsilon a random action, else a greedy one. The tutorials, as of Gymnasium's
repository in 2026 (docs/tutorials/training_agents):

- frozenlake_q_learning.py: rate 0.8, discount 0.95, epsilon 0.1 throughout, ties at random;
- blackjack_q_learning.py: rate 0.01, discount 0.95, epsilon falls in equal steps from 1, to reach 0
  after half of the episodes, but not below 0.1; the first of equal actions.

Both were made for other tasks (a lake without slips, one hand of cards). So there is a third
setting, for tasks like these: the schedule of the second, rate 0.1, and nothing discounted. It was
chosen before the first run, and not searched for.

The observation x is (state, step), or the state alone, as in the tutorials.
"""

from __future__ import annotations

from time import process_time
from typing import Any, NamedTuple

import numpy as np
from peers.episodic import Floats, Record, Task, WithStep, deterministic, environment


class Setting(NamedTuple):
    """A way to learn.

    Attributes:
        rate, discount: of the formula above.
        first, last: epsilon in the first episode, and the least; it falls from one to the other
            as it would fall to 0 after half of the episodes.
        random_ties: whether the greedy action is a random one of equal ones, or the first.
        by_step: whether the step is part of the observation.

    """

    rate: float
    discount: float
    first: float
    last: float
    random_ties: bool = False
    by_step: bool = True


FROZEN_LAKE = Setting(0.8, 0.95, 0.1, 0.1, random_ties=True)
BLACKJACK = Setting(0.01, 0.95, 1.0, 0.1)
UNDISCOUNTED = Setting(0.1, 1.0, 1.0, 0.1)
SETTINGS = {
    "Q-learning, FrozenLake tutorial": FROZEN_LAKE,
    "Q-learning, FrozenLake tutorial, state only": FROZEN_LAKE._replace(by_step=False),
    "Q-learning, Blackjack tutorial": BLACKJACK,
    "Q-learning, Blackjack tutorial, state only": BLACKJACK._replace(by_step=False),
    "Q-learning, undiscounted": UNDISCOUNTED,
    "Q-learning, undiscounted, state only": UNDISCOUNTED._replace(by_step=False),
}


def epsilon_of(setting: Setting, episode: int, episodes: int) -> float:
    """The probability of a random action in an episode, counted from 0."""
    return max(setting.last, setting.first * (1 - 2 * episode / episodes))


def greedy(q: Floats, random_ties: bool) -> Floats:
    """(..., A) the probabilities of greedy actions for Q-values (..., A)."""
    if not random_ties:
        return deterministic(q.argmax(axis=-1), q.shape[-1])
    ties = q == q.max(axis=-1, keepdims=True)
    chances: Floats = ties / ties.sum(axis=-1, keepdims=True)
    return chances


def run(task: Task, setting: Setting, episodes: int, epsilon: float, seed: int) -> dict[str, Any]:
    """The measures of one run, and the seconds that it took.

    Where the state alone is observed, Q-values may change within an episode that passes a state
    twice; the episode is counted as one with the policy that it began with.
    """
    env, rng = WithStep(environment(task), task), np.random.default_rng(seed)
    env.reset(seed=seed)
    record, (H, S, A) = Record(task, episodes, epsilon), task.shape
    q = np.zeros((H if setting.by_step else 1, S, A))
    seconds = 0.0
    for episode in range(episodes):
        explore = epsilon_of(setting, episode, episodes)
        all_steps = np.broadcast_to(q, (H, S, A))
        best = greedy(all_steps, setting.random_ties)
        handed = greedy(all_steps, random_ties=False)
        record.add(handed, (1 - explore) * best + explore / A)
        started = process_time()
        _learn_from_episode(env, q, setting, explore, rng)
        seconds += process_time() - started
    measured = record.close(greedy(np.broadcast_to(q, (H, S, A)), random_ties=False))
    return {**measured, "seconds": seconds}


def _learn_from_episode(
    env: WithStep, q: Floats, setting: Setting, explore: float, rng: np.random.Generator
) -> None:
    """Run one episode, and update Q-values (H or 1, S, A) after each step."""
    seen, _ = env.reset()
    s, t = seen.tolist()
    over = False
    while not over:
        values = q[t if setting.by_step else 0, s]
        if rng.random() < explore:
            a = int(rng.integers(len(values)))
        elif setting.random_ties:
            a = int(rng.choice(np.flatnonzero(values == values.max())))
        else:
            a = int(values.argmax())
        seen, reward, over, _, _ = env.step(a)
        s, t = seen.tolist()
        following = 0.0 if over else q[t if setting.by_step else 0, s].max()
        values[a] += setting.rate * (reward + setting.discount * following - values[a])
