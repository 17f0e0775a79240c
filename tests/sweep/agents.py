"""Entry points: `ucfh.simulate` with `ucfh.CertifiedUCFH`, and `ucfh.learn` from an environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import ucfh
from sweep.checks import Checker, Result, policy_by_asking
from sweep.models import Generator, Model, Needs, draw_model
from sweep.options import (
    CERTIFIED_UCFH,
    LEARN,
    PROBLEM,
    SIMULATE,
    Case,
    declare,
    step_arrays,
)


def mdp_of(model: Model, names: bool = True, order: Sequence[int] | None = None) -> Any:
    """The model as a `ucfh.MDP`: rewards in [0, 1], deterministic or Bernoulli.

    ``order``: the numbers in the names of the actions, if they are not 0, 1, ...
    """
    order = range(model.actions) if order is None else order
    bernoulli = any(
        len(x) > 1 for state in model.pays for row in state for rows in row for x in rows
    )
    by_step = bool(model.segments)
    return ucfh.MDP(
        step_arrays(model, model.p, by_step),
        step_arrays(model, model.mean, by_step),
        model.horizon,
        model.start,
        noise="bernoulli" if bernoulli else None,
        available=model.available,
        terminal=sorted(model.terminal),
        state_names=[f"s{i}" for i in range(model.states)] if names else None,
        action_names=[f"a{i}" for i in order] if names else None,
        note="drawn at random",
    )


def optimistic_value(case: Case, known: dict[str, Any]) -> float:
    """The largest return that the known rewards, successors and start allow."""
    m, H = case.model, case.model.horizon
    everything = np.ones((m.states, m.actions, m.states), bool)
    V = np.zeros(m.states)
    for t in range(H - 1, -1, -1):
        mask = known.get("successors", everything)
        mask = mask[t] if mask.ndim == 4 else mask
        pays = known.get("rewards")
        pays = np.ones(mask.shape) if pays is None else pays[t if len(pays) > 1 else 0]
        new = np.zeros(m.states)
        for s in m.decision_states:
            new[s] = max(max((pays[s, a] + V)[mask[s, a]]) for a in m.choices(s))
        V = new
    start = known.get("initial")
    return float(V.max() if start is None else start @ V)


class SimulateEntry:
    """`ucfh.simulate` until an agent with a certificate stops, or a number of episodes is over."""

    name = "simulate"

    def __init__(self, rng: Generator, folder: Path, result: Result) -> None:
        self.rng, self.folder, self.result = rng, folder, result
        model = draw_model(rng, Needs(unit=True, noise=("none", "bernoulli"), masks=True))
        names = [f"s{i}" for i in range(model.states)], [f"a{i}" for i in range(model.actions)]
        self.case = Case(model, rng, *names, labels=result.labels)
        known = Case(model, rng, *names)
        declare(known, PROBLEM)
        self.case.labels |= {f"problem {name}": x for name, x in known.labels.items()}
        self.known = known.given
        declare(self.case, {**CERTIFIED_UCFH, **SIMULATE})
        self.epsilon, result.delta = self.case.given["epsilon"], self.case.given["delta"]
        self.check = Checker(model, self.epsilon, result)

    def _agent(self) -> Any:
        given = dict(self.known)
        if "successors" in given:
            del given["time_dependent"]
        problem = ucfh.Problem(**given)
        options = {name: x for name, x in self.case.given.items() if name in CERTIFIED_UCFH}
        return ucfh.CertifiedUCFH(problem, **options)

    def run(self) -> None:
        """Look before the first episode, at some phases, and at the end."""
        given, agent = self.case.given, self._agent()
        upper = None
        if given["confidence"] == "tight" and not self.case.model.segments:
            upper = optimistic_value(self.case, self.known)
        self._look(agent.certificate, data=False, largest=upper)
        mdp = mdp_of(self.case.model)
        phases = 0

        def on_phase(_: Any) -> None:
            nonlocal phases
            phases += 1
            if phases & (phases - 1) == 0 and agent.episodes:
                self._look(agent.certificate)

        limits = {"seed": int(self.rng.integers(1 << 30)), "method": given["method"]}
        if self.case.coin(0.3):
            self.case.note("resume", "yes")
            first = ucfh.simulate(mdp, agent, max(1, given["episodes"] // 2), **limits)
            if first.episodes:
                self._look(first.certificate)
            first.save(self.folder / "run.npz")
            again = ucfh.Run.load(self.folder / "run.npz")
            agent = self._agent()
            run = ucfh.simulate(mdp, agent, given["episodes"], resume=again, **limits)
        else:
            self.case.note("resume", "no")
            run = ucfh.simulate(mdp, agent, given["episodes"], on_phase=on_phase, **limits)
        self._look(run.certificate, data=run.episodes > 0)

    def _look(self, known: Any, data: bool = True, largest: float | None = None) -> None:
        self.check.look(known, known.policy.tolist(), data=data, largest=largest)


class World(gymnasium.Env[Any, Any]):
    """A model as an environment that is only stepped."""

    def __init__(self, model: Model, rng: Generator, kind: str) -> None:
        self.model, self.rng, self.kind = model, rng, kind
        n = model.states
        self.action_space = spaces.Discrete(model.actions)
        self.observation_space: Any = {
            "numbers": spaces.Discrete(n),
            "tuple": spaces.Tuple((spaces.Discrete(2), spaces.Discrete(n))),
            "array": spaces.Box(-1, n, (1,)),
        }[kind]
        self.t, self.s = 0, 0

    def _shown(self) -> tuple[Any, dict[str, Any]]:
        seen: Any = {
            "numbers": self.s,
            "tuple": (self.s % 2, self.s),
            "array": np.array([self.s], np.float32),
        }[self.kind]
        return seen, {"action_mask": self.model.available[self.s].astype(np.int8)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode."""
        del seed, options
        self.t, self.s = 0, self.model.draw_start(self.rng)
        return self._shown()

    def step(self, action: Any) -> Any:
        """Take an action."""
        reward, self.s = self.model.draw(self.rng, self.t, self.s, int(action))
        self.t += 1
        seen, info = self._shown()
        return seen, reward, self.s in self.model.terminal, False, info


