"""Slow, obvious oracles for mixtures, with rationals or sixty decimal digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import combinations

DIGITS = 60


def ln(x: Fraction | int) -> Decimal:
    """ln of a rational, to DIGITS digits."""
    with localcontext(prec=DIGITS):
        x = Fraction(x)
        return Decimal(x.numerator).ln() - Decimal(x.denominator).ln()


@cache
def half_ln_pi() -> Decimal:
    """ln(pi)/2, pi by Machin's formula."""
    with localcontext(prec=DIGITS + 10):
        pi = Decimal(0)
        for factor, x in ((16, 5), (-4, 239)):
            for k in range(70):
                pi += Decimal(factor * (-1) ** k) / ((2 * k + 1) * Decimal(x) ** (2 * k + 1))
        return pi.ln() / 2


@cache
def bernoulli(n: int) -> Fraction:
    """The n-th Bernoulli number, by its recursion."""
    if n == 0:
        return Fraction(1)
    return -sum((math.comb(n + 1, k) * bernoulli(k) for k in range(n)), Fraction(0)) / (n + 1)


@cache
def ln_gamma(x: Fraction) -> Decimal:
    """ln Gamma(x) for x > 0, to about sixty digits: Stirling's series from x = 60 on."""
    with localcontext(prec=DIGITS):
        shift = Decimal(0)
        while x < 60:
            shift += ln(x)
            x += 1
        z = Decimal(x.numerator) / Decimal(x.denominator)
        half_ln_2pi = half_ln_pi() + Decimal(2).ln() / 2
        total = (z - Decimal("0.5")) * z.ln() - z + half_ln_2pi
        for k in range(1, 31):
            b = bernoulli(2 * k)
            term = Decimal(b.numerator) / (b.denominator * 2 * k * (2 * k - 1))
            total += term / z ** (2 * k - 1)
        return total - shift


def ln_likelihood(counts: Sequence[int]) -> Decimal:
    """The largest log likelihood of a sequence with these counts: that of p = counts/n."""
    with localcontext(prec=DIGITS):
        n = sum(counts)
        return sum((c * ln(Fraction(c, n)) for c in counts if c), Decimal(0))


def ln_dirichlet(counts: Sequence[int]) -> Decimal:
    """Log probability of a sequence with these counts under the Dirichlet(1/2, ...) mixture."""
    m, n, half = len(counts), sum(counts), Fraction(1, 2)
    with localcontext(prec=DIGITS):
        seen = sum((ln_gamma(c + half) - half_ln_pi() for c in counts), Decimal(0))
        return seen + ln_gamma(Fraction(m, 2)) - ln_gamma(n + Fraction(m, 2))


def kt_probability(counts: Sequence[int]) -> Fraction:
    """The same as a rational: the (k+1)-th draw is j with probability (c_j + 1/2)/(k + m/2)."""
    probability, drawn = Fraction(1), 0
    for c in counts:
        for k in range(c):
            probability *= Fraction(2 * k + 1, 2 * drawn + len(counts))
            drawn += 1
    return probability


def dirichlet_excess(counts: Sequence[int]) -> Decimal:
    """ln of how much likelier the best model makes the counts than the Dirichlet(1/2) mixture."""
    with localcontext(prec=DIGITS):
        return ln_likelihood(counts) - ln_dirichlet(counts)


def sparse_excess(counts: Sequence[int]) -> Decimal:
    """The same for a mixture over supports: a uniform size, then a uniform support of that size."""
    C, terms = len(counts), []
    with localcontext(prec=DIGITS):
        for k in range(1, C + 1):
            for support in combinations(range(C), k):
                if all(j in support for j in range(C) if counts[j]):
                    inside = [counts[j] for j in support]
                    terms.append(ln_dirichlet(inside) - ln(C * math.comb(C, k)))
        top = max(terms)
        mixture = top + sum(((x - top).exp() for x in terms), Decimal(0)).ln()
        return ln_likelihood(counts) - mixture


def sparse_excess_of_many(counts: Sequence[int], C: int) -> Decimal:
    """The same for the D positive counts of C successors: C-D choose k-D supports have size k."""
    D, n, half = len(counts), sum(counts), Fraction(1, 2)
    with localcontext(prec=DIGITS):
        base = sum((ln_gamma(c + half) - half_ln_pi() for c in counts), Decimal(0))
        terms = []
        for k in range(D, C + 1):
            chance = ln(Fraction(math.comb(C - D, k - D), C * math.comb(C, k)))
            terms.append(chance + ln_gamma(Fraction(k, 2)) - ln_gamma(n + Fraction(k, 2)))
        top = max(terms)
        mixture = top + sum(((x - top).exp() for x in terms), Decimal(0)).ln()
        return ln_likelihood(counts) - base - mixture


