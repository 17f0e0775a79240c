"""Random small tasks, data of them, and the package's numbers, to compare with `from_theorems`."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ucfh
from oracles.from_theorems import END, LOST, OPEN, Data, Model, Step, Task, UnknownStates
from ucfh.confidence.known_states import REWARD_SHARES
from ucfh.confidence.known_states import SHARES as SHARES_OF_KNOWN
from ucfh.confidence.unknown_states import SHARES, UnknownStateBounds
from ucfh.sparse_counts import LOST as LOST_NUMBER
from ucfh.sparse_counts import SparseCounts, Steps

OF_A_LOG = {part: share for part, share in SHARES.items() if part != "scores"}
RANGES = {0.0: (0.0, 1.0), 1.0: (-1.0, 0.0), 0.3: (-3.0, 7.0)}
"""A range of rewards for each reward of a step after the end (Proposition 63)."""


class World:
    """A random task of S states and an end: probabilities p, and the rewards of each transition.

    Attributes:
        task: what is declared of it, with a largest return that is true.
        p: (T, S, A, S + 1), T is 1 or H. paid: (t, s, a, s') -> the rewards, equally likely.
    """

    def __init__(self, seed: int) -> None:
        rng = self.rng = np.random.default_rng(seed)
        self.H, self.S, self.A = (int(rng.integers(1, k)) for k in (5, 5, 4))
        after = float(rng.choice([0, 0, 0, 0.3, 1.0]))
        closed = bool(rng.integers(2))
        self.T = T = 1 if rng.random() < 0.6 else self.H
        p = rng.dirichlet(np.full(self.S + 1, 0.4), size=(T, self.S, self.A))
        p[p < 0.03] = 0
        self.p = p / p.sum(-1, keepdims=True)
        silent, scale = rng.random(), float(rng.choice([1.0, 0.6, 0.3]))
        self.paid: dict[tuple[int, ...], list[float]] = {}
        for index in np.ndindex(*self.p.shape):
            kind = int(rng.integers(3))
            rewards = [[float(rng.choice([0.25, 0.5, 1]))], [0.0, 1.0], [0.1, 0.2, 0.7]][kind]
            self.paid[index] = [0.0] if rng.random() < silent else [scale * x for x in rewards]
        start = rng.dirichlet(np.full(self.S, 0.5))
        start[start < 0.05] = 0
        self.start = start / start.sum()
        self.names = [f"s{i}" for i in range(self.S)]
        if T > 1:
            segments = tuple(range(2, self.H + 1))
        else:
            number = int(rng.integers(0, 2)) if self.H > 1 else 0
            changes = rng.integers(2, max(self.H, 2) + 1, size=number)
            segments = tuple(sorted({int(t) for t in changes}))
        most = self.largest_return(after)
        largest = None
        if rng.random() < 0.65 and most > 0:
            largest = min(most + (0.0 if rng.random() < 0.6 else rng.random()), float(self.H))
        states = tuple(self.names) if closed else None
        self.task = Task(self.H, tuple(range(self.A)), segments, largest, after, states)

    def draw(self, t: int, s: int, a: int) -> tuple[int, float]:
        following = int(self.rng.choice(self.S + 1, p=self.p[(t - 1) % self.T, s, a]))
        return following, float(self.rng.choice(self.paid[(t - 1) % self.T, s, a, following]))

    def first(self) -> int:
        return int(self.rng.choice(self.S, p=self.start))

    def largest_return(self, after: float) -> float:
        V = np.zeros(self.S + 1)
        for t in range(self.H, 0, -1):
            now = np.full(self.S + 1, (self.H + 1 - t) * after)
            for s in range(self.S):
                now[s] = max(
                    max(self.paid[(t - 1) % self.T, s, a, x]) + V[x]
                    for a in range(self.A)
                    for x in range(self.S + 1)
                    if self.p[(t - 1) % self.T, s, a, x] > 0
                )
            V = now
        return float(max(V[s] for s in range(self.S) if self.start[s] > 0))

    def values(self, policy: dict[tuple[int, int], int] | None = None) -> Any:
        """Return V (H + 2, S + 1), of a policy (t, s) -> a or of the best one; t from 1."""
        V = np.zeros((self.H + 2, self.S + 1))
        for t in range(self.H, 0, -1):
            V[t, self.S] = self.task.after(t)
            for s in range(self.S):
                q = [
                    sum(
                        self.p[(t - 1) % self.T, s, a, x]
                        * (np.mean(self.paid[(t - 1) % self.T, s, a, x]) + V[t + 1, x])
                        for x in range(self.S + 1)
                    )
                    for a in range(self.A)
                ]
                V[t, s] = max(q) if policy is None else q[policy[t, s]]
        return V

    def episodes(self, number: int, lost: float) -> tuple[list[Step], list[Any]]:
        """Return steps of episodes one after another, and first states.

        Some outcomes are lost, all alike or by their reward; some of their rewards are known.
        """
        rng = self.rng
        known, mode = float(rng.choice([0, 0.5, 1])), int(rng.integers(3))
        steps, starts = [], []
        for _ in range(number):
            s = self.first()
            starts.append(self.names[s])
            for t in range(1, self.H + 1):
                a = int(rng.integers(self.A))
                following, r = self.draw(t, s, a)
                chosen = [r < 0.5, r >= 0.5, True][mode]
                if chosen and rng.random() < lost:
                    paid = r if rng.random() < known else None
                    steps.append(Step(t, self.names[s], a, paid, LOST))
                    break
                over = following == self.S
                steps.append(Step(t, self.names[s], a, r, END if over else self.names[following]))
                if over:
                    break
                s = following
        return steps, starts


def experience_of(task: Task, steps: list[Step], starts: list[Any]) -> tuple[Any, dict[Any, int]]:
    """Return the same steps as the package counts them, and the numbers of the states."""
    experience = SparseCounts(task.horizon, len(task.actions), [t - 1 for t in task.segments])
    number: dict[Any, int] = {END: 0, LOST: LOST_NUMBER}

    def of(s: Any) -> int:
        if s not in number:
            number[s] = experience.find()
        return number[s]

    for s in [*(task.states or ()), *starts]:
        of(s)
    columns = [(x.t - 1, of(x.state), x.action, of(x.following)) for x in steps]
    t, state, action, following = np.array(columns, dtype=np.int64).reshape(-1, 4).T.copy()
    reward = np.array([np.nan if x.reward is None else x.reward for x in steps], dtype=float)
    first = np.array([of(s) for s in starts], dtype=np.int64)
    experience.add(Steps(t, state, action, reward, following, first))
    return experience, number


def tables_differ(world: World, number: int, lost: float) -> dict[str, tuple[float, float]]:
    """Return, by bound, by how much the package is too tight and too wide, at most.

    All bounds at all steps and states, from counts, where states, next states and rewards are
    unknown. D is that of the package's greedy policy.
    """
    task = world.task
    steps, starts = world.episodes(number, lost)
    experience, code = experience_of(task, steps, starts)
    closed = task.states is not None
    best = UnknownStateBounds(task.horizon, 0.1, task.largest, task.after_end, ("scores",), closed)
    b = best.bounds(experience)
    rows, low = best.robust()
    robust = best.lower_values(rows)
    oracle = UnknownStates(Data(task, steps, starts), 0.1, OF_A_LOG)
    actions = best.actions_of(b.greedy)
    policy = {
        (t, s): int(actions[t - 1, code[s]])
        for t in range(1, task.horizon + 1)
        for s in oracle.data.states
    }
    D, W = oracle.difference(policy)
    found = Differences()
    for s in oracle.known:
        for t in range(1, task.horizon + 1):
            at = t - 1, code[s]
            found.note("U", b.U[at], oracle.U[t, s])
            found.note("L", -b.L[at], -oracle.L[t, s])
            found.note("W", -robust[at], -oracle.W[t, s])
            found.note("W of pi", -b.W[at], -W[t, s])
            found.note("D", b.D[at], D[t, s])
    found.note("upper", b.upper, oracle.upper())
    found.note("lower", -low, -oracle.lower())
    found.note("difference", b.difference, oracle.difference_at_start(D, W))
    return found.most


class Differences:
    """By how much numbers are below and above others, at most, by name."""

    def __init__(self) -> None:
        self.most: dict[str, tuple[float, float]] = {}

    def note(self, name: str, package: float, oracle: float) -> None:
        low, high = self.most.get(name, (0.0, 0.0))
        self.most[name] = max(low, float(oracle - package)), max(high, float(package - oracle))

    def add(self, other: dict[str, tuple[float, float]]) -> None:
        for name, (low, high) in other.items():
            self.note(name, -low, 0.0)
            self.note(name, high, 0.0)


def units_of(task: Task) -> tuple[float, float, float, float]:
    """Return least and largest reward, shift and span (Proposition 63)."""
    low, high = RANGES[task.after_end]
    shift = max(0.0, -low)
    return low, high, shift, max(0.0, high) + shift


def log_of(world: World, number: int, lost: float, path: Path) -> tuple[Any, list[Step], list[Any]]:
    """Write a log and read it with all declarations; the last episode is complete."""
    task = world.task
    steps, starts = world.episodes(number, lost)
    while steps[-1].following == LOST:
        more, first = world.episodes(1, 0.0)
        steps, starts = steps + more, starts + first
    low, high, shift, span = units_of(task)
    lines, episode = ["episode,t,state,action,reward,next_state,done"], -1
    for x in steps:
        episode += x.t == 1
        paid = "" if x.reward is None else repr(x.reward * span - shift)
        following = {END: "over", LOST: ""}.get(x.following, x.following)
        done = str(x.following == END).lower()
        lines.append(f"{episode},{x.t - 1},{x.state},a{x.action},{paid},{following},{done}")
    path.write_text("\n".join(lines) + "\n")
    declared: dict[str, Any] = {"horizon": task.horizon, "rewards": (low, high)}
    declared |= {"actions": [f"a{a}" for a in task.actions], "dropouts": "lost"}
    if task.largest is not None:
        declared["max_return"] = task.largest * span - task.horizon * shift
    if task.segments:
        declared["segments"] = [t - 1 for t in task.segments]
    if task.states is not None:
        declared["states"] = [*task.states, "over"]
    return ucfh.read_log(path, **declared), steps, starts


def compare_certificate(
    oracle: UnknownStates, certificate: Any, policy: dict[tuple[int, Any], int]
) -> dict[str, tuple[float, float]]:
    """Return differences of upper, lower and gap, after the units are undone.

    The package takes the better of two policies: the robust one, with upper - lower, and the greedy
    one, with D.
    """
    task = oracle.task
    _, _, shift, span = units_of(task)
    D, W = oracle.difference(policy)
    by_greedy = oracle.at_start(W, -1, 0.0)
    gap = min(oracle.difference_at_start(D, W), oracle.upper() - oracle.lower())
    found = Differences()
    found.note("upper", (certificate.upper + task.horizon * shift) / span, oracle.upper())
    found.note(
        "lower",
        -(certificate.lower + task.horizon * shift) / span,
        -max(0.0, oracle.lower(), by_greedy),
    )
    found.note("gap", certificate.gap / span, gap)
    return found.most


def log_differs(
    world: World, number: int, lost: float, path: Path
) -> dict[str, tuple[float, float]]:
    """Return differences between ``ucfh.certify`` of a log and the oracle, and the truth."""
    task = world.task
    log, steps, starts = log_of(world, number, lost, path)
    certificate = ucfh.certify(log, delta=0.1)
    oracle = UnknownStates(Data(task, steps, starts), 0.1, OF_A_LOG)
    names, actions = list(log.states.names), list(log.actions.names)
    policy = {
        (t, s): int(actions[certificate.policy[t - 1, names.index(s)]][1:])
        for t in range(1, task.horizon + 1)
        for s in oracle.data.states
    }
    return compare_certificate(oracle, certificate, policy)


def task_differs(world: World, number: int, path: Path) -> dict[str, tuple[float, float]]:
    """Return differences between the first certificate of a live task and the oracle.

    Episodes overlap; outcomes are delayed, more so if they are bad, or lost; some are still open at
    the end. Nothing is planned before, so nothing is kept from earlier data and nothing scored.
    """
    task, rng = world.task, world.rng
    low, high, shift, span = units_of(task)
    declared: dict[str, Any] = {"actions": [f"a{a}" for a in task.actions]}
    declared |= {"horizon": task.horizon, "epsilon": 0.2 * span, "rewards": (low, high)}
    if task.largest is not None:
        declared["max_return"] = task.largest * span - task.horizon * shift
    if task.segments:
        declared["segments"] = [t - 1 for t in task.segments]
    if task.states is not None:
        declared["states"] = list(task.states)
    steps: list[Step] = []
    starts: list[Any] = []
    waiting: list[tuple[str, int, Step, int, float]] = []
    late, lost = float(rng.choice([0, 0.5, 0.9])), float(rng.choice([0, 0.05, 0.2]))

    def decided(episode: str, t: int, s: int, a: int) -> None:
        steps.append(Step(t, world.names[s], a, None, OPEN))
        waiting.append((episode, t, steps[-1], *world.draw(t, s, a)))

    with ucfh.open_task(path, planning="off", **declared) as live:
        for _ in range(int(rng.choice([2, 4, 20])) * number):
            if len(starts) < number and (not waiting or rng.random() < 0.4):
                s, a, episode = world.first(), int(rng.integers(world.A)), f"e{len(starts)}"
                starts.append(world.names[s])
                live.record(episode, 0, world.names[s], f"a{a}")
                decided(episode, 1, s, a)
            elif waiting:
                i = int(rng.integers(len(waiting)))
                episode, t, step, following, reward = waiting[i]
                if reward < 0.5 and rng.random() < late:
                    continue
                waiting.pop(i)
                if rng.random() < lost:
                    live.abandon(episode, "gone")
                    step.following = LOST
                    continue
                over = following == world.S
                step.reward, step.following = reward, END if over else world.names[following]
                state = None if over else step.following
                paid = reward * span - shift
                following_decision = live.tell(
                    (episode, t - 1), reward=paid, state=state, done=over
                )
                if following_decision is not None:
                    decided(episode, t + 1, following, int(following_decision.action[1:]))
    oracle = UnknownStates(Data(task, steps, starts), 0.1, dict(SHARES))
    with ucfh.open_task(path, planning="inline") as live:
        certificate, learned = live.certificate(), live.policy()
        policy = {
            (t, s): int(learned.act(t - 1, s)[1:])
            for t in range(1, task.horizon + 1)
            for s in oracle.data.states
        }
    return compare_certificate(oracle, certificate, policy)


@dataclass
class KnownCase:
    """A problem of which states and next states are known, with data and what the oracle takes."""

    problem: Any
    model: Model
    outcomes: dict[Any, list[tuple[int, Any]]]
    starts: list[int]
    pays: bool
    counts: Any

    @property
    def shares(self) -> dict[str, float]:
        shares = {part: x for part, x in SHARES_OF_KNOWN.items() if part != "scores"}
        return shares if self.model.rewards is not None else shares | REWARD_SHARES


def known_case(
    seed: int, number: int | None = None, known_rewards: bool | None = None
) -> KnownCase:
    """Return a random case; rewards and the start may be known or not."""
    rng = np.random.default_rng(seed)
    H, S, A = int(rng.integers(1, 5)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    by_step = bool(rng.random() < 0.3)
    told = bool(rng.random() < 0.6) if known_rewards is None else known_rewards
    pays = told and bool(rng.random() < 0.4)
    T = H if by_step else 1
    mask = rng.random((T, S, A, S)) < rng.choice([0.3, 0.6, 1.0])
    mask[..., 0] |= ~mask.any(-1)
    terminal = [S - 1] if rng.random() < 0.4 else []
    for s in terminal:
        mask[:, s], mask[:, s, :, s] = False, True
    p = np.where(mask, rng.dirichlet(np.full(S, 0.5), size=(T, S, A)) + 1e-3, 0)
    p /= p.sum(-1, keepdims=True)
    rewards = None
    if told:
        rewards = rng.choice([0, 0.25, 0.5, 1.0], size=(H, S, A, S))
        rewards = rewards if pays else np.repeat(rewards[..., :1], S, 3)
        rewards[:, terminal] = 0
    start = rng.dirichlet(np.full(S, 0.5))
    start[terminal] = 0
    start[start < 0.05] = 0
    start = start / start.sum() if start.sum() > 0 else np.eye(S)[0]
    told_start = bool(rng.random() < 0.6)
    problem = ucfh.Problem(
        S,
        A,
        H,
        rewards=None if rewards is None else rewards if pays else rewards[..., 0],
        successors=mask if by_step else mask[0],
        initial=start if told_start else None,
        terminal=terminal,
    )
    kinds = rng.integers(0, 3, size=(S, A))
    outcomes: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
    starts: list[int] = []
    counts = ucfh.Counts.zero(problem)
    index = {}
    table = problem.table
    for row in range(len(table.indptr) - 1):
        for entry in range(table.indptr[row], table.indptr[row + 1]):
            index[row, int(table.indices[entry])] = entry
    last = len(table.indptr) - 2
    for _ in range(int(rng.choice([0, 1, 3, 20, 300])) if number is None else number):
        s = int(rng.choice(S, p=start))
        starts.append(s)
        counts.visits[last] += 1
        counts.successors[index[last, s]] += 1
        for t in range(1, H + 1):
            if s in terminal:
                break
            a = int(rng.integers(A))
            following = int(rng.choice(S, p=p[(t - 1) % T, s, a]))
            paid = None
            row = int(table.first[s]) + a + (t - 1) * table.pairs * by_step
            entry = index[row, following]
            counts.visits[row] += 1
            counts.successors[entry] += 1
            if not told:
                paid = float(rng.choice([[0.5], [0.0, 1.0], [0.1, 0.2, 0.9]][kinds[s, a]]))
                counts.add_rewards(np.array([entry]), np.array([paid]))
            outcomes[(t if by_step else 0, s, a)].append((following, paid))
            s = following
    model = Model(
        H,
        list(range(S)),
        {s: list(range(A)) for s in range(S)},
        {
            (t + 1 if by_step else 0, s, a): [x for x in range(S) if mask[t, s, a, x]]
            for t, s, a in np.ndindex(T, S, A)
        },
        None
        if rewards is None
        else {(t + 1, *rest): float(rewards[t, *rest]) for t, *rest in np.ndindex(H, S, A, S)},
        dict(enumerate(start)) if told_start else None,
        tuple(terminal),
        by_step,
    )
    return KnownCase(problem, model, outcomes, starts, pays, counts)


def visit_all(case: KnownCase, times: int, rng: np.random.Generator) -> Any:
    """Return counts of so many visits of each pair and of the start; add them to the case."""
    table, model = case.problem.table, case.model
    counts = ucfh.Counts.zero(case.problem)

    def visit(row: int) -> int:
        entry = int(rng.integers(table.indptr[row], table.indptr[row + 1]))
        counts.visits[row] += 1
        counts.successors[entry] += 1
        return int(table.indices[entry])

    for _ in range(times):
        case.starts.append(visit(len(table.indptr) - 2))
        for t, s, a in model.successors:
            if s not in model.terminal:
                row = int(table.first[s]) + a + max(t - 1, 0) * table.pairs
                case.outcomes[t, s, a].append((visit(row), None))
    return counts
