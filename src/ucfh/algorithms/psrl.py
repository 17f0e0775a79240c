"""Posterior sampling: follow the optimal policy of a model drawn from the posterior.

PSRL. Osband, Russo, Van Roy: (More) Efficient Reinforcement Learning via Posterior Sampling. NIPS
2013 (arXiv 1306.0940). Setting: fixed horizon, with a prior over MDPs. Before every episode
p(.|s,a) is drawn from Dirichlet(n(s,a,.) + prior) for each pair, and the optimal policy of that MDP
is followed. The theorem, E[regret] = O(H S sqrt(A T ln(S A T))) with T = K H, is in expectation
under the prior, for every prior; here a Dirichlet with the same parameter for each successor, 1/C
unless one is given.

OPSRL. Tiapkin, Belomestny, Calandriello, Moulines, Munos, Naumov, Rowland, Valko, Menard:
Optimistic Posterior Sampling for Reinforcement Learning with Few Samples and Tight Guarantees.
NeurIPS 2022 (arXiv 2209.14414). Setting: episodic, known rewards, K known. A fictitious state has
reward r0 in every step; the prior counts n0 transitions of every pair to it. J models are drawn
from Dirichlet((n(s,a,.), n0)/kappa), and planning takes the best of them, pair by pair:

    Q_t = r + max_j p_j V_{t+1},  V_t = max Q_t, at most H - t

The theorem (regret O(sqrt(H^3 S A K) L^1.5) with probability 1 - delta) takes
J ~ 12 ln(2 S A H K/delta), kappa ~ 2 (ln(8 S A H/delta) + 3 ln(e pi (2K + 1))), r0 = 2 and n0 of
the order of a million (all quoted from memory), with which nothing is learned in any number of
episodes that can be run.
The defaults are those of the authors' experiments: J = 8, kappa = 1, n0 = 1, r0 = 1, and counts
pooled over steps, without a guarantee.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ucfh._kernels import thompson as kernels
from ucfh._kernels.types import EnvironmentArrays, Record, RowPolicy
from ucfh.algorithms.bonus import SeededAgent
from ucfh.exceptions import InputError, check_count
from ucfh.mdp import Problem


class PosteriorSampler(SeededAgent):
    """An agent that plans for models drawn from its posterior.

    Attributes:
        models, kappa, prior, apart: J, kappa, and the Dirichlet parameters of a successor and of
            the fictitious state (0: there is none).
        pays: reward of that state in every step.
        cap: whether values are at most the number of remaining steps.

    """

    models, kappa, prior, apart, pays, cap = 1, 1.0, 0.0, 0.0, 0.0, False

    def _prepare(self) -> None:
        table = self.problem.table
        self.draws = kernels.Draws(
            p=np.zeros((self.models, table.entries)), aside=np.zeros((self.models, table.rows))
        )
        self.posterior = kernels.Posterior(
            prior=self.prior, apart=self.apart, kappa=self.kappa, pays=self.pays, cap=self.cap
        )
        self.V = np.zeros((self.H + 1, self.S))

    def _plan(self) -> None:
        c, out = self.counts.successors, RowPolicy(self.V, self.rows)
        kernels.draw_models(self.generator, self.arrays.indptr, c, self.posterior, self.draws)
        kernels.plan_draws(self.arrays, self.posterior, self.draws, out)
        self._set_policy(self.V[0])

    def _learn(
        self, rng: np.random.Generator, nature: EnvironmentArrays, episodes: int, record: Record
    ) -> tuple[int, int]:
        return kernels.learn_by_draws(
            rng, self.generator, episodes, nature, self.arrays, self.posterior, self.counts.arrays,
            self.draws, RowPolicy(self.V, self.rows), self.followed, record,
        )  # fmt: skip


def _positive(name: str, value: float) -> float:
    if not 0 < value < float("inf"):
        raise InputError(f"{name} = {value!r} must be a positive number")
    return float(value)


class PSRL(PosteriorSampler):
    """Posterior sampling.

    Args (in addition to those of `SeededAgent`):
        prior: the Dirichlet parameter of each successor, positive; None: 1/C, where C is the
            largest number of successors.

    """

    name = "psrl"
    reference = "Osband, Russo, Van Roy 2013"
    setting = "fixed horizon, with a prior over MDPs"
    guarantee = "E[regret] = O(H S sqrt(A T ln(S A T))), T = K H, under the prior"
    constants = "chosen: the prior"

    def __init__(
        self,
        problem: Problem,
        epsilon: float,
        delta: float,
        episodes: int,
        seed: int = 0,
        prior: float | None = None,
    ) -> None:
        longest = int(problem.table.lengths[:-1].max())
        self.prior = 1 / longest if prior is None else _positive("prior", prior)
        super().__init__(problem, epsilon, delta, episodes, seed=seed)

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        return {**super().settings(), "prior": self.prior}


class OPSRL(PosteriorSampler):
    """Optimistic posterior sampling: the best of J draws.

    Args (in addition to those of `SeededAgent`):
        J: number of models drawn, at least 1.
        kappa: all Dirichlet parameters are divided by this positive number.
        n0: the Dirichlet parameter of the fictitious state, positive.
        r0: reward of that state in every step, positive.

    """

    name = "opsrl"
    reference = "Tiapkin et al. 2022"
    setting = "episodic, time-dependent; counts pooled here, as in the authors' experiments"
    guarantee = (
        "regret O(sqrt(H^3 S A K) L^1.5), for a kappa, n0 and J with which nothing is learned"
    )
    constants = "from code: J, kappa, n0 and r0 of the authors' experiments"
    cap = True

    def __init__(
        self,
        problem: Problem,
        epsilon: float,
        delta: float,
        episodes: int,
        seed: int = 0,
        J: int = 8,
        kappa: float = 1.0,
        n0: float = 1.0,
        r0: float = 1.0,
    ) -> None:
        self.models = check_count("J", J)
        self.kappa, self.apart = _positive("kappa", kappa), _positive("n0", n0)
        self.pays = _positive("r0", r0)
        super().__init__(problem, epsilon, delta, episodes, seed=seed)

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        own = {"J": self.models, "kappa": self.kappa, "n0": self.apart, "r0": self.pays}
        return {**super().settings(), **own}
