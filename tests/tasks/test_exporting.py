"""Tasks as logs, and what a task can begin with."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import ucfh
from support.stores import Stores
from support.tasks import Counts, by_name, of_log, of_task
from ucfh.tasks.task import Task

SHOP: dict[str, Any] = {"actions": ["a", "b"], "horizon": 4, "epsilon": 0.5, "planning": "off"}


def open_shop(path: str, **more: Any) -> Task:
    return ucfh.open_task(path, **{**SHOP, **more})


def play(task: Task, seed: int, episodes: int, keep_open: float = 0.0, lose: float = 0.1) -> None:
    """Random episodes that overlap."""
    random = Random(seed)
    going = [task.ask(random.choice("xyz"), f"e{i}") for i in range(episodes)]
    while going:
        d = going.pop(random.randrange(len(going)))
        if random.random() < lose:
            task.abandon(d.episode)
            continue
        if random.random() < keep_open:
            continue
        end = random.random() < 0.2
        reward, state = random.choice([0, 0.1, 1]), random.choice(["x", "y", "z", 3])
        more = task.tell(d, reward=reward, state=state, done=end)
        if more is not None:
            going.append(more)


@pytest.mark.parametrize("segments", [(), [3], True])
@pytest.mark.parametrize("seed", range(3))
def test_a_log_of_a_task_reads_to_the_same_counts(
    stores: Stores, tmp_path: Path, seed: int, segments: Any
) -> None:
    """Also with losses, in the middle and at the last step; once nothing is open."""
    with open_shop(stores("t"), segments=segments) as task:
        play(task, seed, episodes=150)
        done = task.export(tmp_path / "log.csv")
        status = task.status()
        assert (done.episodes, done.steps) == (status.begun, status.decisions)
        assert (done.lost, done.waiting) == (status.lost, 0)
        assert status.lost > 5
        counts, lost, starts, log = of_log(tmp_path / "log.csv")
        assert (counts, lost, starts) == of_task(task)
        assert log.horizon == 4
        assert log.faults == ()
        mine, logged = task.certificate(), ucfh.certify(tmp_path / "log.csv", delta=0.1)
        assert logged.episodes == mine.episodes
        assert logged.lower <= mine.upper
        assert mine.lower <= logged.upper


def test_what_is_open_is_lost_in_a_log(stores: Stores, tmp_path: Path) -> None:
    with open_shop(stores("t")) as task:
        play(task, 1, episodes=100, keep_open=0.1)
        done = task.export(tmp_path / "log.csv")
        waiting = task.status().waiting
        assert done.waiting == waiting > 5
        counts, lost, _, log = of_log(tmp_path / "log.csv")
        assert sum(lost.values()) == done.lost + waiting
        assert sum(c for c, _ in counts.values()) == task.status().outcomes
        for decision in task.decisions():
            task.abandon(decision["episode"])
        assert (counts, lost) == of_task(task)[:2]
        assert log.counted == task.status().outcomes


def test_a_log_shows_one_moment(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is told while it is written is not in it."""
    monkeypatch.setattr("ucfh.tasks.exporting.PAGE", 2)
    with open_shop(stores("t")) as task:
        for i in range(6):
            task.ask("x", f"e{i}")
        store, read = task.store, task.store.episodes
        pages: list[Any] = []

        def told_meanwhile(*given: int) -> Any:
            if len(pages) < 6:
                task.tell((f"e{len(pages)}", 0), reward=0, state="y")
            pages.append(given)
            return read(*given)

        monkeypatch.setattr(store, "episodes", told_meanwhile)
        done = task.export(tmp_path / "log.csv")
        assert (done.steps, done.waiting) == (6, 6)


