"""The union bound of the bounds on values: the number of events that have to hold."""

from __future__ import annotations

import numpy as np

from ucfh._utils.arrays import Bools
from ucfh._utils.memory import check_memory
from ucfh.mdp import Problem


def possible(problem: Problem) -> Bools:
    """Return (H, S) True where an episode may be in the state at the step, by the known table.

    Without segments the states of one step determine those of the next. So when they equal those of
    an earlier step, the sequence is periodic: that step is the last power of two (Brent).
    """
    table, H = problem.table, problem.horizon
    here = np.zeros((H, table.states), bool)
    here[0, table.indices[table.entries_of(table.start)]] = True
    of_entry = np.append(np.tile(table.state, table.segments), -1)[table.row_of_entry]
    mark = 0
    for t in range(H - 1):
        rows = t * table.stride
        at = slice(table.indptr[rows], table.indptr[rows + table.pairs])
        here[t + 1, table.indices[at][here[t, of_entry[at]]]] = True
        if table.segments == 1 and (here[t + 1] == here[mark]).all():
            here[t + 1 :] = np.resize(here[mark : t + 1], (H - t - 1, table.states))
            break
        if (t + 1) & t == 0:
            mark = t + 1
    return here


def count_events(problem: Problem) -> dict[str, int]:
    """Return the number of events that have to hold, by part of `ucfh.confidence.known_states`.

    above: for U, one for each (t, s); below: for L, one for each (t, s, a); all: one for each row;
    outcomes, rewards: one for each row with an unknown reward. Rows with one successor are certain
    if their reward is known. The last transition matters only if its reward depends on it.
    """
    table, rewards = problem.table, problem.rewards
    # memory of all arrays of bounds over (t, s) and (t, s, a), checked before any is allocated
    check_memory(
        f"a certificate for {problem.horizon} steps in {table.states} states",
        problem.horizon * (136 * table.states + 16 * table.pairs),
    )
    steps = problem.horizon - (rewards is not None and rewards.successor is None)
    several = table.lengths[:-1] > 1
    uncertain = (several | problem.reward_unknown).reshape(table.segments, table.pairs)
    by_state = np.add.reduceat(uncertain.astype(int), table.first[:-1], axis=1)
    here = possible(problem)[:steps] * (by_state[:steps] if table.segments > 1 else by_state)
    start, unknown_rewards = int(problem.initial is None), int(problem.reward_unknown.sum())
    return {
        "above": max(1, int((here > 0).sum()) + start),
        "below": max(1, int(here.sum()) + start),
        "all": max(1, int(several.sum()) + start),
        "outcomes": max(1, unknown_rewards),
        "rewards": max(1, unknown_rewards),
    }
