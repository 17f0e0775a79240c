"""Every request, what it answers, and how it is refused."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

import ucfh
from support.services import DECLARED, Local, local_service
from ucfh.server.endpoints import ENDPOINTS
from ucfh.tasks.errors import StoreBusy, StoreFull
from ucfh.tasks.records import NO_TASK, StoredPolicy
from ucfh.tasks.sqlite import SqliteStore
from ucfh.tasks.task import Task

STEPS = "/v1/tasks/t/episodes/{}/steps/{}"


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    with local_service(tmp_path, tasks=["t"]) as found:
        yield found


def ask(local: Local, episode: str, t: int, state: Any) -> Any:
    return local.send("PUT", STEPS.format(episode, t), {"state": state})


def tell(local: Local, episode: str, t: int, **told: Any) -> Any:
    return local.send("PUT", STEPS.format(episode, t) + "/outcome", told)


def problem_of(reply: Any) -> tuple[int, str | None]:
    """The status and the fault of a problem, which is as RFC 9457 has it."""
    assert reply.headers["content-type"] == "application/problem+json"
    said = reply.json
    assert said.keys() >= {"type", "title", "status", "detail"}
    assert said["status"] == reply.status
    assert "\n" not in said["detail"]
    return reply.status, said.get("fault")


def test_an_episode_from_its_first_question_to_its_end(local: Local) -> None:
    first = ask(local, "e", 0, "x")
    assert (first.status, first.json) == (
        200,
        {"episode": "e", "t": 0, "state": "x", "action": "a", "policy": 0},
    )
    following = tell(local, "e", 0, reward=0.5, state=["y", 1])
    assert following.json["next"] == {
        "episode": "e", "t": 1, "state": ["y", 1], "action": "a", "policy": 0,
    }  # fmt: skip
    over = tell(local, "e", 1, reward=1, done=True)
    assert over.json == {"next": None}
    assert tell(local, "e", 1, reward=1, done=True).json == {"next": None}  # again
    assert local.send("GET", "/v1/tasks/t").json["status"]["outcomes"] == 2


def test_names_may_hold_anything_that_can_be_read(local: Local) -> None:
    for sent, name in (("a%2Fb", "a/b"), ("%C3%A4%20%3F", "ä ?"), ("%25", "%"), ("..", "..")):
        assert ask(local, sent, 0, "x").json["episode"] == name
    known = {x["episode"] for x in local.send("GET", "/v1/tasks/t/decisions").json["decisions"]}
    assert known == {"a/b", "ä ?", "%", ".."}


def test_steps_that_somebody_else_decided(local: Local) -> None:
    path = STEPS.format("r", 0) + "/record"
    done = local.send("PUT", path, {"state": "x", "action": "b", "reward": 0.5, "next_state": "y"})
    assert (done.status, done.json) == (200, {})
    assert problem_of(local.send("PUT", path, {"state": "x", "action": "a"})) == (409, "Conflict")


def test_abandoned_and_expired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("ucfh.tasks.sqlite_schema.time.time", lambda: now)
    with local_service(tmp_path) as local:
        local.send("POST", "/v1/tasks", {"task": "t", **DECLARED, "timeout": 10})
        for name in ("one", "two", "three"):
            ask(local, name, 0, "x")
        gone = local.send("POST", "/v1/tasks/t/episodes/one/abandon", {"reason": "gone"})
        assert (gone.status, gone.json) == (200, {})
        now = 2000.0
        assert problem_of(tell(local, "two", 0, reward=0, done=True)) == (410, "LateOutcomeWarning")
        assert local.send("POST", "/v1/tasks/t/expire", {}).json == {"expired": 1}
        assert problem_of(ask(local, "three", 0, "x")) == (409, "EpisodeOver")
        lost = local.send("GET", "/v1/tasks/t/decisions?status=lost").json["decisions"]
        assert [x["note"] for x in lost] == ["abandoned: gone", "expired", "expired"]
        kept = local.send("GET", "/v1/tasks/t/faults").json["faults"]
        assert [(x["kind"], x["episode"]) for x in kept] == [("late", "two")]


def test_the_location_of_a_new_task(local: Local) -> None:
    created = local.send("POST", "/v1/tasks", {"task": "a/b ä?", **DECLARED})
    assert created.status == 201
    assert local.send("GET", created.headers["location"]).json["task"] == "a/b ä?"


def test_one_request_of_many_creates_a_task(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    real = local.service.store.find

    def find(name: str) -> Any:
        found = real(name)
        time.sleep(0.01)  # the others come
        return found

    monkeypatch.setattr(local.service.store, "find", find)

    async def race() -> list[int]:
        body = {"task": "new", **DECLARED}
        sent = (local.sent("POST", "/v1/tasks", body) for _ in range(4))
        return [x.status for x in await asyncio.gather(*sent)]

    assert sorted(local.run(race())) == [200, 200, 200, 201]


def test_tasks_are_created_once(local: Local) -> None:
    body = {"task": "new", **DECLARED, "rewards": [0, 2], "states": {"x": ["a"], "y": None}}
    created = local.send("POST", "/v1/tasks", body)
    assert (created.status, created.json["task"]) == (201, "new")
    again = local.send("POST", "/v1/tasks", body)
    assert (again.status, "location" in again.headers) == (200, False)
    other = local.send("POST", "/v1/tasks", {**body, "horizon": 4})
    assert problem_of(other) == (409, "Conflict")
    assert local.service.store.name not in other.json["detail"]
    wrong = local.send("POST", "/v1/tasks", {**body, "task": "x", "epsilon": -1})
    assert problem_of(wrong) == (422, "InputError")
    declared = local.send("GET", "/v1/tasks/new").json["declaration"]
    assert (declared["rewards"], declared["states"]) == ([0, 2], ["x", "y"])
    listed = local.send("GET", "/v1/tasks").json
    assert ([x["task"] for x in listed["tasks"]], listed["more"]) == (["t", "new"], False)
    assert "store" not in listed["tasks"][0]
    listed = local.send("GET", "/v1/tasks?limit=1").json
    assert ([x["task"] for x in listed["tasks"]], listed["more"]) == (["t"], True)
    assert [x["task"] for x in local.send("GET", "/v1/tasks?after=t").json["tasks"]] == ["new"]
    assert problem_of(local.send("GET", "/v1/tasks?after=nix")) == (404, "UnknownTask")


def test_decisions_in_pages(local: Local) -> None:
    for k in range(5):
        ask(local, f"e{k}", 0, "x")

    def page(query: str) -> tuple[list[str], bool]:
        found = local.send("GET", f"/v1/tasks/t/decisions{query}").json
        return [x["episode"] for x in found["decisions"]], found["more"]

    assert page("?limit=2") == (["e0", "e1"], True)
    assert page("?limit=2&after=3") == (["e3", "e4"], False)
    assert page("?episode=e2&status=all") == (["e2"], False)
    assert page("?status=told") == ([], False)
    for wrong in (
        "limit=0",
        "limit=1001",
        "limit=x",
        "after=-1",
        "status=nix",
        "nix=1",
        "limit=1&limit=2",
    ):
        assert problem_of(local.send("GET", f"/v1/tasks/t/decisions?{wrong}"))[0] == 422


def test_what_was_learned(local: Local, tmp_path: Path) -> None:
    for k in range(3):
        ask(local, f"e{k}", 0, "x")
        tell(local, f"e{k}", 0, reward=0.5, state="y")
    task = local.service.manager.open("t").task
    task.planner.step()
    known = local.send("GET", "/v1/tasks/t/certificate").json
    own = task.certificate()
    assert (known["upper"], known["certified"]) == (own.upper, own.certified)
    assert np.array_equal(known["policy"], own.policy)
    assert local.send("GET", "/v1/tasks/t/audit").json == json.loads(
        json.dumps(task.audit().as_dict())
    )
    table = local.send("GET", "/v1/tasks/t/policy").json
    assert table == json.loads(json.dumps(task.policy_table()))
    log = local.send("GET", "/v1/tasks/t/log.jsonl")
    (tmp_path / "log.jsonl").write_bytes(log.body)
    task.export(tmp_path / "log.csv")
    (tmp_path / "log.csv.toml").rename(tmp_path / "log.jsonl.toml")
    assert ucfh.read_log(tmp_path / "log.jsonl").episodes == 3


def test_an_answer_is_kept_until_something_is_new(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, real = list[int](), Task.certificate

    def certificate(task: Task) -> Any:
        made.append(1)
        return real(task)

    monkeypatch.setattr(Task, "certificate", certificate)
    for _ in range(3):
        assert local.send("GET", "/v1/tasks/t/certificate").json["episodes"] == 0
    ask(local, "e", 0, "x")
    assert local.send("GET", "/v1/tasks/t/certificate").json["episodes"] == 1
    assert len(made) == 2


def test_what_fails_is_not_kept(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(Task, "audit", lambda _: 1 / 0)
        assert problem_of(local.send("GET", "/v1/tasks/t/audit")) == (500, None)
    assert local.send("GET", "/v1/tasks/t/audit").status == 200


def test_the_policy_is_followed(local: Local) -> None:
    actions = np.ones((3, 9), int)
    policy = StoredPolicy(1, 0.0, 0, 1, actions, actions, actions, {"gap": 1.0, "refuted": False})
    task = local.service.manager.open("t").task
    task.write(lambda tx, _: tx.publish(policy, 0, None))
    assert ask(local, "e", 0, "x").json["action"] == "b"


def test_every_task_may_be_missing(local: Local) -> None:
    bodies: dict[str, Any] = {
        "": {"state": "x"}, "/outcome": {"reward": 0, "done": True}, "/batch": {"calls": []},
        "/record": {"state": "x", "action": "a"},
    }  # fmt: skip
    for endpoint in ENDPOINTS:
        if "{task}" in endpoint.path:
            path = endpoint.path.format(task="nix", episode="e", t=0)
            body: Any = next((x for end, x in bodies.items() if end and path.endswith(end)), {})
            body = bodies[""] if path.endswith("/0") else body
            sent = body if endpoint.body is not None else None
            assert problem_of(local.send(endpoint.method, path, sent)) == (404, "UnknownTask"), path


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nix", 404),
        ("GET", "//", 404),
        ("GET", "/v1/tasks/t/nix", 404),
        ("GET", "/v1/tasks/t/episodes", 404),
        ("PUT", STEPS.format("e", "x"), 404),
        ("PUT", STEPS.format("e", "-1"), 404),
        ("PUT", STEPS.format("e", "1" * 5000), 404),
        ("PUT", STEPS.format("", 0), 404),
        ("PUT", STEPS.format("%FF", 0), 404),
        ("PUT", STEPS.format("x" * 501, 0), 404),
        ("GET", "/a" * 1000, 404),
        ("DELETE", "/v1/tasks/t", 405),
        ("GET", STEPS.format("e", 0), 405),
        ("HEAD", "/v1/tasks/t/events", 405),
        ("OPTIONS", "/v1/tasks", 405),
        ("GET", "/page/nix.js", 404),
        ("GET", "/page/..%2F..%2Fserver.py", 404),
        ("GET", "/page/%00", 404),
    ],
)
def test_addresses_that_lead_nowhere(local: Local, method: str, path: str, status: int) -> None:
    reply = local.send(method, path, {"state": "x"} if method == "PUT" else None)
    assert problem_of(reply)[0] == status
    assert (status == 405) == ("allow" in reply.headers)


@pytest.mark.parametrize(
    ("what", "fault"),
    [
        ({"t": 1, "body": {"state": "x"}}, (409, "OutOfOrder")),
        ({"t": 0, "body": {"state": "other"}}, (409, "Conflict")),
        ({"t": 0, "body": {"state": ""}}, (422, "InvalidReport")),
        ({"t": 0, "body": {"state": "a\nb"}}, (422, "InvalidReport")),
        ({"t": 0, "end": "/outcome", "body": {"reward": 7, "done": True}}, (422, "InvalidReport")),
        ({"t": 0, "end": "/outcome", "body": {"reward": 0}}, (422, "InvalidReport")),
        ({"t": 3, "end": "/outcome", "body": {"reward": 0, "done": True}}, (409, "OutOfOrder")),
        ({"t": 0, "end": "/record", "body": {"state": "x", "action": "c"}}, (422, "InvalidReport")),
    ],
)
def test_calls_that_a_task_refuses(
    local: Local, what: dict[str, Any], fault: tuple[int, str]
) -> None:
    ask(local, "e", 0, "x")
    path = STEPS.format("e", what["t"]) + what.get("end", "")
    before = local.send("GET", "/v1/tasks/t/decisions?status=all").json
    assert problem_of(local.send("PUT", path, what["body"])) == fault
    assert local.send("GET", "/v1/tasks/t/decisions?status=all").json == before


def test_an_episode_that_is_not_known(local: Local) -> None:
    assert problem_of(tell(local, "nix", 0, reward=0, done=True)) == (404, "UnknownEpisode")
    gone = local.send("POST", "/v1/tasks/t/episodes/nix/abandon", {})
    assert problem_of(gone) == (404, "UnknownEpisode")


def test_how_the_service_is_doing(local: Local) -> None:
    ask(local, "e", 0, "x")
    assert local.send("GET", "/healthz").body == b"ok\n"
    assert local.send("GET", "/readyz").body == b"ready\n"
    text = local.send("GET", "/metrics").body.decode()
    place = "/v1/tasks/{task}/episodes/{episode}/steps/{t}"
    assert f'ucfh_requests_total{{method="PUT",route="{place}",status="200"}} 1.0' in text
    assert 'ucfh_task_decisions_total{task="t"} 1.0' in text
    assert "ucfh_group_calls_sum 1.0" in text


def test_a_store_that_cannot_be_written_is_not_ready(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise StoreFull(f"cannot write {local.service.store.name}: the disk is full")

    monkeypatch.setattr(local.service.store, "check_ready", full)
    monkeypatch.setattr(local.service.store, "transact", full)
    assert problem_of(local.send("GET", "/readyz")) == (503, None)
    refused = ask(local, "e", 0, "x")
    assert problem_of(refused) == (507, "StoreFull")
    assert refused.json["detail"] == "cannot write the store: the disk is full"
    assert local.send("GET", "/v1/tasks/t").status == 200  # reading goes on


def test_a_failed_write_is_remembered(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls do not fit on the disk, while what the check of the store writes does."""
    store = local.service.store
    real = store.transact

    def full(task: int, write: Any) -> Any:
        if task == NO_TASK:
            return real(task, write)
        raise StoreFull(f"{store.name}: the disk is full")

    batch = {"calls": [{"call": "ask", "episode": "e", "state": "x"}]}
    asked = ("PUT", STEPS.format("e", 0), {"state": "x"})
    for request in (asked, ("POST", "/v1/tasks/t/batch", batch)):
        assert local.send("GET", "/readyz").status == 200
        with monkeypatch.context() as patched:
            patched.setattr(store, "transact", full)
            assert problem_of(local.send(*request)) == (507, "StoreFull")
        assert problem_of(local.send("GET", "/readyz")) == (503, None)
        monkeypatch.setattr(local.service, "_full_until", 0.0)  # some seconds later


