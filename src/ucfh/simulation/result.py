"""The record of a simulated agent, with one entry per phase (per policy), and its file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucfh._utils.files import RUN_FORMAT, AnyPath, check_ending, read_arrays, replacing
from ucfh._utils.notebook import block, picture, table
from ucfh.certificate import Certificate
from ucfh.exceptions import InputError
from ucfh.simulation.plots import plot_run

ENDINGS = (".npz",)

TOLERANCE = 1e-9
"""A gap that exceeds epsilon by at most this is rounding: values often lie on grids."""

SHOWN = 5
"""Phases shown in a notebook, at the beginning and at the end of a run."""

FORMAT_VERSION = 1
"""The version of the file: a new number for every change, since no other is read."""

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
"""Attributes of a run that its file stores unchanged."""


@dataclass
class Phase:
    """One policy: its duration, its value, and the update that ended it.

    Attributes:
        first_episode: counted from 0. A Python integer, as full runs may exceed 2^63 episodes.
        episodes: the number of episodes that followed this policy.
        segment, state, action: the pair whose update ended the phase; -1 if none did, or if it
            was an unknown start distribution. The segment is 0 for stationary transitions.
        n: the pair's visits after the update.
        value: V^pi, exactly. optimistic: V~. gap: V* - V^pi.
        captured: 1 if the true transitions lie in the confidence sets, 0 if not, NaN without.
        lower, gap_bound: the agent's lower bound on the value of its best policy, and its bound
            on the gap of this policy; NaN without such bounds.

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
    """The state of an agent (arrays by name) and of a NumPy generator after ``rows`` phases."""

    agent: dict[str, Any]
    generator: dict[str, Any]
    rows: int


