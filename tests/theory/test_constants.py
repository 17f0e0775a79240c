"""The constants of both variants and the table of bounds, against golden numbers and exact logs."""

import dataclasses
import math
import subprocess
import sys
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import reference as ref
from ucfh.exceptions import InputError
from ucfh.mdp import Problem
from ucfh.theory.bounds import bounds, lower_bound, theorem_2
from ucfh.theory.constants import Constants, Variant, ceil_log2, constants, constants_of, floor_log2

VARIANTS: tuple[Variant, ...] = ("paper", "corrected")
SIZES = {
    "T1": (2, 2, 3, 0.5, 0.1, 2),
    "T2": (5, 2, 5, 0.5, 0.1, 5),
    "T3": (10, 2, 10, 0.1, 0.05, 10),
}
COLUMNS = ("w_min", "u_max", "delta_1", "m", "m_w_min", "cutoff", "episode_bound")
GOLDEN: dict[tuple[Variant, str], tuple[float, ...]] = {
    ("paper", "T1"): (
        *(0.0208333333333, 32.6797000058, 7.65000902566e-4, 32159538.2832),
        *(669990.380900, 192957229.699, 39678045621.8),
    ),
    ("paper", "T2"): (
        *(0.005, 122.877123795, 8.13821132129e-5, 869468796.844),
        *(4347343.98422, 21736719921.1, 5.18117445886e12),
    ),
    ("paper", "T3"): (
        *(0.00025, 372.192809489, 6.71694867892e-6, 941060630530),
        *(235265157.633, 9.4106063053e13, 2.63927022209e16),
    ),
    ("corrected", "T1"): (
        *(0.0104166666667, 48, 5.20833333333e-4, 37232592.5523),
        *(387839.505753, 446791110.628, 64337919930.4),
    ),
    ("corrected", "T2"): (
        *(0.0025, 150, 6.66666666667e-5, 711705799.885),
        *(1779264.49971, 17792644997.1, 6.26301103899e12),
    ),
    ("corrected", "T3"): (
        *(0.000125, 420, 5.95238095238e-6, 757986995930),
        *(94748374.4912, 7.5798699593e13, 2.47406955472e16),
    ),
}

# A dozen roundings of 1.1e-16 each, squared logarithms among them, stay far below this.
EXACT = 1e-13

ROW: dict[str, Any] = {"states": 5, "actions": 2, "horizon": 5, "epsilon": 0.5, "delta": 0.1}


def check(got: Constants, want: dict[str, float]) -> None:
    for name, value in want.items():
        assert getattr(got, name) == pytest.approx(value, rel=EXACT, abs=0), name


@pytest.mark.parametrize("column", range(len(COLUMNS)), ids=COLUMNS)
@pytest.mark.parametrize(("variant", "size"), GOLDEN)
def test_golden(variant: Variant, size: str, column: int) -> None:
    """Golden values, to the digits given."""
    S, A, H, eps, delta, C = SIZES[size]
    c = constants(S, A, H, eps, delta, successors=C, variant=variant)
    got = {**{name: getattr(c, name, math.nan) for name in COLUMNS}, "m_w_min": c.m * c.w_min}
    want = GOLDEN[variant, size][column]
    assert got[COLUMNS[column]] == pytest.approx(want, rel=1e-10, abs=0)


