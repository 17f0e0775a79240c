"""What a log proves, as ``ucfh certify`` prints and writes it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isnan
from typing import TYPE_CHECKING, Any

from ucfh.cli.log_summary import print_notes
from ucfh.cli.printing import certificate_lines, print_json, print_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ucfh.certificate import DataEstimate
    from ucfh.reporting.log_report import LogReport

PAGES = (".html", ".htm")


@dataclass(frozen=True)
class OutputFiles:
    """The files to write."""

    policy: str | None
    html: str | None
    plot: str | None
    force: bool

    def check(self, inputs: Sequence[str]) -> None:
        """Refuse, before the work, what could not be written or would overwrite its input."""
        from ucfh._utils import plotting
        from ucfh._utils.files import check_outputs
        from ucfh.io import policies

        outputs = [
            (self.policy, policies.ENDINGS),
            (self.html, PAGES),
            (self.plot, plotting.ENDINGS),
        ]
        check_outputs(outputs, inputs, self.force)

    def write(self, answer: LogReport) -> dict[str, str]:
        """Write them, a figure last, which depends on most; what was written, by kind."""
        from ucfh._utils.files import write_text
        from ucfh.io import policies
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


def show_answer(answer: LogReport, files: OutputFiles, json: bool) -> None:
    """Print an answer, for a program or a person, and write the files that were asked for."""
    if json:
        print_json(summary(answer))
    else:
        print_answer(answer)
    written = files.write(answer)
    if not json:
        print_lines(written)


def summary(answer: LogReport) -> dict[str, Any]:
    """An answer for programs: numbers, names, and the policy."""
    from ucfh import __version__

    log, known = answer.log, answer.known
    was, more = known.behavior, known.more
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
        "behavior": None if was is None else {k: _known(x) for k, x in asdict(was).items()},
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
    """The policy in rows, by step and state; states in which the task is over are left out."""
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
            "suboptimality": _known(suboptimality[t][s]),
            "visits": visits[t][s],
        }
        for t, line in enumerate(answer.named)
        for s, (state, action) in zip(at, line, strict=True)
    ]


def _known(x: Any) -> Any:
    """The same, or None for nan, which JSON does not have."""
    return None if isinstance(x, float) and isnan(x) else x


def print_answer(answer: LogReport) -> None:
    """An answer for a person."""
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
    for fault in log.faults:
        print_lines({"fault": str(fault)})
    print_lines({"assumed": f"\n{'':>14}".join(known.assumed)})


def _more_words(answer: LogReport, more: DataEstimate) -> str:
    """Return how much more data would reach epsilon, for a person."""
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
        return f"\n{'':>14}".join([f"{head}or declared impossible:", *pairs])
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