def test_declared_states_and_ends_of_several_kinds(stores: Stores, tmp_path: Path) -> None:
    states = {"x": None, "y": ["b"], "left": []}
    with open_shop(stores("t"), states=states, rewards=(-2, 3), max_return=5) as task:
        task.tell(task.ask("x", "7"), reward=-1.5, state="left")
        task.tell(task.ask("y", "07"), reward=3, done=True)  # not to be told from 7 as a number
        task.tell(task.ask("y", "e"), reward=0.1, state="x")
        task.tell(("e", 1), reward=0.1, state="x")
        task.tell(("e", 2), reward=0.1, state="x")
        task.tell(("e", 3), reward=0.1, state="y")  # at the last step
        task.export(tmp_path / "log.csv")
        assert (tmp_path / "log.csv").read_text().splitlines() == [
            "episode,t,state,action,reward,next_state,done",
            "7,0,x,a,-1.5,left,1",
            '"""07""",0,y,b,3.0,,1',
            "e,0,y,b,0.1,x,0",
            "e,1,x,a,0.1,x,0",
            "e,2,x,a,0.1,x,0",
            "e,3,x,a,0.1,y,0",
        ]
        log = ucfh.read_log(tmp_path / "log.csv", strict=True)
        assert log.closed
        assert log.units == task.declaration.units
        assert log.max_return == 5
        assert log.states.names == ("x", "y", "left", "(end)")


def test_nothing_is_overwritten_unasked(stores: Stores, tmp_path: Path) -> None:
    with open_shop(stores("t")) as task:
        task.tell(task.ask("x", "e"), reward=0, done=True)
        (tmp_path / "log.csv.toml").write_text("mine")
        with pytest.raises(ucfh.InputError, match=r"log\.csv\.toml exists: pass --force"):
            task.export(tmp_path / "log.csv")
        assert not (tmp_path / "log.csv").exists()
        task.export(tmp_path / "log.csv", force=True)
        with pytest.raises(ucfh.InputError, match="unknown ending"):
            task.export(tmp_path / "log.txt")


# what a task can begin with


def test_a_task_begins_with_a_log(stores: Stores, tmp_path: Path) -> None:
    with open_shop(stores("t")) as task, open_shop(stores("new")) as new:
        play(task, 3, episodes=100)
        task.export(tmp_path / "log.csv")
        assert new.warm_start(tmp_path / "log.csv") == 100
        assert of_task(new) == of_task(task)
        events = new.store.last_seq(new.number)
        assert new.warm_start(tmp_path / "log.csv") == 0  # again: no change
        assert new.store.last_seq(new.number) == events
        assert {x["policy"] for x in new.decisions("all")} == {-1}
        assert any("log.csv is of the same task" in x for x in new.certificate().assumed)
        with open_shop(stores("new")) as other:  # so says every process
            assert any("log.csv is of the same task" in x for x in other.certificate().assumed)
        assert new.check() == []


def test_a_task_begins_with_another_one(stores: Stores) -> None:
    with open_shop(stores("t")) as task, open_shop(stores("new"), name="new") as new:
        play(task, 4, episodes=60)
        assert new.warm_start(task) == 60
        assert of_task(new)[:2] == of_task(task)[:2]
        assert set(new.states.texts) == set(task.states.texts)  # 3 is 3, and not "3"
        assert new.warm_start(task) == 0
        assert sum(x["episode"].startswith("e5 (") for x in new.decisions("all")) > 0
        with pytest.raises(ucfh.InvalidReport, match="cannot begin with itself"):
            new.warm_start(new)
        with open_shop(stores("t2")) as twin:  # of the same name, with the same episodes
            play(twin, 5, episodes=10)
            assert new.warm_start(twin) == 10
        with (
            open_shop(stores("o"), horizon=5) as other,
            pytest.raises(ucfh.InvalidReport, match="has horizon 4, and 'task' has 5"),
        ):
            other.warm_start(task)
        with (
            open_shop(stores("p"), actions=["b", "a"]) as other,
            pytest.raises(ucfh.InvalidReport, match="has other actions"),
        ):
            other.warm_start(task)


