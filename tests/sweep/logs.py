"""Entry point: a log in each format, for `ucfh.read_log` and `ucfh.certify`, or on the shell."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ucfh
from sweep.checks import Checker, Result, policy_table
from sweep.models import Behavior, Generator, Model, Needs, draw_model
from sweep.options import CERTIFY, PROBLEM, READ_LOG, Case, declare, epsilon, unit_epsilon

FORMATS = ("frame", "frame", "frame", "csv", "csv", "jsonl", "parquet", "wide", "wide frame",
           "counts")  # fmt: skip
COLUMNS = ("episode", "t", "state", "action", "reward", "next_state", "done")
PEEK, MANY = 1000, 100
"""The rows that show by how much t grows, and how many of them with t > 0 it takes."""
SIZES = (1, 4, 15, 60, 200, 600, 600)
LARGE = (4, 60, 300, 600, 1500)
"""Numbers of episodes, and those of logs with missing outcomes, which show less."""


class Step(NamedTuple):
    """A row of a log; None: left blank. ``following``: a state, or None."""

    t: int
    state: int
    action: int
    reward: float | str | None
    following: int | None
    done: bool


class LossRule:
    """Which outcomes are missing, for what they are; and whether their rewards are known."""

    def __init__(self, case: Case) -> None:
        m, self.rng = case.model, case.rng
        self.kind = case.pick("bad", "good", "good", "any", "any", "pair", "next")
        self.share = case.pick(0.05, 0.3, 1.0, 1.0)
        self.known = case.pick(0.0, 0.5, 1.0, 1.0, 1.0)
        self.middle = (m.low + m.high) / 2
        self.pair = case.pick(*m.decision_states), int(self.rng.integers(m.actions))
        self.next = int(self.rng.integers(m.states))
        case.note("missing outcomes", f"{self.kind} {self.share}")
        case.note("rewards of missing outcomes", self.known)

    def loses(self, s: int, a: int, reward: float, following: int) -> bool:
        """Return whether an outcome is missing."""
        hit = {
            "bad": reward < self.middle,
            "good": reward >= self.middle,
            "any": True,
            "pair": (s, a) == self.pair,
            "next": following == self.next,
        }[self.kind]
        return bool(hit and self.rng.random() < self.share)


class Episodes:
    """Episodes of a log: one after another, by a policy that may change with the past."""

    def __init__(self, case: Case, derived: bool) -> None:
        self.case, self.model, self.rng, self.derived = case, case.model, case.rng, derived
        self.count = int(case.pick(*(SIZES if case.labels["dropouts"] != "lost" else LARGE)))
        case.note("episodes", self.count)
        kind = str(case.pick(*Behavior.KINDS))
        case.note("behavior", kind)
        self.behavior = Behavior(case.model, case.rng, kind)
        self.dropouts = case.labels["dropouts"]
        self.losses = LossRule(case) if self.dropouts == "lost" else None
        self.beyond = int(case.labels["steps after the horizon"])
        self.leave = case.pick(0.05, 0.3)  # at a constant rate, as the assumption checks test
        self.stopping = case.coin(0.3)
        case.note("end of the log", "lucky" if self.stopping else "fixed")
        self.list: list[list[Step]] = []

    def draw(self) -> list[list[Step]]:
        """The episodes; the log may end early, for what it shows."""
        while len(self.list) < self.count:
            self.behavior.begin()
            self.list.append(list(self._episode()))
            n = len(self.list)
            if self.stopping and n >= self.count / 4 and n & (n - 1) == 0 and self._is_lucky():
                break
        return self.list

    def _is_lucky(self) -> bool:
        paid = [x.reward for e in self.list for x in e if isinstance(x.reward, float)]
        return bool(paid and np.mean(paid) > (self.model.low + self.model.high) / 2)

    def _episode(self) -> Iterator[Step]:
        m, rng, H = self.model, self.rng, self.model.horizon
        s = m.draw_start(rng)
        for t in range(H):
            a = self.behavior.act(t, s)
            reward, x = m.draw(rng, t, s, a)
            last = t == H - 1
            if x == m.attrition:  # it left: shown by the absence of further rows
                self.behavior.learn(s, a, reward)
                # nobody can be seen to leave after the last step
                show = not self.derived if last and not self.beyond else rng.random() < 0.3
                show = show and not (last and self.derived)
                seen = int(rng.choice(m.decision_states)) if show else None
                blank = reward == 0.0 and not last and seen is None and rng.random() < 0.5
                yield Step(t, s, a, None if blank else reward, seen, False)
                return
            rule = None if last and self.derived else self.losses
            if rule is not None and rule.loses(s, a, reward, x):
                known = rng.random() < rule.known
                shown = known and not last and x not in m.terminal and rng.random() < 0.3
                if known:
                    self.behavior.learn(s, a, reward)
                yield Step(t, s, a, reward if known else None, x if shown else None, False)
                return
            goes_on = not last or (self.beyond > 0 and not self.derived)
            if self.dropouts == "random" and goes_on and rng.random() < self.leave:
                yield Step(t, s, a, reward, None, False)
                return
            self.behavior.learn(s, a, reward)
            over = x in m.terminal
            if self.derived:
                yield Step(t, s, a, reward, None, over)
            else:
                yield Step(t, s, a, reward, x, over)
            if over:
                return
            leaves = self.dropouts == "random" and not (last or self.derived)
            if leaves and rng.random() < self.leave / 2:
                return
            s = x
        yield from self._later(s)

    def _later(self, s: int) -> Iterator[Step]:
        """Steps after the horizon, which do not count."""
        m, rng = self.model, self.rng
        for t in range(m.horizon, m.horizon + self.beyond):
            a = int(rng.choice(m.choices(s)))
            reward, x = m.draw(rng, m.horizon - 1, s, a)
            if x == m.attrition:
                return
            yield Step(t, s, a, reward, None if self.derived else x, x in m.terminal)
            if x in m.terminal:
                return
            s = x


class Names:
    """Labels of states and actions in files, and their numbers in a log."""

    def __init__(self, case: Case, form: str) -> None:
        m, self.rng = case.model, case.rng
        styles = ["plain", "numbers", "accents", "joined", "bins"]
        if form == "jsonl":
            styles.append("lists")
        if form.startswith("wide") or form == "counts":
            styles = ["plain", "numbers"]
        self.style = str(case.pick(*styles))
        if m.states - (m.attrition is not None) < 2 and self.style == "bins":
            self.style = "plain"
        case.note("names", self.style)
        self.mixed = self.style == "plain" and case.coin(0.2)
        case.note("ignore_case", self.mixed)
        n = m.states
        edges = [10 * i for i in range(1, n - (m.attrition is not None))]
        self.edges = edges
        self.states = {
            "plain": [f"room {i}" for i in range(n)],
            "numbers": [str(i) for i in range(n)],
            "accents": [f"\u00e9tat{i}" for i in range(n)],
            "joined": [f"l{i // 2}|m{i % 2}" for i in range(n)],
            "lists": [json.dumps([0, i]) for i in range(n)],
            "bins": [
                f"score<{edges[0]}" if i == 0 else f"score>={10 * i}" if i >= len(edges)
                else f"{10 * i}<=score<{10 * i + 10}" for i in range(n)
            ] if edges else [],
        }[self.style]  # fmt: skip
        self.actions = [f"do{a}" for a in range(m.actions)]

    def write(self, s: int | None, decimal: str) -> list[Any]:
        """A state in one or several columns."""
        if s is None:
            return [None] * (2 if self.style == "joined" else 1)
        if self.style == "joined":
            return self.states[s].split("|")
        if self.style == "bins":
            return [f"{10 * s + 9.9 * self.rng.random():.3f}".replace(".", decimal)]
        if self.style == "lists":
            return [[0, s]]
        return [self.spell(self.states[s])]

    def spell(self, name: str) -> str:
        """The name, in any case if case does not matter."""
        return name.upper() if self.mixed and self.rng.random() < 0.3 else name

    def state(self, shown: Any) -> int | None:
        """The state of a name that was read; None: one that the model does not have."""
        text = str(shown).lower() if self.mixed else str(shown)
        return self.states.index(text) if text in self.states else None

    def action(self, shown: Any) -> int:
        """The action of a name that was read."""
        return self.actions.index(str(shown).lower() if self.mixed else str(shown))


class LogEntry:
    """`ucfh.certify` of a log."""

    name = "log"

    def __init__(self, rng: Generator, folder: Path, result: Result) -> None:
        self.rng, self.folder, self.result = rng, folder, result
        self.form = form = str(FORMATS[rng.integers(len(FORMATS))])
        dropouts = str(rng.choice(["none", "none", "outcome", "lost", "lost", "random"]))
        told = form == "counts" or (
            dropouts == "none" and not form.startswith("wide") and rng.random() < 0.25
        )
        if told:
            dropouts = "none"
        noise = ("bernoulli", "points") if dropouts == "lost" else ("none", "bernoulli", "points")
        needs = Needs(unit=told, noise=noise, masks=told, attrition=dropouts == "outcome")
        model = draw_model(rng, needs)
        self.case = case = Case(model, rng, [], [], labels=result.labels)
        for name, value in (("format", form), ("dropouts", dropouts)):
            case.note(name, value)
        case.note("problem", "given" if told else "none")
        self.names = Names(case, form)
        case.states, case.actions = self.names.states, self.names.actions
        self.derived = form.startswith("wide") or (not told and case.coin(0.15))
        case.note("next_state", "derived" if self.derived else "column")
        t_kinds = ["from 0", "from 1", "every 2", "every 4", "dates", "none"]
        case.note("t", case.pick(*(t_kinds[:2] if form.startswith("wide") else t_kinds)))
        faults = case.pick("none", "none", "none", "cut", "accepted")
        if faults == "cut" and (dropouts != "none" or told or form.startswith("wide")):
            faults = "none"
        if faults == "accepted" and (
            told or dropouts == "random" or form.startswith("wide") or form == "parquet"
        ):
            faults = "none"
        case.note("faults", faults)
        wide = form.startswith("wide") or faults == "cut"
        case.note("steps after the horizon", 0 if wide else case.pick(0, 0, 2))
        self.episodes = Episodes(case, self.derived)
        self.spoiled = faults == "accepted"
        self.problem: Any = None
        if told:
            self.problem = self._problem()
        else:
            declare(case, READ_LOG)
        declare(case, {**CERTIFY, "epsilon": unit_epsilon if told else epsilon})
        self.epsilon, result.delta = case.given.pop("epsilon"), case.given.pop("delta")
        if dropouts != "none":
            case.given["dropouts"] = dropouts
        if self.names.mixed:
            case.given["ignore_case"] = True
        self.decimal = "."
        if form == "csv" and case.coin(0.2):
            self.decimal = case.given["decimal"] = ","
        case.note("decimal", self.decimal)
        self.encoding = "utf-8"
        if form == "csv" and case.coin(0.2):
            self.encoding = case.given["encoding"] = "cp1252"
        case.note("encoding", self.encoding)
        if self.names.style == "bins":
            case.given["bins"] = {"score": self.names.edges}
        case.note("bins", self.names.style == "bins")
        ends = [self.names.states[x] for x in model.terminal if x != model.attrition]
        named = self.names.style not in ("bins", "lists") and not (self.derived or told)
        if named and ends and case.coin(0.3):
            case.given["terminal"] = ends
        case.note("terminal", "terminal" in case.given)
        self.renamed = form != "frame" and case.coin(0.3)
        case.note("columns", "renamed" if self.renamed else "as named")
        self.unit = 1
        self.check = Checker(model, self.epsilon, result)

    def _problem(self) -> Any:
        """Return the known part of the task as a `ucfh.Problem`."""
        case = self.case
        known = Case(case.model, case.rng, case.states, case.actions)
        declare(known, PROBLEM)
        case.labels |= {f"problem {name}": x for name, x in known.labels.items()}
        if "successors" in known.given:
            del known.given["time_dependent"]
        return ucfh.Problem(**known.given)

    def _spoil(self) -> None:
        """Make some rewards unreadable, whatever they are."""
        for episode in self.episodes.list:
            for i, step in enumerate(episode):
                if self.rng.random() < 0.03:
                    episode[i] = step._replace(reward="?")

    # -- writing -----------------------------------------------------------------------------------

    def _table(self, episodes: list[list[Step]]) -> dict[str, list[Any]]:
        """Columns of a log with a row for each step."""
        names, style = self.names, self.names.style
        state = {"joined": ["level", "mood"], "bins": ["score"]}.get(style, ["state"])
        following = {"joined": ["next_level", "next_mood"], "bins": ["next_score"]}.get(
            style, ["next_state"]
        )
        kind, blank = self.case.labels["t"], self.case.given.get("blank_reward")
        out: dict[str, list[Any]] = {"episode": []}
        if kind != "none":
            out["t"] = []
        done = ["done"] * ("terminal" not in self.case.given)
        for column in [*state, "action", "reward", *(following * (not self.derived)), *done]:
            out[column] = []
        for i, episode in enumerate(episodes):
            for x in episode:
                out["episode"].append(f"e{i}")
                if kind == "dates":
                    out["t"].append(f"2024-01-{x.t + 1:02d}")
                elif kind != "none":
                    out["t"].append(x.t * self.unit + (kind == "from 1"))
                for column, value in zip(state, names.write(x.state, self.decimal), strict=True):
                    out[column].append(value)
                out["action"].append(names.spell(names.actions[x.action]))
                reward: Any = x.reward
                if blank is not None and reward == blank and self.rng.random() < 0.5:
                    reward = None
                if isinstance(reward, float) and (self.form == "csv" or self.spoiled):
                    reward = repr(reward).replace(".", self.decimal)
                out["reward"].append(reward)
                if not self.derived:
                    shown = names.write(x.following, self.decimal)
                    for column, value in zip(following, shown, strict=True):
                        out[column].append(value)
                if done:
                    out["done"].append(x.done)
        given = dict[str, Any]()
        if style == "joined":
            given |= {"state": state} | ({} if self.derived else {"next_state": following})
        elif style == "bins":
            given |= {"state": "score"} | ({} if self.derived else {"next_state": "next_score"})
        if self.renamed:
            out = {"what" if c == "action" else "paid" if c == "reward" else c: v
                   for c, v in out.items()}  # fmt: skip
            given |= {"action": "what", "reward": "paid"}
        self.columns = given
        return out

    def _wide(self, episodes: list[list[Step]]) -> dict[str, list[Any]]:
        """Columns of a log with a row for each episode."""
        names, first = self.names, int(self.case.labels["t"][-1])
        steps = range(first, first + self.model.horizon)
        out: dict[str, list[Any]] = {}
        for i, t in enumerate(steps):
            had = [e[i] if i < len(e) else None for e in episodes]
            out[f"s_{t}"] = [None if x is None else names.spell(names.states[x.state]) for x in had]
            out[f"a_{t}"] = [
                None if x is None else names.spell(names.actions[x.action]) for x in had
            ]
            out[f"r_{t}"] = [None if x is None else x.reward for x in had]
        out["done"] = [e[-1].done for e in episodes]
        self.columns = {"state": "s_{t}", "action": "a_{t}", "reward": "r_{t}"}
        return out

    @property
    def model(self) -> Model:
        """The model."""
        return self.case.model

    def _source(self, episodes: list[list[Step]], cut: bool) -> Any:
        """The log as a file or a frame."""
        wide = self.form.startswith("wide")
        table = self._wide(episodes) if wide else self._table(episodes)
        names, rows = list(table), list(zip(*table.values(), strict=True))
        if self.form in ("frame", "wide frame", "parquet", "counts"):
            import pandas

            frame = pandas.DataFrame({name: pandas.Series(table[name], dtype=object)
                                      for name in names})  # fmt: skip
            if self.form != "parquet":
                return frame
            for name in names:
                if name in ("reward", "paid"):
                    frame[name] = frame[name].astype("float64")
                elif name not in ("t", "done"):
                    frame[name] = frame[name].astype("string")
                else:
                    frame[name] = frame[name].infer_objects()
            path = self.folder / "log.parquet"
            frame.to_parquet(path)
            return path
        if self.form == "jsonl":
            path = self.folder / "log.jsonl"
            lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
            path.write_text("".join(f"{line}\n" for line in lines))
            return path
        comma = ";" if self.decimal == "," else ","
        path = self.folder / "log.csv"
        lines = [comma.join("" if x is None else str(x) for x in row) for row in rows]
        text = "".join(f"{line}\n" for line in [comma.join(names), *lines])
        path.write_text(text[:-3] if cut else text, encoding=self.encoding)
        return path

    # -- reading -----------------------------------------------------------------------------------

    def run(self) -> None:
        """Certify an empty log where one can be read, a prefix, and all of it."""
        listed, expected = self.episodes.draw(), self.episodes.behavior.expected
        if self.spoiled:
            self._spoil()
        H = self.model.horizon
        beyond = self.episodes.beyond > 0
        complete = any(len(e) == H for e in listed) and not beyond
        whole = {x.action for e in listed for x in e} == set(range(self.model.actions))
        cut = self.case.labels["faults"] == "cut" and H > 1
        given = dict(self.case.given)
        if self.problem is None and (not complete or "dropouts" in given):
            given["horizon"] = H  # otherwise it is the longest episode, which has to be true
        if self.problem is None and (cut or not whole):  # otherwise those that the log shows
            given.setdefault("actions", [str(x) for x in self.case.actions])
        if self.problem is None and "states" in given and not self.form.startswith("wide"):
            empty = {"actions": self.names.actions, **given, "horizon": H}
            if self.case.labels["t"] != "from 0":
                empty.pop("segments", None)  # no row says that t begins with 1
            self._look([], empty, [], False)
        half = len(listed) // 2
        if half and self.rng.random() < 0.5:
            ahead = {**given} if self.problem is not None else {
                "actions": self.names.actions, **given, "horizon": H}  # fmt: skip
            self._look(listed[:half], ahead, expected[:half], False)
        if cut:
            given["horizon"] = H
            given.pop("strict", None)
            last = listed[-1][: 1 + int(self.rng.integers(len(listed[-1])))]
            listed = [*listed[:-1], last]
            cut = len(listed) > 1 or len(last) > 1  # of a single row nothing could be counted
        self._look(listed, given, expected, cut)

    def _look(
        self, episodes: list[list[Step]], given: dict[str, Any], expected: list[float], cut: bool
    ) -> None:
        later = [x.t for e in episodes for x in e][:PEEK]
        kind, shows = self.case.labels["t"], sum(t > 0 for t in later) >= MANY
        self.unit = int(kind[-1]) if kind.startswith("every") and shows else 1
        if "segments" in given:
            given = {**given, "segments": [self.unit * t for t in given["segments"]]}
        source = self._source(episodes, cut)
        if self.columns:
            given = {**given, "columns": self.columns}
        log = ucfh.read_log(source, self.problem, **given)
        asked = {"delta": self.result.delta, "epsilon": self.epsilon}
        if self.form == "counts":
            known = ucfh.certify(log.counts, self.problem, **asked)
        else:
            known = ucfh.certify(log, **asked)
        states = [self.names.state(log.states.label(s)) for s in range(log.states.count)]
        actions = [self.names.action(log.actions.label(a)) for a in range(log.actions.count)]
        policy = policy_table(self.model, states, actions, known.policy)
        largest = self.case.largest if not episodes else None
        if cut and log.rows < sum(map(len, episodes)) and len(episodes[-1]) == 1:
            expected = expected[:-1]  # the line that is cut was the first of its episode
        counted = known.behavior is not None and known.behavior.episodes == len(expected)
        self.check.look(
            known, policy, data=bool(episodes), largest=largest, states=states,
            expected=expected if counted else None,
        )  # fmt: skip
        names = given.get("states", ())
        plain = isinstance(names, int) or (len(names) != 1 and self.names.style != "lists")
        if isinstance(source, Path) and self.problem is None and plain and self.rng.random() < 0.15:
            self._on_the_shell(source, given, known)

    def _on_the_shell(self, path: Path, given: dict[str, Any], known: Any) -> None:
        """The same with ``ucfh certify --json --html``: the same numbers in both."""
        page = self.folder / "answer.html"
        arguments = [
            "certify", str(path), *options_of(given), "--json", "--html", str(page), "--force",
            f"--epsilon={self.epsilon!r}", f"--delta={self.result.delta}",
        ]  # fmt: skip
        code, out = shell(arguments)
        shown = json.loads(out)
        names = ("upper", "lower", "gap", "certified", "episodes", "improvement", "lost")
        self.check.same("--json", known, shown, *names)
        if code != (0 if known.certified else 3):
            self.result.errors.append(f"exit code {code}, certified {known.certified}")
        if known.behavior is not None and shown["behavior"]:
            self.check.same("--json", known.behavior, shown["behavior"], "lower", "upper")
        if known.contradiction is None:
            self._page(page.read_text(), known)

    def _page(self, page: str, known: Any) -> None:
        """Compare the bars of the report: bounds rounded outward, to the same decimals."""
        text = unescape(page).replace("\N{MINUS SIGN}", "-").replace(",", "")
        bars = (
            (r"This plan:</b> at least (-?[\d.]+)", known.lower, 1),
            (r"Any plan:</b> at most (-?[\d.]+)", known.upper, -1),
        )
        matches = [re.search(what, text) for what, _, _ in bars]
        decimals = max(len(x[1].partition(".")[2]) for x in matches if x) if any(matches) else 0
        for (what, bound, sign), found in zip(bars, matches, strict=True):
            if found is None:
                self.result.errors.append(f"the report has no {what}")
                continue
            off = sign * (bound - float(found[1]))
            if not -self.check.tolerance <= off <= 10.0**-decimals:
                self.result.errors.append(f"the report says {found[1]}, the bound is {bound:g}")


def options_of(given: dict[str, Any]) -> list[str]:
    """Arguments of `ucfh.read_log` as options of the command line."""
    out = []
    for name, value in given.items():
        if value is None:
            continue
        option = f"--{name.replace('_', '-')}"
        if name == "columns":
            out += [
                f"{option}={k}={'+'.join(v) if isinstance(v, list) else v}"
                for k, v in value.items()
            ]
        elif name == "bins":
            out += [f"{option}={k}={','.join(map(str, v))}" for k, v in value.items()]
        elif value is True:
            out.append(option)
        elif isinstance(value, list | tuple):
            out.append(f"{option}={','.join(map(str, value))}")
        elif value is not False:
            out.append(f"{option}={value}")
    return out


def shell(arguments: list[str]) -> tuple[int, str]:
    """Exit code and stdout of a command, in this process."""
    from ucfh.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main(arguments)
    except SystemExit as end:
        if end.code == 2:
            raise ValueError(f"{' '.join(arguments)}: {err.getvalue()}") from None
        return int(end.code or 0), out.getvalue()
    return 0, out.getvalue()
