"""What a user would pick instead: Gymnasium's Q-learning, and DQN and PPO of Stable-Baselines3.

All learn the same tasks of H steps, with the same number of episodes. Measured exactly, on the true
model: after how many episodes the policy that one would take is within epsilon of optimal for the
first time, and for good; what all episodes lost (regret); seconds of one core. None of the others
can say when that is; ours stops with a certificate, and the episode of that is listed.

Ours is `ucfh.learn`, which steps the same environment and is told the number of steps, the range
of rewards, the largest return, and of tutoring that the last step is special; and `CertifiedUCFH`,
which is told rewards, successors and the actions of each state besides.

Every run is kept in results/alternatives.jsonl: what was interrupted continues there; delete the
file to begin anew. Tables and runs go to benchmarks/alternatives.md and .json. Needs .venv-sb3,
which `make alternatives` makes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from math import inf
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
from peers import q_learning
from peers.episodic import Floats, Record, Task, deterministic, environment
from report import Report, machine

from ucfh import CertifiedUCFH, LearningResult, learn, make, simulate
from ucfh._utils.statistics import median_interval

HERE = Path(__file__).parent
SB3 = HERE.parent / ".venv-sb3"
KEPT = HERE.parent / "results" / "alternatives.jsonl"
EPSILON, DELTA = 0.1, 0.1
EPISODES, SEEDS, DEEP_SEEDS = 5_000, 10, 5
MOST = 1_000_000
"""Episodes after which ours would give up."""


class Setup(NamedTuple):
    """A problem, and what `ucfh.learn` is told of it."""

    name: str
    env: str = ""
    segments: tuple[int, ...] = ()
    max_return: float = 1.0


PROBLEMS = {
    "FrozenLake": Setup("gym:FrozenLake-v1,horizon=20", "FrozenLake-v1"),
    "tutoring": Setup("tutoring", segments=(9,)),
    "calls": Setup("calls"),
    "chain": Setup("chain:n=5", max_return=1.05),
}
OURS = ("ucfh.learn", "CertifiedUCFH")
DEEP = ("DQN, default", "DQN, zoo", "PPO, default", "PPO, zoo")
LEARNERS = (*q_learning.SETTINGS, *DEEP, *OURS)


def task_of(setup: Setup) -> Task:
    """The true model, every state with all actions: one that is missing does as the first."""
    mdp = make(setup.name)
    table, S, A = mdp.table, mdp.states, mdp.actions
    p, first = table.dense(mdp.p), table.available.argmax(axis=1)
    rewards = np.zeros((mdp.horizon, S, A, S))
    pair, successor = mdp.rewards.pair, mdp.rewards.successor
    row = table.row_of_entry[: table.indptr[-2]]  # the last one is the start's
    for t in range(mdp.horizon):
        flat = pair[min(t, len(pair) - 1)][row]
        if successor is not None:
            flat = flat + successor[min(t, len(successor) - 1)][: len(row)]
        rewards[t] = table.dense(flat)
    for s, a in np.argwhere(~table.available):
        p[s, a], rewards[:, s, a] = p[s, first[s]], rewards[:, s, first[s]]
    ends = np.isin(np.arange(S), mdp.problem.terminal)
    return Task(p, rewards, mdp.initial, ends, setup.env)


NOTES = (
    "- Q-learning is that of two tutorials of Gymnasium, with their settings, and one for tasks "
    "like these: rate 0.1, nothing discounted (chosen, not searched for). It observes the state "
    "and the step, or, as in the tutorials, the *state only*.",
    "- DQN and PPO are those of Stable-Baselines3, with their *default* settings, and with those "
    "of RL Zoo (*zoo*) for CartPole-v1. They observe one-hot codes of the state and the step.",
    "- ucfh.learn steps the same environment. It is told the number of steps, the range of "
    "rewards, the largest return, and of tutoring that the last step is special. CertifiedUCFH is "
    "told the rewards, the successors and the actions of each state besides.",
)


class Job(NamedTuple):
    """One run."""

    problem: str
    agent: str
    seed: int


Result = dict[str, Any]
"""What a run measured; see `run` and `peers.episodic.Record`."""


def run(job: Job) -> Result:
    """Do it in this process, or in that of Stable-Baselines3; what it measured.

    Besides: knows, the episode of the certificate; total, the seconds of one core with measuring.
    """
    started, setup = spent(), PROBLEMS[job.problem]
    task = task_of(setup)
    if job.agent in DEEP:
        measured = run_deep(task, job)
    elif job.agent in OURS:
        ours = run_learn if job.agent == "ucfh.learn" else run_certified
        measured = ours(task, setup, job.seed)
    else:
        setting = q_learning.SETTINGS[job.agent]
        measured = q_learning.run(task, setting, EPISODES, EPSILON, job.seed)
    return {**job._asdict(), "knows": None, **measured, "total": spent() - started}


def spent() -> float:
    """Seconds of a core that this process and those it started took."""
    return sum(os.times()[:4])


def run_deep(task: Task, job: Job) -> Result:
    """An agent of Stable-Baselines3, in its own environment."""
    with TemporaryDirectory() as folder:
        model = Path(folder) / "task.npz"
        task.save(model)
        command = [SB3 / "bin" / "python", "-m", "peers.deep", model, job.agent, EPISODES,
                   EPSILON, job.seed]  # fmt: skip
        done = subprocess.run(
            [str(x) for x in command], cwd=HERE, check=True, stdout=subprocess.PIPE, text=True
        )
    measured: Result = json.loads(done.stdout)
    return measured


def run_learn(task: Task, setup: Setup, seed: int) -> Result:
    """`ucfh.learn`, from its first episode to its certificate, whose policy has certified_loss."""
    record, (H, S, A) = Record(task, EPISODES, EPSILON), task.shape
    looking, planned = 0.0, 0
    handed = followed = deterministic(np.zeros((H, S), int), A)

    def policy_of(found: LearningResult, actions: Any) -> Floats:
        """(H, S, A) by the environment's states; the first action in those not found."""
        policy = np.zeros((H, S), int)
        policy[:, [int(str(s)) for s in found.states[: actions.shape[1] - 1]]] = actions[:, 1:]
        return deterministic(policy, A)

    def look(found: LearningResult) -> None:
        nonlocal handed, followed, looking, planned
        started = process_time()
        record.add(handed, followed, found.episodes - planned)
        planned = found.episodes
        handed = policy_of(found, found.agent.policy)
        followed = policy_of(found, found.agent.actions)
        looking += process_time() - started

    started = process_time()
    found = learn(
        environment(task),
        EPSILON,
        DELTA,
        horizon=H,
        max_return=setup.max_return,
        segments=setup.segments,
        episodes=MOST,
        seed=seed,
        progress=look,
    )
    seconds = process_time() - started - looking
    return {
        **closed(record, handed),
        "seconds": seconds,
        "knows": found.episodes if found.certificate.certified else None,
    }


