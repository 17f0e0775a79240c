"""MDPs in files: .json, for people, and .npz, for large models; docs/formats.md describes both.

Writing and reading back gives the same model to the last bit. So a row whose probabilities sum
to 1 up to the rounding of the sum itself is kept as it is read, not divided by its sum again
(`ucfh.validation.check_probabilities` settles which rows these are).

The parts: `header`, what files of both kinds say in the same words; `json_format` and
`npz_format`, each from a model to what a file holds and back; `building`, from what a file says
to a checked model.
"""

from __future__ import annotations

import numpy as np

from ucfh import files
from ucfh.files import AnyPath, naming
from ucfh.models.json_format import from_json, to_json
from ucfh.models.npz_format import from_arrays, load_arrays, to_arrays
from ucfh.problem import MDP

__all__ = ["read_model", "write_model"]

ENDINGS = (".json", ".npz")


def write_model(mdp: MDP, path: AnyPath, force: bool = False) -> None:
    """Write an MDP to a file, by its ending .json or .npz.

    Args:
        mdp: the model.
        path: where to; its directory must exist.
        force: whether to overwrite a file that exists.

    """
    if files.check_ending(path, ENDINGS) == ".json":
        files.write_text(path, to_json(mdp), force)
        return
    with files.replacing(path, force) as temporary, temporary.open("wb") as file:
        np.savez(file, **to_arrays(mdp))


def read_model(path: AnyPath) -> MDP:
    """Read an MDP from a file, by its ending .json or .npz.

    Whatever else the file may hold is an `InputError` that names the entry at fault.
    """
    if files.check_ending(path, ENDINGS) == ".json":
        text = files.read_text(path)
        with naming(path):
            return from_json(files.parse_json(text))
    arrays = load_arrays(path)
    with naming(path):
        return from_arrays(arrays)
