"""``ucfh learn``."""

from __future__ import annotations

import sys
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from ucfh._support.defaults import DELTA
from ucfh._support.files import labels_of
from ucfh.commands.options import AcceptLosses, AsJson, Delta, Encoding, Epsilon, Force, ProblemName
from ucfh.commands.printing import NOT_CERTIFIED, certificate_lines, print_json, print_lines
from ucfh.commands.progress import Bar
from ucfh.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ucfh.agents.base import Agent
    from ucfh.problem import MDP
    from ucfh.simulation.run import Run

CERTIFIED, PRINTED = "certified-ucfh", "ucfh"
MANY = 10**9
"""Episodes that a learner is told of which wants to know how many there will be."""


def learn(
    problem: ProblemName,
    epsilon: Epsilon = 0.1,
    delta: Delta = DELTA,
    agent: Annotated[
        str, typer.Option(help="learner (see: ucfh agents); ucfh is the same as --paper")
    ] = CERTIFIED,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="run Algorithm 1 as printed, which never stops by itself"),
    ] = False,
    variant: Annotated[
        str | None,
        typer.Option(help="run Algorithm 1 with these constants: paper or corrected"),
    ] = None,
    confidence: Annotated[
        str | None,
        typer.Option(
            help="confidence sets: best, kt, kt-ball, kl-ball, l1, kl, paper; default: best; with "
            "--paper: paper or kl"
        ),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            help="when to plan again: growth (after 2 % more episodes), "
            "doubling (of a pair's visits) or paper"
        ),
    ] = None,
    unknown: Annotated[
        list[str] | None,
        typer.Option(help="hide from the learner: rewards, successors or initial; repeatable"),
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option(help="largest number of episodes; default: until the learner is done"),
    ] = None,
    seed: Annotated[int, typer.Option(help="random seed of the simulation")] = 0,
    step: Annotated[
        bool,
        typer.Option(
            "--step",
            help="simulate every single step: slower, same distribution",
        ),
    ] = False,
    log: Annotated[
        str | None, typer.Option(help="start with the counts of a log: .csv, .jsonl or .parquet")
    ] = None,
    encoding: Encoding = None,
    accept_losses: AcceptLosses = False,
    plot: Annotated[
        str | None, typer.Option(help="write a figure of the run: .png, .svg or .pdf")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="write the last policy: .csv or .json")] = None,
    save: Annotated[
        str | None, typer.Option(help="save the run, to read or to resume: .npz")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="continue a saved run (same problem, learner and seed)")
    ] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Learn a problem until the policy is certified.

    It is then within epsilon of optimal, with probability 1 - delta. The learner never sees the
    transition probabilities. With --paper it is Algorithm 1 as printed:
    its mistakes are counted exactly until its policy can never change again, even if that takes
    1e15 episodes. Ctrl-C keeps what was run.

    \b
    Examples:
      ucfh learn tutoring --epsilon 0.1 --delta 0.1 --plot tutoring.png
      ucfh learn tutoring --epsilon 0.1 --delta 0.1 --paper
      ucfh learn chain:n=8 --variant corrected --confidence kl --json
      ucfh learn calls --unknown rewards --save calls.npz
      ucfh learn riverswim --agent psrl --episodes 5000
    """
    from ucfh import policies
    from ucfh._support import canvas
    from ucfh._support.files import check_outputs
    from ucfh._support.interrupts import exit_code
    from ucfh.agents.registry import make_agent
    from ucfh.problems import make
    from ucfh.simulation import run_file
    from ucfh.simulation.run import Run
    from ucfh.simulation.simulate import simulate

    if paper and variant not in (None, "paper"):
        raise InputError(f"--paper and --variant {variant} contradict each other: leave one out")
    agent, choices = _choose(agent, paper or variant is not None, variant, confidence, schedule)
    method: Literal["bulk", "step"] = "step" if step else "bulk"
    hidden = unknown or []
    if log is None and (encoding is not None or accept_losses):
        raise InputError(
            "--encoding and --accept-losses are about --log: leave them out, or pass it"
        )
    if log is not None and resume is not None:
        raise InputError("a resumed run has its log already: leave --log out")
    # in this order: a figure, which depends on most, comes last and costs no other file
    outputs = [
        ("policy", policy, policies.ENDINGS),
        ("run", save, run_file.ENDINGS),
        ("figure", plot, canvas.ENDINGS),
    ]
    inputs = [path for path in (problem, log, resume) if path is not None]
    check_outputs([(path, endings) for _, path, endings in outputs], inputs, force)
    mdp = make(problem)
    told = mdp.problem.hiding(*cast(Any, hidden))
    announced = MANY if episodes is None else episodes
    learner = make_agent(agent + choices, mdp, epsilon, delta, announced, seed, problem=told)
    if log is not None:
        _begin_with(learner, mdp, log, encoding, accept_losses)
    old = None if resume is None else Run.load(resume)
    with Bar() as bar:
        report = partial(_report, bar, learner, episodes, method)
        run = simulate(mdp, learner, episodes, seed, method, report, old)
    if old is not None and old.final:
        print(f"ucfh: the run in {resume} is finished: this is its result again", file=sys.stderr)
    if json:
        print_json(summary(problem, mdp, agent, delta, seed, run))
    else:
        print_summary(problem, mdp, learner, hidden, run)
    # told first, so that a full disk costs no more than the files
    title = f"{problem}: {learner.name}, {_method(learner)}"
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
                    print_lines({what: path})
    if failed is not None:
        raise failed
    if run.interrupted:
        how = "" if save is None else f"; continue with --resume {save}"
        print(f"ucfh: interrupted; this is what was run until then{how}", file=sys.stderr)
        sys.exit(exit_code())
    if run.certificate is not None and run.certificate.contradiction is not None:
        sys.exit(NOT_CERTIFIED)


def _choose(
    agent: str, paper: bool, variant: str | None, confidence: str | None, schedule: str | None
) -> tuple[str, str]:
    """The learner's name, and the parameters that options give it: "ucfh", ":confidence=kl"."""
    given = {"variant": variant, "confidence": confidence, "schedule": schedule}
    choices = {key: value for key, value in given.items() if value is not None}
    if agent not in (CERTIFIED, PRINTED):
        if choices or paper:
            raise InputError(
                "--paper, --variant, --confidence and --schedule are about the learners ucfh and "
                f"certified-ucfh: leave them out, or --agent {agent}"
            )
        return agent, ""
    if paper or agent == PRINTED:
        agent = PRINTED
        if confidence not in (None, "paper", "kl"):
            raise InputError(
                f"--paper has the sets paper and kl, not {confidence}: leave --paper out"
            )
        if schedule is not None:
            raise InputError("--paper has its own schedule: leave --schedule out")
    return agent, ":" * bool(choices) + ",".join(f"{k}={v}" for k, v in choices.items())


