"""A task whose episodes overlap, simulated: delays and losses that depend on the outcome.

What happens is an MDP; time is counted in units of a step. As many episodes as there are places are
open at once, and a new one begins when one is over. An outcome takes as long as `Delays` says, and
may be lost, for what it is. An agent sees events only, as a store would number them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

import numpy as np

from support.unknown_states import Witness
from ucfh import MDP
from ucfh.counts import due_after
from ucfh.sparse_counts import END, LOST
from ucfh.tasks.agent import PolicyToFollow, TaskAgent
from ucfh.tasks.config import Declaration
from ucfh.tasks.records import BY_NONE, DecisionRecord, OutcomeRecord
from ucfh.tasks.scoring import FrozenPolicyScores

Which = Callable[[int, int, int, float], bool]
"""Whether it is true of an outcome: of state, action, next state and reward."""


def unpaid(s: int, a: int, after: int, reward: float) -> bool:  # noqa: ARG001
    """Outcomes without a reward."""
    return reward == 0.0


def paid(s: int, a: int, after: int, reward: float) -> bool:  # noqa: ARG001
    """Outcomes with a reward."""
    return reward > 0.0


def to_state(state: int) -> Which:
    """Outcomes with that next state."""
    return lambda _s, _a, after, _r: after == state


def disappointing(mdp: MDP) -> Which:
    """Outcomes after which less can be earned than before, at the first step; also of no state."""
    V = mdp.optimal().values

    def which(s: int, a: int, after: int, reward: float) -> bool:  # noqa: ARG001
        ahead = V[1, after] if after < mdp.states else 0.0
        return bool(reward + ahead < V[0, s] - 1e-9)

    return which


@dataclass(frozen=True)
class Delays:
    """Delays of outcomes, and the rule that decides which are lost.

    Attributes:
        slow: how many times longer slow outcomes take; all take 1 on average otherwise.
        lost: the share of these that is lost; the deadline is three times their time.
        which: which outcomes are slow, and may be lost.

    """

    slow: float = 1.0
    lost: float = 0.0
    which: Which = unpaid


def with_silence(mdp: MDP, share: float, which: Which) -> MDP:
    """The MDP in which that share of outcomes leads to a state of its own, its last, unpaid."""
    table, S, A = mdp.table, mdp.states, mdp.actions
    p, r = np.zeros((S + 1, A, S + 1)), np.zeros((1, S + 1, A, S + 1))
    have = np.zeros((S + 1, A), bool)
    have[:S], have[S, 0] = table.available, True
    of_entry = mdp.rewards.successor
    if of_entry is None:
        of_entry = np.zeros((1, len(mdp.p)))
    assert table.stride == 0
    assert len(mdp.rewards.pair) == len(of_entry) == 1
    for s in range(S):
        for pair in range(int(table.first[s]), int(table.first[s + 1])):
            a, at = int(table.action[pair]), table.entries_of(pair)
            for j, x, more in zip(table.indices[at], mdp.p[at], of_entry[0, at], strict=True):
                pays = mdp.rewards.pair[0, pair] + more
                gone = share * which(s, a, int(j), float(pays))
                p[s, a, j], r[0, s, a, j] = (1 - gone) * x, pays
                p[s, a, S] += gone * x
    p[S, :, S] = 1.0
    ends = [*mdp.problem.terminal, S]
    return MDP(p, r, mdp.horizon, available=have, terminal=ends, initial=[*mdp.initial, 0.0])


class Overlapping:
    """Episodes of an MDP that overlap, and the events that a store would have of them.

    Args:
        mdp: what happens.
        places: how many episodes are open at once.
        delays: how long outcomes take, and which are lost.
        seed: of the simulation.
        faithful: whether an episode keeps its policy until twice as much is known, as `ucfh.tasks`
            has it; else it takes the newest one at each step.
        silence: a state that ends an episode, and is told as a state without actions.

    Attributes:
        found: the states of the MDP in the order of their numbers, from 1.
        policy: the newest policy.
        episodes: how many began. progress: these, and outcomes that were told.

    """

    def __init__(
        self,
        mdp: MDP,
        places: int,
        delays: Delays,
        seed: int,
        *,
        faithful: bool = True,
        silence: int | None = None,
    ) -> None:
        self.mdp, self.delays, self.faithful = mdp, delays, faithful
        self.rng = np.random.default_rng(seed)
        self.number = np.full(mdp.states, -1)
        self.number[list(mdp.problem.terminal)] = END
        self.silence, self.found = silence, list[int]()
        if silence is not None:
            self.number[silence] = -1
            self._meet(silence)
        self.seq = self.episodes = self.progress = 0
        self.time = 0.0
        self.policy: PolicyToFollow | None = None
        self._following: dict[int, PolicyToFollow | None] = {}  # by episode
        self._due: list[tuple[float, int, Any]] = []
        self._laws: dict[tuple[int, int, int], Any] = {}
        self._order = 0
        for place in range(places):
            self._later(place / places, None)

    def next(self) -> list[DecisionRecord | OutcomeRecord]:
        """The events of the next moment, in the order of their numbers."""
        self.time, _, what = heappop(self._due)
        return self._begin() if what is None else self._tell(*what)

    def forget(self, found: int) -> None:
        """Forget all open episodes, and all but the first states; as many episodes begin anew."""
        places, self._due, self._following = len(self._due), [], {}
        for s in self.found[found:]:
            self.number[s] = -1
        del self.found[found:]
        for place in range(places):
            self._later(place / places, None)

    def available(self, s: int) -> Any:
        """(A,) the actions of a state of the MDP, as an agent is told; None: all."""
        have = self.mdp.table.available[s] & (s != self.silence)
        return None if have.all() else have

    def _later(self, delay: float, what: Any) -> None:
        self._order += 1
        heappush(self._due, (self.time + delay, self._order, what))

    def _meet(self, s: int) -> int:
        if self.number[s] < 0:
            self.found.append(s)
            self.number[s] = len(self.found)
        return int(self.number[s])

    def _begin(self) -> list[DecisionRecord | OutcomeRecord]:
        self.episodes += 1
        self.progress += 1
        s = int(self.rng.choice(self.mdp.states, p=self.mdp.initial))
        self._following[self.episodes] = self.policy
        return [self._decide(self.episodes, 0, s)]

    def _decide(self, episode: int, t: int, s: int) -> DecisionRecord:
        first = self._following[episode]
        mine, newest = 0 if first is None else first.known, self.policy
        if newest is not None and (not self.faithful or newest.known >= max(2 * mine, mine + 1)):
            self._following[episode] = newest
        policy, n, a = self._following[episode], self._meet(s), 0
        if policy is not None and n < policy.actions.shape[1]:
            a = int(policy.actions[t, n])
        else:
            a = int(np.argmax(self.mdp.table.available[s]))
        after, reward = self._draw(t, s, a)
        slow = self.delays.which(s, a, after, reward)
        lost = slow and bool(self.rng.random() < self.delays.lost)
        delay = self.rng.exponential() * (self.delays.slow if slow else 1.0)
        self._later(3 * self.delays.slow if lost else delay, (episode, t, after, reward, lost))
        self.seq += 1
        used = BY_NONE if policy is None else policy.number
        return DecisionRecord(
            self.seq, episode, t, n, a, used, used
        )  # the last counts at t = 0 only

    def _draw(self, t: int, s: int, a: int) -> tuple[int, float]:
        """The next state and the reward."""
        if (t, s, a) not in self._laws:
            mdp, table = self.mdp, self.mdp.table
            pair = int(table.first[s] + table.available[s][:a].sum())
            at = table.entries_of(pair + table.stride * t)
            of_pair, of_entry = mdp.rewards.pair, mdp.rewards.successor
            mean = np.full(len(table.indices[at]), of_pair[min(t, len(of_pair) - 1), pair])
            if of_entry is not None:
                mean = mean + of_entry[min(t, len(of_entry) - 1), at]
            law = np.cumsum(mdp.p[at])
            self._laws[t, s, a] = (law / law[-1]).tolist(), table.indices[at].tolist(), mean
        law, states, mean = self._laws[t, s, a]
        k = int(np.searchsorted(law, self.rng.random(), "right"))
        reward = float(mean[k])
        if self.mdp.noise is not None:
            reward = float(self.rng.random() < reward)
        return states[k], reward

    def _tell(
        self, episode: int, t: int, after: int, reward: float, lost: bool
    ) -> list[DecisionRecord | OutcomeRecord]:
        self.seq += 1
        self.progress += 1
        n = LOST if lost else self._meet(after)
        told = OutcomeRecord(self.seq, episode, t, np.nan if lost else reward, n)
        if lost or after in self.mdp.problem.terminal or t + 1 == self.mdp.horizon:
            del self._following[episode]
            self._later(self.rng.exponential(), None)
            return [told]
        return [told, self._decide(episode, t + 1, after)]


# -- who learns from it ----------------------------------------------------------------------------


@dataclass(frozen=True)
class FlightCase:
    """A task whose episodes overlap, and what is declared of it."""

    mdp: MDP
    epsilon: float
    places: int
    delays: Delays = field(default_factory=Delays)
    faithful: bool = True
    silence: int | None = None
    told: dict[str, Any] = field(default_factory=dict)

    def declared(self, delta: float) -> Declaration:
        """Return the declaration: the actions, the number of steps, and the entries of `told`."""
        actions, H = list(range(self.mdp.actions)), self.mdp.horizon
        return Declaration.make("task", actions, H, self.epsilon, delta, **self.told)

    def world(self, seed: int) -> Overlapping:
        """Return the simulation."""
        return Overlapping(
            self.mdp,
            self.places,
            self.delays,
            seed,
            faithful=self.faithful,
            silence=self.silence,
        )


class InFlight(Witness):
    """A task that is learned, every bound of which is held against the truth at every planning.

    Attributes:
        task: the agent, with all that is under way. plans: whether it does.
        begun: how many episodes had begun when a policy was certified first; None if none was.

    """

    def __init__(self, case: FlightCase, delta: float, seed: int, plans: bool = True) -> None:
        self.plans = plans
        self.task, self.world = TaskAgent(case.declared(delta)), case.world(seed)
        super().__init__(case.mdp, self.task.agent)
        self._events: list[DecisionRecord | OutcomeRecord] = []
        self._next = 1  # when to plan again
        self.begun: int | None = None

    def run(self, episodes: int, stop: bool = False) -> InFlight:
        """Learn until that many episodes began, or, if it may ``stop``, it is done."""
        while self.world.episodes < episodes and not (stop and self.agent.done):
            self.take(self.world.next())
        return self

    def take(self, events: list[DecisionRecord | OutcomeRecord]) -> None:
        """Take events; they are handed on when a planning is due, in whichever number."""
        self._events += events
        if self.world.progress < self._next or not self.plans:
            return
        self.hand_on()
        assert self.task.due
        self.world.policy = self.task.plan()
        self._next = due_after(self._next)
        self.look(self.world.found)
        if self.begun is None and self.agent.done:
            self.begun = self.world.episodes

    def hand_on(self) -> None:
        """Let the agent have all events so far."""
        for s in self.world.found[self.task.experience.states - 1 :]:
            self.task.add_state(self.world.available(s))
        self.task.add_events(self._events)
        self._events = []


def flown(case: FlightCase, delta: float, episodes: int) -> Callable[[int], InFlight]:
    """Runs of a case, by their seeds."""
    return lambda seed: InFlight(case, delta, seed).run(episodes)


# -- a rule for scores that is wrong ---------------------------------------------------------------


def leaving_whoever_chose(
    scores: FrozenPolicyScores, episode: int, t: int, state: int, action: int, default: int
) -> None:
    """A leaving value counts wherever the frozen policy is left."""
    del default
    if episode in scores.open:
        policy, place = scores.open[episode]
        if action != scores.watched[policy].kept[t, state]:
            scores.x[place] += float(scores.watched[policy].leaving[t, state])
            del scores.open[episode]
