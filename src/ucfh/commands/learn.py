"""``ucfh learn``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, cast

import numpy as np

from ucfh import __version__, policies
from ucfh.agents.base import Agent
from ucfh.agents.certified import CertifiedUCFH
from ucfh.agents.registry import agent_class, make_agent
from ucfh.agents.ucfh import UCFH
from ucfh.certificate import Certificate
from ucfh.clock import compile_seconds
from ucfh.commands.progress import Bar
from ucfh.commands.show import print_json
from ucfh.errors import InputError
from ucfh.files import Labels, check_outputs
from ucfh.interrupts import check, exit_code, keep
from ucfh.problem import MDP, Problem
from ucfh.problems import make
from ucfh.report import figures
from ucfh.simulation import record
from ucfh.simulation.run import TOLERANCE, Run
from ucfh.simulation.simulate import simulate

CERTIFIED = {"confidence": "best", "schedule": None, "stop": "certificate"}
"""What ucfh is asked for if no option says otherwise."""

MANY = 10**9
"""Episodes that a learner is told of which wants to know how many there will be."""

NOT_CERTIFIED = 3
"""The exit code of data that contradict the assumptions or, from a log, do not reach epsilon."""


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
    log: str | None,
    encoding: str | None,
    accept_losses: bool,
    plot: str | None,
    policy: str | None,
    save: str | None,
    resume: str | None,
    force: bool,
    json: bool,
) -> None:
    """Run a learner, print what came of it, write what was asked for."""
    if agent != "ucfh":
        agent_class(agent.partition(":")[0])  # an error if there is none
        if settings != CERTIFIED or log is not None:
            raise InputError(
                "--paper, --variant, --confidence, --schedule and --log are about the learner "
                f"ucfh: leave them out, or --agent {agent}"
            )
    if log is None and (encoding is not None or accept_losses):
        raise InputError(
            "--encoding and --accept-losses are about --log: leave them out, or pass it"
        )
    if log is not None and resume is not None:
        raise InputError("a resumed run has its log already: leave --log out")
    # in this order: a figure, which depends on most, comes last and costs no other file
    outputs = [
        ("policy", policy, policies.ENDINGS),
        ("run", save, record.ENDINGS),
        ("figure", plot, figures.ENDINGS),
    ]
    inputs = [path for path in (problem, log, resume) if path is not None]
    check_outputs([(path, endings) for _, path, endings in outputs], inputs, force)
    mdp = make(problem)
    told = mdp.problem.hiding(*cast(Any, hidden))
    learner: Agent
    if agent == "ucfh":
        learner = UCFH(told, epsilon, delta, **settings)
    else:
        announced = MANY if episodes is None else episodes
        learner = make_agent(agent, mdp, epsilon, delta, announced, seed, problem=told)
    if log is not None:
        _begin_with(learner, mdp, log, encoding, accept_losses)
    old = None if resume is None else Run.load(resume)
    with Bar() as bar:
        report = partial(_report, bar, learner, episodes, method)
        run = simulate(mdp, learner, episodes, seed, cast(Any, method), report, old)
    if old is not None and old.final:
        print(f"ucfh: the run in {resume} is finished: this is its result again", file=sys.stderr)
    if json:
        print_json(summary(problem, mdp, agent, delta, seed, run))
    else:
        print_summary(problem, mdp, learner, hidden, run)
    # told first, so that a full disk costs no more than the files
    title = f"{problem}: {agent.upper()}, {_method(learner)}"
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
        sys.exit(exit_code())
    if run.certificate is not None and run.certificate.contradiction is not None:
        sys.exit(NOT_CERTIFIED)


def _begin_with(
    learner: Agent, mdp: MDP, log: str, encoding: str | None, accept_losses: bool
) -> None:
    """Let the learner start with what a log shows, if that is no other task than the model."""
    from ucfh.live.agreement import ALPHA, disagreement
    from ucfh.live.logs import read_log

    if not isinstance(learner, CertifiedUCFH) or learner.schedule != "growth":
        raise InputError("--log needs a learner whose sets hold at all times: leave --paper out")
    with Bar() as bar:
        found = read_log(
            log,
            learner.problem,
            encoding=encoding,
            accept_losses=accept_losses,
            progress=partial(bar.show, f"reading {log}"),
        )
    for fault in found.faults:
        print(f"ucfh: {log}: {fault}", file=sys.stderr)
    why = [fault.first for fault in found.faults if fault.refutes]
    if (unlikely := disagreement(found.counts, learner.problem, mdp)) is not None:
        why.append(f"{unlikely} (a false alarm has probability {ALPHA:g} at most)")
    if why:
        raise InputError(
            f"{log} and the model disagree: {why[0]}; correct the model, or ask what the log says "
            f"alone: ucfh certify {log}"
        )
    learner.observe(found.counts)
    print(f"ucfh: beginning with {found.episodes} episodes of {log}", file=sys.stderr)


def _method(agent: Agent) -> str:
    """How a learner learns, in a few words."""
    settings = agent.settings()
    if not isinstance(agent, UCFH):
        return agent.reference
    constants = f"{settings['variant']} constants"
    if settings["m"] is not None:
        constants += f" but for m = {settings['m']:g}"
    if isinstance(agent, CertifiedUCFH):
        schedule = f"{settings['schedule']} schedule"
        if settings["schedule"] == "paper":
            schedule += f" with {constants}"
        return f"{settings['confidence']} sets, {schedule}, to a certificate"
    if settings["m"] is not None:
        constants += " (no guarantee)"
    return f"{constants}, {settings['confidence']} sets"


def summary(
    problem: str, mdp: MDP, agent: str, delta: float, seed: int, run: Run
) -> dict[str, Any]:
    """A run in a few numbers, for programs."""
    mistakes, value = run.mistakes(), mdp.value(run.policy)
    known = run.certificate
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
        "value": value,
        "optimal": run.optimal,
        "gap": run.optimal - value,
        "regret": run.regret,
        "upper": None if known is None else known.upper,
        "lower": None if known is None else known.lower,
        "gap_bound": None if known is None else known.gap,
        "certified": None if known is None else known.certified,
        "contradiction": None if known is None else known.contradiction,
        "missing": None if known is None else [vars(pair) for pair in known.missing],
        "final": run.final,
        "interrupted": run.interrupted,
        "settings": run.about,
        "seconds": run.seconds,
        "compile_seconds": compile_seconds(),
        "version": __version__,
    }


def print_summary(problem: str, mdp: MDP, agent: Agent, hidden: list[str], run: Run) -> None:
    """A run for a person."""
    mistakes, bound, known = run.mistakes(), run.episode_bound, run.certificate
    why = (
        "certified"
        if known is not None and known.certified
        else "stopped: the data contradict the assumptions"
        if known is not None and known.contradiction is not None
        else "the policy can never change again"
        if run.final
        else "interrupted"
        if run.interrupted
        else "capped; the learner was not done"
    )
    lines = {
        "problem": f"{problem}: {mdp.states} states, {mdp.actions} actions, {mdp.horizon} steps",
        "learner": f"{agent.settings()['agent']}, {_method(agent)}; epsilon {run.epsilon:g}, "
        f"delta {agent.delta:g}" + (f"; not told: {', '.join(hidden)}" if hidden else ""),
        "episodes": f"{_count(run.episodes)} ({why})",
    }
    if known is None:
        theorem = {"paper": "Theorem 1, as printed,", "corrected": "Theorem 1, corrected,"}
        whose = theorem.get(agent.settings().get("variant", ""), "its theorem")
        lines["mistakes"] = f"{mistakes:.4g} episodes were worse than epsilon" + (
            "" if bound is None else f"; {whose} allows {bound:.3g}"
        )
        if isinstance(agent, UCFH):
            lines["updates"] = f"{run.updates} of the model" + (
                "" if run.update_bound is None else f"; U_max is {run.update_bound:.4g}"
            )
        else:
            lines["policies"] = f"{len(run.rows)} were followed, one after the other"
    else:
        lines |= certificate_lines(known, mdp.problem)
    value = mdp.value(run.policy)
    lines |= {
        "value": f"{value:.6g} is what the policy really earns, of an optimal "
        f"{run.optimal:.6g} (gap {max(0.0, run.optimal - value):.3g})",
        "took": f"{run.seconds:.2f} s, and {compile_seconds():.2f} s to compile or load code",
    }
    if mdp.note:
        lines["note"] = mdp.note
    for key, text in lines.items():
        print(f"{key:>12}  {text}")
    print("\nAn episode under the policy, as it may go:")
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


def _count(episodes: int) -> str:
    """A number of episodes: all digits while they are few."""
    return str(episodes) if episodes < 1e6 else f"{episodes:.4g}"


def certificate_lines(known: Certificate, problem: Problem) -> dict[str, str]:
    """A certificate for a person: what is known, with what probability, what is missing."""
    if known.contradiction is not None:
        return {"refuted": known.contradiction}
    sure = f"with probability {1 - known.delta:g}"
    near = "optimal" if known.gap < TOLERANCE else f"within {known.gap:.4g} of optimal"
    lines = {
        "known": f"{sure}: V* <= {known.upper:.4g}, this policy earns >= {known.lower:.4g} and is "
        f"{near}"
    }
    if not known.certified and known.missing:
        states = Labels("state", problem.state_names, problem.states)
        actions = Labels("action", problem.action_names, problem.actions)
        pairs = [
            f"{actions.label(x.action)} in {states.label(x.state)}"
            + (f" at step {x.stage + 1}" if problem.table.stages > 1 else "")
            + f" ({x.visits} visits, {x.share:.0%})"
            if x.state >= 0
            else f"where episodes start ({x.visits} seen, {x.share:.0%})"
            for x in known.missing[:5]
        ]
        lines["missing"] = "most is unknown about: " + "; ".join(pairs)
    return lines


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


def _report(bar: Bar, agent: Agent, most: int | None, method: str, run: Run) -> None:
    """Show episodes, phase and what is left; from now on there is something to keep."""
    keep()
    check()
    if not bar.watched:
        return
    done = 0.0
    if agent.update_bound:
        done = len(run.rows) / agent.update_bound
    if most is not None and (method == "step" or run.episodes < most):
        done = max(done, run.episodes / most)
    text = f"phase {len(run.rows)}, {run.episodes:.3g} episodes, gap {run.gap:.3g}"
    if agent.gap_bound == agent.gap_bound:
        # the gap falls about like a power of the episodes: so much of the way is done
        epsilon, now = agent.epsilon, max(agent.gap_bound, agent.epsilon)
        done = max(done, (epsilon / now) ** 1.5)
        text = (
            f"{run.episodes:.3g} episodes: V* <= {agent.optimistic:.3f}, "
            f"V^pi >= {agent.lower:.3f}, gap <= {now:.3f} of {epsilon:g}"
        )
    bar.show(text, done)
