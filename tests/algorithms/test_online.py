"""Planning with a bonus against a slow sweep, and the compiled loop against single steps."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oracles import slow_agents as slow
from oracles.certified import l1_reach
from oracles.certified_cases import Case, draw_case
from support.settings import many
from ucfh._kernels import online as kernels
from ucfh._kernels.online import NO_LOWER, Rule
from ucfh._utils.arrays import Floats
from ucfh.algorithms import bonus as bonus_module
from ucfh.algorithms.bayes_ucbvi import BayesUCBVI
from ucfh.algorithms.bonus import TERMS, BonusAgent, problem_arrays
from ucfh.algorithms.bpi_ucbvi import BPIUCBVI
from ucfh.algorithms.bpi_ucrl import BPIUCRL
from ucfh.algorithms.eqo import EQO
from ucfh.algorithms.euler import EULER
from ucfh.algorithms.fiechter import Fiechter
from ucfh.algorithms.mbie import BEB, MBIE, MBIEBonus
from ucfh.algorithms.orlc import ORLC
from ucfh.algorithms.reward_free import RFUCRL, RFExpress
from ucfh.algorithms.stopping import Stopping
from ucfh.algorithms.ubev import UBEV
from ucfh.algorithms.ucbvi import UCBVI, UCBVIBernstein
from ucfh.counts import Counts
from ucfh.exceptions import InputError
from ucfh.mdp import MDP, Problem
from ucfh.problems import make
from ucfh.simulation.environment import Simulator
from ucfh.simulation.result import Run
from ucfh.simulation.runner import simulate

simulation = importlib.import_module("ucfh.simulation.runner")
ALL: tuple[type[BonusAgent], ...] = (
    UCBVI, UCBVIBernstein, MBIE, MBIEBonus, BEB, UBEV, ORLC, EULER, BPIUCBVI, Fiechter,
    RFUCRL, RFExpress, BPIUCRL, EQO, BayesUCBVI,
)  # fmt: skip
SOME = settings(max_examples=many(30, 60), deadline=None)
HIDDEN = st.sets(st.sampled_from(("successors", "initial"))).map(lambda x: tuple(sorted(x)))
RULES = st.builds(
    Rule,
    cap=st.integers(0, 3),
    by_left=st.booleans(),
    best_next=st.booleans(),
    falling=st.booleans(),
    lower=st.integers(0, 2),
    own=st.booleans(),
    most=st.just(2**62),
    apart=st.floats(0.5, 9),
    pays=st.floats(1, 3),
)


KINDS: dict[str, Any] = {
    "seed": st.integers(0, 2**32 - 1),
    "states": st.integers(1, 4),
    "actions": st.integers(1, 3),
    "horizon": st.integers(1, 4),
    "rewards": st.sampled_from(("s", "s, a", "t, s, a", "s, a, s'", "t, s, a, s'")),
    "hide": HIDDEN,
    **dict.fromkeys(("segmented", "sparse", "ties", "ends", "fewer", "spread"), st.booleans()),
}
ODD_CASES = st.builds(draw_case, **KINDS)


# -- one sweep -----------------------------------------------------------------------------------


def swept(case: Case, rule: Rule, terms: Floats, G: Floats, Q: Floats) -> tuple[Any, ...]:
    """(Q, V, L, rows) of the kernel."""
    problem = case.problem
    assert problem.rewards is not None
    V, L = np.zeros((2, problem.horizon + 1, problem.states))
    rows = np.zeros((problem.horizon, problem.states), np.int64)
    sheet, out = problem_arrays(problem, problem.rewards), kernels.Outlook(Q, V, L, rows)
    sets = terms[kernels.BUDGET :]
    kernels.plan(sheet, rule, terms, sets if sets.any() else None, case.counts.arrays, G, out)
    return Q, V, L, rows


def check_sweep(case: Case, rule: Rule, names: set[str], seed: int) -> None:
    """The kernel with these terms, of random size, against the slow sweep."""
    rng = np.random.default_rng(seed)
    problem = case.problem
    H, S, R = problem.horizon, problem.states, problem.table.pairs
    chosen = {x: rng.exponential(0.5, problem.table.rows) * (x in names) for x in TERMS}
    chosen["deviate"] += "deviate" in names  # above the median
    terms = np.zeros((len(TERMS), problem.table.rows))
    for name, line in TERMS.items():
        terms[line] = chosen[name]
    G, before = rng.exponential(1, (H + 1, S)), rng.uniform(0, H, (H, R))
    Q, V, L, rows = swept(case, rule, terms, G, before.copy())
    expected = slow.sweep(
        problem, case.counts, slow.from_terms(rule, chosen), rule.lower, G,
        before if rule.falling else None, rows,
    )  # fmt: skip
    slack = slow.ball_slack if "budget" in names else slow.slack
    tolerance = slack(float(np.abs(expected.V).max()), H)
    assert np.abs(V - expected.V).max() <= tolerance
    if rule.lower != NO_LOWER:
        assert np.abs(L - expected.L).max() <= tolerance
    if rule.falling:
        assert np.abs(Q - expected.Q).max() <= tolerance
    # it takes one of the best
    offsets = problem.table.stride * np.arange(H)[:, None]
    taken = np.take_along_axis(expected.Q, rows - offsets, 1)
    assert (taken >= expected.V[:-1] - 2 * tolerance).all()
    assert (problem.table.state[rows - offsets] == np.arange(S)).all()


@pytest.mark.slow
@SOME
@given(ODD_CASES, RULES, st.sets(st.sampled_from(sorted(TERMS))), st.integers(0, 2**32 - 1))
def test_sweep(case: Case, rule: Rule, names: set[str], seed: int) -> None:
    check_sweep(case, rule, names, seed)


@pytest.mark.slow
@pytest.mark.parametrize("lower", range(3))
@pytest.mark.parametrize("name", TERMS)
def test_every_term_alone(name: str, lower: int) -> None:
    for seed in range(4):
        case = draw_case(seed, 4, 3, 4, hide=("successors",), visits=(1, 2, 5, 30))
        rule = Rule(cap=seed, lower=lower, own=seed % 2 == 0, apart=1.5, pays=2.0)
        check_sweep(case, rule, {name}, seed)


@pytest.mark.parametrize("name", TERMS)
def test_the_check_sees_every_term(name: str) -> None:
    """A term that is 10 % off fails: the checks above would notice."""
    case = draw_case(1, 4, 3, 4, hide=("successors",), visits=(2, 5, 30))
    rule = Rule(cap=kernels.NO_CAP, lower=kernels.LOWER_OF_PLAYED, apart=1.5, pays=2.0)
    rng = np.random.default_rng(2)
    chosen = {x: rng.exponential(0.5, case.problem.table.rows) for x in TERMS}
    other = "radius" if name == "budget" else "budget"  # of which a row has one
    chosen["deviate"] = 1 + chosen["deviate"] if name == "deviate" else 0 * chosen["deviate"]
    G, Q = np.ones((5, 4)), np.zeros((4, 12))
    terms = np.array([chosen[x] * (x != other) for x in TERMS])
    right = swept(case, rule, terms, G, Q)[1].copy()
    terms[TERMS[name]] *= 1.1
    wrong = swept(case, rule, terms, G, Q)[1]
    tolerance = 100 * slow.slack(float(right.max()), 4)
    if name == "budget":
        tolerance = 2 * slow.ball_slack(float(right.max()), 4)
    assert np.abs(right - wrong).max() > tolerance


@SOME
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(-2, 5)), min_size=1, max_size=6),
    st.floats(0, 2.5),
)
def test_ball(pairs: list[tuple[int, int]], radius: float) -> None:
    counts, v = (list(x) for x in zip(*pairs, strict=True))
    found = kernels._in_ball(np.array(counts), np.array(v, float), radius)
    assert found == pytest.approx(l1_reach(counts, v, radius, 1), abs=1e-6)
    if sum(counts):
        assert kernels._in_ball(np.array(counts), np.array(v, float), 0.0) == pytest.approx(
            np.dot(counts, v) / sum(counts), abs=1e-12
        )


def any_counts(problem: Problem, seed: int) -> Counts:
    """Counts on every row, of any size, zero included."""
    rng = np.random.default_rng(seed)
    counts = Counts.zero(problem)
    for row in range(problem.table.start):
        at = problem.table.entries_of(row)
        n = int(rng.choice([0, 1, 2, 10, 1000, 10**6]))
        counts.visits[row] = n
        counts.successors[at] = rng.multinomial(n, rng.dirichlet(np.ones(at.stop - at.start)))
    return counts


def fits(cls: type[BonusAgent], case: Case) -> bool:
    return cls.by_step or case.problem.table.segments == 1


@pytest.mark.slow
@pytest.mark.parametrize("cls", ALL)
@settings(max_examples=many(8, 20), deadline=None)
@given(case=ODD_CASES, seed=st.integers(0, 2**32 - 1))
def test_agents_against_their_papers(cls: type[BonusAgent], case: Case, seed: int) -> None:
    """V and L after any counts, from the formulas as printed."""
    assume(fits(cls, case))
    agent = cls(case.problem, 0.5, 0.1, 1000)
    problem, counts = agent.problem, any_counts(agent.problem, seed)
    assert problem.rewards is not None
    visits = np.random.default_rng(seed).choice([0, 1, 9, 700, 5000], agent.N.shape)
    again = {"clock": [0, 0]} if isinstance(agent, Stopping) else {}  # it may have stopped
    agent.restore({**agent.state(), **counts.state("n"), "N": visits, **again})
    m, segments = getattr(agent, "m", 1.0), problem.table.segments
    told = slow.Told(agent.S, agent.A, agent.H, 1000, 0.5, 0.1, m, segments)
    backup, lower = slow.PAPERS[cls.name]
    planned = Problem._of(**{**vars(problem), "rewards": agent.planned_rewards()})
    expected = slow.sweep(
        planned, counts, lambda x: backup(told, x), lower, visits if visits.size else None,
        None, agent.rows,
    )  # fmt: skip
    slack = slow.ball_slack if cls is BPIUCRL else slow.slack
    tolerance = slack(float(expected.V.max()), agent.H)
    assert np.abs(agent.V - expected.V).max() <= tolerance
    if lower:
        found = agent.robust().values if isinstance(agent, BPIUCRL) else agent.L
        assert np.abs(found - expected.L).max() <= tolerance
    if isinstance(agent, BPIUCBVI):
        G = slow.bpi_gap_at_start(told, problem, counts, agent.V, agent.rows)
        assert agent.gap_bound_now() == pytest.approx(G, abs=10 * tolerance)


# -- the loop ------------------------------------------------------------------------------------


def rows_of(run: Run) -> list[tuple[Any, ...]]:
    """Every policy that was followed, and when, exactly; what it is worth up to rounding."""
    return [(x.first_episode, x.episodes, x.optimistic, round(x.value, 12)) for x in run.rows]


def same(one: BonusAgent, other: BonusAgent) -> None:
    """Two agents know the same, to the last bit."""
    a, b = one.state(), other.state()
    assert a.keys() == b.keys()
    for name, x in a.items():
        if name != "followed":  # that is for the record of the loop
            assert np.array_equal(x, b[name]), name
    assert np.array_equal(one.policy, other.policy)
    assert (one.optimistic, one.done) == (other.optimistic, other.done)


@pytest.mark.slow
@pytest.mark.parametrize("cls", ALL)
@settings(max_examples=many(6, 12), deadline=None)
@given(
    case=ODD_CASES,
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([1.0, 0.1, 0.01]),
    table=st.integers(1, 9),
    room=st.integers(1, 9),
    chunk=st.integers(1, 9),
    cut=st.integers(1, 49),
)
def test_loop(
    cls: type[BonusAgent],
    case: Case,
    seed: int,
    scale: float,
    table: int,
    room: int,
    chunk: int,
    cut: int,
) -> None:
    """The compiled loop, however it is cut into pieces, does what single steps do."""

    assume(fits(cls, case))

    def run(method: Any, episodes: int = 50, **options: Any) -> tuple[Run, BonusAgent]:
        agent = cls(case.problem, 0.5, 0.1, 1000, scale)
        found = simulate(case.mdp, agent, episodes=episodes, seed=seed, method=method, **options)
        return found, agent

    steps, stepping = run("step")
    whole, following = run("bulk")
    same(following, stepping)
    assert rows_of(whole) == rows_of(steps)
    assert (whole.final, whole.episodes) == (steps.final, steps.episodes)
    if whole.final:
        assert np.array_equal(whole.policy, steps.policy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bonus_module, "INITIAL_TABLE_SIZE", table)
        patch.setattr(bonus_module, "RECORD_SIZE", room)
        patch.setattr(simulation, "CHUNK_STEPS", 64 * case.mdp.horizon * chunk)
        pieces, piecemeal = run("bulk")
        same(piecemeal, stepping)
        assert rows_of(pieces) == rows_of(steps)
        if cut < whole.episodes:
            part, _ = run("bulk", cut)
            rest, resumed = run("bulk", resume=part)
            same(resumed, stepping)
            assert rows_of(rest) == rows_of(steps)
            assert rest.final == whole.final


def random_mdp(seed: int, S: int = 3, A: int = 2, H: int = 3) -> MDP:
    rng = np.random.default_rng(seed)
    return MDP(rng.dirichlet(np.ones(S), (S, A)), rng.random((S, A)), H)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("cls", ALL)
def test_interruption(monkeypatch: pytest.MonkeyPatch, cls: type[BonusAgent], late: bool) -> None:
    """What was run is kept, and the rest can be run later, as if nothing had happened."""
    mdp = random_mdp(4)
    monkeypatch.setattr(simulation, "CHUNK_STEPS", 64 * mdp.horizon * 10)

    def agent() -> BonusAgent:
        return cls(mdp.problem, 0.01, 0.1, 1000, 0.1)

    class Impatient(cls):  # type: ignore[misc, valid-type]
        calls = 0

        def follow(self, *given: Any) -> Any:
            self.calls += 1
            found = super().follow(*given) if self.calls < 4 or late else None
            if self.calls == 4:
                raise KeyboardInterrupt
            return found

    whole = simulate(mdp, agent(), episodes=80)
    broken = simulate(mdp, Impatient(mdp.problem, 0.01, 0.1, 1000, 0.1), episodes=80)
    assert (broken.interrupted, broken.final, broken.episodes) == (True, False, 30)
    assert rows_of(broken)[:-1] == rows_of(whole)[: len(broken.rows) - 1]
    again = agent()
    rest = simulate(mdp, again, episodes=80, resume=broken)
    assert rows_of(rest) == rows_of(whole)
    assert not rest.interrupted


def test_scored_by_the_truth() -> None:
    """Values in the record are those of the policies; the last one is the agent's."""
    mdp = random_mdp(5)
    agent = UCBVIBernstein(mdp.problem, 0.5, 0.1, 1000, 0.01)
    run = simulate(mdp, agent, episodes=300)
    assert run.episodes == 300
    assert len(run.rows) > 5
    assert [x.first_episode for x in run.rows[1:]] == np.cumsum(
        [x.episodes for x in run.rows[:-1]]
    ).tolist()
    one = UCBVIBernstein(mdp.problem, 0.5, 0.1, 1000, 0.01)
    rng, nature = np.random.default_rng(0), Simulator(mdp, mdp.problem).model
    followed = []
    for _ in range(300):
        followed.append(mdp.value(one.policy))
        one.follow(rng, nature, 1)
    same(one, agent)
    recorded = np.repeat([x.value for x in run.rows], [x.episodes for x in run.rows])
    assert recorded == pytest.approx(followed, abs=1e-12)


