"""A run as one file, and what makes two runs the same run."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import numpy as np

from ucfh import __version__
from ucfh.agents.base import Agent
from ucfh.certificate import Certificate
from ucfh.errors import InputError
from ucfh.files import RUN_FORMAT, AnyPath, check_ending, read_arrays, replacing
from ucfh.problem import MDP, Problem
from ucfh.simulation.run import COLUMNS, Checkpoint, Phase, Run

ENDINGS = (".npz",)


def fingerprint(mdp: MDP, problem: Problem) -> str:
    """A short digest of a world and of what the learner is told of it."""
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
    """Raise unless a saved run is of the same problem, learner, seed, method and version."""
    if saved.get("problem") != now["problem"]:
        raise InputError(
            "the saved run cannot go on: its problem is another one, or the learner was told "
            "something else of it; give the same, or start anew"
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
                f"the saved run cannot go on: its {name} is {saved.get(name)!r}, and now it is "
                f"{value!r}; give the same, or start anew"
            )


def save_run(run: Run, path: AnyPath, force: bool = False) -> None:
    """Write a run to one .npz file; no pickles inside."""
    head = {
        "format": RUN_FORMAT,
        "about": run.about,
        "optimal": run.optimal,
        "episode_bound": run.episode_bound,
        "update_bound": run.update_bound,
        "final": run.final,
        "interrupted": run.interrupted,
        "seconds": run.seconds,
        "generator": None if run.checkpoint is None else run.checkpoint.generator,
        "kept": 0 if run.checkpoint is None else run.checkpoint.rows,
    }
    arrays: dict[str, Any] = {"policy": run.policy}
    if run.certificate is not None:
        arrays["certified_policy"] = run.certificate.policy
        head["certificate"] = run.certificate.as_dict()
    arrays["head"] = np.array(json.dumps(head))
    for name, kind in COLUMNS:
        column = [getattr(row, name) for row in run.rows]
        # Python integers of any size are kept as text
        arrays[f"column_{name}"] = np.array(column, str if kind is object else kind)
    if run.checkpoint is not None:
        arrays |= {f"agent_{name}": array for name, array in run.checkpoint.agent.items()}
    check_ending(path, ENDINGS)
    with replacing(path, force) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)


def load_run(path: AnyPath) -> Run:
    """Read a run; an `InputError` if the file is none, or was cut short."""
    arrays = read_arrays(path)
    try:
        return _run_of(arrays)
    except Exception as error:  # an archive of something else
        raise InputError(f"{path}: not a saved run, or damaged: save it again") from error


def _run_of(arrays: dict[str, Any]) -> Run:
    head = json.loads(str(arrays["head"]))
    if head["format"] != RUN_FORMAT:
        raise KeyError(RUN_FORMAT)
    columns = {
        name: [int(x) for x in arrays[f"column_{name}"]]
        if kind is object
        else arrays[f"column_{name}"].tolist()
        for name, kind in COLUMNS
    }
    rows = [
        Phase(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)
    ]
    checkpoint = None
    if head["generator"] is not None:
        state = {k.removeprefix("agent_"): v for k, v in arrays.items() if k[:6] == "agent_"}
        checkpoint = Checkpoint(state, head["generator"], head["kept"])
    return Run(
        about=head["about"],
        optimal=head["optimal"],
        episode_bound=head["episode_bound"],
        update_bound=head["update_bound"],
        policy=arrays["policy"],
        final=head["final"],
        interrupted=head["interrupted"],
        seconds=head["seconds"],
        rows=rows,
        checkpoint=checkpoint,
        certificate=Certificate.of_dict(head["certificate"], arrays["certified_policy"])
        if "certificate" in head
        else None,
    )
