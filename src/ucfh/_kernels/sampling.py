r"""Exact random variates for counts up to 9e18: binomial, hypergeometric, Poisson and their kin.

Every law here belongs to one family. As :math:`x! = \Gamma(x + 1)`, its log mass function is

.. math:: \ln f(x) = x \ln\theta - \ln\Gamma(x+1) - \ln\Gamma(g-x+1) - \ln\Gamma(s-x+1)
          - \ln\Gamma(r+x+1) + \text{const},

* hypergeometric (g good, b bad, a sample of s): :math:`\theta = 1`, r = b - s;
* binomial(n, p), q = 1 - p: only the terms in x and in g = n, :math:`\theta = p/q`;
* Poisson(:math:`\mu`): only the term in x, :math:`\theta = \mu`.

By symmetry p <= 1/2, and s <= g <= b, so that the support begins at 0.

**Small mean: inversion.** Add f(0), f(1), ... by the ratio f(x+1)/f(x), which is rational in x,
until the sum passes a uniform variate.

**Large mean: ratio of uniforms** (Kinderman and Monahan 1977; for discrete laws Stadlober 1990).
Count from the mode m: let :math:`\rho(k) = f(m+k)/f(m)`, :math:`\epsilon = \mu - m` and
:math:`c = \epsilon + 1/2`. Draw U uniform on (0, 1] and V uniform on [-1/2, 1/2); propose
k = floor(x) with x = c + h V / U; accept iff :math:`U^2 \le \rho(k)`. As dV = (U/h) dx, the
offset k is accepted with probability proportional to
:math:`\int_0^{\sqrt{\rho(k)}} U\,dU = \rho(k)/2`, provided that every pair (U, x) to be accepted
can be proposed:

.. math:: 2\,|x - c|\,\sqrt{\rho(\lfloor x\rfloor)} \le h, \qquad
          h = 2\sqrt{2/e}\,\sqrt{\sigma^2 + 1/2} + 3 - 2\sqrt{3/e}

(Stadlober; the tests check it). Two bounds spare most logarithms:
:math:`u - 1/u \le 2 \ln u \le u(4 - u) - 3` on (0, 1], where the differences of neighbors are
monotone and vanish at 1.

**Full resolution.** A double has 53 bits; spread over :math:`\sigma = 10^9` integers they leave
some integers more doubles than others. So x only chooses a block of w = 2^i integers,
:math:`w \le \max(1, \sigma/2048)`, and k is uniform on the block, which leaves the integral above
as it is. An x in the block of k is at most w - 1 away from [k, k + 1), so h grows by 2 (w - 1),
and the proof stands.

**The ratio without cancellation.** Terms like :math:`\ln n!` are useless here: at n = 1e18 they
are 4e19, known to 4e3. Following Loader (2000), use Stirling's formula with Binet's remainder,
:math:`\ln\Gamma(z) = (z - 1/2) \ln z - z + \ln\sqrt{2\pi} + \eta(z)`, and take differences first:

.. math:: \psi(z, k) := \ln\frac{\Gamma(z+k)}{\Gamma(z)} - k \ln z
          = (z + k - \tfrac12) \ln(1 + k/z) - k + \eta(z+k) - \eta(z).

With v = k/(2z + k) we have :math:`\ln(1 + k/z) = 2\,\mathrm{artanh}\,v = 2v + 2v^3 P(v^2)`, where
:math:`P(y) = 1/3 + y/5 + y^2/7 + \dots`, and (z + k) 2v - k = k v. Thus

.. math:: \psi(z, k) = (k - 1)\,v + (2z + 2k - 1)\,v^3 P(v^2) + \eta(z+k) - \eta(z),

which is about k^2/2z, and no term is much larger. At the mode the arguments of :math:`\Gamma` are
A = m + 1, B = g - m + 1, C = s - m + 1, D = r + m + 1, and

.. math:: \ln\rho(k) = k\lambda - \psi(A, k) - \psi(B, -k) - \psi(C, -k) - \psi(D, k), \qquad
          \lambda = \ln\frac{\theta B C}{A D}.

Here :math:`\lambda` is a log1p, since the products' difference is known in closed form:

* hypergeometric: :math:`BC - AD = N\epsilon + (g - b) + 2(s - 2m)`, N = g + b;
* binomial: :math:`pB - qA = \epsilon - (q - p)`;
* Poisson: :math:`\mu - A = \epsilon - 1`.

Only :math:`\epsilon = \mu - m` itself cancels, so :math:`\mu` is computed in twice the working
precision (Dekker 1971).

**What exact means.** Wherever acceptance is possible, :math:`\ln\rho` has an error below 1e-13, and
the blocks' shares of the rectangle have a relative error of about 1e-12. So has each probability,
whatever n is, but for events rarer than about 2^-53 a draw, which a double cannot resolve.
The generator is not locked: threads need one each.

References: Dekker, *Numer. Math.* 18 (1971). Kinderman and Monahan, *ACM TOMS* 3 (1977). Stadlober,
*J. Comput. Appl. Math.* 31 (1990). Loader, *Fast and accurate computation of binomial
probabilities* (2000). Marsaglia and Tsang, *ACM TOMS* 26 (2000), for the gamma variate.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ucfh._kernels._jit import njit

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Below this mean, walking up from zero is the faster way.
_SWITCH = 25.0
# P(X > 200) < 1e-100 for every law here with a mean below _SWITCH.
_LAST = 200
_H1 = 2.0 * math.sqrt(2.0 / math.e)
_H0 = 3.0 - 2.0 * math.sqrt(3.0 / math.e)
# From this mean on, a Poisson's standard deviation is below the spacing of doubles at its mean.
_POISSON_MAX = 2.0**106


class Law(NamedTuple):
    """A law at its mode: A to D (0 where it has no such term), lambda, epsilon, the variance."""

    a: float
    b: float
    c: float
    d: float
    lam: float
    eps: float
    var: float


@njit()
def _eta_series(z: float) -> float:
    """Return Binet's remainder for z >= 16, where the first omitted term is below 2e-16."""
    r = 1.0 / z
    y = r * r
    return r * (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y * (1 / 1188)))))