class LearnEntry:
    """`ucfh.learn` from an environment."""

    name = "learn"

    def __init__(self, rng: Generator, folder: Path, result: Result) -> None:
        self.rng, self.folder, self.result = rng, folder, result
        model = draw_model(rng, Needs(masks=True))
        n = range(model.states)
        self.case = case = Case(model, rng, list(n), list(range(model.actions)),
                                labels=result.labels)  # fmt: skip
        case.note("observations", case.pick("numbers", "tuple", "array"))
        declare(case, LEARN)
        self.epsilon, result.delta = case.given["epsilon"], case.given["delta"]
        self.check = Checker(model, self.epsilon, result)
        self.env = World(model, rng, case.labels["observations"])

    def run(self) -> None:
        """Look at some plans, and at the end; a second part continues from a file."""
        case, plans = self.case, 0

        def progress(so_far: Any) -> None:
            nonlocal plans
            plans += 1
            if plans & (plans - 1) == 0:
                self._look(so_far)

        episodes = int(case.pick(1, 5, 20, 60, 200))
        case.note("episodes", episodes)
        how = case.pick("once", "once", "store", "resume")
        case.note("store", how)
        given = dict(case.given)
        if how != "once":
            path = self.folder / "learned.npz"
            first = ucfh.learn(self.env, **given, episodes=max(1, episodes // 2), store=path)
            self._look(first)
            given["store" if how == "store" else "resume"] = path
        logged = case.coin(0.2)
        case.note("log", logged)
        if logged:
            given |= {"log": self.folder / "log.csv", "force": case.coin()}
        result = ucfh.learn(self.env, **given, episodes=episodes, progress=progress)
        self._look(result)
        if logged and how == "once" and result.episodes:
            columns = {"horizon": case.model.horizon, "rewards": given.get("rewards", (0.0, 1.0))}
            log = ucfh.read_log(self.folder / "log.csv", **columns)
            if log.episodes != result.episodes:
                self.result.errors.append(f"{log.episodes} episodes in the log, {result.episodes}")

    def _look(self, result: Any) -> None:
        model, masked = self.case.model, self.case.given["masks"]
        seen: dict[int, Any] = {}
        for s in range(model.states):
            self.env.s = s
            shown, _ = self.env._shown()
            seen[s] = shown
        known, policy = result.certificate, result.policy

        def act(t: int, s: int) -> int:
            return int(policy.act(t, seen[s], model.available[s] if masked else None))

        table, largest = policy_by_asking(model, act), self.case.largest
        self.check.look(known, table, data=known.episodes > 0, largest=largest)
        for name in ("upper", "lower", "gap"):
            self.check.same("LearningResult", known, {name: getattr(result, name)}, name)
