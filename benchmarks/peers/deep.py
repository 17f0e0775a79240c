"""DQN and PPO of Stable-Baselines3: ``python -m peers.deep task.npz LEARNER N EPSILON SEED``.

Prints the measures of one run in JSON. Settings:

- "default": as Stable-Baselines3 comes;
- "zoo": those of RL Zoo (its hyperparams/dqn.yml and ppo.yml) for CartPole-v1, the smallest task
  that it has settings for.

Both think in steps, not in episodes: the schedules of exploration, learning rate and clipping are
given N H steps, the most that N episodes can take, and training stops after N episodes. DQN also
learns within an episode, which is counted as one with the policy that it began with.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found]
from peers.episodic import Floats, Record, Task, WithStep, deterministic, environment
from stable_baselines3 import DQN, PPO  # type: ignore[import-not-found]
from stable_baselines3.common.callbacks import BaseCallback  # type: ignore[import-not-found]
from stable_baselines3.common.env_util import make_vec_env  # type: ignore[import-not-found]


def falling(largest: float) -> Any:
    """A schedule that falls to 0 in the course of the training."""
    return lambda remaining: largest * remaining


ZOO_DQN = {
    "learning_rate": 2.3e-3,
    "batch_size": 64,
    "buffer_size": 100_000,
    "learning_starts": 1000,
    "gamma": 0.99,
    "target_update_interval": 10,
    "train_freq": 256,
    "gradient_steps": 128,
    "exploration_fraction": 0.16,
    "exploration_final_eps": 0.04,
    "policy_kwargs": {"net_arch": [256, 256]},
}
ZOO_PPO = {
    "n_steps": 32,
    "batch_size": 256,
    "gae_lambda": 0.8,
    "gamma": 0.98,
    "n_epochs": 20,
    "ent_coef": 0.0,
    "learning_rate": falling(0.001),
    "clip_range": falling(0.2),
}
LEARNERS: dict[str, tuple[Any, int, dict[str, Any]]] = {
    "DQN, default": (DQN, 1, {}),
    "DQN, zoo": (DQN, 1, ZOO_DQN),
    "PPO, default": (PPO, 1, {}),
    "PPO, zoo": (PPO, 8, ZOO_PPO),
}
"""The class, how many environments it steps at once, and its settings."""


class Watch(BaseCallback):  # type: ignore[misc]
    """Looks at the policy after every episode, and stops after N.

    Attributes:
        seconds: spent on looking.

    """

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record, self.seconds = record, 0.0
        H, S, self.actions = record.task.shape
        self.grid = np.array([(s, t) for t in range(H) for s in range(S)])
        self._updates = -1
        self._network: Floats = np.zeros(0)

    def network(self) -> Floats:
        """(H, S, A) Q-values of DQN, or probabilities of PPO; computed after each update."""
        model = self.model
        if model._n_updates != self._updates:
            self._updates = model._n_updates
            seen, _ = model.policy.obs_to_tensor(self.grid)
            with torch.no_grad():
                if isinstance(model, DQN):
                    out = model.q_net(seen)
                else:
                    out = model.policy.get_distribution(seen).distribution.probs
            self._network = out.numpy().astype(float).reshape(self.record.task.shape)
        return self._network

    def handed(self) -> Floats:
        """(H, S, A) the policy that ``predict(deterministic=True)`` takes."""
        return deterministic(self.network().argmax(axis=-1), self.actions)

    def followed(self) -> Floats:
        """(H, S, A) the policy of the next episode."""
        model = self.model
        if isinstance(model, PPO):
            chances: Floats = self.network() / self.network().sum(axis=-1, keepdims=True)
            return chances
        begun = model.num_timesteps >= model.learning_starts
        explore = float(model.exploration_rate) if begun else 1.0
        return (1 - explore) * self.handed() + explore / self.actions

    def _on_training_start(self) -> None:
        for _ in range(self.model.n_envs):
            self._look()

    def _on_step(self) -> bool:
        over = int(np.sum(self.locals["dones"]))
        if over and self.record.full:
            return False
        for _ in range(over):
            self._look()
        return True

    def _look(self) -> None:
        started = process_time()
        self.record.add(self.handed(), self.followed())
        self.seconds += process_time() - started


def run(task: Task, learner: str, episodes: int, epsilon: float, seed: int) -> dict[str, Any]:
    """The measures of one run, and the seconds that it took."""
    torch.set_num_threads(1)
    kind, environments, settings = LEARNERS[learner]
    env = make_vec_env(lambda: WithStep(environment(task), task), environments, seed=seed)
    watch = Watch(Record(task, episodes, epsilon))
    started = process_time()
    model = kind("MlpPolicy", env, device="cpu", seed=seed, **settings)
    model.learn(episodes * task.shape[0], callback=watch)
    seconds = process_time() - started - watch.seconds
    return {**watch.record.close(watch.handed()), "seconds": seconds}


if __name__ == "__main__":
    _, path, learner, *numbers = sys.argv
    episodes, epsilon, seed = int(numbers[0]), float(numbers[1]), int(numbers[2])
    print(json.dumps(run(Task.load(Path(path)), learner, episodes, epsilon, seed)))
