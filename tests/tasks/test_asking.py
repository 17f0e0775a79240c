"""What a live task must survive: repeated calls, late and lost outcomes, several workers."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import ucfh
from support.stores import Clock, Stores
from ucfh.tasks.records import StoredPolicy
from ucfh.tasks.task import Task

SHOP: dict[str, Any] = {"actions": ["greet", "wait"], "horizon": 3, "epsilon": 0.5}


def open_shop(stores: Stores, **more: Any) -> Task:
    return ucfh.open_task(stores("shop"), "shop", **SHOP, **{"planning": "off", **more})


@pytest.fixture
def shop(stores: Stores) -> Any:
    with open_shop(stores) as task:
        yield task


def publish(task: Task, number: int, known: int, action: int, states: int = 9) -> None:
    """A policy that takes one action everywhere."""
    actions = np.full((task.declaration.horizon, states), action)
    policy = StoredPolicy(number, 0.0, known, 1, actions, actions, actions, {})
    task.write(lambda tx, _: tx.publish(policy, 0, None))


def test_an_episode_from_its_first_step_to_its_last(shop: Task) -> None:
    first = shop.ask("door", episode="v1")
    assert first == ucfh.Decision("v1", 0, "door", "greet", 0)
    second = shop.tell(first, reward=0.25, state="till")
    assert second == ucfh.Decision("v1", 1, "till", "greet", 0)
    third = shop.tell(("v1", 1), reward=0, state="door")
    assert third == ucfh.Decision("v1", 2, "door", "greet", 0)
    assert shop.tell(third, reward=1, state="till") is None  # the last step
    told = shop.decisions("told")
    assert [x["reward"] for x in told] == [0.25, 0.0, 1.0]
    assert [x["next_state"] for x in told] == ["till", "door", "till"]
    with pytest.raises(ucfh.EpisodeOver, match="'v1' is over since step 2"):
        shop.ask("door", episode="v1")


def test_done_ends_an_episode_whatever_state_is_given(shop: Task) -> None:
    assert shop.tell(shop.ask("door", "v1"), reward=1, state="never seen", done=True) is None
    (step,) = shop.decisions("all")
    assert step["done"]
    assert step["next_state"] is None
    assert [x for x in shop.states.labels if x] == ["door"]


# LIVE, section 5: one test a row


def test_crash_between_ask_and_tell(stores: Stores) -> None:
    """The decision was committed before the answer left."""
    code = (
        "import os, ucfh\n"
        f"task = ucfh.open_task({stores('shop')!r}, 'shop', actions=['greet', 'wait'],"
        " horizon=3, epsilon=0.5, planning='off')\n"
        "task.ask('door', 'v1'); print(task.tell(('v1', 0), reward=0.5, state='till').action)\n"
        "import sys; sys.stdout.flush(); os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (9, "greet\n")
    with open_shop(stores) as task:
        publish(task, 1, 100, action=1)  # a newer policy would act otherwise
        again = task.ask("till", "v1")
        assert again == ucfh.Decision("v1", 1, "till", "greet", 0)
        assert task.ask("till", "v1") == again
        assert task.check() == []


def test_the_same_tell_twice_changes_nothing(shop: Task) -> None:
    first = shop.ask("door", "v1")
    second = shop.tell(first, reward=0.5, state="till")
    assert shop.tell(first, reward=0.5, state="till") == second
    shop.tell(("v1", 1), reward=0.5, state="door")
    assert shop.tell(first, reward=0.5, state="till") == second  # though it has gone on since
    assert shop.status().outcomes == 2
    assert shop.faults() == []


def test_a_different_tell_is_refused_and_kept(shop: Task) -> None:
    first = shop.ask("door", "v1")
    shop.tell(first, reward=0.5, state="till")
    others: list[dict[str, Any]] = [
        {"reward": 0.5, "state": "door"},
        {"reward": 0.4, "state": "till"},
    ]
    for other in others:
        with pytest.raises(ucfh.Conflict, match=r"before as reward 0\.5, state .till"):
            shop.tell(first, **other)
    with pytest.raises(ucfh.Conflict) as refused:
        shop.tell(first, reward=0.5, done=True)
    assert refused.value.status == 409
    assert [x["told"] for x in shop.faults()] == [
        'reward 0.5, state "door"',
        'reward 0.4, state "till"',
        "reward 0.5, done",
    ]
    (told,) = shop.decisions("told")
    assert (told["reward"], told["next_state"]) == (0.5, "till")


def test_the_last_tell_twice(shop: Task) -> None:
    first = shop.ask("door", "v1")
    assert shop.tell(first, reward=1, done=True) is None
    assert shop.tell(first, reward=1, done=True) is None
    with pytest.raises(ucfh.Conflict):
        shop.tell(first, reward=0, done=True)


def test_a_tell_before_its_deadline_counts(stores: Stores, clock: Clock) -> None:
    with open_shop(stores, timeout=60) as task:
        first = task.ask("door", "v1")
        clock.now += 59
        assert task.expire() == 0
        second = task.tell(first, reward=1, state="till")
        assert second is not None
        assert second.t == 1
        assert task.decisions("open")[0]["deadline"] == clock.now + 60


@pytest.mark.parametrize("expired", [False, True])
def test_a_tell_after_its_deadline_is_kept_and_not_counted(
    stores: Stores, clock: Clock, expired: bool
) -> None:
    with open_shop(stores, timeout=60) as task:
        first = task.ask("door", "v1")
        clock.now += 60
        if expired:
            assert task.expire() == 1
            assert task.expire() == 0
        for _ in range(2):
            with pytest.warns(ucfh.LateOutcomeWarning, match="kept as a fault, not counted"):
                assert task.tell(first, reward=1, state="till") is None
        assert ucfh.LateOutcomeWarning.status == 410
        (lost,) = task.decisions("all")
        assert (lost["status"], lost["note"], lost["reward"]) == ("lost", "expired", None)
        (fault,) = task.faults()
        assert (fault["kind"], fault["told"]) == ("late", 'reward 1.0, state "till"')
        status = task.status()
        assert (status.lost, status.late, status.outcomes, status.waiting) == (1, 1, 0, 0)
        assert task.states.labels[1:] == ["door"]  # what is not counted finds no state
        with pytest.raises(ucfh.EpisodeOver, match="expired"):
            task.ask("door", "v1")
        assert task.check() == []


def test_asking_after_the_deadline_finds_the_decision_expired(stores: Stores, clock: Clock) -> None:
    with open_shop(stores, timeout=60) as task:
        task.ask("door", "v1")
        clock.now += 61
        for t in (0, None, 0):  # the same answer each time, by whoever it was expired
            with pytest.raises(ucfh.EpisodeOver, match="expired"):
                task.ask("door", "v1", t=t)
        assert task.status().lost == 1


def test_what_silence_means_can_be_declared(stores: Stores, clock: Clock) -> None:
    with open_shop(stores, timeout=60, on_timeout=("left", 0.25)) as task:
        task.ask("door", "v1")
        clock.now += 61
        assert task.expire() == 1
        (told,) = task.decisions("told")
        assert (told["next_state"], told["reward"], told["note"]) == ("left", 0.25, "expired")
        assert task.status().open == 0
        with pytest.raises(ucfh.InvalidReport, match="has no actions"):
            task.ask("left", "v2")
        assert task.tell(task.ask("door", "v3"), reward=0, state="left") is None
        assert task.check() == []


def test_a_lost_episode_keeps_its_earlier_steps(shop: Task) -> None:
    shop.tell(shop.ask("door", "v1"), reward=0.5, state="till")
    shop.abandon("v1", "the shop  closed")
    shop.abandon("v1")  # again: no change
    told, lost = shop.decisions("all")
    assert (told["status"], lost["status"]) == ("told", "lost")
    assert lost["note"] == "abandoned: the shop closed"
    with pytest.raises(ucfh.EpisodeOver, match="abandoned: the shop closed"):
        shop.ask("till", "v1")
    with pytest.warns(ucfh.LateOutcomeWarning, match="it was abandoned"):
        assert shop.tell(("v1", 1), reward=1, done=True) is None
    status = shop.status()
    assert (status.begun, status.over, status.outcomes, status.lost) == (1, 1, 1, 1)
    assert shop.check() == []


def test_an_unknown_state_is_registered_where_the_set_is_open(shop: Task) -> None:
    shop.tell(shop.ask("door", "v1"), reward=0, state=("till", 3))
    assert shop.states.labels[1:] == ["door", ("till", 3)]


def test_an_unknown_state_is_refused_where_the_set_is_declared(stores: Stores) -> None:
    with open_shop(stores, states=["door", "till"]) as task:
        first = task.ask("door", "v1")
        for _ in range(2):
            with pytest.raises(
                ucfh.InvalidReport, match='"yard" is not in the declared'
            ) as refused:
                task.tell(first, reward=0, state="yard")
        assert refused.value.status == 422
        with pytest.raises(ucfh.InvalidReport, match="yard"):
            task.ask("yard", "v2")
        assert [(x["kind"], x["episode"], x["t"]) for x in task.faults()] == [
            ("state", "v1", 0),
            ("state", "v2", 0),
        ]
        status = task.status()
        assert (status.begun, status.outcomes, status.states) == (1, 0, 2)
        assert task.tell(first, reward=0, state="till") is not None


def test_two_workers_ask_and_tell_the_same_at_once(stores: Stores) -> None:
    """One transaction a call: whoever comes second gets the first one's answer."""
    answers: list[list[Any]] = [[] for _ in range(4)]
    tasks = [open_shop(stores) for _ in answers]

    def work(task: Task, mine: list[Any]) -> None:
        for e in range(20):
            d: Any = task.ask("door", f"v{e}", t=0)
            while d is not None:
                mine.append(d)
                d = task.tell(d, reward=0.5, state=f"s{d.t}{e % 3}")

    threads = [threading.Thread(target=work, args=x) for x in zip(tasks, answers, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers[0]) == 60
    assert all(mine == answers[0] for mine in answers)
    status = tasks[0].status()
    assert (status.begun, status.decisions, status.outcomes, status.states) == (20, 60, 60, 10)
    assert tasks[3].check() == []
    for task in tasks:
        task.close()


def test_workers_see_states_that_others_found(stores: Stores) -> None:
    with open_shop(stores) as one, open_shop(stores) as two:
        first = one.ask("door", "v1")
        assert two.tell(first, reward=0, state="till") == one.ask("till", "v1")
        one.ask("yard", "v2")
        assert [x["state"] for x in two.decisions()] == ["till", "yard"]
        assert two.ask("till", "v3").state == "till"
        assert two.ask("yard", "v2").t == 0


def test_one_event_while_the_clock_is_ahead_does_not_stop_deadlines(
    stores: Stores, clock: Clock
) -> None:
    with open_shop(stores, timeout=2) as task:
        clock.now += 50 * 365 * 86400
        task.ask("door", "ahead")
        clock.now -= 50 * 365 * 86400
        assert task.status().ahead == pytest.approx(50 * 365 * 86400)
        assert len(task.check()) == 2
        late = task.ask("door", "v1")
        assert task.decisions("open")[1]["deadline"] == clock.now + 2
        assert task.status().ahead is None
        assert len(task.check()) == 1  # the decision that was asked for ahead of time is open
        clock.now += 3
        with pytest.warns(ucfh.LateOutcomeWarning):
            task.tell(late, reward=0, state="till")
        assert task.expire() == 0
        task.abandon("ahead")
        assert task.check() == []


def test_a_clock_that_steps_back_a_little_is_no_problem(stores: Stores, clock: Clock) -> None:
    with open_shop(stores, timeout=60) as task:
        first = task.ask("door", "v1")
        clock.now -= 5
        assert task.tell(first, reward=0, state="till") is not None
        assert [x["asked"] for x in task.decisions("all")] == [1000.0, 995.0]
        assert task.status().ahead is None
        assert task.check() == []


def test_asking_for_a_step_again_after_others_have_told_it(shop: Task) -> None:
    first = shop.ask("door", "v1", t=0)
    second = shop.tell(first, reward=0, state="till")
    assert shop.ask("door", "v1", t=0) == first
    assert shop.ask("till", "v1", t=1) == second
    with pytest.raises(ucfh.Conflict, match='is in state "door" at step 0'):
        shop.ask("till", "v1", t=0)
    with pytest.raises(ucfh.OutOfOrder, match="is at step 1, not 2"):
        shop.ask("till", "v1", t=2)
    with pytest.raises(ucfh.OutOfOrder, match="is at step 0, not 1"):
        shop.ask("till", "v2", t=1)
    shop.abandon("v1")
    assert shop.ask("door", "v1", t=0) == first  # this one was told
    with pytest.raises(ucfh.EpisodeOver, match="step 1 was abandoned"):
        shop.ask("till", "v1", t=1)


# policies


def test_an_episode_keeps_its_policy_until_twice_as_much_is_known(shop: Task) -> None:
    publish(shop, 1, 10, action=1)
    d = shop.ask("door", "v1")
    assert (d.action, d.policy) == ("wait", 1)
    publish(shop, 2, 19, action=0)
    assert shop.ask("door", "v2").policy == 2
    second = shop.tell(d, reward=0, state="till")
    assert second is not None
    assert (second.action, second.policy) == ("wait", 1)
    publish(shop, 3, 20, action=0)
    third = shop.tell(second, reward=0, state="till")
    assert third is not None
    assert (third.action, third.policy) == ("greet", 3)


def test_a_new_state_gets_its_first_action(stores: Stores) -> None:
    with open_shop(stores) as task:
        publish(task, 1, 10, action=1, states=2)  # knows the end and one state
        assert task.ask("door", "v1").action == "wait"
        assert task.ask("till", "v2").action == "greet"
        assert task.ask("yard", "v3", actions=["wait"]).action == "wait"


def test_policies_that_are_not_needed_are_removed(shop: Task) -> None:
    publish(shop, 1, 10, action=1)
    d = shop.ask("door", "v1")
    publish(shop, 2, 11, action=1)
    publish(shop, 3, 12, action=0)

    def there() -> list[int]:
        return shop.write(lambda tx, _: [k for k in range(1, 5) if tx.policy(k) is not None])

    assert there() == [1, 3]
    shop.tell(d, reward=0, done=True)
    publish(shop, 4, 13, action=0)
    assert there() == [4]


# bad input


@pytest.mark.parametrize(
    ("reward", "why"),
    [
        (1.5, "outside the declared range"),
        (-0.1, "outside the declared range"),
        (float("nan"), "not a number"),
        (float("inf"), "not a number"),
        ("1", "not a number"),
        (None, "not a number"),
        (True, "not a number"),
        (1 + 0j, "not a number"),
    ],
)
def test_bad_rewards_are_refused_and_kept(shop: Task, reward: Any, why: str) -> None:
    first = shop.ask("door", "v1")
    with pytest.raises(ucfh.InvalidReport, match=why):
        shop.tell(first, reward=reward, state="till")
    (fault,) = shop.faults()
    assert fault["kind"] == "reward"
    assert shop.states.labels[1:] == ["door"]  # nothing was written
    half: Any = np.float32(0.5)
    assert shop.tell(first, reward=half, state="till") is not None


def test_calls_out_of_order_or_of_unknown_episodes(shop: Task) -> None:
    with pytest.raises(ucfh.UnknownEpisode, match="'shop' has no episode 'v1'") as unknown:
        shop.tell(("v1", 0), reward=0, done=True)
    assert unknown.value.status == 404
    with pytest.raises(ucfh.UnknownEpisode):
        shop.abandon("v1")
    shop.ask("door", "v1")
    with pytest.raises(ucfh.OutOfOrder, match="no decision at step 1, its last is at step 0"):
        shop.tell(("v1", 1), reward=0, done=True)
    with pytest.raises(ucfh.InvalidReport, match="has no next state"):
        shop.tell(("v1", 0), reward=0)
    with pytest.raises(ucfh.Conflict, match='is in state "door" at step 0, not "till"'):
        shop.ask("till", "v1")
    shop.tell(("v1", 0), reward=0, done=True)
    with pytest.raises(ucfh.EpisodeOver, match="nothing to abandon"):
        shop.abandon("v1")


@pytest.mark.parametrize("episode", ["", "  ", "a\nb", None, 1.5, True, ("a",)])
def test_bad_names_of_episodes(shop: Task, episode: Any) -> None:
    with pytest.raises(ucfh.InputError, match=r"episode = .* must be a name"):
        shop.ask("door", episode)
    assert shop.ask("door", 17).episode == "17"


def test_a_state_keeps_its_actions(shop: Task) -> None:
    first = shop.ask("door", "v1", actions=["wait"])
    assert first.action == "wait"
    assert shop.ask("door", "v2", actions=["wait"]).action == "wait"
    with pytest.raises(ucfh.Conflict, match="had other actions"):
        shop.ask("door", "v3", actions=["greet", "wait"])
    with pytest.raises(ucfh.InvalidReport, match=r'unknown action "sing"'):
        shop.ask("yard", "v3", actions=["sing"])
    assert shop.status().begun == 2


def test_nothing_is_warned_of_otherwise(shop: Task) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shop.tell(shop.ask("door", "v1"), reward=1, done=True)
