"""Mixture martingales: excess log-likelihood of the best model over a mixture.

For counts c_1, ..., c_m of n draws, ML = prod (c_j/n)^c_j is the largest likelihood. The mixture
of all likelihoods under Dirichlet(1/2, ..., 1/2) gives them

    prod_j Gamma(c_j + 1/2)/Gamma(1/2)  Gamma(m/2)/Gamma(n + m/2).

Its ratio to the true likelihood is a martingale of mean one, so by Ville's inequality

    n KL(p^, p) = ln ML - ln likelihood(p) <= ln(1/delta) + [ln ML - ln mixture]   for all n at once

with probability 1 - delta. The bracket is the excess. Its terms are of size n ln n and cancel to
some ten nats; so they are paired here by Stirling's series, and right for n up to 1e18 and beyond.
"""

from __future__ import annotations

from math import exp, inf, lgamma, log, log1p, pi

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucfh._kernels._jit import njit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

HALF_LOG_PI = 0.5 * log(pi)
HALF_LOG_2PI = 0.5 * log(2.0 * pi)
LARGE = 40.0  # from where on the series is exact in double precision
ROUNDING = 2.3e-16  # a little more than 2^-52: what rounding makes of a number of size one
EXACT_TERMS, BLOCK = 64, 32  # sizes one by one, then in blocks of a 32nd of them
MOST_TERMS = 100_000  # beyond the labels seen: larger numbers of labels are left out
NEGLIGIBLE = 1e-6  # terms of a mixture that may be left out: that only makes it smaller


@njit(inline="always")
def _single(c: float) -> float:
    """Return ln Gamma(c + 1/2) - c ln c + c."""
    if c < LARGE:
        return lgamma(c + 0.5) - (c * log(c) - c if c > 0.0 else 0.0)
    x = 1.0 / (c * c)
    return HALF_LOG_2PI - (1.0 / 24.0 - x * (7.0 / 2880.0 - x * 31.0 / 40320.0)) / c


@njit(inline="always")
def _total(n: float, m: float) -> float:
    """Return ln Gamma(n + m/2) - n ln n + n."""
    z = n + 0.5 * m
    if z < LARGE:
        return lgamma(z) - (n * log(n) - n if n > 0.0 else 0.0)
    x = 1.0 / (z * z)
    series = (1.0 / 12.0 - x * (1.0 / 360.0 - x / 1260.0)) / z
    growth = n * log1p(0.5 * m / n) if n > 0.0 else 0.0
    return growth + 0.5 * (m - 1.0) * log(z) - 0.5 * m + HALF_LOG_2PI + series


@njit()
def _binary_excess_each(k: Floats, n: Floats, out: Floats) -> None:
    for i in range(n.size):
        out[i] = 2.0 * HALF_LOG_PI - _single(k[i]) - _single(n[i] - k[i]) + _total(n[i], 2.0)


def binary_excess(k: ArrayLike, n: ArrayLike) -> Floats:
    """Return the excess for k successes in n trials, under Beta(1/2, 1/2); elementwise."""
    given = np.broadcast_arrays(np.asarray(k, np.float64), np.asarray(n, np.float64))
    out = np.empty(given[0].shape)
    _binary_excess_each(given[0].ravel(), given[1].ravel(), out.reshape(-1))
    return out


@njit()
def _portfolio_regret_each(n: Floats, out: Floats) -> None:
    for i in range(n.size):
        out[i] = HALF_LOG_PI + _total(n[i], 2.0) - _single(n[i])


def portfolio_regret(n: ArrayLike) -> Floats:
    """Return ln[sqrt(pi) Gamma(n+1)/Gamma(n+1/2)], the largest excess under Beta(1/2, 1/2).

    It is also the regret, in ln wealth, of a universal portfolio of two assets against the best
    constant mix of them (Cover and Ordentlich 1996). Elementwise.
    """
    given = np.asarray(n, np.float64)
    out = np.empty(given.shape)
    _portfolio_regret_each(given.ravel(), out.reshape(-1))
    return out


