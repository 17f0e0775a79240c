"""Several calls in one commit: each stands or falls alone, as if it had been made by itself."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import ucfh
from support.stores import Clock, Stores
from ucfh.tasks.protocol import LateAnswer
from ucfh.tasks.task import Task

SHOP: dict[str, Any] = {"actions": ["greet", "wait"], "horizon": 3, "epsilon": 0.5, "timeout": 1e6}


def open_shop(store: str) -> Task:
    return ucfh.open_task(store, "shop", planning="off", **SHOP)


@pytest.fixture
def shop(stores: Stores) -> Any:
    with open_shop(stores("shop")) as task:
        yield task


def test_answers_come_in_the_order_of_the_calls(shop: Task) -> None:
    answers = shop.serve(
        [
            shop.asking("door", "v1"),
            shop.telling(("v1", 0), reward=0.5, state="till"),
            shop.asking("door", "v2"),
            shop.recording("v3", 0, "door", "wait", 1.0, done=True),
            shop.abandoning("v2", "left"),
        ]
    )
    assert answers == [
        ucfh.Decision("v1", 0, "door", "greet", 0),
        ucfh.Decision("v1", 1, "till", "greet", 0),
        ucfh.Decision("v2", 0, "door", "greet", 0),
        None,
        None,
    ]
    assert [x["status"] for x in shop.decisions("all")] == ["told", "open", "lost", "told"]


def test_a_refused_call_takes_nothing_else_with_it(shop: Task) -> None:
    first, wrong, second = shop.serve(
        [
            shop.asking("door", "v1"),
            # "garden" is new, and found before its reward is refused
            shop.telling(("v1", 0), reward=7, state="garden"),
            shop.asking("door", "v2"),
        ]
    )
    assert isinstance(wrong, ucfh.InvalidReport)
    assert [first.episode, second.episode] == ["v1", "v2"]
    assert shop.states.labels[1:] == ["door"]
    assert len(shop.decisions("open")) == 2
    (fault,) = shop.faults()
    assert (fault["kind"], fault["episode"]) == ("reward", "v1")


def test_states_of_a_refused_call_are_forgotten_and_found_again(shop: Task) -> None:
    """Its state has a number in memory before the call fails: another must not get that twice."""
    shop.ask("door", "v1")
    answers = shop.serve(
        [
            shop.telling(("v1", 1), reward=0, state="never"),  # out of order
            shop.asking("garden", "v2", actions="none"),
            shop.asking("roof", "v3"),
            shop.asking("garden", "v4"),
        ]
    )
    assert [type(x) for x in answers[:2]] == [ucfh.OutOfOrder, ucfh.InvalidReport]
    assert [x.state for x in answers[2:]] == ["roof", "garden"]
    assert shop.states.labels[1:] == ["door", "roof", "garden"]
    assert shop.check() == []


def test_what_is_no_fault_takes_all_back(shop: Task) -> None:
    def broken(_: Any) -> None:
        raise RuntimeError("no fault of the caller")

    with pytest.raises(RuntimeError):
        shop.serve([shop.asking("door", "v1"), broken])
    assert shop.decisions("all") == []
    assert shop.ask("roof", "v2").state == "roof"
    assert shop.states.labels[1:] == ["roof"]


def test_arguments_are_checked_before_anything_is_written(shop: Task) -> None:
    with pytest.raises(ucfh.InputError, match="episode"):
        shop.asking("door", "")
    with pytest.raises(ucfh.InputError, match="done"):
        shop.telling(("v1", 0), reward=1, done=2)  # type: ignore[arg-type]
    assert shop.serve([]) == []


def test_expired_is_an_answer_that_is_written(clock: Clock, shop: Task) -> None:
    shop.ask("door", "v1")
    shop.ask("door", "v2")
    clock.now += 2e6
    fault, late = shop.serve(
        [shop.asking("door", "v1"), shop.telling(("v2", 0), reward=1, done=True)]
    )
    assert isinstance(fault, ucfh.EpisodeOver)
    assert isinstance(late, LateAnswer)
    assert [x["note"] for x in shop.decisions("lost")] == ["expired", "expired"]


def test_pages_of_decisions_are_the_whole_list(shop: Task) -> None:
    shop.serve([shop.asking("door", f"v{k}") for k in range(20)])
    shop.serve([shop.telling((f"v{k}", 0), reward=0, state="till") for k in range(0, 20, 3)])
    shop.serve([shop.abandoning(f"v{k}") for k in range(0, 20, 4)])
    for status in ("open", "told", "lost", "all"):
        for episode in (None, "v3"):
            pages: list[Any] = []
            while page := shop.decisions(
                status, episode, limit=3, after=pages[-1]["number"] if pages else 0
            ):
                assert len(page) <= 3
                pages += page
            assert pages == shop.decisions(status, episode)
    assert len(shop.decisions("all")) == 27


def random_call(task: Task, random: Random) -> Any:
    """A call that may be right or wrong."""
    episode, t = random.choice(["e1", "e2", "e3"]), random.randrange(3)
    state, reward = random.choice(["x", "y", 3, 0.5]), random.choice([0, 1, 0.5, 9])
    match random.randrange(5):
        case 0 | 1:
            return task.asking(state, episode, t=random.choice([None, t]))
        case 2 | 3:
            done = random.random() < 0.3
            return task.telling((episode, t), reward=reward, state=state, done=done)
        case _:
            return task.recording(episode, t, state, "wait", reward, "y")


def shown(answer: Any) -> Any:
    return (type(answer), str(answer)) if isinstance(answer, ucfh.TaskError) else answer


@pytest.mark.parametrize("seed", range(10))
def test_together_is_one_by_one(stores: Stores, seed: int) -> None:
    """The same random calls in groups of any size, and each in a transaction of its own."""
    sizes, draws = Random(seed), [Random(seed + 100) for _ in range(2)]
    with open_shop(stores("one")) as one, open_shop(stores("many")) as many:
        for _ in range(12):
            count = sizes.randrange(1, 9)
            apart = [one.serve([random_call(one, draws[0])])[0] for _ in range(count)]
            together = many.serve([random_call(many, draws[1]) for _ in range(count)])
            assert list(map(shown, together)) == list(map(shown, apart))
        kept = [
            [{k: v for k, v in x.items() if k not in ("asked", "told", "deadline")} for x in found]
            for found in (one.decisions("all"), many.decisions("all"))
        ]
        assert kept[0] == kept[1]
        assert kept[0]  # something was decided
        faults = [[{**x, "at": 0} for x in task.faults()] for task in (one, many)]
        assert faults[0] == faults[1]
        assert many.check() == []
