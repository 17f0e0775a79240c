"""Model files: .json to edit by hand, .npz for large models, and PRISM's .tra.

Formats: docs/howto/formats.md.

Writing and reading back gives the same model to the last bit. So probabilities that sum to 1 up to
the rounding of the sum itself are kept, not divided by their sum again
(`ucfh._utils.validation.check_probabilities` decides).

`json_format`, `npz_format` and `prism` read the content of a file, and the first two write it;
`building` has the `ModelContent` and its conversion to checked models.
"""

from __future__ import annotations

import os

import numpy as np

from ucfh._utils import files
from ucfh._utils.files import AnyPath, naming
from ucfh._utils.memory import check_memory
from ucfh.exceptions import InputError
from ucfh.interval_mdp import IntervalMDP
from ucfh.io.building import ModelContent, content_of, to_intervals, to_mdp
from ucfh.io.json_format import from_json, to_json
from ucfh.io.npz_format import from_arrays, to_arrays
from ucfh.io.prism import from_prism
from ucfh.mdp import MDP

__all__ = ["IntervalMDP", "read_intervals", "read_model", "write_model"]

ENDINGS = (".json", ".npz")
PRISM = ".tra"
JSON_BYTES = 18
"""Bytes of memory needed for each byte of a .json file, at most (measured)."""


def write_model(model: MDP | IntervalMDP, path: AnyPath, force: bool = False) -> None:
    """Write a model to a file, by its ending .json or .npz.

    Args:
        model: an MDP, or one with intervals.
        path: the file to write; its directory must exist.
        force: True overwrites an existing file.

    """
    if not isinstance(model, MDP | IntervalMDP):
        example = f", such as make({model!r})" if isinstance(model, str) else ""
        raise InputError(f"{model!r} is not a model: pass an MDP, or an IntervalMDP{example}")
    if files.check_ending(path, ENDINGS) == ".json":
        files.write_text(path, to_json(content_of(model)), force)
        return
    with files.replacing(path, force) as temporary, temporary.open("wb") as file:
        np.savez(file, **to_arrays(content_of(model)))


def read_model(path: AnyPath) -> MDP:
    """Read an MDP from a .json or .npz file.

    Raises:
        InputError: with the invalid entry.

    """
    files.check_ending(path, ENDINGS)
    content = _read(path)
    with naming(path):
        return to_mdp(content)


def read_intervals(
    path: AnyPath,
    horizon: int | None = None,
    states: AnyPath | None = None,
    labels: AnyPath | None = None,
    state_rewards: AnyPath | None = None,
    transition_rewards: AnyPath | None = None,
) -> IntervalMDP:
    """Read a model for planning, with intervals or without: a .json, .npz or PRISM's .tra.

    Args:
        path: the file. The other arguments are for .tra files, which have no horizon, and whose
            states, labels and rewards are in other files.
        horizon: H, required for a .tra file.
        states, labels, state_rewards, transition_rewards: these files; by default those of the
            same name with the endings .sta, .lab, .srew and .trew, if they exist.

    Raises:
        InputError: with the invalid line or entry.

    """
    others = {
        "states": states,
        "labels": labels,
        "state_rewards": state_rewards,
        "transition_rewards": transition_rewards,
    }
    if files.check_ending(path, (*ENDINGS, PRISM)) == PRISM:
        if horizon is None:
            raise InputError(f"{path} has no horizon: pass --horizon (horizon=), a number of steps")
        content = from_prism(path, horizon, **others)
    else:
        given = [
            name for name, value in {"horizon": horizon, **others}.items() if value is not None
        ]
        if given:
            raise InputError(
                f"{given[0].replace('_', '-')} is for .tra files: leave it out with {path}"
            )
        content = _read(path)
    with naming(path):
        return to_intervals(content)


def _read(path: AnyPath) -> ModelContent:
    """Read the content of a .json or .npz file."""
    if files.check_ending(path, ENDINGS) == ".npz":
        arrays = files.read_arrays(path)
        with naming(path):
            return from_arrays(arrays)
    with naming(path):
        if os.path.isfile(path):
            check_memory("its content", JSON_BYTES * os.path.getsize(path))
    text = files.read_text(path)
    with naming(path):
        return from_json(files.parse_json(text))
