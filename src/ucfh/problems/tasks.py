"""Repeated tasks with a fixed number of steps, the paper's motivation."""

from __future__ import annotations

from math import comb

import numpy as np

from ucfh.mdp import MDP
from ucfh.problems._building import check_whole, compress


def tutoring(*, horizon: int = 10) -> MDP:
    """Two skills to be practiced before an exam: space the practice early, cram late.

    Each skill is unknown, crammed or mastered; the student starts with neither. A day is one
    step, and its action practices one skill, A or B, in one of two ways:

        space   the skill is mastered with probability 0.2; else it changes as if not practiced
        cram    a skill that is not mastered is crammed with probability 0.9, else unknown

    A skill that is not practiced stays crammed with probability 0.3 and mastered with 0.95, else
    it is unknown again; a mastered one that is practiced stays so. The last step is the exam: its
    reward is the fraction of the two skills that is not unknown; all other rewards are 0.

    The paper's footnote says that the best action depends on the days left, even in the same
    state of knowledge. Here, with nothing known, spacing is best until three days before the exam
    (by 0.0186 on the first of ten days) and cramming after that (by 0.35 on the eve).

    Optimum: 0.85505 by default; the best stationary policy has value 0.720195, which is 0.135
    less.

    Args:
        horizon: H, the number of days, that of the exam included.

    >>> from ucfh.problems import make
    >>> mdp = make("tutoring")
    >>> plan = mdp.optimal()
    >>> round(mdp.value(plan.policy), 6)
    0.85505
    >>> [mdp.problem.action_names[a] for a in plan.policy[[0, 8], 0]]
    ['space A', 'cram A']

    """
    check_whole("horizon", horizon, 1)
    idle = np.array([[1, 0, 0], [0.7, 0.3, 0], [0.05, 0, 0.95]])
    cram = np.array([[0.1, 0.9, 0], [0.1, 0.9, 0], [0, 0, 1]])
    space = 0.8 * idle
    space[:, 2] += 0.2
    space[2] = [0, 0, 1]
    days = [(space, idle), (idle, space), (cram, idle), (idle, cram)]
    transitions = np.stack([np.kron(a, b) for a, b in days], axis=1)
    known = np.arange(3) > 0
    rewards = np.zeros((horizon, 9, 1))
    rewards[-1, :, 0] = (known[:, None].astype(float) + known).ravel() / 2
    levels = ("unknown", "crammed", "mastered")
    return MDP(
        transitions,
        rewards,
        horizon,
        state_names=[f"A {a}, B {b}" for a in levels for b in levels],
        action_names=["space A", "space B", "cram A", "cram B"],
    )


_PRICES = (1.0, 0.8, 0.6, 0.4)
_BUYERS = (0.15, 0.3, 0.5, 0.8)
_CUSTOMERS = 4


def revenue(*, stock: int = 20, horizon: int = 13) -> MDP:
    """A quarter's sales: a stock to be sold at prices set every week, worthless afterwards.

    The state is the stock left, the action a price: 100%, 80%, 60% or 40% of the list price. Four
    customers come in a week, and each buys one unit with probability 0.15, 0.3, 0.5 or 0.8. The
    week's reward is price times units sold, as a fraction of four units at the list price. So
    with much time a unit may wait for a high price, and prices fall as time runs out.

    Optimum: 3.34043 by default, which is 13.361719 list prices; the best fixed price has value
    3.089914.

    Args:
        stock: units at the start.
        horizon: H, in weeks.

    >>> from ucfh.problems import make
    >>> mdp = make("revenue")
    >>> plan = mdp.optimal()
    >>> round(mdp.value(plan.policy), 6)
    3.34043
    >>> [mdp.problem.action_names[a] for a in plan.policy[[0, 6, 12], 10]]
    ['price 100', 'price 80', 'price 40']

    """
    check_whole("stock", stock, 1, 1000)
    check_whole("horizon", horizon, 1)
    S, A = stock + 1, len(_PRICES)
    left = np.arange(S)
    demand = np.arange(_CUSTOMERS + 1)
    buys = np.array(_BUYERS)[:, None]
    ways = np.array([comb(_CUSTOMERS, d) for d in demand])
    p = ways * buys**demand * (1 - buys) ** (_CUSTOMERS - demand)  # (A, customers + 1)
    after = np.maximum(left[:, None, None] - demand, 0)
    sold = np.clip(left[:, None] - left, 0, _CUSTOMERS)  # (S, S) units between s and s'
    return MDP(
        compress(S, A, (left[:, None, None], np.arange(A)[:, None], after, p)),
        rewards=(np.array(_PRICES)[:, None] * sold[:, None, :] / _CUSTOMERS)[None],
        horizon=horizon,
        initial=stock,
        state_names=[f"{s} left" for s in left],
        action_names=[f"price {100 * price:.0f}" for price in _PRICES],
        note=f"rewards are in units of {_CUSTOMERS} list prices: a value of 1 is "
        f"{_CUSTOMERS} units sold at the list price",
    )


