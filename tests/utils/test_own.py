"""Problems and agents of users' own, by ``module:name``: found, run, or refused in one line."""

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


class Eager(ucfh.Online):
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


class Unsaid(ucfh.Online):
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
    """A folder with modules in it, which nobody has told Python of."""
    (tmp_path / "theirs.py").write_text(MODULE)
    (tmp_path / "empty.py").write_text("import numpy as np\nfrom ucfh import MDP, Online, make\n")
    (tmp_path / "wanting.py").write_text("import nosuchpackage\n")
    (tmp_path / "faulty.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "cut.py").write_text("x = (\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in ("theirs", "empty", "wanting", "faulty", "cut", "leaving"):
        sys.modules.pop(name, None)


def test_a_problem_of_ones_own() -> None:
    same = make("chain:n=3")
    for name in ("theirs:walk:size=3", "theirs:line"):
        found = make(name)
        assert found.optimal().values.tolist() == same.optimal().values.tolist()
    # by the type of a default, or of an annotation
    assert make("theirs:walk:size=5,slip=0,fast=true").states == 5
    write_model(make("theirs:walk"), "walk.json")
    assert make("walk.json").states == 4


def test_a_agent_of_ones_own() -> None:
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
    ("name", "message"),
    [
        (
            "theirs:wlak",
            "unknown problem in theirs 'wlak': did you mean 'walk'? (known: fault, line, needs, "
            "nothing, walk)",
        ),
        ("theirs.walk", "unknown problem 'theirs.walk': your own is written theirs:walk, with a"),
        ("theirs.walk:size=3", "unknown problem 'theirs.walk': your own is written theirs:walk, w"),
        (
            "theirs:walk,size=3",
            "unknown problem 'theirs:walk,size=3': parameters of your own follow a second colon, "
            "theirs:walk:size=3",
        ),
        ("theirs.py", "unknown problem 'theirs.py': your own is written theirs:NAME, with a colon"),
        ("__main__.walk", "unknown problem '__main__.walk' (known: calls, chain, deepsea,"),
        ("their.walk", "unknown problem 'their.walk' (known: calls, chain, deepsea,"),
        ("theirs:nothing:size=1", "theirs:nothing has no parameters: leave out 'size'"),
        ("empty:walk", "the module empty has no problem: write walk into it"),
        (
            "their:walk",
            "'their:walk' is no problem of this package, and there is no module 'their'",
        ),
        ("theirs.py:walk", "theirs.py:walk: write theirs:walk, without .py"),
        (
            "wanting:walk",
            "the module wanting does not import (ModuleNotFoundError: No module named "
            "'nosuchpackage', line 1 of wanting.py): install what it needs",
        ),
        (
            "faulty:walk",
            "the module faulty does not import (ZeroDivisionError: division by zero, line 2 of "
            "faulty.py): correct it",
        ),
        ("cut:walk", "the module cut does not import (SyntaxError: '(' was never closed (cut.py,"),
        (
            "leaving:walk",
            "the module leaving does not import (SystemExit: 3, line 1 of leaving.py)",
        ),
        ("theirs:nothing", "theirs:nothing() = None must be an MDP: let the function return one"),
        ("theirs:number", "theirs:number = 5 must be an MDP, or a function that returns one"),
        ("theirs:Eager", "theirs:Eager = <class 'theirs.Eager'> must be an MDP, or a function"),
        (
            "theirs:fault",
            "theirs:fault fails (ZeroDivisionError: division by zero, line 100 of theirs.py)",
        ),
        ("theirs:needs", "theirs:needs fails (TypeError: needs() missing 1 required positional"),
        ("theirs:walk:size=x", "theirs:walk: size=x is not a whole number: write one, such as"),
        ("theirs:walk:siz=3", "unknown parameter of theirs:walk 'siz': did you mean 'size'?"),
        ("theirs:walk:size", "theirs:walk: 'size' in 'size' is not of the form name=value: write"),
        (
            "theirs:nothing:size",
            "theirs:nothing: 'size' in 'size' is not of the form name=value: i",
        ),
        ("theirs:walk:size=1", "theirs:walk: n=1 is out of range"),
    ],
)
def test_a_problem_that_is_none(name: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        make(name)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "theirs:eager",
            "unknown agent in theirs 'eager': did you mean 'Eager'? (known: Broken, Eager, "
            "Misshapen, Picky, Stumbling, Unready, Unsaid)",
        ),
        ("theirs.Eager", "unknown agent 'theirs.Eager': your own is written theirs:Eager, with"),
        ("empty:Eager", "the module empty has no agent: write Eager into it"),
        ("theirs:walk", "theirs:walk is a function, not an agent: name a class"),
        ("theirs:Unsaid", "theirs:Unsaid is no agent yet: write its method coefficients"),
        ("their:Eager", "'their:Eager' is no agent of this package, and there is no module"),
        ("wanting:Eager", "the module wanting does not import (ModuleNotFoundError"),
        ("theirs:Stranger", "theirs:Stranger is a class, not an agent: derive it from ucfh.Agent"),
        ("theirs:number", "theirs:number is an int, not an agent: name a class"),
        (
            "theirs:Unready",
            "theirs:Unready is no agent yet: write its methods observe, restore, state, visits",
        ),
        ("theirs:Broken", "theirs:Broken fails (KeyError: 'nothing', line"),
        ("theirs:Misshapen", "theirs:Misshapen is not an agent that can be run: policy has shape"),
        (
            "theirs:Stumbling",
            "theirs:Stumbling is not an agent that can be run: a run of it fails (AttributeError: "
            "'Stumbling' object has no attribute 'nothing', line",
        ),
        ("theirs:Eager:d=1", "unknown parameter of theirs:Eager 'd'"),
        ("theirs:Eager:c=x", "c of theirs:Eager is 'x': it must be a number"),
        ("theirs:Picky", "theirs:Picky: picky needs six states: pass a larger problem"),
    ],
)
def test_a_agent_that_is_none(name: str, message: str, capsys: Capture) -> None:
    """In one line, in Python and on the command line."""
    with pytest.raises(InputError) as error:
        compare("chain:n=3", [name], 10, 1)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
    assert message in fails(capsys, "compare", "chain:n=3", "--agents", name)
    assert message in fails(capsys, "learn", "chain:n=3", "--agent", name, "--episodes", "5")


