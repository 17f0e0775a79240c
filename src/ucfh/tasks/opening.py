"""Open or create a task."""

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
    """Return the store at a path or at an address; an open store is returned unchanged."""
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

    Creation needs ``actions``, ``horizon`` and ``epsilon``. For an existing task, the arguments
    have to agree with its declaration.

    Args:
        store: a path of an SQLite database; or the address of a PostgreSQL database, such as
            postgresql://user@host/name; or an open store, which stays open when the task closes.
        name: of the task; a store may contain several.
        actions: labels of the actions: strings, integers, or tuples of these.
        horizon: H, the largest number of steps of an episode.
        epsilon: the accuracy: the largest acceptable loss per episode, in reward units.
        delta: the failure probability of the certificate; 0.1 by default.
        rewards: the smallest and the largest possible reward of a step; (0, 1) by default.
        max_return: an upper bound on the return of an episode, if you know it.
        states: all states, or a dictionary with the actions of each; by default the state space is
            unknown, and states are added as they occur.
        segments: the steps, counted from 0, at which rewards or transitions may change; True: at
            every step.
        timeout: the seconds after which an open decision expires; never by default.
        on_timeout: the outcome of an expired decision: "lost" (missing; the default), or a
            terminal state and the reward of the step.
        planning: "background": in a thread; "inline": in calls, when a plan is due; "off": in other
            processes.

    Returns:
        The task.

    Raises:
        UnknownTask: the task does not exist, and an argument to create it is missing.
        Conflict: an argument differs from the declaration of the task.

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
    """Return the error of a task that does not exist and cannot be created."""
    known = ", ".join(map(repr, store.tasks())) or "none"
    return UnknownTask(
        f"{store.name} has no task {name!r} (known: {short(known)}): name one of these, or create "
        f"it with `ucfh task create` or, in Python, with {', '.join(missing)}"
    )
