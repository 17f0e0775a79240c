"""Plugins: user-defined problems and agents by ``module:name``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command_line import fails, run
from ucfh import MDP, InputError, check_agent, compare, make, make_agent, simulate, write_model
from ucfh.algorithms.registry import agent_class
from ucfh.simulation.checker import AgentError

Capture = pytest.CaptureFixture[str]

MODULE = '''
import numpy as np
import ucfh


class Eager(ucfh.BonusAgent):
    """Plans with the bonus c H/sqrt(n).

    Args:
        c: the factor of the bonus, positive.

    """

    name = "eager"
    constants = "chosen: c"

    def __init__(self, problem, epsilon, delta, episodes, scale=1.0, c=1.0):
        if c <= 0:
            raise ucfh.InputError(f"c = {c} must be positive")
        self.c = c
        super().__init__(problem, epsilon, delta, episodes, scale)

    def settings(self):
        return {**super().settings(), "c": self.c}

    def coefficients(self, n):
        return {"flat": self.scale * self.c * self.H / np.sqrt(n)}


class Unready(ucfh.Agent):
    """Has no method at all."""


class Unsaid(ucfh.BonusAgent):
    """Has no bonus yet."""


class Stranger:
    """Is no agent."""


class Misshapen(ucfh.Agent):
    name = "misshapen"

    def __init__(self, problem, epsilon, delta):
        self.problem, self.epsilon, self.delta = problem, epsilon, delta
        self.policy, self.optimistic = np.zeros(3), 0.0

    def observe(self, seen):
        return False

    def visits_of(self, row):
        return 0

    def state(self):
        return {}

    def restore(self, state):
        pass


class Broken(Misshapen):
    def __init__(self, problem, epsilon, delta):
        raise KeyError("nothing")


class Stumbling(Eager):
    """Fails when it has seen something."""

    name = "stumbling"

    def observe(self, seen):
        return self.nothing[5]


class Picky(Eager):
    """Is made for long chains only."""

    name = "picky"

    def __init__(self, problem, epsilon, delta, episodes):
        if problem.states < 6:
            raise ucfh.InputError("picky needs six states: pass a larger problem")
        super().__init__(problem, epsilon, delta, episodes)


def walk(size=4, slip: float = 0.2, fast: bool = False):
    return ucfh.make(f"chain:n={size},slip={slip},linear={int(fast)}")


line = walk(size=3)
number = 5


def nothing():
    return None


def fault():
    return 1 / 0


def needs(size):
    return walk(size)
'''


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A current folder with modules, outside the search path."""
    (tmp_path / "theirs.py").write_text(MODULE)
    (tmp_path / "empty.py").write_text(
        "import numpy as np\nfrom ucfh import BonusAgent, MDP, make\n"
    )
    (tmp_path / "wanting.py").write_text("import nosuchpackage\n")
    (tmp_path / "faulty.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "cut.py").write_text("x = (\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in ("theirs", "empty", "wanting", "faulty", "cut", "leaving"):
        sys.modules.pop(name, None)


def test_problem_plugins() -> None:
    same = make("chain:n=3")
    for name in ("theirs:walk:size=3", "theirs:line"):
        found = make(name)
        assert found.optimal().values.tolist() == same.optimal().values.tolist()
    # by the type of a default, or of an annotation
    assert make("theirs:walk:size=5,slip=0,fast=true").states == 5
    write_model(make("theirs:walk"), "walk.json")
    assert make("walk.json").states == 4


def test_agent_plugins() -> None:
    run = simulate("theirs:walk", "theirs:Eager:c=0.5", episodes=200)
    assert run.about["c"] == 0.5
    cls = agent_class("theirs:Eager")
    again = simulate("theirs:walk", cls, episodes=200, epsilon=0.1)
    assert again.about["c"] == 1.0
    check_agent("theirs:Eager")
    check_agent(cls)
    result = compare("theirs:walk", ["theirs:Eager", "psrl", cls], 50, seeds=2, workers=1)
    assert result.agents == ["theirs:Eager", "psrl", "eager"]
    assert result.failures == []
    first, _, second = ([x.regret for x in result.outcomes if x.agent == a] for a in result.agents)
    assert first == second
    mixed: dict[str, Any] = {"mine": cls, "theirs": "psrl:prior=1"}
    assert compare(make("chain:n=3"), mixed, 20, 1, workers=1).agents == ["mine", "theirs"]


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("theirs:wlak", "did you mean 'walk'? (known: fault, line, needs, nothing, walk)"),
        ("theirs.walk", "theirs:walk"),
        ("theirs:walk,size=3", "theirs:walk:size=3"),
        ("theirs.py", "theirs:NAME"),
        ("__main__.walk", "known: calls, chain, deepsea,"),
        ("their.walk", "known: calls, chain, deepsea,"),
        ("theirs:nothing:size=1", "'size'"),
        ("empty:walk", "empty"),
        ("their:walk", "'their'"),
        ("theirs.py:walk", "theirs:walk"),
        ("wanting:walk", "'nosuchpackage', line 1 of wanting.py"),
        ("faulty:walk", "ZeroDivisionError: division by zero, line 2 of faulty.py"),
        ("cut:walk", "SyntaxError"),
        ("leaving:walk", "SystemExit: 3, line 1 of leaving.py"),
        ("theirs:nothing", "theirs:nothing() = None"),
        ("theirs:number", "theirs:number = 5"),
        ("theirs:Eager", "<class 'theirs.Eager'>"),
        ("theirs:fault", "ZeroDivisionError: division by zero, line 100 of theirs.py"),
        ("theirs:needs", "TypeError"),
        ("theirs:walk:size=x", "size=x"),
        ("theirs:walk:siz=3", "did you mean 'size'?"),
        ("theirs:walk:size", "'size'"),
        ("theirs:walk:size=1", "n=1"),
    ],
)
def test_invalid_problem_plugins(name: str, token: str) -> None:
    with pytest.raises(InputError) as error:
        make(name)
    assert token in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("theirs:eager", "did you mean 'Eager'? (known: Broken, Eager, Misshapen, Picky, Stum"),
        ("theirs.Eager", "theirs:Eager"),
        ("empty:Eager", "empty"),
        ("theirs:walk", "a function"),
        ("theirs:Unsaid", "coefficients"),
        ("their:Eager", "'their'"),
        ("wanting:Eager", "ModuleNotFoundError"),
        ("theirs:Stranger", "a class"),
        ("theirs:number", "an int"),
        ("theirs:Unready", "observe, restore, state, visits"),
        ("theirs:Broken", "KeyError: 'nothing', line"),
        ("theirs:Misshapen", "policy has shape"),
        ("theirs:Stumbling", "'Stumbling' object has no attribute 'nothing', line"),
        ("theirs:Eager:d=1", "'d'"),
        ("theirs:Eager:c=x", "'x'"),
        ("theirs:Picky", "picky needs six states"),
    ],
)
def test_invalid_agent_plugins(name: str, token: str, capsys: Capture) -> None:
    """In one line, in Python and on the command line."""
    with pytest.raises(InputError) as error:
        compare("chain:n=3", [name], 10, 1)
    assert token in str(error.value)
    assert "\n" not in str(error.value)
    assert token in fails(capsys, "compare", "chain:n=3", "--agents", name)
    assert token in fails(capsys, "learn", "chain:n=3", "--agent", name, "--episodes", "5")


