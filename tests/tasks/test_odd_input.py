"""Odd calls, odd values and odd surroundings: one line each, and nothing half written."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from threading import Thread
from time import perf_counter
from types import FrameType
from typing import Any, cast

import numpy as np
import pytest

import ucfh
from support.stores import Clock, Stores
from ucfh.tasks import file_lock, postgres_schema
from ucfh.tasks.postgres_schema import is_address
from ucfh.tasks.task import Task

LONG = "x" * 500
DECLARED: dict[str, Any] = {
    "actions": ["call", "mail"], "horizon": 3, "epsilon": 0.5, "planning": "off"
}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def task(stores: Stores) -> Any:
    with ucfh.open_task(stores("store"), **DECLARED) as task:
        yield task


def refused(call: Callable[[], Any], kind: type[ucfh.InputError] = ucfh.InputError) -> str:
    """The message of a call that is refused: one line, not too long."""
    with pytest.raises(kind) as found:
        call()
    message = str(found.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


# values


@pytest.mark.parametrize(
    "state",
    [
        "a b", "q\"uo'te", "żółć", "😀", "e\u0301", LONG, 10**30, -5, True, False,
        (1, "b"), (1, (2, 3)), np.int64(3), np.str_("s"), np.bool_(True), " s", ("", 1),
    ],
)  # fmt: skip
def test_states_come_back_as_they_were(state: Any, task: Task) -> None:
    decision = task.ask(state, "e")
    assert decision.state == state
    assert task.ask(state, "e") == decision
    assert task.tell(decision, reward=0, state=state) is not None
    assert [step["state"] for step in task.decisions("all")] == [state, state]
    assert task.check() == []


@pytest.mark.parametrize(
    "state",
    [
        None, "", " ", "a\nb", "\0", "\ud800", "\u200b", (), [], (None,), (1.5,), ("a\nb",),
        ("\ud800",), 0.5, float("nan"), np.float64(2), np.array([1, 2]), np.array(5),
        {"a": 1}, {1, 2}, b"x", object(), Decimal(1), range(3), "(end)", [0.5] * 10_000,
    ],
)  # fmt: skip
def test_states_that_are_none(state: Any, task: Task) -> None:
    refused(lambda: task.ask(state, "e"), ucfh.InvalidReport)
    decision = task.ask("known", "e")
    if state is not None:
        refused(lambda: task.tell(decision, reward=0, state=state), ucfh.InvalidReport)
    assert task.status().states == 1
    assert task.decisions() == task.decisions("all")
    assert len(task.decisions()) == 1


def test_long_names_are_not_repeated_at_length(stores: Stores) -> None:
    with ucfh.open_task(stores("store"), **DECLARED, states=["known"]) as task:
        refused(lambda: task.ask(LONG, "e"), ucfh.InvalidReport)
        refused(lambda: task.record("e", 0, "known", LONG), ucfh.InvalidReport)
    with ucfh.open_task(stores("store"), "open", **DECLARED) as task:
        task.tell(task.ask(LONG, LONG), reward=0, state=LONG)
        refused(lambda: task.ask("known", LONG), ucfh.Conflict)
        refused(lambda: task.tell((LONG, 0), reward=1, state=LONG), ucfh.Conflict)
        refused(lambda: task.tell((LONG, 9), reward=1, state=LONG), ucfh.OutOfOrder)
        refused(lambda: task.ask(f" {LONG}", "e"), ucfh.InvalidReport)
        refused(lambda: task.ask(LONG, "e", actions=["call"]), ucfh.Conflict)
        refused(lambda: task.record(LONG, 1, LONG, "mail"), ucfh.Conflict)
        task.abandon(LONG, LONG)
        refused(lambda: task.ask(LONG, LONG), ucfh.EpisodeOver)
        with pytest.warns(ucfh.LateOutcomeWarning) as found:
            task.tell((LONG, 1), reward=0, done=True)
        assert len(str(found[0].message)) < 500


def test_names_of_any_letters_have_room_and_longer_ones_are_refused(stores: Stores) -> None:
    """Also in an index of PostgreSQL, which packs what repeats itself."""
    random = Random(0)
    wide = "".join(chr(random.randrange(0x20000, 0x2A000)) for _ in range(500))  # four bytes each
    with ucfh.open_task(stores("store"), **DECLARED) as task:
        task.tell(task.ask(wide[:499], wide), reward=0, state=wide[1:])
        refused(lambda: task.tell((wide, 0), reward=1, state=wide[:499]), ucfh.Conflict)
        refused(lambda: task.ask(wide + "x", "e"), ucfh.InvalidReport)
        refused(lambda: task.ask("s", wide + "x"), ucfh.InputError)
        refused(lambda: task.ask(10**400, "e"), ucfh.InvalidReport)
        deep: Any = "s"
        for _ in range(600):
            deep = (deep,)
        refused(lambda: task.ask(deep, "e"), ucfh.InvalidReport)
        assert [x["episode"] for x in task.decisions("all")] == [wide, wide]
        assert len(task.faults()) == 1


@pytest.mark.parametrize(
    "episode", [None, "", " ", "a\nb", "\0", "\ud800", 1.5, True, (1, 2), b"x", object()]
)
def test_episodes_without_a_name(episode: Any, task: Task) -> None:
    for call in (
        lambda: task.ask("s", episode),
        lambda: task.tell((episode, 0), reward=0, done=True),
        lambda: task.abandon(episode),
        lambda: task.record(episode, 0, "s", "call"),
    ):
        refused(call)
    assert task.status().begun == 0


@pytest.mark.parametrize("episode", ["a b", "q\"uo'te;--", "żółć😀", 17, -1, np.int64(18), LONG])
def test_episodes_with_odd_names(episode: Any, task: Task) -> None:
    task.tell(task.ask("s", episode), reward=1, done=True)
    assert [step["episode"] for step in task.decisions("told", episode)] == [str(episode)]


@pytest.mark.parametrize(
    "reward",
    [
        float("nan"), float("inf"), True, np.bool_(True), "0.5", None, Decimal("0.5"), [0.5], 1j,
        np.array([0.5]), 10**400, 1.1, -0.1, np.float64("nan"), object(),
    ],
    ids=lambda reward: f"{reward!r:.20}",
)  # fmt: skip
def test_rewards_that_are_none(reward: Any, task: Task) -> None:
    decision = task.ask("s", "e")
    message = refused(lambda: task.tell(decision, reward=reward, state="s"), ucfh.InvalidReport)
    assert "reward" in message
    assert task.ask("s", "e") == decision
    assert [fault["kind"] for fault in task.faults()] == ["reward"]


def test_a_text_is_shown_as_one(task: Task) -> None:
    decision, reward = task.ask("s", "e"), cast(Any, "0.5")
    assert "'0.5'" in refused(lambda: task.tell(decision, reward=reward, done=True))


@pytest.mark.parametrize("reward", [0, 1, np.float32(0.5), np.int8(1), Fraction(1, 2), 1 + 1e-12])
def test_rewards_of_other_types(reward: Any, task: Task) -> None:
    task.tell(task.ask("s", "e"), reward=reward, state="s")
    (step,) = task.decisions("told")
    assert step["reward"] == min(float(reward), 1.0)


def test_truth_as_numpy_has_it(task: Task) -> None:
    assert task.tell(task.ask("s", "e"), reward=0, done=np.bool_(True)) is None  # type: ignore[arg-type]
    assert task.decisions("told")[0]["done"] is True
    refused(lambda: task.tell(("e", 0), reward=0, done=1))  # type: ignore[arg-type]


# steps


def test_steps_that_were_not_decided(task: Task, stores: Stores) -> None:
    refused(lambda: task.tell(("e", 0), reward=0, done=True), ucfh.UnknownEpisode)
    refused(lambda: task.abandon("e"), ucfh.UnknownEpisode)
    task.ask("s", "e")
    for t in (1, 2, 10**30):
        refused(lambda t=t: task.tell(("e", t), reward=0, done=True), ucfh.OutOfOrder)  # type: ignore[misc]
        refused(lambda t=t: task.record("f", t, "s", "call"), ucfh.OutOfOrder)  # type: ignore[misc]
    odd: list[Any] = [-1, 0.0, "0", None, False]
    for x in odd:
        refused(lambda x=x: task.tell(("e", x), reward=0, done=True))  # type: ignore[misc]
    for key in (None, "e", "ab", ("e",), ("e", 0, 1), 5, object()):
        refused(lambda key=key: task.tell(key, reward=0, done=True))  # type: ignore[misc]
    with ucfh.open_task(stores("other"), **DECLARED) as other:
        foreign = other.ask("s", "of another task")
    refused(lambda: task.tell(foreign, reward=0, done=True), ucfh.UnknownEpisode)
    assert task.status().outcomes == 0
    assert task.check() == []


# surroundings


def test_a_closed_task(task: Task, tmp_path: Path) -> None:
    decision = task.ask("s", "e")
    task.close()
    for call in (
        lambda: task.ask("s", "e"),
        lambda: task.tell(decision, reward=0, done=True),
        lambda: task.record("f", 0, "s", "call"),
        lambda: task.abandon("e"),
        task.expire,
        task.decisions,
        task.status,
        task.faults,
        task.certificate,
        task.policy,
        task.audit,
        task.check,
        lambda: task.export(tmp_path / "log.csv"),
    ):
        assert "closed" in refused(call, ucfh.StoreError)
    task.close()
    assert not (tmp_path / "log.csv").exists()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_that_is_taken_away(replaced: bool, path: Path) -> None:
    """What is acknowledged must be where it is looked for."""
    task = ucfh.open_task(path, **DECLARED)
    decision = task.ask("s", "e")
    if replaced:
        (path.parent / "other").write_bytes(b"something else")
        (path.parent / "other").replace(path)
    else:
        path.unlink()
    message = refused(lambda: task.tell(decision, reward=0, done=True), ucfh.StoreError)
    assert "removed" in message
    refused(lambda: task.ask("s", "f"), ucfh.StoreError)
    task.close()
    assert path.exists() == replaced


@pytest.mark.parametrize(
    "store",
    ["", "a\0b", ".", "no/such/folder.db", LONG],
    ids=["empty", "nul", "folder", "no folder", "long"],
)
def test_stores_that_cannot_be(store: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with pytest.raises(ucfh.InputError) as found:
        ucfh.open_task(store, **DECLARED)
    assert "\n" not in str(found.value)
    assert os.listdir(".") == []


@pytest.mark.parametrize("store", ["file:x.db?mode=ro", "a%20b c#d.db", "żółć😀.db"])
def test_stores_with_odd_names(store: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with ucfh.open_task(store, **DECLARED) as task:
        decision = task.ask("s", "e")
    with ucfh.open_task(store) as task:
        assert task.ask("s", "e") == decision
    assert Path(store).is_file()


def test_other_names_of_one_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link, a relative name, another folder: one store and one lock."""
    (path.parent / "link.db").symlink_to(path)
    (path.parent / "below").mkdir()
    monkeypatch.chdir(path.parent)
    with ucfh.open_task("store.db", **DECLARED) as one:
        monkeypatch.chdir("below")
        with ucfh.open_task("../link.db", **DECLARED) as two:
            decision = one.ask("s", "e")
            assert two.ask("s", "e") == decision
            two.tell(decision, reward=0, state="new")
            assert one.ask("new", "e").t == 1
            assert one.check() == two.check() == []
    assert sorted(os.listdir(path.parent)) == ["below", "link.db", "store.db", "store.db-lock"]


