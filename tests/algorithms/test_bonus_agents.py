"""Each agent that plans with a bonus: its numbers, what its theorem promises, and that it learns.

Golden numbers were computed by hand from the formulas as quoted, at these (S, A, H, eps, delta):
"""

from __future__ import annotations

from collections.abc import Callable
from math import e, sqrt
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from oracles import slow_agents as slow
from support.settings import many
from ucfh._utils.arrays import Floats
from ucfh.algorithms.bayes_ucbvi import BayesUCBVI
from ucfh.algorithms.bonus import BonusAgent
from ucfh.algorithms.bpi_ucbvi import BPIUCBVI
from ucfh.algorithms.bpi_ucrl import BPIUCRL
from ucfh.algorithms.eqo import EQO
from ucfh.algorithms.euler import EULER
from ucfh.algorithms.fiechter import Fiechter
from ucfh.algorithms.mbie import BEB, MBIE, MBIEBonus, l1_radius
from ucfh.algorithms.orlc import ORLC
from ucfh.algorithms.reward_free import RFUCRL, RewardFree, RFExpress
from ucfh.algorithms.ubev import UBEV
from ucfh.algorithms.ucbvi import UCBVI, UCBVIBernstein
from ucfh.exceptions import InputError
from ucfh.mdp import MDP, Problem
from ucfh.planning import evaluate
from ucfh.simulation.environment import Simulator
from ucfh.simulation.runner import simulate

A, B, C = (5, 2, 5, 0.5, 0.1), (20, 3, 5, 0.25, 0.05), (6, 2, 12, 0.5, 0.1)
Point = tuple[int, int, int, float, float]


def agent_at(cls: Any, point: Point, K: int = 1000, scale: float = 1.0, **options: Any) -> Any:
    """An agent that is told nothing but sizes and rewards."""
    S, actions, H, epsilon, delta = point
    problem = Problem(S, actions, H, np.zeros((S, actions)), initial=0)
    return cls(problem, epsilon, delta, K, scale, **options)


def bonus(agent: BonusAgent, n: float, sd: float = 0, gap: float = 0, norm: float = 0) -> float:
    """All of the bonus after n visits but crowding, where these are what the terms multiply."""
    terms = {name: float(x[0]) for name, x in agent.coefficients(np.array([float(n)])).items()}
    weights = {
        "flat": 1, "radius": 1, "deviate": 1, "deviation": sd, "spread": gap, "distance": norm,
        "crowd": 0,
    }  # fmt: skip
    return sum(weights[name] * x for name, x in terms.items())


def crowding(agent: BonusAgent, n: float, p: list[float], visits: list[float]) -> float:
    """UCBVI-BF's third term."""
    G = agent.crowding(np.array(visits, float))
    factor = agent.coefficients(np.array([float(n)]))["crowd"][0]
    return float(factor * sqrt(np.dot(p, G)))


Number = Callable[[float], float]