def test_a_log_that_has_grown(stores: Stores, tmp_path: Path) -> None:
    """Episodes that are there count once; the last one, if it is cut, counts when it is whole."""
    path, rows = tmp_path / "log.csv", ["episode,t,state,action,reward,next_state"]
    for e in range(5):
        rows += [f"{e},{t},s{t % 2},a,0.5,s{(t + 1) % 2}" for t in range(4)]
    with open_shop(stores("t")) as task:
        path.write_text("\n".join([*rows[:-2], ""]))
        assert task.warm_start(path) == 4
        path.write_text("\n".join([*rows, ""]))
        assert task.warm_start(path) == 1
        assert (task.status().begun, task.status().outcomes) == (5, 20)
        path.write_text("\n".join([rows[0], *rows[9:17], ""]))  # a part of it
        assert task.warm_start(path) == 0


def test_a_log_without_next_states_needs_a_last_segment(stores: Stores, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = [f"{e},{t},s{(e + t) % 3},a,0.5" for e in range(9) for t in range(4)]
    path.write_text("\n".join(["episode,t,state,action,reward", *rows, ""]))
    with (
        open_shop(stores("t")) as task,
        pytest.raises(ucfh.InputError, match="does not show the next state of the last step"),
    ):
        task.warm_start(path)
    with open_shop(stores("u"), segments=[3]) as task:
        assert task.warm_start(path) == 9
        counts, _, _, _ = of_log_with(path, segments=[3])
        assert counts == of_task(task)[0]


def of_log_with(path: Path, **more: Any) -> tuple[Counts, dict[Any, int], list[int], ucfh.Log]:
    log = ucfh.read_log(path, horizon=4, **more)
    assert log.shown is not None
    names = ["", *(str(log.states.label(s)) for s in range(log.states.count))]
    return by_name(log.shown.experience, names, ["a"]), {}, [], log


def test_a_log_with_faults_is_refused(stores: Stores, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("episode,t,state,action,reward,next_state\n1,0,s,a,0,s\n1,2,s,a,0,s\n")
    with open_shop(stores("t")) as task:
        with pytest.raises(ucfh.InputError, match=r"log\.csv: .*line 3"):
            task.warm_start(path)
        assert task.status().begun == 0
        assert not any("log.csv" in x for x in task.certificate().assumed)
        with pytest.raises(ucfh.InputError, match="source = 3 must be a log"):
            task.warm_start(3)
        with pytest.raises(ucfh.InputError, match="holds counts and no steps"):
            task.warm_start(ucfh.read_log(path, accept_losses=True))


def test_a_task_begins_with_the_policy_of_a_model(stores: Stores) -> None:
    """It is followed as long as nothing is known, and nothing is assumed of it."""
    mdp = ucfh.make("calls")
    names = list(mdp.problem.action_names or ())
    with ucfh.open_task(
        stores("t"), actions=names, horizon=mdp.horizon, epsilon=0.5, planning="off"
    ) as task:
        assert task.warm_start(mdp) is None
        states = mdp.problem.state_names or ()
        start = str(states[int(np.argmax(mdp.initial))])
        best = names[int(mdp.optimal().policy[0, int(np.argmax(mdp.initial))])]
        task.tell(task.ask(start, "e0"), reward=0, done=True)
        agent = task.planner.agent()
        planned = agent.plan()
        assert names[planned.actions[0, 1]] == best
        assert agent.assumed == ()
        with (
            open_shop(stores("u")) as other,
            pytest.raises(ucfh.InvalidReport, match="the model has horizon"),
        ):
            other.warm_start(mdp)
        with (
            open_shop(stores("v"), horizon=mdp.horizon) as other,
            pytest.raises(ucfh.InvalidReport, match="the model has an action"),
        ):
            other.warm_start(mdp)


def test_a_warm_start_keeps_the_actions_of_states(stores: Stores) -> None:
    """A state that another task found with fewer actions has no others here."""
    with open_shop(stores("a")) as old, open_shop(stores("b")) as new:
        old.ask("x", episode=1, actions=["b"])
        old.tell(("1", 0), reward=0, state="y", actions=[])
        assert new.warm_start(old) == 1
        assert new.ask("x", episode=2).action == "b"
        assert new.tell(("2", 0), reward=0, state="y", actions=[]) is None
