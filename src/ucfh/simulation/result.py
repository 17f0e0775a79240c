"""The record of a simulated agent: one row per phase, that is, per policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucfh._utils.files import AnyPath
from ucfh._utils.notebook import block, picture, table
from ucfh.certificate import Certificate
from ucfh.exceptions import InputError
from ucfh.simulation.plots import plot_run
from ucfh.simulation.result_file import read_run, write_run

TOLERANCE = 1e-9
"""A gap that exceeds epsilon by at most this is rounding: values often lie on grids."""

SHOWN = 5
"""Phases at the beginning and at the end of a run that a notebook shows."""

COLUMNS = [
    ("first_episode", object),
    ("episodes", object),
    ("state", np.int64),
    ("action", np.int64),
    ("n", np.int64),
    ("value", np.float64),
    ("optimistic", np.float64),
    ("gap", np.float64),
    ("captured", np.float64),
    ("segment", np.int64),
    ("lower", np.float64),
    ("gap_bound", np.float64),
]

HEAD = ("about", "optimal", "episode_bound", "update_bound", "final", "interrupted", "seconds")
"""Attributes of a run that its file keeps as they are."""


@dataclass
class Phase:
    """One policy: how long it was followed, what it is worth, what ended it.

    Attributes:
        first_episode: counted from 0. Python integers, as lifetimes may pass 2^63 episodes.
        episodes: how many followed this policy.
        segment, state, action: the pair whose update ended the phase; -1 if none did, or if it
            was the start, learned as one more row. The segment is 0 where rows have none.
        n: the pair's visits after the update.
        value: V^pi, exactly. optimistic: V~. gap: V* - V^pi.
        captured: 1 if the true transitions lie in the confidence sets, 0 if not, NaN without.
        lower, gap_bound: what the agent knows: the least that its best policy earns, and the most
            that this policy is from optimal; NaN where it has no such bounds.

    """

    first_episode: int
    episodes: int
    value: float
    optimistic: float
    gap: float
    captured: float
    segment: int = -1
    state: int = -1
    action: int = -1
    n: int = 0
    lower: float = nan
    gap_bound: float = nan


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of an agent (arrays by name) and of a NumPy generator, and where that was.

    rows: how many phases were over by then.
    """

    agent: dict[str, Any]
    generator: dict[str, Any]
    rows: int