def golden() -> list[tuple[str, Number, float]]:
    """(which, the number given a scale, what it must be at scale 1)."""

    def at(cls: Any, point: Point, n: float, K: int = 1000, m: Any = None, **x: float) -> Number:
        options = {} if m is None else {"m": m}
        return lambda scale: bonus(agent_at(cls, point, K, scale, **options), n, **x)

    def bf(point: Point, K: int, n: float, sd: float, p: Any, visits: Any) -> Number:
        def number(scale: float) -> float:
            agent = agent_at(UCBVIBernstein, point, K, scale)
            return bonus(agent, n, sd) + crowding(agent, n, p, visits)

        return number

    return [
        ("ucbvi-ch", at(UCBVI, A, 1), 515.613045144),
        ("ucbvi-ch", at(UCBVI, A, 1e6), 0.515613045144),
        ("ucbvi-ch", at(UCBVI, C, 100), 132.632569305),
        ("ucbvi-bf", bf(A, 1000, 100, 1.5, [0.75, 0.25], [40, 0]), 6.48004543053),
        ("ucbvi-bf", bf(A, 10**9, 1e8, 1.5, [0.75, 0.25], [1e9, 1e12]), 0.00349865125037),
        ("ucbvi-bf", bf(C, 1000, 1e4, 3, [1], [1e13]), 0.430575293581),
        ("mbie", at(MBIE, A, 1, m=1000), 5.58699740956),
        ("mbie", at(MBIE, A, 10, m=1000), 1.76676370957),
        ("mbie", at(MBIE, B, 50, m=1e6), 1.19099414404),
        ("mbie", at(MBIE, C, 50, m=1e6), 0.967952144816),
        ("mbie-eb", at(MBIEBonus, A, 7, m=1e6), 6.08324188667),
        ("mbie-eb", at(MBIEBonus, B, 1, m=1e6), 17.0323855077),
        ("mbie-eb", at(MBIEBonus, C, 1, m=1e6), 39.6009601075),
        ("beb", at(BEB, A, 0), 50),
        ("beb", at(BEB, A, 9), 5),
        ("beb", at(BEB, A, 999), 0.05),
        ("beb", at(BEB, C, 7), 36),
        ("ubev", at(UBEV, A, 1), 3.01744591606),
        ("ubev", at(UBEV, A, 100), 0.348702439165),
        ("ubev", at(UBEV, A, 1e6), 0.00378900563278),
        ("ubev", at(UBEV, C, 100), 0.363553701701),
        ("orlc", at(ORLC, A, 1e6, sd=1.5, gap=0.3), 0.114989874361),
        ("orlc", at(ORLC, A, 1e4, sd=1.5, gap=0.3), 4.13785371546),
        # sqrt(12) * 3 * phi + 45 * 6 * 12^2 phi^2 + 2/12, phi = 0.263223737149
        ("orlc", at(ORLC, C, 100, sd=3, gap=2), 2696.77045583654),
        ("euler", at(EULER, A, 1, sd=1.5, norm=0.5), 177.277938418),
        ("euler", at(EULER, A, 100, sd=1.5, norm=0.5), 2.80814623973),
        ("euler", at(EULER, A, 1e6, sd=1.5, norm=0.5), 0.0116391016275),
        ("euler", at(EULER, C, 1e4, sd=3, norm=1), 0.278853952059),
        ("bpi-ucbvi", at(BPIUCBVI, A, 100, sd=1.5, gap=0.3), 162.054401945),
        ("bpi-ucbvi", at(BPIUCBVI, A, 1e4, sd=1.5, gap=0.3), 2.66593130612),
        ("bpi-ucbvi", at(BPIUCBVI, A, 1e6, sd=1.5, gap=0.3), 0.114266606091),
        ("eqo", at(EQO, A, 1), 43.16686039453),
        ("eqo", at(EQO, A, 100, 10**6), 7.520233178926),
        ("eqo", at(EQO, B, 10, 10**4), 6.293111872387),
        ("eqo", at(EQO, C, 10, 100), 7.27239839257),  # 5/6 H l/n, lambda = 1
        ("bayes-ucbvi", at(BayesUCBVI, A, 1), 7.03771180486),
        ("bayes-ucbvi", at(BayesUCBVI, A, 100), 8.642542594743),
        ("bayes-ucbvi", at(BayesUCBVI, A, 1e6, 10**6), 12.25378142082),
        ("bayes-ucbvi", at(BayesUCBVI, C, 100), 8.765225398371),
        ("fiechter", at(Fiechter, A, 10), 1.5941673647 / 2),
        ("fiechter", at(Fiechter, A, 1000), 0.208915665406 / 2),
        ("fiechter", at(Fiechter, A, 1e5), 0.0249127391098 / 2),
    ]  # fmt: skip


GOLDEN = [pytest.param(x, y, id=f"{name}-{y:g}") for name, x, y in golden()]


@pytest.mark.parametrize(("number", "expected"), GOLDEN)
def test_golden(number: Number, expected: float) -> None:
    assert number(1.0) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("number", "expected"), GOLDEN)
def test_a_constant_off_by_a_tenth_is_seen(number: Number, expected: float) -> None:
    """And a scale multiplies the bonus by just that."""
    assert number(1.1) != pytest.approx(expected, rel=1e-10)
    assert number(1.1) == pytest.approx(1.1 * expected, rel=1e-9)


