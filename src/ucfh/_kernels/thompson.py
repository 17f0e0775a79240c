"""Agents that plan for posterior draws of the model, or with noise: all in one loop."""

from __future__ import annotations

from math import inf, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.episodes import note, walk_and_count
from ucfh._kernels.online import TIE
from ucfh._kernels.types import (
    CountArrays,
    EnvironmentArrays,
    ProblemArrays,
    Progress,
    Record,
    RowPolicy,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Posterior(NamedTuple):
    """Posterior of the rows, and options of planning for its draws.

    A row is Dirichlet with parameters (c + prior)/kappa, and apart/kappa for one more state, with
    the reward ``pays`` in each step that is left. With a cap, V is at most H - t.
    """

    prior: float
    apart: float
    kappa: float
    pays: float
    cap: bool


class Draws(NamedTuple):
    """J draws of every row: p (J, entries), and aside (J, rows) for the additional state."""

    p: Floats
    aside: Floats


class Noise(NamedTuple):
    """Noise of variance factor ln(cases k)/(n + 1), after n visits, before episode k."""

    factor: float
    cases: float


@njit()
def draw_models(
    rng: np.random.Generator, indptr: Ints, c: Ints, posterior: Posterior, out: Draws
) -> None:
    """Draw every row from its posterior; indptr (rows+1,), c (entries,)."""
    prior, apart, kappa = posterior.prior, posterior.apart, posterior.kappa
    p, aside = out.p, out.aside
    for j in range(len(p)):
        for row in range(len(indptr) - 2):
            begin, end = indptr[row], indptr[row + 1]
            total, aside[j, row] = 0.0, 0.0
            if apart > 0.0:
                aside[j, row] = total = rng.standard_gamma(apart / kappa)
            elif end == begin + 1:
                p[j, begin] = 1.0
                continue
            most = begin
            for e in range(begin, end):
                shape = (c[e] + prior) / kappa
                p[j, e] = rng.standard_gamma(shape) if shape > 0.0 else 0.0
                total += p[j, e]
                most = e if c[e] > c[most] else most
            if total > 0.0:
                for e in range(begin, end):
                    p[j, e] /= total
                aside[j, row] /= total
            else:  # all of them below the smallest number: as good as one
                p[j, most] = 1.0


@njit()
def plan_draws(sheet: ProblemArrays, posterior: Posterior, draws: Draws, out: RowPolicy) -> None:
    """Plan for the best of J draws, row by row."""
    first, indptr, indices, stride = sheet.first, sheet.indptr, sheet.indices, sheet.stride
    r, extra, p, aside, V, rows = sheet.r, sheet.extra, draws.p, draws.aside, out.V, out.rows
    H, S = rows.shape
    for t in range(H - 1, -1, -1):
        line, left, extra_t = min(t, len(r) - 1), H - 1 - t, extra[min(t, len(extra) - 1)]
        for s in range(S):
            best = -inf
            for k in range(first[s], first[s + 1]):
                row = t * stride + k
                q = -inf
                for j in range(len(p)):
                    x = aside[j, row] * posterior.pays * left
                    for e in range(indptr[row], indptr[row + 1]):
                        x += p[j, e] * (
                            V[t + 1, indices[e]] + (extra_t[e] if extra_t.size else 0.0)
                        )
                    q = max(q, x)
                q += r[line, k]
                if q > best + TIE * H:
                    best, rows[t, s] = q, row
            V[t, s] = min(best, left + 1.0) if posterior.cap else best


@njit()
def learn_by_draws(
    rng: np.random.Generator,
    own: np.random.Generator,
    episodes: int,
    nature: EnvironmentArrays,
    sheet: ProblemArrays,
    posterior: Posterior,
    seen: CountArrays,
    draws: Draws,
    out: RowPolicy,
    followed: Ints,
    record: Record,
) -> Progress:
    """Walk an episode, count, draw models, plan, again and again; ``own`` draws the models.

    Stops early if there is no room for another record. followed (H, S): the rows of the policy
    recorded last.
    """
    rows = out.rows
    path, recorded = np.empty(len(rows) + 1, np.int64), 0
    for episode in range(episodes):
        now = note(episode, recorded, nature, sheet.start, out.V[0], rows, followed, record)
        if now < 0:
            return Progress(episode, recorded)
        recorded = now
        walk_and_count(rng, nature, rows, seen, path)
        draw_models(own, sheet.indptr, seen.c, posterior, draws)
        plan_draws(sheet, posterior, draws, out)
    return Progress(episodes, recorded)


@njit()
def deviation(noise: Noise, k: int) -> float:
    """Return the standard deviation of the noise before episode k, without visits."""
    return sqrt(noise.factor * log(noise.cases * k))


@njit()
def plan_with_noise(
    own: np.random.Generator,
    sheet: ProblemArrays,
    noise: Noise,
    clock: Ints,
    seen: CountArrays,
    out: RowPolicy,
) -> None:
    """Plan with noise in every (t, s, a); clock (1,) is the episode, counted from 1."""
    first, indptr, indices, stride = sheet.first, sheet.indptr, sheet.indices, sheet.stride
    r, extra, c, n, V, rows = sheet.r, sheet.extra, seen.c, seen.n, out.V, out.rows
    H, S = rows.shape
    spread = deviation(noise, clock[0])
    for t in range(H - 1, -1, -1):
        line, extra_t = min(t, len(r) - 1), extra[min(t, len(extra) - 1)]
        for s in range(S):
            best = -inf
            for k in range(first[s], first[s + 1]):
                row = t * stride + k
                total = 0.0
                for e in range(indptr[row], indptr[row + 1]):
                    total += c[e] * (V[t + 1, indices[e]] + (extra_t[e] if extra_t.size else 0.0))
                q = r[line, k] + total / (n[row] + 1)
                q += spread / sqrt(n[row] + 1.0) * own.standard_normal()
                if q > best:
                    best, rows[t, s] = q, row
            V[t, s] = best


@njit()
def learn_by_noise(
    rng: np.random.Generator,
    own: np.random.Generator,
    episodes: int,
    nature: EnvironmentArrays,
    sheet: ProblemArrays,
    noise: Noise,
    clock: Ints,
    seen: CountArrays,
    out: RowPolicy,
    followed: Ints,
    record: Record,
) -> Progress:
    """Walk an episode, count, and `plan_with_noise`, again and again.

    Stops early if there is no room for another record. followed (H, S): the rows of the policy
    recorded last.
    """
    rows = out.rows
    path, recorded = np.empty(len(rows) + 1, np.int64), 0
    for episode in range(episodes):
        now = note(episode, recorded, nature, sheet.start, out.V[0], rows, followed, record)
        if now < 0:
            return Progress(episode, recorded)
        recorded = now
        walk_and_count(rng, nature, rows, seen, path)
        clock[0] += 1
        plan_with_noise(own, sheet, noise, clock, seen, out)
    return Progress(episodes, recorded)
