"""``ucfh certify``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isnan
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ucfh._utils.defaults import DELTA
from ucfh.cli.log_options import LogProblem, LogReading, reads_a_log
from ucfh.cli.log_summary import print_notes, show_log
from ucfh.cli.options import AsJson, Delta, Epsilon, Force
from ucfh.cli.printing import (
    NOT_CERTIFIED,
    certificate_lines,
    join_lines,
    print_json,
    print_lines,
)
from ucfh.exceptions import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ucfh.certificate import DataEstimate
    from ucfh.reporting.log_report import LogReport


@reads_a_log
def certify(
    log: LogReading,
    problem: LogProblem = None,
    unknown: Annotated[
        list[str] | None,
        typer.Option(help="do not use from --problem: rewards, successors or initial; repeatable"),
    ] = None,
    epsilon: Epsilon = 0.1,
    delta: Delta = DELTA,
    check: Annotated[
        bool, typer.Option("--check", help="only explain how the log is understood")
    ] = False,
    policy: Annotated[str | None, typer.Option(help="write the policy: .csv or .json")] = None,
    html: Annotated[
        str | None,
        typer.Option(help="write a page that explains the answer to anybody: .html"),
    ] = None,
    plot: Annotated[
        str | None, typer.Option(help="draw the bounds and the policy: .png, .svg or .pdf")
    ] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Certify a policy from a log.

    Any behavior policy may have collected the log. Prints a policy, a lower bound on its value, an
    upper bound on the value of any policy, and its optimality gap; exit code 3 if the gap may
    exceed epsilon. Rows that are missing because of their outcome void the bounds: a log with more
    than a few missing rows in a thousand, or all of one step, state or action, is refused.

    \b
    Examples:
      ucfh certify shop.csv --check
      ucfh certify shop.csv --epsilon 0.2 --policy shop-policy.csv --html shop.html
      ucfh certify shop.csv --states door,browsing,paid,left --horizon 4 --json
      ucfh certify exam.csv --rewards 0,100 --max-return 100 --segments 9
      ucfh certify tutoring.csv --problem tutoring
    """
    from ucfh.certification import certificate_from_log
    from ucfh.problems import make
    from ucfh.reporting.log_report import answer_of

    files = OutputFiles(policy, html, plot, force)
    files.check([path for path in (log.path, problem) if path is not None])
    given = None
    if problem is not None:
        given = make(problem).problem.hiding(*cast(Any, unknown or []))
    elif unknown:
        raise InputError("--unknown is about --problem: pass that too, or leave --unknown out")
    data = log.read(given, force)
    if check:
        show_log(log.path, data, json)
        return
    known = certificate_from_log(data, delta, epsilon)
    show_report(answer_of(log.path, data, known), files, json)
    raise typer.Exit(0 if known.certified else NOT_CERTIFIED)


@dataclass(frozen=True)
class OutputFiles:
    """The files to write."""

    policy: str | None
    html: str | None
    plot: str | None
    force: bool

    def check(self, inputs: Sequence[str]) -> None:
        """Raise, before any work, if a file cannot be written or would overwrite an input."""
        from ucfh import policies
        from ucfh._utils import plotting
        from ucfh._utils.files import check_outputs

        outputs = [
            (self.policy, policies.ENDINGS),
            (self.html, (".html", ".htm")),
            (self.plot, plotting.ENDINGS),
        ]
        check_outputs(outputs, inputs, self.force)

    def write(self, answer: LogReport) -> dict[str, str]:
        """Write the files, and return their paths by kind."""
        from ucfh import policies
        from ucfh._utils.files import write_text
        from ucfh.reporting.figure import plot_answer
        from ucfh.reporting.page import answer_page

        written: dict[str, str] = {}
        if self.policy is not None:
            policies.write_named(answer.named, self.policy, self.force, answer.log.times)
            written["policy"] = self.policy
        if self.html is not None:
            write_text(self.html, answer_page(answer), self.force)
            written["page"] = self.html
        if self.plot is not None:
            plot_answer(answer, self.plot, self.force)
            written["figure"] = self.plot
        return written


