"""``ucfh learn``."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from ucfh._utils.defaults import DELTA
from ucfh.cli.options import (
    AcceptLosses,
    AsJson,
    Delta,
    Encoding,
    Epsilon,
    Force,
    MaxReturn,
    ProblemName,
    RewardLimits,
    Segments,
)
from ucfh.cli.printing import NOT_CERTIFIED, print_json, print_lines, printable
from ucfh.cli.progress import ProgressBar
from ucfh.cli.run_printing import CERTIFIED, PRINTED, described, print_summary, summary
from ucfh.exceptions import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ucfh.algorithms.base import Agent
    from ucfh.mdp import MDP
    from ucfh.simulation.result import Run


def learn(
    problem: ProblemName,
    epsilon: Epsilon = 0.1,
    delta: Delta = DELTA,
    agent: Annotated[
        str,
        typer.Option(
            help="agent (see: ucfh agents), or your own, module:Class; ucfh means --paper"
        ),
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
            help="when to plan again: growth (after 2% more episodes), "
            "doubling (of a pair's visits) or paper"
        ),
    ] = None,
    unknown: Annotated[
        list[str] | None,
        typer.Option(
            help="hide from the agent: rewards, successors or initial; repeatable; all: tell it "
            "nothing, not even which states there are"
        ),
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option(help="largest number of episodes; default: until the agent is done"),
    ] = None,
    seed: Annotated[int, typer.Option(help="random seed of the simulation")] = 0,
    step: Annotated[
        bool,
        typer.Option(
            "--step",
            help="simulate every single step: slower, same distribution",
        ),
    ] = False,
    rewards: RewardLimits = None,
    max_return: MaxReturn = None,
    segments: Segments = None,
    masks: Annotated[
        bool,
        typer.Option("--masks", help='env: only actions of info["action_mask"] are possible'),
    ] = False,
    log: Annotated[
        str | None,
        typer.Option(
            help="start with the counts of a log: .csv, .jsonl or .parquet; with env: write every "
            "step to this .csv"
        ),
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
        str | None, typer.Option(help="continue a saved run (same problem, agent and seed)")
    ] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Learn a problem or an environment until the policy is certified.

    The policy is then within epsilon of optimal, with probability 1 - delta. The agent never
    sees the transition probabilities. With --paper it is Algorithm 1 as printed: its mistakes are
    counted exactly until its policy can never change again, even if that takes 1e15 episodes.
    env:NAME is an environment of Gymnasium that is only stepped: nothing about it is listed in
    advance. Ctrl-C keeps what was run.

    \b
    Examples:
      ucfh learn tutoring --epsilon 0.1 --delta 0.1 --plot tutoring.png
      ucfh learn tutoring --epsilon 0.1 --delta 0.1 --paper
      ucfh learn chain:n=8 --variant corrected --confidence kl --json
      ucfh learn calls --unknown rewards --save calls.npz
      ucfh learn riverswim --agent psrl --episodes 5000
      ucfh learn env:FrozenLake-v1,horizon=20 --max-return 1 --policy lake.csv
      ucfh learn env:Blackjack-v1,horizon=5 --rewards=-1,1 --episodes 50000 --epsilon 1
    """
    if problem.startswith("env:") or "all" in (unknown or []):
        from ucfh.cli.learn_environment import EnvironmentDeclaration, Files, learn_from

        others = {
            "--agent": agent != CERTIFIED,
            "--paper": paper,
            "--variant": variant is not None,
            "--confidence": confidence is not None,
            "--schedule": schedule is not None,
            "--step": step,
            "--encoding": encoding is not None,
            "--accept-losses": accept_losses,
            "--unknown": (unknown or ["all"]) != ["all"],
        }

        learn_from(
            problem,
            epsilon,
            delta,
            EnvironmentDeclaration(episodes, seed, rewards, max_return, segments, masks),
            Files(log, plot, policy, save, resume, force),
            json,
            [option for option, given in others.items() if given],
        )
        return
    for name in unknown or ():
        if name not in ("rewards", "successors", "initial"):
            raise InputError(
                f"cannot hide {name!r}: choose among rewards, successors and initial, or all"
            )
    for option, given in (("--rewards", rewards), ("--max-return", max_return)):
        if given is not None:
            raise InputError(f"{option} is about env:NAME and --unknown all: leave it out")
    if segments is not None or masks:
        raise InputError(
            "--segments and --masks are about env:NAME and --unknown all: leave them out"
        )
    from ucfh import policies
    from ucfh._utils import plotting
    from ucfh._utils.files import check_outputs
    from ucfh._utils.plugins import is_plugin
    from ucfh.algorithms.registry import make_agent
    from ucfh.problems import make
    from ucfh.simulation import result
    from ucfh.simulation.checker import check_runnable
    from ucfh.simulation.result import Run
    from ucfh.simulation.runner import simulate

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
        ("run", save, result.ENDINGS),
        ("figure", plot, plotting.ENDINGS),
    ]
    inputs = [path for path in (problem, log, resume) if path is not None]
    check_outputs([(path, endings) for _, path, endings in outputs], inputs, force)
    mdp = make(problem)
    known = mdp.problem.hiding(*cast(Any, hidden))
    algorithm = make_agent(agent + choices, mdp, epsilon, delta, episodes, seed, problem=known)
    if is_plugin(agent):
        check_runnable(agent)
    if log is not None:
        _warm_start(algorithm, mdp, log, encoding, accept_losses)
    old = None if resume is None else Run.load(resume)
    with ProgressBar() as bar:
        report = partial(_report, bar, algorithm, episodes, method)
        run = simulate(mdp, algorithm, episodes, seed, method, report, old)
    run.problem = problem
    if old is not None and old.final:
        print(f"ucfh: the run in {resume} is finished: this is its result again", file=sys.stderr)
    if json:
        print_json(summary(problem, mdp, agent, delta, seed, run))
    else:
        print_summary(problem, mdp, algorithm, hidden, run)
    # files are written after printing: a full disk costs only the files
    title = f"{problem}: {described(algorithm)}"
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
        raise KeyboardInterrupt(f"this is what was run until then{how}")
    if run.certificate is not None and run.certificate.contradiction is not None:
        sys.exit(NOT_CERTIFIED)


