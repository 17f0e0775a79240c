"""Live tasks and commands, recorded as scripts of calls in an empty folder."""

from __future__ import annotations

import io
import json
import os
import random
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from golden.data import certificate, rows_of, without_ends, write
from golden.values import table
from support.prism_files import SREW, TRA
from ucfh import TaskError, certify, make, open_task, write_model
from ucfh.cli.main import main

# live tasks

SHOP: dict[str, Any] = {"actions": ["greet", "wait"], "horizon": 3, "epsilon": 1.2}
OUTCOMES: dict[tuple[Any, Any], list[tuple[float, float, str | None]]] = {
    ("door", "greet"): [(0.62, 0.13, "aisle"), (0.38, 0.0, None)],
    ("door", "wait"): [(0.41, 0.0, "aisle"), (0.59, 0.21, "door")],
    ("aisle", "greet"): [(0.71, 0.87, None), (0.29, 0.05, "aisle")],
    ("aisle", "wait"): [(0.33, 0.64, "door"), (0.67, 0.11, None)],
}
"""By state and action: probability, reward and next state, None at the end."""
CONCURRENT = 5
"""Episodes that are open at the same time."""


def task_entry(
    episodes: int = 40,
    late: float = 0.0,
    lost: float = 0.0,
    conflicts: float = 0.0,
    replaced: float = 0.0,
    **declared: Any,
) -> Any:
    """Return decisions, status and certificate of a task with simulated concurrent episodes.

    Args:
        episodes: how many begin.
        late, lost, conflicts, replaced: the share of outcomes that come after the deadline, never
            come, are reported twice with different rewards, or are of another action.
        declared: of the task, besides `SHOP`.

    """
    rng, now, actions, errors = random.Random(11), 1e9, "", []
    with (
        patch("time.time", lambda: now),
        open_task("shop.db", planning="inline", **{**SHOP, **declared}) as task,
    ):
        begun, waiting = 0, list[Any]()
        while waiting or begun < episodes:
            if len(waiting) < CONCURRENT and begun < episodes:
                waiting.append(task.ask("door", episode=f"e{begun}"))
                begun += 1
                continue
            now += 10
            decision = waiting.pop(rng.randrange(len(waiting)))
            actions += decision.action[0]
            taken = "wait" if rng.random() < replaced else decision.action
            chance, (_, reward, state) = rng.random(), OUTCOMES[decision.state, taken][0]
            if chance > OUTCOMES[decision.state, taken][0][0]:
                _, reward, state = OUTCOMES[decision.state, taken][1]
            if rng.random() < lost:
                task.abandon(decision.episode, reason="moved")
                continue
            if rng.random() < late:
                now += 1e5
            outcome: dict[str, Any] = {"state": state, "done": state is None, "action": taken}
            following = task.tell(decision, reward=reward, **outcome)
            if rng.random() < conflicts:
                try:
                    task.tell(decision, reward=1.0, **outcome)
                except TaskError as error:
                    errors.append(type(error).__name__)
            if following is not None:
                waiting.append(following)
        expired = task.expire()
        known, kept = certificate(task.certificate()), task.faults()
        facts = {"actions": actions, "errors": errors, "expired": expired, "check": task.check()}
        facts |= {"status": task.status(), "certificate": known, "audit": task.audit()}
        facts |= {"faults": [x["kind"] for x in kept], "states": list(task.states.labels[1:])}
        facts |= {"decisions": task.decisions("all")[-5:]}
        try:
            task.export("shop.csv")
        except TaskError as error:
            return {**facts, "export": type(error).__name__}
        return {**facts, "export": table(Path("shop.csv"))[:5], "log": certify("shop.csv").gap}


TASKS = {
    "unknown states": task_entry,
    "declared states": partial(task_entry, states=["door", "aisle"], max_return=2.0),
    "segments": partial(task_entry, segments=[2], delta=0.2),
    "lost outcomes": partial(task_entry, lost=0.03),
    "late outcomes": partial(task_entry, late=0.03, timeout=50000.0),
    "silence is an outcome": partial(
        task_entry, late=0.03, timeout=50000.0, on_timeout=("gone", 0)
    ),
    "conflicting reports": partial(task_entry, conflicts=0.02),
    "replaced actions": partial(task_entry, replaced=0.2),
    "other rewards": partial(task_entry, rewards=(-1.0, 2.0), epsilon=4.0),
}

# commands


def run_command(line: str) -> Any:
    """Return exit code and JSON of a command; of other output, whether there is any.

    Commands run in this process, to save the time that imports take, except ``compare``, which
    starts processes of its own.
    """
    words = shlex.split(line)
    if words[:1] == ["compare"]:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "ucfh", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
        code, text = done.returncode, done.stdout
    else:
        code, text = _run_here(words)
    if text[:1] in ("{", "["):
        return {"exit": code, "json": json.loads(text)}
    return {"exit": code, "prints": bool(text)}


def _run_here(words: list[str]) -> tuple[Any, str]:
    """Return exit code and stdout of a command, run in this process."""
    out = io.StringIO()
    with patch.object(sys, "argv", ["ucfh", *words]), redirect_stdout(out):
        try:
            with redirect_stderr(io.StringIO()):
                main()
        except SystemExit as end:
            return end.code, out.getvalue()
    return 0, out.getvalue()


