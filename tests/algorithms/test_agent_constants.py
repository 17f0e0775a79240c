"""Where agents' constants come from: each says it, and those that are derived are derived here.

Numbers are worked out a second time, from what they are for, not from the formula in the code.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, getcontext
from math import ceil, exp, log, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ucfh import Problem, make
from ucfh.algorithms.base import Agent
from ucfh.algorithms.bpi_ucbvi import BPIUCBVI
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.algorithms.delayed_q import DelayedQ
from ucfh.algorithms.eqo import EQO
from ucfh.algorithms.euler import EULER
from ucfh.algorithms.generative import Azar
from ucfh.algorithms.registry import AGENTS, ORIGINS, agent_class, origins, tell_origins
from ucfh.algorithms.rmax import Kakade
from ucfh.algorithms.ubev import UBEV
from ucfh.algorithms.ucfh import UCFH

Point = tuple[int, int, int, float, float]
A, B, C = (5, 2, 5, 0.5, 0.1), (20, 3, 5, 0.25, 0.05), (6, 2, 12, 0.5, 0.1)


def told(point: Point) -> Problem:
    S, actions, H, _, _ = point
    return Problem(S, actions, H, np.zeros((S, actions)), initial=0)


# -- every agent says where its constants come from ---------------------------------------------


ALGORITHMS: list[type[Agent]] = [*map(agent_class, AGENTS)]


@pytest.mark.parametrize("cls", ALGORITHMS, ids=[cls.__name__ for cls in ALGORITHMS])
def test_each_says_where_its_constants_come_from(cls: type[Agent]) -> None:
    """In its own class, for a text that is inherited is another agent's."""
    assert "constants" in vars(cls), f"{cls.__name__} does not say where its constants come from"
    text = vars(cls)["constants"]
    assert text
    assert "\n" not in text
    assert len(text) <= 120
    if text == "none":
        assert cls.name in ("uniform", "optimal")
        return
    for part in text.split("; "):
        origin, _, which = part.partition(": ")
        assert origin in ORIGINS
        assert which
    assert list(dict.fromkeys(origins(text))) == origins(text)


def test_what_was_not_seen_is_not_called_published() -> None:
    """Nor what was chosen here, nor what the authors chose for their experiments."""
    kinds = {name: origins(agent_class(name).constants) for name in AGENTS}
    for name in ("rmax", "ucrl-gamma", "auer-ortner", "orlc", "azar"):
        assert kinds[name][0] == "unverified"
    for name in ("beb", "euler"):
        assert "unverified" in kinds[name]
    assert kinds["psrl"] == kinds["ucb-b"] == ["chosen"]
    assert kinds["opsrl"] == ["from code"]
    for name in ("kakade", "fiechter", "reveliotis", "phased-q", "indirect"):
        assert kinds[name] == ["derived"]
    for name in ("ucrl2", "ucbvi-ch", "ucbvi-bf", "mvp", "bayes-ucbvi"):
        assert kinds[name] == ["published"]
    assert kinds["eqo"] == ["derived", "chosen"]
    assert kinds["rlsvi"] == ["published", "unverified"]
    assert kinds["q-early-settled"] == ["from code", "derived"]


def test_numbers_of_ucfh_are_where_they_were() -> None:
    """A class says where they come from, an agent has them."""
    problem = make("chain:n=5").problem
    for cls in (UCFH, CertifiedUCFH):
        agent: UCFH | CertifiedUCFH = cls(problem, epsilon=0.5, delta=0.1)
        assert agent.constants.m > 1
        assert isinstance(cls.constants, str)


def test_a_agent_that_says_nothing() -> None:
    class Own(EULER):
        constants = Agent.constants

    assert Own.constants == tell_origins(Own.constants) == "not stated"
    assert tell_origins("none") == "none"
    assert origins("as my paper has it; chosen: c = 1") == ["chosen"]


# -- numbers, worked out a second time -------------------------------------------------------------


def exactly(number: Callable[[Any, Any, Any, Any, Any], Any], point: Point) -> Any:
    """In decimals of 50 digits."""
    getcontext().prec = 50
    return number(*(Decimal(repr(x)) for x in point))


