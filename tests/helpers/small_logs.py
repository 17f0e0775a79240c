"""Logs written out by hand: their head, what is told of them, and how they are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ucfh import InputError, Problem

HEAD = "episode,t,state,action,reward,next_state,done\n"
TOLD = Problem(
    3,
    2,
    2,
    initial=0,
    available=[[True, True], [True, False], [True, True]],
    successors=np.array([[[1, 1, 0], [0, 0, 1]], [[0, 1, 1], [1, 1, 1]], [[0, 0, 1]] * 2], bool),
    terminal=[2],
    state_names=["a", "b", "end"],
    action_names=["x", "y"],
)


def refusal(action: Callable[..., object], *args: Any, **options: Any) -> str:
    """The one line by which something is refused."""
    with pytest.raises(InputError) as caught:
        action(*args, **options)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message