def test_golden_logs_and_thresholds() -> None:
    """Numbers that no scale multiplies."""
    assert [agent_at(MBIE, x).m for x in (A, B, C)] == [63213, 443503, 3437117]
    assert [agent_at(MBIEBonus, x).m for x in (A, B, C)] == [63213, 443503, 3437117]
    for scale in (0.5, 1.1):
        agent = agent_at(MBIE, A, scale=scale)
        assert agent.radius(agent.m, agent.m) <= 0.5 / 20 < agent.radius(agent.m - 1, agent.m - 1)
        assert agent.m == pytest.approx(scale**2 * 63213, rel=0.2)
    frozen = [agent_at(BEB, x).rule.most for x in (A, B, C)]
    assert frozen == [1001, 2001, 13825]  # the first above 4 H^3/eps = 1000, 2000, 13824
    phi = agent_at(ORLC, A).phi(np.array([1.0, 100, 1e6]))
    assert phi == pytest.approx([1, 0.25592310648, 0.00269870691324], rel=1e-10)
    assert agent_at(ORLC, C).phi(np.array([100.0])) == pytest.approx([0.263223737149], rel=1e-10)
    assert agent_at(EULER, A).log_term == pytest.approx(16.4545678876, rel=1e-10)
    assert agent_at(EULER, C).log_term == pytest.approx(17.5123581817, rel=1e-10)
    beta, star = agent_at(BPIUCBVI, A).thresholds(np.array([1, 100, 1e6]))
    assert beta == pytest.approx([26.1761639983, 45.7860306797, 91.7879858853], rel=1e-10)
    assert star == pytest.approx([11.0858091093, 15.0077824456, 24.2081734867], rel=1e-10)
    for log_term, point in zip(
        (14.7318012898, 17.2167079396, 15.789591584), (A, B, C), strict=True
    ):
        assert agent_at(UCBVI, point).log_term == pytest.approx(log_term, rel=1e-10)


def test_golden_gap() -> None:
    """BPI-UCBVI's G, where Var = 2.25 and the next states have G = .2."""
    told = slow.Told(5, 2, 5, 1, 0.5, 0.1)
    for n, expected in ((10**4, 5.0), (10**6, 0.446890809359)):
        look = slow.Look(0, 1, 5, 0.0, n, [n // 2, n // 2], [0, 3], [0, 0], [0.2, 0.2], False)
        assert slow.bpi_gap(told, look) == pytest.approx(expected, rel=1e-10)


def test_radius() -> None:
    """ln(2^S - 2): none for one state, ln 2 for two; no overflow for many."""
    one = np.ones(1)
    assert l1_radius(1, one, one)[0] == 0
    assert l1_radius(2, 0 * one, one)[0] == pytest.approx(sqrt(2 * np.log(2)))
    assert l1_radius(5000, 0 * one, one)[0] == pytest.approx(sqrt(2 * 5000 * np.log(2)))


# -- what the theorems promise -------------------------------------------------------------------


def short_chain() -> MDP:
    """Two states: the right action leads to the second with .9, which pays 1."""
    return MDP([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.1, 0.9]]], [[0.05, 0.0], [1, 1]], 2)


RUNS, EPISODES, DELTA = many(10, 20), 30_000, 0.1
OPTIMISTS = (
    UCBVI, UCBVIBernstein, MBIE, MBIEBonus, UBEV, ORLC, EULER, BPIUCBVI, BPIUCRL, BayesUCBVI,
)  # fmt: skip
CHAIN = short_chain()
BEST = CHAIN.optimal()


def rejected(held: int, runs: int) -> bool:
    """Whether so few runs speak against a probability of 1 - delta."""
    return bool(binomtest(held, runs, 1 - DELTA, alternative="less").pvalue < 0.001)


Test = Callable[[Any], bool]


def fails(cls: Any, holds: Test, learned: Test, scale: float = 1.0) -> bool:
    """Whether something holds in too few runs: in each of the first episodes, then 5 % apart.

    By the end of a run, it must have ``learned`` so much that this says something. A scale other
    than 1 is to see it fail: nothing stops it then, and all that it sees counts.
    """
    held, runs, episodes = 0, RUNS, EPISODES
    if cls is UCBVI:  # its bonus is so large
        runs, episodes = 10, 600_000
    options = {"m": 1000} if issubclass(cls, MBIE) and scale != 1 else {}
    epsilon = 0.5 if scale == 1 else 1e-6
    for seed in range(runs):
        agent = cls(CHAIN.problem, epsilon, DELTA, episodes, scale, **options)
        nature = Simulator(CHAIN.by_segment() if cls is UBEV else CHAIN, agent.problem).model
        good, seen, rng = holds(agent), 0, np.random.default_rng(seed)
        while good and seen < episodes and not agent.done:
            more = 1 + seen // 20
            agent.follow(rng, nature, more)
            seen += more
            good = holds(agent)
        assert learned(agent) or not good
        held += good
    return rejected(held, runs)


