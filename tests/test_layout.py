"""The shape of the package: what may import what, and how long files may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "ucfh"

# Each layer may import from those before it, and within itself.
LAYERS = [
    ["defaults", "errors", "interrupts"],
    ["memory", "parallel", "clock"],
    ["_kernels"],
    ["table", "validation", "files"],
    ["planning", "confidence"],
    ["problem"],
    ["theory", "counts", "models", "policies", "live"],
    ["best", "sets", "certificate"],
    ["problems", "agents"],
    ["simulation", "instruments"],
    ["comparison", "verification"],
    ["experiments"],
    ["report"],
    ["commands"],
    ["cli"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")


def imports(path: Path) -> set[str]:
    """Top-level parts of ucfh that a file imports while it is loaded or run, types aside."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            if parts[0] == "ucfh":
                names = parts[1:2] or [alias.name for alias in node.names]
                found.update(name for name in names if name in RANK)
    return found


def part(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down_the_data_flow(path: Path) -> None:
    if part(path) == "__main__":
        return
    above = {name for name in imports(path) if RANK[name] > RANK[part(path)]}
    # a door upwards, opened only when it is called: a run plots itself
    doors = {"simulation": {"report"}}
    assert above <= doors.get(part(path), set()), f"{path.name} imports {above}"


KERNELS = sorted((SOURCE / "_kernels").glob("*.py"))


def test_kernels_import_each_other_in_one_way() -> None:
    """That which `ucfh._kernels.compiling` looks for, to notice what has changed; and no more."""
    for path in KERNELS:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not any(x.name.startswith("ucfh") for x in node.names), path.name
            elif isinstance(node, ast.ImportFrom) and path.name != "compiling.py":
                assert node.level == 0, path.name
                ours = str(node.module).startswith("ucfh")
                assert not ours or str(node.module).startswith("ucfh._kernels."), path.name
                assert not ours or node.col_offset == 0, path.name


def test_no_kernel_is_written_twice() -> None:
    """One that several files need is imported."""
    seen: dict[str, str] = {}
    for path in KERNELS:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                text = ast.dump(ast.Module(node.body, []))
                assert text not in seen, f"{path.name}: {node.name} is {seen[text]}"
                seen[text] = f"{node.name} of {path.name}"


def test_kernels_are_short_files() -> None:
    for path in KERNELS:
        assert len(path.read_text().splitlines()) <= 400, path.name


def test_kernels_are_compiled_in_one_way() -> None:
    """Or some would fail where compiled code cannot be kept."""
    for path in KERNELS:
        assert "numba import njit" not in path.read_text(), path.name


def test_everything_has_a_layer() -> None:
    parts = {part(path) for path in modules()} - {"__main__"}
    assert parts <= set(RANK)


def test_importing_loads_nothing_heavy() -> None:
    heavy = ("numpy", "numba", "rich", "matplotlib", "joblib")
    code = f"import ucfh.cli, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_exist() -> None:
    import ucfh

    for name in ucfh.__all__:
        assert getattr(ucfh, name) is not None
        # seen by type checkers too
        assert (
            name == "__version__" or f"import {name} as {name}" in Path(ucfh.__file__).read_text()
        )
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ucfh.nothing  # noqa: B018
