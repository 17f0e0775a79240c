"""Runs that go on: cut or finished, of every agent; and agents that must be new."""

from __future__ import annotations

import json
import math
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from support.agents import fitting
from support.settings import LONG
from ucfh import InputError, Run, make, make_agent, simulate
from ucfh.algorithms.base import Agent
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.algorithms.registry import AGENTS
from ucfh.algorithms.ucfh import UCFH

Method = Literal["bulk", "step"]

MDP = make("chain:n=3,horizon=3")
EPISODES = 60
CUTS = (1, 17, EPISODES - 1)
KINDS = [
    *AGENTS,
    "ucfh:m=300",
    "certified-ucfh:stop=certificate",
    "certified-ucfh:confidence=kt",
    "certified-ucfh:confidence=l1",
    "bpi-ucrl:schedule=growth",
    "rf-ucrl:schedule=growth",
    "rf-express:schedule=growth",
]


def new_agent(name: str, episodes: int = EPISODES) -> Agent:
    return make_agent(name, fitting(name), 0.5, 0.1, episodes, seed=3, scale=0.05)


def content(x: Any) -> Any:
    """Everything in a value, so that two are the same exactly if these are equal."""
    if isinstance(x, dict):
        return {name: content(value) for name, value in x.items()}
    x = np.asarray(x)
    return x.dtype.kind, x.shape, repr(x.tolist())


def all_of(run: Run) -> dict[str, Any]:
    """All that a run says, but for the time that it took."""
    known, checkpoint = run.certificate, run.checkpoint
    return {
        "about": run.about,
        "bounds": (run.optimal, run.episode_bound, run.update_bound),
        "policy": content(run.policy),
        "end": (run.final, run.interrupted),
        "rows": repr(run.phases.tolist()),
        "known": known and (known.as_dict(), content(known.policy)),
        "checkpoint": checkpoint
        and (content(checkpoint.agent), checkpoint.generator, checkpoint.rows),
    }


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bulk", "step"])
@pytest.mark.parametrize("name", KINDS)
def test_a_run_in_two_pieces_is_the_run_in_one(name: str, method: Method, tmp_path: Path) -> None:
    whole = simulate(fitting(name), new_agent(name), EPISODES, 5, method)
    turn = KINDS.index(name) + (method == "step")
    for cut in CUTS if LONG else CUTS[turn % 3 :][:1]:
        part = simulate(fitting(name), new_agent(name), cut, 5, method)
        part.save(tmp_path / "run.npz", force=True)
        for saved in (part, Run.load(tmp_path / "run.npz")):
            rest = simulate(fitting(name), new_agent(name), EPISODES, 5, method, resume=saved)
            assert all_of(rest) == all_of(whole)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bulk", "step"])
@pytest.mark.parametrize("name", KINDS)
def test_a_finished_run_is_given_again(name: str, method: Method, tmp_path: Path) -> None:
    """Whether it is certified, can never change again, or has had all its episodes."""
    run = simulate(fitting(name), new_agent(name), EPISODES, 5, method)
    run.save(tmp_path / "run.npz")
    for saved in (run, Run.load(tmp_path / "run.npz")):
        again = simulate(fitting(name), new_agent(name), EPISODES, 5, method, resume=saved)
        assert all_of(again) == all_of(run)
        third = simulate(fitting(name), new_agent(name), EPISODES, 5, method, resume=again)
        assert all_of(third) == all_of(run)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.2, 0.5])
def test_a_certificate_outlives_resuming(epsilon: float) -> None:
    run = simulate(MDP, CertifiedUCFH(MDP.problem, epsilon, 0.1), seed=1)
    assert run.certificate is not None
    assert run.certificate.certified
    for most in (None, run.episodes, 10**9):
        again = simulate(MDP, CertifiedUCFH(MDP.problem, epsilon, 0.1), most, 1, resume=run)
        assert again is not run
        assert all_of(again) == all_of(run)
        assert again.seconds == run.seconds


@pytest.mark.slow
@pytest.mark.parametrize("cut", [17, EPISODES])
@pytest.mark.parametrize("name", KINDS)
def test_resuming_leaves_the_old_run_alone(name: str, cut: int) -> None:
    """Two go on from it alike, and what is done to them does not reach it."""
    old = simulate(fitting(name), new_agent(name), cut, 5)
    before, seconds = deepcopy(all_of(old)), old.seconds
    runs = [simulate(fitting(name), new_agent(name), EPISODES, 5, resume=old) for _ in range(2)]
    assert all_of(runs[0]) == all_of(runs[1])
    for run in runs:
        run.about["seed"] = -1
        run.policy[:] = 7
        for row in run.rows:
            row.episodes = -1
        if run.certificate is not None:
            run.certificate.policy[:] = 7
        if run.checkpoint is not None:
            run.checkpoint.agent.clear()
            run.checkpoint.generator.clear()
    assert all_of(old) == before
    assert old.seconds == seconds


