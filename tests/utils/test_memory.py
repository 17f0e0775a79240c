"""Problems that do not fit into memory: refused in one line, before they are made."""

from __future__ import annotations

import numpy as np
import pytest

from support.errors import refusal as fault
from ucfh import MDP, Problem, make
from ucfh._utils import memory


@pytest.fixture(autouse=True)
def a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 10**10)


def test_any_state_after_any_other() -> None:
    message = fault(Problem, 10**6, 10, 10)
    assert message == (
        "a table in which any of 1000000 states may follow any pair needs about 1000000000000000 "
        "bytes of memory (1e+06 GB), but only 10 GB are free: pass the successors, "
        "or use a larger machine"
    )
    assert "any of 100000 states" in fault(make("chain:n=100000").problem.hiding, "successors")


def test_more_pairs_than_there_is_room_for() -> None:
    for states, actions in ((10**12, 2), (10**30, 10**30)):
        message = fault(Problem, states, actions, 3)
        assert message.startswith(f"a problem of {states} states and {actions} actions needs")
    rows = (np.arange(3), np.arange(2))
    message = fault(lambda: Problem(10**12, 1, 1, successors=rows))
    assert message.startswith("a problem of 1000000000000 states")


def test_more_steps_than_there_is_room_for() -> None:
    mdp = MDP([[[1.0]]], [[0.5]], 10**12)
    assert fault(mdp.optimal).startswith("a plan needs about")
    for call in (mdp.value, mdp.values, mdp.occupancy, mdp.weights, mdp.variance):
        assert fault(call, [0]).startswith("a policy of 1000000000000 steps in 1 states needs")