def test_ready_means_that_calls_can_be_written(local: Local) -> None:
    """A store that has room for a small row only is not ready."""
    store = local.service.store
    assert isinstance(store, SqliteStore)
    pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
    store.connection.execute(f"PRAGMA max_page_count={pages + 1}")
    assert local.send("GET", "/readyz").status == 503


@pytest.mark.parametrize("name", ["e", "the", "store.db"])
def test_the_name_of_the_store_in_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It is left out where it names the store, and nothing else is changed."""
    monkeypatch.chdir(tmp_path)
    with local_service(Path(), tasks=["t"], name=name) as local:
        assert local.service.store.name == name
        nowhere = local.send("GET", "/nowhere").json["detail"]
        assert nowhere == "there is nothing at this address: see /openapi.json"

        def busy(*_: Any) -> None:
            raise StoreBusy(f"{name} is locked by another process: end that process")

        monkeypatch.setattr(local.service.store, "transact", busy)
        refused = ask(local, "e", 0, "x").json["detail"]
        assert refused == "the store is locked by another process: end that process"


def test_a_store_that_does_not_answer_is_not_ready(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks knows soon, and asking again does not keep more threads busy."""
    answers, asked = Event(), list[int]()

    def check() -> None:
        asked.append(1)
        answers.wait(30)

    monkeypatch.setattr("ucfh.server.application.PATIENCE", 0.01)
    monkeypatch.setattr(local.service.store, "check_ready", check)
    for _ in range(3):
        reply = local.send("GET", "/readyz")
        assert reply.json["detail"] == "not ready: the store does not answer"
    answers.set()
    assert asked == [1]
    monkeypatch.setattr("ucfh.server.application.PATIENCE", 30.0)
    assert local.send("GET", "/readyz").status == 200