def command_entry(*lines: str) -> Any:
    """Return results of commands run one after the other, and the CSV files that they write.

    The key of a command is its position and its name, without options, which may be renamed.
    """
    write(rows_of("tutoring:horizon=4", 500), "tutoring.csv")
    write(rows_of("riverswim:n=3,horizon=4", 500, noisy=True), "swim.csv")
    write(without_ends(rows_of("riverswim:n=3,horizon=4", 500)), "short.csv")
    write_model(make("chain:n=3"), "chain.json")
    Path("robot.tra").write_text(TRA)
    Path("robot.srew").write_text(SREW)
    before = set(Path().glob("*.csv"))
    out = {f"{i:02} {_name(line)}": run_command(line) for i, line in enumerate(lines)}
    return out | {str(x): table(x)[:30] for x in sorted(set(Path().glob("*.csv")) - before)}


def _name(line: str) -> str:
    words = line.split()
    return " ".join(words[: 2 if words[:1] in (["task"], ["token"]) else 1])


SCRIPTS = {
    "agents": ["agents --json", "agents psrl --json", "agents"],
    "problems": ["problems --json", "problems hard:n=4 --json", "problems",
                 "problems tutoring --write t.json", "problems t.json --json"],
    "bounds": ["bounds --states 10 --actions 2 --horizon 10 --epsilon 0.1 --delta 0.05 --json",
               "bounds chain:n=3 --epsilon 0.1 --delta 0.05 --json"],
    "learn": ["learn chain:n=3 --epsilon 0.5 --policy p.csv --save run.npz --json",
              "learn chain:n=3 --epsilon 0.5 --resume run.npz --json",
              "act p.csv --state 0 --t 1 --json", "evaluate p.csv chain:n=3 --json",
              "learn chain:n=3 --epsilon 0.5"],
    "learn paper": ["learn chain:n=3 --epsilon 0.5 --paper --json",
                    "learn chain:n=3 --epsilon 0.5 --variant corrected --confidence kl --json"],
    "learn unknown": ["learn chain:n=3 --epsilon 0.6 --unknown rewards --json",
                      "learn chain:n=3 --epsilon 0.9 --unknown all --episodes 500 --json"],
    "learn options": ["learn riverswim --agent psrl --episodes 200 --json",
                      "learn chain:n=3 --confidence l1 --schedule doubling --episodes 500",
                      "learn chain:n=3 --step --episodes 50 --json",
                      "learn riverswim:n=3,horizon=4 --log swim.csv --episodes 900 --json"],
    "learn environment": ["learn env:FrozenLake-v1,horizon=4 --max-return 1 --epsilon 0.4 --seed 3"
                          " --policy p.csv --json"],
    "certify": ["certify tutoring.csv --epsilon 2 --policy p.csv --json",
                "certify tutoring.csv --problem tutoring:horizon=4 --epsilon 0.5 --json",
                "certify swim.csv --states 3 --horizon 4 --segments 2 --max-return 2 --json",
                "certify short.csv --dropouts lost --epsilon 1 --html page.html --json",
                "certify swim.csv --check", "certify swim.csv --policy swim-p.csv",
                "act swim-p.csv --state 0 --t 1 --json"],
    "audit": ["audit swim.csv --json", "audit tutoring.csv --alpha 0.05 --json", "audit swim.csv"],
    "plan": ["plan chain.json --policy best.csv --values values.csv --json",
             "plan robot.tra --horizon 8 --json", "plan robot.tra --horizon 8 --robust --json",
             "plan robot.tra --horizon 8 --policy robot.csv"],
    "compare": ["compare chain:n=3 --agents psrl,ubev,uniform --episodes 300 --seeds 3 --workers 1"
                " --csv runs.csv --json"],
    "verify": ["verify chain:n=3 --epsilon 0.5 --runs 2 --json"],
    "task": ["task create shop.db --actions greet,wait --horizon 2 --epsilon 0.5 --json",
             "ask shop.db door --episode a --json",
             "tell shop.db --episode a --step 0 --reward 0.5 --state aisle --json",
             "tell shop.db --episode a --step 1 --reward 1 --done --json",
             "tell shop.db --episode a --step 1 --reward 0 --done --json",
             "ask shop.db door --episode b", "ask shop.db door --episode c --json",
             "task abandon shop.db --episode b --reason moved --json",
             "task list shop.db --json", "task status shop.db --json",
             "task decisions shop.db --status all --json", "task faults shop.db --json",
             "task certificate shop.db --json", "task expire shop.db --json",
             "task check shop.db --json"],
    "task and log": ["task create t.db --actions left,right --horizon 4 --epsilon 1 --json",
                     "task import t.db swim.csv --json", "task status t.db --json",
                     "task certificate t.db --policy p.csv --json",
                     "task export t.db out.csv --json", "certify out.csv --json"],
    "token": ["token create --file tokens.json --name shop", "token list --file tokens.json --json",
              "token revoke shop --file tokens.json", "token list --file tokens.json --json"],
    "errors": ["", "nonsense", "learn", "learn nonsense", "learn chain:n=x",
               "learn chain --epsilon 9", "learn chain --agent nobody", "certify missing.csv",
               "certify short.csv --json", "certify swim.csv --rewards 0,x", "audit chain.json",
               "plan missing.json", "plan robot.tra", "act chain.json --state 0",
               "evaluate chain.json chain", "bounds --epsilon 0.1 --delta 0.1",
               "problems chain --write chain.json",
               "task status missing.db", "ask missing.db x --episode a", "compare chain --agents x",
               "serve shop.db --host 0.0.0.0 --port 0", "token revoke x --file missing.json"],
}  # fmt: skip
COMMANDS = {name: partial(command_entry, *lines) for name, lines in SCRIPTS.items()}