@njit()
def excess(
    indptr: Ints, c: Ints, n: Ints, sparse: bool, out: Floats, sizes: Ints | None = None
) -> None:
    """Write the excess of each row into out (rows,).

    Of the C successors of a row, sizes (rows,), those that are not listed have a count of 0; by
    default all are listed. The prior is Dirichlet(1/2) over all of them or, if ``sparse``, a
    mixture of Dirichlet(1/2) over supports: their size uniform in 1..C, and uniform among those of
    one size. Supports that miss an observed successor have likelihood zero; for D observed
    successors, C - D choose k - D supports of size k are left. Past `EXACT_TERMS` sizes come in
    blocks: a support of size k in [a, b) counts with the weight of size a and the likelihood of
    size b, both of them less.
    """
    for row in range(len(indptr) - 1):
        C, seen = indptr[row + 1] - indptr[row] if sizes is None else sizes[row], 0
        base = 0.0
        for e in range(indptr[row], indptr[row + 1]):
            if c[e] > 0:
                seen += 1
                base += HALF_LOG_PI - _single(float(c[e]))
        visits = float(n[row])
        if seen == 0 or C == 1:
            out[row] = 0.0
            continue
        if not sparse:
            out[row] = base + _total(visits, float(C)) - lgamma(0.5 * C)
            continue
        # ln of (1/C) / (C choose k) (C-D choose k-D) = ln of k!/(k-D)! and what is the same for all
        same = -log(C) - (lgamma(C + 1.0) - lgamma(C - seen + 1.0))
        first = same + lgamma(seen + 1.0) + lgamma(0.5 * seen) - _total(visits, float(seen))
        total, k, weight = 1.0, seen + 1, same + lgamma(seen + 1.0)
        while k <= C:
            after = min(k + 1 + max(0, k - seen - EXACT_TERMS) // BLOCK, C + 1)
            last, times = after - 1.0, 0.0
            if k <= seen + EXACT_TERMS:
                weight += log(k / (k - seen))
            else:
                weight = same + lgamma(k + 1.0) - lgamma(k - seen + 1.0)
                times = log(last - k + 1.0)
            term = exp(weight + times + lgamma(0.5 * last) - _total(visits, last) - first)
            total += term
            if term < NEGLIGIBLE * total:
                break
            k = after
        out[row] = base - first - log(total)


@njit()
def pattern_excess(indptr: Ints, c: Ints, out: Floats, lost: Ints | None = None) -> None:
    """Write the excess of each row's pattern, which earlier draw is repeated, into out (rows,).

    Labels are not known in advance, so a draw is an earlier label, or "a first". With D observed
    labels, counts c_j, a mixture over the number k of labels, with weight 1/(k(k+1)), and over
    Dirichlet(1/2) on k labels in the order in which they come up gives the pattern

        m(c) = sum_{k >= D} 1/(k(k+1)) k!/(k-D)! Gamma(k/2)/Gamma(n + k/2)
               prod_j Gamma(c_j + 1/2)/Gamma(1/2)

    and P(a first) <= 1, so its excess over the best model of the repetitions, c' = c - 1 of
    n' = n - D, is ln ML(c') - ln m(c): that of a ball around c'/n'. Terms of the sum may be left
    out, or be too small: as in `excess`, numbers of labels come in blocks, whose weights 1/(k(k+1))
    sum to 1/a - 1/b. With c = c' + 1 and n = n' + D, the large terms pair off as above.

    lost (rows,): numbers of further draws with unknown labels. They count in n and n', whatever
    their labels, if the sum begins at k = D + 1.
    """
    for row in range(len(indptr) - 1):
        gone = 0 if lost is None else lost[row]
        D, repeats, base = 0, float(gone), 0.0
        for e in range(indptr[row], indptr[row + 1]):
            if c[e] > 0:
                D += 1
                again = c[e] - 1.0
                repeats += again
                base += HALF_LOG_PI - log(again + 0.5) - _single(again)
        if D == 0:
            out[row] = 0.0
            continue
        first = lgamma(D + 1.0) - log(D * (D + 1.0)) + lgamma(0.5 * D)
        first -= _total(repeats, 3.0 * D)
        total, before, k = 0.0 if gone > 0 else 1.0, 1.0, D + 1
        while k < D + MOST_TERMS:
            after = k + 1 + max(0, k - D - EXACT_TERMS) // max(BLOCK, 2 * D)
            last = after - 1.0
            weight = lgamma(k + 1.0) - lgamma(k - D + 1.0) + log((after - k) / (k * float(after)))
            term = exp(weight + lgamma(0.5 * last) - _total(repeats, 2.0 * D + last) - first)
            total += term
            if term < before and term < NEGLIGIBLE * total:
                break
            before, k = term, after
        out[row] = base - first - log(total)


@njit()
def _log_wealth(x: Floats, times: Ints, v: float, bets: Floats) -> float:
    """Return ln sum_k prod_i (1 + 2^-k (x_i/v - 1))^times_i / ((k+1)(k+2)), rounded down.

    bets (K,) is scratch. With u = 2^-53, x_i/v - 1 is off by at most 2 u (x_i/v + 1), which moves
    its logarithm by 2^-k/(1 + gain) times that; the logarithm and its product with times_i by a
    few u of their size, and the sum by (number of terms) u of the size of all of them.
    """
    most = -inf
    for k in range(len(bets)):
        stake = 0.5**k
        total = -log((k + 1.0) * (k + 2.0))
        size = -total
        for i in range(len(x)):
            gain = stake * (x[i] / v - 1.0)
            if gain <= -1.0:
                total = -inf
                break
            growth = log1p(gain)
            total += times[i] * growth
            size += times[i] * (abs(growth) + stake * (x[i] / v + 1.0) / (1.0 + gain))
        bets[k] = total - ROUNDING * (len(x) + 8.0) * size if total > -inf else -inf
        most = max(most, bets[k])
    if most == -inf:
        return -inf
    out = 0.0
    for k in range(len(bets)):
        out += exp(bets[k] - most)
    return most + log(out) - ROUNDING * (len(bets) + 8.0) * (1.0 + abs(most))


@njit()
def lower_mean(x: Floats, times: Ints, goal: float) -> float:
    """Return the largest v at which bets on x (k,) >= 0, with counts times (k,), won e^goal.

    With probability 1 - e^-goal it exceeds the mean of x at no time. The wealth falls in v, and is
    below one where v is the empirical mean; rounded down.
    """
    n, total = 0, 0.0
    for i in range(len(x)):
        n += times[i]
        total += times[i] * x[i]
    if total <= 0.0:
        return 0.0
    bets = np.empty(2 + int(log(n + 1.0) / log(2.0)))
    low, high = 0.0, total / n
    for _ in range(60):
        v = 0.5 * (low + high)
        if _log_wealth(x, times, v, bets) >= goal * (1.0 + 1e-12):
            low = v
        else:
            high = v
        if high - low < 1e-9 * high:
            break
    return low