def hardly_any(cls: Any) -> float:
    """A scale at which bounds fail; balls of BPI-UCRL, by its square, let it stop before that."""
    return 0.01 if cls is BPIUCRL else 1e-5


def above_optimum(agent: BonusAgent) -> bool:
    return bool((BEST.values - 1e-9 <= agent.V).all())


@pytest.mark.slow
@pytest.mark.parametrize("cls", OPTIMISTS)
def test_optimism(cls: Any) -> None:
    """V~ >= V* in all states and at all steps, whenever looked at; not so with hardly any bonus."""

    def learned(agent: Any) -> bool:
        return bool(agent.optimistic < (1.04 if cls is UBEV else 1.95))  # at first: 1.05, 2

    assert not fails(cls, above_optimum, learned)
    assert fails(cls, above_optimum, learned, hardly_any(cls))


def hardly_below(agent: Any) -> bool:
    """V >= V* - (lambda/H) (2 H V* - V*^2)."""
    H, best = CHAIN.horizon, BEST.values
    return bool((best - agent.shortfall / H * (2 * H * best - best**2) - 1e-9 <= agent.V).all())


@pytest.mark.slow
def test_quasi_optimism() -> None:
    """EQO's values are hardly below the optimum; not so with hardly any bonus."""

    def learned(agent: Any) -> bool:
        return bool(agent.optimistic < 1.95 and agent.shortfall < 0.06)

    assert not fails(EQO, hardly_below, learned)
    assert fails(EQO, hardly_below, learned, 1e-5)


def test_quasi_optimism_is_less_than_optimism() -> None:
    """After a bad but usual draw, two standard deviations off: below the optimum, but hardly."""
    agent = EQO(CHAIN.problem, 0.5, DELTA, 1000)
    counts, n = agent.counts, 20_000
    counts.visits[:-1] = n
    good = CHAIN.table.dense(CHAIN.p)[..., 1].ravel()
    worse = np.round(n * good - 2 * np.sqrt(n * good * (1 - good)))
    counts.successors[:8] = np.column_stack([n - worse, worse]).ravel()
    agent.restore(agent.state())
    assert agent.V[0, 0] < BEST.values[0, 0] - 0.001
    assert not above_optimum(agent)
    assert hardly_below(agent)


def lower_holds(agent: Any) -> bool:
    """ORLC bounds the policy that it plays, BPI-UCRL what it would return, others the optimum."""
    if isinstance(agent, BPIUCRL):
        plan = agent.robust()
        return bool((CHAIN.values(plan.policy) + 1e-9 >= plan.values).all())
    values = CHAIN.values(agent.policy) if isinstance(agent, ORLC) else BEST.values
    return bool((values + 1e-9 >= agent.L).all())


@pytest.mark.slow
@pytest.mark.parametrize("cls", [ORLC, EULER, BPIUCBVI, BPIUCRL])
def test_lower_bounds(cls: Any) -> None:
    def learned(agent: Any) -> bool:
        lower = agent.robust().values if cls is BPIUCRL else agent.L
        return bool(lower[0, 0] > 0.1)

    assert not fails(cls, lower_holds, learned)
    assert fails(cls, lower_holds, learned, hardly_any(cls))


def gap_holds(agent: Any) -> bool:
    gap = CHAIN.at_start(BEST.values) - CHAIN.value(agent.policy)
    bound = agent.gap_bound if isinstance(agent, ORLC) else agent.gap_bound_now()
    return bool(gap <= bound + 1e-9)


@pytest.mark.slow
def test_gaps() -> None:
    """Certificates of ORLC, and G of BPI-UCBVI. (Bounds on both sides were seen to fail above.)"""

    def learned(agent: Any) -> bool:
        return bool(agent.gap_bound < 1.95)  # at first: 2

    for cls in (ORLC, BPIUCBVI):
        assert not fails(cls, gap_holds, learned)