_CALL: dict[tuple[str, str], dict[str, float]] = {
    ("greeting", "ask"): {"vague": 0.5, "simple": 0.3, "complex": 0.2},
    ("greeting", "pass on"): {"passed on": 1.0},
    ("vague", "ask"): {"simple": 0.4, "complex": 0.3, "vague": 0.2, "upset": 0.1},
    ("vague", "usual fix"): {"solved": 0.35, "vague": 0.35, "upset": 0.3},
    ("vague", "pass on"): {"passed on": 1.0},
    ("simple", "fix"): {"solved": 0.8, "simple": 0.15, "upset": 0.05},
    ("simple", "pass on"): {"passed on": 1.0},
    ("complex", "look up"): {"simple": 0.5, "complex": 0.4, "upset": 0.1},
    ("complex", "fix"): {"solved": 0.25, "complex": 0.45, "upset": 0.3},
    ("complex", "pass on"): {"passed on": 1.0},
    ("upset", "calm"): {"vague": 0.6, "upset": 0.2, "hung up": 0.2},
    ("upset", "pass on"): {"passed on": 0.8, "hung up": 0.2},
}
_OUTCOMES = {"solved": 1.0, "passed on": 0.4, "hung up": 0.0}


def calls(*, horizon: int = 8) -> MDP:
    """A service call of a few minutes: ask, fix, calm the caller, or pass the call on in time.

    A minute is one step. The call is at its greeting, or the problem is vague, simple or complex,
    or the caller is upset; each state has its own actions. The call ends early when it is
    solved (reward 1), passed on to a specialist (0.4) or the caller hangs up (0); after the last
    minute it ends with reward 0. So a complex problem is looked up early and passed on late.

    Optimum: 0.919154 by default; passing every call on at once has value 0.4.

    Args:
        horizon: H, in minutes.

    >>> from ucfh.problems import make
    >>> mdp = make("calls")
    >>> plan = mdp.optimal()
    >>> round(mdp.value(plan.policy), 6)
    0.919154
    >>> [mdp.problem.action_names[a] for a in plan.policy[[0, 7], 3]]
    ['look up', 'pass on']

    """
    check_whole("horizon", horizon, 1)
    states = [*dict.fromkeys(state for state, _ in _CALL), *_OUTCOMES]
    actions = list(dict.fromkeys(action for _, action in _CALL))
    S, A = len(states), len(actions)
    transitions = np.zeros((S, A, S))
    available = np.zeros((S, A), bool)
    for (state, action), chances in _CALL.items():
        pair = states.index(state), actions.index(action)
        available[pair] = True
        for following, p in chances.items():
            transitions[(*pair, states.index(following))] = p
    rewards = np.array([_OUTCOMES.get(state, 0.0) for state in states])
    return MDP(
        transitions,
        rewards=np.broadcast_to(rewards, (1, S, A, S)),
        horizon=horizon,
        available=available,
        terminal=[states.index(state) for state in _OUTCOMES],
        state_names=states,
        action_names=actions,
    )