def test_errors_that_nobody_foresaw(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("secret label")

    monkeypatch.setattr(Task, "view", broken)
    reply = local.send("GET", "/v1/tasks/t")
    assert problem_of(reply) == (500, None)
    assert b"secret" not in reply.body
    local.service.access_log.close()
    assert b'"fault":"RuntimeError at ' in b"".join(local.lines)
    assert b"secret" not in b"".join(local.lines)


def test_the_page_and_its_files(local: Local) -> None:
    for path in ("/", "/tasks/t"):
        page = local.send("GET", path)
        assert page.status == 200
        assert page.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["cross-origin-resource-policy"] == "same-origin"
    script = local.send("GET", "/page/page.js")
    assert script.headers["cache-control"] == "no-cache"
    again = local.send("GET", "/page/page.js", If_None_Match=script.headers["etag"])
    assert again.status == 304
    assert local.send("HEAD", "/page/page.js").status == 200


def test_a_conflict_and_another_action(local: Local) -> None:
    ask(local, "e", 0, "x")
    told = {"reward": 0.5, "done": True, "action": "b"}
    assert tell(local, "e", 0, **told).json == {"next": None}
    assert tell(local, "e", 0, **told).json == {"next": None}  # a retry
    assert problem_of(tell(local, "e", 0, reward=0.5, done=True)) == (409, "Conflict")
    assert local.send("GET", "/v1/tasks/t").json["status"]["conflicts"] == 1
    (step,) = local.send("GET", "/v1/tasks/t/decisions?status=all").json["decisions"]
    assert (step["action"], step["taken"]) == ("a", "b")
    ask(local, "f", 0, "x")
    assert problem_of(tell(local, "f", 0, reward=0, done=True, action="z")) == (
        422,
        "InvalidReport",
    )


@pytest.mark.parametrize("states", [[], ["x", "x"], {"x": []}])
def test_states_that_cannot_be_declared(local: Local, states: Any) -> None:
    declared = {"task": "u", "actions": ["a"], "horizon": 2, "epsilon": 0.5, "states": states}
    reply = local.send("POST", "/v1/tasks", declared)
    assert problem_of(reply)[0] == 422
    assert "state" in reply.json["detail"]


def test_a_new_task_with_states_is_not_certified(local: Local) -> None:
    declared = {"task": "u", "actions": ["a", "b"], "horizon": 2, "epsilon": 0.5}
    local.send("POST", "/v1/tasks", {**declared, "states": ["x", "y"]})
    known = local.send("GET", "/v1/tasks/u/certificate").json
    assert (known["upper"], known["certified"]) == (2, False)