def _begin_with(
    learner: Agent, mdp: MDP, log: str, encoding: str | None, accept_losses: bool
) -> None:
    """Let the learner start with what a log shows, if that is no other task than the model."""
    from ucfh.agents.certified import CertifiedUCFH
    from ucfh.logs.agreement import ALPHA, disagreement
    from ucfh.logs.reading import read_log

    if not isinstance(learner, CertifiedUCFH) or learner.schedule != "growth":
        raise InputError(
            "--log needs the certified learner, whose sets hold at all times: leave --paper, "
            "--agent and --schedule out"
        )
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
    print(f"ucfh: starting with {found.episodes} episodes of {log}", file=sys.stderr)


def _method(agent: Agent) -> str:
    """How a learner learns, in a few words."""
    if agent.name not in (CERTIFIED, PRINTED):
        return agent.reference
    settings = agent.settings()
    constants, sets = f"{settings['variant']} constants", f"{settings['confidence']} sets"
    if settings["m"] is not None:
        constants += f" but for m = {settings['m']:g}"
    if agent.name == CERTIFIED:
        with_constants = f" with {constants}" if settings["schedule"] == "paper" else ""
        return f"{sets}, {settings['schedule']} schedule{with_constants}"
    return f"{constants}{' (no guarantee)' * (settings['m'] is not None)}, {sets}"


def summary(
    problem: str, mdp: MDP, agent: str, delta: float, seed: int, run: Run
) -> dict[str, Any]:
    """A run in a few numbers, for programs."""
    from ucfh import __version__
    from ucfh._support.clock import compile_seconds

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
    from ucfh._support.clock import compile_seconds

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
        else "the limit that was given; the learner is not done"
    )
    lines = {
        "problem": f"{problem}: {mdp.states} states, {mdp.actions} actions, {mdp.horizon} steps",
        "learner": f"{agent.settings()['agent']}, {_method(agent)}; epsilon {run.epsilon:g}, "
        f"delta {agent.delta:g}" + (f"; hidden: {', '.join(hidden)}" if hidden else ""),
        "episodes": f"{_count(run.episodes)} ({why})",
    }
    if known is None:
        theorem = {"paper": "Theorem 1, as printed,", "corrected": "Theorem 1, corrected,"}
        whose = theorem.get(agent.settings().get("variant", ""), "its theorem")
        lines["mistakes"] = f"{mistakes:.4g} episodes were worse than epsilon" + (
            "" if bound is None else f"; {whose} allows {bound:.3g}"
        )
        if agent.name == PRINTED:
            lines["updates"] = f"{run.updates} updates of the model" + (
                "" if run.update_bound is None else f"; U_max is {run.update_bound:.4g}"
            )
        else:
            lines["policies"] = f"{len(run.rows)} followed, one after the other"
    else:
        lines |= certificate_lines(known, mdp.problem)
    value = mdp.value(run.policy)
    lines |= {
        "truth": f"this policy really earns {value:.6g}, the best one {run.optimal:.6g} "
        f"(loss {max(0.0, run.optimal - value):.3g})",
        "took": f"{run.seconds:.2f} s, and {compile_seconds():.2f} s to compile or load code",
    }
    if mdp.note:
        lines["note"] = mdp.note
    print_lines(lines)
    print("\nExample episode under this policy:")
    states, actions = labels_of(mdp.problem)
    course = example_episode(mdp, run.policy)
    width = max([5, *(len(str(states.label(s))) for _, s, _ in course)])
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


def example_episode(mdp: MDP, policy: Any) -> list[tuple[int, int, int]]:
    """(t, s, a) of one episode, always the same one; policy (H, S)."""
    import numpy as np

    table, rng = mdp.table, np.random.default_rng(0)
    rows = table.rows_of(policy, mdp.horizon)
    s = int(rng.choice(mdp.states, p=mdp.initial))
    course = []
    for t in range(mdp.horizon):
        if s in mdp.problem.terminal:
            break
        course.append((t, s, int(policy[t, s])))
        at = table.entries_of(int(rows[t, s]))
        s = int(rng.choice(table.indices[at], p=mdp.p[at]))
    return course


def _report(bar: Bar, agent: Agent, most: int | None, method: str, run: Run) -> None:
    """Show episodes, phase and what is left; from now on there is something to keep."""
    from ucfh._support.interrupts import check, keep

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
            f"{run.episodes:.3g} episodes: best policy <= {agent.optimistic:.3f}, "
            f"this one >= {agent.lower:.3f}, loss <= {now:.3f} (wanted: {epsilon:g})"
        )
    bar.show(text, done)
