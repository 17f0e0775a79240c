"""The command line: parse, call, print. Results go to stdout, progress and errors to stderr."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from ucfh.commands.compare_options import agents, compare
from ucfh.commands.options import (
    AcceptLosses,
    AsJson,
    Delta,
    Encoding,
    Epsilon,
    Force,
    Problem,
)
from ucfh.commands.study_options import report, study
from ucfh.commands.verify_options import verify
from ucfh.defaults import DELTA
from ucfh.errors import InputError
from ucfh.interrupts import listening

app = typer.Typer(
    name="ucfh",
    help="Learn a task that repeats and lasts a fixed number of steps, with a guarantee.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.command()
def learn(
    problem: Problem,
    epsilon: Epsilon = 0.1,
    delta: Delta = DELTA,
    agent: Annotated[str, typer.Option(help="the learner (see: ucfh agents)")] = "ucfh",
    paper: Annotated[
        bool, typer.Option("--paper", help="the algorithm as printed, which never says it is done")
    ] = False,
    variant: Annotated[
        str | None,
        typer.Option(help="the same with its constants: paper, or corrected (theorem proved)"),
    ] = None,
    confidence: Annotated[
        str | None,
        typer.Option(
            help="confidence sets: best, kt, kt-ball, kl-ball, l1, kl, paper; default: best, or "
            "with --paper paper (or kl)"
        ),
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(help="when to plan anew: growth (2 % more episodes), doubling")
    ] = None,
    unknown: Annotated[
        list[str] | None,
        typer.Option(help="do not tell the learner: rewards, successors or initial; repeatable"),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(help="run at most so many; default: until it is done")
    ] = None,
    seed: Annotated[int, typer.Option(help="of the simulation")] = 0,
    step: Annotated[
        bool, typer.Option("--step", help="walk every episode, in place of exact bulk simulation")
    ] = False,
    log: Annotated[
        str | None, typer.Option(help="begin with what a log shows: .csv, .jsonl or .parquet")
    ] = None,
    encoding: Encoding = None,
    accept_losses: AcceptLosses = False,
    plot: Annotated[str | None, typer.Option(help="draw the run: a .png, .svg or .pdf")] = None,
    policy: Annotated[
        str | None, typer.Option(help="write the last policy: a .csv or .json")
    ] = None,
    save: Annotated[
        str | None, typer.Option(help="save the run, to look at or to resume: an .npz")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="go on with a saved run (same problem, learner and seed)")
    ] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Learn a problem until the policy is certified to be within epsilon of optimal.

    The learner never sees the transition probabilities. With --paper it is the algorithm as
    printed: its mistakes are counted exactly until its policy can never change again, whole
    lifetimes of 1e15 episodes included. Ctrl-C keeps what was run.

    \b
    Examples:
      ucfh learn tutoring --epsilon 0.1 --delta 0.1 --plot tutoring.png
      ucfh learn tutoring --epsilon 0.1 --delta 0.1 --paper
      ucfh learn chain:n=8 --variant corrected --confidence kl --json
      ucfh learn calls --unknown rewards --save calls.npz
      ucfh learn riverswim --agent psrl --episodes 5000
    """
    from ucfh.commands.learn import run_learn

    if paper and variant not in (None, "paper"):
        raise InputError(f"--paper and --variant {variant} contradict each other: leave one out")
    settings: dict[str, str | None]
    if paper or variant is not None:
        settings = {"variant": variant or "paper", "confidence": confidence or "paper"}
        if settings["confidence"] not in ("paper", "kl"):
            raise InputError(
                f"--paper has the sets paper and kl, not {confidence}: leave --paper out"
            )
        if schedule is not None:
            raise InputError("--paper has its own schedule: leave --schedule out")
    else:
        settings = {
            "confidence": confidence or "best", "schedule": schedule, "stop": "certificate"
        }  # fmt: skip
    run_learn(
        problem,
        agent=agent,
        settings=settings,
        epsilon=epsilon,
        delta=delta,
        hidden=unknown or [],
        episodes=episodes,
        seed=seed,
        method="step" if step else "bulk",
        log=log,
        encoding=encoding,
        accept_losses=accept_losses,
        plot=plot,
        policy=policy,
        save=save,
        resume=resume,
        force=force,
        json=json,
    )