def _eta_table() -> Floats:
    """Return eta(z) for z < 16 (z = 0 unused) by eta(z) = eta(z+1) + (z + 1/2) ln(1 + 1/z) - 1."""
    table = np.zeros(17)
    table[16] = _eta_series.py_func(16.0)  # type: ignore[attr-defined]
    for z in range(15, 0, -1):
        table[z] = table[z + 1] + (z + 0.5) * math.log1p(1.0 / z) - 1.0
    return table[:16]


_ETA = _eta_table()


@njit()
def _eta(z: float) -> float:
    """Return Binet's remainder at an integer z >= 1."""
    return _ETA[int(z)] if z < 16.0 else _eta_series(z)


@njit()
def _psi(z: float, k: float) -> float:
    """Return ln[Gamma(z + k) / Gamma(z)] - k ln z for integers z, z + k >= 1."""
    v = k / (2.0 * z + k)
    if abs(v) < 0.1:
        # Pairs of terms (Estrin): the wait for this value is most of the time of a rejection.
        y = v * v
        y2 = y * y
        series = (1 / 11 + y * (1 / 13)) + y2 * (1 / 15 + y * (1 / 17))
        series = (1 / 3 + y * (1 / 5)) + y2 * ((1 / 7 + y * (1 / 9)) + y2 * series)
        main = (k - 1.0) * v + (2.0 * (z + k) - 1.0) * v * y * series
    else:
        main = (z + k - 0.5) * math.log1p(k / z) - k
    return main + _eta(z + k) - _eta(z)


@njit()
def _log_ratio(k: float, law: Law) -> float:
    """Return ln rho(k)."""
    t = k * law.lam - _psi(law.a, k)
    if law.b > 0.0:
        t -= _psi(law.b, -k)
    if law.c > 0.0:
        t -= _psi(law.c, -k) + _psi(law.d, k)
    return t


@njit()
def _rectangle(eps: float, var: float) -> tuple[int, float, float]:
    """Return the block's width w, the center c and the rectangle's width h."""
    spread = math.sqrt(var + 0.5)
    w = 1 << max(0, math.frexp(spread)[1] - 12)
    return w, eps + 0.5, _H1 * spread + _H0 + 2.0 * (w - 1)


@njit()
def _reject(rng: np.random.Generator, law: Law) -> int:
    """Draw the offset k from the mode by the ratio of uniforms."""
    w, center, h = _rectangle(law.eps, law.var)
    per_w = 1.0 / w
    while True:
        u = 1.0 - rng.random()
        x = center + h * (rng.random() - 0.5) / u
        # Past int64 rho is far below the least u * u = 2^-106, so this changes no probability.
        if abs(x) > 2.0**62:
            continue
        k = math.floor(x * per_w) * w
        if w > 1:
            k += int(rng.random() * w)
        if law.a + k < 1.0 or (law.b > 0.0 and law.b - k < 1.0):
            continue
        if law.c > 0.0 and law.c - k < 1.0:
            continue
        t = _log_ratio(float(k), law)
        if t >= u * (4.0 - u) - 3.0 or (u * (u - t) < 1.0 and t >= 2.0 * math.log(u)):
            return k


