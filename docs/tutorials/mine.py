"""A custom problem and agent: see research.md."""

import numpy as np

import ucfh


def machine(size: int = 3, days: int = 7, cost: float = 0.75):
    """A vending machine that holds ``size`` drinks: leave it (action 0), or fill it up (1)."""
    states = range(size + 1)
    transitions = np.zeros((size + 1, 2, size + 1))
    rewards = np.zeros((1, size + 1, 2, size + 1))
    for left in states:
        for action in (0, 1):
            stock = size if action == 1 else left
            for wanted in states:
                sold = min(stock, wanted)
                transitions[left, action, stock - sold] += 1 / (size + 1)
                paid = (sold + cost * (action == 0)) / (size + cost)
                rewards[0, left, action, stock - sold] = paid
    return ucfh.MDP(transitions, rewards, horizon=days, initial=size)


class Eager(ucfh.BonusAgent):
    """Plans with the bonus c H/sqrt(n).

    Args:
        c: the factor of the bonus, positive.

    """

    name = "eager"
    constants = "chosen: c"

    def __init__(self, problem, epsilon, delta, episodes, scale=1.0, c=1.0):
        self.c = c
        super().__init__(problem, epsilon, delta, episodes, scale)

    def coefficients(self, n):
        """The bonus after n visits."""
        return {"flat": self.scale * self.c * self.H / np.sqrt(n)}

    def settings(self):
        """What it was made with."""
        return {**super().settings(), "c": self.c}
