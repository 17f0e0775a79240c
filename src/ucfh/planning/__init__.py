"""Planning over a fixed horizon: optimistic, robust and exact; evaluation of policies.

FixedHorizonEVI (the paper's appendix A) maximizes over policies and over transition models whose
probabilities lie between lo and hi, independently at every step:

    V_{H+1} = 0,   Q_t(s,a) = r_t(s,a) + max { sum p V_{t+1} : lo <= p <= hi, sum p = 1 },
    V_t(s) = max_a Q_t(s,a),   pi_t(s) = argmax_a Q_t(s,a)

with the lowest action on ties, which are values that differ by no more than rounding. (The
published pseudo-code omits r_t.) Its robust counterpart takes the minimum over models, the
guaranteed value. With lo = hi both are exact backward induction.
"""

from ucfh.planning.evi import fixed_horizon_evi
from ucfh.planning.exact import (
    backward_induction,
    evaluate,
    mean_rewards,
    occupancy,
    return_variance,
)
from ucfh.planning.optimistic import PhasePlanner, extended_value_iteration, start_value
from ucfh.planning.plan import Plan

__all__ = [
    "PhasePlanner",
    "Plan",
    "backward_induction",
    "evaluate",
    "extended_value_iteration",
    "fixed_horizon_evi",
    "mean_rewards",
    "occupancy",
    "return_variance",
    "start_value",
]
