"""Any calls in any order, against the obvious task."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import ucfh
from oracles.asking import Answer, ObviousTask, answer_of
from support.stores import Clock, Stores
from ucfh.tasks.records import StoredPolicy
from ucfh.tasks.task import Task

STATES = ["x", "y", 3]
EPISODES = ["e1", "e2", "e3", "e4"]


def outcome_of(call: Callable[..., Any], *given: Any, **more: Any) -> Answer:
    """What a call answers, or how it fails."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call(*given, **more)
        except ucfh.TaskError as error:
            return type(error).__name__
    if any(issubclass(x.category, ucfh.LateOutcomeWarning) for x in caught):
        return "late"
    return answer_of(found) if isinstance(found, ucfh.Decision) else found


def publish(task: Task, number: int, known: int, action: str) -> None:
    actions = np.full((3, 9), task.declaration.action_labels.index(action))
    policy = StoredPolicy(number, 0.0, known, 1, actions, actions, actions, {})
    task.write(lambda tx, _: tx.publish(policy, 0, None))


def step_of(entry: dict[str, Any]) -> tuple[Any, ...]:
    after: Any = None
    if entry["status"] == "lost":
        after = "lost"
    elif entry["status"] == "told":
        after = (entry["reward"], "end" if entry["done"] else entry["next_state"])
    return entry["episode"], entry["t"], entry["state"], entry["action"], entry["policy"], after


@pytest.mark.parametrize("seed", range(30))
def test_any_calls_in_any_order(stores: Stores, clock: Clock, seed: int) -> None:
    """Two workers on one store, chosen at random, and the clock goes on."""
    random, known = Random(seed), ObviousTask(["a", "b"], horizon=3, timeout=5.0)
    clock.now = known.now
    workers = [
        ucfh.open_task(
            stores("t"), actions=["a", "b"], horizon=3, epsilon=0.5, timeout=5, planning="off"
        )
        for _ in range(2)
    ]
    answers = set()
    for _ in range(200):
        task = random.choice(workers)
        if later := random.choice([0, 0, 0.5, 1]):
            known.now += later
            clock.now = known.now
        episode = f"{random.choice(EPISODES)}-{int(known.now) // 20}"
        state, t = random.choice(STATES), random.randrange(3)
        steps = known.episodes.get(episode)
        if steps and random.random() < 0.7:  # what fits is rare otherwise
            t, last = len(steps) - 1, steps[-1]
            state = last.state if last.outcome is None else last.outcome[1]
        reward, after = random.choice([0.0, 0.5]), random.choice([*STATES, "end"])
        done = after == "end"
        more: dict[str, Any] = {"reward": reward, "state": None if done else after, "done": done}
        kind = random.choice(["ask", "ask", "tell", "tell", "record", "abandon", "expire", "plan"])
        if kind == "ask" and state in STATES:
            found = outcome_of(task.ask, state, episode)
            expected = known.ask(episode, state)
        elif kind == "tell":
            found = outcome_of(task.tell, (episode, t), **more)
            expected = known.tell(episode, t, reward, after)
        elif kind == "record" and state in STATES:
            t += random.random() < 0.5
            action = random.choice("ab")
            said = (reward, after) if random.random() < 0.7 else None
            given = (reward, None if done else after, done) if said else ()
            found = outcome_of(task.record, episode, t, state, action, *given)
            expected = known.record(episode, t, state, action, said)
        elif kind == "abandon" and random.random() < 0.2:
            found = outcome_of(task.abandon, episode)
            expected = known.abandon(episode)
        elif kind == "expire":
            assert task.expire() == known.expire()
            continue
        elif kind == "plan" and random.random() < 0.3:
            made = known.policies[-1][0] + random.choice([1, 5, 40])
            known.policies.append((made, random.choice("ab")))
            publish(task, len(known.policies) - 1, *known.policies[-1])
            continue
        else:
            continue
        assert found == expected, (kind, episode, t, state)
        answers.add(found if isinstance(found, str) else type(found))
    assert {"EpisodeOver", "Conflict", tuple} <= answers
    entries = [step_of(x) for x in workers[0].decisions("all")]
    wanted = [
        (name, t, x.state, x.action, x.policy, x.outcome)
        for name, steps in known.episodes.items()
        for t, x in enumerate(steps)
    ]
    assert sorted(entries, key=repr) == sorted(wanted, key=repr)
    assert workers[1].check() == []
    for task in workers:
        task.close()