def test_an_agent_that_keeps_what_it_is_given_does_not_reach_the_old_run() -> None:
    """Its state is restored from a copy."""

    class Keeping(UCFH):
        def restore(self, state: dict[str, Any]) -> None:
            super().restore(state)
            self.v.visits, self.n.visits = state["v_visits"], state["n_visits"]

    def new_agent() -> UCFH:
        return Keeping(MDP.problem, 0.5, 0.1, m=300)

    old = simulate(MDP, new_agent(), 200, method="step")
    before = deepcopy(all_of(old))
    runs = [simulate(MDP, new_agent(), 3000, method="step", resume=old) for _ in range(2)]
    assert all_of(old) == before
    assert all_of(runs[0]) == all_of(runs[1]) == all_of(simulate(MDP, new_agent(), 3000, 0, "step"))


def test_a_run_is_not_cut_shorter() -> None:
    run = simulate(MDP, new_agent("ucfh"), 50)
    with pytest.raises(InputError, match="already has 50 episodes, more than 49: pass at least 50"):
        simulate(MDP, new_agent("ucfh"), 49, resume=run)


@pytest.mark.parametrize("name", ["psrl", "ucbvi-bf", "mvp", "ucb-h", "epsilon-greedy"])
def test_agents_that_are_told_how_many_episodes_there_will_be(name: str) -> None:
    """One rule: told the same number again, they go on; told another one, one line says which."""
    told = "made for 60 episodes, which {} needs to know at the start: pass episodes=60 "
    part = simulate(MDP, new_agent(name), 20)
    for other in (10, 20, 100):
        with pytest.raises(InputError, match=told.format(name)) as caught:
            simulate(MDP, new_agent(name, other), other, resume=part)
        assert "\n" not in str(caught.value)
    longer = simulate(MDP, new_agent(name), 100, resume=part)
    assert all_of(longer) == all_of(simulate(MDP, new_agent(name), 100))


@pytest.mark.parametrize("method", ["bulk", "step"])
@pytest.mark.parametrize("name", KINDS)
def test_a_used_agent_is_refused(name: str, method: Method) -> None:
    agent = new_agent(name)
    run = simulate(fitting(name), agent, EPISODES, 0, method)
    before = content(agent.state())
    for options in ({"seed": 1}, {"resume": run}):
        with pytest.raises(InputError, match="has been run before: pass a new one") as caught:
            simulate(fitting(name), agent, EPISODES, method=method, **options)
        assert "\n" not in str(caught.value)
    assert content(agent.state()) == before


def test_an_agent_goes_on_where_it_is_asked_to() -> None:
    """By `restore` in a new one, or from what it was shown before its first run."""
    old, new, shown = (UCFH(MDP.problem, 0.5, 0.1, m=300) for _ in range(3))
    simulate(MDP, old, 500, method="step")
    seen = int(old.n.visits[:-1].sum() + old.v.visits[:-1].sum())
    assert seen == 500 * 3
    new.restore(old.state())
    shown.observe(old.n)
    for agent in (new, shown):
        before = int(agent.n.visits[:-1].sum() + agent.v.visits[:-1].sum())
        assert before > 0
        run = simulate(MDP, agent, 100, seed=1, method="step")
        assert run.episodes == 100
        assert int(agent.n.visits[:-1].sum() + agent.v.visits[:-1].sum()) == before + 300


def test_a_refused_call_does_not_use_an_agent_up() -> None:
    agent = new_agent("psrl")
    for wrong in ({"seed": -1}, {"episodes": 0}, {"method": "leap"}, {"episodes": None}):
        with pytest.raises(InputError):
            simulate(MDP, agent, **{"episodes": 10, **wrong})  # type: ignore[arg-type]
    assert math.isfinite(simulate(MDP, agent, 10).regret)


def test_a_run_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    simulate(MDP, new_agent("ucfh"), 10).save(path)
    with np.load(path) as file:
        arrays = dict(file)
    head = json.loads(str(arrays["head"]))
    del head["format_version"]
    head["about"]["version"] = "0.5.0"
    np.savez(path, **{**arrays, "head": json.dumps(head)})
    with pytest.raises(InputError) as caught:
        Run.load(path)
    assert str(caught.value) == (
        f"{path} was saved by ucfh 0.5.0, whose files this version does not read. Fix: run again"
    )


@pytest.mark.parametrize("call", [50, 3000, 4100])
def test_interrupted_while_it_reports_its_policies(call: int) -> None:
    """Episodes that were run at once are recorded whole, so the rest is that of one run."""
    mdp, episodes = make("chain:n=5"), 20_000
    whole = simulate(mdp, "psrl", episodes, seed=1)
    calls = 0

    def interrupt(_: Run) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise KeyboardInterrupt

    part = simulate(mdp, "psrl", episodes, seed=1, on_phase=interrupt)
    assert part.interrupted
    assert 0 < part.episodes < episodes
    rest = simulate(mdp, "psrl", episodes, seed=1, resume=part)
    assert [(x.first_episode, x.episodes, x.value) for x in rest.rows] == [
        (x.first_episode, x.episodes, x.value) for x in whole.rows
    ]
