"""Constants, bounds and runs of agents, recorded.

A run follows one trajectory, which a single flipped comparison would change. The problem of most
runs is random, with rewards and probabilities that are no round numbers, so that values that are
mathematically equal do not occur. The runs below stay the same if the problem is perturbed by 1e-11
(``golden/record.py --robust``) and if kernels are compiled without vector and fused instructions.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from golden.data import GENERIC, SWIM, certificate
from ucfh import (
    InputError,
    bounds,
    constants,
    episode_lower_bound,
    hard_class_lower_bound,
    make,
    make_agent,
    simulate,
    write_model,
)
from ucfh.algorithms.registry import AGENTS as NAMES

Entry = Callable[..., Any]

# constants and bounds

SIZES = {
    "small": {"states": 5, "actions": 2, "horizon": 5, "epsilon": 0.5, "delta": 0.1},
    "sparse": {"states": 20, "actions": 4, "horizon": 12, "epsilon": 0.1, "delta": 0.05,
               "successors": 3},
    "long": {"states": 100, "actions": 4, "horizon": 50, "epsilon": 6.8e-4, "delta": 1e-4},
    "one_step": {"states": 2, "actions": 3, "horizon": 1, "epsilon": 0.03, "delta": 0.2},
}  # fmt: skip
CONSTANTS = ("w_min", "u_max", "delta_1", "m", "cutoff", "e_max", "episode_bound")


def constants_for(size: dict[str, Any]) -> Any:
    """Constants of both variants, and every bound."""
    found = {x: constants(**size, variant=x) for x in ("paper", "corrected")}
    values = {x: {name: getattr(c, name) for name in CONSTANTS} for x, c in found.items()}
    return {**values, "bounds": {x.name: [x.episodes, x.exact, x.lower] for x in bounds(**size)}}


def floor_of(problem: str, epsilon: float, delta: float, *hidden: Any) -> Any:
    """Sample-complexity lower bound of a problem."""
    mdp = make(problem)
    return episode_lower_bound(mdp, epsilon, delta, mdp.problem.hiding(*hidden)).episodes


# agents

OTHER = GENERIC.replace("seed=1", "seed=3")
DEEP = "deepsea:n=3"
VARIANTS = [
    *[f"certified-ucfh:confidence={x}" for x in ("kt", "kt-ball", "kl-ball", "l1", "kl", "paper")],
    "certified-ucfh:schedule=doubling",
    "certified-ucfh:schedule=paper,m=500",
    "certified-ucfh:schedule=paper,variant=corrected,m=500",
    "ucfh",
    "ucfh:variant=corrected",
    "ucfh:confidence=kl",
    "ucfh:confidence=without-bernstein",
]


def run_agent(
    problem: str,
    agent: str,
    episodes: int | None = None,
    scale: float = 1.0,
    hidden: tuple[Any, ...] = (),
    method: Any = "bulk",
    noise: int = 0,
) -> Any:
    """Return what an agent did; ``noise``: the seed of a tiny perturbation of the problem."""
    mdp = perturbed(problem, noise) if noise else make(problem)
    told = mdp.problem.hiding(*hidden)
    try:
        made = make_agent(agent, mdp, 0.15, 0.1, episodes, 7, scale, told)
        run = simulate(mdp, made, episodes, 7, method)
    except InputError as error:
        return {"error": type(error).__name__}
    out = {x: getattr(run, x) for x in ("episodes", "updates", "regret", "value", "final")}
    out |= {"mistakes": run.mistakes(), "policy": run.policy, "phases": len(run.rows)}
    out |= {"optimistic": run.optimistic, "samples": made.samples}
    out |= {"episode_bound": run.episode_bound, "update_bound": run.update_bound}
    return {**out, "certificate": run.certificate and certificate(run.certificate)}


def perturbed(problem: str, seed: int) -> Any:
    """Return the problem with fractions in its model file changed by about 1e-11.

    Equal numbers stay equal: two actions with the same reward are a tie that no rounding breaks.
    """
    rng, path = random.Random(seed), Path(f"perturbed-{seed}.json")
    factor: dict[str, float] = {}
    write_model(make(problem), path, force=True)
    text = re.sub(
        r"\b0\.\d+(e-\d+)?",
        lambda x: repr(float(x[0]) * factor.setdefault(x[0], 1 + rng.uniform(-1e-11, 1e-11))),
        path.read_text("utf-8"),
    )
    path.write_text(text, "utf-8")
    return make(path)


def agent_entries() -> Iterator[tuple[str, Entry]]:
    for name in NAMES:
        # Delayed Q-learning compares sums with thresholds that it meets exactly at smaller scales
        often, scale = (3000, 0.06) if name == "delayed-q" else (1500, 0.02)
        yield f"{name} generic", partial(run_agent, GENERIC, name, often, scale)
        yield f"{name} riverswim", partial(run_agent, SWIM, name, 500)
    for name in VARIANTS:
        yield f"{name} until it stops", partial(run_agent, GENERIC, name)
    hide: Any
    for hide in ("rewards", "successors", "initial"):
        for name in ("certified-ucfh", "ucfh"):
            yield f"{name} unknown {hide}", partial(run_agent, OTHER, name, 10**8, hidden=(hide,))
    for name in ("certified-ucfh", "ucfh", "ubev"):
        yield f"{name} by steps", partial(run_agent, GENERIC, name, 300, method="step")
        yield f"{name} by segment", partial(run_agent, f"{GENERIC},segments=1", name, 300)
    yield "eprl deterministic", partial(run_agent, DEEP, "eprl", 200)


FLOORS = {
    "floor of a chain": partial(floor_of, "chain:n=3", 0.1, 0.05),
    "floor of a random problem": partial(floor_of, GENERIC, 0.2, 0.1),
    "floor with unknown rewards": partial(floor_of, GENERIC, 0.2, 0.1, "rewards"),
    "floor of the hard class": partial(hard_class_lower_bound, 10, 4, 10, 0.1, 0.1),
    "floor of a larger hard class": partial(
        hard_class_lower_bound, 40, 3, 20, 0.05, 0.01, 0.2, 0.05
    ),
}
CONSTANT_ENTRIES: dict[str, Entry] = {
    **{name: partial(constants_for, size) for name, size in SIZES.items()},
    **FLOORS,
}
AGENTS = dict(agent_entries())