def run_certified(task: Task, setup: Setup, seed: int) -> Result:
    """`CertifiedUCFH`, likewise."""
    mdp, A = make(setup.name), task.shape[2]
    agent, record = CertifiedUCFH(mdp.problem, EPSILON, DELTA), Record(task, EPISODES, EPSILON)
    policies: list[tuple[Floats, Floats]] = []

    def look(_: Any) -> None:
        handed = mdp.table.policy_of(agent.exploration.certified)
        policies.append((deterministic(handed, A), deterministic(agent.policy, A)))

    started = process_time()
    done = simulate(mdp, agent, MOST, seed, on_phase=look)
    seconds = process_time() - started
    for (handed, followed), phase in zip(policies, done.rows, strict=True):
        record.add(handed, followed, phase.episodes)
    assert done.certificate is not None
    return {
        **closed(record, deterministic(done.policy, A)),
        "seconds": seconds,
        "knows": done.episodes if done.certificate.certified else None,
    }


def closed(record: Record, certified: Floats) -> Result:
    """The measures of ours: once a policy (H, S, A) is certified, it is followed."""
    record.add(certified, certified, record.episodes)
    return {**record.close(certified), "certified_loss": record.loss(certified)}


def all_jobs() -> list[Job]:
    """All runs, a seed after the other: so what is interrupted has whole seeds."""
    return [
        Job(problem, agent, seed)
        for seed in range(SEEDS)
        for problem in PROBLEMS
        for agent in LEARNERS
        if seed < (DEEP_SEEDS if agent in DEEP else SEEDS)
    ]


def run_all(jobs: Sequence[Job]) -> list[Result]:
    """The results of all runs, in their order; those that are kept are not done again."""
    kept: dict[Job, Result] = {}
    if KEPT.exists():
        for line in KEPT.read_text().splitlines():
            result = json.loads(line)
            kept[Job(result["problem"], result["agent"], result["seed"])] = result
    open_jobs = [job for job in jobs if job not in kept]
    KEPT.parent.mkdir(exist_ok=True)
    started = perf_counter()
    with KEPT.open("a") as file, ProcessPoolExecutor(os.cpu_count()) as pool:
        under_way = {pool.submit(run, job): job for job in open_jobs}
        for done, future in enumerate(as_completed(under_way), 1):
            kept[under_way[future]] = future.result()
            file.write(json.dumps(future.result()) + "\n")
            file.flush()
            left = (perf_counter() - started) * (len(open_jobs) - done) / done / 60
            print(f"{done} of {len(open_jobs)} runs, about {left:.0f} min left", file=sys.stderr)
    return [kept[job] for job in jobs]


def values_of(results: Sequence[Result], measure: str) -> list[float]:
    """(n,) a measure of each run; infinite where there is none."""
    return [inf if x[measure] is None else x[measure] for x in results]


def spread(values: Sequence[float], show: Callable[[float], str]) -> str:
    """The median and its interval, as text."""
    found = median_interval(values)
    return f"{show(found.median)} ({show(found.low)} to {show(found.high)})"


