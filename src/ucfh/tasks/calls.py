"""Calls on a live task, made in transactions.

ask, tell, record, abandon, expire      one call, one transaction
serve                                   many calls, one transaction; a rejected call is rolled
                                        back alone
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar

from ucfh.exceptions import InputError
from ucfh.tasks.ask_tell import AskTell
from ucfh.tasks.config import Declaration
from ucfh.tasks.errors import InvalidReport, TaskError
from ucfh.tasks.protocol import TaskProtocol
from ucfh.tasks.store import TaskStore, Transaction

T = TypeVar("T")
Call = Callable[[Transaction], T]
"""A function of a transaction."""
MOST_CALLS = 1000
"""Calls of one batch over HTTP, at most."""


class TaskCalls(AskTell[Call[Any]]):
    """The calls on a task in a store.

    Attributes:
        name, declaration: of the task.
        store, number: its store, and its number there.

    """

    def __init__(self, store: TaskStore, number: int, declaration: Declaration) -> None:
        self.store, self.number, self.declaration = store, number, declaration
        self.name = declaration.name
        self._protocol = TaskProtocol(declaration)
        self._protocol.cache.states.add(store.states(number, 0))
        self._calls = Lock()

    def _call(self, kind: str, episode: str, **given: Any) -> Call[Any]:
        method = getattr(self._protocol, kind)
        return lambda tx: method(tx, episode, **given)

    def expire(self) -> int:
        """Expire the open decisions whose deadline has passed; returns their number."""
        return int(self._serve(self.expiring()))

    def expiring(self) -> Call[int]:
        """Return the call that `expire` makes, for `serve`."""
        return self._protocol.expire

    def write(self, call: Callable[[Transaction, TaskProtocol], T]) -> T:
        """Make several calls of the protocol in one atomic transaction."""
        written: T = self._serve(lambda tx: call(tx, self._protocol))
        return written

    def serve(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Make several calls with one commit.

        Returns:
            The answer of each call, or its error, which is not raised. A rejected call is rolled
            back alone.

        """
        self.store.check_open()
        with self._calls:
            states = self._protocol.cache.states
            known = len(states)

            def make_all(tx: Transaction) -> list[Any]:
                states.truncate(known)  # if the connection was lost, all are made again
                return [self._attempt(tx, call) for call in calls]

            try:
                answers = self.store.transact(self.number, make_all)
            except BaseException:
                states.truncate(known)
                raise
        self._after_commit()
        return answers

    def _attempt(self, tx: Transaction, call: Call[T]) -> T | TaskError:
        """Make one atomic call; if it is rejected, keep the record of its error."""
        states = self._protocol.cache.states
        known = len(states)

        def made() -> T:
            try:
                return call(tx)
            except TaskError:
                raise
            except InputError as error:
                raise InvalidReport(str(error)) from error

        answer = tx.attempt(made)
        if isinstance(answer, TaskError):
            states.truncate(known)
            if answer.kept is not None:
                tx.add_error(answer.kept)
        return answer

    def _after_commit(self) -> None:
        """Do nothing; called after each commit."""
