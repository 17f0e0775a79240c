"""The state file of learning: counts, bounds, and labels of states.

The file is an .npz with a head in JSON, without pickles. States are stored as Python literals, so
they must be numbers, strings, or tuples of these.
"""

from __future__ import annotations

import json
from ast import literal_eval
from typing import Any

import numpy as np

from ucfh import __version__
from ucfh._utils.files import AnyPath, check_ending, read_arrays, replacing
from ucfh.algorithms.unknown_states import UnknownStatesUCFH
from ucfh.auditing.e_process import Audit
from ucfh.envs.environment import SteppedEnvironment
from ucfh.exceptions import InputError

FORMAT = "ucfh-learned"
FORMAT_VERSION = 1
"""The version of the file: a new number for every change, since no other is read."""
ENDINGS = (".npz",)


def save(
    path: AnyPath,
    agent: UnknownStatesUCFH,
    environment: SteppedEnvironment,
    about: dict[str, Any],
    broken_off: int = 0,
    truncated: int = 0,
    audit: Audit | None = None,
    force: bool = False,
) -> None:
    """Write the state of an agent in an environment.

    Args:
        path: the file.
        agent: the agent.
        environment: the environment.
        about: the settings that a continued run must share.
        broken_off, truncated: the numbers of unfinished episodes, and of those cut at the horizon.
        audit: the assumption checks, if any.
        force: True overwrites an existing file.

    """
    check_ending(path, ENDINGS)
    labels = []
    for label in environment.labels[1:]:
        labels.append(repr(label))
        if _read(labels[-1]) != label:
            raise InputError(
                f"the state {labels[-1]} cannot be saved: let encode return numbers, strings, or "
                "tuples of them"
            )
    head = {
        "format": FORMAT,
        "version": __version__,
        "format_version": FORMAT_VERSION,
        "about": about,
        "labels": labels,
        "broken_off": broken_off,
        "truncated": truncated,
    }
    with replacing(path, force) as temporary, temporary.open("wb") as file:
        tests = {} if audit is None else audit.state()
        np.savez(file, **agent.state(), **tests, head=np.array(json.dumps(head)))


def load(
    path: AnyPath,
    agent: UnknownStatesUCFH,
    environment: SteppedEnvironment,
    about: dict[str, Any],
    audit: Audit | None = None,
) -> tuple[int, int]:
    """Restore an agent, its environment and its assumption checks.

    Returns:
        The numbers of unfinished episodes, and of those cut at the horizon.

    Raises:
        InputError: if the file is damaged, of another version, or of another task.

    """
    check_ending(path, ENDINGS)
    arrays = read_arrays(path)
    try:
        head = json.loads(str(arrays.pop("head")))
        saved, labels = head["about"], [_read(text) for text in head["labels"]]
        if head["format"] != FORMAT:
            raise KeyError(FORMAT)
    except Exception as error:  # an archive of something else
        raise InputError(
            f"{path}: not a file of `ucfh learn env:NAME --save`, or damaged: pass another file"
        ) from error
    if (head["version"], head.get("format_version")) != (__version__, FORMAT_VERSION):
        raise InputError(
            f"{path} was made by ucfh {head['version']}, and this is {__version__}: continue with "
            "that version, or from the log of it"
        )
    for name, value in about.items():
        if saved.get(name) != value:
            raise InputError(
                f"{path} cannot continue: its {name} is {saved.get(name)!r}, and now it is "
                f"{value!r}; pass the same, or another file"
            )
    try:
        agent.restore(arrays)
        if audit is not None:
            audit.restore(arrays)
    except (KeyError, ValueError, IndexError) as error:
        raise InputError(f"{path} is damaged ({error}): start again with another file") from error
    environment.restore_states(labels, agent.experience)
    return int(head["broken_off"]), int(head["truncated"])


def _read(text: str) -> Any:
    """Read a label from a Python literal; None if that fails."""
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
