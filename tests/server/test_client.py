"""A task over HTTP is the task: the same answers, the same errors, the same certificate."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from inspect import signature
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import ucfh
from oracles.asking import Answer, ObviousTask, answer_of
from support.services import near_service
from ucfh.server import client
from ucfh.server.tokens import READ, WRITE, TokenFile
from ucfh.tasks.protocol import LateAnswer
from ucfh.tasks.records import StoredPolicy
from ucfh.tasks.task import Task

STATES: list[Any] = ["x", ("y", 2), 3]
ACTIONS: list[Any] = ["a", ("b", 1)]
DECLARED: dict[str, Any] = {"actions": ACTIONS, "horizon": 3, "epsilon": 0.5}
CALLS = {"ask": "asking", "tell": "telling", "record": "recording", "abandon": "abandoning"}
Wanted = tuple[str, tuple[Any, ...], dict[str, Any], Answer]
"""A call by its name, with what is given to it, and its right answer."""


def any_call(random: Random, known: ObviousTask) -> Wanted:
    """A call on one of the newest episodes; often one that fits."""
    episode = f"e{random.randrange(4)}-{int(known.now) // 20}"
    state, t = random.choice(STATES), random.randrange(3)
    steps = known.episodes.get(episode)
    if steps and random.random() < 0.7:
        t, last = len(steps) - 1, steps[-1]
        there = last.state if last.outcome is None else last.outcome[1]
        state = there if there in STATES else state
    reward, after = random.choice([0.0, 0.5]), random.choice([*STATES, "end"])
    done = after == "end"
    following = None if done else after
    kind = random.choice(["ask", "ask", "tell", "tell", "tell", "record", "abandon"])
    if kind == "tell":
        more = {"reward": reward, "state": following, "done": done}
        return kind, ((episode, t),), more, known.tell(episode, t, reward, after)
    if kind == "record":
        t, action = t + random.randrange(2), random.choice(ACTIONS)
        told = (reward, after) if random.random() < 0.7 else None
        given = (episode, t, state, action, *((reward, following, done) if told else ()))
        return kind, given, {}, known.record(episode, t, state, action, told)
    if kind == "abandon" and random.random() < 0.3:
        return kind, (episode,), {}, known.abandon(episode)
    return "ask", (state, episode), {}, known.ask(episode, state)


def made_alone(task: ucfh.RemoteTask, kind: str, given: Any, more: Any) -> Answer:
    """What a call answers, or how it fails."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = getattr(task, kind)(*given, **more)
        except ucfh.TaskError as error:
            return type(error).__name__
    late = [x for x in caught if issubclass(x.category, ucfh.LateOutcomeWarning)]
    assert all(x.filename == __file__ for x in late)
    return "late" if late else answer_of(found)


def in_words(answer: Any) -> Answer:
    """An answer of `serve`."""
    if isinstance(answer, ucfh.TaskError):
        return type(answer).__name__
    return "late" if isinstance(answer, LateAnswer) else answer_of(answer)


def publish(task: Task, number: int, known: int, action: Any) -> None:
    actions = np.full((3, 9), task.declaration.action_labels.index(action))
    policy = StoredPolicy(number, 0.0, known, 1, actions, actions, actions, {})
    task.write(lambda tx, _: tx.publish(policy, 0, None))


