"""Adapter for Gymnasium environments with unknown states.

The state is the observation while the episode continues, and "end" after a step that terminates
it. (In Blackjack final observations also occur during episodes, so they are ignored.) An episode
also ends after H steps, with the observed next state. Earlier truncation (`truncated`) hides
later outcomes, and stops the run, as does any other violation of the declarations; earlier steps
stay counted.
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

CACHED = 4096
"""Most distinct rewards whose rescaled values are cached."""


class EpisodeBuffer(NamedTuple):
    """A buffer of episodes.

    Attributes:
        path: (n + k,) the states of k episodes with n steps, including their last states.
        begins: (k,) the index in ``path`` of the first state of each episode.
        actions, rewards: (n,) or (n + 1,) if the next step was interrupted.

    """

    path: list[int]
    begins: list[int]
    actions: list[int]
    rewards: list[float]

    def is_over(self, horizon: int) -> bool:
        """Return True if the last episode is finished."""
        path = self.path
        return not path or path[-1] == END or len(path) > self.begins[-1] + horizon

    def steps(self) -> Steps:
        """Return the steps as arrays."""
        states = np.array(self.path, np.int64)
        bounds = np.array([*self.begins, len(states)], np.int64)
        first, n = bounds[:-1], len(states) - len(self.begins)
        t = np.arange(len(states)) - np.repeat(first, np.diff(bounds))
        leaves = np.ones(len(states), bool)
        leaves[bounds[1:] - 1] = False
        action = np.array(self.actions[:n], np.int64)
        reward = np.array(self.rewards[:n], np.float64)
        return Steps(t[leaves], states[leaves], action, reward, states[t > 0], states[first])


class _StepError(Exception):
    """An error in a step: the message before and after its location, and the error to raise."""

    def __init__(self, what: str, remedy: str, kind: type[InputError] = InputError) -> None:
        self.what, self.remedy, self.kind = what, remedy, kind


class Environment(SteppedEnvironment):
    """An environment of Gymnasium, to be stepped with policies.

    Args:
        env: the environment, or its id in Gymnasium's registry; ``module:id`` imports the module
            that registers it first. With an id, no other limit of steps than H applies.
        horizon: H; None: the environment's step limit.
        settings: other arguments that ``gymnasium.make`` takes for an id.
        units: the range of its rewards; a reward outside it stops the run.
        encode: a function that makes a hashable state of an observation.
        masks: True if ``info["action_mask"]`` (A,) has the available actions of a state. It must
            be a function of the state.
        seed: of the first reset; later ones are not seeded.

    Attributes:
        name: the id of the environment, or its class.
        horizon, actions: H and A. action_names: the actions as the environment numbers them.
        labels: the keys of the states in the order of discovery, after "end". Without ``encode``
            they consist of integers, strings and tuples, so that
            ``ast.literal_eval(repr(key)) == key``.

    >>> env = Environment("FrozenLake-v1", horizon=20, seed=0)
    >>> counts = SparseCounts(env.horizon, env.actions)
    >>> output = env.run(counts, [[0]] * 20, episodes=100)
    >>> output.episodes, env.labels[1], env.number_of(15)
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
            self.assumptions = ("a state always has the actions of its first visit",)
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
        self._rescaled: dict[Any, float] = {}
        self._first: list[int] = []  # the first action of each state, the end included
        self._masks: list[list[int]] = []  # and all of them, if there are masks

    def run(
        self, experience: SparseCounts, actions: Sequence[Sequence[int]], episodes: SupportsIndex
    ) -> RunOutput:
        """Run up to ``episodes`` episodes of at most H steps; see `SteppedEnvironment`."""
        episodes = check_count("episodes", episodes, least=0)
        self._check(experience, actions)
        buffer = EpisodeBuffer([], [], [], [])
        fault, interrupted = None, False
        try:
            self._run(buffer, experience, actions, episodes)
        except _StepError as error:
            at = "at the reset"
            if not buffer.is_over(self.horizon):
                s, t = buffer.path[-1], len(buffer.path) - 1 - buffer.begins[-1]
                a = self._least + (actions[t][s] if s < _known(actions) else self._first[s])
                at = f"at step {t} (state {short(self.name_of(s))}, action {a})"
            fault = error.kind(f"{error.what} {at}{error.remedy}")
            fault.__cause__ = error.__cause__
        except InputError as error:
            fault = error
        except (TypeError, ValueError) as error:  # without a truth value, such as an array
            fault = InputError(
                f"{self.name} did not say whether it terminated or truncated ({error}): both must "
                "be True or False"
            )
        except KeyboardInterrupt:
            interrupted = True
            if buffer.begins and buffer.begins[-1] == len(buffer.path):  # its state is missing yet
                buffer.begins.pop()
            del self.labels[experience.states :]  # the last one may be missing there
            self._catch_up(experience)
        finished = len(buffer.begins) - (not buffer.is_over(self.horizon))
        return RunOutput(buffer.steps(), finished, fault, interrupted)

    def _run(
        self,
        buffer: EpisodeBuffer,
        experience: SparseCounts,
        actions: Sequence[Sequence[int]],
        episodes: int,
    ) -> None:
        """Run episodes step by step; this loop is time-critical."""
        H, least, masks = self.horizon, self._least, self.masks
        step, reset, key_of = self.env.step, self.env.reset, self._key
        number, rescaled, first = self._numbers.get, self._rescaled.get, self._first
        known = _known(actions)
        path, begins = buffer.path, buffer.begins
        add_state, add_action, add_reward = (
            path.append,
            buffer.actions.append,
            buffer.rewards.append,
        )
        for _ in range(episodes):
            try:
                observation, info = reset(seed=self._seed)
            except Exception as error:
                raise _raised(self.name, error) from error
            self._seed = None
            key, s = self._look_up(observation)
            if s < 0:
                s = self._find(experience, key, info)
            elif masks:
                self._check_mask(s, info)
            begins.append(len(path))
            add_state(s)
            for row in actions:
                a = row[s] if s < known else first[s]
                try:
                    observation, reward, terminated, truncated, info = step(a + least)
                except Exception as error:
                    raise _raised(self.name, error) from error
                try:
                    r = rescaled(reward)
                except TypeError:  # not hashable
                    r = None
                if r is None:
                    r = self._rescale(reward)
                if terminated:
                    s = END
                else:
                    try:
                        key = key_of(observation)
                        n = number(key)
                    except Exception as error:
                        raise self._unreadable(observation) from error
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
        """Return the state of an observation during an episode; -1 if it is unknown."""
        self._catch_up()
        try:
            return self._look_up(observation)[1]
        except _StepError as error:
            raise InputError(f"{error.what}{error.remedy}") from error.__cause__

    def name_of(self, s: int) -> str:
        """Return the unique name of a state."""
        if not 0 <= s < len(self.labels):
            raise InputError(f"state {s} does not exist: states are 0 to {len(self.labels) - 1}")
        while len(self._names) <= s:
            n = len(self._names)
            name = self._text(self.labels[n])
            while text_of(name) in self._named:  # 1.0 equals 1 in a log
                name += f" (state {n})"
            self._names.append(name)
            self._named.add(text_of(name))
        return self._names[s]

    def action_of(self, a: int) -> int:
        """Return an action as the environment numbers it."""
        return self._least + a

    def restore_states(self, labels: Sequence[Hashable], experience: SparseCounts) -> None:
        """Continue with the states of an earlier run; see `SteppedEnvironment`."""
        self.labels += labels
        if self._seed is not None:  # independent of the earlier draws
            self._seed = int(
                np.random.default_rng([self._seed, experience.episodes]).integers(2**31)
            )
        self._catch_up(experience)

    def close(self) -> None:
        """Close an environment made from an id."""
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
        """Update the lookup tables from the labels and the experience."""
        for n in range(len(self._numbers) + 1, len(self.labels)):
            self._numbers[self.labels[n]] = n
        if experience is not None:
            for n in range(len(self._first), experience.states):
                self._first.append(int(experience.available(n).argmax()))
            for n in range(len(self._masks), experience.states if self.masks else 0):
                self._masks.append(experience.available(n).astype(int).tolist())

    def _look_up(self, observation: Any) -> tuple[Hashable, int]:
        """Return the key of an observation, and its state or -1."""
        try:
            key = self._key(observation)
            return key, self._numbers.get(key, -1)
        except Exception as error:
            raise self._unreadable(observation) from error

    def _find(self, experience: SparseCounts, key: Hashable, info: Any) -> int:
        """Number a new state, in an order from which `_catch_up` recovers after an interrupt."""
        label = plain(key)
        if label != key:
            raise _StepError(
                f"encode returned {short(repr(key))}", f", not equal to itself: {ENCODE}"
            )
        available = self._mask(info) if self.masks else None
        self.labels.append(label)
        s = experience.find(None if available is None or available.all() else available)
        self._catch_up(experience)
        return s

    def _mask(self, info: Any) -> Bools:
        """(A,) the available actions of the state just reached."""
        try:
            mask = np.asarray(info["action_mask"])
        except KeyError:
            there = ", ".join(map(str, info)) or "nothing"
            raise _StepError(
                f'{self.name} gave no info["action_mask"]',
                f" (info has: {short(there)}). Fix: wrap the environment so that it gives "
                f"{self.actions} of 0 or 1 there",
            ) from None
        except (IndexError, TypeError, ValueError):
            mask = np.asarray(None)
        valid = mask.dtype.kind in "biuf" and mask.shape == (self.actions,)
        if not (valid and np.isin(mask, (0, 1)).all() and mask.any()):
            remedy = f": it must be {self.actions} of 0 or 1, not all 0"
            raise _StepError(f"{self.name} gave the action_mask {short(mask.tolist())}", remedy)
        return mask.astype(bool)

    def _check_mask(self, s: int, info: Any) -> None:
        """Raise unless state s has the actions of its first visit."""
        try:
            if info["action_mask"].tolist() == self._masks[s]:
                return
        except (AttributeError, KeyError, IndexError, TypeError):
            pass  # a list, or invalid
        mask = self._mask(info).astype(int).tolist()
        if mask != self._masks[s]:
            raise _StepError(
                f"{self.name} gave state {short(self.name_of(s))} the action_mask {short(mask)}",
                f", but {short(self._masks[s])} at its first visit: add to the observation what "
                "the actions depend on, or pass masks=False",
            )

    def _rescale(self, reward: Any) -> float:
        """Rescale a reward to [0, 1]."""
        try:
            given = np.asarray(reward)
        except ValueError:
            given = np.asarray(None)
        if given.ndim or given.dtype.kind not in "biuf":
            remedy = ", which is not a number: it must be a float"
            raise _StepError(f"{self.name} returned reward {short(repr(reward))}", remedy)
        r, low, high = float(given), self.units.low, self.units.high
        rounding = ROUNDING * self.units.span
        if not low - rounding <= r <= high + rounding:
            raise _StepError(
                f"{self.name} returned reward {r:.12g}",
                f", outside of [{low:.12g}, {high:.12g}]: declare the range of rewards, "
                "rewards=(LOW, HIGH) or --rewards LOW,HIGH",
                InputError if isnan(r) else ContradictionError,
            )
        scaled = float(self.units.scaled(min(max(r, low), high)))
        if len(self._rescaled) < CACHED and given is not reward:
            self._rescaled[reward] = scaled
        return scaled

    def _unreadable(self, observation: Any) -> _StepError:
        """Return the error of an observation without a key."""
        try:
            key = self._key(observation)
        except Exception as error:
            if self._encoded:
                return _raised("encode", error)
            space = short(self.env.observation_space)
            remedy = f", which is not in its observation space {space}: correct one, or {ENCODE}"
            return _StepError(f"{self.name} returned {short(repr(observation))}", remedy)
        remedy = ", which is not hashable: return a number, a string or a tuple of them"
        return _StepError(f"encode returned {short(repr(key))}", remedy)


def _known(actions: Sequence[Sequence[int]]) -> int:
    """Return the number of states of a policy."""
    return min(map(len, actions))


def _raised(name: str, error: Exception) -> _StepError:
    """Return the error of an exception in user code."""
    return _StepError(f"{name} raised {type(error).__name__}", f": {' '.join(str(error).split())}")
