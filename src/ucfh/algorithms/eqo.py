"""EQO: exploration via quasi-optimism, with a bonus of c/n and nothing else.

Lee, Oh: Minimax Optimal Reinforcement Learning with Quasi-Optimism. ICLR 2025 (arXiv 2503.00810).
Setting: fixed horizon, transitions that do not depend on the step, 0 <= V* <= H, K known. The only
parameter is c:

    Q = min( H, r + p^ V + c/n ),  H where n = 0

The values need not be above V*: a small shortfall suffices. Theorem, for the c of the paper: regret
O~(H sqrt(S A K) + H S^2 A) with probability 1 - delta.

Read in public reviews of the paper: the bonus, H for pairs without visits, a shortfall of at most
(3/2) lambda H, and a c that grows with sqrt(K). The constants of its c were not available, nor
whether H also caps other pairs, which does no harm. Here, for known rewards and
any 0 < lambda <= 1,

    c = H l (1/(2 lambda) + 1/3),  l = ln(S A H/delta)

suffices for V_t >= V*_t - F_t with probability 1 - delta, in all states, steps and episodes, where
F = (lambda/H) (2 H V* - V*^2) <= lambda H, a rising function f of V*. Let this hold at step t+1,
U(s') be the reward on s' plus V*_{t+1}(s'), and a the best action. If Q is not H,

    V*_t - V_t <= (p - p^) U + p^ F_{t+1} - c/n <= p f(U) + (p - p^) W - c/n,   W = U - f(U),

for F_{t+1} <= f(U). First, as p U <= V*_t, p f(U) = f(p U) - (lambda/H) Var_p U is at most
F_t - (lambda/H) Var_p U. Second, |d W/d U| <= 1, so that Var_p W <= Var_p U and |W - p W| <= H. By
Bennett's inequality, E e^{(y/H) (p W - W(s'))} <= e^{(y/H)^2 Var_p(W) / (2 (1 - y/3))} for
0 < y < 3, so by Ville's, with probability 1 - delta/(S A H), for all n at once,

    (p - p^) W <= (y/H) Var_p(W) / (2 (1 - y/3)) + H l/(y n).

At y = 6 lambda/(3 + 2 lambda) the right side is (lambda/H) Var_p(W) + c/n: the variances cancel,
and F_t is left. This holds for per-step counts as well, so the agent keeps them where transitions
depend on the step.

The regret of this c, for pooled counts. Let pi be the policy of an episode, n the visits before it,
D = V_{t+1} - V*_{t+1} + f(U), 0 <= D <= 2 H, and G = V - V^pi + lambda H, so that G_{t+1} >= D and
V* - V^pi <= G_1. By Bennett's and Ville's inequalities again, with probability 1 - delta each, for
all pairs and n at once, and l' = ln(S^2 A/delta),

    (p^ - p) W <= (lambda/H) Var_p(U) + c/n,   p^(s') - p(s') <= p(s')/H + (H/2 + 1/3) l'/n.

Where n > 0, V_t - V^pi_t <= (p^ - p) (W + D) + c/n + p (V - V^pi)_{t+1}, so that

    G_t <= C/n + (lambda/H) Var_p(U) + (1 + 1/H) p G_{t+1},   C = 2 c + 2 S H^2 l'.

As above, (lambda/H) Var_p(U) <= F_t - p F_{t+1}, so these add up to lambda H at most on the way of
pi. Stop an episode at its first pair with n < H: G <= 2 H there, and G = lambda H at the end. So
G_1 is at most e times 2 lambda H and the mean of X, the sum of C/n before that stop, and 2 H if
there is one. 0 <= X <= B = C + 2 H, and E e^{-X/B} <= e^{-(1 - 1/e) E[X]/B}. By Ville's inequality,
with probability 1 - delta (the fourth event), the means of X over K episodes add up to at most
1.6 times the X themselves and B ln(1/delta). A pair has n < H in at most H episodes that visit it;
and where n >= H, it is at most doubled by an episode, so that the C/n of a pair add up to at most
2 C ln(visits/H). With L = 1 + ln(1 + K H/(S A)), with probability 1 - 4 delta,

    regret <= e ( 2 lambda H K + 1.6 ( 2 C S A L + 2 H^2 S A + (C + 2 H) ln(1/delta) ) ).

lambda minimizes lambda H K + c S A L without the 1/3,

    lambda = min( 1, sqrt(S A l L/(2 K)) ),

so this is O~(H sqrt(S A K) + H^2 S^2 A). (For per-step counts, there are H times as many pairs, and
both terms have another factor H.)
"""

from __future__ import annotations

from math import log, sqrt

from ucfh._kernels.online import CAP_HORIZON, Rule
from ucfh._utils.arrays import Floats
from ucfh.algorithms.bonus import BonusAgent


class EQO(BonusAgent):
    """EQO."""

    name = "eqo"
    reference = "Lee, Oh 2025"
    setting = "fixed horizon; K known in advance; known rewards"
    guarantee = "V >= V* - lambda H w.p. 1 - delta; regret O~(H sqrt(SAK) + H^2 S^2 A), 1 - 4 delta"
    constants = "derived: c for a given lambda; chosen: lambda, from K, S, A, H and delta"
    rule = Rule(cap=CAP_HORIZON)
    by_step = True

    @property
    def log_term(self) -> float:
        """l = ln(S A H/delta)."""
        return log(self.S * self.A * self.H / self.delta)

    @property
    def shortfall(self) -> float:
        """lambda, the largest shortfall of values below V* as a share of H."""
        pairs = self.S * self.A
        L = 1 + log(1 + self.K * self.H / pairs)
        return min(1.0, sqrt(pairs * self.log_term * L / (2 * self.K))) or 1.0  # l = 0: any lambda

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return c/n."""
        c = self.H * self.log_term * (1 / (2 * self.shortfall) + 1 / 3)
        return {"flat": self.scale * c / n}
