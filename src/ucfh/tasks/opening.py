"""Opens a task, or creates it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ucfh._utils.files import AnyPath, check_path
from ucfh.envs.spaces import short
from ucfh.exceptions import unknown
from ucfh.tasks.config import NEEDED, Declaration, check_name
from ucfh.tasks.errors import TaskError, UnknownTask, decoding
from ucfh.tasks.postgres_schema import is_address
from ucfh.tasks.sqlite import SqliteStore
from ucfh.tasks.store import TaskStore
from ucfh.tasks.task import Task

PLANNING = ("background", "inline", "off")


def open_store(store: AnyPath | TaskStore, create: bool = False) -> TaskStore:
    """The database at a path or at an address; one that is open already is itself."""
    if isinstance(store, TaskStore):
        return store
    if is_address(store):
        from ucfh.tasks.postgres import PostgresStore

        return PostgresStore(str(store), create)
    return SqliteStore(check_path(store), create)


def open_task(
    store: AnyPath | TaskStore,
    name: str = "task",
    *,
    actions: Sequence[Any] | None = None,
    horizon: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rewards: tuple[float, float] | None = None,
    max_return: float | None = None,
    states: Sequence[Any] | Mapping[Any, Any] | None = None,
    segments: Sequence[int] | bool | None = None,
    timeout: float | None = None,
    on_timeout: str | tuple[Any, float] | None = None,
    planning: str = "background",
) -> Task:
    """Open a task in a store, or create it.

    To create it, ``actions``, ``horizon`` and ``epsilon`` are needed. Of one that exists, whatever
    is given has to agree with what was declared then.

    Args:
        store: a file, which is an SQLite database; or the address of a PostgreSQL database, such as
            postgresql://user@host/name. One that is open already stays open with the task closed.
        name: of the task; a store may hold several.
        actions: what can be done: texts, whole numbers, or tuples of such.
        horizon: H, the most steps of an episode.
        epsilon: the largest acceptable loss per episode, in the units of the rewards.
        delta: the probability that the certificate may be wrong; 0.1 by default.
        rewards: the least and the largest reward of a step that are possible; (0, 1) by default.
        max_return: the largest sum of the rewards of an episode, if you know it.
        states: all there are, or a dictionary with the actions of each; left out, they are found
            on the way.
        segments: the steps, counted from 0, from which on rewards or transitions may be others;
            True: they may be others at every step.
        timeout: the seconds after which an open decision expires; left out: never.
        on_timeout: what it means that it expires: "lost" (nothing is known; the default), or a
            state, in which the episode is over, and the reward of the step.
        planning: "background": a thread plans; "inline": calls plan, when it is due; "off":
            other processes plan.

    >>> import ucfh
    >>> task = ucfh.open_task("shop.db", actions=["greet", "wait"], horizon=2, epsilon=0.5)
    >>> task.ask("door", episode="visitor-1")
    Decision(episode='visitor-1', t=0, state='door', action='greet', policy=0)
    >>> task.close()

    """
    check_name(name)
    if planning not in PLANNING:
        raise unknown("planning", planning, PLANNING)
    given = {
        "actions": actions, "horizon": horizon, "epsilon": epsilon, "delta": delta,
        "rewards": rewards, "max_return": max_return, "states": states, "segments": segments,
        "timeout": timeout, "on_timeout": on_timeout,
    }  # fmt: skip
    missing = [key for key in NEEDED if given[key] is None]
    made = None if missing else Declaration.make(name, **given)
    opened = open_store(store, create=made is not None)
    try:
        found = opened.find(name)
        if found is None and made is not None:
            opened.create(name, made.to_json(), made.first_states)
            found = opened.find(name)
        if found is None:
            raise _missing(opened, name, missing)
        with decoding(opened.name):
            declaration = Declaration.of_json(found[1])
        declaration.check_same(given, opened.name)
        return Task(opened, found[0], declaration, planning, owns_store=opened is not store)
    except BaseException:
        if opened is not store:
            opened.close()
        raise


def _missing(store: TaskStore, name: str, missing: Sequence[str]) -> TaskError:
    """There is no such task, and too little was given to create it."""
    known = ", ".join(map(repr, store.tasks())) or "none"
    return UnknownTask(
        f"{store.name} has no task {name!r} (known: {short(known)}): name one of these, or create "
        f"it with `ucfh task create` or, in Python, with {', '.join(missing)}"
    )
