"""The states, actions and policies of a task, cached in memory.

None of them changes in the store, so cached entries stay valid, and others are read in the
transaction that needs them.
"""

from __future__ import annotations

from typing import Any

from ucfh.envs.spaces import short
from ucfh.sparse_counts import END
from ucfh.tasks.config import Declaration, check_reward, read_subset
from ucfh.tasks.errors import Conflict, ErrorRecord, InvalidReport
from ucfh.tasks.labels import StateIndex, canonical
from ucfh.tasks.records import BY_NONE, BY_PERSON, StateRecord, StoredPolicy
from ucfh.tasks.store import Transaction

SWITCH_FACTOR = 2
"""An episode switches to a policy that was made from this multiple of its policy's outcomes."""
MOST_POLICIES = 64
"""Most policies in memory; others are read again."""


class LabelCache:
    """The states, actions and policies of a task.

    Attributes:
        states: the cached states, which may be fewer than in the store.
        actions: (A,) the labels of the actions.
        policies: the cached policies, by number.

    """

    def __init__(self, declaration: Declaration) -> None:
        self.declaration, self.states = declaration, StateIndex()
        self.actions = declaration.action_labels
        self.policies: dict[int, StoredPolicy] = {}
        self._units, self._last = declaration.units, declaration.horizon - 1
        self._number = {text: a for a, text in enumerate(declaration.actions)}

    def load_states(self, tx: Transaction, s: int | None = None) -> None:
        """Load states added by other processes; with ``s``, only if state ``s`` is not cached."""
        if s is None or s >= len(self.states):
            self.states.add(tx.states(len(self.states) - 1))

    def is_over(self, t: int, next_state: int) -> bool:
        """True if an episode is over after an outcome."""
        return t == self._last or next_state <= END or self.states.actions[next_state] == ()

    def find_state(self, tx: Transaction, label: Any, actions: Any, name: str, t: int) -> int:
        """Return the number of a state in an episode at a step; a new state is added."""
        text = canonical(label)
        s = self.states.number.get(text)
        if s is None:
            self.load_states(tx)
            s = self.states.number.get(text)
        if s is None:
            return self._add_state(tx, text, actions, name, t)
        if actions is not None:
            available = read_subset(actions, self.declaration.actions, text)
            if available != self.states.actions[s]:
                raise Conflict(
                    f"state {text} had other actions when it was first reported. Fix: if its "
                    "actions change, use different states"
                )
        return s

    def _add_state(self, tx: Transaction, text: str, actions: Any, name: str, t: int) -> int:
        if self.declaration.states is not None:
            raise InvalidReport(
                f"state {text} is not in the declared states ({_listed(self.states.texts[1:])}); "
                "nothing was counted. Fix: give a declared state",
                ErrorRecord("state", name, t, {"state": short(text)}),
            )
        self.states.check_new(text)
        self.declaration.check_size(len(self.states))
        available = read_subset(actions, self.declaration.actions, text)
        record = StateRecord(len(self.states), text, available)
        tx.add_state(record)
        self.states.add([record])
        return record.number

    def find_next_state(
        self, tx: Transaction, name: str, t: int, state: Any, done: bool, actions: Any
    ) -> int:
        """Return the number of the next state."""
        if done:
            return END
        return self.find_state(tx, _check_next_state(state, name, t), actions, name, t)

    def text_of(self, state: Any, name: str, t: int) -> str:
        """Return the canonical form of the next state, which may be unknown."""
        return canonical(_check_next_state(state, name, t))

    def find_action(self, action: Any, s: int) -> int:
        """Return the number of an action that is available in a state."""
        text, available = canonical(action, "action"), self.states.actions[s]
        if (a := self._number.get(text)) is None:
            listed = short(", ".join(self.declaration.actions))
            raise InvalidReport(f"unknown action {text}: the actions are {listed}")
        if available is not None and a not in available:
            raise InvalidReport(
                f"state {self.states.texts[s]} does not have the action {text}: record the "
                "action that was taken, in its state"
            )
        return a

    def check_reward(self, reward: Any, name: str, t: int) -> float:
        """Return a valid reward; the error of an invalid one is kept."""
        try:
            return check_reward(reward, self._units)
        except InvalidReport as error:
            error.kept = ErrorRecord("reward", name, t, {"reward": short(reward)})
            raise

    def choose(self, tx: Transaction, policy: int, t: int, s: int) -> int:
        """Return the action of a policy.

        It is the state's first action if the policy does not know the state, or has an action there
        that is not available.
        """
        plan, available = self._load(tx, policy), self.states.actions[s]
        if plan is not None and s < plan.actions.shape[1]:
            action = int(plan.actions[t, s])
            if available is None or action in available:
                return action
        return self.states.first_action(s)

    def continuing_policy(self, tx: Transaction, policy: int) -> int:
        """Return the policy that an episode continues with."""
        if policy in (tx.newest, BY_PERSON):
            return tx.newest
        current = self._load(tx, policy)
        known = 0 if current is None else current.known
        return tx.newest if tx.newest_known >= max(SWITCH_FACTOR * known, known + 1) else policy

    def _load(self, tx: Transaction, number: int) -> StoredPolicy | None:
        """Return a policy by its number; None if there is none."""
        if number == BY_NONE:
            return None
        found = self.policies.get(number)
        if found is None and (found := tx.policy(number)) is not None:
            self.policies[number] = found
            for old in sorted(self.policies)[:-MOST_POLICIES]:
                del self.policies[old]
        return found


def _listed(texts: list[str]) -> str:
    """Format labels for a message."""
    return short(", ".join(texts[:20]))


def _check_next_state(state: Any, name: str, t: int) -> Any:
    """Return the next state; raise if there is none."""
    if state is None:
        raise InvalidReport(
            f"step {t} of episode {name!r} has no next state: give the state that followed, or say "
            "that the episode is over: done=True (--done)"
        )
    return state