def show_report(answer: LogReport, files: OutputFiles, json: bool) -> None:
    """Print a report as JSON or text, and write the files."""
    if json:
        print_json(summary(answer))
    else:
        print_report(answer)
    written = files.write(answer)
    if not json:
        print_lines(written)


def summary(answer: LogReport) -> dict[str, Any]:
    """Return a report as a JSON object."""
    from ucfh import __version__

    log, known = answer.log, answer.known
    behavior, more = known.behavior, known.more
    return {
        "log": answer.source,
        "rows": log.rows,
        "counted": log.counted,
        **known.as_dict(),
        "certified": known.certified,
        "more_status": more and more.status,
        "more_episodes": 0.0 if known.certified else more and more.episodes,
        "gap_limit": more and more.limit,
        "untried": [] if more is None else [vars(x) for x in more.untried],
        "behavior": behavior and {k: _or_none(x) for k, x in asdict(behavior).items()},
        "improvement": known.improvement,
        "states": log.states.count,
        "actions": log.actions.count,
        "state_names": [log.states.label(s) for s in range(log.states.count)],
        "action_names": [log.actions.label(a) for a in range(log.actions.count)],
        "horizon": log.horizon,
        "truncated": log.truncated,
        "first_step": log.times.start,
        "step_length": log.times.step,
        "rewards": [log.units.low, log.units.high],
        "max_return": log.max_return,
        "faults": [str(fault) for fault in log.faults],
        "policy": policy_rows(answer),
        "version": __version__,
    }


def policy_rows(answer: LogReport) -> list[dict[str, Any]]:
    """Return the policy as rows, by step and state, without terminal states."""
    known = answer.known
    assert known.suboptimality is not None
    assert known.visits is not None
    suboptimality, visits = known.suboptimality.tolist(), known.visits.tolist()
    over = set(answer.over)
    at = [s for s in range(answer.log.states.count) if s not in over]
    return [
        {
            "t": answer.log.times[t],
            "state": state,
            "action": action,
            "suboptimality": _or_none(suboptimality[t][s]),
            "visits": visits[t][s],
        }
        for t, line in enumerate(answer.named)
        for s, (state, action) in zip(at, line, strict=True)
    ]


def _or_none(x: Any) -> Any:
    """Return ``x``, or None for nan, which JSON lacks."""
    return None if isinstance(x, float) and isnan(x) else x


def print_report(answer: LogReport) -> None:
    """Print a report as text."""
    log, known, more = answer.log, answer.known, answer.known.more
    lines = {
        "log": f"{answer.source}: {log.episodes} episodes, {log.counted} of {log.rows} rows "
        "counted",
        "problem": f"{log.states.count} states{'' if log.closed else ' shown'}, "
        f"{log.actions.count} actions, {log.horizon} steps",
        **certificate_lines(known, log.states, log.actions, answer.segment_word, answer.log.times),
    }
    if more is not None:
        lines["more"] = _more_words(answer, more)
    print_lines(lines)
    print_notes(log)
    for issue in log.faults:
        print_lines({"fault": str(issue)})
    print_lines({"assumed": join_lines(known.assumed)})


def _more_words(answer: LogReport, more: DataEstimate) -> str:
    """Describe the amount of data that would reach epsilon."""
    from ucfh._utils.formatting import rough_count
    from ucfh.reporting.log_report import accuracy_words

    epsilon = f"epsilon {answer.known.epsilon:g}"
    if more.episodes is not None:
        return (
            f"about {rough_count(more.episodes)} more episodes of this kind to reach {epsilon} "
            f"({accuracy_words(answer.known.episodes)})"
        )
    if more.status == "untried":
        pairs = [answer.pair(x) for x in answer.untried]
        head = "no number of episodes is enough unless actions that were never tried are tried, "
        return join_lines([f"{head}or declared impossible:", *pairs])
    if more.limit is not None and more.status == "missing_outcomes":
        return (
            f"no number can be given: missing outcomes alone keep the gap at about {more.limit:.3g}"
            f", however many episodes of this kind there are"
        )
    if more.status == "over_1000_times":
        return (
            f"more than 1,000 times as many episodes of this kind to reach {epsilon} (an estimate)"
        )
    return f"how many more episodes of this kind reach {epsilon} cannot be estimated"
