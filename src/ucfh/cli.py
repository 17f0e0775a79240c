"""The command line: parse, call, print. Results go to stdout, progress and errors to stderr."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from ucfh.errors import InputError

app = typer.Typer(
    name="ucfh",
    help="Learn a task that repeats and lasts a fixed number of steps, with a guarantee.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Problem = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        help="a name (see: ucfh problems), such as chain:n=8, or a model file, .json or .npz",
        show_default=False,
    ),
]
Epsilon = Annotated[float, typer.Option(help="how much worse than the optimum is still good")]
Delta = Annotated[float, typer.Option(help="the probability with which the guarantee may fail")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object and nothing else")]
Force = Annotated[bool, typer.Option("--force", help="overwrite files that exist")]


@app.command()
def learn(
    problem: Problem,
    epsilon: Epsilon = 0.1,
    delta: Delta = 0.1,
    agent: Annotated[str, typer.Option(help="the learner: ucfh")] = "ucfh",
    paper: Annotated[
        bool, typer.Option("--paper", help="the algorithm as printed: --variant paper")
    ] = False,
    variant: Annotated[
        str, typer.Option(help="its constants: paper, or corrected (for which the theorem holds)")
    ] = "paper",
    confidence: Annotated[str, typer.Option(help="its confidence sets: paper or kl")] = "paper",
    unknown: Annotated[
        list[str] | None,
        typer.Option(help="do not tell the learner: rewards, successors or initial; repeatable"),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(help="run at most so many; default: until the policy is final")
    ] = None,
    seed: Annotated[int, typer.Option(help="of the simulation")] = 0,
    step: Annotated[
        bool, typer.Option("--step", help="walk every episode, in place of exact bulk simulation")
    ] = False,
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
    """Let a learner loose on a problem and count its mistakes exactly.

    The learner never sees the transition probabilities. The run ends when its policy can never
    change again, whole lifetimes of 1e15 episodes included, or at --episodes. Ctrl-C keeps what
    was run.

    \b
    Examples:
      ucfh learn tutoring --epsilon 0.1 --delta 0.1 --paper --plot tutoring.png
      ucfh learn chain:n=8 --variant corrected --confidence kl --json
      ucfh learn calls --unknown rewards --episodes 1000000 --save calls.npz
    """
    from ucfh.commands.learn import run_learn

    if paper and variant != "paper":
        raise InputError(f"--paper and --variant {variant} contradict each other: leave one out")
    run_learn(
        problem,
        agent=agent,
        settings={"variant": variant, "confidence": confidence},
        epsilon=epsilon,
        delta=delta,
        hidden=unknown or [],
        episodes=episodes,
        seed=seed,
        method="step" if step else "bulk",
        plot=plot,
        policy=policy,
        save=save,
        resume=resume,
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
    command = typer.main.get_command(app)
    try:
        code = command.main(args=given or ["--help"], prog_name="ucfh", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except InputError as error:
        _fail(str(error), 2)
    except MemoryError as error:
        _fail(f"the problem does not fit into memory ({error}): make it smaller", 2)
    except OSError as error:
        _fail(f"cannot print the result: {error.strerror}", 2)
    except Exception as error:
        if _was_interrupted(error):
            _fail("interrupted", 130)
        if not hasattr(error, "format_message"):
            raise
        # how the parser says that an option or a value is wrong
        _fail(error.format_message(), 2)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    sys.exit(code if isinstance(code, int) else 0)


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: inside a compiler it may surface as another one."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def _fail(message: str, code: int) -> NoReturn:
    if sys.stderr is not None:
        print("ucfh: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(code)
