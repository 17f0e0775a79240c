"""The file of a run, and when two runs are the same run."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np

from ucfh import __version__
from ucfh._utils.files import RUN_FORMAT, AnyPath, check_ending, read_arrays, replacing
from ucfh.algorithms.base import Agent
from ucfh.exceptions import InputError
from ucfh.mdp import MDP, Problem

ENDINGS = (".npz",)
VERSION = 1
"""The version of the file: a new number for every change, since no other is read."""
Head = dict[str, Any]
Arrays = dict[str, Any]
Made = TypeVar("Made")


def fingerprint(mdp: MDP, problem: Problem) -> str:
    """A short digest of a world and of what the agent is told about it."""
    digest = sha256()
    for table in (mdp.table, problem.table):
        for array in (table.first, table.action, table.indptr, table.indices):
            digest.update(array.tobytes())
    parts = [mdp.p, mdp.rewards.pair, mdp.rewards.successor, problem.initial]
    for part in parts:
        digest.update(b"-" if part is None else part.tobytes())
    told = [mdp.horizon, mdp.noise, problem.rewards is None]
    digest.update(json.dumps(told).encode())
    return digest.hexdigest()[:16]


def describe(mdp: MDP, agent: Agent, seed: int, method: str) -> dict[str, Any]:
    """What determines a run."""
    return {
        **agent.settings(),
        "seed": seed,
        "method": method,
        "version": __version__,
        "problem": fingerprint(mdp, agent.problem),
    }


def check_same(saved: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise unless a saved run is of the same version, problem, agent, seed and method."""
    if saved.get("version") != now["version"]:
        raise InputError(
            f"the saved run was made by ucfh {saved.get('version') or 'unknown'}, and this is "
            f"{now['version']}: resume it with that version, or start a new run"
        )
    if saved.get("problem") != now["problem"]:
        raise InputError(
            "the saved run cannot continue: its problem is another one, or the agent was told "
            "something else about it; pass the same problem, or start a new run"
        )
    if saved.get("agent") == now["agent"] and saved.get("episodes") != now.get("episodes"):
        announced = saved.get("episodes")
        raise InputError(
            f"the saved run was made for {announced} episodes, a number that {now['agent']} is "
            f"told at the start: pass episodes={announced} (--episodes {announced}) again, or "
            "start a new run"
        )
    for name, value in now.items():
        if saved.get(name) != value:
            raise InputError(
                f"the saved run cannot continue: its {name} is {saved.get(name)!r}, and now it is "
                f"{value!r}; pass the same, or start a new run"
            )


def write_run(path: AnyPath, head: Head, arrays: Arrays, force: bool = False) -> None:
    """Write a run to one .npz file: a head in JSON, and arrays by name; no pickles inside."""
    check_ending(path, ENDINGS)
    text = np.array(json.dumps({"format": RUN_FORMAT, "format_version": VERSION, **head}))
    with replacing(path, force) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays, head=text)


def read_run(path: AnyPath, build: Callable[[Head, Arrays], Made]) -> Made:
    """Return what ``build`` makes of a run's file; an `InputError` if it is not one."""
    arrays = read_arrays(path)
    try:
        head = json.loads(str(arrays.pop("head")))
        if head.pop("format") != RUN_FORMAT:
            raise KeyError(RUN_FORMAT)
        if head.pop("format_version", None) == VERSION:
            return build(head, arrays)
        found = head["about"]["version"]
    except Exception as error:  # an archive of something else
        raise InputError(f"{path}: not a saved run, or damaged: save the run again") from error
    raise InputError(
        f"{path} was saved by ucfh {found}, whose files this version does not read. Fix: run again"
    )