@dataclass(eq=False)
class Run:
    """The result of a simulation, phase by phase.

    Attributes:
        about: the agent's settings, seed, method, version, and a fingerprint of the problem.
        optimal: V*, the value of an optimal policy.
        episode_bound: the theorem's bound on the number of epsilon-suboptimal episodes, if any.
        update_bound: the bound on the number of updates (U_max), if any.
        policy: (H, S) the certified policy, or the last one without a certificate.
        final: True if that policy can never change again; its endless phase is the last row,
            with no episodes counted.
        interrupted: True if the user stopped the run early.
        seconds: the duration, compilation included.
        rows: the phases.
        certificate: the agent's certificate, if it computes bounds.
        checkpoint: the state of agent and generator at the start of the last phase, from which
            `simulate` continues to the same result as an uninterrupted run.
        problem: the name of the problem; "" for an unnamed MDP.

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
        """The accuracy requested from the agent."""
        return float(self.about["epsilon"])

    @property
    def episodes(self) -> int:
        """The number of episodes run."""
        last = self.rows[-1] if self.rows else None
        return last.first_episode + last.episodes if last else 0

    @property
    def updates(self) -> int:
        """The number of model updates."""
        return sum(row.n > 0 for row in self.rows)

    @property
    def phases(self) -> np.recarray[Any, Any]:
        """The phases as a record array, with the attributes of `Phase` as columns."""
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
        """The optimality gap V* - V^pi of the last policy."""
        return self.rows[-1].gap if self.rows else nan

    def mistakes(self, epsilon: float | None = None) -> int | float:
        """Count the epsilon-suboptimal episodes; infinite if the final policy is suboptimal.

        Args:
            epsilon: the accuracy; None: the agent's.

        """
        limit = (self.epsilon if epsilon is None else epsilon) + TOLERANCE
        if not limit >= 0:
            raise InputError(f"epsilon = {epsilon} must be at least 0")
        if self.final and self.rows[-1].gap > limit:
            return inf
        return sum(row.episodes for row in self.rows if row.gap > limit)

    @property
    def regret(self) -> float:
        """The regret sum (V* - V^pi) over all episodes, in expectation given the policies."""
        return sum(row.episodes * row.gap for row in self.rows)

    def plot(
        self,
        path: AnyPath | None = None,
        title: str = "",
        force: bool = False,
        ax: Any = None,
    ) -> Any:
        """Draw gaps, or bounds if there is a certificate, and return the matplotlib figure.

        Args:
            path: a .png, .svg or .pdf file to save it to, if any.
            title: the title; default: problem, agent and number of episodes.
            force: True overwrites an existing file.
            ax: axes of your own to draw on, in place of a new figure.

        """
        if not self.rows:
            raise InputError("the run has no episodes yet: there is nothing to draw")
        return plot_run(self, title or self._title(), path, force, ax)

    def _title(self) -> str:
        """Return problem, agent and number of episodes, the default title of a figure."""
        scale = self.about.get("scale", 1.0)  # not saved by all custom agents
        count = f"{self.episodes}" if self.episodes < 1e6 else f"{self.episodes:.3g}"
        title = f"{self.about['agent']}, {count} episodes"
        title += f", scale {scale:g}" * (scale != 1)
        return f"{self.problem}: {title}" if self.problem else title

    def _repr_html_(self) -> str:
        columns = ("phase", "episodes", "value", "gap", "V~")
        shown = list(enumerate(self.rows))
        if len(shown) > 2 * SHOWN:
            shown = [*shown[:SHOWN], *shown[-SHOWN:]]
        rows = [
            [f"{k}", f"{x.episodes:.4g}", f"{x.value:.4g}", f"{x.gap:.4g}", f"{x.optimistic:.4g}"]
            for k, x in shown
        ]
        certificate = "" if self.certificate is None else repr(self.certificate)
        figure = picture(self.plot(), "gaps or bounds over the episodes") if self.rows else ""
        return block(f"{self.about['agent']}: {self!r}", certificate, table(columns, rows), figure)

    def save(self, path: AnyPath, force: bool = False) -> None:
        """Save the run and its checkpoint to one .npz file: a head in JSON and arrays, no pickles.

        Args:
            path: the file.
            force: True overwrites an existing file.

        """
        check_ending(path, ENDINGS)
        version = {"format": RUN_FORMAT, "format_version": FORMAT_VERSION}
        head: dict[str, Any] = version | {name: getattr(self, name) for name in HEAD}
        arrays: dict[str, Any] = {"policy": self.policy}
        if self.certificate is not None:
            arrays["certified_policy"] = self.certificate.policy
            head["certificate"] = self.certificate.as_dict()
        for name, kind in COLUMNS:
            column = [getattr(row, name) for row in self.rows]
            # Python integers of any size are stored as strings
            arrays[f"column_{name}"] = np.array(column, str if kind is object else kind)
        head |= {"generator": None, "kept": 0, "name": self.problem}
        if self.checkpoint is not None:
            head |= {"generator": self.checkpoint.generator, "kept": self.checkpoint.rows}
            arrays |= {f"agent_{name}": array for name, array in self.checkpoint.agent.items()}
        with replacing(path, force) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays, head=np.array(json.dumps(head)))

    @classmethod
    def load(cls, path: AnyPath) -> Run:
        """Load a saved run.

        Raises:
            InputError: if the file is not a saved run, or damaged.

        """
        arrays = read_arrays(path)
        try:
            head = json.loads(str(arrays.pop("head")))
            if head.pop("format") != RUN_FORMAT:
                raise KeyError(RUN_FORMAT)
            if head.pop("format_version", None) == FORMAT_VERSION:
                return cls._of_file(head, arrays)
            found = head["about"]["version"]
        except Exception as error:  # an archive of something else
            raise InputError(f"{path}: not a saved run, or damaged: save the run again") from error
        raise InputError(
            f"{path} was saved by ucfh {found}, whose files this version does not read. "
            "Fix: run again"
        )

    @classmethod
    def _of_file(cls, head: dict[str, Any], arrays: dict[str, Any]) -> Run:
        """Build a run from the head and the arrays of its file."""
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
