"""``ucfh learn``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ucfh import __version__, policies
from ucfh.agents.base import Agent
from ucfh.agents.ucfh import UCFH
from ucfh.commands.show import print_json
from ucfh.errors import InputError, unknown
from ucfh.files import Labels, check_ending, refuse_existing
from ucfh.problem import MDP
from ucfh.problems import make
from ucfh.report import figures
from ucfh.simulation import record
from ucfh.simulation.run import Run
from ucfh.simulation.simulate import simulate

if TYPE_CHECKING:
    from ucfh.simulation.simulate import Progress

AGENTS = {"ucfh": UCFH}
INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, as shells have it."""


def run_learn(
    problem: str,
    *,
    agent: str,
    settings: dict[str, Any],
    epsilon: float,
    delta: float,
    hidden: list[str],
    episodes: int | None,
    seed: int,
    method: str,
    plot: str | None,
    policy: str | None,
    save: str | None,
    resume: str | None,
    force: bool,
    json: bool,
) -> None:
    """Run a learner, print what came of it, write what was asked for."""
    if agent not in AGENTS:
        raise unknown("agent", agent, AGENTS)
    outputs = [
        ("figure", plot, figures.ENDINGS),
        ("policy", policy, policies.ENDINGS),
        ("run", save, record.ENDINGS),
    ]
    _check_outputs(outputs, [problem], force)
    mdp = make(problem)
    learner = AGENTS[agent](mdp.problem.hiding(*cast(Any, hidden)), epsilon, delta, **settings)
    old = None if resume is None else Run.load(resume)
    with _progress(learner, episodes, method) as report:
        run = simulate(mdp, learner, episodes, seed, cast(Any, method), report, old)
    if json:
        print_json(summary(problem, agent, delta, seed, run))
    else:
        print_summary(problem, mdp, learner, hidden, run)
    # told first, so that a full disk costs no more than the files
    title = f"{problem}: {agent.upper()}, {settings['variant']} constants"
    writers: dict[str, Callable[[str], None]] = {
        "figure": lambda path: run.plot(path, title, force),
        "policy": lambda path: policies.write_policy(run.policy, mdp, path, force),
        "run": lambda path: run.save(path, force),
    }
    failed: InputError | None = None
    for what, path, _ in outputs:
        if path is not None:
            try:
                writers[what](path)
            except InputError as error:
                failed = failed or error
            else:
                if not json:
                    print(f"{what:>12}  {path}")
    if failed is not None:
        raise failed
    if run.interrupted:
        how = "" if save is None else f"; go on with --resume {save}"
        print(f"ucfh: interrupted; this is what was run until then{how}", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _check_outputs(
    outputs: list[tuple[str, str | None, tuple[str, ...]]], inputs: list[str], force: bool
) -> None:
    """Refuse before the work what could not be written after it, or would destroy its input."""
    taken = {os.path.abspath(path) for path in inputs}
    for _, path, endings in outputs:
        if path is None:
            continue
        check_ending(path, endings)
        if os.path.abspath(path) in taken:
            raise InputError(f"{path} is named twice: give every output a name of its own")
        refuse_existing(path, force)
        taken.add(os.path.abspath(path))


def summary(problem: str, agent: str, delta: float, seed: int, run: Run) -> dict[str, Any]:
    """A run in a few numbers, for programs."""
    mistakes = run.mistakes()
    return {
        "problem": problem,
        "agent": agent,
        "epsilon": run.epsilon,
        "delta": delta,
        "seed": seed,
        "episodes": run.episodes,
        "phases": len(run.rows),
        "mistakes": None if mistakes == inf else mistakes,
        "bound": run.episode_bound,
        "updates": run.updates,
        "update_bound": run.update_bound,
        "value": run.value,
        "optimal": run.optimal,
        "gap": run.gap,
        "regret": run.regret,
        "upper": None,
        "lower": None,
        "certified": None,
        "final": run.final,
        "interrupted": run.interrupted,
        "settings": run.about,
        "seconds": run.seconds,
        "version": __version__,
    }


def print_summary(problem: str, mdp: MDP, agent: Agent, hidden: list[str], run: Run) -> None:
    """A run for a person."""
    settings = agent.settings()
    mistakes, bound = run.mistakes(), run.episode_bound
    theorem = {"paper": "as printed", "corrected": "corrected"}[settings["variant"]]
    why = (
        "the policy can never change again"
        if run.final
        else "interrupted"
        if run.interrupted
        else "capped; the learner was not done"
    )
    lines = {
        "problem": f"{problem}: {mdp.states} states, {mdp.actions} actions, {mdp.horizon} steps",
        "learner": f"{settings['agent']}, {settings['variant']} constants, "
        f"{settings['confidence']} sets; epsilon {run.epsilon:g}, delta {agent.delta:g}"
        + (f"; not told: {', '.join(hidden)}" if hidden else ""),
        "episodes": f"{run.episodes:.4g} ({why})",
        "mistakes": f"{mistakes:.4g} episodes were worse than epsilon"
        + ("" if bound is None else f"; Theorem 1, {theorem}, allows {bound:.3g}"),
        "updates": f"{run.updates} of the model"
        + ("" if run.update_bound is None else f"; U_max is {run.update_bound:.4g}"),
        "value": f"{run.value:.6g} is what the last policy earns, of an optimal "
        f"{run.optimal:.6g} (gap {run.gap:.3g})",
        "took": f"{run.seconds:.2f} s",
    }
    if mdp.note:
        lines["note"] = mdp.note
    for key, text in lines.items():
        print(f"{key:>12}  {text}")
    print("\nAn episode under the last policy, as it may go:")
    states = Labels("state", mdp.problem.state_names, mdp.states)
    actions = Labels("action", mdp.problem.action_names, mdp.actions)
    course = example_episode(mdp, run.policy)
    width = max(5, *(len(str(states.label(s))) for _, s, _ in course))
    print(f"{'step':>12}  {'state':<{width}}  action")
    for t, s, a in course:
        if len(course) > 20 and t == 10:
            print(f"{'...':>12}")
        if len(course) <= 20 or t < 10 or t >= len(course) - 10:
            print(f"{t + 1:>12}  {states.label(s)!s:<{width}}  {actions.label(a)}")
    print()


def example_episode(mdp: MDP, policy: Any) -> list[tuple[int, int, int]]:
    """(t, s, a) of one episode, always the same one."""
    table, rng = mdp.table, np.random.default_rng(0)
    rows = table.rows_of(policy, mdp.horizon)
    s = int(rng.choice(mdp.states, p=mdp.initial))
    course = []
    for t in range(mdp.horizon):
        course.append((t, s, int(policy[t, s])))
        at = table.entries_of(int(rows[t, s]))
        s = int(rng.choice(table.indices[at], p=mdp.p[at]))
    return course


class _progress:
    """A progress bar on stderr while a run takes longer than a moment, if anybody watches."""

    def __init__(self, agent: Agent, episodes: int | None, method: str) -> None:
        self.agent, self.most, self.method = agent, episodes, method
        self.bar: Any = None

    def __enter__(self) -> Progress | None:
        if sys.stderr is None or not sys.stderr.isatty():
            return None
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self.bar.start()
        self.task = self.bar.add_task("learning", total=1.0)
        return self.report

    def report(self, run: Run) -> None:
        """Show episodes, phase and what is left."""
        done = 0.0
        if self.agent.update_bound:
            done = len(run.rows) / self.agent.update_bound
        if self.most is not None and (self.method == "step" or run.episodes < self.most):
            done = max(done, run.episodes / self.most)
        text = f"phase {len(run.rows)}, {run.episodes:.3g} episodes, gap {run.gap:.3g}"
        self.bar.update(self.task, completed=min(done, 1.0), description=text)

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
