"""Agents for tests of comparisons, good and bad, which worker processes can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from ucfh import MDP, UCFH


def good(mdp: MDP, seed: int) -> UCFH:
    """Learns the chain in some hundred episodes; its m is no published one."""
    del seed
    return UCFH(mdp.problem, epsilon=0.5, delta=0.1, m=10.0)


def late(mdp: MDP, seed: int) -> UCFH:
    """Needs more than the good one."""
    del seed
    return UCFH(mdp.problem, epsilon=0.5, delta=0.1, m=1e4)


def killed(mdp: MDP, seed: int) -> UCFH:
    """Its process is killed, whenever the seed is 1."""
    if seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return good(mdp, seed)


def faulty(mdp: MDP, seed: int) -> UCFH:
    """Raises when the seed is 2, in two lines."""
    if seed == 2:
        raise RuntimeError("no\n way")
    return good(mdp, seed)


def endless(mdp: MDP, seed: int) -> UCFH:
    """Goes on for a minute from the second seed on, and leaves a file in $UCFH_MARKS."""
    if seed >= 1:
        (Path(os.environ["UCFH_MARKS"]) / "endless").touch()
        time.sleep(60)
    return good(mdp, seed)