@pytest.mark.parametrize("point", [A, B, C])
def test_azar_counts_a_value_for_every_step(point: Point) -> None:
    S, actions, H, epsilon, delta = point
    agent = Azar(told(point), epsilon, delta)
    number = exactly(
        lambda S, A, H, eps, delta: 68 * H**3 / eps**2 * (12 * (S * A * H) / delta).ln(), point
    )
    assert agent.wants is not None
    assert agent.wants[0] == ceil(number)
    # one V* for each of H steps: as if there were H times as many pairs
    more = Azar(told((S, actions * H, H, epsilon, delta)), epsilon, delta)
    assert agent.required_samples(1) / more.required_samples(1) < 1
    alone = 68 * H**3 / epsilon**2 * log(12 * S * actions / delta)
    assert agent.required_samples(1) - alone == pytest.approx(68 * H**3 / epsilon**2 * log(H))


@pytest.mark.parametrize("point", [A, B, C])
def test_delayed_q_by_hoeffding(point: Point) -> None:
    """A third of delta for all attempts: of each row one, and one after each change of any."""
    S, actions, H, epsilon, delta = point
    agent = DelayedQ(told(point), epsilon, delta, 1)
    rows, eps_1 = S * actions * H, epsilon / (3 * H)
    changes = rows * H / eps_1  # Q falls from H at most, by eps_1 at least
    attempts = rows * (1 + changes)

    def too_low(m: int) -> float:
        """That some mean of m samples of [0, H] is more than eps_1 below its mean."""
        return attempts * exp(-2 * m * (eps_1 / H) ** 2)

    assert too_low(agent.m) <= delta / 3 < too_low(agent.m - 1)


@pytest.mark.parametrize("point", [A, B, C])
def test_kakade_by_weissman(point: Point) -> None:
    """Half of delta for all rows: none is off by more than eps/(4 H^2), in L1."""
    S, actions, H, epsilon, delta = point
    agent = Kakade(told(point), epsilon, delta, 1)
    a = epsilon / (4 * H**2)

    def too_far(m: int) -> float:
        return S * actions * exp(log(2**S - 2) - m * a**2 / 2)

    assert too_far(agent.m) <= delta / 2 < too_far(agent.m - 1)
    printed = 128 * S * H**4 / epsilon**2 * log(4 * S**2 * actions / delta)
    assert agent.m < printed / 10


def test_kakade_of_one_state() -> None:
    """There is but one law: a single visit is enough."""
    assert Kakade(Problem(1, 2, 3, 0.5, initial=0), 0.5, 0.1, 1).m == 1


@pytest.mark.parametrize("n", [1, 2, 3, 100, 10**6])
def test_bonus_of_euler(n: int) -> None:
    """phi has J/(n-1), as public code has it, and not J/n."""
    S, actions, H, epsilon, delta = A
    agent = EULER(told(A), epsilon, delta, 1000)
    found = {name: float(x[0]) for name, x in agent.coefficients(np.array([float(n)])).items()}
    ell = log(4 * S * actions * 1000 * H / (delta / 7))
    phi = H * ell / 3 / max(1, n - 1)
    rest = 4 * H * ell / 3 / n + H * sqrt(2 * ell) / n
    assert found["flat"] == pytest.approx(phi + rest, rel=1e-12)
    assert found["flat"] != pytest.approx(1.1 * phi + rest, rel=1e-9)
    assert found["deviation"] == found["distance"] == pytest.approx(sqrt(2 * ell / n), rel=1e-12)


@pytest.mark.parametrize("point", [A, B, C])
def test_eighteen_of_ubev(point: Point) -> None:
    """ln(3/delta_1), where S A H means fail on either side with 2 delta_1 each: delta/3 of it."""
    S, actions, H, epsilon, delta = point
    agent = UBEV(told(point), epsilon, delta, 1)
    delta_1 = delta / (6 * S * actions * H)
    assert 2 * S * actions * H * delta_1 == pytest.approx(delta / 3)
    assert agent.phi(np.ones(1))[0] ** 2 == pytest.approx(log(3 / delta_1), rel=1e-12)