def test_threads_with_two_objects(stores: Stores) -> None:
    wrong: list[BaseException] = []

    def work(task: Task, worker: int) -> None:
        try:
            for k in range(20):
                decision: Any = task.ask("s", f"{worker}-{k}")
                while decision is not None:
                    decision = task.tell(decision, reward=0.5, state=f"s{k % 7}")
                task.ask("shared", f"shared {k}")
                task.status()
        except BaseException as error:
            wrong.append(error)

    with (
        ucfh.open_task(stores("store"), **DECLARED) as one,
        ucfh.open_task(stores("store"), **DECLARED) as two,
    ):
        threads = [Thread(target=work, args=((one, two)[i % 2], i)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert one.status().outcomes == 6 * 20 * 3
        assert len(one.decisions()) == 20
        assert one.check() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_opens_anew(stores: Stores) -> None:
    with ucfh.open_task(stores("store"), **DECLARED) as task:
        task.ask("s", "e")
        if (pid := os.fork()) == 0:
            try:
                assert "forked" in refused(lambda: task.ask("s", "e"), ucfh.StoreError)
                task.close()
                with ucfh.open_task(stores("store"), planning="off") as own:
                    own.ask("s", "of the child")
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        assert [step["episode"] for step in task.decisions()] == ["e", "of the child"]
        assert task.check() == []


def test_a_clock_that_is_set_back(stores: Stores, clock: Clock) -> None:
    clock.now = 1e9
    with ucfh.open_task(stores("store"), **DECLARED, timeout=100) as task:
        decision = task.ask("s", "e")
        clock.now -= 1e6
        assert task.expire() == 0
        assert task.tell(decision, reward=0, state="s") is not None
        assert task.status().oldest == 0
        clock.now += 1e6 + 101
        with pytest.warns(ucfh.LateOutcomeWarning):
            assert task.tell(("e", 1), reward=0, state="s") is None
        assert task.check() == []


def test_a_full_disk_when_a_policy_is_written(path: Path) -> None:
    with ucfh.open_task(path, **{**DECLARED, "planning": "inline"}) as task:
        decision: Any = task.ask("s", "e")
        writes = task.store.connection.execute  # type: ignore[attr-defined]
        pages = writes("PRAGMA page_count").fetchone()[0]
        writes(f"PRAGMA max_page_count={pages}")
        k, full = 0, False
        while not full:  # asking still finds room in pages that are there
            k += 1
            assert k < 1000
            try:
                task.ask("s", f"{k} {LONG[:400]}")
            except ucfh.StoreFull:
                full = True
        known = task.status()
        writes(f"PRAGMA max_page_count={2 * pages + 1000}")
        assert task.ask("s", "e") == decision
        decision = task.tell(decision, reward=0.5, state="s")
        assert task.status().policy > known.policy
        assert task.status().error is None
        assert task.check() == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs timers that send signals")
def test_interrupts_at_any_moment(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in ask or tell: no lock is left behind, and the same call again is answered."""
    monkeypatch.setattr(file_lock, "PATIENCE", 1.0)
    monkeypatch.setattr(postgres_schema, "PATIENCE", 1.0)
    draw, hit, told = random.Random(1), 0, 0
    rounds = 150 if is_address(stores("store")) else 1000  # there, connections are made again

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with (
            ucfh.open_task(stores("store"), **DECLARED) as task,
            ucfh.open_task(stores("store"), **DECLARED) as other,
        ):
            decision: Any = task.ask("s", 0)
            took = -perf_counter()
            for k in range(20):
                task.tell(task.ask("s", f"before {k}"), reward=0.5, state="s0", done=True)
            took = (took + perf_counter()) / 20  # of two calls
            for k in range(rounds):
                try:
                    signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, 1.5 * took))
                    later = task.tell(decision, reward=0.5, state=f"s{k % 50}")
                    told += 1
                    decision = task.ask("s", k + 1) if later is None else later
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    hit += 1
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    other.ask("s", "another")  # the store is free
                    later = task.tell(decision, reward=0.5, state=f"s{k % 50}")
                    told += 1
                    decision = task.ask("s", k + 1) if later is None else later
            assert task.check() == []
            assert told >= rounds > hit > rounds / 10
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