def test_one_that_refuses_the_small_problem_of_the_check_is_run() -> None:
    assert compare("chain:n=6", ["theirs:Picky"], 10, 1, workers=1).failures == []


def test_what_check_agent_says_of_a_class() -> None:
    cls: Any = agent_class("theirs:Misshapen")
    with pytest.raises(AgentError, match="Misshapen has 1 fault"):
        check_agent(cls)
    with pytest.raises(AgentError, match=r"it cannot be made \(TypeError: "):
        check_agent(type("Five", (cls,), {"__init__": lambda *_, fifth: fifth}))


def test_a_agent_is_shown_and_checked(capsys: Capture) -> None:
    code, out, err = run(capsys, "agents", "theirs:Eager:c=2")
    assert (code, err) == (0, "")
    assert "constants  chosen: c\n" in out
    assert (
        "parameter  c (a number; default: 1.0; given: 2.0): the factor of the bonus, positive.\n"
        in out
    )
    assert "checked  no faults found" in out
    assert "c = -1.0 must be positive" in fails(capsys, "agents", "theirs:Eager:c=-1")
    code, out, _ = run(capsys, "agents", "theirs:Picky")
    assert (code, "checked" in out) == (0, True)
    code, out, _ = run(capsys, "agents", "theirs:Misshapen")
    assert code == 1
    assert "fault  policy has shape (3,) and type float64: use integers (4, 3)\n" in out
    code, out, _ = run(capsys, "agents", "theirs:Broken", "--json")
    assert code == 1
    (fault,) = json.loads(out)["faults"]
    assert fault.startswith("theirs:Broken fails (KeyError: 'nothing'")


def test_the_command_line_runs_both(capsys: Capture) -> None:
    code, out, err = run(
        capsys, "compare", "theirs:walk:size=3", "--agents", "theirs:Eager:c=0.5,psrl", "--seeds",
        "2", "--episodes", "20", "--workers", "1",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "theirs:walk:size=3: 3 states" in out
    assert "theirs:Eager:c=0.5" in out
    code, out, _ = run(capsys, "learn", "theirs:walk", "--agent", "theirs:Eager", "--episodes", "9")
    assert code == 0
    assert "agent  eager (source not stated); epsilon" in out
    code, out, _ = run(capsys, "problems", "theirs:walk")
    assert code == 0
    assert "problem  theirs:walk\n" in out


def test_processes_that_were_begun_elsewhere_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare("chain:n=3", ["psrl"], 10, 1, workers=1)  # begins them, if nobody has
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    (tmp_path / "other" / "elsewhere.py").write_text(MODULE)
    assert compare("chain:n=3", ["elsewhere:Eager"], 10, 1, workers=1).failures == []


def test_names_of_the_package_come_first(tmp_path: Path) -> None:
    (tmp_path / "chain.py").write_text("def n(): return 5\n")
    assert isinstance(make("chain:n=3"), MDP)
    with pytest.raises(InputError, match="chain: 'n' in 'n' is not of the form name=value"):
        make("chain:n")
    assert make_agent("psrl", "chain:n=3", 0.1, 0.1).name == "psrl"