@pytest.mark.parametrize("K", [10, 1000, 10**4, 10**7])
def test_bonus_of_eqo(K: int) -> None:
    """H l/y for the largest y that Bennett's inequality allows, y phi(y) <= lambda, or a bit more.

    Here phi(y) = (e^y - 1 - y)/y^2. And the function f of the proof does what it is for.
    """
    S, actions, H, epsilon, delta = A
    agent = EQO(told(A), epsilon, delta, K)
    lam = agent.shortfall
    low, high = 0.0, 3.0
    for _ in range(100):
        y = (low + high) / 2
        low, high = (y, high) if (exp(y) - 1 - y) / y <= lam else (low, y)
    least = H * log(S * actions * H / delta) / low
    assert least <= agent.coefficients(np.ones(1))["flat"][0] <= 1.05 * least

    def f(v: Any) -> Any:
        return lam / H * (2 * H * v - v**2)

    rng = np.random.default_rng(K)
    U, p = H * rng.random((1000, 4)), rng.dirichlet(np.ones(4), 1000)
    mean = (p * U).sum(1)
    variance = (p * U**2).sum(1) - mean**2
    np.testing.assert_allclose((p * f(U)).sum(1), f(mean) - lam / H * variance, atol=1e-12)
    W = U - f(U)
    slopes = np.diff(W) / np.diff(U)
    assert (np.abs(slopes) <= 1 + 1e-9).all()
    assert f(H) == pytest.approx(lam * H)


# -- the proof that is told of BPI-UCBVI -----------------------------------------------------------

Floats = NDArray[np.float64]


