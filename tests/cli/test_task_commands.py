"""Live tasks in a shell: ``ucfh task``, ``ucfh ask``, ``ucfh tell``."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ucfh
from support.command_line import fails, run
from support.settings import DOCS
from ucfh.cli.task import PARTS
from ucfh.tasks.planner import TaskPlanner

Capture = pytest.CaptureFixture[str]
CREATE = ["--actions", "call,mail", "--horizon", "3", "--epsilon", "0.5"]
NOT_CERTIFIED = 3


@pytest.fixture
def store(capsys: Capture, tmp_path: Path) -> str:
    path = str(tmp_path / "calls.db")
    code, out, err = run(capsys, "task", "create", path, *CREATE)
    assert (code, err) == (0, "")
    assert f"ucfh ask {path} STATE --episode NAME\n" in out
    return path


def told(capsys: Capture, *arguments: str) -> Any:
    """What a command prints with --json."""
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == 0
    return json.loads(out)


def test_a_whole_life(capsys: Capture, store: str, tmp_path: Path) -> None:
    assert run(capsys, "ask", store, "new", "--episode", "c1") == (0, "call\n", "")
    asked = told(capsys, "ask", store, "new", "--episode", "c1")  # again
    assert asked == {"episode": "c1", "t": 0, "state": "new", "action": "call", "policy": 0}
    tell = ["tell", store, "--episode", "c1"]
    code, out, err = run(capsys, *tell, "--step", "0", "--reward", "0.25", "--state", "warm")
    assert (code, err) == (0, "")
    assert out in ("call\n", "mail\n")
    again = told(capsys, *tell, "--step", "0", "--reward", "0.25", "--state", "warm")
    assert (again["t"], again["counted"]) == (0, True)
    assert again["next"]["t"] == 1
    assert again["next"]["action"] == out.strip()
    over = ["--step", "1", "--reward", "1", "--done"]
    assert run(capsys, *tell, *over) == (0, "", "ucfh: episode 'c1' is over\n")
    assert told(capsys, *tell, *over)["next"] is None
    (step, last) = told(capsys, "task", "decisions", store, "--status", "told")["decisions"]
    assert (step["reward"], step["next_state"], last["done"]) == (0.25, "warm", True)
    now = told(capsys, "task", "status", store)
    assert (now["begun"], now["open"], now["outcomes"], now["states"]) == (1, 0, 2, 2)
    assert now["policy"] > 0  # it planned by itself
    assert "1 episodes" in run(capsys, "task", "status", store)[1]
    assert " task " in run(capsys, "task", "list", store)[1]
    assert told(capsys, "task", "list", store)["tasks"] == [
        {**told(capsys, "task", "status", store), "age": pytest.approx(now["age"], abs=60)}
    ]
    log = str(tmp_path / "calls.csv")
    assert told(capsys, "task", "export", store, log)["steps"] == 2
    known = told_certificate(capsys, "certify", log, "--epsilon", "0.5")
    assert (known["episodes"], known["rows"]) == (1, 2)
    other = str(tmp_path / "other.db")
    run(capsys, "task", "create", other, *CREATE)
    assert told(capsys, "task", "import", other, log)["episodes"] == 1
    assert told(capsys, "task", "status", other)["outcomes"] == 2
    assert told(capsys, "task", "check", store)["tasks"][0]["problems"] == []
    assert run(capsys, "task", "check", store)[1].endswith("nothing is wrong\n")


def told_certificate(capsys: Capture, *arguments: str) -> Any:
    """What a command prints that certifies nothing yet."""
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == NOT_CERTIFIED
    return json.loads(out)


def test_a_certificate_with_its_policy(capsys: Capture, tmp_path: Path) -> None:
    store, policy = str(tmp_path / "calls.db"), str(tmp_path / "policy.csv")
    asked = ["task", "certificate", store]
    with ucfh.open_task(
        store, "calls", actions=["call", "mail"], horizon=1, epsilon=0.5, planning="inline"
    ) as task:
        task.tell(task.ask("new", "first"), reward=1, state="new")
        code, out, _ = run(capsys, *asked)
        assert code == NOT_CERTIFIED
        assert "calls in " in out
        for i in range(150):
            decision = task.ask("new", episode=i)
            task.tell(decision, reward=int(decision.action == "call"), state="new")
        task.ask("new", "open")
        real = task.certificate()
    code, out, _ = run(capsys, *asked, "--policy", policy)
    assert code == 0
    assert "152 episodes; 1 decisions are not counted yet, 0 outcomes are lost\n" in out
    assert "This policy earns at least " in out
    assert "     assumed  the next state and the reward depend on state and action only\n" in out
    assert f"      policy  {policy}\n" in out
    assert Path(policy).read_text().splitlines()[1] == "0,new,call"
    assert "policy.csv exists: pass --force" in fails(capsys, *asked, "--policy", policy)
    known = told(capsys, *asked)
    assert (known["task"], known["waiting"], known["lost"]) == ("calls", 1, 0)
    assert known["certified"] is True
    assert known["lower"] == pytest.approx(real.lower)


def test_deadlines(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, now = str(tmp_path / "calls.db"), 1000.0
    monkeypatch.setattr("time.time", lambda: now)
    silence = ["--timeout", "2d", "--on-timeout", "left,0.5"]
    made = told(capsys, "task", "create", store, *CREATE, *silence)
    assert (made["timeout"], made["on_timeout"]) == (2 * 86400, ["left", 0.5])
    for customer in ("c1", "c2"):
        run(capsys, "ask", store, "new", "--episode", customer)
    now += 86400
    assert told(capsys, "task", "expire", store) == {"expired": 0}
    now += 86400
    tell = ["tell", store, "--step", "0", "--reward", "1", "--done", "--episode"]
    code, out, err = run(capsys, *tell, "c1")
    assert (code, out) == (0, "")
    assert err.startswith("ucfh: step 0 of episode 'c1' was reported too late")
    assert err.count("\n") == 1
    assert told(capsys, *tell, "c1")["counted"] is False
    assert run(capsys, "task", "expire", store)[1] == "     expired  1 decisions\n"
    steps = told(capsys, "task", "decisions", store, "--status", "all")["decisions"]
    assert [(x["reward"], x["next_state"], x["note"]) for x in steps] == [
        (0.5, "left", "expired")
    ] * 2
    assert run(capsys, "task", "decisions", store, "--status", "all")[1].count("0.5, left") == 2
    assert told(capsys, "task", "status", store)["late"] == 1


def test_an_episode_is_given_up(
    capsys: Capture, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    run(capsys, "ask", store, "new", "--episode", "c1")
    abandon = ["task", "abandon", store, "--episode", "c1", "--reason", "moved away"]
    assert run(capsys, *abandon) == (0, "   abandoned  c1\n", "")
    assert told(capsys, *abandon) == {"abandoned": "c1"}
    out = run(capsys, "task", "decisions", store, "--status", "lost")[1]
    assert "lost (abandoned: moved away)" in out


def test_states_that_are_no_texts(capsys: Capture, tmp_path: Path) -> None:
    """A shell calls them as a log does."""
    store = str(tmp_path / "grid.db")
    with ucfh.open_task(
        store, "grid", actions=[0, 1], horizon=3, epsilon=0.5, planning="off"
    ) as task:
        task.tell(task.ask(3, "e1"), reward=0, state=(0, "b"))
    asked = told(capsys, "ask", store, "3", "--episode", "e2")
    assert (asked["state"], asked["action"]) == (3, 0)
    assert told(capsys, "ask", store, '[0, "b"]', "--episode", "e3")["state"] == [0, "b"]
    assert told(capsys, "ask", store, "home", "--episode", "e4")["state"] == "home"
    line = fails(capsys, "ask", store, "4", "--episode", "e5")
    assert "state 4 is new, and this task has states that are not texts: ask for it in P" in line
    tell = ["tell", store, "--episode", "e2", "--step", "0", "--reward", "0", "--state"]
    assert "state 4 is new" in fails(capsys, *tell, "4")
    assert told(capsys, *tell, "3")["next"]["state"] == 3


class Terminal:
    """An input that somebody types."""

    def isatty(self) -> bool:
        return True


def test_a_script_that_runs_twice_tells_one_outcome(
    capsys: Capture, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --step, the open step is told in a terminal only."""
    run(capsys, "ask", store, "new", "--episode", "c1")
    tell = ["tell", store, "--episode", "c1", "--reward", "0", "--state", "warm"]
    for _ in range(2):
        assert "Fix: pass --step" in fails(capsys, *tell)
        assert told(capsys, *tell, "--step", "0")["t"] == 0
    assert told(capsys, "task", "status", store)["outcomes"] == 1
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert told(capsys, *tell)["t"] == 1
    run(capsys, *tell[:-2], "--done")
    assert "has no open decision" in fails(capsys, *tell)