def test_printed_theorem_1() -> None:
    """The number that ends the proof, 3072 = 6 * 512, written out once more."""
    S, A, H, eps, delta, C = SIZES["T3"]
    want = (
        3072
        * max(1, math.log2(math.log2(H))) ** 2
        * (C * H**2 * S * A / eps**2)
        * math.log2(4 * H**2 * S / eps) ** 2
        * math.log2(8 * H**2 * S**2 / eps) ** 2
        * math.log(6 * S * A * C * math.log2(4 * S**2 * H**2 / eps) ** 2 / delta)
    )
    got = constants(S, A, H, eps, delta, C).episode_bound
    assert got == pytest.approx(want, rel=EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("H", [1, 2, 3, 4, 5, 16, 17])
@pytest.mark.parametrize("A", [1, 2, 4])
@pytest.mark.parametrize("S", [1, 2, 3, 4, 5, 16])
def test_reference(S: int, A: int, H: int, variant: Variant) -> None:
    """Small sizes and powers of two, where ceilings and floors sit on an edge."""
    for eps, delta in ((1, 1), (0.5, 0.1), (2.0**-7, 0.05), (0.1, 1e-9), (1e-12, 0.3), (1e-100, 1)):
        for C in {1, S}:
            want = ref.constants(S, S * A, H, C, min(A, H), float(eps), float(delta), variant)
            check(constants(S, A, H, eps, delta, C, variant), want)


@given(
    S=st.integers(1, 10**4),
    A=st.integers(1, 100),
    H=st.integers(1, 10**4),
    eps=st.floats(1e-9, 1),
    delta=st.floats(1e-9, 1),
    part=st.floats(0, 1),
    variant=st.sampled_from(VARIANTS),
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_reference_anywhere(
    S: int, A: int, H: int, eps: float, delta: float, part: float, variant: Variant
) -> None:
    C = max(1, round(part * S))
    want = ref.constants(S, S * A, H, C, min(A, H), eps, delta, variant)
    check(constants(S, A, H, eps, delta, C, variant), want)


@pytest.mark.parametrize("eps", [1e-160, 1e-200, 5e-324])
def test_tiny_epsilon(eps: float) -> None:
    """An error, or infinity."""
    for variant in VARIANTS:
        with suppress(InputError):
            assert constants(5, 2, 5, eps, 0.1, variant=variant).m > 1e300


def test_logarithms_at_edges() -> None:
    tiny = Fraction(1, 10**40)
    for k in range(1, 80):
        two = Fraction(2) ** k
        assert (floor_log2(two), ceil_log2(two)) == (k, k)
        assert (floor_log2(two + tiny), ceil_log2(two + tiny)) == (k, k + 1)
        assert (floor_log2(two - tiny), ceil_log2(two - tiny)) == (k - 1, k)
    assert (floor_log2(Fraction(1)), ceil_log2(Fraction(1))) == (0, 0)


def test_edges_are_reached() -> None:
    """y = 2^13 exactly: U_max has ceil(13) + 1 = 14 a pair, m ceil(14) and floor(log2 2^11) + 1."""
    c = constants(4, 4, 4, 0.5, 0.1, variant="corrected")
    assert c.u_max == 16 * 14
    assert c.m == pytest.approx(512 * 4 * 16 / 0.25 * 14 * 12 * math.log(6 / c.delta_1), rel=EXACT)
    # a hair more accuracy: y leaves the power of two, H/w_min does not reach the next one
    finer = constants(4, 4, 4, 0.5 - 1e-12, 0.1, variant="corrected")
    assert finer.u_max == 16 * 15
    assert finer.e_max == c.e_max == 12 * 5


def test_defaults_and_given_m() -> None:
    assert constants(**ROW) == constants(**ROW, successors=5, variant="paper")
    c = dataclasses.replace(constants(**ROW), m_given=7)
    assert (c.m, c.cutoff) == (7, 5 * 7 * 5)
    assert (c.w_min, c.delta_1) == (constants(**ROW).w_min, constants(**ROW).delta_1)


def segmented(S: int, A: int, H: int) -> dict[str, Any]:
    return {"states": S, "actions": A, "horizon": H, "time_dependent": True}


@pytest.mark.parametrize("variant", VARIANTS)
def test_of_a_problem(variant: Variant) -> None:
    """Time-dependent: S H states and B = 1; an unknown start: one more state, pair and step;
    unknown rewards: one more entry a row, and 3/4 of epsilon for the transitions."""
    S, A, H, eps, delta = 3, 2, 4, 0.5, 0.1
    r, mask = np.zeros((S, 1)), np.ones((S, A, S), bool)
    mask[:, :, 2] = False
    plain: dict[str, Any] = {"states": S, "actions": A, "horizon": H}
    cases = [
        (Problem(**plain, rewards=r, initial=0), (S, S * A, H, S, 2, eps)),
        (Problem(**plain, rewards=r, initial=0, successors=mask), (S, S * A, H, 2, 2, eps)),
        (Problem(**segmented(S, A, H), rewards=r, initial=0), (S * H, S * A * H, H, S, 1, eps)),
        (Problem(**plain, rewards=r, successors=mask), (S + 1, S * A + 1, H + 1, S, 2, eps)),
        (Problem(**plain, initial=0, successors=mask), (S, S * A, H, 3, 2, 0.375)),
        (Problem(**segmented(S, A, H)), (S * H + 1, S * A * H + 1, H + 1, S + 1, 1, 0.375)),
        (Problem(3, 3, 2, r, initial=0), (3, 9, 2, 3, 2, eps)),  # B = H < A
        (
            Problem(
                **plain,
                rewards=r,
                initial=0,
                available=np.eye(S, A, k=0, dtype=bool) | (np.arange(A) == 0),
            ),
            (S, 4, H, S, 2, eps),
        ),
    ]
    for problem, (S_known, SA, H_known, C, B, e) in cases:
        want = ref.constants(S_known, SA, H_known, C, B, e, delta, variant)
        check(constants_of(problem, eps, delta, variant), want)


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"epsilon": 1.0001}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"delta": 2}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"states": 0}, "states"),
        ({"states": 1.5}, "states"),
        ({"states": math.nan}, "states"),
        ({"actions": 0}, "actions"),
        ({"actions": math.inf}, "actions"),
        ({"horizon": 0}, "horizon"),
        ({"horizon": -3}, "horizon"),
        ({"horizon": True}, "horizon"),
        ({"successors": 0}, "successors"),
        ({"successors": 6}, "successors"),
        ({"variant": "printed"}, "variant"),
    ],
    ids=str,
)
def test_errors(changed: dict[str, Any], names: str) -> None:
    with pytest.raises(InputError, match=names) as caught:
        constants(**{**ROW, **changed})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("m", [0, -1, math.nan, math.inf])
