"""A learner that is looked at in every phase of its life."""

from __future__ import annotations

import pytest

from ucfh import Agent, Run, make, make_agent, simulate


@pytest.mark.parametrize("name", ["ucfh:m=300", "certified-ucfh", "psrl"])
def test_every_phase_can_be_looked_at(name: str) -> None:
    mdp = make("chain:n=3,horizon=3")

    def learner() -> Agent:
        return make_agent(name, mdp, 0.5, 0.1, 200, seed=3)

    agent, seen = learner(), []

    def look(run: Run) -> None:
        seen.append((len(run.rows), run.rows[-1].optimistic, agent.optimistic))

    run = simulate(mdp, agent, 200, seed=1, on_phase=look)
    assert [k for k, _, _ in seen] == list(range(1, len(run.rows) + 1))
    assert [promised for _, promised, _ in seen] == [row.optimistic for row in run.rows]
    if name != "psrl":  # which has a loop of its own, and has run on by then
        assert all(promised == believed for _, promised, believed in seen)
    plain = simulate(mdp, learner(), 200, seed=1)
    assert repr(plain.phases.tolist()) == repr(run.phases.tolist())


def test_looking_goes_on_in_a_resumed_run() -> None:
    """The phase that was cut begins anew, and is looked at again."""
    mdp = make("chain:n=3,horizon=3")
    first = simulate(mdp, make_agent("certified-ucfh", mdp, 0.05, 0.1, 1), 30, seed=1)
    seen: list[int] = []
    agent = make_agent("certified-ucfh", mdp, 0.05, 0.1, 1)
    run = simulate(
        mdp, agent, 60, seed=1, resume=first, on_phase=lambda run: seen.append(len(run.rows))
    )
    assert seen == list(range(len(first.rows), len(run.rows) + 1))
