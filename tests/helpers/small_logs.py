"""Logs written out by hand: their head, what is told of them, and how they are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from helpers.lengths import many
from ucfh import InputError, Log, Problem, read_log

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


def assumed(log: Log) -> dict[str, str]:
    """Return the assumptions of a log, the sentence by the code."""
    return {x.code: x.text for x in log.assumptions}


def refusal(action: Callable[..., object], *args: Any, **options: Any) -> str:
    """The one line by which something is refused."""
    with pytest.raises(InputError) as caught:
        action(*args, **options)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


FUZZ = settings(
    deadline=None,
    max_examples=many(60, 150),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def read(text: str | bytes, tmp_path: Path, *args: Any, **options: Any) -> Log:
    """The log in a .csv file with the usual columns."""
    path = tmp_path / "log.csv"
    path.write_bytes(text if isinstance(text, bytes) else (HEAD + text).encode())
    return read_log(path, *args, **{"accept_losses": True, **options})


GOOD = "0,0,a,x,0.5,b,\n0,1,b,x,1,b,\n"