def count(x: float) -> str:
    """A number of episodes."""
    return "never" if x == inf else f"{x:,.0f}"


def rows_of(results: Sequence[Result]) -> list[list[str]]:
    """The table of one problem: a row for each agent."""
    rows = []
    for agent in LEARNERS:
        own = [x for x in results if x["agent"] == agent]
        good = sum(x["for_good"] is not None for x in own)
        knows = spread(values_of(own, "knows"), count) if agent in OURS else "-"
        rows.append([
            agent,
            spread(values_of(own, "first"), count),
            spread(values_of(own, "for_good"), count),
            f"{good} of {len(own)}",
            spread([x["regret"] for x in own], lambda x: f"{x:,.0f}"),
            f"{median(x['seconds'] for x in own):.3g}",
            knows,
        ])  # fmt: skip
    return rows


def finding(problem: str, results: Sequence[Result]) -> str:
    """Who is within epsilon for good first, when ours knows, who loses least; from the medians."""

    def of(agent: str, measure: str) -> float:
        return median(values_of([x for x in results if x["agent"] == agent], measure))

    ours, others = OURS[0], [x for x in LEARNERS if x not in OURS]
    first = min(others, key=lambda x: of(x, "for_good"))
    least = min(others, key=lambda x: of(x, "regret"))
    other = "none of the others is in most of its runs"
    if of(first, "for_good") < inf:
        other = f'the first of the others, "{first}", after {count(of(first, "for_good"))}'
    return (
        f"- {problem}: {ours} is within {EPSILON} for good after {count(of(ours, 'for_good'))} "
        "episodes, and knows it "
        f"after {count(of(ours, 'knows'))}; {other}. The regret of {ours} is "
        f'{of(ours, "regret"):,.0f}; the least of the others, of "{least}", '
        f"{of(least, 'regret'):,.0f}."
    )


def suboptimality(results: Sequence[Result]) -> str:
    """How often a good policy was lost again, and how often a certificate was right."""
    ours = [x for x in results if x["agent"] in OURS]
    others = [x for x in results if x["agent"] not in OURS]
    there = [x for x in others if x["first"] is not None]
    lost = sum(x["for_good"] != x["first"] for x in there)
    certified = [x["certified_loss"] for x in ours if x["knows"] is not None]
    right = sum(x <= EPSILON for x in certified)
    return (
        f"The others had a policy within {EPSILON} at some time in {len(there)} of {len(others)} "
        f"runs, and in {lost} of these it was worse again at some later time: they cannot tell "
        f"when to stop. Ours stopped with a certificate in {len(certified)} of {len(ours)} runs; "
        f"its policy was within {EPSILON} in {right} of these."
    )


def tell(report: Report, results: Sequence[Result]) -> None:
    """Everything that goes into the file."""
    hours = sum(x["total"] for x in results) / 3600
    within, within_deep = (median_interval([0.0] * n).coverage for n in (SEEDS, DEEP_SEEDS))
    report.say(
        "# What a user would pick instead",
        "",
        f"By `make alternatives` on {machine()}; {hours:.1f} hours of one core, about "
        f"{60 * hours / 2:.0f} minutes on two.",
        "",
        f"{EPISODES:,} episodes of each task; epsilon and delta {EPSILON}. Tables show medians "
        f"over {SEEDS} seeds ({DEEP_SEEDS} of DQN and PPO), and intervals that hold the median "
        f"with probability {within:.0%} ({within_deep:.0%}). A policy is what one would take if "
        "learning stopped then: greedy, without exploration; its value is computed on the true "
        f"model. *First*: the number of episodes after which it is within {EPSILON} of optimal "
        f"for the first time. *For good*: after which it stays so until episode {EPISODES:,}. "
        "*Regret*: what all these episodes lost, exploration included. *Seconds*: of learning, on "
        "one core. *Knows*: the episode of the certificate.",
        "",
        *NOTES,
        "",
        "## What was found",
        "",
        *(finding(name, [x for x in results if x["problem"] == name]) for name in PROBLEMS),
        "",
        suboptimality(results),
        "",
    )
    for name, setup in PROBLEMS.items():
        task = task_of(setup)
        H, S, A = task.shape
        size = f"{S} states, {A} actions, {H} steps"
        report.say(f"## {name}", "", f"`{setup.name}`: {size}; optimum {task.optimum:.3f}.")
        report.table(
            ["", "first", "for good", "good in the end", f"regret over {EPISODES:,}", "seconds",
             "knows"], rows_of([x for x in results if x["problem"] == name]),
        )  # fmt: skip


def main() -> None:
    if not SB3.exists():
        raise SystemExit(f"{SB3.name} is missing: run `make alternatives`, which makes it")
    results = run_all(all_jobs())
    report = Report()
    tell(report, results)
    report.write(HERE / "alternatives.md")
    lines = ",\n".join(json.dumps(x) for x in results)
    (HERE / "alternatives.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