@njit()
def _walk(rng: np.random.Generator, f0: float, theta: float, b: float, c: float, d: float) -> int:
    """Draw by inversion upwards from f(0) = f0; B, C, D are those of m = 0, or 0 if absent."""
    while True:
        u, f, x = rng.random(), f0, 0
        # Rounding may leave the masses short of 1: a u in that gap passes _LAST and is drawn anew.
        while u >= f and x < _LAST:
            u -= f
            f *= theta / (x + 1.0)
            if b > 0.0:
                f *= b - 1.0 - x
            if c > 0.0:
                f *= (c - 1.0 - x) / (d + x)
            x += 1
        if x < _LAST:
            return x


@njit()
def _two_product(x: float, y: float) -> tuple[float, float]:
    """Return t and e with x y = t + e exactly (Dekker's product with Veltkamp's splitting)."""
    x1 = 134217729.0 * x
    x1 -= x1 - x
    y1 = 134217729.0 * y
    y1 -= y1 - y
    x0, y0, t = x - x1, y - y1, x * y
    return t, ((x1 * y1 - t) + x1 * y0 + x0 * y1) + x0 * y0


@njit()
def _mode(n: int, p: float, dp: float, delta: float) -> tuple[int, float]:
    """Return m = floor(mu + delta) and eps = mu - m, where mu = n (p + dp) and |dp| <= p 2^-53."""
    n1 = float(n)
    t, e = _two_product(n1, p)
    m = int(t)
    eps = (t - float(m)) + (e + float(n - int(n1)) * p + n1 * dp)
    up = math.floor(eps + delta)
    return m + up, eps - up


@njit()
def _binomial_at_mode(n: int, p: float) -> tuple[int, Law]:
    """Return m and the law, for p <= 1/2."""
    q = 1.0 - p
    # The mode is floor((n + 1) p).
    m, eps = _mode(n, p, 0.0, p)
    lam = math.log1p((eps - (q - p)) / (q * (m + 1.0)))
    return m, Law(m + 1.0, n - m + 1.0, 0.0, 0.0, lam, eps, n * p * q)


@njit()
def _binomial(rng: np.random.Generator, n: int, p: float) -> int:
    """Draw a binomial with n >= 1 and 0 < p <= 1/2."""
    if n * p < _SWITCH:
        return _walk(rng, math.exp(n * math.log1p(-p)), p / (1.0 - p), n + 1.0, 0.0, 0.0)
    m, law = _binomial_at_mode(n, p)
    return m + _reject(rng, law)


@njit()
def binomial(rng: np.random.Generator, n: int, p: float) -> int:
    """Draw the number of successes in n trials of probability p; 0 <= n <= 9e18, 0 <= p <= 1."""
    if n <= 0 or p <= 0.0:
        return 0
    if p >= 1.0:
        return n
    # 1 - p is exact for p >= 1/2.
    return _binomial(rng, n, p) if p <= 0.5 else n - _binomial(rng, n, 1.0 - p)


@njit()
def multinomial(rng: np.random.Generator, n: int, p: Floats, out: Counts) -> None:
    """Share n <= 9e18 trials among the entries of p (C,), into out (C,), by conditional binomials.

    The probabilities are taken relative to their sum, which need be 1 only up to rounding. Raises
    ValueError if n > 0 and no entry is positive.
    """
    if n == 0:
        out[:] = 0
        return
    # Sums of the entries behind each one: no difference is taken, so nothing rounds below zero.
    behind = np.empty(p.size)
    tail = 0.0
    for i in range(p.size - 1, -1, -1):
        behind[i] = tail
        tail += p[i]
    left = n
    for i in range(p.size):
        out[i] = 0
        if left > 0 and p[i] > 0.0:
            total = p[i] + behind[i]
            # Of the two probabilities the smaller keeps its full precision.
            if p[i] <= behind[i]:
                out[i] = binomial(rng, left, p[i] / total)
            else:
                out[i] = left - binomial(rng, left, behind[i] / total)
            left -= out[i]
    if left > 0:
        raise ValueError("multinomial: no probability is positive")


@njit()
def _hypergeometric_at_mode(g: int, b: int, s: int) -> tuple[int, Law]:
    """Return m and the law, for s <= g <= b."""
    total = g + b
    n1, g1 = float(total), float(g)
    p = g1 / n1
    # g / N = p + dp, to twice the precision of p.
    t, e = _two_product(p, n1)
    dp = ((g1 - t) - e + float(g - int(g1)) - p * float(total - int(n1))) / n1
    # The mode is floor((s + 1)(g + 1) / (N + 2)) = floor(mu + delta).
    m, eps = _mode(s, p, dp, (s + g + 1.0 - 2.0 * s * p) / (n1 + 2.0))
    a, d = m + 1.0, b - s + m + 1.0
    lam = math.log1p((n1 * eps + float(g - b) + 2.0 * float(s - 2 * m)) / (a * d))
    var = s * p * (b / n1) * ((total - s) / (n1 - 1.0))
    return m, Law(a, g - m + 1.0, s - m + 1.0, d, lam, eps, var)