def test_an_agent_that_rejects_the_small_mdp_of_the_check_is_run() -> None:
    assert compare("chain:n=6", ["theirs:Picky"], 10, 1, workers=1).failures == []


def test_check_agent_of_a_class() -> None:
    cls: Any = agent_class("theirs:Misshapen")
    with pytest.raises(AgentError, match="Misshapen has 1 issue"):
        check_agent(cls)
    with pytest.raises(AgentError, match=r"it cannot be made \(TypeError: "):
        check_agent(type("Five", (cls,), {"__init__": lambda *_, fifth: fifth}))


def test_an_agent_is_shown_and_checked(capsys: Capture) -> None:
    code, out, err = run(capsys, "agents", "theirs:Eager:c=2", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["faults"] == []
    assert "c = -1.0 must be positive" in fails(capsys, "agents", "theirs:Eager:c=-1")
    assert run(capsys, "agents", "theirs:Picky")[0] == 0
    for name, token in (("Misshapen", "shape (3,)"), ("Broken", "KeyError: 'nothing'")):
        code, out, _ = run(capsys, "agents", f"theirs:{name}", "--json")
        assert code == 1
        (issue,) = json.loads(out)["faults"]
        assert token in issue


def test_the_command_line_runs_both(capsys: Capture) -> None:
    code, out, err = run(
        capsys, "compare", "theirs:walk:size=3", "--agents", "theirs:Eager:c=0.5,psrl", "--seeds",
        "2", "--episodes", "20", "--workers", "1",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "theirs:Eager:c=0.5" in out
    assert run(capsys, "learn", "theirs:walk", "--agent", "theirs:Eager", "--episodes", "9")[0] == 0
    assert run(capsys, "problems", "theirs:walk")[0] == 0


def test_processes_started_in_another_folder_find_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare("chain:n=3", ["psrl"], 10, 1, workers=1)  # starts the processes
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    (tmp_path / "other" / "elsewhere.py").write_text(MODULE)
    assert compare("chain:n=3", ["elsewhere:Eager"], 10, 1, workers=1).failures == []


def test_names_of_the_package_come_first(tmp_path: Path) -> None:
    (tmp_path / "chain.py").write_text("def n(): return 5\n")
    assert isinstance(make("chain:n=3"), MDP)
    with pytest.raises(InputError, match="chain: 'n'"):
        make("chain:n")
    assert make_agent("psrl", "chain:n=3", 0.1, 0.1).name == "psrl"