def test_numbers_are_texts_where_all_states_are(capsys: Capture, store: str) -> None:
    assert told(capsys, "ask", store, "3", "--episode", "c1")["state"] == "3"
    assert told(capsys, "ask", store, "4", "--episode", "c2")["state"] == "4"


def test_several_tasks_in_one_store(capsys: Capture, store: str) -> None:
    code, out, _ = run(capsys, "task", "create", store, *CREATE, "--task", "mails")
    assert code == 0
    assert "--episode NAME --task mails\n" in out
    assert "has the tasks task, mails: name one with --task" in fails(
        capsys, "ask", store, "new", "--episode", "c1"
    )
    assert told(capsys, "ask", store, "new", "--episode", "c1", "--task", "mails")["t"] == 0
    assert told(capsys, "task", "status", store, "--task", "task")["begun"] == 0
    assert "has no task 'mail'" in fails(capsys, "task", "status", store, "--task", "mail")
    assert len(told(capsys, "task", "list", store)["tasks"]) == 2


def test_creating_again_changes_nothing(capsys: Capture, store: str) -> None:
    assert run(capsys, "task", "create", store, *CREATE)[0] == 0
    line = fails(capsys, "task", "create", store, *CREATE[:-1], "0.2")
    assert "has epsilon 0.5, not 0.2" in line