def portfolio_regret(n: int) -> Decimal:
    """reg(n) = ln[sqrt(pi) Gamma(n+1)/Gamma(n+1/2)]."""
    with localcontext(prec=DIGITS):
        return half_ln_pi() + ln_gamma(Fraction(n + 1)) - ln_gamma(n + Fraction(1, 2))


def ln_wealth(scores: dict[float, int], v: float) -> float:
    """ln of what bets on scores above v have won: stakes 2^-k with shares 1/((k+1)(k+2))."""
    terms = []
    for k in range(60):
        gains = [(m, 2.0**-k * (x / v - 1)) for x, m in scores.items()]
        if all(gain > -1 for _, gain in gains):
            won = math.fsum(m * math.log1p(gain) for m, gain in gains)
            terms.append(won - math.log((k + 1) * (k + 2)))
    top = max(terms)
    return top + math.log(math.fsum(math.exp(x - top) for x in terms))


def lower_mean(scores: dict[float, int], goal: float) -> float:
    """The v at which such bets have won e^goal, by bisection; 0 if nothing was scored."""
    low, high = 0.0, sum(x * m for x, m in scores.items()) / sum(scores.values())
    while high - low > 1e-10 * high:
        v = (low + high) / 2
        low, high = (v, high) if ln_wealth(scores, v) >= goal else (low, v)
    return low


# -- patterns: labels that are not known in advance -----------------------------------------------


def pattern_probability(counts: Sequence[int], k: int) -> Fraction:
    """P(the pattern of which draw repeats which), for Dirichlet(1/2) on k labels; draw by draw.

    The j-th label to come up comes up counts[j] times. After n draws one that came up c times
    repeats with probability (c + 1/2)/(n + k/2); what is left is for a first one.
    """
    probability, n = Fraction(1), 0
    for j, c in enumerate(counts):
        for again in range(c):
            weight = 1 + 2 * again if again else k - j  # of one of the k - j that did not come up
            probability *= Fraction(weight, 2 * n + k)
            n += 1
    return probability


def pattern_mixture(counts: Sequence[int], most: int) -> Fraction:
    """m(counts) with numbers of labels k up to ``most`` alone, each with the weight 1/(k(k+1))."""
    return sum(
        (pattern_probability(counts, k) / (k * (k + 1)) for k in range(1, most + 1)), Fraction(0)
    )


@dataclass(frozen=True)
class PatternExcess:
    """ln ML(counts - 1) - ln m(counts), between two numbers: terms left out make it larger."""

    low: Decimal
    high: Decimal


def pattern_excess(counts: Sequence[int], terms: int = 20_000) -> PatternExcess:
    """The excess of a pattern over the best model of its repetitions; all counts are positive.

    Two steps of k change a term by a rational factor: k!/(k-D)! and Gamma(k/2)/Gamma(n + k/2) do.
    Without 1/(k(k+1)) the terms never exceed 1; with more draws than labels they fall in the end.
    """
    D, n = len(counts), sum(counts)
    half = Fraction(1, 2)
    with localcontext(prec=DIGITS):
        base = sum((ln_gamma(c + half) - half_ln_pi() for c in counts), Decimal(0))
        again = [c - 1 for c in counts]
        best = ln_likelihood(again) if sum(again) else Decimal(0)
        top: Decimal | None = None
        total = Decimal(0)
        term = [Decimal(0), Decimal(0)]  # relative to the first, without 1/(k(k+1))
        factor = Fraction(1)
        for i in range(terms):
            k = D + i
            if i < 2:
                ways = sum((ln(Fraction(k - j)) for j in range(D)), Decimal(0))
                found = ways + ln_gamma(Fraction(k, 2)) - ln_gamma(n + Fraction(k, 2))
                top = found if top is None else top
                term[i] = (found - top).exp()
            else:
                factor = Fraction(k * (k - 1) * (k - 2), i * (i - 1) * (2 * n + k - 2))
                term[i % 2] *= Decimal(factor.numerator) / Decimal(factor.denominator)
            total += term[i % 2] / (k * (k + 1))
        assert top is not None
        last = D + terms - 1
        # past the last: sum of 1/(k(k+1)) is 1/(last + 1), times the largest of the terms
        largest = max(term) if n > D else (-base - top).exp()
        if n > D and factor >= 1:
            largest = Decimal("inf")  # they do not fall yet
        first = best - base - top
        return PatternExcess(
            low=first - (total + largest / (last + 1)).ln(),
            high=first - total.ln(),
        )
