"""The protocol of environments that are stepped, and whose states are discovered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from ucfh.exceptions import InputError
from ucfh.sparse_counts import SparseCounts, Steps


@dataclass(eq=False)
class RunOutput:
    """The result of running some episodes.

    Attributes:
        steps: all steps taken, with rewards in [0, 1]; ``steps.starts`` includes the start of an
            unfinished last episode.
        episodes: the number of finished episodes.
        fault: the error of the next step, or None.
        interrupted: True if Ctrl-C ended the run.

    """

    steps: Steps
    episodes: int
    fault: InputError | None = None
    interrupted: bool = False


class SteppedEnvironment(ABC):
    """An environment that is only stepped.

    Attributes:
        name: its name. identity: its settings, which distinguish it from others of that name.
        horizon: H. actions: A, the largest number of actions of a state.
        action_names: (A,) the names of the actions in files.
        labels: the states by number, as the environment shows them; the first is the end.
        assumptions: additional assumptions about it, a sentence each.

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
        """Run episodes of a policy.

        Args:
            experience: the counts, to which new states are added; steps are not added.
            actions: H lists of actions by the number of the state. In other states the first
                action is taken.
            episodes: the number of episodes.

        """

    @abstractmethod
    def number_of(self, state: Any) -> int:
        """Return the number of a state as the environment shows it, -1 if it is unknown."""

    @abstractmethod
    def name_of(self, s: int) -> str:
        """Return the unique name of a state in files."""

    @abstractmethod
    def restore_states(self, labels: Sequence[Hashable], experience: SparseCounts) -> None:
        """Continue with the states of an earlier run, without the end, as experience has them."""

    def action_of(self, a: int) -> Any:
        """Return the environment's action for an action number."""
        return a

    def close(self) -> None:  # noqa: B027
        """Release resources."""
