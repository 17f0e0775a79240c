"""RF-UCRL and RF-Express: explore without rewards, then plan for any rewards.

They follow the policy with the largest bound of the model error, until the values of all policies
are accurate under all rewards. From then on, the optimum of the model p^ for any given rewards is
within epsilon of optimal, for all rewards at once with probability 1 - delta (`plan_for`). With
b = beta(n)/n, V^ the values of a policy under p^, and p^ E for p^ max_a E_{t+1}:

RF-UCRL. Kaufmann, Menard, Domingues, Jonsson, Leurent, Valko: Adaptive Reward-Free Exploration.
ALT 2021 (arXiv 2006.06294). It needs O~(S A H^4 (ln(1/delta) + S)/eps^2) episodes.

    beta(n) = ln(2 S A H/delta) + (S-1) ln( e (1 + n/(S-1)) )
    E_t = min( H-t, (H-t) sqrt(2 b) + p^ E ),  n = 0: H-t;   stop when 2 E_1 <= eps at the start

With probability 1 - delta/2, KL(p^, p) <= b for all pairs and n (`ucfh.algorithms.stopping`); then
|(p^ - p) V_{t+1}| <= (H-t) sqrt(b/2) by Pinsker's inequality, and |V^ - V| <= E at every step, by
induction: for every policy and all rewards. The optimum of p^ loses at most twice that. (sqrt(b/2)
suffices for sqrt(2 b): the guarantee holds with a scale of 1/2.) Where the problem's rewards depend
on the next state, or are unknown, H-t+1 takes the place of H-t, and `plan_for` also takes rewards
that depend on the next state.

RF-Express. Menard, Domingues, Jonsson, Kaufmann, Leurent, Valko: Fast active learning for pure
exploration in reinforcement learning. ICML 2021 (arXiv 2007.13442). It needs
O~(S A H^3 (ln(1/delta) + S)/eps^2) episodes.

    beta(n) = ln(3 S A H/delta) + S ln(8e(n+1))
    W_t = min( H, 15 H^2 b + (1 + 1/H) p^ W ),  n = 0: H;   stop when 2 (3e sqrt(W_1) + W_1) <= eps

Proof. With probability 1 - delta/3, KL(p^, p) <= b for all pairs and n. Let 0 <= f <= H.
KL(p^, p) >= p^ g - ln p e^g with g = +-x (f - p f), Bernstein's bound of ln p e^g and the best x
gives the first of these, with g = -(f - p^ f)^2/H^2 the second, and both give (1):

    |(p^ - p) f| <= sqrt(2 Var_p(f) b) + H b/3,   Var_p(f) <= 2 Var_p^(f) + 2 H^2 b
    (1)  |(p^ - p) f| <= 2 sd_p^(f) sqrt(b) + (7/3) H b

Let D = |V^ - V| <= H for a policy and rewards. As sd_p^(V) <= sd_p^(V^) + sqrt(H p^ D), and
2 sqrt(x y) <= x + y, with p^ D for p^ D_{t+1},

    D_t <= |(p^ - p) V_{t+1}| + p^ D <= 2 sd_p^(V^) sqrt(b) + (H^2 + 7H/3) b + (1 + 1/H) p^ D
    D_t <= Y_t + W_t,   Y_t = 2 sd_p^(V^) sqrt(b) + (1 + 1/H) p^ Y,  but Y_t = 0 where W_t = H

by induction, as H^2 + 7H/3 <= 15 H^2. Follow the policy in p^ until W = H or the end: Y_1 is the
mean of the sum of 2 w_t sd sqrt(b), w_t = (1 + 1/H)^(t-1) < e, and W_1 is at least the mean of the
sum of 15 H^2 w_t b. The variances of all steps sum to the variance of an episode's return, at most
H^2/4. So, by the inequality of Cauchy and Schwarz and w_t^2 <= e w_t,

    Y_1 <= 2 sqrt(H^2/4) sqrt(e W_1/(15 H^2)) = sqrt(e W_1/15) <= 0.43 sqrt(W_1) <= 3e sqrt(W_1)

and D_1 <= 3e sqrt(W_1) + W_1. Of a random start, the mean of roots is at most the root of the mean.
Rewards may depend on the next state. (All steps also hold with a scale of 2/9, that is 10/3 for
15.)

Sources: both betas, 15, 1 + 1/H and 3e from code of the authors, the width of RF-UCRL from code of
others (the authors' own has sqrt(b)); of the papers only the abstracts were available. Both are for
per-step counts; pooled counts, as here, are valid where transitions do not depend on the step.

In a run on a problem with rewards, exploration ignores the rewards, which only evaluate its
policies; from the stop on, the policy is the optimal one for p^ and these rewards. A scale
multiplies the widths, (H-t) sqrt(2 b) and 15 H^2 b.
"""

from __future__ import annotations

from math import e, sqrt
from typing import Any

import numpy as np

from ucfh._kernels.online import CAP_HORIZON, CAP_NEXT, LOWER_OF_PLAYED, Rule
from ucfh._utils.arrays import Floats
from ucfh._utils.validation import check_rewards
from ucfh.algorithms.bonus import BonusAgent
from ucfh.algorithms.bpi_ucbvi import menard_rates
from ucfh.algorithms.stopping import Stopping, mixture_rate
from ucfh.exceptions import InputError
from ucfh.planning import Plan, backward_induction, mean_rewards
from ucfh.transitions import Rewards


