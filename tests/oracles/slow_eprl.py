"""EPRL the slow and obvious way: all paths are listed, and every episode is walked."""

from __future__ import annotations

from itertools import product
from math import log, sqrt

from ucfh.mdp import Problem

Path = tuple[int, ...]


class SlowEPRL:
    """Maximum coverage, elimination and stopping, from the formulas.

    paths: each as its rows (t, s, a), those of lower actions first. sums, n: of each row.
    """

    def __init__(self, problem: Problem, epsilon: float, delta: float, scale: float = 1.0) -> None:
        self.problem, self.epsilon, self.delta, self.scale = problem, epsilon, delta, scale
        table, H = problem.table.by_segment(problem.horizon), problem.horizon
        self.table, self.paths = table, list[Path]()
        for choice in product(range(problem.actions), repeat=H):
            s, path = int(table.indices[-1]), []
            for t, a in enumerate(choice):
                if table.first[s] + a < table.first[s + 1]:
                    path.append(t * table.pairs + int(table.first[s]) + a)
                    s = int(table.indices[path[-1]])
            if len(path) == H:
                self.paths.append(tuple(path))
        self.n = dict.fromkeys((row for path in self.paths for row in path), 0)
        self.sums = dict.fromkeys(self.n, 0.0)
        self.active, self.episodes, self.k = set(self.n), 0, 0
        self.unknown = {row for row in self.n if self.state(row) not in problem.terminal}
        self.answer: Path | None = None
        self.look()

    def state(self, row: int) -> int:
        return int(self.table.state[row % self.table.pairs])

    def b(self, row: int) -> float:
        n, N = self.n[row], len(self.unknown)
        if row not in self.unknown:
            return 0.0
        return min(1.0, self.scale * sqrt(log(N * (n + 1) / self.delta) / (2 * n))) if n else 1.0

    def sides(self, path: Path) -> tuple[float, float]:
        """L and U, from some step on."""
        mean = sum(self.sums[row] / max(1, self.n[row]) for row in path)
        width = sum(self.b(row) for row in path)
        return mean - width, mean + width

    def active_paths(self) -> list[Path]:
        return [path for path in self.paths if self.active.issuperset(path)]

    def look(self) -> None:
        """Eliminate; then stop, or set the next k."""
        self.lost: set[int] = set()
        for t, row in product(range(self.problem.horizon), sorted(self.active)):
            through = [p[t:] for p in self.paths if p[t] == row and self.active.issuperset(p[t:])]
            if row // self.table.pairs != t:
                continue
            beside = [p[t:] for p in self.paths if self.state(p[t]) == self.state(row)]
            sure = max(self.sides(p)[0] for p in beside)
            if max((self.sides(p)[1] for p in through), default=-1e9) < sure:
                self.lost.add(row)
        self.active -= self.lost
        self.max_L = max(self.sides(p)[0] for p in self.paths)
        kept = self.active_paths()
        self.active = {
            row
            for row in self.active
            if any(row in p and self.sides(p)[1] >= self.max_L for p in kept)
        }
        left = self.active_paths()
        self.width = max(u - low for low, u in map(self.sides, left))
        if len(left) == 1:
            self.answer = left[0]
        elif self.width <= self.epsilon:
            self.answer = max(self.paths, key=lambda p: self.sides(p)[0])
        else:
            fewest = min(self.n[row] for row in self.active & self.unknown)
            self.k = fewest + max(1, fewest // 50)

    def next_path(self) -> Path:
        """The first of those that cover most."""
        wanted = {row for row in self.active & self.unknown if self.n[row] < self.k}
        return max(self.paths, key=lambda p: len(wanted.intersection(p)))

    def see(self, path: Path, rewards: list[float]) -> None:
        """Learn from one episode."""
        for row, x in zip(path, rewards, strict=True):
            self.n[row] += 1
            self.sums[row] += x
        self.episodes += 1
        if all(self.n[row] >= self.k for row in self.active & self.unknown):
            self.look()
