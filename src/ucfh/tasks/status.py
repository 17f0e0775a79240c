"""Status of a task, computed from its store alone.

The bounds are those of the newest plan, and stay valid until the next one. The report (largest
sources of uncertainty, assumption checks) may be a few plans older; it has its own number.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ucfh import __version__
from ucfh.tasks.labels import label_of
from ucfh.tasks.records import AHEAD, LAYOUT

if TYPE_CHECKING:
    from ucfh.tasks.config import Declaration
    from ucfh.tasks.records import PlanRecord, Report, StoreCounts
    from ucfh.tasks.task import Task

LEAST, MOST = 0.5, 1.5
"""The least power for which there is an estimate, and the largest that is used."""
WINDOW = 2.0
"""The fit uses plans since the number of episodes was smaller by this factor."""
FARTHEST = 100.0
"""The largest estimate, as a multiple of the number of episodes so far."""
MISSING_FIELDS = ("lost", "conflicts", "waiting", "gap", "gap_if_random")
"""The fields of a certificate about missing outcomes."""


@dataclass(frozen=True)
class TaskStatus:
    """The status of a task.

    Attributes:
        task, store: its name, and its store.
        begun, open, over: numbers of episodes.
        decisions: number of decisions; waiting: of those without an outcome; oldest: the seconds
            since the oldest open one.
        outcomes, lost: numbers of known and of missing outcomes.
        late, faults: numbers of late outcomes, and of all error records.
        conflicts: number of outcomes with contradictory reports, which count as missing.
        states: number of states.
        policy: the number of the newest policy, 0 if there is none; age: its age in seconds;
            made_from: its number of episodes.
        upper, lower, gap, certified: the bounds of the newest plan; None (certified: False) before
            it, and while they have to be computed again.
        refuted: whether the assumptions were refuted by then.
        planner: the holder of the planning lease, None if there is none.
        error: the last planning error in this process.
        ahead: the seconds by which the last event is ahead of the clock; None up to some minutes.

    """

    task: str
    store: str
    begun: int
    open: int
    over: int
    decisions: int
    waiting: int
    oldest: float | None
    outcomes: int
    lost: int
    late: int
    faults: int
    conflicts: int
    states: int
    policy: int
    age: float | None
    made_from: int
    upper: float | None
    lower: float | None
    gap: float | None
    certified: bool
    refuted: bool
    planner: str | None
    error: str | None
    ahead: float | None

    def __str__(self) -> str:
        wait = "" if self.oldest is None else f", the oldest for {_for(self.oldest)}"
        lines = [
            f"{self.task} in {self.store}: {self.begun} episodes, of which {self.open} are open",
            f"{self.waiting} decisions wait for their outcome{wait}",
            f"{self.outcomes} outcomes, {self.lost} missing; {self.faults} faults, {self.late} of "
            f"them outcomes that came too late; {self.states} states",
        ]
        if self.conflicts:
            lines.append(
                f"{self.conflicts} outcomes have contradictory reports and count as missing"
            )
        if self.policy == 0 or self.age is None:
            lines.append("there is no policy yet: the first action is taken in every state")
        else:
            lines.append(
                f"policy {self.policy}, {_for(self.age)} old, from {self.made_from} episodes"
            )
        if self.refuted:
            lines.append("not certified: the assumptions are refuted (see the certificate)")
        elif self.gap is not None:
            what = "certified" if self.certified else "not certified"
            lines.append(
                f"{what}: it earns at least {self.lower:.4g} per episode, no policy more than "
                f"{self.upper:.4g}, and it is within {self.gap:.4g} of optimal"
            )
        elif self.policy:
            lines.append("not certified: the bounds are being computed again")
        if self.ahead is not None:
            lines.append(
                f"the last event is dated {_for(self.ahead)} later than the clock, which jumped. "
                "Fix: set the clock, and run ucfh task check"
            )
        if self.error is not None:
            lines.append(f"planning failed, and is tried again: {self.error}")
        return "\n".join(lines)


def _for(seconds: float) -> str:
    """Format a duration."""
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def status_of(task: Task) -> TaskStatus:
    """Return the status of a task."""
    store, number = task.store, task.number
    n = store.counts(number)
    newest = next(iter(store.plans(number, store.newest_number(number) - 1)), None)
    return _status(task, n, newest, task_state(newest, store.report(number), n.contradictions))


def _status(task: Task, n: StoreCounts, newest: PlanRecord | None, state: str) -> TaskStatus:
    store, number = task.store, task.number
    lease, now = store.lease(number), time.time()
    known = (
        newest.summary if newest is not None and _valid(newest.summary, n.contradictions) else {}
    )
    return TaskStatus(
        task=task.name,
        store=store.name,
        begun=n.begun,
        open=n.open,
        over=n.begun - n.open,
        decisions=n.decisions,
        waiting=n.waiting,
        oldest=None if n.oldest is None else max(0.0, now - n.oldest),
        outcomes=n.outcomes,
        lost=n.lost,
        late=n.late,
        faults=n.faults,
        conflicts=n.conflicts,
        states=n.states,
        policy=0 if newest is None else newest.number,
        age=None if newest is None else max(0.0, now - newest.made),
        made_from=0 if newest is None else newest.episodes,
        upper=known.get("upper"),
        lower=known.get("lower"),
        gap=known.get("gap"),
        certified=state == "certified",
        refuted=state == "refuted",
        planner=None if lease is None or lease[1] < 0 else lease[0],
        error=task.planning_error,
        ahead=n.ahead if n.ahead > AHEAD else None,
    )


def declaration_dict(declaration: Declaration) -> dict[str, Any]:
    """Return a declaration as JSON types."""
    expiry = declaration.on_timeout
    states = declaration.states
    return {
        "actions": declaration.action_labels,
        "horizon": declaration.horizon,
        "epsilon": declaration.epsilon,
        "delta": declaration.delta,
        "rewards": declaration.rewards,
        "max_return": declaration.max_return,
        "states": None if states is None else [label_of(text) for text, _ in states],
        "segments": declaration.segments,
        "timeout": declaration.timeout,
        "on_timeout": expiry if isinstance(expiry, str) else [label_of(expiry[0]), expiry[1]],
    }


def view_of(task: Task, after: int) -> dict[str, Any]:
    """Return the dashboard data of a task, with the plans whose numbers are above ``after``."""
    store, number, declaration = task.store, task.number, task.declaration
    n, stored, report = store.counts(number), store.plans(number, 0), store.report(number)
    newest = stored[-1] if stored else None
    state, left = task_state(newest, report, n.contradictions), None
    status = asdict(_status(task, n, newest, state))
    del status["store"]
    plans = [
        x for x in stored if _valid(x.summary, n.contradictions) and x.summary["gap"] is not None
    ]
    if state not in ("refuted", "stale"):
        gaps = [(x.episodes, x.summary["gap"]) for x in plans]
        left = episodes_left(gaps, declaration.epsilon)
    reported = (
        _report_dict(task, report) if report and _valid(report.content, n.contradictions) else None
    )
    return {
        "task": task.name,
        "version": __version__,
        "now": time.time(),
        "headline": headline(state, newest, reported, left, declaration, status["outcomes"]),
        "state": "learning" if state == "stale" else state,
        "declaration": declaration_dict(declaration),
        "status": status,
        "remaining": left,
        "plans": [_plan(x) for x in plans if x.number > after],
        "report": reported,
    }


def _valid(content: dict[str, Any], contradictions: int) -> bool:
    """True if a plan or a report took account of all contradictory reports."""
    return content.get("layout") == LAYOUT and content["contradictions"] == contradictions


def task_state(newest: PlanRecord | None, report: Report | None, contradictions: int) -> str:
    """Return the state of a task: new, learning, certified, refuted, or stale.

    Stale: the bounds have to be computed again. A report may include more events than its plan.
    """
    if newest is None:
        return "new"
    if not _valid(newest.summary, contradictions):
        return "stale"
    known = (
        report.content["certificate"] if report and _valid(report.content, contradictions) else {}
    )
    if newest.summary["refuted"] or known.get("contradiction") or known.get("findings"):
        return "refuted"
    return "certified" if newest.summary["certified"] else "learning"


def headline(
    state: str,
    newest: PlanRecord | None,
    report: dict[str, Any] | None,
    left: int | None,
    declaration: Declaration,
    outcomes: int,
) -> str:
    """Return a sentence on certification, the optimality gap, and the remaining episodes."""
    if newest is None:
        why = "the first plan is yet to be made" if outcomes else "no outcome is known"
        return f"Nothing is known yet: {why}."
    if state == "stale":
        return "Not certified: the bounds are being computed again."
    if state == "refuted":
        found = [] if report is None else report["findings"]
        if found:
            assumption = found[0]["assumption"]
            return f"Not certified: the outcomes contradict the assumption that {assumption}."
        return (
            "Not certified: the bounds contradict each other, so an assumption is violated or "
            "ucfh has an error."
        )
    gap, sure = newest.summary["gap"], f"{100 * (1 - declaration.delta):g}% confidence"
    if state == "certified":
        return (
            f"Certified: this policy loses at most {gap:.3g} per episode against the best one "
            f"({sure}); {declaration.epsilon:g} was asked for."
        )
    rest = "how many more episodes it takes cannot be said yet"
    if left is not None:
        rest = f"about {_rounded(left):,} more episodes"
    return (
        f"Not certified yet: this policy may lose up to {gap:.3g} per episode against the best one "
        f"({sure}), and {declaration.epsilon:g} is asked for; {rest}."
    )


def episodes_left(plans: Sequence[tuple[int, float]], epsilon: float) -> int | None:
    """Return the estimated number of episodes until the gap is epsilon, or None.

    The optimality gap after n episodes behaves like n^-b: b = 1/2 if the data only sharpen the same
    probabilities, and b is larger during exploration. So b is fitted to the plans since n/2, and
    the gap reaches epsilon at

        n (gap / epsilon)^(1/b)

    If the gap shrinks more slowly than n^-1/2, it stagnates for some reason (an untried action,
    missing outcomes), and there is no estimate.

    Args:
        plans: (episodes, gap) of each plan, in order.
        epsilon: the target accuracy.

    >>> episodes_left([(n, 10 * n**-0.5) for n in (100, 120, 150, 200, 300, 400)], 0.25)
    1200
    >>> episodes_left([(n, 0.9) for n in (100, 120, 150, 200, 300, 400)], 0.25) is None
    True
    """
    if not plans or plans[-1][0] < 1:
        return None
    n, gap = plans[-1]
    if gap <= epsilon:
        return 0
    recent = np.log([x for x in plans if x[0] >= n / WINDOW and x[1] > 0])  # (k, 2)
    if len(recent) < 3 or np.ptp(recent[:, 0]) < np.log(WINDOW) / 2:
        return None
    power = -np.polyfit(recent[:, 0], recent[:, 1], 1)[0]
    if power < LEAST - 1e-9:
        return None
    reached = (gap / epsilon) ** (1 / min(power, MOST))
    return None if reached > FARTHEST else round(n * (reached - 1))


def _rounded(count: int) -> int:
    """A count rounded up to two digits."""
    scale = int(10 ** max(0, len(str(count)) - 2))
    return -(-count // scale) * scale


def _plan(plan: PlanRecord) -> dict[str, Any]:
    bounds = {key: plan.summary[key] for key in ("upper", "lower", "gap")}
    return {
        "number": plan.number,
        "made": plan.made,
        "episodes": plan.episodes,
        "outcomes": plan.known,
        **bounds,
    }


def _report_dict(task: Task, report: Report) -> dict[str, Any]:
    """The content of a report, with names in place of numbers."""
    known, audit = report.content["certificate"], report.content["audit"]
    names, actions = task.states.names, task.declaration.action_names
    refuted = {x["name"] for x in audit["findings"]}
    return {
        "number": report.number,
        "made": report.made,
        "episodes": known["episodes"],
        "missing": [
            {
                "segment": x["segment"],
                # the certificate leaves out the end, which is the first of all names
                "state": names[x["state"] + 1] if x["state"] >= 0 else None,
                "action": actions[x["action"]] if x["state"] >= 0 else None,
                "visits": x["visits"],
                "share": x["share"],
            }
            for x in known["missing"]
        ],
        "losses": {key: known[key] for key in MISSING_FIELDS},
        "assumed": known["assumed"],
        "tested": [{**x, "refuted": x["name"] in refuted} for x in audit["tested"]],
        "findings": audit["findings"],
        "contradiction": known["contradiction"],
    }


def policy_table(task: Task) -> dict[str, Any]:
    """Return the policy of the newest bounds: the number of an action for each step and state.

    Terminal states are left out.
    """
    newest, index = task.store.newest_policy(task.number), task.states
    count = 0 if newest is None else newest.best.shape[1]
    listed = [s for s in range(1, count) if index.actions[s] != ()]
    return {
        "policy": 0 if newest is None else newest.number,
        "horizon": task.declaration.horizon,
        "actions": task.declaration.action_labels,
        "states": [index.labels[s] for s in listed],
        "table": [] if newest is None else newest.best[:, listed].tolist(),
        "changed": [] if newest is None else newest.changed[:, listed].tolist(),
    }
