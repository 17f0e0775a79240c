"""Certificates and audits of logs and environments, recorded."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from ucfh import InputError, Problem, audit, certify, learn, make, read_log, write_log

Entry = Callable[..., Any]
Rows = list[dict[str, Any]]
GENERIC = "random:states=4,actions=2,successors=2,horizon=3,seed=1"
SWIM = "riverswim:n=3,horizon=4"
SIZES = Problem(3, 2, 4, rewards=None, initial=None, action_names=["left", "right"])

TUTORING = "tutoring:horizon=4"


def certificate(known: Any) -> Any:
    """All fields of a certificate, and whether it certifies its policy."""
    return {**{x: getattr(known, x) for x in vars(known)}, "certified": known.certified}


def rows_of(problem: str, episodes: int = 600, seed: int = 5, noisy: bool = False) -> Rows:
    """Rows of a simulated log."""
    mdp = make(problem)
    write_log(mdp.noisy() if noisy else mdp, "made.csv", episodes, seed=seed, force=True)
    with open("made.csv", newline="") as file:
        return list(csv.DictReader(file))


def write(rows: Rows, path: str = "log.csv") -> str:
    """Write rows as .csv or .jsonl."""
    with open(path, "w", newline="") as file:
        if path.endswith(".jsonl"):
            file.writelines(f"{json.dumps(row)}\n" for row in rows)
        else:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return path


def without_ends(rows: Rows) -> Rows:
    """Cut every 50th episode after its second step."""
    return [x for x in rows if int(x["episode"]) % 50 != 3 or int(x["t"]) < 2]


def in_wide_form(rows: Rows) -> Rows:
    """One row for each episode."""
    out: dict[str, dict[str, Any]] = {}
    for x in rows:
        t = x["t"]
        new = {f"mood_{t}": x["state"], f"did_{t}": x["action"], f"paid_{t}": x["reward"]}
        out.setdefault(x["episode"], {"who": x["episode"]}).update(new)
    return list(out.values())


def with_scores(rows: Rows) -> Rows:
    """States of a name and a number."""
    rng = random.Random(1)
    return [x | {"score": round(100 * rng.random(), 1)} for x in rows]


def drifting(rows: Rows) -> Rows:
    """Rewards of the second half of the episodes are others."""
    half = len(rows) // 2
    return rows[:half] + [x | {"reward": 1 - float(x["reward"])} for x in rows[half:]]


def faulty(rows: Rows) -> Rows:
    """Rows with a missing reward, a reward out of range, a wrong step, and one twice."""
    for i, change in (
        (8, {"reward": ""}),
        (33, {"reward": 7}),
        (50, {"t": 9}),
        (70, {"state": ""}),
    ):
        rows[i] |= change
    return [*rows[:100], rows[100], *rows[100:]]


def changed(rows: Rows, *without: str, **functions: Callable[[str], Any]) -> Rows:
    """Rows with some columns left out, and others changed."""
    kept = [{k: v for k, v in x.items() if k not in without} for x in rows]
    return [x | {k: function(x[k]) for k, function in functions.items()} for x in kept]


def log_entry(
    rows: Callable[[], Rows], path: str = "log.csv", epsilon: float = 0.4, **options: Any
) -> Any:
    """Return how a log is read, its certificate and its audit, or the refusal."""
    try:
        log = read_log(write(rows(), path), **options)
    except InputError as error:
        return {"error": type(error).__name__}
    facts = {x: getattr(log, x) for x in ("rows", "episodes", "counted", "horizon", "truncated")}
    facts |= {"faults": log.faults, "returns": float(log.returns.sum())}
    facts |= {"complete": int(log.complete.sum()), "closed": log.closed, "times": log.times}
    report = audit(log)
    return {
        "read": facts,
        "certificate": certificate(certify(log, epsilon=epsilon)),
        "audit": report,
    }


def logs() -> dict[str, Entry]:
    rows, noisy = partial(rows_of, TUTORING), partial(rows_of, SWIM, noisy=True)
    swim = make(SWIM).problem
    mixed: dict[str, Any] = {"state": str.upper, "reward": lambda x: x.replace(".", ",")}
    wide = {"episode": "who", "state": "mood_{t}", "action": "did_{t}", "reward": "paid_{t}"}
    both = {"state": ["state", "score"]}
    quantiles = {"score": {"quantiles": 2, "episodes": 100}}
    short: Any = lambda: without_ends(rows_of(SWIM, 1000))  # noqa: E731
    scored: Any = lambda: changed(with_scores(rows()), "next_state", "done")  # noqa: E731
    plus: Any = lambda: changed(rows(), reward=lambda x: 3 * float(x) - 1)  # noqa: E731
    no_done: Any = lambda: changed(rows(), "done")  # noqa: E731
    case: Any = lambda: changed(rows(), **mixed)  # noqa: E731
    return {
        "nothing known": partial(log_entry, rows),
        "known problem": partial(log_entry, rows, problem=TUTORING),
        "known states, unknown rewards": partial(
            log_entry, noisy, problem=swim.hiding("rewards", "initial")
        ),
        "unknown successors": partial(log_entry, noisy, problem=swim.hiding("successors")),
        "sizes only": partial(log_entry, noisy, problem=SIZES),
        "all states declared": partial(
            log_entry, noisy, states=list("012"), actions=["left", "right"], horizon=4
        ),
        "segments": partial(log_entry, noisy, segments=[2], max_return=2),
        "time-dependent": partial(log_entry, noisy, time_dependent=True),
        "rewards and largest return": partial(
            log_entry, plus, rewards=(-1, 2), max_return=5, epsilon=2
        ),
        "shorter horizon": partial(log_entry, noisy, horizon=2),
        "dropouts outcome": partial(log_entry, short, dropouts="outcome"),
        "dropouts lost": partial(log_entry, short, dropouts="lost"),
        "dropouts random": partial(log_entry, short, dropouts="random"),
        "dropouts refused": partial(log_entry, short),
        "bins": partial(log_entry, scored, columns=both, bins={"score": [40]}),
        "quantiles": partial(log_entry, scored, columns=both, bins=quantiles),
        "wide": partial(log_entry, lambda: in_wide_form(rows_of(SWIM)), columns=wide),
        "terminal states": partial(log_entry, no_done, terminal=["mastered"]),
        "json lines": partial(log_entry, noisy, "log.jsonl"),
        "case and comma": partial(log_entry, case, ignore_case=True, decimal=","),
        "faults": partial(log_entry, lambda: faulty(rows()), accept_losses=True),
        "faults refused": partial(log_entry, lambda: faulty(rows()), strict=True),
        "drift": partial(log_entry, lambda: drifting(noisy(1500))),
    }


# environments


class Corridor(gymnasium.Env[Any, Any]):
    """Three cells and a door; states are tuples, and the action "jump" is not always possible."""

    observation_space = gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(4)] * 2)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed, options=options)
        self.cell, self.key = 0, 0
        return self._shown()

    def _shown(self) -> tuple[Any, Any]:
        return (self.cell, self.key), {"action_mask": np.array([1, 1, self.cell > 0], np.int8)}

    def step(self, action: Any) -> Any:
        moved = self.np_random.random() < 0.83
        self.key = max(self.key, int(action == 0 and moved))
        self.cell += int(action > 0 and moved) * int(action)
        over = self.cell >= 3
        shown, info = self._shown()
        return shown, (1.7 if self.key else 0.4) * over - 0.05, over, False, info


def environment_entry(env: Any, epsilon: float, **options: Any) -> Any:
    """Return what was learned from an environment that is only stepped."""
    found = learn(env() if callable(env) else env, epsilon, seed=3, **options)
    out = {x: getattr(found, x) for x in ("episodes", "steps", "truncated", "states", "refuted")}
    known = certificate(found.certificate)
    return {**out, "plans": len(found.history), "certificate": known, "audit": found.audited}


ENVIRONMENTS: dict[str, Entry] = {
    "FrozenLake": partial(environment_entry, "FrozenLake-v1", 0.4, horizon=5, max_return=1),
    "Blackjack": partial(
        environment_entry, "Blackjack-v1", 1.2, horizon=5, rewards=(-1, 1), episodes=1000
    ),
    "generic MDP": partial(environment_entry, GENERIC, 0.7, episodes=3000),
    "segments": partial(environment_entry, SWIM, 0.9, segments=[2], episodes=2000),
    "masks and tuples": partial(
        environment_entry, Corridor, 0.5, horizon=4, rewards=(-0.05, 1.65), max_return=1.65,
        masks=True, episodes=3000,
    ),
}  # fmt: skip
