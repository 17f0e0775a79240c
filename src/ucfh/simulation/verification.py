"""Empirical checks of the paper's lemmas and theorem in full runs of UCFH, phase by phase.

Every phase of every run is measured: the true weights of the policy, the knownness of each pair,
balance, membership of the true MDP in the sets, V~, V*, V, and the variances. Each claim becomes a
line with its prediction, the measurement and the margin.

    Lemma 1     the true MDP is in the sets of all phases, with probability 1 - delta/2
    Lemma 2     at most 6 N E_max unbalanced episodes (printed), 16 N E_max (corrected), N = SA m
    Lemma 3     in a balanced phase with the true MDP in its sets, |V~ - V| <= epsilon
    Lemma 4     local variances add up to that of an episode's reward, at most H^2; in M and in M~
    planning    if the true MDP is in the sets, V~ >= V*
    updates     at most U_max (printed: can be exceeded), or SA (ceil(log2(cut-off/(m w_min))) + 1)
    identity    V - V~ is the sum of one-step differences
    Theorem 1   episodes worse than epsilon are bounded in number, with probability 1 - delta

A claim with a probability is refuted if an exact binomial test says so at the level `SURE`; the
others if a single phase contradicts them. Published claims that are known to be wrong, or that the
published proof does not show, are listed and not counted as failures: for variant="paper" these
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
"""The level of the tests: the probability that a true claim is refuted."""


@dataclass(frozen=True)
class ClaimCheck:
    """One claim, with its prediction (an upper bound, unless stated) and the measurement.

    Attributes:
        claim: its name and statement.
        predicted, measured: numbers.
        holds: True if the measurement agrees with it.
        proved: True if it must hold; a claim that is only printed may fail.

    """

    claim: str
    predicted: float
    measured: float
    holds: bool
    proved: bool = True

    @property
    def margin(self) -> float:
        """The ratio of prediction and measurement."""
        return self.predicted / self.measured if self.measured else inf


@dataclass
class PhaseReading:
    """The measurements of one phase.

    Attributes:
        balanced: True if no X_{kappa,iota} is too large.
        captured: True if the true MDP is in the confidence sets.
        mismatch: |V~ - V|.
        optimism: V~ - V*.
        variance: the larger sum of local variances, in M and in M~.
        identity: the difference of both sides of the identity for V - V~.

    """

    balanced: bool
    captured: bool
    mismatch: float
    optimism: float
    variance: float
    identity: float


@dataclass
class CheckedRun:
    """One run and the measurements of its phases."""

    run: Run
    readings: list[PhaseReading]

    def episodes(self, keep: Callable[[PhaseReading], bool]) -> int:
        """Count the episodes of the phases to keep; the endless last phase has none."""
        pairs = zip(self.run.rows, self.readings, strict=True)
        return sum(row.episodes for row, reading in pairs if keep(reading))


def run_checked(mdp: MDP, agent: UCFH, seed: int) -> CheckedRun:
    """Run an agent and measure every phase."""
    readings: list[PhaseReading] = []

    def record(_: Run) -> None:
        readings.append(measure(mdp, agent))

    run = simulate(mdp, agent, seed=seed, on_phase=record)
    if run.interrupted:
        raise KeyboardInterrupt  # the claims are about full runs
    return CheckedRun(run, readings)


def measure(mdp: MDP, agent: UCFH) -> PhaseReading:
    """Measure the policy that an agent is about to follow."""
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
    """Return True if the number of failures refutes a probability, by the exact binomial tail."""
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
    """Check every claim on one problem, in full runs.

    Args:
        mdp: the problem; the agent knows rewards, successors and start.
        epsilon, delta: the accuracy and the failure probability.
        variant: "paper" or "corrected".
        confidence: "paper" or "kl".
        runs: the number of runs, with random seeds from ``seed``.
        seed: the first random seed.
        make: makes the agent; the power of the checks is tested with incorrect agents.
        progress: called with the number of finished runs.

    Returns:
        One entry per claim.

    >>> from ucfh import make as problem
    >>> lines = verify(problem("chain:n=3,horizon=3"), 0.5, 0.1, runs=2)
    >>> all(line.holds for line in lines if line.proved)
    True

    """
    mdp = as_mdp(mdp)
    check_type("make", make, Callable, "a function that makes an agent, such as UCFH")
    check_type("progress", progress, Callable | None, "a function, or None")
    seed = check_seed(seed)
    checked = []
    for k in range(check_count("runs", runs)):
        agent = make(mdp.problem, epsilon, delta, variant=variant, confidence=confidence)
        checked.append(run_checked(mdp, agent, seed + k))
        if progress is not None:
            progress(k + 1)
    proved = not agent.constants.printed
    return [*_phase_claims(checked, epsilon, mdp.horizon, proved), *_run_claims(checked, agent)]


def _phase_claims(
    checked: list[CheckedRun], epsilon: float, horizon: int, proved: bool
) -> list[ClaimCheck]:
    """Check claims about single phases; ``proved``: of Lemma 3, with these constants (E2, E3)."""
    readings = [reading for one in checked for reading in one.readings]
    captured = [x for x in readings if x.captured]
    mismatch = max((x.mismatch for x in captured if x.balanced), default=0.0)
    short = max((-x.optimism for x in captured), default=0.0)
    variance, identity = max(x.variance for x in readings), max(x.identity for x in readings)
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


def _run_claims(checked: list[CheckedRun], agent: UCFH) -> list[ClaimCheck]:
    """Check claims about full runs, with a probability."""
    c, delta, trials = agent.constants, agent.delta, len(checked)
    printed = c.printed
    missed = sum(not all(x.captured for x in one.readings) for one in checked)
    unbalanced = [one.episodes(lambda x: not x.balanced) for one in checked]
    updates = max(one.run.updates for one in checked)
    most = c.pairs * (ceil(log2(c.cutoff / (c.m * c.w_min))) + 1)
    mistakes = [one.run.mistakes(agent.epsilon) for one in checked]
    bound = c.episode_bound
    worse = sum(x > bound for x in mistakes)
    return [
        ClaimCheck(
            "Lemma 1: share of runs in which the MDP leaves the sets",
            delta / 2,
            missed / trials,
            not refuted(missed, trials, delta / 2),
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