def test_all_that_can_be_declared(capsys: Capture, tmp_path: Path) -> None:
    given = "--states=new,warm --rewards=-1,3 --max-return=4 --segments=2 --delta=0.2 --timeout=30m"
    store = str(tmp_path / "calls.db")
    made = told(capsys, "task", "create", store, *CREATE, *given.split(), "--on-timeout", "lost")
    assert made == {
        "store": store,
        "task": "task",
        "actions": ["call", "mail"],
        "horizon": 3,
        "epsilon": 0.5,
        "delta": 0.2,
        "rewards": [-1.0, 3.0],
        "max_return": 4.0,
        "states": ["new", "warm"],
        "segments": [2],
        "timeout": 1800.0,
        "on_timeout": "lost",
    }


def test_upgrade_was_removed(capsys: Capture, store: str) -> None:
    assert fails(capsys, "task", "upgrade", store) == (
        "ucfh: task upgrade was removed. Fix: run ucfh task export with the version that made the "
        "store, then ucfh task import\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("ask none.db new --episode c1", "none.db does not exist"),
        ("ask STORE new", "Missing option '--episode'"),
        ("ask STORE --episode c1", "Missing argument 'STATE'"),
        ("ask STORE ' ' --episode c1", "state ' ' is blank"),
        ("ask STORE new --episode ''", "episode = '' must be a name"),
        ("tell STORE --episode c1 --step 0 --reward 0 --state a", "has no episode 'c1'"),
        ("tell STORE --episode open --state a", "Missing option '--reward'"),
        ("tell STORE --episode open --reward x --state a", "Invalid value for '--reward'"),
        (
            "tell STORE --episode open --step 0 --reward 0",
            "has no next state: give the state that followed",
        ),
        (
            "tell STORE --episode open --step 0 --reward 7 --done",
            "outside the declared range [0, 1]",
        ),
        ("tell STORE --episode open --step 0 --reward nan --done", "reward = nan is not a number"),
        ("tell STORE --episode open --step 1 --reward 0 --done", "no decision at step 1, its"),
        ("tell STORE --episode open --step -1 --reward 0 --done", "t = -1"),
        ("tell STORE --episode over --reward 0 --done", "--step is missing"),
        ("tell STORE --episode over --step 0 --reward 0 --done", "counts as missing"),
        ("ask STORE warm --episode open", 'is in state "new" at step 0'),
        ("ask STORE new --episode over", "'over' is over since step 0"),
        ("task create STORE --actions a --horizon 2", "Missing option '--epsilon'"),
        ("task create x.db --actions a,a --horizon 2 --epsilon 1", 'action "a" is listed twice'),
        ("task create x.db --actions a, --horizon 2 --epsilon 1", "action '' is blank"),
        ("task create x.db --actions a --horizon 0 --epsilon 1", "horizon = 0"),
        ("task create x.db --actions a --horizon 2 --epsilon 9", "epsilon = 9 is not below"),
        (
            "task create x.db --actions a --horizon 2 --epsilon 1 --timeout soon",
            "--timeout soon must be a number of seconds, or one with a unit: 30m, 12h, 7d",
        ),
        (
            "task create x.db --actions a --horizon 2 --epsilon 1 --timeout -1",
            "timeout = -1.0 must be a positive number of seconds",
        ),
        (
            "task create x.db --actions a --horizon 2 --epsilon 1 --on-timeout left",
            "--on-timeout left must be lost, or a state and a reward, such as left,0",
        ),
        ("task creat x.db", "No such command 'creat'. Did you mean 'create'?"),
        ("task", "Missing command"),
        ("task decisions STORE --status opn", "unknown status 'opn': did you mean 'open'?"),
        ("task abandon STORE --episode c1", "has no episode 'c1'"),
        ("task abandon STORE --episode over", "nothing to abandon"),
        ("task export STORE x.txt", "unknown ending '.txt'"),
        ("task import STORE none.csv", "none.csv does not exist"),
        ("task certificate STORE --policy x.txt", "unknown ending '.txt'"),
        ("task status PAGE", "is not a store of tasks"),
        ("task list none.db", "none.db does not exist"),
    ],
)
def test_wrong_turns_are_one_line(
    capsys: Capture, store: str, arguments: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(store).parent)
    Path("page.md").write_text("no database")
    run(capsys, "ask", store, "new", "--episode", "open")
    run(capsys, "ask", store, "new", "--episode", "over")
    run(capsys, "tell", store, "--episode", "over", "--step", "0", "--reward", "1", "--done")
    before = told(capsys, "task", "decisions", store, "--status", "all")
    given = [{"STORE": store, "PAGE": "page.md"}.get(x, x) for x in shlex.split(arguments)]
    assert words in fails(capsys, *given)
    assert told(capsys, "task", "decisions", store, "--status", "all") == before
    assert not Path("x.db").exists()


