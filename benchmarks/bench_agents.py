"""Agents that may change their policy every episode, against rlberry's: same problem, same run.

Of these rlberry-scool 0.7.3 has UCBVI alone. rlberry 0.6.0 is the last release with PSRL and
optimistic Q-learning (OptQL, its UCB-H), and its UCBVI plans in compiled code, which that of 0.7.3
no longer does. Both live in .venv-rlberry, which `make bench` makes, the older in its own folder.

With its published bonus UCBVI-CH keeps almost the same policy for all these episodes, so that there
are few to evaluate. rlberry's bonus is about 1/sqrt(n), ours 7 H L/sqrt(n) with L about 20: a scale
of 0.001 gives a bonus of the size of theirs, and thousands of policies.
"""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from report import Report, best

from ucfh import MDP, make, simulate
from ucfh.algorithms.registry import make_agent

HERE = Path(__file__).parent
RLBERRY = HERE.parent / ".venv-rlberry"
OLDER = {"PYTHONPATH": str(RLBERRY / "older")}
PROBLEM = "chain:n=10,horizon=10"
GOAL = 100  # times as fast as UCBVI of rlberry-scool
EPISODES, REPEATS = 100_000, 5
PEER_EPISODES = 1000  # a stretch of about a second
SCOOL = "scool 0.7.3 UCBVI"


def save(mdp: MDP, file: Path) -> None:
    """Dense p (S, A, S), r (S, A), the start and H, as rlberry's finite MDP takes them."""
    p, r = mdp.table.dense(mdp.p), mdp.mean_rewards.reshape(mdp.states, mdp.actions)
    np.savez(file, p=p, r=r, initial=mdp.initial.argmax(), horizon=mdp.horizon)


def ask(model: Path, agents: list[str], env: dict[str, str]) -> list[float]:
    """Episodes a second of rlberry's agents."""
    script = HERE / "peers" / "rlberry_agents.py"
    command = [str(x) for x in (RLBERRY / "bin" / "python", script, model, PEER_EPISODES, REPEATS)]
    done = subprocess.run(
        command + agents, check=True, capture_output=True, text=True, env={**os.environ, **env}
    )
    return [float(x) for x in done.stdout.split()]


def run(mdp: MDP, name: str, scale: float) -> int:
    """The number of stretches in which the policy stayed the same."""
    agent = make_agent(name, mdp, epsilon=0.1, delta=0.1, episodes=EPISODES, seed=0, scale=scale)
    return len(simulate(mdp, agent, episodes=EPISODES, seed=0).phases.first_episode)


def main(report: Report) -> None:
    if not RLBERRY.exists():
        raise SystemExit(f"{RLBERRY.name} is missing: run `make bench`, which makes it")
    mdp = make(PROBLEM)
    with TemporaryDirectory() as folder:
        model = Path(folder) / "model.npz"
        save(mdp, model)
        (scool,) = ask(model, ["rlberry_scool.agents.UCBVIAgent"], {})
        classes = ["UCBVIAgent", "PSRLAgent", "OptQLAgent"]
        older = ask(model, [f"rlberry.agents.{x}" for x in classes], OLDER)
    rows = []
    for name, scale, peers in (
        ("ucbvi-ch", 1.0, [(SCOOL, scool, f" (goal {GOAL})"), ("0.6.0 UCBVI", older[0], "")]),
        ("ucbvi-ch", 0.001, [(SCOOL, scool, f" (goal {GOAL})"), ("0.6.0 UCBVI", older[0], "")]),
        ("psrl", 1.0, [("0.6.0 PSRL", older[1], "")]),
        ("ucb-h", 1.0, [("0.6.0 OptQL", older[2], "")]),
    ):
        policies = run(mdp, name, scale)  # and compile
        ours = EPISODES / best(partial(run, mdp, name, scale), REPEATS)
        for peer, theirs, goal in peers:
            rates = [f"{theirs:.0f}", f"{ours:.0f}", f"{ours / theirs:.0f}{goal}"]
            rows.append([name, f"{scale:g}", f"{policies}", peer, *rates])
    report.say(
        "## Agents that may change their policy every episode",
        "",
        f"Episodes a second on {PROBLEM}, in a run of {EPISODES}; those of ucfh include the exact "
        "value of every policy followed.",
    )
    report.table(
        ["agent", "scale", "policies", "rlberry", "its episodes/s", "ucfh's", "ucfh / rlberry"],
        rows,
    )


if __name__ == "__main__":
    main(Report())