@dataclass(eq=False)
class Run:
    """What happened, phase by phase.

    Attributes:
        about: what was run: the agent's settings, seed, method, version, and a fingerprint of
            the problem.
        optimal: V*, the value of the best policy.
        episode_bound: how many episodes the agent's theorem lets be worse than epsilon.
        update_bound: how many updates it expects at most (U_max).
        policy: (H, S) the last policy or, where there is a certificate, the one that it is about.
        final: whether that policy can never change again; its endless phase is the last row,
            with no episodes counted.
        interrupted: whether the user stopped the run early.
        seconds: how long it took, without compiling (see `ucfh._utils.clock`).
        certificate: what the agent knows at the end, if it has such bounds.
        checkpoint: where the last phase began: the agent's and the generator's state, from
            which `simulate` continues to the same result as if it had never stopped.
        problem: the name of the problem; "" if it was not given by its name.

    """

    about: dict[str, Any]
    optimal: float
    episode_bound: float | None
    update_bound: float | None
    policy: NDArray[Any]
    final: bool = False
    interrupted: bool = False
    seconds: float = 0.0
    rows: list[Phase] = field(default_factory=list)
    checkpoint: Checkpoint | None = None
    certificate: Certificate | None = None
    problem: str = ""

    @property
    def epsilon(self) -> float:
        """The accuracy that the agent was asked for."""
        return float(self.about["epsilon"])

    @property
    def episodes(self) -> int:
        """How many episodes were run."""
        last = self.rows[-1] if self.rows else None
        return last.first_episode + last.episodes if last else 0

    @property
    def updates(self) -> int:
        """How often the model was updated."""
        return sum(row.n > 0 for row in self.rows)

    @property
    def phases(self) -> np.recarray[Any, Any]:
        """One record per phase; columns as attributes or by name (see `Phase`)."""
        rows = [tuple(getattr(row, name) for name, _ in COLUMNS) for row in self.rows]
        return np.array(rows, dtype=COLUMNS).view(np.recarray)

    @property
    def value(self) -> float:
        """The exact value of the last policy."""
        return self.rows[-1].value if self.rows else nan

    @property
    def optimistic(self) -> float:
        """V~, the agent's optimistic estimate, at the last policy."""
        return self.rows[-1].optimistic if self.rows else nan

    @property
    def gap(self) -> float:
        """How much the last policy falls short of the optimum."""
        return self.rows[-1].gap if self.rows else nan

    def mistakes(self, epsilon: float | None = None) -> int | float:
        """How many episodes followed a policy worse than epsilon; infinite if the final one is."""
        limit = (self.epsilon if epsilon is None else epsilon) + TOLERANCE
        if not limit >= 0:
            raise InputError(f"epsilon = {epsilon} must be at least 0")
        if self.final and self.rows[-1].gap > limit:
            return inf
        return sum(row.episodes for row in self.rows if row.gap > limit)

    @property
    def regret(self) -> float:
        """The reward lost compared with the optimum, expected given the policies followed."""
        return sum(row.episodes * row.gap for row in self.rows)

    def plot(
        self,
        path: AnyPath | None = None,
        title: str = "",
        force: bool = False,
        ax: Any = None,
    ) -> Any:
        """Draw losses, or bounds if there is a certificate, and return the figure of matplotlib.

        Args:
            path: a .png, .svg or .pdf file to save it to, if any.
            title: what to write above it; default: problem, agent and number of episodes.
            force: whether to overwrite an existing file.
            ax: axes of your own to draw on, in place of a new figure.

        """
        if not self.rows:
            raise InputError("the run has no episodes yet: there is nothing to draw")
        return plot_run(self, title or self._title(), path, force, ax)

    def _title(self) -> str:
        """What was run, for the top of a figure."""
        scale = self.about.get("scale", 1.0)  # not kept by all agents of a user's own
        many = f"{self.episodes}" if self.episodes < 1e6 else f"{self.episodes:.3g}"
        said = f"{self.about['agent']}, {many} episodes"
        said += f", scale {scale:g}" * (scale != 1)
        return f"{self.problem}: {said}" if self.problem else said

    def _repr_html_(self) -> str:
        columns = ("phase", "episodes", "value", "loss", "V~")
        shown = list(enumerate(self.rows))
        if len(shown) > 2 * SHOWN:
            shown = [*shown[:SHOWN], *shown[-SHOWN:]]
        rows = [
            [f"{k}", f"{x.episodes:.4g}", f"{x.value:.4g}", f"{x.gap:.4g}", f"{x.optimistic:.4g}"]
            for k, x in shown
        ]
        known = "" if self.certificate is None else repr(self.certificate)
        drawing = picture(self.plot(), "losses or bounds over the episodes") if self.rows else ""
        return block(f"{self.about['agent']}: {self!r}", known, table(columns, rows), drawing)

    def save(self, path: AnyPath, force: bool = False) -> None:
        """Save everything to one file (.npz), the checkpoint included; `load` brings it back."""
        head: dict[str, Any] = {name: getattr(self, name) for name in HEAD}
        arrays: dict[str, Any] = {"policy": self.policy}
        if self.certificate is not None:
            arrays["certified_policy"] = self.certificate.policy
            head["certificate"] = self.certificate.as_dict()
        for name, kind in COLUMNS:
            column = [getattr(row, name) for row in self.rows]
            # Python integers of any size are kept as text
            arrays[f"column_{name}"] = np.array(column, str if kind is object else kind)
        head |= {"generator": None, "kept": 0, "name": self.problem}
        if self.checkpoint is not None:
            head |= {"generator": self.checkpoint.generator, "kept": self.checkpoint.rows}
            arrays |= {f"agent_{name}": array for name, array in self.checkpoint.agent.items()}
        write_run(path, head, arrays, force)

    @classmethod
    def load(cls, path: AnyPath) -> Run:
        """Load a saved run."""
        return read_run(path, cls._of_file)

    @classmethod
    def _of_file(cls, head: dict[str, Any], arrays: dict[str, Any]) -> Run:
        """The run of a file with this head and these arrays."""
        columns = {
            name: [int(x) for x in arrays[f"column_{name}"]]
            if kind is object
            else arrays[f"column_{name}"].tolist()
            for name, kind in COLUMNS
        }
        rows = zip(*columns.values(), strict=True)
        checkpoint = certificate = None
        if head["generator"] is not None:
            state = {k.removeprefix("agent_"): v for k, v in arrays.items() if k[:6] == "agent_"}
            checkpoint = Checkpoint(state, head["generator"], head["kept"])
        if "certificate" in head:
            certificate = Certificate.of_dict(head["certificate"], arrays["certified_policy"])
        return cls(
            **{name: head[name] for name in HEAD},
            policy=arrays["policy"],
            rows=[Phase(**dict(zip(columns, row, strict=True))) for row in rows],
            checkpoint=checkpoint,
            certificate=certificate,
            problem=head["name"],
        )

    def __str__(self) -> str:
        lines = [
            f"{'phase':>6} {'episodes':>10} {'pair':>12} {'n':>10} {'V^pi':>9} {'V~':>9} {'gap':>9}"
        ]
        shown = list(enumerate(self.rows))
        if len(shown) > 24:
            shown = [*shown[:12], *shown[-12:]]
        previous = -1
        for k, row in shown:
            if k > previous + 1:
                lines.append(f"{'...':>6}")
            previous = k
            pair = f"({row.state}, {row.action})" if row.state >= 0 else "-"
            count = "endless" if self.final and k == len(self.rows) - 1 else f"{row.episodes:.3g}"
            lines.append(
                f"{k:>6} {count:>10} {pair:>12} {row.n:>10.3g} {row.value:>9.5f} "
                f"{row.optimistic:>9.5f} {row.gap:>9.5f}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        certified = self.certificate is not None and self.certificate.certified
        end = (
            "certified"
            if certified
            else "final"
            if self.final
            else "interrupted"
            if self.interrupted
            else "capped"
        )
        return (
            f"Run({self.episodes:.4g} episodes, {self.updates} updates, gap {self.gap:.4g}, {end})"
        )
