"""A log of every step during learning, as `ucfh.read_log` reads it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import IO, Any

from ucfh._utils.files import AnyPath, check_ending, refuse_existing
from ucfh.envs.environment import SteppedEnvironment
from ucfh.exceptions import InputError
from ucfh.logs.batches import COLUMNS
from ucfh.rewards import RewardRange
from ucfh.sparse_counts import END, Steps

ENDINGS = (".csv",)


class LogWriter:
    """Writer of steps to a .csv file, which is created with the first step.

    Args:
        path: the file; None writes nothing.
        environment: the environment, which names states and actions.
        units: the range of the rewards in the file.
        force: True overwrites an existing file.
        resumed: True appends to an existing file.

    """

    def __init__(
        self,
        path: AnyPath | None,
        environment: SteppedEnvironment,
        units: RewardRange,
        force: bool = False,
        resumed: bool = False,
    ) -> None:
        self._path, self._environment, self._units = path, environment, units
        self._file: IO[str] | None = None
        self._begun = resumed and path is not None and Path(path).exists()
        if path is not None:
            check_ending(path, ENDINGS)
            if not self._begun:
                refuse_existing(path, force)

    def __enter__(self) -> LogWriter:
        return self

    def _open(self, path: AnyPath) -> None:
        mode = "a" if self._begun else "w"
        try:
            self._file = Path(path).open(mode, newline="", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from None
        if not self._begun:
            self._write([COLUMNS])

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, steps: Steps, episodes: int) -> None:
        """Write the steps of the last episodes, after ``episodes`` earlier ones."""
        if self._path is None or not len(steps.starts):
            return
        if self._file is None and not self._begun and not len(steps):
            return  # no outcome yet
        if self._file is None:
            self._open(self._path)
        name, actions = self._environment.name_of, self._environment.action_names
        number = episodes - 1
        lines: list[tuple[Any, ...]] = []
        rewards = [self._unscaled(r) for r in steps.reward.tolist()]
        columns = (steps.t, steps.state, steps.action, steps.following)
        for (t, s, a, after), r in zip(
            zip(*(x.tolist() for x in columns), strict=True), rewards, strict=True
        ):
            number += t == 0
            lines.append((number, t, name(s), actions[a], r, name(after), int(after == END)))
        for s in steps.starts[int((steps.t == 0).sum()) :].tolist():  # no step: a missing outcome
            lines.append((number + 1, 0, name(s), actions[0], "", "", 0))
        self._write(lines)

    def _unscaled(self, reward: float) -> float:
        """Return a reward in the user's units, rounded if that is exact."""
        units = self._units
        exact = min(max(float(units.unscaled(reward)), units.low), units.high)
        short = float(f"{exact:.12g}")
        return short if units.scaled(short) == reward else exact

    def _write(self, lines: Any) -> None:
        assert self._file is not None
        try:
            csv.writer(self._file, lineterminator="\n").writerows(lines)
            self._file.flush()
        except OSError as error:
            raise InputError(f"cannot write {self._path}: {error.strerror}") from None