@njit()
def _hypergeometric(rng: np.random.Generator, g: int, b: int, s: int) -> int:
    """Draw a hypergeometric with 1 <= s <= g <= b."""
    total = float(g + b)
    if s * (g / total) < _SWITCH:
        z, k = total + 1.0, -float(s)
        log_f0 = _psi(z, k) - _psi(b + 1.0, k) - k * math.log1p(-g / z)
        return _walk(rng, math.exp(log_f0), 1.0, g + 1.0, s + 1.0, b - s + 1.0)
    m, law = _hypergeometric_at_mode(g, b, s)
    return m + _reject(rng, law)


@njit()
def hypergeometric(rng: np.random.Generator, good: int, bad: int, sample: int) -> int:
    """Draw the number of good items in a sample without replacement.

    good, bad >= 0, good + bad <= 9e18, 0 <= sample <= good + bad.
    """
    rest = good + bad - sample
    # Fewer good than bad, and a sample of at most half: undone below.
    s, g, b = min(sample, rest), min(good, bad), max(good, bad)
    if s == 0 or g == 0:
        x = 0
    elif s <= g:
        x = _hypergeometric(rng, g, b, s)
    else:
        # The law is symmetric in g and s.
        x = _hypergeometric(rng, s, g + b - s, g)
    if good > bad:
        x = s - x
    return x if sample <= rest else good - x


@njit()
def multivariate_hypergeometric(
    rng: np.random.Generator, counts: Counts, sample: int, out: Counts
) -> None:
    """Share a sample without replacement among counts (C,), into out (C,).

    The counts sum to at most 9e18. Raises ValueError unless 0 <= sample <= their sum.
    """
    rest = 0
    for i in range(counts.size):
        rest += counts[i]
    if sample < 0 or sample > rest:
        raise ValueError("multivariate_hypergeometric: sample is not in 0..sum(counts)")
    left = sample
    for i in range(counts.size):
        rest -= counts[i]
        out[i] = hypergeometric(rng, counts[i], rest, left)
        left -= out[i]


@njit()
def _poisson_offset(rng: np.random.Generator, mu: float) -> int:
    """Draw a Poisson minus floor(mu), for 0 <= mu < 2^106."""
    if mu < _SWITCH:
        return _walk(rng, math.exp(-mu), mu, 0.0, 0.0, 0.0) - int(mu)
    # As a double: m may be past int64.
    m = np.floor(mu)
    eps = mu - m
    lam = math.log1p((eps - 1.0) / (m + 1.0))
    return _reject(rng, Law(m + 1.0, 0.0, 0.0, 0.0, lam, eps, mu))


@njit()
def poisson(rng: np.random.Generator, mu: float) -> int:
    """Draw a Poisson of mean mu, 0 <= mu <= 9e18."""
    return int(mu) + _poisson_offset(rng, mu)


@njit()
def binomials(rng: np.random.Generator, n: Counts, p: Floats, out: Counts) -> None:
    """Write independent binomial(n[i], p[i]) variates into out; all of one length."""
    for i in range(len(n)):
        out[i] = binomial(rng, n[i], p[i])


def negative_binomial(rng: np.random.Generator, m: int, h: float) -> int:
    """Draw the number of failures before the m-th success; 1 <= m <= 1e18, 1e-280 <= h <= 1.

    The number is Poisson(L), where L = G (1 - h)/h and G is a Gamma(m) variate. Given L, it is
    exact in the sense of this module. L itself is a double: its relative error of a few 2^-53 moves
    the result by less than 1e-6 of its standard deviation, which is at least 1/sqrt(m) of its mean.
    From L = 2^106 on, the Poisson's standard deviation sqrt(L) is below the spacing of doubles at
    L, and the result is L itself: an integer with 53 leading bits, then zeros.
    """
    if m < 1 or not 0.0 < h <= 1.0:
        raise ValueError(f"need m >= 1 and 0 < h <= 1, got m = {m} and h = {h}")
    mu = rng.standard_gamma(m) * ((1.0 - h) / h)
    return int(mu) + (int(_poisson_offset(rng, mu)) if mu < _POISSON_MAX else 0)