def laws(seed: int) -> tuple[Floats, Floats, float]:
    """Two laws on a few states, close or not, and KL(p^, p)."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    p = rng.dirichlet(np.full(k, rng.choice([0.2, 1.0, 5.0])))
    near = rng.dirichlet(np.ones(k)) if seed % 2 else p * np.exp(rng.normal(0, 0.2, k))
    p_hat = near / near.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p_hat > 0, p_hat * np.log(p_hat / p), 0.0)
    return p_hat, p, float(terms.sum())


def variance(p: Floats, f: Floats) -> float:
    return float(p @ f**2 - (p @ f) ** 2)


def test_a_divergence_bounds_variances_and_means() -> None:
    """Var_p f <= 2 Var_p^ f + 2 H^2 KL, and p f <= (1 + 1/H) p^ f + (H+1)^2/2 KL; 0 <= f <= H."""
    tightest = 0.0
    for seed in range(2000):
        p_hat, p, kl = laws(seed)
        rng = np.random.default_rng([seed, 1])
        H = int(rng.integers(1, 8))
        f = H * rng.random(len(p)) ** rng.choice([0.2, 1, 5])
        assert variance(p, f) <= 2 * variance(p_hat, f) + 2 * H**2 * kl + 1e-9
        bound = (1 + 1 / H) * (p_hat @ f) + (H + 1) ** 2 / 2 * kl
        assert p @ f <= bound + 1e-9
        tightest = max(tightest, float(p @ f / bound))
    assert tightest > 0.8


@pytest.mark.slow
def test_bonuses_of_bpi_ucbvi_cover_what_is_proved() -> None:
    """The three inequalities that its docstring derives, at any values of what they hold of."""
    rng = np.random.default_rng(0)
    for _ in range(2000):
        H, S = int(rng.integers(1, 20)), int(rng.integers(1, 20))
        agent = BPIUCBVI(told((S, 2, H, 0.5, 0.1)), 0.5, 0.1, 1)
        n = float(10 ** rng.uniform(0, 7))
        beta, star = (float(x) for x in agent.thresholds(n))
        assert star <= beta
        sd, gap = H / 2 * rng.random(), H * rng.random()
        b = {name: float(x[0]) for name, x in agent.coefficients(np.array([n])).items()}
        bonus = b["deviation"] * sd + b["flat"] + b["spread"] * gap
        # the optimum's own deviation is at most that of V~ and the root of H p^ (V~ - V*)
        own = sd + sqrt(H * gap)
        error = sqrt(2 * star / n * (2 * own**2 + 2 * H**2 * beta / n)) + 3 * H * star / n
        assert error <= bonus
        # V~ - V_: both bonuses, that of V_ with a deviation of its own
        width = 6 * sqrt(star / n) * sd + 36 * H**2 * beta / n + (1 + 3 / H) * gap
        lower = b["deviation"] * own + b["flat"] + b["spread"] * gap
        assert gap + bonus + lower <= width
        # V~ - V^pi: its own bonus, the error of p^ V*, and that of p^ (V* - V^pi)
        part = gap * rng.random()
        own = sd + sqrt(H * part)
        error = sqrt(2 * star / n * (2 * own**2 + 2 * H**2 * beta / n)) + 3 * H * star / n
        other = (gap - part) / H + (H + 1) ** 2 / 2 * beta / n
        assert gap + bonus + error + other <= width


# -- the proofs that are told of RF-UCRL and RF-Express --------------------------------------------


def test_a_divergence_bounds_means_by_deviations() -> None:
    """|(p^ - p) f| <= 2 sd_p^(f) sqrt(KL) + (7/3) H KL, 0 <= f <= H."""
    tightest = 0.0
    for seed in range(2000):
        p_hat, p, kl = laws(seed)
        rng = np.random.default_rng([seed, 2])
        H = int(rng.integers(1, 8))
        f = H * rng.random(len(p)) ** rng.choice([0.2, 1, 5])
        off = abs(float((p_hat - p) @ f))
        bound = 2 * sqrt(max(0.0, variance(p_hat, f) * kl)) + 7 / 3 * H * kl
        assert off <= bound + 1e-9
        tightest = max(tightest, off / bound)
    assert tightest > 0.5


def test_errors_of_a_model_by_its_divergences() -> None:
    """For any policy and rewards, |V^ - V| <= E, and <= sqrt(e W/c) + W with c H^2 b for 15 H^2 b.

    b = KL(p^, p) of each row, which is the smallest that it may be; sqrt(b/2) in E, and c = 10/3 or
    15 in W. What RF-Express stops by, with c = 15 and 3e, is larger.
    """
    tightest = {"E": 0.0, 10 / 3: 0.0, 15: 0.0}
    for seed in range(300):
        rng = np.random.default_rng(seed)
        S, H = int(rng.integers(2, 5)), int(rng.integers(1, 6))
        p = rng.dirichlet(np.ones(S), (H, S))  # of the policy's actions
        p_hat = p * np.exp(rng.normal(0, rng.choice([0.003, 0.1, 1]), p.shape))
        p_hat /= p_hat.sum(-1, keepdims=True)
        b = (p_hat * np.log(p_hat / p)).sum(-1)
        r = rng.random((H, S, S)) ** rng.choice([0.1, 1, 10])  # on the next state, too
        V, V_hat, E = np.zeros((3, S))
        W = {c: np.zeros(S) for c in (10 / 3, 15)}
        for t in range(H - 1, -1, -1):
            E = np.minimum(H - t, (H - t) * np.sqrt(b[t] / 2) + p_hat[t] @ E)
            W = {
                c: np.minimum(H, c * H**2 * b[t] + (1 + 1 / H) * p_hat[t] @ x) for c, x in W.items()
            }
            V, V_hat = (p[t] * (r[t] + V)).sum(-1), (p_hat[t] * (r[t] + V_hat)).sum(-1)
        off = np.abs(V - V_hat)
        bounds = {"E": E} | {c: sqrt(exp(1) / c) * np.sqrt(x) + x for c, x in W.items()}
        for name, bound in bounds.items():
            assert (off <= bound + 1e-9).all()
            tightest[name] = max(tightest[name], float((off / bound).max()))
        assert (bounds[15] <= 3 * exp(1) * np.sqrt(W[15]) + W[15]).all()
    assert min(tightest.values()) > 0.2
