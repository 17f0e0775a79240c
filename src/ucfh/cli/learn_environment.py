"""``ucfh learn env:NAME``: learning from an environment that is only stepped."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ucfh._utils.files import Labels, check_outputs
from ucfh._utils.formatting import segment_noun
from ucfh.cli.options import read_range, read_segments
from ucfh.cli.printing import (
    NOT_CERTIFIED,
    certificate_lines,
    join_lines,
    print_json,
    print_lines,
)
from ucfh.cli.progress import ProgressBar
from ucfh.exceptions import InputError

if TYPE_CHECKING:
    from ucfh.envs.learning import LearningResult


@dataclass(frozen=True)
class EnvironmentDeclaration:
    """The declarations of an environment, and the limit of a run."""

    episodes: int | None
    seed: int
    rewards: str | None
    max_return: float | None
    segments: str | None
    masks: bool


@dataclass(frozen=True)
class Files:
    """The files to write and to read."""

    log: str | None
    plot: str | None
    policy: str | None
    save: str | None
    resume: str | None
    force: bool


def environment(
    name: str, /, *, horizon: int | None = None, **settings: int | float | bool | str
) -> tuple[str, int | None, dict[str, Any]]:
    """Return the parts of env:NAME,horizon=H,setting=value."""
    return name, horizon, settings


def learn_from(
    problem: str,
    epsilon: float,
    delta: float,
    declared: EnvironmentDeclaration,
    files: Files,
    json: bool,
    refused: list[str],
) -> None:
    """Learn from an environment, or from a problem without prior knowledge."""
    from ucfh import policies
    from ucfh._utils import plotting
    from ucfh._utils.plugins import read_arguments
    from ucfh.envs import log_writer, state_file
    from ucfh.envs.learning import LearningError, learn
    from ucfh.problems import make

    if refused:
        raise InputError(f"{refused[0]} is not for an agent without prior knowledge: leave it out")
    outputs = [
        (files.policy, policies.ENDINGS),
        (files.save, state_file.ENDINGS),
        (files.plot, plotting.ENDINGS),
        (None if files.resume else files.log, log_writer.ENDINGS),
    ]
    check_outputs(outputs, [files.resume] if files.resume else [], files.force)
    horizon, settings = None, None
    env: Any
    if problem.startswith("env:"):
        given, named = read_arguments("env", environment, problem.removeprefix("env:").strip())
        env, horizon, settings = environment(*given, **named)
    else:
        env = make(problem)
    failure: InputError | None = None
    with ProgressBar() as bar:
        try:
            result = learn(
                env,
                epsilon,
                delta,
                horizon=horizon,
                settings=settings,
                rewards=read_range(declared.rewards),
                max_return=declared.max_return,
                episodes=declared.episodes,
                seed=declared.seed,
                masks=declared.masks,
                segments=read_segments(declared.segments),
                resume=files.resume,
                log=files.log,
                force=files.force,
                progress=partial(_report, bar, declared.episodes),
            )
        except LearningError as error:
            failure, result = error, error.result
    if json:
        print_json(summary(problem, result, declared, failure))
    else:
        print_learned(problem, result)
    if result.has_data:
        _write(result, problem, files, json)
    if failure is not None:
        raise failure
    if result.interrupted:
        how = "" if files.save is None else f"; continue with --resume {files.save}"
        raise KeyboardInterrupt(f"this is what was learned until then{how}")
    if result.certificate.refuted:
        sys.exit(NOT_CERTIFIED)


def _report(bar: ProgressBar, most: int | None, result: LearningResult) -> None:
    """Show how the bounds close in."""
    if not bar.watched:
        return
    # the gap falls about like a power of the episodes: so much of the way is done
    done = (result.epsilon / max(result.gap, result.epsilon)) ** 1.5
    if most is not None:
        done = max(done, result.episodes / most)
    bar.show(
        f"{result.episodes:.3g} episodes, {len(result.states)} states: best policy <= "
        f"{result.upper:.3f}, this one >= {result.lower:.3f}, loss <= {result.gap:.3f} "
        f"(wanted: {result.epsilon:g})",
        done,
    )


def _write(result: LearningResult, problem: str, files: Files, json: bool) -> None:
    """Write the requested files, the figure last."""
    from ucfh.simulation.plots import BoundsCurve, plot_bounds

    written: dict[str, str] = {}
    if result.contradiction is not None:  # only the data are true
        files = replace(files, save=None, policy=None, plot=None)
    if files.save is not None:  # first: nothing else can be had again
        result.save(files.save, files.force)
        written["saved"] = files.save
    if files.policy is not None:
        result.policy.write(files.policy, files.force)
        written["policy"] = files.policy
    if files.log is not None:
        written["log"] = files.log
    if files.plot is not None and result.history:
        columns = ([float(x) for x in column] for column in zip(*result.history, strict=True))
        title = f"{problem}: open world, {len(result.states)} states found"
        certified = result.certificate.certified
        plot_bounds(
            BoundsCurve(*columns), result.epsilon, certified, title, files.plot, files.force
        )
        written["figure"] = files.plot
    if not json:
        print_lines(written)


def why_it_ended(result: LearningResult) -> str:
    """Return the reason why learning ended."""
    known = result.certificate
    if known.certified:
        return "certified"
    if known.refuted:
        return "stopped: the data contradict the assumptions"
    if result.fault:
        return "stopped by a fault; not certified"
    return "interrupted" if result.interrupted else "the limit that was given; not certified"


def summary(
    problem: str,
    result: LearningResult,
    declared: EnvironmentDeclaration,
    failure: InputError | None,
) -> dict[str, Any]:
    """Return the result of learning as a JSON object."""
    from ucfh import __version__

    known = result.certificate
    return {
        "problem": problem,
        "agent": "open-ucfh",
        **known.as_dict(),
        "gap": None,
        "gap_bound": None if known.contradiction is not None else known.gap,
        "seed": declared.seed,
        "phases": len(result.history),
        "mistakes": None,
        "bound": None,
        "value": None,
        "optimal": None,
        "certified": known.certified,
        "final": known.certified or known.refuted,
        "interrupted": result.interrupted,
        "fault": None if failure is None else str(failure),
        "states": len(result.states),
        "actions": result.world.actions,
        "horizon": result.horizon,
        "truncated": result.truncated,
        "rewards": [result.units.low, result.units.high],
        "max_return": result.max_return,
        "steps": result.steps,
        "seconds": result.seconds,
        "planning_seconds": result.planning_seconds,
        "version": __version__,
    }


def _truncated_line(result: LearningResult) -> dict[str, str]:
    """Return the line on truncated episodes, if there are any."""
    if result.audit is None or not result.truncated:  # an MDP has no other end
        return {}
    share = f"{result.truncated / result.episodes:.0%}"
    return {
        "cut": f"{share} of episodes were cut at step {result.horizon}; later rewards do not count"
    }


def print_learned(problem: str, result: LearningResult) -> None:
    """Print the result of learning as text."""
    known, world = result.certificate, result.world
    names = tuple(world.name_of(s) for s in range(1, len(world.labels)))
    segments = result.agent.experience.P
    most = "" if result.max_return is None else f", at most {result.max_return:g} an episode"
    lines = {
        "problem": f"{problem}: {len(names)} states found, {world.actions} actions, "
        f"{result.horizon} steps; rewards in {result.units}{most}",
        "agent": f"open-ucfh, no other prior knowledge; epsilon {result.epsilon:g}, "
        f"delta {known.delta:g}",
        "episodes": f"{result.episodes} ({why_it_ended(result)})",
        **_truncated_line(result),
        **certificate_lines(
            known,
            Labels("state", names, len(names)),
            Labels("action", tuple(world.action_names), world.actions),
            segment_noun(segments, result.horizon),
        ),
        "assumed": join_lines(known.assumed),
        "took": f"{result.seconds:.2f} s for {result.steps} steps, "
        f"{result.planning_seconds:.2f} s of it to count and plan",
    }
    print_lines(lines)
