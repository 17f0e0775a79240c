"""What was learned from an environment, in a file: counts, bounds, and how states are called.

The file is an .npz with a head in JSON; there are no pickles inside. States are kept as Python
writes them, so they have to be numbers, texts, or tuples of such.
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
ENDINGS = (".npz",)


def save(
    path: AnyPath,
    agent: UnknownStatesUCFH,
    world: SteppedEnvironment,
    about: dict[str, Any],
    broken_off: int = 0,
    truncated: int = 0,
    audit: Audit | None = None,
    force: bool = False,
) -> None:
    """Write what an agent has learned in a world.

    ``broken_off``: how many episodes were; ``truncated``: how many were cut at the horizon.
    """
    check_ending(path, ENDINGS)
    labels = []
    for label in world.labels[1:]:
        labels.append(repr(label))
        if _read(labels[-1]) != label:
            raise InputError(
                f"the state {labels[-1]} cannot be saved: let encode return numbers, texts, or "
                "tuples of them"
            )
    head = {
        "format": FORMAT,
        "version": __version__,
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
    world: SteppedEnvironment,
    about: dict[str, Any],
    audit: Audit | None = None,
) -> tuple[int, int]:
    """Let an agent, its world and their audit continue.

    Returns:
        How many episodes were broken off, and how many were cut at the horizon.

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
            f"{path}: not what `ucfh learn env:NAME --save` wrote, or damaged: pass another file"
        ) from error
    if head["version"] != __version__:
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
        raise InputError(f"{path} is damaged ({error}): begin anew with another file") from error
    world.know(labels, agent.experience)
    return int(head["broken_off"]), int(head["truncated"])


def _read(text: str) -> Any:
    """A label from how Python writes it; None if it cannot be read back."""
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
