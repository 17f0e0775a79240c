"""A Gymnasium environment that is only stepped: a source of steps, with nothing listed in advance.

The state is the observation, as long as the episode goes on, and one state "end" after a step that
terminates it. (Blackjack ends in observations that also go on; so an observation that is seen at
the end says nothing.) An episode is over after H steps, too; its last step leads to the state that
was really seen. Whoever cuts it earlier (`truncated`) hides what would have followed, and stops the
run. So does everything else that is not as declared: what was counted before stays counted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import isnan
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from ucfh._utils.arrays import Bools
from ucfh._utils.validation import check_truth
from ucfh.envs.environment import RunOutput, SteppedEnvironment
from ucfh.envs.spaces import ENCODE, open_environment, plain, short
from ucfh.exceptions import ContradictionError, InputError, check_count, check_seed, check_type
from ucfh.logs.labels import text_of
from ucfh.rewards import DEFAULT, ROUNDING, RewardRange
from ucfh.sparse_counts import END, SparseCounts, Steps

REMEMBERED = 4096
"""Rescaled rewards that are remembered: more different ones are rescaled each time."""


class EpisodeBuffer(NamedTuple):
    """Episodes as they are run.

    Attributes:
        path: (n + k,) the states of k episodes with n steps, the last state of each included.
        begins: (k,) where each of them begins there.
        taken, paid: (n,) actions and rewards; if the next step was cut in the middle, one more.

    """

    path: list[int]
    begins: list[int]
    taken: list[int]
    paid: list[float]

    def is_over(self, horizon: int) -> bool:
        """Whether the last episode is finished."""
        path = self.path
        return not path or path[-1] == END or len(path) > self.begins[-1] + horizon

    def steps(self) -> Steps:
        """The steps in arrays."""
        states = np.array(self.path, np.int64)
        bounds = np.array([*self.begins, len(states)], np.int64)
        first, n = bounds[:-1], len(states) - len(self.begins)
        t = np.arange(len(states)) - np.repeat(first, np.diff(bounds))
        leaves = np.ones(len(states), bool)
        leaves[bounds[1:] - 1] = False
        action, reward = np.array(self.taken[:n], np.int64), np.array(self.paid[:n], np.float64)
        return Steps(t[leaves], states[leaves], action, reward, states[t > 0], states[first])


class _Halt(Exception):
    """A fault of this step: the words before and after the place where it happened.

    ``kind``: the error to raise.
    """

    def __init__(self, what: str, remedy: str, kind: type[InputError] = InputError) -> None:
        self.what, self.remedy, self.kind = what, remedy, kind


class Environment(SteppedEnvironment):
    """An environment of Gymnasium, to be stepped with policies.

    Args:
        env: the environment, or its id in Gymnasium's registry; ``module:id`` imports the module
            that registers it first. With an id, no other limit of steps than H applies.
        horizon: H; the environment's own limit of steps unless given.
        settings: other arguments that ``gymnasium.make`` takes for an id.
        units: the range of its rewards; one that leaves it stops the run.
        encode: a function that makes something hashable of an observation: the state.
        masks: whether ``info["action_mask"]`` (A,) says which actions a state has. It must be a
            function of the state.
        seed: of the first reset; later ones are not seeded.

    Attributes:
        name: the id of the environment, or its class.
        horizon, actions: H and A. action_names: the actions as the environment numbers them.
        labels: the keys of the states in the order of finding; of 0 it is "end". Without
            ``encode`` they consist of ints, texts and tuples, so that
            ``ast.literal_eval(repr(key)) == key``.

    >>> env = Environment("FrozenLake-v1", horizon=20, seed=0)
    >>> seen = SparseCounts(env.horizon, env.actions)
    >>> ran = env.run(seen, [[0]] * 20, episodes=100)
    >>> ran.episodes, env.labels[1], env.number_of(15)
    (100, 0, -1)

    """

    def __init__(
        self,
        env: Any,
        horizon: SupportsIndex | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        units: RewardRange = DEFAULT,
        encode: Callable[[Any], Hashable] | None = None,
        masks: bool = False,
        seed: SupportsIndex | None = None,
    ) -> None:
        check_truth("masks", masks)
        check_type("encode", encode, Callable | None, "a function of the observation, or None")
        self.units, self.masks, self._encoded = units, bool(masks), encode is not None
        if masks:
            self.assumptions = ("a state has the actions that it had when it was found",)
        self._seed = None if seed is None else check_seed(seed)
        check_type("settings", settings, Mapping | None, "a dictionary, or None")
        made_with = ", ".join(f"{key}={value!r}" for key, value in sorted((settings or {}).items()))
        self.identity, self._own = f"{made_with}, masks={bool(masks)}", isinstance(env, str)
        asked = None if horizon is None else check_count("horizon", horizon)
        opened = open_environment(env, settings, asked, encode)
        self.env, self.name, self.horizon, self.actions, self._least, self._key, self._text = opened
        self.action_names = [str(self._least + a) for a in range(self.actions)]
        self.labels: list[Hashable] = ["end"]
        self._names, self._named = ["end"], {"end"}
        self._numbers: dict[Hashable, int] = {}
        self._worth: dict[Any, float] = {}
        self._first: list[int] = []  # the first action of each state, the end included
        self._masks: list[list[int]] = []  # and all of them, if there are masks

    def run(
        self, experience: SparseCounts, actions: Sequence[Sequence[int]], episodes: SupportsIndex
    ) -> RunOutput:
        """Run up to that many episodes of at most H steps with one policy.

        Args:
            experience: where new states are found, the moment they are seen. Steps are not added.
            actions: (H, any number of states) the action of each state at each step. In states
                found later, the first action is taken.
            episodes: how many to run.

        """
        episodes = check_count("episodes", episodes, least=0)
        self._check(experience, actions)
        walk = EpisodeBuffer([], [], [], [])
        fault, interrupted = None, False
        try:
            self._walk(walk, experience, actions, episodes)
        except _Halt as halt:
            at = "at the reset"
            if not walk.is_over(self.horizon):
                s, t = walk.path[-1], len(walk.path) - 1 - walk.begins[-1]
                a = self._least + (actions[t][s] if s < _known(actions) else self._first[s])
                at = f"at step {t} (state {short(self.name_of(s))}, action {a})"
            fault = halt.kind(f"{halt.what} {at}{halt.remedy}")
            fault.__cause__ = halt.__cause__
        except InputError as error:
            fault = error
        except (TypeError, ValueError) as error:  # what has no truth value: an array
            fault = InputError(
                f"{self.name} did not say whether it terminated or truncated ({error}): both must "
                "be True or False"
            )
        except KeyboardInterrupt:
            interrupted = True
            if walk.begins and walk.begins[-1] == len(walk.path):  # its state is not there yet
                walk.begins.pop()
            del self.labels[experience.states :]  # the last one may not be found there
            self._catch_up(experience)
        whole = len(walk.begins) - (not walk.is_over(self.horizon))
        return RunOutput(walk.steps(), whole, fault, interrupted)

    def _walk(
        self,
        walk: EpisodeBuffer,
        experience: SparseCounts,
        actions: Sequence[Sequence[int]],
        episodes: int,
    ) -> None:
        """Run episodes, one step after the other: what is done here costs time."""
        H, least, masks = self.horizon, self._least, self.masks
        step, reset, key_of = self.env.step, self.env.reset, self._key
        number, worth, first = self._numbers.get, self._worth.get, self._first
        known = _known(actions)
        path, begins = walk.path, walk.begins
        add_state, add_action, add_reward = path.append, walk.taken.append, walk.paid.append
        for _ in range(episodes):
            try:
                seen, info = reset(seed=self._seed)
            except Exception as error:
                raise _raised(self.name, error) from error
            self._seed = None
            key, s = self._look_up(seen)
            if s < 0:
                s = self._find(experience, key, info)
            elif masks:
                self._check_mask(s, info)
            begins.append(len(path))
            add_state(s)
            for row in actions:
                a = row[s] if s < known else first[s]
                try:
                    seen, reward, terminated, truncated, info = step(a + least)
                except Exception as error:
                    raise _raised(self.name, error) from error
                try:
                    r = worth(reward)
                except TypeError:  # not hashable
                    r = None
                if r is None:
                    r = self._rescale(reward)
                if terminated:
                    s = END
                else:
                    try:
                        key = key_of(seen)
                        n = number(key)
                    except Exception as error:
                        raise self._unreadable(seen) from error
                    if n is None:
                        n = self._find(experience, key, info)
                    elif masks:
                        self._check_mask(n, info)
                    s = n
                add_action(a)
                add_reward(r)
                add_state(s)  # now the step is counted
                if terminated:
                    break
                if truncated and len(path) <= begins[-1] + H:
                    raise InputError(
                        f"{self.name} truncated an episode after {len(path) - 1 - begins[-1]} of "
                        f"{H} steps: pass a smaller horizon, or make it without that limit"
                    )

    def number_of(self, observation: Any) -> int:
        """The state of an observation of an episode that goes on; -1 if it was never seen."""
        self._catch_up()
        try:
            return self._look_up(observation)[1]
        except _Halt as halt:
            raise InputError(f"{halt.what}{halt.remedy}") from halt.__cause__

    def name_of(self, s: int) -> str:
        """The text of a state; no two states have the same."""
        if not 0 <= s < len(self.labels):
            raise InputError(f"state {s} does not exist: states are 0 to {len(self.labels) - 1}")
        while len(self._names) <= s:
            n = len(self._names)
            name = self._text(self.labels[n])
            while text_of(name) in self._named:  # a log takes 1.0 for 1
                name += f" (state {n})"
            self._names.append(name)
            self._named.add(text_of(name))
        return self._names[s]

    def action_of(self, a: int) -> int:
        """An action as the environment numbers it."""
        return self._least + a

    def know(self, labels: Sequence[Hashable], experience: SparseCounts) -> None:
        """Continue with states that were found before; see `SteppedEnvironment`."""
        self.labels += labels
        if self._seed is not None:  # other draws than before
            self._seed = int(
                np.random.default_rng([self._seed, experience.episodes]).integers(2**31)
            )
        self._catch_up(experience)

    def close(self) -> None:
        """Close the environment, if it was made here."""
        if self._own:
            self.env.close()

    def _check(self, experience: SparseCounts, actions: Sequence[Sequence[int]]) -> None:
        """Raise unless a run can begin."""
        check_type("experience", experience, SparseCounts, "an Experience")
        there = (experience.horizon, experience.actions, experience.states)
        here = (self.horizon, self.actions, len(self.labels))
        if here != there or len(actions) != self.horizon:
            raise InputError(
                f"{self.name} has H, A, S = {here}, the experience {there}, and the policy "
                f"{len(actions)} steps: pass the experience of the earlier runs, and a policy of H"
            )
        self._catch_up(experience)

    def _catch_up(self, experience: SparseCounts | None = None) -> None:
        """Derive from the labels, and from the experience, what a run looks up."""
        for n in range(len(self._numbers) + 1, len(self.labels)):
            self._numbers[self.labels[n]] = n
        if experience is not None:
            for n in range(len(self._first), experience.states):
                self._first.append(int(experience.available(n).argmax()))
            for n in range(len(self._masks), experience.states if self.masks else 0):
                self._masks.append(experience.available(n).astype(int).tolist())

    def _look_up(self, seen: Any) -> tuple[Hashable, int]:
        """The key of an observation, and its state, or -1."""
        try:
            key = self._key(seen)
            return key, self._numbers.get(key, -1)
        except Exception as error:
            raise self._unreadable(seen) from error

    def _find(self, experience: SparseCounts, key: Hashable, info: Any) -> int:
        """Number a new state. In this order, `_catch_up` can repair what is cut in the middle."""
        label = plain(key)
        if label != key:
            raise _Halt(f"encode returned {short(repr(key))}", f", not equal to itself: {ENCODE}")
        available = self._mask(info) if self.masks else None
        self.labels.append(label)
        s = experience.find(None if available is None or available.all() else available)
        self._catch_up(experience)
        return s

    def _mask(self, info: Any) -> Bools:
        """(A,) the actions of the state just reached."""
        try:
            mask = np.asarray(info["action_mask"])
        except KeyError:
            there = ", ".join(map(str, info)) or "nothing"
            raise _Halt(
                f'{self.name} gave no info["action_mask"]',
                f" (info has: {short(there)}). Fix: wrap the environment so that it gives "
                f"{self.actions} of 0 or 1 there",
            ) from None
        except (IndexError, TypeError, ValueError):
            mask = np.asarray(None)
        right = mask.dtype.kind in "biuf" and mask.shape == (self.actions,)
        if not (right and np.isin(mask, (0, 1)).all() and mask.any()):
            remedy = f": it must be {self.actions} of 0 or 1, not all 0"
            raise _Halt(f"{self.name} gave the action_mask {short(mask.tolist())}", remedy)
        return mask.astype(bool)

    def _check_mask(self, s: int, info: Any) -> None:
        """Raise unless state s has the actions that it had when it was found."""
        try:
            if info["action_mask"].tolist() == self._masks[s]:
                return
        except (AttributeError, KeyError, IndexError, TypeError):
            pass  # a list, or a fault
        mask = self._mask(info).astype(int).tolist()
        if mask != self._masks[s]:
            raise _Halt(
                f"{self.name} gave state {short(self.name_of(s))} the action_mask {short(mask)}",
                f", but {short(self._masks[s])} when it was found: add to the observation what "
                "the actions depend on, or pass masks=False",
            )

    def _rescale(self, reward: Any) -> float:
        """A reward in [0, 1]."""
        try:
            given = np.asarray(reward)
        except ValueError:
            given = np.asarray(None)
        if given.ndim or given.dtype.kind not in "biuf":
            remedy = ", which is not a number: it must be a float"
            raise _Halt(f"{self.name} paid {short(repr(reward))}", remedy)
        r, low, high = float(given), self.units.low, self.units.high
        rounding = ROUNDING * self.units.span
        if not low - rounding <= r <= high + rounding:
            raise _Halt(
                f"{self.name} paid {r:.12g}",
                f", outside of [{low:.12g}, {high:.12g}]: declare the range of rewards, "
                "rewards=(LOW, HIGH) or --rewards LOW,HIGH",
                InputError if isnan(r) else ContradictionError,
            )
        scaled = float(self.units.scaled(min(max(r, low), high)))
        if len(self._worth) < REMEMBERED and given is not reward:
            self._worth[reward] = scaled
        return scaled

    def _unreadable(self, seen: Any) -> _Halt:
        """The fault of an observation that gave no key."""
        try:
            key = self._key(seen)
        except Exception as error:
            if self._encoded:
                return _raised("encode", error)
            space = short(self.env.observation_space)
            remedy = f", which is not in its observation space {space}: correct one of them"
            return _Halt(f"{self.name} showed {short(repr(seen))}", f"{remedy}, or {ENCODE}")
        remedy = ", which is not hashable: return a number, a text or a tuple of them"
        return _Halt(f"encode returned {short(repr(key))}", remedy)


def _known(actions: Sequence[Sequence[int]]) -> int:
    """The number of states that a policy knows."""
    return min(map(len, actions))


def _raised(who: str, error: Exception) -> _Halt:
    """The fault of an exception in someone else's code."""
    return _Halt(f"{who} raised {type(error).__name__}", f": {' '.join(str(error).split())}")
