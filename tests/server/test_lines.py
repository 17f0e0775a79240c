"""Calls that share a commit: each stands or falls by itself, as if it had come alone."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest

import ucfh
from support.services import DECLARED, Local, Reply, local_service
from ucfh.server import batching
from ucfh.tasks.errors import StoreBusy
from ucfh.tasks.store import TaskStore

STEPS = "/v1/tasks/{}/episodes/{}/steps/{}"


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    with local_service(tmp_path, tasks=["t", "u"]) as found:
        yield found


def commits(local: Local, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list to which each transaction adds its task."""
    made, real = list[int](), local.service.store.transact

    def transact(task: int, call: Any) -> Any:
        made.append(task)
        return real(task, call)

    monkeypatch.setattr(local.service.store, "transact", transact)
    return made


async def at_once(local: Local, requests: list[tuple[str, str, Any]]) -> list[Reply]:
    return list(await asyncio.gather(*(local.sent(*x) for x in requests)))


def test_calls_that_come_together_share_commits(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = commits(local, monkeypatch)
    requests = [("PUT", STEPS.format("t", k, 0), {"state": "x"}) for k in range(200)]
    replies = local.run(at_once(local, requests))
    assert [x.json["episode"] for x in replies] == [str(k) for k in range(200)]
    assert len(made) < 40
    assert local.send("GET", "/v1/tasks/t").json["status"]["decisions"] == 200


def test_one_that_is_refused_leaves_the_others(local: Local) -> None:
    requests: list[tuple[str, str, Any]] = []
    for k in range(50):
        requests.append(("PUT", STEPS.format("t", k, 0), {"state": "x"}))
        requests.append(("PUT", STEPS.format("t", k, 0) + "/outcome", {"reward": 9, "done": True}))
        requests.append(("PUT", STEPS.format("t", k, 7), {"state": f"new {k}"}))
    replies = local.run(at_once(local, requests))
    assert {x.status for x in replies[::3]} == {200}
    assert {x.status for x in replies[1::3]} == {422}
    assert {x.status for x in replies[2::3]} == {409}
    status = local.send("GET", "/v1/tasks/t").json["status"]
    assert (status["decisions"], status["outcomes"], status["states"]) == (50, 0, 1)
    assert local.service.manager.open("t").task.check() == []


def test_a_call_that_breaks_fails_alone(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw rolls a group back; the others are made again."""
    task = local.service.manager.open("t").task
    real = task.asking

    def asking(state: Any, *given: Any, **more: Any) -> Any:
        return (lambda _: 1 // 0) if state == "broken" else real(state, *given, **more)

    monkeypatch.setattr(task, "asking", asking)
    requests = [
        ("PUT", STEPS.format("t", k, 0), {"state": "broken" if k == 20 else "x"}) for k in range(40)
    ]
    statuses = [x.status for x in local.run(at_once(local, requests))]
    assert statuses == [500 if k == 20 else 200 for k in range(40)]
    calls = [{"call": "ask", "episode": name, "state": name} for name in ("broken", "fine")]
    found = local.send("POST", "/v1/tasks/t/batch", {"calls": calls}).json["answers"]
    assert [x["status"] for x in found] == [500, 200]
    assert local.send("GET", "/v1/tasks/t").json["status"]["decisions"] == 40


def test_tasks_do_not_wait_for_each_other(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the line of one task is stuck, another one is served."""
    stuck, task = Event(), local.service.manager.open("t").task
    real = task.serve

    def serve(calls: Any) -> Any:
        stuck.wait(30)
        return real(calls)

    monkeypatch.setattr(task, "serve", serve)

    async def both() -> tuple[Reply, Reply]:
        slow = asyncio.create_task(local.sent("PUT", STEPS.format("t", "e", 0), {"state": "x"}))
        await asyncio.sleep(0)
        fast = await local.sent("PUT", STEPS.format("u", "e", 0), {"state": "x"})
        stuck.set()
        return await slow, fast

    assert [x.status for x in local.run(both())] == [200, 200]


def test_busy_tasks_take_turns(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread, and a task whose line is never empty: another one is served nevertheless."""
    local.service.manager._writers._max_workers = 1
    task, groups = local.service.manager.open("t").task, list[int]()
    real = task.serve

    def serve(calls: Any) -> Any:
        groups.append(len(calls))
        return real(calls)

    monkeypatch.setattr(task, "serve", serve)

    async def both() -> int:
        ended = False

        async def busy(number: int) -> None:
            k = 0
            while not ended:
                k += 1
                await local.sent("PUT", STEPS.format("t", f"{number}-{k}", 0), {"state": "x"})

        always = [asyncio.create_task(busy(number)) for number in range(3)]
        while not groups:
            await asyncio.sleep(0.001)
        before = len(groups)
        await local.sent("PUT", STEPS.format("u", "e", 0), {"state": "x"})
        waited, ended = len(groups) - before, True
        await asyncio.gather(*always)
        return waited

    assert local.run(both()) <= 4


def test_whoever_gives_up_does_not_harm_others(local: Local) -> None:
    async def some() -> Reply:
        first = asyncio.create_task(local.sent("PUT", STEPS.format("t", "a", 0), {"state": "x"}))
        other = asyncio.create_task(local.sent("PUT", STEPS.format("t", "b", 0), {"state": "x"}))
        await asyncio.sleep(0)
        first.cancel()
        return await other

    assert local.run(some()).status == 200
    assert local.send("PUT", STEPS.format("t", "a", 0), {"state": "x"}).status == 200


def test_few_tasks_are_kept_open(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "MOST_OPEN", 2)
    manager = local.service.manager
    for k in range(5):
        manager.open(f"new {k}", **DECLARED)
    assert len(manager._batchers) == 2
    for k in range(5):
        assert local.send("PUT", STEPS.format(f"new%20{k}", "e", 0), {"state": "x"}).status == 200
    assert len(manager._batchers) == 2


def call_of(random: Random) -> dict[str, Any]:
    """Any call, which often fits."""
    episode, t = random.choice(["e1", "e2", "e3"]), random.randrange(3)
    state, done = random.choice(["x", "y", 3, ["p", 1]]), random.random() < 0.2
    kind = random.choice(["ask", "ask", "tell", "tell", "tell", "record", "abandon"])
    if kind == "ask":
        return {"call": kind, "episode": episode, "t": t, "state": state}
    if kind == "tell":
        told = {"done": True} if done else {"state": state}
        reward = random.choice([0, 0.5, 7])
        return {"call": kind, "episode": episode, "t": t, "reward": reward, **told}
    if kind == "record":
        return {"call": kind, "episode": episode, "t": t, "state": state, "action": "b"}
    return {"call": kind, "episode": episode} if random.random() < 0.1 else call_of(random)


def alone(local: Local, task: str, call: dict[str, Any]) -> Reply:
    """The same call by its own request."""
    body = {key: x for key, x in call.items() if key not in ("call", "episode", "t")}
    if call["call"] == "abandon":
        return local.send("POST", f"/v1/tasks/{task}/episodes/{call['episode']}/abandon", body)
    end = {"ask": "", "tell": "/outcome", "record": "/record"}[call["call"]]
    return local.send("PUT", STEPS.format(task, call["episode"], call["t"]) + end, body)


def in_process(local: Local, call: dict[str, Any]) -> Any:
    """The same call on a task in this process: its answer, or the name of the fault."""
    task = local.service.manager.open("v", **DECLARED).task
    key = call["episode"], call.get("t", 0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if call["call"] == "ask":
                return vars(task.ask(call["state"], key[0], t=key[1]))
            if call["call"] == "tell":
                more = {x: call[x] for x in ("state", "done") if x in call}
                found = task.tell(key, reward=call["reward"], **more)
                return {"next": None if found is None else vars(found)}
            if call["call"] == "record":
                task.record(*key, call["state"], call["action"])
            else:
                task.abandon(key[0])
            return {}
    except (ucfh.TaskError, ucfh.LateOutcomeWarning) as error:
        return type(error).__name__


@pytest.mark.parametrize("seed", range(5))
def test_batches_are_single_calls(local: Local, seed: int) -> None:
    """The same calls in batches, one by one, and without HTTP: the same answers and steps."""
    random = Random(seed)
    calls = [call_of(random) for _ in range(120)]
    batched: list[Any] = []
    rest = list(calls)
    while rest:
        size = random.randrange(1, 40)
        sent, rest = rest[:size], rest[size:]
        batched += local.send("POST", "/v1/tasks/t/batch", {"calls": sent}).json["answers"]
    single = [alone(local, "u", call) for call in calls]
    kinds = set()
    for call, answer, reply in zip(calls, batched, single, strict=True):
        assert answer["status"] == reply.status
        assert answer.get("answer", answer.get("problem")) == json.loads(
            reply.body.replace(b"task 'u'", b"task 't'")
        )
        own = in_process(local, call)
        assert answer.get("answer", answer.get("problem", {}).get("fault")) == json.loads(
            json.dumps(own)
        )
        kinds.add(answer["status"])
    assert kinds >= {200, 404, 409, 422}

    def steps(task: str) -> list[Any]:
        found = local.send("GET", f"/v1/tasks/{task}/decisions?status=all").json["decisions"]
        return [{k: x for k, x in step.items() if k not in ("asked", "told")} for step in found]

    assert steps("t") == steps("u") == steps("v")


def test_a_batch_shares_one_commit(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    made = commits(local, monkeypatch)
    calls = [{"call": "ask", "episode": str(k), "state": "x"} for k in range(1000)]
    reply = local.send("POST", "/v1/tasks/t/batch", {"calls": calls})
    assert {x["status"] for x in reply.json["answers"]} == {200}
    assert len(made) == 1
    assert local.send("POST", "/v1/tasks/t/batch", {"calls": []}).json == {"answers": []}


@pytest.mark.parametrize(
    "calls",
    [
        [{"call": "ask", "episode": "e", "state": "x"}] * 1001,
        [{"call": "nix", "episode": "e"}],
        [{"episode": "e", "state": "x"}],
        [{"call": "ask", "episode": 7, "state": "x"}],
        [{"call": "ask", "episode": "", "state": "x"}],
        [{"call": "ask", "episode": "e", "state": "x"}, {"call": "tell", "episode": "e"}],
        [{"call": "tell", "episode": "e", "t": -1, "reward": 0}],
        {"call": "ask"},
    ],
)
def test_batches_that_are_not_as_expected(local: Local, calls: Any) -> None:
    assert local.send("POST", "/v1/tasks/t/batch", {"calls": calls}).status == 422
    assert local.send("GET", "/v1/tasks/t").json["status"]["decisions"] == 0


def test_a_name_that_cannot_be_read_is_one_answer(local: Local) -> None:
    calls = [{"call": "ask", "episode": name, "state": "x"} for name in ("e", "a\nb", "f")]
    found = local.send("POST", "/v1/tasks/t/batch", {"calls": calls}).json["answers"]
    assert [x["status"] for x in found] == [200, 422, 200]


def test_a_store_that_fails_tells_everybody(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(_: TaskStore, *__: Any) -> None:
        raise StoreBusy("another process has it")

    monkeypatch.setattr(type(local.service.store), "transact", busy)
    requests = [("PUT", STEPS.format("t", k, 0), {"state": "x"}) for k in range(20)]
    assert {x.status for x in local.run(at_once(local, requests))} == {503}
