"""``ucfh learn env:NAME``: learning from an environment that is only stepped."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ucfh._utils.files import Labels, check_outputs
from ucfh.cli.options import read_range, read_segments
from ucfh.cli.printing import NOT_CERTIFIED, certificate_lines, print_json, print_lines
from ucfh.cli.progress import ProgressBar
from ucfh.exceptions import InputError

if TYPE_CHECKING:
    from ucfh.envs.learning import LearningResult


@dataclass(frozen=True)
class EnvironmentDeclaration:
    """What is declared about the environment, and how long to learn."""

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
    """What env:NAME,horizon=H,setting=value says."""
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
    """Learn from an environment, or from a problem of which nothing is told."""
    from ucfh._utils import plotting
    from ucfh.envs import log_writer, state_file
    from ucfh.envs.learning import LearningError, learn
    from ucfh.io import policies
    from ucfh.problems import make
    from ucfh.problems._text import read_arguments

    if refused:
        raise InputError(f"{refused[0]} is not for an agent that is told nothing: leave it out")
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
    fault: InputError | None = None
    with ProgressBar() as bar:
        try:
            found = learn(
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
            fault, found = error, error.result
    if json:
        print_json(summary(problem, found, declared, fault))
    else:
        print_learned(problem, found)
    if found.has_data:
        _write(found, problem, files, json)
    if fault is not None:
        raise fault
    if found.interrupted:
        how = "" if files.save is None else f"; continue with --resume {files.save}"
        raise KeyboardInterrupt(f"this is what was learned until then{how}")
    if found.certificate.refuted:
        sys.exit(NOT_CERTIFIED)


def _report(bar: ProgressBar, most: int | None, found: LearningResult) -> None:
    """Show how the bounds close in."""
    if not bar.watched:
        return
    # the gap falls about like a power of the episodes: so much of the way is done
    done = (found.epsilon / max(found.gap, found.epsilon)) ** 1.5
    if most is not None:
        done = max(done, found.episodes / most)
    bar.show(
        f"{found.episodes:.3g} episodes, {len(found.states)} states: best policy <= "
        f"{found.upper:.3f}, this one >= {found.lower:.3f}, loss <= {found.gap:.3f} "
        f"(wanted: {found.epsilon:g})",
        done,
    )


def _write(found: LearningResult, problem: str, files: Files, json: bool) -> None:
    """Write the files that were asked for, a figure last, which depends on most."""
    from ucfh.simulation.plots import BoundsCurve, plot_bounds

    written: dict[str, str] = {}
    if found.contradiction is not None:  # only the data are true
        files = replace(files, save=None, policy=None, plot=None)
    if files.save is not None:  # first: nothing else can be had again
        found.save(files.save, files.force)
        written["saved"] = files.save
    if files.policy is not None:
        found.policy.write(files.policy, files.force)
        written["policy"] = files.policy
    if files.log is not None:
        written["log"] = files.log
    if files.plot is not None and found.history:
        columns = ([float(x) for x in column] for column in zip(*found.history, strict=True))
        title = f"{problem}: open world, {len(found.states)} states found"
        certified = found.certificate.certified
        plot_bounds(BoundsCurve(*columns), found.epsilon, certified, title, files.plot, files.force)
        written["figure"] = files.plot
    if not json:
        print_lines(written)


def why_it_ended(found: LearningResult) -> str:
    """Why learning ended, in a few words."""
    known = found.certificate
    if known.certified:
        return "certified"
    if known.refuted:
        return "stopped: the data contradict the assumptions"
    if found.fault:
        return "stopped by a fault; not certified"
    return "interrupted" if found.interrupted else "the limit that was given; not certified"


def summary(
    problem: str, found: LearningResult, declared: EnvironmentDeclaration, fault: InputError | None
) -> dict[str, Any]:
    """What was learned in a few numbers, for programs."""
    from ucfh import __version__
    from ucfh._utils.clock import compile_seconds

    known = found.certificate
    return {
        "problem": problem,
        "agent": "open-ucfh",
        **known.as_dict(),
        "gap": None,
        "gap_bound": None if known.contradiction is not None else known.gap,
        "seed": declared.seed,
        "phases": len(found.history),
        "mistakes": None,
        "bound": None,
        "value": None,
        "optimal": None,
        "certified": known.certified,
        "final": known.certified or known.refuted,
        "interrupted": found.interrupted,
        "fault": None if fault is None else str(fault),
        "states": len(found.states),
        "actions": found.world.actions,
        "horizon": found.horizon,
        "truncated": found.truncated,
        "rewards": [found.units.low, found.units.high],
        "max_return": found.max_return,
        "steps": found.steps,
        "seconds": found.seconds,
        "planning_seconds": found.planning_seconds,
        "compile_seconds": compile_seconds(),
        "version": __version__,
    }


def _truncated_line(found: LearningResult) -> dict[str, str]:
    """How many episodes of an environment were cut at the horizon, if any."""
    if found.audit is None or not found.truncated:  # an MDP has no other end
        return {}
    share = f"{found.truncated / found.episodes:.0%}"
    return {
        "cut": f"{share} of episodes were cut at step {found.horizon}; later rewards do not count"
    }


def print_learned(problem: str, found: LearningResult) -> None:
    """What was learned, for a person."""
    known, world = found.certificate, found.world
    names = tuple(world.name_of(s) for s in range(1, len(world.labels)))
    segments = found.agent.experience.P
    most = "" if found.max_return is None else f", at most {found.max_return:g} an episode"
    lines = {
        "problem": f"{problem}: {len(names)} states found, {world.actions} actions, "
        f"{found.horizon} steps; rewards in {found.units}{most}",
        "agent": f"open-ucfh, told nothing else; epsilon {found.epsilon:g}, delta {known.delta:g}",
        "episodes": f"{found.episodes} ({why_it_ended(found)})",
        **_truncated_line(found),
        **certificate_lines(
            known,
            Labels("state", names, len(names)),
            Labels("action", tuple(world.action_names), world.actions),
            {found.horizon: "step", 1: ""}.get(segments, "segment"),
        ),
        "assumed": f"\n{'':>14}".join(known.assumed),
        "took": f"{found.seconds:.2f} s for {found.steps} steps, "
        f"{found.planning_seconds:.2f} s of it to count and plan",
    }
    print_lines(lines)
