"""FixedHorizonEVI and exact planning against their peers: same instances, same run, same answers.

The peers live in an environment of their own, .venv-peers, which `make bench` makes.
"""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from report import Report, best, best_of

from oracles.vectorised import instance, learned_instance, sorted_fill
from ucfh import MDP, fixed_horizon_evi

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers" / "bin" / "python"
SIZES = [(20, 4, 20, 20), (1000, 4, 10, 100), (100_000, 4, 10, 20), (500, 4, 500, 50)]
GOALS = [8, 12, 6, 25]  # times as fast as Storm
SHARED = 1.6  # times as fast on all cores, but for the smallest
KINDS = {"rewards by action": instance, "as UCFH has them": learned_instance}

# values are at most H = 100, and all of them sum doubles: a thousand roundings
SAME = 1e-12 * 100

Floats = NDArray[np.float64]


class Instance:
    """A random interval MDP, and an MDP with the same successors and rewards."""

    def __init__(self, S: int, A: int, C: int, H: int, kind: str = "rewards by action") -> None:
        self.S, self.A, self.C, self.H = S, A, C, H
        self.lo, self.hi, self.indices, self.r = KINDS[kind](S, A, C)
        self.p = np.random.default_rng(1).dirichlet(np.ones(C), (S, A))
        self.rows: dict[str, Any] = {
            "lo": self.lo.ravel(),
            "hi": self.hi.ravel(),
            "indptr": np.arange(0, self.lo.size + 1, C),
            "indices": self.indices.ravel(),
        }
        self.repeats = max(10, min(20_000, int(2e9 / (self.lo.size * H))))

    @property
    def name(self) -> str:
        """Its sizes."""
        successors = "dense" if self.C == self.S else f"C={self.C}"
        return f"S={self.S} A={self.A} {successors} H={self.H}"

    def plan(self, threads: int | None) -> Floats:
        """(S,) values from the start."""
        if self.C == self.S:
            plan = fixed_horizon_evi(self.lo, self.hi, self.r, self.H, threads=threads)
        else:
            plan = fixed_horizon_evi(rewards=self.r, horizon=self.H, threads=threads, **self.rows)
        return np.asarray(plan.values[0])

    def ns(self, seconds: float) -> float:
        """Nanoseconds per entry and step."""
        return seconds / (self.lo.size * self.H) * 1e9

    def ask(self, script: str, folder: Path) -> tuple[list[float], Floats]:
        """What a peer prints, and the values (S,) that it finds."""
        model, values = folder / "model.npz", folder / "values.npy"
        np.savez(model, **self.rows, p=self.p.ravel(), r=self.r, horizon=self.H)
        files = [str(x) for x in (PEERS, HERE / "peers" / script, model, values)]
        command = [*files, str(min(self.repeats, 2000))]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return [float(x) for x in done.stdout.split()], np.load(values)


@njit(cache=True, fastmath={"reassoc"})
def read(lo: Floats, hi: Floats, indices: NDArray[np.int32], times: int) -> float:
    """The arrays of a model, streamed: no planner that reads them once a step can be faster."""
    total, count = 0.0, 0
    for _ in range(times):
        for e in range(lo.size):
            total += lo[e] + hi[e]
            count += indices[e]
    return total + count


def check_same(ours: Floats, theirs: Floats, whose: str) -> None:
    off = float(np.abs(ours - theirs).max())
    if not off <= SAME:
        raise SystemExit(f"{whose} finds other values: they differ by {off}")


def optimistic(report: Report, kind: str) -> None:
    """FixedHorizonEVI against Storm and NumPy on the four sizes."""
    lines = []
    for size, goal in zip(SIZES, GOALS, strict=True):
        case = Instance(*size, kind)
        values = case.plan(1)
        with TemporaryDirectory() as folder:
            (storm,), theirs = case.ask("storm.py", Path(folder))
        check_same(values, theirs, "Storm")
        fill = partial(sorted_fill, case.lo, case.hi, case.indices, case.r, case.H)
        check_same(values, fill()[1][0], "NumPy")
        numpy = best(fill, 1)
        check_same(values, case.plan(None), "all cores")
        arrays = (case.lo.ravel(), case.hi.ravel(), case.indices.ravel())
        one, all_cores, reading = best_of(
            [partial(case.plan, 1), partial(case.plan, None), partial(read, *arrays, case.H)],
            case.repeats,
        )
        times = [f"{case.ns(x):.2f}" for x in (storm, numpy, one, all_cores, reading)]
        shared = f"{one / all_cores:.2f}" + (f" (goal {SHARED})" if size != SIZES[0] else "")
        ratios = [f"{storm / one:.1f} (goal {goal})", shared, f"{one / reading:.2f}"]
        lines.append([case.name, *times, *ratios])
    report.say(f"### Interval MDPs: {kind}")
    report.table(
        ["", "Storm", "NumPy", "ucfh, 1 thread", "all cores", "reading the model once a step",
         "Storm / ucfh", "1 thread / all cores", "ucfh / reading"], lines,
    )  # fmt: skip


def exact(report: Report) -> None:
    """Exact planning against QuantEcon on the four sizes."""
    lines = []
    for size in SIZES:
        case = Instance(*size)
        with TemporaryDirectory() as folder:
            quantecon, known = case.ask("exact.py", Path(folder))
        mdp = MDP((*(case.rows[x] for x in ("indptr", "indices")), case.p.ravel()), case.r, case.H)
        check_same(mdp.optimal().values[0], known, "QuantEcon")
        ours = best(mdp.optimal, case.repeats)
        peer = float(np.nanmin(quantecon))
        milliseconds = [f"{1e3 * x:.3g}" for x in (*quantecon, ours)]
        dense, sparse, mine = (x.replace("nan", "-") for x in milliseconds)
        lines.append([case.name, dense, sparse, mine, f"{peer / ours:.1f}"])
    report.say("## Exact planning", "", "Milliseconds.")
    report.table(["", "QuantEcon dense", "sparse", "ucfh", "QuantEcon's best / ucfh"], lines)


def growth(report: Report) -> None:
    """The exponents with which time grows."""
    base = {"S": 1000, "A": 4, "C": 10, "H": 100}
    sizes = {
        "S": [500, 1000, 2000, 4000], "A": [4, 8, 16, 32],
        "C": [10, 20, 40, 80], "H": [50, 100, 200, 400],
    }  # fmt: skip
    exponents = []
    for axis, values in sizes.items():
        times = []
        for value in values:
            size = {**base, axis: value}
            case = Instance(size["S"], size["A"], size["C"], size["H"])
            case.plan(1)
            times.append(best(partial(case.plan, 1), 8))
        slope = np.polyfit(np.log(values), np.log(times), 1)[0]
        exponents.append(f"{axis} {slope:.2f}")
    report.say(
        "## Growth", "", "Time grows with these powers around S=1000 A=4 C=10 H=100, one thread: "
        + ", ".join(exponents) + ".", "",
    )  # fmt: skip


def main(report: Report) -> None:
    if not PEERS.exists():
        raise SystemExit(f"{PEERS.parent.parent.name} is missing: run `make bench`, which makes it")
    report.say(
        "## FixedHorizonEVI", "", "ns per (s, a, s') entry and time step, calls included. Rewards "
        "by action let most actions be skipped; while UCFH learns, rewards are those of states, "
        "and no action wins by its reward.", "",
    )  # fmt: skip
    for kind in KINDS:
        optimistic(report, kind)
    exact(report)
    growth(report)


if __name__ == "__main__":
    main(Report())