@app.command()
def certify(
    log: Annotated[
        str,
        typer.Argument(metavar="LOG", help="a .csv, .jsonl or .parquet file", show_default=False),
    ],
    problem: Annotated[
        str | None,
        typer.Option(help="what is known: a model file or a named problem; default: what it shows"),
    ] = None,
    states: Annotated[
        str | None, typer.Option(help="states that exist: names with commas, or how many")
    ] = None,
    actions: Annotated[
        str | None, typer.Option(help="actions that exist: names with commas, or how many")
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="how long an episode lasts; default: the longest")
    ] = None,
    stage_dependent: Annotated[
        bool, typer.Option("--stage-dependent", help="what follows may depend on t as well")
    ] = False,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="another name of a column, such as state=s; repeatable"),
    ] = None,
    epsilon: Epsilon = 0.1,
    delta: Delta = DELTA,
    unknown: Annotated[
        list[str] | None,
        typer.Option(help="do not tell of the problem: rewards, successors, initial; repeatable"),
    ] = None,
    encoding: Encoding = None,
    strict: Annotated[bool, typer.Option("--strict", help="fail at the first fault")] = False,
    accept_losses: AcceptLosses = False,
    policy: Annotated[str | None, typer.Option(help="write the policy: a .csv or .json")] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Report what a log, collected by any policy, proves about the best policy.

    A bound on what can be earned, a policy, what it earns at least, and how far it may be from
    optimal; exit code 3 if that is more than epsilon. A log selected by outcome voids it: one that
    lost more than a few rows in a thousand, or all of one step, state or action, is refused.

    \b
    Examples:
      ucfh certify shop.csv --epsilon 0.2 --policy shop-policy.csv
      ucfh certify shop.csv --states door,browsing,paid,left --horizon 4 --json
      ucfh certify tutoring.csv --problem tutoring
    """
    from ucfh.commands.certify import run_certify

    code = run_certify(
        log,
        problem=problem,
        declared={"states": states, "actions": actions},
        horizon=horizon,
        stage_dependent=stage_dependent,
        columns=columns or [],
        epsilon=epsilon,
        delta=delta,
        hidden=unknown or [],
        encoding=encoding,
        strict=strict,
        accept_losses=accept_losses,
        policy=policy,
        force=force,
        json=json,
    )
    raise typer.Exit(code)


app.command()(compare)


@app.command()
def plan(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="a .json, .npz, or PRISM's .tra", show_default=False),
    ],
    robust: Annotated[
        bool, typer.Option("--robust", help="for the worst model in the intervals, not the best")
    ] = False,
    horizon: Annotated[
        int | None, typer.Option(help="the number of steps: for .tra files, which do not say it")
    ] = None,
    states: Annotated[
        str | None, typer.Option(help="names of states; default: the .sta file beside the .tra")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="the label init; default: the .lab file beside it")
    ] = None,
    state_rewards: Annotated[
        str | None, typer.Option(help="rewards of states; default: the .srew file beside it")
    ] = None,
    transition_rewards: Annotated[
        str | None, typer.Option(help="rewards of transitions; default: the .trew file beside it")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="write the policy: a .csv or .json")] = None,
    values: Annotated[str | None, typer.Option(help="write the values: a .csv or .json")] = None,
    threads: Annotated[
        int | None, typer.Option(help="default: all cores, where that pays; same result")
    ] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Plan with a known model, or with one whose probabilities are known up to intervals.

    Intervals are planned with optimistically, which is how UCFH plans, or with --robust for the
    worst that they allow. Rewards may have any unit; values are in the same.

    \b
    Examples:
      ucfh plan commute.json --policy best.csv
      ucfh plan delivery.json --robust --values values.csv
      ucfh plan robot.tra --horizon 20 --json
    """
    from ucfh.commands.plan import run_plan

    run_plan(
        model,
        robust=robust,
        horizon=horizon,
        others={
            "states": states,
            "labels": labels,
            "state_rewards": state_rewards,
            "transition_rewards": transition_rewards,
        },
        policy=policy,
        values=values,
        threads=threads,
        force=force,
        json=json,
    )


@app.command()
def bounds(
    states: Annotated[int, typer.Option(help="S", show_default=False)],
    actions: Annotated[int, typer.Option(help="A", show_default=False)],
    horizon: Annotated[int, typer.Option(help="H", show_default=False)],
    epsilon: Annotated[float, typer.Option(help="accuracy", show_default=False)],
    delta: Annotated[float, typer.Option(help="failure probability", show_default=False)],
    successors: Annotated[
        int | None, typer.Option(help="C, the most successors of a pair; default: S")
    ] = None,
    json: AsJson = False,
) -> None:
    """Print the paper's bounds, and those it is compared with, for one size of problem.

    \b
    Example:
      ucfh bounds --states 10 --actions 2 --horizon 10 --epsilon 0.1 --delta 0.05
    """
    from ucfh.commands.show import show_bounds

    show_bounds(states, actions, horizon, epsilon, delta, successors, json)


@app.command()
def problems(
    name: Annotated[
        str | None, typer.Argument(help="show only this one, in full", show_default=False)
    ] = None,
    write: Annotated[
        str | None, typer.Option(help="write it as a model: a .json or .npz", show_default=False)
    ] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """List the named problems, or show one of them.

    \b
    Examples:
      ucfh problems
      ucfh problems hard:n=4
      ucfh problems tutoring --write tutoring.json
    """
    from ucfh.commands.show import show_problem, show_problems

    if name is None:
        if write is not None:
            raise InputError("--write needs the name of a problem: ucfh problems NAME --write FILE")
        show_problems(json)
    else:
        show_problem(name, write, force, json)


app.command()(agents)
app.command()(verify)
app.command()(study)
app.command()(report)


@app.command()
def evaluate(
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="a .csv or .json file", show_default=False)
    ],
    problem: Problem,
    json: AsJson = False,
) -> None:
    """Tell exactly what a policy earns on a problem.

    \b
    Example:
      ucfh learn tutoring --policy tutor.csv && ucfh evaluate tutor.csv tutoring
    """
    from ucfh.commands.show import show_evaluation

    show_evaluation(policy, problem, json)


def _print_version(wanted: bool) -> None:
    if wanted:
        from ucfh import __version__

        print(f"ucfh {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="print the version", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    del version  # its callback did all


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a user's mistake is one line on stderr and exit code 2."""
    given = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # names in a script that the terminal lacks
    with listening():
        _run(given or ["--help"])


def _run(arguments: list[str]) -> NoReturn:
    command = typer.main.get_command(app)
    try:
        code = command.main(args=arguments, prog_name="ucfh", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except InputError as error:
        _fail(str(error), 2)
    except MemoryError as error:
        _fail(f"the problem does not fit into memory ({error}): make it smaller", 2)
    except OSError as error:
        _fail(f"cannot print the result: {error.strerror}", 2)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        # how the parser says that an option or a value is wrong
        _fail(error.format_message(), 2)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> NoReturn:
    if sys.stderr is not None:
        print("ucfh: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(code)