def model_of(agent: Any) -> Floats:
    """(entries,) p^, all successors alike where there is no visit."""
    row = CHAIN.table.row_of_entry
    n = agent.counts.visits[row]
    alike = 1 / CHAIN.table.lengths[row]
    return np.where(n > 0, agent.counts.successors / np.maximum(n, 1), alike)


def errors_bounded(agent: Any) -> bool:
    """E bounds how much the model's values of a policy are off; here those of the best one.

    Of RF-Express, what is proved for W is less than what it stops by.
    """
    E = agent.V + (sqrt(e / 15) * np.sqrt(agent.V) if isinstance(agent, RFExpress) else 0.0)
    rows = CHAIN.table.rows_of(BEST.policy, CHAIN.horizon)
    values = evaluate(CHAIN.table, model_of(agent), CHAIN.mean_rewards, rows)
    return bool((np.abs(values - BEST.values) <= E + 1e-9).all())


@pytest.mark.parametrize("cls", [Fiechter, RFUCRL, RFExpress])
def test_what_is_not_known(cls: type[RewardFree]) -> None:
    def learned(agent: Any) -> bool:
        return bool(agent.optimistic < 0.5)  # at first: 1, or 2

    assert not fails(cls, errors_bounded, learned)
    assert fails(cls, errors_bounded, learned, 1e-5)


# -- learning ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "episodes"),
    [
        (UCBVI, 400_000), (UCBVIBernstein, 60_000), (MBIE, 5000), (MBIEBonus, 5000), (BEB, 2000),
        (UBEV, 5000), (ORLC, 60_000), (EULER, 20_000), (BPIUCBVI, 100_000), (Fiechter, 20_000),
        (RFUCRL, 100_000), (BPIUCRL, 20_000),
        (EQO, 5000), (BayesUCBVI, 60_000),
    ],
)  # fmt: skip
def test_learns(cls: Any, episodes: int) -> None:
    """As published, scale = 1, it plays optimally in the end."""
    mdp = short_chain()
    for seed in range(1 if cls is UCBVI else 2):
        agent = cls(mdp.problem, 0.25, 0.1, episodes)
        run = simulate(mdp, agent, episodes=episodes, seed=seed)
        late = [x for x in run.rows if x.first_episode + x.episodes > 0.9 * run.episodes]
        wrong = sum(x.episodes for x in late if x.gap > 1e-9)
        assert run.gap <= 1e-9
        assert run.final or wrong <= 0.02 * run.episodes


@pytest.mark.parametrize(
    ("cls", "scale"),
    [(Fiechter, 1.0), (BPIUCBVI, 0.1), (RFUCRL, 1.0), (RFExpress, 0.001), (BPIUCRL, 1.0)],
)
def test_stops(cls: Any, scale: float) -> None:
    """It stops by itself with a policy that is good enough, and stays with it."""
    good, runs = 0, 5 if cls is BPIUCBVI else RUNS
    for seed in range(runs):
        agent = cls(CHAIN.problem, 0.5, DELTA, 100_000, scale)
        run = simulate(CHAIN, agent, episodes=100_000, seed=seed)
        assert (run.final, agent.done) == (True, True)
        assert 1 < run.episodes < 100_000
        assert run.rows[-1].episodes == 0
        assert np.array_equal(run.policy, agent.policy)
        gap = CHAIN.at_start(BEST.values) - CHAIN.value(agent.policy)
        assert run.gap == pytest.approx(gap, abs=1e-12)
        good += run.gap <= 0.5
    assert not rejected(good, runs)


def test_bpi_tests_often() -> None:
    """Once it may stop, tests are 2 % of the episodes apart, so that it does little later."""
    rng, agent = np.random.default_rng(1), BPIUCBVI(CHAIN.problem, 0.5, 0.1, 10**5, 0.1)
    nature = Simulator(CHAIN, CHAIN.problem).model
    while not agent.done:
        seen, test = agent.clock
        assert seen < test <= 1.02 * max(seen, agent.first_stop) + 1
        agent.follow(rng, nature, int(test - seen))
        assert agent.gap_bound == agent.gap_bound_now()
        assert agent.done == (agent.gap_bound <= 0.5)
    assert agent.follow(rng, nature, 10)[0] == 0
    again = BPIUCBVI(CHAIN.problem, 0.5, 0.1, 10**5, 0.1)
    again.restore(agent.state())
    assert (again.done, again.gap_bound) == (True, agent.gap_bound)