def test_refusals() -> None:
    mdp = random_mdp(6)
    with pytest.raises(InputError, match="episodes"):
        simulate(mdp, UCBVI(mdp.problem, 0.5, 0.1, 10))
    segmented = mdp.by_segment().problem
    for cls in ALL:
        if cls.by_step:
            assert cls(segmented, 0.5, 0.1, 10).policy.shape == (3, 3)
        else:
            with pytest.raises(InputError, match=f"{cls.name} .* depend on the step: .*ubev"):
                cls(segmented, 0.5, 0.1, 10)


def test_the_policy_of_a_capped_run_is_that_of_its_last_row() -> None:
    mdp = make("riverswim:n=4,horizon=6")
    for episodes in range(20, 40):
        agent = UCBVI(mdp.problem, 0.1, 0.1, 500, scale=0.01)
        run = simulate(mdp, agent, episodes=episodes)
        assert mdp.value(run.policy) == pytest.approx(run.rows[-1].value, abs=1e-12)


def test_ctrl_c_while_progress_is_shown() -> None:
    mdp = make("riverswim:n=4,horizon=6")

    def stop(_: Run) -> None:
        raise KeyboardInterrupt

    agent = UCBVI(mdp.problem, 0.1, 0.1, 100_000, scale=0.01)
    run = simulate(mdp, agent, episodes=100_000, progress=stop)
    assert run.interrupted
    assert 0 < run.episodes < 100_000
    again = UCBVI(mdp.problem, 0.1, 0.1, 100_000, scale=0.01)
    rest = simulate(mdp, again, episodes=100_000, resume=run)
    whole = UCBVI(mdp.problem, 0.1, 0.1, 100_000, scale=0.01)
    wanted = simulate(mdp, whole, episodes=100_000)
    assert [row.value for row in rest.rows] == [row.value for row in wanted.rows]
