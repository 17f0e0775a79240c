"""The shape of the package: what may import what, and how long files may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from support.settings import SOURCE

# A layer may import itself and those before it: kernels, core model, algorithms and simulation,
# data sources, interfaces.
LAYERS = [
    ["exceptions", "_utils", "_kernels"],
    ["transitions", "rewards", "planning", "mdp", "interval_mdp", "io", "problems", "policies",
     "counts", "sparse_counts", "confidence", "auditing", "certificate"],
    ["algorithms", "theory", "simulation", "comparison"],
    ["logs", "certification", "envs", "tasks"],
    ["server", "reporting", "cli", "__main__"],
]  # fmt: skip
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def name_of(path: Path) -> str:
    """The module of a file, "agents.ucfh"; the package itself is ""."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


def tree_of(path: Path) -> ast.Module:
    """What a file does when it is loaded or run: imports for type checkers are left out."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    return tree


def imports(path: Path) -> set[str]:
    """Modules of ucfh that a file imports, those inside of functions included."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in named:
            parts = name.split(".")
            if parts[0] == "ucfh":
                inner = [".".join(parts[1:k]) for k in range(len(parts), 0, -1)]
                found.add(next(part for part in inner if part in MODULES))
    return found - {name_of(path)}


def room(module: str) -> str:
    return module.partition(".")[0]


@pytest.mark.parametrize("module", MODULES)
def test_a_layer_imports_no_higher_one(module: str) -> None:
    if module == "":
        assert imports(MODULES[module]) == set()
        return
    for other in imports(MODULES[module]) - {""}:
        assert RANK[room(other)] <= RANK[room(module)], f"{module} imports {other}"


def test_every_layer_names_what_exists() -> None:
    assert set(RANK) == {room(module) for module in MODULES if module}


def test_no_module_imports_itself_on_a_detour() -> None:
    graph = {module: imports(path) - {""} for module, path in MODULES.items() if module}
    TopologicalSorter(graph).prepare()


KERNELS = sorted((SOURCE / "_kernels").glob("*.py"))


def test_no_kernel_is_written_twice() -> None:
    """One that several files need is imported."""
    seen: dict[str, str] = {}
    for path in KERNELS:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                text = ast.dump(ast.Module(node.body, []))
                assert text not in seen, f"{path.name}: {node.name} is {seen[text]}"
                seen[text] = f"{node.name} of {path.name}"


def test_kernels_are_compiled_in_one_way() -> None:
    """By `_jit.njit`, which caches them, and with nothing but numba's public modules."""
    for path in KERNELS:
        assert path.name == "_jit.py" or "numba.njit" not in path.read_text(), path.name
    for path in MODULES.values():
        text = path.read_text()
        assert "numba import njit" not in text, path.name
        assert "numba.core" not in text, path.name
        assert "llvmlite" not in text, path.name


def test_importing_loads_nothing_heavy() -> None:
    """Nor does the help of a command, which loads its module."""
    heavy = ("numpy", "numba", "rich", "matplotlib", "joblib")
    code = (
        "import sys; from importlib import import_module; from ucfh.cli.main import COMMANDS; "
        "[import_module(f'ucfh.cli.{name}') for name in COMMANDS]; "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_command_is_in_the_table() -> None:
    from ucfh.cli.main import COMMANDS

    with_options = {
        path.stem
        for path in (SOURCE / "cli").glob("*.py")
        if path.stem != "main" and f"\ndef {path.stem}(" in path.read_text()
    }
    assert with_options == set(COMMANDS)


def test_public_names_exist() -> None:
    import ucfh

    for name in ucfh.__all__:
        assert getattr(ucfh, name) is not None
    assert len(ucfh.__all__) == len(set(ucfh.__all__)) > 60
    assert set(ucfh.__all__) <= set(dir(ucfh))
    with pytest.raises(AttributeError, match="nothing"):
        ucfh.nothing  # type: ignore[attr-defined]  # noqa: B018


GUEST = """
import gc, signal, sys, warnings

def state():
    handlers = [signal.getsignal(x) for x in sorted(signal.valid_signals())]
    return {
        "import hooks": list(sys.meta_path),
        "warning filters": list(warnings.filters),
        "switch interval": sys.getswitchinterval(),
        "gc": (gc.get_threshold(), gc.isenabled()),
        "signal handlers": handlers,
    }

def changed(before):
    after = state()
    return [name for name in before if before[name] != after[name]]

before = state()
import ucfh
print(changed(before))

import gymnasium, joblib, matplotlib, numba  # which change warning filters themselves
before = state()
"""

USE = """
mdp = ucfh.make("chain:n=3")
run = ucfh.simulate(mdp, "psrl", episodes=20)
found = ucfh.learn(mdp, epsilon=0.5, episodes=20)
task = {"actions": ["a", "b"], "horizon": 1, "epsilon": 0.5, "planning": "background"}
with ucfh.open_task("t.db", **task) as opened:
    opened.tell(opened.ask("s", "e"), reward=0.5, done=True)
result = ucfh.compare(mdp, ["psrl", "uniform"], 20, seeds=2, workers=2)
assert not result.failures, result.failures
print(changed(before))
"""

NUMBA = """
from numba.core import compiler_machinery, event
from numba.core.datamodel.registry import default_manager
import numba
import numpy

# numba fills its own registries when it compiles something for the first time
numba.njit(lambda rng: rng.random())(numpy.random.default_rng(0))

def state():
    return {
        "passes": set(map(str, compiler_machinery._pass_registry._registry)),
        "data models": dict(default_manager._handlers),
        "events": {name: x for name, x in event._registered.items() if x},
    }

before = state()
"""


@pytest.mark.slow
def test_import_and_use_change_nothing_in_the_process(tmp_path: Path) -> None:
    assert _printed(GUEST + USE, tmp_path) == "[]\n[]\n"


@pytest.mark.slow
def test_use_changes_no_registry_of_numba(tmp_path: Path) -> None:
    assert _printed(GUEST + NUMBA + USE, tmp_path) == "[]\n[]\n"


def _printed(code: str, folder: Path) -> str:
    """Return what a fresh process prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout
