"""``{rooms}`` draws which part of the package imports which, and lists what each part holds.

Both are read from the source. Arrows that follow from others are left out: where a imports b, and
b imports c, that a imports c as well says nothing new.
"""

from __future__ import annotations

import ast
import re
from html import escape
from itertools import pairwise
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

import ucfh

log = logging.getLogger(__name__)

SOURCE = Path(ucfh.__file__).parent
LETTER, HEIGHT, ROW, GAP, LANE = 7.2, 26, 58, 14, 4
"""Widths and heights, in pixels: of a letter, a box, a row; between boxes; of an arrow's lane."""

Graph = dict[str, set[str]]


def parts() -> dict[str, list[Path]]:
    """The files of each part: of a folder, or a single module."""
    found: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if name not in ("__init__", "__main__"):
            found.setdefault(name, []).append(path)
    return found


def imported(path: Path) -> set[str]:
    """What a file imports when it is loaded or run, types aside: ``ucfh.a.b`` is "a"."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            within = [f"{node.module}.{alias.name}" for alias in node.names]
            names |= {node.module, *within}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Call) and "import_module" in ast.dump(node.func):
            texts = [x.value for x in ast.walk(node) if isinstance(x, ast.Constant)]
            names |= {text for text in texts if isinstance(text, str)}
    return {name.split(".")[1] for name in names if name.startswith("ucfh.")}


def graph() -> Graph:
    """Which part imports which others."""
    files = parts()
    return {
        name: {x for path in paths for x in imported(path) if x in files} - {name}
        for name, paths in files.items()
    }


def reached(edges: Graph, start: str) -> set[str]:
    """All that can be reached from a part."""
    found: set[str] = set()
    waiting = list(edges[start])
    while waiting:
        x = waiting.pop()
        if x not in found:
            found.add(x)
            waiting += edges[x]
    return found


def without_cycles(edges: Graph) -> Graph:
    """The graph less the arrows that close a cycle; there should be none."""
    kept: Graph = {name: set() for name in edges}
    for name in sorted(edges):
        for other in sorted(edges[name]):
            if name in reached(kept, other) or name == other:
                log.warning("the parts %s and %s import each other", name, other)
            else:
                kept[name].add(other)
    return kept


def reduced(edges: Graph) -> Graph:
    """Without the arrows that follow from others."""
    return {
        name: {x for x in below if not any(x in reached(edges, y) for y in below - {x})}
        for name, below in edges.items()
    }


def heights(edges: Graph) -> dict[str, int]:
    """The row of each part, from below: above all that it imports, just below what imports it."""
    found: dict[str, int] = {}

    def height(name: str) -> int:
        if name not in found:
            found[name] = 1 + max((height(x) for x in edges[name]), default=-1)
        return found[name]

    for name in edges:
        height(name)
    for name in sorted(edges, key=lambda x: -found[x]):
        users = [found[x] for x in edges if name in edges[x]]
        found[name] = min(users, default=found[name] + 1) - 1
    return found


def drawing(edges: Graph) -> str:
    """The graph as SVG: importers above, what they import below."""
    few = reduced(edges)
    row_of: dict[str, int] = heights(edges)
    lines: list[list[str]] = []
    for name in sorted(few):
        for other in sorted(few[name]):
            # an arrow over several rows goes through a lane in each row between
            lanes = [f"{name}>{other}>{at}" for at in range(row_of[name] - 1, row_of[other], -1)]
            row_of |= {lane: int(lane.rpartition(">")[2]) for lane in lanes}
            lines.append([name, *lanes, other])
    rows: list[list[str]] = [[] for _ in range(max(row_of.values()) + 1)]
    for name in sorted(row_of):
        rows[row_of[name]].append(name)
    width = {x: LANE if ">" in x else LETTER * len(x) + 18 for x in row_of}
    pairs = [(a, b) for line in lines for a, b in pairwise(line)]
    near: Graph = {x: set() for x in row_of}
    for a, b in pairs:
        near[a].add(b)
        near[b].add(a)
    at = _places(rows, width, near)
    wide = max(at[x] + width[x] / 2 for x in at) + 10
    tall = len(rows) * ROW
    y = {x: tall - (row_of[x] + 0.5) * ROW for x in row_of}
    out = []
    for line in lines:
        points = [(at[x], y[x]) for x in line]
        points[0] = (points[0][0], points[0][1] + HEIGHT / 2)
        points[-1] = (points[-1][0], points[-1][1] - HEIGHT / 2)
        out.append(
            f'<path d="{_curve(points)}" fill="none" stroke="currentColor" stroke-opacity="0.45"/>'
        )
    for x in sorted(few):
        fill = "var(--color-background-secondary)"
        stroke = "var(--color-foreground-muted)" if x[0] == "_" else "var(--color-brand-primary)"
        out.append(
            f'<rect x="{at[x] - width[x] / 2:.1f}" y="{y[x] - HEIGHT / 2:.1f}" rx="5" '
            f'width="{width[x]:.1f}" height="{HEIGHT}" fill="{fill}" stroke="{stroke}"/>'
            f'<text x="{at[x]:.1f}" y="{y[x] + 4:.1f}" text-anchor="middle" font-size="12.5" '
            f'font-family="monospace" fill="currentColor">{escape(x)}</text>'
        )
    return (
        f'<div class="rooms"><svg width="{wide:.0f}" height="{tall}" role="img" '
        f'viewBox="0 0 {wide:.0f} {tall}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>Which part imports which</title>{''.join(out)}</svg></div>"
    )


def _curve(points: list[tuple[float, float]]) -> str:
    """A smooth line through points (Catmull-Rom), upright at both ends."""
    (x, y), (x_end, y_end) = points[0], points[-1]
    whole = [(x, y - ROW), *points, (x_end, y_end + ROW)]
    path = f"M{x:.1f},{y:.1f}"
    for before, a, b, after in zip(whole, whole[1:], whole[2:], whole[3:], strict=False):
        first = (a[0] + (b[0] - before[0]) / 6, a[1] + (b[1] - before[1]) / 6)
        second = (b[0] - (after[0] - a[0]) / 6, b[1] - (after[1] - a[1]) / 6)
        path += " C" + " ".join(f"{x:.1f},{y:.1f}" for x, y in (first, second, b))
    return path


def _places(rows: list[list[str]], width: dict[str, float], near: Graph) -> dict[str, float]:
    """Where the middle of everything is: each near the mean of its neighbours, in order."""
    at = {name: 60.0 * i for row in rows for i, name in enumerate(row)}
    for sweep in range(80):
        for row in rows if sweep % 2 else rows[::-1]:
            wish = {x: sum(at[y] for y in near[x]) / max(len(near[x]), 1) for x in row}
            row.sort(key=lambda x: (wish[x], x))
            room = [(width[a] + width[b]) / 2 + GAP for a, b in pairwise(row)]
            right = [wish[row[0]]]
            for name, needed in zip(row[1:], room, strict=True):
                right.append(max(wish[name], right[-1] + needed))
            left = [wish[row[-1]]]
            for name, needed in zip(row[-2::-1], room[::-1], strict=True):
                left.append(min(wish[name], left[-1] - needed))
            # both keep their distances, and so does their mean
            at |= {x: (a + b) / 2 for x, a, b in zip(row, right, left[::-1], strict=True)}
    least = min(at[x] - width[x] / 2 for x in at)
    return {x: place - least + 10 for x, place in at.items()}


def _summary(paths: list[Path]) -> str:
    """The first sentence of a part's docstring."""
    text = ast.get_docstring(ast.parse(paths[0].read_text())) or ""
    first = " ".join(text.split("\n\n")[0].split())
    return re.sub(r"([\\`*_{}\[\]<>|$~^])", r"\\\1", first.replace("`", ""))


class Rooms(SphinxDirective):
    """The drawing, and the table below it."""

    def run(self) -> list[nodes.Node]:
        """Sphinx calls this."""
        edges = without_cycles(graph())
        rank = heights(edges)
        lines = ["| part | what it holds | imports |", "|---|---|---|"]
        for name in sorted(edges, key=lambda x: (-rank[x], x)):
            below = ", ".join(f"`{x}`" for x in sorted(edges[name], key=lambda x: (-rank[x], x)))
            lines.append(f"| `{name}` | {_summary(parts()[name])} | {below or '-'} |")
        picture = nodes.raw("", drawing(edges), format="html")
        return [picture, *self.parse_text_to_nodes("\n".join(lines))]


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this."""
    app.add_directive("rooms", Rooms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