def test_bad_m(m: float) -> None:
    with pytest.raises(InputError, match="m = "):
        dataclasses.replace(constants(**ROW), m_given=m)


@pytest.mark.slow
@pytest.mark.parametrize(
    "before", ["", "ucfh.UCFH, ucfh.simulate, ucfh.fixed_horizon_evi", "ucfh.bounds"]
)
def test_public_names_are_the_functions(before: str) -> None:
    """`ucfh.constants` and `ucfh.bounds`, whichever public name was used before them."""
    sizes = "(5, 2, 5, .5, .1)"
    code = f"import ucfh\n{before}\nprint(ucfh.constants{sizes}.w_min, len(ucfh.bounds{sizes}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr.splitlines()[-1]
    assert done.stdout.split() == ["0.005", "11"]


IN_RANGE = {
    **ROW,
    "states": 100,
    "actions": 4,
    "horizon": 50,
    "epsilon": 6.86836458328e-4,
    "delta": 1e-4,
}


def test_theorem_2_golden() -> None:
    assert theorem_2(**IN_RANGE) == pytest.approx(308.847572681, rel=1e-11)


def test_the_proved_lower_bound() -> None:
    """Proposition 12: 3/16 in the place of 1/400, and a larger range of delta."""
    assert lower_bound(**IN_RANGE) == pytest.approx(75 * 308.847572681, rel=1e-11)
    for delta in (0.01, 0.1, 0.2497):
        wider = {**IN_RANGE, "delta": delta}
        with pytest.raises(InputError, match="delta"):
            theorem_2(**wider)
        tail = math.log(1 / (4 * (delta + math.exp(-4) / 80)))
        gap = 160 * IN_RANGE["epsilon"] * math.exp(4) / 48
        assert lower_bound(**wider) == pytest.approx(3 / 16 * 3 * 97 / gap**2 * tail, rel=1e-11)
        rows = {row.name: row.episodes for row in bounds(**wider)}
        assert rows["Theorem 2, proved"] == lower_bound(**wider)
        assert rows["Theorem 2, published"] is None
    with pytest.raises(InputError, match="delta"):
        lower_bound(**{**IN_RANGE, "delta": 0.25 - math.exp(-4) / 80})


def test_the_formula_of_theorem_1_names_its_m() -> None:
    """For many pairs and few successors, the bound is larger than 16 SA m E_max (E17)."""
    size: dict[str, Any] = {
        "states": 10**6,
        "actions": 4,
        "horizon": 10,
        "epsilon": 1.0,
        "delta": 0.1,
    }
    (row,) = [r for r in bounds(**size, successors=2) if r.name == "Theorem 1, corrected"]
    c = constants(**size, successors=2, variant="corrected")
    assert row.episodes is not None
    assert row.episodes > 1.01 * 16 * c.pairs * c.m * c.e_max
    assert "m'" in row.formula