def test_a_damaged_store_is_not_all_right(capsys: Capture, store: str) -> None:
    run(capsys, "ask", store, "new", "--episode", "c1")
    with sqlite3.connect(store) as file:
        file.execute("DELETE FROM waiting")
    file.close()
    code, out, _ = run(capsys, "task", "check", store)
    assert code == 1
    assert "1 decisions are listed as open, or not, against what the events say\n" in out


def test_all_tasks_of_a_store_are_checked(capsys: Capture, store: str) -> None:
    declared = ["--actions", "a", "--horizon", "2", "--epsilon", "0.5"]
    run(capsys, "task", "create", store, "--task", "other", *declared)
    found = told(capsys, "task", "check", store)["tasks"]
    assert len(found) == 2
    assert [x["problems"] for x in found] == [[], []]
    assert told(capsys, "task", "check", store, "--task", "other")["tasks"] == [found[1]]


def test_an_answer_stands_if_planning_fails(
    capsys: Capture, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(_: TaskPlanner) -> bool:
        raise ucfh.StoreBusy("calls.db is locked")

    run(capsys, "ask", store, "new", "--episode", "c1")
    monkeypatch.setattr(TaskPlanner, "step", step)
    tell = ["tell", store, "--episode", "c1", "--step", "0", "--reward", "0", "--state", "new"]
    code, out, err = run(capsys, *tell)
    assert (code, out) == (0, "call\n")
    assert err == "ucfh: planning failed, and is tried again: calls.db is locked\n"


def test_the_page_shows_what_its_commands_print(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (shown,) = re.findall(r"```console\n(.*?)```", (DOCS / "howto/live.md").read_text(), re.DOTALL)
    printed = ""
    for line in re.findall(r"^\$ (ucfh .*)$", shown, re.MULTILINE):
        code, out, err = run(capsys, *shlex.split(line)[1:])
        assert code == 0
        printed += f"$ {line}\n{out}{err}"
    ages = re.compile(r"\d+ seconds")
    assert ages.sub("N seconds", printed) == ages.sub("N seconds", shown)


def test_examples_of_the_help_run(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    examples = []
    create, *others = (f"task {part}" for part in PARTS)
    for command in (create, "ask", "task", "tell", *others):
        code, out, _ = run(capsys, *command.split(), "--help")
        assert code == 0
        shown = out.replace("\\\n", " ").partition("Example")[2]
        found = re.findall(r"^    (ucfh .*)$", shown, re.MULTILINE)
        assert any(line.startswith(f"ucfh {command}") for line in found), command
        examples += found
    Path("calls-of-last-year.csv").write_text(
        "episode,t,state,action,reward,next_state,done\n1,0,new,call,0,new,0\n1,1,new,mail,1,,1\n"
    )
    for line in examples:
        if " abandon " in line:
            run(capsys, "ask", "calls.db", "new", "--episode", "customer-18")
        code, _, err = run(capsys, *shlex.split(line)[1:])
        assert code == (NOT_CERTIFIED if " certificate " in line else 0), (line, err)


@pytest.mark.verify
@pytest.mark.slow
def test_a_script_asks_and_tells(store: str) -> None:
    """In processes of their own, the action alone on stdout."""
    ucfh_command = f"{shlex.quote(sys.executable)} -m ucfh"
    script = f"""
        set -e
        action=$({ucfh_command} ask {store} new --episode c1)
        for t in 0 1 2; do
            [ "$action" = call ] && paid=1 || paid=0
            action=$({ucfh_command} tell {store} --episode c1 --step $t --reward $paid --state new)
        done
        [ -z "$action" ] && echo over
    """
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("over\n", "ucfh: episode 'c1' is over\n")
