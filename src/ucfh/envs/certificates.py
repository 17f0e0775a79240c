"""The certificate of an agent that has found its world on the way, in the user's units."""

from __future__ import annotations

from collections.abc import Sequence

from ucfh.algorithms.unknown_states import UnknownStatesUCFH
from ucfh.auditing.report import Finding
from ucfh.certificate import Certificate, in_units, open_assumptions, what_is_missing
from ucfh.confidence.unknown_states import UnknownStateBounds
from ucfh.rewards import RewardRange


def certificate_of_agent(
    agent: UnknownStatesUCFH,
    units: RewardRange,
    epsilon: float,
    max_return: float | None,
    names: Sequence[str],
    assumed: Sequence[str] = (),
    findings: tuple[Finding, ...] = (),
    times: range | None = None,
) -> Certificate:
    """What an agent knows of its policy.

    ``epsilon`` and ``max_return`` are in the user's units; ``names``: of the states that were
    found, the end left out; ``assumed``: besides what is assumed of every world; ``times``: the
    t of each step, 1, 2, ... by default.
    """
    beliefs, data, H = agent.exploration, agent.experience, agent.experience.horizon
    most = units.scaled_return(max_return, H)
    best = UnknownStateBounds(H, agent.delta, most, units.after_end)
    blame = best.blame(best.bounds(data), beliefs.by_difference)
    known = Certificate(
        beliefs.upper,
        max(0.0, beliefs.lower),
        beliefs.gap,
        agent.policy,
        epsilon,
        agent.delta,
        data.episodes,
        "open world, growth schedule",
        (*open_assumptions(H, data.P, units, max_return), *assumed),
        what_is_missing(data.pair_of, best.evidence.known["n"], blame),
        findings=findings,
    )
    return in_units(known, units, H, max_return, beliefs.contradiction, names, times)