def _choose(
    agent: str, paper: bool, variant: str | None, confidence: str | None, schedule: str | None
) -> tuple[str, str]:
    """Return the name of the agent and the parameters from options: "ucfh", ":confidence=kl"."""
    given = {"variant": variant, "confidence": confidence, "schedule": schedule}
    choices = {key: value for key, value in given.items() if value is not None}
    if agent not in (CERTIFIED, PRINTED):
        if choices or paper:
            raise InputError(
                "--paper, --variant, --confidence and --schedule are about the agents ucfh and "
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


def _warm_start(
    agent: Agent, mdp: MDP, log: str, encoding: str | None, accept_losses: bool
) -> None:
    """Start the agent with the counts of a log, or raise if the log contradicts the model."""
    from ucfh._utils.defaults import ALPHA
    from ucfh.algorithms.certified import CertifiedUCFH
    from ucfh.auditing.report import report_of
    from ucfh.logs.model_consistency import disagreement
    from ucfh.logs.reading import read_log

    if not isinstance(agent, CertifiedUCFH) or agent.schedule != "growth":
        raise InputError(
            "--log needs the certified agent, whose sets hold at all times: leave --paper, "
            "--agent and --schedule out"
        )
    with ProgressBar() as bar:
        data = read_log(
            log,
            agent.problem,
            encoding=encoding,
            accept_losses=accept_losses or None,  # as the file beside the log says
            progress=partial(bar.show, f"reading {log}"),
        )
    for issue in data.faults:
        print(printable(f"ucfh: {log}: {issue}"), file=sys.stderr)
    why = [issue.first for issue in data.faults if issue.refutes]
    if (unlikely := disagreement(data.counts, agent.problem, mdp)) is not None:
        why.append(f"{unlikely} (a false alarm has probability {ALPHA:g} at most)")
    if why:
        raise InputError(
            f"{log} and the model disagree: {why[0]}; correct the model, or ask what the log says "
            f"alone: ucfh certify {log}"
        )
    for finding in report_of(data.audit).findings:
        raise InputError(f"{log} refutes what is assumed: {finding}")
    agent.observe(data.counts)
    print(f"ucfh: starting with {data.episodes} episodes of {log}", file=sys.stderr)


def _report(bar: ProgressBar, agent: Agent, most: int | None, method: str, run: Run) -> None:
    """Show episodes, phase and what is left."""
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
