"""The certificate of an agent that has found its world on the way, in the user's units."""

from __future__ import annotations

from collections.abc import Sequence

from ucfh.algorithms.unknown_states import UnknownStatesUCFH
from ucfh.auditing.report import Finding
from ucfh.certificate import (
    Certificate,
    assumptions_for_unknown_states,
    in_units,
    uncertainty_sources,
)
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
    beliefs, data, H = agent.beliefs, agent.experience, agent.experience.horizon
    most = units.scaled_return(max_return, H)
    best = UnknownStateBounds(H, agent.delta, most, units.after_end)
    blame = best.attribute_gap(best.bounds(data), beliefs.by_difference)
    known = Certificate(
        beliefs.upper,
        max(0.0, beliefs.lower),
        beliefs.gap,
        agent.policy,
        epsilon,
        agent.delta,
        data.episodes,
        "open world, growth schedule",
        (*assumptions_for_unknown_states(H, data.P, units, max_return), *assumed),
        uncertainty_sources(data.pair_of, best.evidence.known["n"], blame),
        findings=findings,
    )
    return in_units(known, units, H, max_return, beliefs.crossing, names, times)