def test_theorem_2_effective_constant() -> None:
    """c_1 (A-1)(S-3)(H-2)^2/eps^2 ln(c_2/(delta + c_3)), with c_1 = 3.27600222561e-11 (item 13)."""
    for S, A, H, eps, delta in [(4, 2, 3, 1e-6, 1e-5), (1000, 7, 12, 1e-5, 2e-4)]:
        tail = math.log(0.25 / (delta + math.exp(-4) / 80))
        want = 3.27600222561e-11 * (A - 1) * (S - 3) * (H - 2) ** 2 / eps**2 * tail
        assert theorem_2(S, A, H, eps, delta) == pytest.approx(want, rel=1e-11)


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"states": 3}, "S > 3"),
        ({"actions": 1}, "A > 1"),
        ({"horizon": 2}, "H > 2"),
        ({"delta": math.exp(-4) / 80 * (1 + 1e-12)}, "delta"),
        ({"epsilon": 48 / (640 * math.exp(4)) * (1 + 1e-12)}, "eps"),
    ],
    ids=str,
)
def test_theorem_2_range(changed: dict[str, Any], names: str) -> None:
    """Outside its range of validity there is no number, and the table says why."""
    with pytest.raises(InputError, match=names):
        theorem_2(**{**IN_RANGE, **changed})
    lower = [row for row in bounds(**{**IN_RANGE, **changed}) if row.lower]
    published = next(row for row in lower if row.name == "Theorem 2, published")
    assert published.episodes is None
    assert names in published.note
    proved = next(row for row in lower if row.name == "Theorem 2, proved")
    assert (proved.episodes is None) == (names != "delta")


@pytest.mark.parametrize(
    "changed",
    [
        {"states": 4},
        {"actions": 2},
        {"horizon": 3, "epsilon": 2e-5},
        {"delta": math.exp(-4) / 80 * (1 - 1e-12)},
        {"epsilon": 48 / (640 * math.exp(4)) * (1 - 1e-12)},
    ],
    ids=str,
)
def test_theorem_2_just_inside(changed: dict[str, Any]) -> None:
    lower = {row.name: row.episodes for row in bounds(**{**IN_RANGE, **changed}) if row.lower}
    published = lower["Theorem 2, published"]
    assert published is not None
    assert published > 0
    assert published == theorem_2(**{**IN_RANGE, **changed})
    assert lower["Theorem 2, proved"] == pytest.approx(75 * published, rel=1e-12)


@pytest.mark.parametrize("size", [ROW, IN_RANGE, {**ROW, "delta": 1.0}, {**ROW, "horizon": 1}])
def test_bounds_table(size: dict[str, Any]) -> None:
    rows = bounds(**size)
    numbers = [row.episodes for row in rows if row.episodes is not None]
    assert numbers == sorted(numbers)
    assert [row.episodes is None for row in rows] == sorted(row.episodes is None for row in rows)
    by_name = {row.name: row for row in rows}
    assert len(by_name) == len(rows)
    for variant in VARIANTS:
        row = by_name[f"Theorem 1, {'printed' if variant == 'paper' else variant}"]
        want = constants(**size, variant=variant).episode_bound
        assert (row.episodes, row.exact, row.lower) == (want, True, False)


# S, A, C, H, 1/eps as the paper's section on related work states them; time-step bounds with
# S -> S H. Reveliotis and Bountourelis with q = 1.
ORDERS = {
    "UCFH, order": (1, 1, 1, 2, 2),
    "UCRL2": (2, 1, 0, 3, 2),
    "Reveliotis-Bountourelis": (1, 1, 0, 4, 2),
    "Delayed Q-learning": (1, 1, 0, 5 + 1, 4),
    "Fiechter": (2, 1, 0, 7, 2),
    "Kakade": (2, 1, 0, 6 + 2, 3),
    "Auer-Ortner": (10, 1, 0, 7, 3),
}


def test_orders() -> None:
    S, A, H, eps, delta, C = 7, 3, 11, 0.2, 0.01, 5
    rows = {row.name: row for row in bounds(S, A, H, eps, delta, C)}
    assert set(ORDERS) == {name for name, row in rows.items() if not row.exact}
    for name, (s, a, c, h, k) in ORDERS.items():
        want = S**s * A**a * C**c * H**h / eps**k * math.log(1 / delta)
        assert rows[name].episodes == pytest.approx(want, rel=EXACT), name
        assert f"H^{h}/eps^{k} ln(1/delta)" in rows[name].formula


def test_few_successors_of_many_states() -> None:
    """There m w_min is less than H/2 ceil(log2 2y): more episodes are needed than m suggests."""
    H, S = 10, 10**6
    wide = constants(S, 4, H, 1.0, 0.1, successors=2, variant="corrected")
    y = max(S, 4) * H / wide.w_min
    least = H / 2 * math.ceil(math.log2(2 * y))
    assert wide.m * wide.w_min == pytest.approx(76, abs=1)
    assert least == 260
    assert wide.episode_bound == pytest.approx(
        16 * wide.pairs * least / wide.w_min * wide.e_max, rel=1e-12
    )
    usual = constants(9, 4, H, 0.1, 0.1, variant="corrected")
    assert usual.m * usual.w_min > H / 2 * math.ceil(math.log2(2 * 9 * H / usual.w_min))
    assert usual.episode_bound == 16 * usual.pairs * usual.m * usual.e_max
