"""Print the time of one draw of each sampler, over regimes, and of the cold compilation.

Run from the repository's root: ``python benchmarks/bench_sampling.py [draws]``.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from ucfh._kernels import sampling
from ucfh._kernels.sampling import (
    binomial,
    hypergeometric,
    multinomial,
    multivariate_hypergeometric,
    negative_binomial,
    poisson,
)


@njit(nogil=True)
def _binomials(rng: np.random.Generator, n: int, p: float, draws: int) -> int:
    total = 0
    for _ in range(draws):
        total ^= binomial(rng, n, p)
    return total


@njit(nogil=True)
def _hypergeometrics(rng: np.random.Generator, g: int, b: int, s: int, draws: int) -> int:
    total = 0
    for _ in range(draws):
        total ^= hypergeometric(rng, g, b, s)
    return total


@njit(nogil=True)
def _poissons(rng: np.random.Generator, mu: float, draws: int) -> int:
    total = 0
    for _ in range(draws):
        total ^= poisson(rng, mu)
    return total


def _seconds(f: Callable[..., object], *args: object) -> float:
    start = time.perf_counter()
    f(*args)
    return time.perf_counter() - start


def _per_draw(f: Callable[..., object], rng: np.random.Generator, *args: object) -> float:
    """Return the nanoseconds of one draw, the best of three runs."""
    draws = args[-1]
    assert isinstance(draws, int)
    f(rng, *args[:-1], 1)
    return min(_seconds(f, rng, *args) for _ in range(3)) / draws * 1e9


def main(draws: int) -> None:
    """Print one line a regime."""
    rng = np.random.default_rng(0)
    p, counts = np.full(10, 0.1), np.full(10, 10**17)
    out = np.empty(10, dtype=np.int64)
    compiled = _seconds(multinomial, rng, 10, p, out)
    compiled += _seconds(multivariate_hypergeometric, rng, counts, 10, out)
    compiled += _seconds(negative_binomial, rng, 10, 0.5) + _seconds(poisson, rng, 1.0)
    dispatcher: Any = sampling.multinomial
    cached = sum(dispatcher.stats.cache_hits.values())
    print(f"{'cached' if cached else 'cold'} start of the module {compiled:8.2f} s")

    for n in (10, 10**3, 10**6, 10**12, 10**18):
        for prob in (0.5, 0.1, min(1.0, 3 / n)):
            ns = _per_draw(_binomials, rng, n, prob, draws)
            print(f"binomial        n {n:<8.0e} p {prob:<8.1e} {ns:8.1f} ns")
    for n in (10, 10**3, 10**6, 10**12, 10**18):
        for s in (n // 2, n // 10):
            ns = _per_draw(_hypergeometrics, rng, n // 2, n // 2, s, draws)
            print(f"hypergeometric  N {n:<8.0e} s {s:<8.1e} {ns:8.1f} ns")
    for mu in (1.0, 10.0, 24.9, 25.1, 1e3, 1e18):
        print(f"poisson        mu {mu:<19.1e} {_per_draw(_poissons, rng, mu, draws):8.1f} ns")

    # One call from Python each, so mostly the cost of the call.
    calls = max(1, draws // 100)
    for n in (10, 10**18):
        ns = sum(_seconds(multinomial, rng, n, p, out) for _ in range(calls)) / calls * 1e9
        print(f"multinomial     n {n:<8.0e} 10 entries {ns:8.0f} ns a call")
    ns = sum(_seconds(multivariate_hypergeometric, rng, counts, 10**17, out) for _ in range(calls))
    print(f"multivariate hypergeometric 10 entries {ns / calls * 1e9:8.0f} ns a call")
    ns = sum(_seconds(negative_binomial, rng, 10**12, 1e-10) for _ in range(calls)) / calls * 1e9
    print(f"negative binomial                      {ns:8.0f} ns a call")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
