"""Planning again after one row changed, against planning afresh; every result is compared."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from report import Report, best

from ucfh import UCFH, make, simulate
from ucfh.confidence.intervals import confidence_set
from ucfh.planning import PhasePlanner, extended_value_iteration, occupancy

GRID = "grid:rows=100,cols=100,horizon=200"
RANDOM = "random:states=100,actions=4,successors=10,horizon=50"
CHANGES = 30
VISITS, DELTA_1 = 10_000, 1e-9


def one_row(known: float) -> list[float]:
    """How many times faster, where a share of the rows is known and the policy takes the row."""
    rng = np.random.default_rng(0)
    mdp = make(GRID)
    table = mdp.table
    n = np.where(rng.random(table.rows) < known, VISITS * 2 ** rng.integers(0, 6, table.rows), 0)
    lo, hi = confidence_set(mdp.p, n[table.row_of_entry], DELTA_1)
    planner = PhasePlanner(table, mdp.horizon)
    planner.plan(lo, hi, mdp.rewards)
    afresh = best(lambda: extended_value_iteration(table, lo, hi, mdp.rewards, mdp.horizon), 4)
    faster = []
    for _ in range(CHANGES):
        rows = table.rows_of(planner.policy, mdp.horizon)
        t = rng.integers(mdp.horizon)
        row = int(rows[t, rng.choice(np.flatnonzero(occupancy(table, mdp.p, rows)[t]))])
        at, n[row] = table.entries_of(row), max(VISITS, 2 * n[row])
        seen = rng.multinomial(n[row], mdp.p[at] / mdp.p[at].sum()) / n[row]
        lo[at], hi[at] = confidence_set(seen, n[row], DELTA_1)
        started = perf_counter()
        planner.plan(lo, hi, mdp.rewards, changed=row)
        faster.append(afresh / (perf_counter() - started))
        same = extended_value_iteration(table, lo, hi, mdp.rewards, mdp.horizon)
        np.testing.assert_array_equal(planner.values, same.values)
        np.testing.assert_array_equal(planner.policy, same.policy)
    return faster


class Timed(UCFH):
    """Algorithm 1, timing its planning and, next to it, planning afresh."""

    again, afresh = 0.0, 0.0

    def _plan(self, updated: int | None = None) -> None:
        started = perf_counter()
        super()._plan(updated)
        if updated is None or self.problem.rewards is None:
            return
        self.again += perf_counter() - started
        table, box, H = self.problem.table, self.box, self.problem.horizon
        started = perf_counter()
        plan = extended_value_iteration(table, box.lo, box.hi, self.problem.rewards, H)
        self.afresh += perf_counter() - started
        np.testing.assert_array_equal(plan.policy, self.policy)


def lifetime(name: str, episodes: int | None) -> list[str]:
    """Seconds of planning over a life, with an m that lets it end or show all kinds of phases."""
    mdp = make(name)
    agent = Timed(mdp.problem, 1.0, 0.1, m=1e8 if episodes else 1e4)
    run = simulate(mdp, agent, episodes, method="step" if episodes else "bulk")
    life = f"{run.updates} updates" + (f", first {episodes} episodes" if episodes else ", whole")
    times = [f"{agent.afresh:.3g}", f"{agent.again:.3g}", f"{agent.afresh / agent.again:.1f}"]
    return [f"{name} ({life})", *times]


def main(report: Report) -> None:
    report.say(
        "## Planning again after one row changed",
        "",
        f"{GRID}, a row that the policy takes: how many times faster than planning afresh, to "
        "the same bits.",
    )
    rows = []
    for known, name in ((0.0, "nothing known yet"), (0.5, "half of the rows"), (1.0, "all rows")):
        faster = one_row(known)
        rows.append([name, *(f"{x:.3g}" for x in (np.median(faster), min(faster), max(faster)))])
    report.table(["known before", "median", "least", "most"], rows)
    report.say("Seconds of planning over a life of UCFH:")
    lives = [lifetime(GRID, 10), lifetime(RANDOM, None)]
    report.table(["", "afresh", "again", "afresh / again"], lives)


if __name__ == "__main__":
    main(Report())
