"""What a world is to learning: something that is only stepped, and whose states are found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from ucfh.exceptions import InputError
from ucfh.sparse_counts import SparseCounts, Steps


@dataclass(eq=False)
class RunOutput:
    """What a run of episodes gave.

    Attributes:
        steps: all steps that were taken, with rewards in [0, 1]; ``steps.starts`` also has the
            start of the last episode if that was not finished.
        episodes: how many were finished.
        fault: what was wrong with the next step, or None.
        interrupted: whether Ctrl-C ended the run.

    """

    steps: Steps
    episodes: int
    fault: InputError | None = None
    interrupted: bool = False


class SteppedEnvironment(ABC):
    """A world that is only stepped.

    Attributes:
        name: what it is called. identity: what distinguishes it from others of that name.
        horizon: H. actions: A, the largest number of actions of a state.
        action_names: (A,) as they are called in files.
        labels: the states by number, as they are shown; the first is the end.
        assumptions: what is assumed of it besides, a sentence each.

    """

    name: str
    identity: str = ""
    horizon: int
    actions: int
    action_names: Sequence[str]
    labels: list[Hashable]
    assumptions: tuple[str, ...] = ()

    @abstractmethod
    def run(
        self, experience: SparseCounts, actions: Sequence[Sequence[int]], episodes: int
    ) -> RunOutput:
        """Run episodes of a policy: actions, H lists by the number of the state.

        In a state that is not in the lists the first action is taken. States are found in
        ``experience`` as they come up.
        """

    @abstractmethod
    def number_of(self, state: Any) -> int:
        """The number of a state as it is shown, -1 if it was never seen."""

    @abstractmethod
    def name_of(self, s: int) -> str:
        """What a state is called in files; no two alike."""

    @abstractmethod
    def know(self, labels: Sequence[Hashable], experience: SparseCounts) -> None:
        """Continue with states that were found before, the end left out, as experience has them."""

    def action_of(self, a: int) -> Any:
        """An action as the world takes it, by its number."""
        return a

    def close(self) -> None:  # noqa: B027
        """Let go of what it holds, if anything."""
