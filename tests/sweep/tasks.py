"""Entry points: a live task on SQLite (`ucfh.open_task`) and over HTTP (`ucfh.connect`)."""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import tempfile
import warnings
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch
from urllib.request import Request, urlopen

import ucfh
from sweep.agents import mdp_of
from sweep.checks import Checker, Result, policy_by_asking, policy_table
from sweep.logs import LossRule, shell
from sweep.models import Behavior, Generator, Needs, draw_model, draw_range
from sweep.options import OPEN_TASK, Case, declare, planning

SIZES = (1, 4, 12, 30, 80)
"""Numbers of episodes."""
MANY = 400
"""Episodes where good or bad outcomes are contradicted: the others alone would mislead."""
WAIT = 100.0
"""Seconds of the simulated clock until an open decision expires; see `sweep.options.timeout`."""


class Open(NamedTuple):
    """A decision whose outcome is drawn already, and is told later or never."""

    episode: str
    t: int
    reward: float
    following: int
    due: float | None
    taken: int | None
    state: int


class TaskEntry:
    """`ucfh.open_task`: concurrent episodes, delayed and missing outcomes, reopened stores."""

    name = "task"
    http = False

    def __init__(self, rng: Generator, folder: Path, result: Result) -> None:
        self.rng, self.folder, self.result = rng, folder, result
        span = draw_range(rng, Needs())
        silent = not self.http and rng.random() < 0.25
        silence = span[int(rng.integers(2))] if silent else None
        model = draw_model(rng, Needs(masks=True, attrition=silent, silence=silence), span)
        kind = str(rng.choice(["text", "number", "tuple"]))
        label = {"text": lambda i: f"s{i}", "number": int, "tuple": lambda i: ("s", i)}[kind]
        n = model.states
        self.case = case = Case(model, rng, [label(i) for i in range(n)],  # type: ignore[operator]
                                [f"a{i}" for i in range(model.actions)],
                                labels=result.labels)  # fmt: skip
        case.note("names", kind)
        if kind != "text" and self.http:  # keys of a JSON object are text
            case.states = [f"s{i}" for i in range(n)]
        declare(case, OPEN_TASK)
        if isinstance(case.given.get("states"), dict):
            case.note("terminal", "state")
        else:
            case.note("terminal", case.pick("done", "state"))
        if "states" in case.given and case.labels["states"] == "list":
            case.note("terminal", "done")
        self.losses = None
        if not silent and case.coin():
            self.losses = LossRule(case)
        self.delay = str(case.pick("none", "bad", "good", "all"))
        self.longest = case.pick(2, 20, 70) if silent else case.pick(2, 20, 150)
        self.concurrent = int(case.pick(1, 1, 3, 10))
        self.by_person = case.pick(0.0, 0.0, 0.3, 1.0)
        self.override = case.pick(0.0, 0.0, 0.2)
        self.mistold = case.pick(0.0, 0.0, 0.1)
        # of actions that are taken whatever is recommended, bad (good) outcomes are contradicted
        self.erases = 0
        small = model.horizon <= 2 and model.actions > 1  # so that the others would mislead
        if small and not self.http and model.attrition is None and case.coin(0.3):
            self.erases = int(case.pick(-1, 1))
            self.override, self.losses, self.delay, self.concurrent = 1.0, None, "none", 1
            self.by_person = 0.0
        case.note("delay", f"{self.delay} {self.longest}" if self.delay != "none" else "none")
        case.note("concurrent", self.concurrent)
        case.note("record", self.by_person)
        case.note("another action taken", self.override)
        case.note("reported twice", {-1: "bad", 0: self.mistold, 1: "good"}[self.erases])
        kind = str(case.pick(*Behavior.KINDS))
        self.person = Behavior(model, rng, kind)
        self.epsilon, result.delta = case.given["epsilon"], case.given["delta"]
        self.check = Checker(model, self.epsilon, result)
        self.now, self.begun, self.found = 1e9, 0, list[Any]()
        self.open: list[Open] = []
        states = case.given.get("states")
        if states is not None:
            self.found = list(states)
        silence_state = case.given.get("on_timeout")
        if isinstance(silence_state, tuple) and silence_state[0] not in self.found:
            self.found.append(silence_state[0])

    # -- the task ----------------------------------------------------------------------------------

    def _open(self, declared: bool, planning: str) -> Any:
        given = self.case.given if declared else {}
        return ucfh.open_task(self.folder / "t.db", "main", **given, planning=planning)

    def run(self) -> None:
        """Look before data, in the middle, and at the end."""
        with patch("time.time", lambda: self.now):
            self._run()

    def _run(self) -> None:
        case = self.case
        how, label = ("off", "off") if self.erases else planning(case)
        case.note("planning", label)
        self.task = self._open(True, how)
        try:
            self.look(data=False)
            self._warm_start()
            episodes = int(case.pick(*(SIZES if how == "off" else SIZES[:4])))
            episodes = MANY if self.erases else episodes
            case.note("episodes", episodes)
            self.play(episodes // 2)
            self.look()
            if case.coin(0.3):
                case.note("reopened", "yes")
                self.task.close()
                self.task = self._open(case.coin(), how)
                self.look()
            else:
                case.note("reopened", "no")
            self.play(episodes - episodes // 2)
            if case.coin():
                self.settle()
            self.look(last=True)
        finally:
            self.task.close()

    def _warm_start(self) -> None:
        """Begin with a log, another task, or a model."""
        case, m = self.case, self.case.model
        kind = case.pick("none", "none", "none", "log", "task", "model")
        text = all(isinstance(x, str) for x in case.states)
        full = "states" in case.given or m.available.all()  # a log does not show masks
        done = m.attrition is None and case.labels["terminal"] == "done"
        if kind == "log" and text and done and full:
            self.task.warm_start(self._log())
        elif kind == "task" and m.attrition is None:
            other = ucfh.open_task(self.folder / "o.db", "other", **case.given, planning="off")
            mine, self.task, found = self.task, other, list(self.found)
            try:
                self.play(int(case.pick(2, 10)))
                self.settle()
                self._begin_with(mine, other)
            finally:
                self.task, self.found = mine, found  # not every state of the other one is imported
                other.close()
        elif kind == "model" and text and (m.low, m.high) == (0.0, 1.0):
            points = any(len(x) > 2 for g in m.pays for s in g for a in s for x in a)
            if not points and done:
                # a model may be wrong, and recommend actions that a state does not have
                order = self.rng.permutation(m.actions).tolist() if case.coin() else None
                self.task.warm_start(mdp_of(m, order=order))
        else:
            kind = "none"
        case.note("warm start", kind)

    def _begin_with(self, mine: Any, other: Any) -> None:
        """Import another task, which is refused if it has conflicting reports."""
        if not other.status().conflicts:
            mine.warm_start(other)
            return
        with suppress(ucfh.InvalidReport):
            mine.warm_start(other)
            self.result.errors.append("a task with conflicting reports was imported")

    def _log(self) -> Any:
        """Episodes of a person, as a frame."""
        import pandas

        m, rows = self.case.model, []
        for k in range(int(self.case.pick(2, 10, 40))):
            self.person.begin()
            s = m.draw_start(self.rng)
            for t in range(m.horizon):
                a = self.person.act(t, s)
                reward, x = m.draw(self.rng, t, s, a)
                self.person.learn(s, a, reward)
                over = x in m.terminal
                shown = None if over else self.case.states[x]
                rows.append((f"log{k}", t, self.case.states[s], self.case.actions[a], reward,
                             shown, over))  # fmt: skip
                if over:
                    break
                s = x
        names = ("episode", "t", "state", "action", "reward", "next_state", "done")
        return pandas.DataFrame(rows, columns=names)

    # -- episodes ----------------------------------------------------------------------------------

    def play(self, episodes: int) -> None:
        """Begin so many episodes, and tell outcomes that are due; some stay open."""
        goal = self.begun + episodes
        while self.begun < goal or self._waiting():
            self.now += 1.0
            if self.begun < goal and len(self._waiting()) < self.concurrent:
                self._begin()
            for x in [x for x in self.open if x.due is not None and x.due <= self.now]:
                self.open.remove(x)
                self._tell(x)
            if self.begun >= goal and self.rng.random() < 0.3:
                return
            if not self.http and self.rng.random() < 0.03:
                self.task.expire()

    def _waiting(self) -> list[Open]:
        return [x for x in self.open if x.due is not None]

    def settle(self) -> None:
        """Tell all outcomes that are still to come, and give up those that never do."""
        while due := sorted((x for x in self.open if x.due is not None), key=lambda x: x.due or 0):
            self.now = max(self.now, due[0].due or 0.0)
            self.open.remove(due[0])
            self._tell(due[0])
        if "timeout" in self.case.given and not self.http:
            self.now += WAIT + 1
            self.task.expire()
        else:
            for x in self.open:
                self.task.abandon(x.episode, "no answer")
        self.open.clear()

    def _begin(self) -> None:
        self.begun += 1
        episode, s = f"e{self.begun}-{self.task.name}", self.case.model.draw_start(self.rng)
        self.person.begin()
        self._decide(episode, 0, s)

    def _known(self, s: int) -> dict[str, Any]:
        """The actions of a state, where the task cannot know them."""
        m = self.case.model
        if "states" in self.case.given:
            return {}
        if s in m.terminal:
            return {"actions": []}
        if m.available[s].all():
            return {}
        return {"actions": [self.case.actions[a] for a in m.choices(s)]}

    def _find(self, s: int) -> Any:
        """The label of a state, which may be new."""
        label = self.case.states[s]
        if label not in self.found:
            self.found.append(label)
        return label

    def _decide(self, episode: str, t: int, s: int) -> None:
        """The next step of an episode: by the task, or by a person."""
        first = self.case.states[s] not in self.found
        if self.rng.random() < self.by_person and not (first and self._known(s)):
            a = self.person.act(t, s)
            self.task.record(episode, t, self._find(s), self.case.actions[a])
            self._schedule(episode, t, s, a, recorded=True)
            return
        given: dict[str, Any] = {"t": t} if t or self.rng.random() < 0.5 else {}
        label = self._find(s)
        decision = self.task.ask(label, episode, **given, **self._known(s))
        if self.rng.random() < 0.05 and self.task.ask(label, episode, t=t) != decision:
            self.result.errors.append("a repeated ask has another answer")
        self._schedule(episode, t, s, self.case.actions.index(decision.action))

    def _schedule(self, episode: str, t: int, s: int, a: int, recorded: bool = False) -> None:
        """Draw the outcome of a decision, and when it is told."""
        m, rng = self.case.model, self.rng
        if not m.available[s, a]:
            raise AssertionError(f"action {a} in state {s}, which does not have it")
        taken = None
        # a timeout that has a meaning is an outcome of the recommended action: so that was taken
        if not recorded and m.attrition is None and rng.random() < self.override:
            taken = a = int(rng.choice(m.choices(s)))
            if self.erases and rng.random() < 0.7:
                taken = a = self._best_action(t, s)
        reward, x = m.draw(rng, t, s, a)
        bad = reward < (m.low + m.high) / 2
        # whether and when a replaced action is reported does not depend on its outcome
        slow = self.delay == "all" or taken is not None or (self.delay == "bad") == bad
        wait = 0.0
        if self.delay != "none" and slow:
            wait = float(rng.integers(self.longest + 1))
        lost = taken is None and self.losses is not None and self.losses.loses(s, a, reward, x)
        due = None if lost or x == m.attrition else self.now + wait
        step = Open(episode, t, reward, x, due, taken, s)
        if due is not None and wait == 0.0:
            self._tell(step)
        else:
            self.open.append(step)
        if lost and rng.random() < 0.5:
            self.open.remove(step)
            self.task.abandon(episode, "no answer" * int(rng.integers(2)))

    def _best_action(self, t: int, s: int) -> int:
        m = self.case.model
        q = m.q_values(t, m.optimal[t + 1])[s]
        return max(m.choices(s), key=lambda a: float(q[a]))

    def _is_erased(self, x: Open) -> bool:
        """Return whether an outcome is contradicted because its return is low, or high."""
        m = self.case.model
        if not self.erases or x.taken is None or m.high == m.low:
            return False
        after = m.optimal[x.t + 1]
        surplus = x.reward + after[x.following] - m.q_values(x.t, after)[x.state, x.taken]
        return float(surplus) * self.erases > 1e-9

    def _tell(self, x: Open) -> None:
        """Tell an outcome, perhaps too late, and take the next step."""
        case, m = self.case, self.case.model
        over = x.following in m.terminal
        told: dict[str, Any] = {"reward": x.reward}
        if over and case.labels["terminal"] == "done":
            told["done"] = True
        else:
            told |= {"state": self.case.states[x.following], **self._known(x.following)}
        if x.taken is not None:
            told["action"] = case.actions[x.taken]
        truth, erased = dict(told), self._is_erased(x)
        if erased and self.rng.random() < 0.3:  # a false action at first, the true one later
            told["action"] = case.actions[int(self.rng.choice(m.choices(x.state)))]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            decision = self.task.tell((x.episode, x.t), **told)
        if caught:
            if not all(issubclass(w.category, ucfh.LateOutcomeWarning) for w in caught):
                raise AssertionError(str(caught[0].message))
            if "timeout" not in case.given:
                self.result.errors.append("an outcome came too late, though no time is set")
            return
        if "state" in told:
            self._find(x.following)
        again = not erased and self.rng.random() < 0.05
        if again and self.task.tell((x.episode, x.t), **told) != decision:
            self.result.errors.append("a repeated tell has another answer")
        elif (erased or self.rng.random() < self.mistold) and m.high > m.low:
            other = m.low if x.reward > m.low else m.high
            with suppress(ucfh.Conflict):
                self.task.tell((x.episode, x.t), **{**truth, "reward": other})
                self.result.errors.append("a contradictory outcome was accepted")
        if over or x.t == m.horizon - 1:
            if decision is not None:
                self.result.errors.append(f"a decision after the end: {decision}")
            return
        if decision is None:
            self.result.errors.append(f"no decision at step {x.t + 1} of {m.horizon}")
            return
        self._schedule(x.episode, x.t + 1, x.following, case.actions.index(decision.action))

    # -- looking -----------------------------------------------------------------------------------

    def look(self, data: bool = True, last: bool = False) -> None:
        """Check the certificate, and what the status and the shell say of it."""
        known = self.task.certificate()
        data = data and known.episodes > 0
        self.check.look(known, self._policy(known), data=data, largest=self.case.largest)
        status = self.task.status()
        m, tol = self.case.model, self.check.tolerance
        if status.upper is not None and not status.refuted:
            wrong = m.best > status.upper + tol or status.lower > m.best + tol
            if wrong:
                self.result.violations.append(f"status: {status.lower:g}, {status.upper:g}")
            if status.certified != (status.gap <= self.epsilon):
                self.result.errors.append(f"status: certified with gap {status.gap:g}")
        if self.rng.random() < 0.2:
            self.page(status)
        if last and not self.http and self.rng.random() < 0.1:
            self._on_the_shell(known)

    def _policy(self, known: Any) -> list[list[int]]:
        del known
        case, policy = self.case, self.task.policy()

        def act(t: int, s: int) -> int:
            shown = policy.act(t, case.states[s], case.model.available[s])
            return case.actions.index(shown)

        return policy_by_asking(case.model, act)

    def page(self, status: Any) -> None:
        """Check that the dashboard shows the status and the newest plan."""
        self._page(self.task.view(), status)

    def _page(self, view: dict[str, Any], status: Any) -> None:
        if status.upper is None:
            if view["plans"]:
                self.result.errors.append("the dashboard has a plan, the status has none")
            return
        plan = next((x for x in view["plans"] if x["number"] == status.policy), None)
        if plan is None:
            self.result.errors.append(f"the dashboard has no plan {status.policy}")
            return
        self.check.same("the dashboard", status, plan, "upper", "lower", "gap")
        if view["state"] in ("certified", "refuted") and not getattr(status, view["state"]):
            self.result.errors.append(f"the dashboard says {view['state']}, the status does not")
        shown = view["state"] in ("certified", "learning")
        if shown and f"{plan['gap']:.3g}" not in view["headline"]:
            self.result.errors.append(f"{plan['gap']:g} is not in {view['headline']}")

    def _on_the_shell(self, known: Any) -> None:
        """``ucfh task certificate --json`` says the same, from the store alone."""
        code, out = shell(["task", "certificate", str(self.folder / "t.db"), "--json"])
        shown = json.loads(out)
        # bounds of earlier plans that only this process remembers may be tighter
        self.check.same("ucfh task certificate", known, shown, "episodes", "waiting", "lost")
        tol, best = self.check.tolerance, self.case.model.best
        if not known.refuted and not shown["lower"] - tol <= best <= shown["upper"] + tol:
            self.result.violations.append(f"shell: {shown['lower']:g}, {shown['upper']:g}")
        if (code == 0) > known.certified:
            self.result.errors.append(f"exit code {code}, certified {known.certified}")
        if found := self.task.check():
            self.result.errors.append(f"task check: {found[0]}")


class HttpEntry(TaskEntry):
    """The same task behind ``ucfh serve``, on a loopback address."""

    name = "http"
    http = True

    def run(self) -> None:
        """Look before data, in the middle, and at the end; on the server's own clock."""
        case, given = self.case, dict(self.case.given)
        self.url = server()
        if "timeout" in given:
            given["timeout"] = 86400.0
        self.id = f"task-{self.result.seed}-{self.rng.integers(1 << 40)}"
        body = json.dumps({"task": self.id, **given}).encode()
        headers = {"Content-Type": "application/json"}
        with urlopen(Request(f"{self.url}/v1/tasks", body, headers)):
            pass
        with ucfh.connect(self.url, task=self.id) as self.task:
            self.look(data=False)
            episodes = int(case.pick(*SIZES[:4]))
            case.note("episodes", episodes)
            self.play(episodes // 2)
            self.look()
            self.play(episodes - episodes // 2)
            if case.coin():
                self.settle()
            self.look()

    def _policy(self, known: Any) -> list[list[int]]:
        case = self.case
        states = [case.states.index(x) for x in self.found]
        return policy_table(case.model, states, range(len(case.actions)), known.policy)

    def page(self, status: Any) -> None:
        """The view of the task, which has a status of its own: plans are made meanwhile."""
        del status
        with urlopen(f"{self.url}/v1/tasks/{self.id}") as answer:
            view = json.load(answer)
        self._page(view, SimpleNamespace(**view["status"]))


_RUNNING = ExitStack()


def end_server() -> None:
    """End the service that `server` started, if it did."""
    server.cache_clear()
    _RUNNING.close()


@cache
def server() -> str:
    """The address of ``ucfh serve``, until `end_server` or the end of this process."""
    folder = tempfile.TemporaryDirectory()
    process = subprocess.Popen(
        [sys.executable, "-m", "ucfh", "serve", f"{folder.name}/tasks.db", "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip

    def end() -> None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        folder.cleanup()

    _RUNNING.callback(end)
    atexit.register(end_server)  # does not run in the processes of a pool
    assert process.stdout is not None
    for line in process.stdout:
        if "http://" in line:
            return "http://" + line.split("http://")[1].split()[0].rstrip("/.,")
    raise AssertionError("ucfh serve ended")