class RewardFree(Stopping):
    """An agent that explores until it can plan for any rewards.

    ``optimistic`` is the bound of the model error, E_1 or W_1; ``gap_bound`` bounds the optimality
    gap of every plan of `plan_for`.

    Attributes:
        all_rewards: whether `plan_for` takes rewards that depend on the next state even if the
            rewards of the problem do not.

    """

    all_rewards = False

    def gap_of(self, error: float) -> float:
        """Return the gap bound from the bound of the model error: 2 E_1."""
        return 2 * error

    def gap_bound_now(self) -> float:
        """Return the gap bound of the last plan."""
        return self.gap_of(self.optimistic)

    def least_gap(self, n: float) -> float:
        """Return the gap bound if only the first step were unknown, after n visits."""
        left = self.H - 1 + (self.arrays.extra.size > 0)
        flat = float(self.coefficients(np.array([float(n)]))["flat"][0])
        return self.gap_of(min(self.H, flat) if not self.rule.by_left else left * min(1.0, flat))

    def planned_rewards(self) -> Rewards:
        """Return rewards of zero, with entries of next states if rewards may depend on them."""
        table, rewards = self.problem.table, self.problem.rewards
        on_next = rewards is None or rewards.successor is not None
        return Rewards(
            np.zeros((1, table.pairs)), np.zeros((1, table.entries)) if on_next else None
        )

    def plan_for(self, rewards: Any, early: bool = False) -> Plan:
        """Plan for the model p^ and the given rewards.

        Once the agent is ``done``, all such policies are within epsilon of optimal at the start,
        with probability 1 - delta; before that, with ``early``, within ``gap_bound``, which is then
        updated.

        Args:
            rewards: in [0, 1], NumPy-broadcast to (H, S, A), as `Problem` takes them.
            early: True to plan before the agent has stopped.

        Returns:
            The optimal policy for p^ and the rewards, and its values under p^.

        Raises:
            InputError: if the agent still explores and ``early`` is False, or the rewards depend on
                the next state and the agent has not explored for such rewards.

        """
        if not self.done and not early:
            gap = min(self.gap_bound, float(self.H))
            raise InputError(
                f"{self.name} still explores, and a plan may be {gap:.3g} from optimal: "
                "run it until it is done, or pass early=True"
            )
        if not self.done:  # the last test used fewer counts
            BonusAgent._plan(self)
            self.gap_bound = self.gap_bound_now()
        table, problem = self.problem.table, self.problem
        given = Rewards(*check_rewards(rewards, table, self.H, problem.terminal))
        if given.successor is not None and not (self.all_rewards or self.arrays.extra.size):
            raise InputError(
                f"{self.name} has explored for rewards of (s, a), and these depend on the next "
                "state: hide the rewards from its problem, or use rf-express"
            )
        return self._best_of_model(given)

    def _best_of_model(self, rewards: Rewards) -> Plan:
        """Plan for p^, uniform over successors without visits."""
        table = self.problem.table
        row = table.row_of_entry
        n = self.counts.visits[row]
        p = np.where(n > 0, self.counts.successors / np.maximum(n, 1), 1 / table.lengths[row])
        return backward_induction(table, p, mean_rewards(table, p, rewards), self.H)

    def _conclude(self) -> None:
        if self.problem.rewards is not None:
            self.policy = self._best_of_model(self.problem.rewards).policy
            self.rows[:] = self.problem.table.rows_of(self.policy, self.H)


class RFUCRL(RewardFree):
    """RF-UCRL."""

    name = "rf-ucrl"
    reference = "Kaufmann, Menard, Domingues, Jonsson, Leurent, Valko 2021"
    setting = "no rewards; transitions by step, but counts pooled here"
    guarantee = "stops after O~(S^2 A H^4/eps^2) episodes, then eps-optimal for any rewards"
    constants = "from code: beta and the width; derived: that they suffice"
    rule = Rule(cap=CAP_NEXT, by_left=True)
    by_step = True

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return sqrt(2 b), to be multiplied by the remaining steps."""
        beta = mixture_rate(self.S, self.delta / (2 * self.S * self.A * self.H), n)
        return {"flat": self.scale * np.sqrt(2 * beta / n)}


class RFExpress(RewardFree):
    """RF-Express."""

    name = "rf-express"
    reference = "Menard, Domingues, Jonsson, Kaufmann, Leurent, Valko 2021"
    setting = "no rewards; transitions by step, but counts pooled here"
    guarantee = "stops after O~(S^2 A H^3/eps^2) episodes, then eps-optimal for any rewards"
    constants = "from code: beta, 15 and 3e; derived: that they suffice"
    rule = Rule(cap=CAP_HORIZON, lower=LOWER_OF_PLAYED)  # L stays 0, and the spread is p^ W
    by_step = True
    all_rewards = True

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return 15 H^2 b, and 1/H as the coefficient of p^ W."""
        beta, _ = menard_rates(self.S, self.A, self.H, self.delta, n)
        return {
            "flat": self.scale * 15 * self.H**2 * beta / n,
            "spread": np.full_like(n, 1 / self.H),
        }

    def gap_of(self, error: float) -> float:
        """Return 2 (3e sqrt(W_1) + W_1)."""
        return 2 * (3 * e * sqrt(error) + error)