@pytest.mark.parametrize("seed", range(6))
def test_any_calls_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Alone or five in a request, by two clients, and the clock goes on."""
    random, known = Random(seed), ObviousTask(ACTIONS, horizon=3, timeout=5.0)
    monkeypatch.setattr("time.time", lambda: known.now)
    store, answers = tmp_path / "t.db", set[Any]()
    with (
        ucfh.open_task(store, **DECLARED, timeout=5, planning="off") as near,
        near_service(store) as url,
        ucfh.connect(url) as one,
        ucfh.connect(url) as other,
    ):
        for _ in range(120):
            task = random.choice([one, other])
            known.now += random.choice([0, 0, 0.5, 1])
            calls = [any_call(random, known) for _ in range(random.choice([1, 1, 5]))]
            if len(calls) == 1:
                found = [made_alone(task, *calls[0][:3])]
            else:
                made = [getattr(task, CALLS[x[0]])(*x[1], **x[2]) for x in calls]
                found = [in_words(x) for x in task.serve(made)]
            assert found == [x[3] for x in calls], calls
            answers.update(x if isinstance(x, str) else type(x) for x in found)
            if random.random() < 0.1:
                assert task.expire() == known.expire()
            if random.random() < 0.1:
                known.policies.append((known.policies[-1][0] + 5, random.choice(ACTIONS)))
                publish(near, len(known.policies) - 1, *known.policies[-1])
        assert {"EpisodeOver", "Conflict", "OutOfOrder", "late", tuple} <= answers
        assert one.decisions("all") == near.decisions("all")
        assert near.check() == []


def play(task: Task | ucfh.RemoteTask, episodes: range) -> None:
    """Play invented episodes, of which every tenth is given up."""
    draw = Random(episodes[0])
    for k in episodes:
        decision: ucfh.Decision | None = task.ask("new", k)
        while decision is not None:
            if k % 10 == 9:
                task.abandon(k, "no answer")
                break
            bought = draw.random() < (0.6 if decision.action == "a" else 0.2)
            decision = task.tell(decision, reward=float(bought), state=("old", 1), done=bought)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Task, ucfh.RemoteTask]]:
    """The same task, near and over HTTP, with 100 episodes and a plan."""
    store = tmp_path_factory.mktemp("played") / "t.db"
    with ExitStack() as stack:
        near = stack.enter_context(
            ucfh.open_task(store, "one/two ü", **DECLARED, max_return=1, planning="off")
        )
        url = stack.enter_context(near_service(store))
        task = stack.enter_context(ucfh.connect(url, task="one/two ü"))
        play(task, range(100))
        with pytest.raises(ucfh.InvalidReport, match="reward 7 is outside"):
            task.tell(task.ask("new", "odd"), reward=7, done=True)
        near.planner.step()
        yield near, task


def test_what_was_told_is_there(played: tuple[Task, ucfh.RemoteTask]) -> None:
    near, task = played
    for status in ("open", "told", "lost", "all"):
        assert task.decisions(status) == near.decisions(status)
    assert task.decisions("all", episode=7) == near.decisions("all", episode=7) != []
    assert task.faults() == near.faults() != []
    far, here = (replace(x.status(), age=0.0, oldest=0.0, store="") for x in played)
    assert far == here
    assert str(task.status()).startswith(f"one/two ü in {task.url}: 101 episodes, of which 1 are")
    assert repr(task) == f"RemoteTask('one/two ü' at {task.url})"


def test_what_was_learned_is_the_same(played: tuple[Task, ucfh.RemoteTask]) -> None:
    near, task = played
    found, known = task.certificate(), near.certificate()
    assert found.as_dict() == known.as_dict()
    assert np.array_equal(found.policy, known.policy)
    assert task.audit().as_dict() == near.audit().as_dict()
    policy, own = task.policy(), near.policy()
    assert policy.named() == own.named()
    for t in range(3):
        for state in ("new", ("old", 1), "never seen"):
            assert policy.act(t, state) == own.act(t, state)


def test_the_log_has_the_same_counts(played: tuple[Task, ucfh.RemoteTask], tmp_path: Path) -> None:
    near, task = played
    path = task.export(tmp_path / "far.jsonl")
    near.export(tmp_path / "near.csv")
    far, here = ucfh.read_log(path), ucfh.read_log(tmp_path / "near.csv")
    assert far.episodes == here.episodes == 101
    assert far.states.names == here.states.names
    assert ucfh.certify(far).as_dict() == ucfh.certify(here).as_dict()
    with pytest.raises(ucfh.InputError, match=r"far.jsonl.* exists: pass --force"):
        task.export(path)
    assert task.export(path, force=True) == path
    with pytest.raises(ucfh.InputError, match=r"unknown ending '\.csv'"):
        task.export(tmp_path / "far.csv")


def test_a_log_with_conflicting_reports_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "t.db"
    ucfh.open_task(store, **DECLARED, planning="off").close()
    with near_service(store) as url, ucfh.connect(url) as task:
        task.tell(task.ask("new", "e"), reward=1, done=True)
        with pytest.raises(ucfh.Conflict):
            task.tell(("e", 0), reward=0, done=True)
        with pytest.raises(ucfh.InvalidReport, match="reported in different ways"):
            task.export(tmp_path / "far.jsonl")
    assert list(tmp_path.glob("far*")) == []


def test_many_calls_are_sent_in_several_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MOST_CALLS", 100)
    store = tmp_path / "t.db"
    ucfh.open_task(store, **DECLARED, planning="off").close()
    with near_service(store) as url, ucfh.connect(url) as task:
        found = task.serve([task.asking(np.int64(3), np.int64(k)) for k in range(1250)])
        assert found == [ucfh.Decision(str(k), 0, 3, "a", 0) for k in range(1250)]
        assert len(task.decisions(limit=1100)) == 1100
        listed = task.decisions()
        assert [x["episode"] for x in listed] == [str(k) for k in range(1250)]


def test_threads_share_a_client_and_the_service_is_restarted(tmp_path: Path) -> None:
    """What was acknowledged is there once, and callers notice nothing."""
    store, failed = tmp_path / "t.db", list[BaseException]()
    near = ucfh.open_task(store, **DECLARED, planning="off")

    def work(task: ucfh.RemoteTask, first: int) -> None:
        try:
            play(task, range(first, first + 40))
        except BaseException as error:
            failed.append(error)
            raise

    with near_service(store) as url:
        task = ucfh.connect(url)
        threads = [threading.Thread(target=work, args=(task, 100 * k)) for k in range(4)]
        for thread in threads:
            thread.start()
        while len(near.decisions("all")) < 50:
            threads[0].join(0.01)
    assert any(thread.is_alive() for thread in threads)
    with near_service(store, port=int(url.rpartition(":")[2])), task:
        for thread in threads:
            thread.join()
    assert failed == []
    status = near.status()
    assert (status.begun, status.open, status.faults, status.lost) == (160, 0, 0, 16)
    assert near.check() == []
    near.close()


def test_who_may_do_what(tmp_path: Path) -> None:
    store = tmp_path / "t.db"
    ucfh.open_task(store, **DECLARED, planning="off").close()
    tokens = TokenFile(str(tmp_path / "tokens.json"), create=True)
    (_, write), (_, read) = tokens.add(WRITE, "shop"), tokens.add(READ, "screen")
    with near_service(store, TokenFile(tokens.path)) as url:
        with pytest.raises(ucfh.TaskError, match="needs a token"):
            ucfh.connect(url)
        with pytest.raises(ucfh.TaskError, match="does not accept the token"):
            ucfh.connect(url, "wrong")
        with ucfh.connect(url, read) as task:
            assert task.status().begun == 0
            with pytest.raises(ucfh.TaskError, match="read-only") as caught:
                task.ask("x", "e")
            assert caught.value.status == 403
        with ucfh.connect(url, write) as task:
            assert task.ask("x", "e").action == "a"
        with pytest.raises(ucfh.UnknownTask, match="there is no task 'other'"):
            ucfh.connect(url, write, task="other")


def test_methods_are_those_of_a_task() -> None:
    """With the same arguments; what a task does only near its store is left out."""
    near = {"add_warm_start", "check", "expiring", "planner", "planning_error", "policy_table"}
    near |= {"states", "view", "warm_start", "write"}
    names = {name for name in dir(Task) if not name.startswith("_")}
    assert {name for name in dir(ucfh.RemoteTask) if not name.startswith("_")} == names - near
    for name in names - near:
        own, far = (signature(getattr(kind, name)) for kind in (Task, ucfh.RemoteTask))
        assert list(own.parameters.values()) == list(far.parameters.values()) or name == "serve"


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda task: task.ask(0.5, "e"), "state 0.5 is not a text"),
        (lambda task: task.ask("x", ""), "episode = '' must be a name"),
        (lambda task: task.ask("x", "e", t=-1), "t = -1 must be an integer"),
        (lambda task: task.ask("x", "e", actions=["c"]), 'has an unknown action "c"'),
        (lambda task: task.tell("e", reward=1), "must be a Decision"),
        (lambda task: task.tell(("e", 0), reward=1, done=1), "done = 1 must be True or False"),
        (lambda task: task.tell(("odd", 0), reward=0.5), "has no next state"),
        (lambda task: task.record("e", 0, "x", "c"), 'unknown action "c"'),
        (lambda task: task.abandon("nobody"), "has no episode 'nobody'"),
        (lambda task: task.abandon("e", 5), "reason = 5 must be a text"),
        (lambda task: task.decisions("some"), "unknown status 'some'"),
    ],
)
def test_what_is_wrong_is_said_as_a_task_says_it(
    played: tuple[Task, ucfh.RemoteTask], call: Any, match: str
) -> None:
    near, task = played
    with pytest.raises(ucfh.InputError, match=match) as here:
        call(near)
    with pytest.raises(ucfh.InputError, match=match) as far:
        call(task)
    assert str(here.value) == str(far.value)
    assert type(here.value) is type(far.value)
