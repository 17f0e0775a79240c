"""The paper's lemmas and theorem as measured checks: whole lifetimes of UCFH, phase by phase.

In every phase of every run the instruments are read: the true weights of the policy, what is known
of each pair, whether the phase is balanced, whether the true MDP is in the sets, V~, V* and V, the
variances. Each claim becomes a line: what is predicted, what was measured, how much room is left.

    Lemma 1     the true MDP is in the sets of all phases, with probability 1 - delta/2
    Lemma 2     at most 6 N E_max unbalanced episodes (printed), 16 N E_max (corrected), N = SA m
    Lemma 3     in a balanced phase with the true MDP in its sets, |V~ - V| <= epsilon
    Lemma 4     local variances add up to that of an episode's reward, at most H^2; in M and in M~
    planning    if the true MDP is in the sets, V~ >= V*
    updates     at most U_max (printed: can be exceeded), or SA (ceil(log2(cut-off/(m w_min))) + 1)
    identity    V - V~ is the sum of one-step differences
    Theorem 1   episodes worse than epsilon are bounded in number, with probability 1 - delta

A claim with a probability is refuted if an exact binomial test says so at the level `SURE`; the
others if a single phase contradicts them. Claims of the published text that are known to be wrong,
or that its proof does not show, are shown and not counted as failures: for variant="paper" these
are Lemmas 1 to 3 and Theorem 1 (`docs/theory/errata.md`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, comb, inf, log2

from ucfh.algorithms.ucfh import UCFH
from ucfh.exceptions import check_count, check_seed, check_type
from ucfh.mdp import MDP
from ucfh.planning.optimistic import optimistic_model
from ucfh.problems import AnyMDP, as_mdp
from ucfh.simulation.result import TOLERANCE, Run
from ucfh.simulation.runner import simulate
from ucfh.theory.constants import Variant
from ucfh.theory.quantities import knownness, local_variances, value_difference, weights_by_row

SURE = 1e-4
"""A claim that holds is called refuted in at most this share of verifications."""


@dataclass(frozen=True)
class ClaimCheck:
    """One claim: what is predicted (an upper bound, unless it says so) and what was measured.

    Attributes:
        claim: its name, and what it says.
        predicted, measured: numbers.
        holds: whether what was measured agrees with it.
        proved: whether it must hold; a claim that is only printed may fail.

    """

    claim: str
    predicted: float
    measured: float
    holds: bool
    proved: bool = True

    @property
    def margin(self) -> float:
        """How many times as large the prediction is."""
        return self.predicted / self.measured if self.measured else inf


@dataclass
class PhaseReading:
    """What the instruments show of one phase."""

    balanced: bool
    captured: bool
    mismatch: float
    optimism: float
    variance: float
    identity: float


@dataclass
class CheckedRun:
    """One run, its phases, and what was measured in each."""

    run: Run
    readings: list[PhaseReading]

    def episodes(self, keep: Callable[[PhaseReading], bool]) -> int:
        """The number of episodes of the phases to keep; the endless last phase has none."""
        pairs = zip(self.run.rows, self.readings, strict=True)
        return sum(row.episodes for row, reading in pairs if keep(reading))


def live(mdp: MDP, agent: UCFH, seed: int, episodes: int | None = None) -> CheckedRun:
    """Run an agent, reading the instruments in every phase."""
    readings: list[PhaseReading] = []

    def look(_: Run) -> None:
        readings.append(read(mdp, agent))

    run = simulate(mdp, agent, episodes, seed, on_phase=look)
    if run.interrupted:
        raise KeyboardInterrupt  # part of a lifetime says nothing about the whole
    return CheckedRun(run, readings)


def read(mdp: MDP, agent: UCFH) -> PhaseReading:
    """The instruments, for the policy that an agent is about to follow."""
    constants, box, policy = agent.constants, agent.box, agent.policy
    w = weights_by_row(mdp, policy)
    seen = knownness(w, agent.n.visits[:-1], constants.m, constants.w_min)
    values = agent.optimistic_values
    p = optimistic_model(mdp.table, box.lo, box.hi, mdp.rewards, values)
    left, right = value_difference(mdp, p, policy)
    spread = [
        float((d * sigma).sum())
        for sigma, d in (local_variances(mdp, policy), local_variances(mdp, policy, p))
    ]
    return PhaseReading(
        balanced=seen.balanced,
        captured=bool(box.holds(mdp.p, None)),
        mismatch=float(abs(agent.optimistic - mdp.value(policy))),
        optimism=float(agent.optimistic - mdp.at_start(mdp.optimal().values)),
        variance=max(spread),
        identity=float(abs(left - right)),
    )


def refuted(failures: int, trials: int, chance: float) -> bool:
    """Whether that many failures refute a chance, by the exact binomial tail."""
    tail = sum(
        comb(trials, k) * chance**k * (1 - chance) ** (trials - k)
        for k in range(failures, trials + 1)
    )
    return tail < SURE


def verify(
    mdp: AnyMDP,
    epsilon: float,
    delta: float,
    variant: Variant = "corrected",
    confidence: str = "paper",
    runs: int = 10,
    seed: int = 0,
    make: Callable[..., UCFH] = UCFH,
    progress: Callable[[int], None] | None = None,
) -> list[ClaimCheck]:
    """Every claim on one problem, from whole lifetimes.

    Args:
        mdp: the problem; the agent is told rewards, successors and start.
        epsilon, delta: the accuracy and the failure probability asked of it.
        variant: "paper" or "corrected".
        confidence: "paper" or "kl".
        runs: the number of lifetimes, with random seeds from ``seed``.
        make: makes the agent; a faulty one shows what the checks find.
        progress: called with the number of lifetimes done.

    >>> from ucfh import make as problem
    >>> lines = verify(problem("chain:n=3,horizon=3"), 0.5, 0.1, runs=2)
    >>> all(line.holds for line in lines if line.proved)
    True

    """
    mdp = as_mdp(mdp)
    check_type("make", make, Callable, "a function that makes an agent, such as UCFH")
    check_type("progress", progress, Callable | None, "a function, or None")
    seed = check_seed(seed)
    lives = []
    for k in range(check_count("runs", runs)):
        agent = make(mdp.problem, epsilon, delta, variant=variant, confidence=confidence)
        lives.append(live(mdp, agent, seed + k))
        if progress is not None:
            progress(k + 1)
    proved = not agent.constants.printed
    return [*_phase_lines(lives, epsilon, mdp.horizon, proved), *_life_lines(lives, agent)]


def _phase_lines(
    lives: list[CheckedRun], epsilon: float, horizon: int, proved: bool
) -> list[ClaimCheck]:
    """Claims about single phases; proved: whether Lemma 3 is, with these constants (E2, E3)."""
    all_of = [reading for life in lives for reading in life.readings]
    captured = [x for x in all_of if x.captured]
    mismatch = max((x.mismatch for x in captured if x.balanced), default=0.0)
    short = max((-x.optimism for x in captured), default=0.0)
    variance, identity = max(x.variance for x in all_of), max(x.identity for x in all_of)
    within = horizon**2 * (1 + TOLERANCE)
    return [
        ClaimCheck(
            "Lemma 3: |V~ - V| in balanced phases",
            epsilon,
            mismatch,
            mismatch <= epsilon + TOLERANCE,
            proved,
        ),
        ClaimCheck(
            "Lemma 4: variance of an episode's reward", horizon**2, variance, variance <= within
        ),
        ClaimCheck(
            "planning: V* - V~ where the MDP is in the sets",
            0.0,
            max(short, 0.0),
            short <= TOLERANCE,
        ),
        ClaimCheck(
            "identity of V - V~ and its one-step differences",
            1e-10 * horizon,
            identity,
            identity <= 1e-10 * horizon,
        ),
    ]


def _life_lines(lives: list[CheckedRun], agent: UCFH) -> list[ClaimCheck]:
    """Claims about whole lifetimes, with a probability."""
    c, delta, trials = agent.constants, agent.delta, len(lives)
    printed = c.printed
    lost = sum(not all(x.captured for x in life.readings) for life in lives)
    unbalanced = [life.episodes(lambda x: not x.balanced) for life in lives]
    updates = max(life.run.updates for life in lives)
    most = c.pairs * (ceil(log2(c.cutoff / (c.m * c.w_min))) + 1)
    mistakes = [life.run.mistakes(agent.epsilon) for life in lives]
    bound = c.episode_bound
    worse = sum(x > bound for x in mistakes)
    return [
        ClaimCheck(
            "Lemma 1: share of lifetimes in which the MDP leaves the sets",
            delta / 2,
            lost / trials,
            not refuted(lost, trials, delta / 2),
            not printed,
        ),
        ClaimCheck(
            "Lemma 2: unbalanced episodes",
            bound,
            max(unbalanced),
            not refuted(sum(x > bound for x in unbalanced), trials, delta / 2),
            not printed,
        ),
        ClaimCheck("updates, as corrected", most, updates, updates <= most),
        ClaimCheck(
            "updates, as printed: U_max",
            c.pairs * log2(c.states * c.horizon / c.w_min),
            updates,
            updates <= c.pairs * log2(c.states * c.horizon / c.w_min),
            proved=False,
        ),
        ClaimCheck(
            "Theorem 1: episodes worse than epsilon",
            bound,
            max(mistakes),
            not refuted(worse, trials, delta),
            not printed,
        ),
    ]