def test_fiechter_takes_the_optimum_of_its_model() -> None:
    """H = 1: nothing to learn, and done before the first episode. Else the empirical optimum."""
    mdp = MDP([[[1.0]] * 3], [[0.1, 0.9, 0.2]], 1)
    run = simulate(mdp, Fiechter(mdp.problem, 0.5, 0.1, 10), episodes=10)
    assert (run.final, run.episodes, run.gap, len(run.rows)) == (True, 0, 0, 1)
    agent = Fiechter(CHAIN.problem, 1, 0.1, 10**5)
    simulate(CHAIN, agent, episodes=10**5)
    model = MDP(CHAIN.table.dense(model_of(agent)), CHAIN.rewards.pair.reshape(2, 2), CHAIN.horizon)
    assert model.value(agent.policy) == pytest.approx(model.at_start(model.optimal().values))


def test_fiechter_where_the_next_state_pays() -> None:
    """Even the last step has something to learn then, by |(p^ - p) r| <= rad/2."""
    mdp = MDP([[[0.5, 0.5]] * 2] * 2, [[[[0, 1]] * 2] * 2], 1)
    agent = Fiechter(mdp.problem, 0.5, 0.1, 10**5)
    assert agent.optimistic == 1
    run = simulate(mdp, agent, episodes=10**5)
    n = agent.counts.visits[:2].astype(float)  # both actions of the start
    assert run.final
    assert (agent.radius(n) / 2 <= 0.25).all()
    assert (agent.radius(n / 1.02 - 1) / 2).max() > 0.25


@pytest.mark.parametrize("cls", [MBIE, MBIEBonus, BEB])
def test_frozen(cls: Any) -> None:
    """Only the first m visits of a pair count."""
    options = {} if cls is BEB else {"m": 33.0}
    mdp = short_chain()
    agent = cls(mdp.problem, 1.0, 0.1, 500, **options)
    assert agent.rule.most == 33
    simulate(mdp, agent, episodes=500)
    assert agent.counts.visits.max() == 33
    per_row = np.add.reduceat(agent.counts.successors, mdp.table.indptr[:-1])
    assert np.array_equal(per_row, agent.counts.visits)
    if cls is not BEB:
        assert agent.settings()["m"] == 33
        for wrong in (0, -1, float("nan"), float("inf")):
            with pytest.raises(InputError, match="m = "):
                cls(mdp.problem, 1.0, 0.1, 500, m=wrong)


def test_one_of_each() -> None:
    """S = A = H = 1: no radius, no log of zero."""
    mdp = MDP([[[1.0]]], [[0.5]], 1)
    for cls in (*OPTIMISTS, BEB, EQO, Fiechter, RFUCRL, RFExpress):
        agent = cls(mdp.problem, 0.5, 0.1, 10)
        assert simulate(mdp, agent, episodes=10).gap == 0
    assert MBIE(mdp.problem, 0.5, 0.1, 10).m == 1


def test_ubev_counts_by_step() -> None:
    """What is seen at one step says nothing of the others: here they are opposites."""
    right, wrong = [[[0.9, 0.1], [0.1, 0.9]]] * 2, [[[0.1, 0.9], [0.9, 0.1]]] * 2
    mdp = MDP([right, wrong, right], [[0, 0], [1, 1]], 3)
    run = simulate(mdp, UBEV(mdp.problem, 0.5, 0.1, 20_000), episodes=20_000)
    assert run.gap == pytest.approx(0, abs=1e-9)
    assert UBEV(short_chain().problem, 0.5, 0.1, 1).problem.table.segments == 2


def test_eqo_with_nothing_to_fail() -> None:
    """S A H/delta = 1: the logarithm is 0, and so is the bonus."""
    agent = EQO(MDP([[[1.0]]], [[0.5]], 1).problem, 1.0, 1.0, 5)
    assert agent.coefficients(np.ones(1))["flat"] == 0
