"""Stores with flipped bits, zeroed pages or a cut end, and the results of calls on them."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import ucfh

PAGE = 4096
PATIENCE = 20
"""Seconds after which a call hangs."""


def sound_store(path: Path) -> None:
    """A store with two tasks: plans, lost and open decisions, faults, an imported episode."""
    draw = Random(1)
    given: dict[str, Any] = {"actions": ["call", "mail"], "horizon": 3, "planning": "inline"}
    with ucfh.open_task(path, "calls", epsilon=0.5, max_return=1, **given) as task:
        for k in range(60):
            decision: Any = task.ask(f"s{draw.randrange(3)}", f"customer-{k}")
            while decision is not None and draw.random() < 0.97:
                bought = draw.random() < {"call": 0.6, "mail": 0.2}[decision.action]
                state = f"s{draw.randrange(3)}"
                decision = task.tell(decision, reward=int(bought), state=state, done=bought)
            if decision is not None and draw.random() < 0.5:
                task.abandon(f"customer-{k}", "left")
        task.record("person", 0, "s1", "mail", reward=0, next_state="s2")
    with ucfh.open_task(path, "mails", epsilon=0.5, states=["x", "y"], **given) as task:
        for k in range(30):
            task.tell(task.ask("x", k), reward=draw.random(), done=True)
        with suppress(ucfh.Conflict):
            task.tell(("0", 0), reward=0.25, done=True)


def damage(whole: bytes, draw: Random) -> tuple[bytes, str]:
    """A file with one kind of damage, and which."""
    data = bytearray(whole)
    kind = draw.choice(["bit", "bit", "bit", "bits", "page", "cut"])
    if kind == "bit":
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif kind == "bits":
        for _ in range(20):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif kind == "page":
        at = draw.randrange(len(data) // PAGE) * PAGE
        data[at : at + PAGE] = bytes(PAGE)
    else:
        del data[draw.randrange(len(data)) :]
    return bytes(data), kind


class Examined(NamedTuple):
    """Results of the calls on a store.

    Attributes:
        bounds: of the first task's certificate, None if there is none.
        refused: the typed faults, by call.
        found: what ``check`` reports.
        wrong: calls that hung, or raised anything else, with where.

    """

    bounds: tuple[Any, ...] | None
    refused: dict[str, str]
    found: list[str]
    wrong: list[str]


class _Hangs(BaseException):
    pass


def _stop(*_: object) -> None:
    raise _Hangs


def examine(path: Path, folder: Path, patience: int = PATIENCE) -> Examined:
    """Make all calls that read a store."""
    refused: dict[str, str] = {}
    wrong: list[str] = []
    got: dict[str, Any] = {}
    before = signal.signal(signal.SIGALRM, _stop)

    def make(name: str, call: Callable[[], Any]) -> None:
        signal.alarm(patience)
        try:
            got[name] = call()
        except ucfh.InputError as error:
            refused[name] = str(error)
        except _Hangs:
            wrong.append(f"{name} hangs")
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(at.filename).name}:{at.lineno}"
            wrong.append(f"{name}: {type(error).__name__} at {where}: {error!s:.60}")
        finally:
            signal.alarm(0)

    try:
        for name in ("calls", "mails"):
            make("open", partial(ucfh.open_task, path, name, planning="off"))
            task = got.pop("open", None)
            if task is None:
                continue
            make(f"certificate {name}", task.certificate)
            make(f"check {name}", task.check)
            make(f"decisions {name}", partial(task.decisions, "all"))
            if name == "calls":  # the other task has conflicting reports, and so no log
                make("export", partial(task.export, folder / "log.csv", force=True))
            make("status", task.status)
            make("view", task.view)
            make("policy table", task.policy_table)
            make("policy", task.policy)
            make("faults", task.faults)
            make("ask", partial(task.ask, "x", "a-new-one"))
            make("close", task.close)
    finally:
        signal.signal(signal.SIGALRM, before)
    known = got.get("certificate calls")
    bounds = None if known is None else (known.upper, known.lower, known.gap, known.episodes)
    return Examined(bounds, refused, got.get("check calls", []), wrong)


def fuzz(folder: Path, count: int, seed: int, patience: int = PATIENCE) -> list[Any]:
    """Examine damaged stores: (number, kind of damage, sound bounds, what was said) of each."""
    sound = folder / "sound.db"
    sound_store(sound)
    whole = sound.read_bytes()
    right = examine(_copy(whole, folder), folder, patience)
    assert (right.wrong, right.refused, right.found) == ([], {}, [])
    out = []
    for number in range(count):
        data, kind = damage(whole, Random(f"{seed} {number}"))
        out.append((number, kind, right.bounds, examine(_copy(data, folder), folder, patience)))
    return out


def _copy(data: bytes, folder: Path) -> Path:
    path = folder / "damaged.db"
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    path.write_bytes(data)
    return path
