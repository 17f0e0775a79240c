"""Which names of public signatures the sweep draws, and why it leaves out the others.

A name that is neither drawn nor listed here with a reason fails `test_sweep.py`: a new option joins
the sweep, or a reason is given why it cannot make a certificate wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import typer

import ucfh
from sweep import options

READING = "only shows what is stored"
FILES = "only where results are written"
SHOWN = "only how results are shown"


def names_of(function: Callable[..., Any]) -> set[str]:
    """The parameters of a function, without ``self``."""
    return {*inspect.signature(function).parameters} - {"self"}


def options_of(*command: str) -> set[str]:
    """The parameters of a command of the shell."""
    from ucfh.cli.main import app

    found: Any = typer.main.get_command(app)
    for name in command:
        found = found.get_command(None, name)
    return {x.name for x in found.params} - {"help"}


def fields_of(schema: str) -> set[str]:
    """The fields of a message of the service, in its OpenAPI document."""
    from ucfh.server.openapi import document

    return {*_document(document)["components"]["schemas"][schema]["properties"]}


def _document(make: Callable[..., Any]) -> Any:
    import json

    from ucfh.server.endpoints import ENDPOINTS

    made = make(ENDPOINTS)
    return json.loads(made) if isinstance(made, bytes | str) else made


LOG_SHELL = {"columns", "states", "actions", "horizon", "time_dependent", "segments", "rewards",
             "blank_reward", "max_return", "bins", "dropouts", "ignore_case", "decimal",
             "encoding", "accept_losses", "strict", "terminal"}  # fmt: skip
SIGNATURES: dict[str, tuple[Callable[[], set[str]], Iterable[str], dict[str, str]]] = {
    "ucfh.simulate": (
        lambda: names_of(ucfh.simulate),
        {*options.SIMULATE, "mdp", "agent", "seed", "resume", "on_phase"},
        {
            "progress": SHOWN,
            "epsilon": "of an agent by its name; drawn for CertifiedUCFH",
            "delta": "of an agent by its name; drawn for CertifiedUCFH",
        },
    ),
    "ucfh.CertifiedUCFH": (
        lambda: names_of(ucfh.CertifiedUCFH), {*options.CERTIFIED_UCFH, "problem"}, {},
    ),
    "ucfh.Problem": (lambda: names_of(ucfh.Problem), options.PROBLEM, {}),
    "ucfh.MDP": (
        lambda: names_of(ucfh.MDP),
        {"transitions", "rewards", "horizon", "initial", "noise", "available", "terminal",
         "state_names", "action_names", "note"},
        {},
    ),
    "ucfh.certify": (
        lambda: names_of(ucfh.certify), {*options.CERTIFY, "data", "problem"}, {},
    ),
    "ucfh.read_log": (
        lambda: names_of(ucfh.read_log),
        {*options.READ_LOG, "path", "problem", "columns", "encoding", "decimal", "bins",
         "dropouts", "ignore_case", "terminal"},
        {"progress": SHOWN},
    ),
    "ucfh.learn": (
        lambda: names_of(ucfh.learn),
        {*options.LEARN, "env", "episodes", "store", "resume", "log", "force", "progress"},
        {"settings": "arguments of gymnasium.make, for an environment by its id"},
    ),
    "ucfh.open_task": (
        lambda: names_of(ucfh.open_task),
        {*options.OPEN_TASK, "store", "name", "planning"},
        {},
    ),
    "ucfh.connect": (
        lambda: names_of(ucfh.connect), {"url", "task"}, {"token": "only who may call"},
    ),
    "Task.ask": (
        lambda: names_of(ucfh.Task.ask), {"state", "episode", "t", "actions"}, {},
    ),
    "Task.tell": (
        lambda: names_of(ucfh.Task.tell),
        {"decision", "reward", "state", "done", "actions", "action"},
        {},
    ),
    "Task.record": (
        lambda: names_of(ucfh.Task.record),
        {"episode", "t", "state", "action", "reward", "next_state", "done"},
        {},
    ),
    "Task.abandon": (lambda: names_of(ucfh.Task.abandon), {"episode", "reason"}, {}),
    "Task.warm_start": (lambda: names_of(ucfh.Task.warm_start), {"source"}, {}),
    "ucfh certify": (
        lambda: options_of("certify"),
        {*LOG_SHELL, "log", "epsilon", "delta", "html", "force", "json"},
        {
            "problem": "drawn in Python; a file on the shell",
            "unknown": "parts of the problem that are left out, drawn in Python",
            "check": SHOWN,
            "policy": FILES,
            "plot": FILES,
            "remember": FILES,
        },
    ),
    "ucfh learn": (
        lambda: options_of("learn"),
        {"problem", "epsilon", "delta", "confidence", "schedule", "variant", "episodes", "seed",
         "rewards", "max_return", "segments", "masks", "log", "resume", "force"},
        {
            "agent": "agents without a certificate; the one with is drawn in Python",
            "paper": "an agent without a certificate",
            "unknown": "parts of the problem that are left out, drawn in Python",
            "step": "the method, drawn in Python",
            "encoding": "of a log, drawn in Python",
            "accept_losses": "of a log, drawn in Python",
            "plot": FILES,
            "policy": FILES,
            "save": FILES,
            "json": SHOWN,
        },
    ),
    "ucfh task create": (
        lambda: options_of("task", "create"), {*options.OPEN_TASK, "store", "task"},
        {"json": SHOWN},
    ),
    "ucfh ask": (
        lambda: options_of("ask"), {"store", "state", "episode", "step", "actions"},
        {"task": "drawn in Python", "json": SHOWN},
    ),
    "ucfh tell": (
        lambda: options_of("tell"),
        {"store", "episode", "step", "reward", "state", "done", "actions", "action"},
        {"task": "drawn in Python", "json": SHOWN},
    ),
    "ucfh task certificate": (
        lambda: options_of("task", "certificate"),
        {"store", "json"},
        {"task": "drawn in Python", "policy": FILES, "force": FILES},
    ),
    "POST /v1/tasks": (lambda: fields_of("NewTask"), {*options.OPEN_TASK, "task"}, {}),
    "PUT .../steps/{t}": (lambda: fields_of("Ask"), {"state", "actions"}, {}),
    "PUT .../outcome": (
        lambda: fields_of("Tell"), {"reward", "state", "done", "actions", "action"}, {},
    ),
    "PUT .../record": (
        lambda: fields_of("Record"), {"state", "action", "reward", "next_state", "done"}, {},
    ),
    "POST .../abandon": (lambda: fields_of("Abandon"), {"reason"}, {}),
}  # fmt: skip
"""For each entry point: its names, those that the sweep draws, and reasons for the others."""

METHODS = {
    "ask", "tell", "record", "abandon", "expire", "serve",
    "asking", "telling", "recording", "abandoning", "expiring",
    "certificate", "policy", "status", "view", "check", "warm_start", "close",
}  # fmt: skip
"""Public methods of a task that the sweep calls, directly or through another one."""
METHODS_LEFT_OUT = {
    "decisions": READING,
    "faults": READING,
    "states": READING,
    "policy_table": READING,
    "audit": READING,
    "export": FILES,
    "planner": "not for users",
    "planning_error": READING,
    "add_warm_start": "not for users: warm_start calls it",
    "write": "not for users",
}


def unknown_names() -> dict[str, list[str]]:
    """By entry point, names that are neither drawn nor left out for a reason."""
    found = {}
    for entry, (names, drawn, left_out) in SIGNATURES.items():
        if more := sorted(names() - {*drawn} - {*left_out}):
            found[entry] = more
    methods = {x for x in dir(ucfh.Task) if not x.startswith("_")}
    if more := sorted(methods - METHODS - {*METHODS_LEFT_OUT}):
        found["ucfh.Task"] = more
    return found
