"""Learners that plan anew after every episode: planning, acting and counting in one loop.

A learner's estimates are p^ = c/n over a table of rows (`ucfh.table`). One backward sweep plans for
all bonus-based learners, with V = V_{t+1}, left = H - 1 - t and coefficients of each row:

    Q_t = r + p^ V + flat [left] + deviation sqrt(Var_p^ V) + spread p^ (V - L)
            + distance sqrt(p^ (V - L)^2) + crowd sqrt(p^ G_{t+1})

where L bounds the value of a policy from below, and G is a function of visits to states. With a
radius, the mean p^ V is the best one in an L1 ball around p^ instead. Coefficients are functions
of n alone: what they are after n visits stands in tables, so that the loop only looks it up.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels.compiling import njit
from ucfh._kernels.walk import draw

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]

NO_CAP, CAP_LEFT, CAP_HORIZON, CAP_NEXT = 0, 1, 2, 3
NO_LOWER, LOWER_OF_PLAYED, LOWER_OF_BEST = 0, 1, 2
FLAT, DEVIATION, SPREAD, DISTANCE, CROWD, RADIUS = range(6)  # the lines of coefficients
TIE = 1e-12  # times H: actions this close are equal, and the first is taken


class Nature(NamedTuple):
    """The world: its table, p (entries,) and running sums of it, mean rewards r (1 or H, R).

    position (entries,): where its entries stand in the learner's table.
    """

    indptr: Ints
    indices: Index
    cumulative: Floats
    p: Floats
    position: Ints
    r: Floats
    stride: int


class Sheet(NamedTuple):
    """The learner's table and the rewards that it was told.

    r (1 or H, R) of pairs; extra (1 or H, entries) on the next state, (1, 0) if there are none.
    """

    first: Ints
    indptr: Ints
    indices: Index
    stride: int
    r: Floats
    extra: Floats


class Rule(NamedTuple):
    """What else a learner's planning does.

    cap: Q is at most H (CAP_HORIZON), what is left, H - t (CAP_LEFT), or what the next state can be
    worth (CAP_NEXT), also of rows without visits. by_left: flat is multiplied by what the next
    state can be worth: left, and one more where it is paid for. best_next: p^ V + flat is at most
    the best V of a successor. falling: Q never rises. lower: L is kept for the action played, or
    for its own best one. own: L's bonus has the deviation of L, not of V. most: visits of a row
    beyond so many are not counted.
    """

    cap: int = CAP_LEFT
    by_left: bool = False
    best_next: bool = False
    falling: bool = False
    lower: int = NO_LOWER
    own: bool = False
    most: int = 2**62


@njit(cache=True, nogil=True)
def _in_ball(c: Ints, v: Floats, radius: float) -> float:
    """The best mean of v (k,) within an L1 distance of c / sum c (k,).

    Half of the radius goes to the best, and is taken from the worst upwards.
    """
    best, mean, at_best, n = -inf, 0.0, 0, 0
    for j in range(v.size):
        mean += c[j] * v[j]
        n += c[j]
        if v[j] > best:
            best, at_best = v[j], 0
        at_best += c[j] if v[j] == best else 0
    if n == 0 or radius >= 2.0:
        return best
    move = min(0.5 * radius, 1.0 - at_best / n)
    mean = mean / n + move * best
    below = -inf
    while move > 0.0:
        worst, mass = inf, 0
        for j in range(v.size):
            if c[j] > 0 and below < v[j] <= worst:
                mass = mass + c[j] if v[j] == worst else c[j]
                worst = v[j]
        if worst >= best:
            return mean - move * best  # rounding: nothing is left to take but the best itself
        taken = min(move, mass / n)
        mean -= taken * worst
        move -= taken
        below = worst
    return mean


@njit(cache=True, nogil=True)
def plan(
    sheet: Sheet,
    rule: Rule,
    terms: Floats,
    c: Ints,
    n: Ints,
    G: Floats,
    Q: Floats,
    V: Floats,
    L: Floats,
    rows: Ints,
) -> None:
    """One backward sweep: V, L (H+1, S), 0 at H, and rows (H, S), the ones of highest Q.

    terms (6, rows): coefficients, by line; 0 where one is not used. c (entries,), n (rows,).
    G (H+1, S) matters if there is crowding, Q (H, R) if it may not rise.
    """
    first, indptr, indices, stride, r, extra = sheet
    H, S = rows.shape
    longest = 0
    for row in range(len(indptr) - 2):
        longest = max(longest, indptr[row + 1] - indptr[row])
    values, lower = np.empty(longest), rule.lower != NO_LOWER
    for t in range(H - 1, -1, -1):
        line, left = min(t, len(r) - 1), H - 1 - t
        worth = left + 1.0 if extra.shape[1] > 0 else float(left)
        U1, L1, extra_t = V[t + 1], L[t + 1], extra[min(t, len(extra) - 1)]
        cap = inf
        if rule.cap == CAP_LEFT:
            cap = left + 1.0
        elif rule.cap == CAP_HORIZON:
            cap = float(H)
        elif rule.cap == CAP_NEXT:
            cap = worth
        for s in range(S):
            best, low_of_best, best_low, taken = -inf, 0.0, 0.0, first[s]
            for k in range(first[s], first[s + 1]):
                row = t * stride + k
                begin, end, visits = indptr[row], indptr[row + 1], n[row]
                q, low = cap, 0.0
                if visits > 0 or rule.cap == NO_CAP:
                    share = 1.0 / visits if visits > 0 else 1.0 / (end - begin)
                    mean, square, mean_low, square_low = 0.0, 0.0, 0.0, 0.0
                    gap, gap_square, crowd = 0.0, 0.0, 0.0
                    for e in range(begin, end):
                        p = share * c[e] if visits > 0 else share
                        paid = extra_t[e] if extra_t.size else 0.0
                        v = U1[indices[e]] + paid
                        values[e - begin] = v
                        mean += p * v
                        square += p * v * v
                        if lower:
                            v_low = L1[indices[e]] + paid
                            mean_low += p * v_low
                            square_low += p * v_low * v_low
                            gap += p * (v - v_low)
                            gap_square += p * (v - v_low) * (v - v_low)
                        if terms[CROWD, row] > 0.0:
                            crowd += p * G[t + 1, indices[e]]
                    up = terms[FLAT, row] * (worth if rule.by_left else 1.0)
                    up += terms[SPREAD, row] * gap + terms[CROWD, row] * sqrt(crowd)
                    if terms[DISTANCE, row] > 0.0:
                        up += terms[DISTANCE, row] * sqrt(gap_square)
                    down = up
                    if terms[DEVIATION, row] > 0.0:
                        x = terms[DEVIATION, row] * sqrt(max(0.0, square - mean * mean))
                        up += x
                        if rule.own:
                            x = max(0.0, square_low - mean_low * mean_low)
                            x = terms[DEVIATION, row] * sqrt(x)
                        down += x
                    if terms[RADIUS, row] > 0.0:
                        mean = _in_ball(c[begin:end], values[: end - begin], terms[RADIUS, row])
                    mean += up
                    if rule.best_next:
                        mean = min(mean, values[: end - begin].max())
                    q = min(cap, r[line, k] + mean)
                    low = max(0.0, r[line, k] + mean_low - down)
                if rule.falling:
                    q = min(q, Q[t, k])
                    Q[t, k] = q
                best_low = max(best_low, low)
                if q > best + TIE * H:
                    best, taken, low_of_best = q, row, low
            V[t, s], rows[t, s] = best, taken
            L[t, s] = best_low if rule.lower == LOWER_OF_BEST else low_of_best


@njit(cache=True, nogil=True)
def _walk(rng: np.random.Generator, nature: Nature, rows: Ints, path: Ints) -> int:
    """One episode: its entries in nature's table, start first, into path (H+1,); the last state."""
    s, row = 0, len(nature.indptr) - 2
    for t in range(len(rows) + 1):
        if t > 0:
            row = rows[t - 1, s]
        e = draw(rng.random(), nature.indptr[row], nature.indptr[row + 1], nature.cumulative)
        path[t] = e
        s = nature.indices[e]
    return int(s)


@njit(cache=True, nogil=True)
def _take_up(nature: Nature, rows: Ints, followed: Ints) -> float:
    """What the policy that takes rows (H, S) earns; from now on it is the one followed (H, S)."""
    H, S = rows.shape
    followed[:] = rows
    v, w = np.empty(S), np.zeros(S)
    for t in range(H - 1, -1, -1):
        for s in range(S):
            row = rows[t, s]
            x = nature.r[min(t, len(nature.r) - 1), row - t * nature.stride]
            for e in range(nature.indptr[row], nature.indptr[row + 1]):
                x += nature.p[e] * w[nature.indices[e]]
            v[s] = x
        v, w = w, v
    x = 0.0
    for e in range(nature.indptr[-2], nature.indptr[-1]):
        x += nature.p[e] * w[nature.indices[e]]
    return float(x)


@njit(cache=True, nogil=True)
def promise(start: Floats, v: Floats) -> float:
    """The mean of v (S,) over the start (S,) that the learner was told; the best v if none."""
    if start.size == 0:
        return float(v.max())
    x = 0.0
    for s in range(v.size):
        x += start[s] * v[s]
    return x


@njit(cache=True, nogil=True)
def _same(a: Ints, b: Ints) -> bool:
    """Whether two policies (H, S) take the same rows."""
    for t in range(a.shape[0]):
        for s in range(a.shape[1]):
            if a[t, s] != b[t, s]:
                return False
    return True


@njit(cache=True, nogil=True)
def learn(
    rng: np.random.Generator,
    episodes: int,
    enough: float,
    start: Floats,
    nature: Nature,
    sheet: Sheet,
    rule: Rule,
    which: Ints,
    tables: Floats,
    terms: Floats,
    crowding: Floats,
    c: Ints,
    n: Ints,
    N: Ints,
    G: Floats,
    Q: Floats,
    V: Floats,
    L: Floats,
    rows: Ints,
    followed: Ints,
    first_episode: Ints,
    value: Floats,
    promised: Floats,
) -> tuple[int, int]:
    """Plan, walk an episode, count, again and again: (episodes walked, policies recorded).

    Stops early if there is no room for another record, or in the tables, or if the `promise` from
    the start is not above ``enough``. followed (H, S): the rows of the policy recorded last.
    Records: the episode with which a policy began, what it earns, and what it promised. tables
    (k, most + 1): the k coefficients which (k,) by n. crowding (most + 1,): G after so many visits
    N (H+1, S) of a state at a step; N is empty if G does not matter.
    """
    H = len(rows)
    path, recorded, changed = np.empty(H + 1, np.int64), 0, True
    for episode in range(episodes):
        if changed:
            plan(sheet, rule, terms, c, n, G, Q, V, L, rows)
            promises = promise(start, V[0])
            if promises <= enough:
                return episode, recorded
            if not _same(rows, followed):
                if recorded == len(value):
                    return episode, recorded
                first_episode[recorded], promised[recorded] = episode, promises
                value[recorded] = _take_up(nature, rows, followed)
                recorded += 1
        _walk(rng, nature, rows, path)
        changed, full, s = False, False, nature.indices[path[0]]
        for t in range(H):
            row = rows[t, s]
            s = nature.indices[path[t + 1]]
            if N.size:
                N[t + 1, s] += 1
                if N[t + 1, s] < crowding.size:
                    G[t + 1, s] = crowding[N[t + 1, s]]
                else:
                    full = True
            if n[row] >= rule.most:
                continue
            n[row] += 1
            c[nature.position[path[t + 1]]] += 1
            changed = True
            if n[row] >= tables.shape[1]:
                full = True
                continue
            for i in range(len(which)):
                terms[which[i], row] = tables[i, n[row]]
        changed |= N.size > 0
        if full:
            return episode + 1, recorded
    return episodes, recorded


@njit(cache=True, nogil=True)
def draw_models(
    rng: np.random.Generator,
    indptr: Ints,
    c: Ints,
    prior: float,
    apart: float,
    kappa: float,
    p: Floats,
    aside: Floats,
) -> None:
    """Draws of every row from a posterior: p (J, entries), and aside (J, rows) for one more state.

    Dirichlet with parameters (c + prior)/kappa, and apart/kappa for that state.
    """
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


@njit(cache=True, nogil=True)
def plan_draws(
    sheet: Sheet, cap: bool, pays: float, p: Floats, aside: Floats, V: Floats, rows: Ints
) -> None:
    """Plan for the best of J draws, row by row: V (H+1, S), rows (H, S); p (J, entries).

    The state aside (J, rows) pays so much in each step that is left; V is at most what is left,
    H - t, if ``cap``.
    """
    first, indptr, indices, stride, r, extra = sheet
    H, S = rows.shape
    for t in range(H - 1, -1, -1):
        line, left, extra_t = min(t, len(r) - 1), H - 1 - t, extra[min(t, len(extra) - 1)]
        for s in range(S):
            best = -inf
            for k in range(first[s], first[s + 1]):
                row = t * stride + k
                q = -inf
                for j in range(len(p)):
                    x = aside[j, row] * pays * left
                    for e in range(indptr[row], indptr[row + 1]):
                        x += p[j, e] * (
                            V[t + 1, indices[e]] + (extra_t[e] if extra_t.size else 0.0)
                        )
                    q = max(q, x)
                q += r[line, k]
                if q > best + TIE * H:
                    best, rows[t, s] = q, row
            V[t, s] = min(best, left + 1.0) if cap else best


@njit(cache=True, nogil=True)
def learn_by_draws(
    rng: np.random.Generator,
    own: np.random.Generator,
    episodes: int,
    start: Floats,
    nature: Nature,
    sheet: Sheet,
    cap: bool,
    pays: float,
    prior: float,
    apart: float,
    kappa: float,
    c: Ints,
    n: Ints,
    p: Floats,
    aside: Floats,
    V: Floats,
    rows: Ints,
    followed: Ints,
    first_episode: Ints,
    value: Floats,
    promised: Floats,
) -> tuple[int, int]:
    """Walk an episode, count, draw models, plan; as `learn`. ``own`` draws the models."""
    H = len(rows)
    path, recorded = np.empty(H + 1, np.int64), 0
    for episode in range(episodes):
        if not _same(rows, followed):
            if recorded == len(value):
                return episode, recorded
            first_episode[recorded], promised[recorded] = episode, promise(start, V[0])
            value[recorded] = _take_up(nature, rows, followed)
            recorded += 1
        _walk(rng, nature, rows, path)
        s = nature.indices[path[0]]
        for t in range(H):
            n[rows[t, s]] += 1
            c[nature.position[path[t + 1]]] += 1
            s = nature.indices[path[t + 1]]
        draw_models(own, sheet.indptr, c, prior, apart, kappa, p, aside)
        plan_draws(sheet, cap, pays, p, aside, V, rows)
    return episodes, recorded


@njit(cache=True, nogil=True)
def update_q(
    H: int,
    t: int,
    row: int,
    e: int,
    ahead: float,
    sheet: Sheet,
    bernstein: bool,
    tables: Floats,
    n: Ints,
    Q: Floats,
    sums: Floats,
    beta: Floats,
) -> None:
    """Learn Q (rows,) from one step of a row (t, s, a): its entry e, and ahead = V_{t+1}(s').

    tables (5, most + 1) by n: alpha, b, and of beta: the factor of sqrt(W + H), the rest, the cap.
    sums (2, rows): of V_{t+1}(s') and of its square.
    """
    paid = sheet.r[min(t, len(sheet.r) - 1), row - t * sheet.stride]
    if sheet.extra.shape[1]:
        paid += sheet.extra[0, e]
    at = n[row]
    alpha, bonus = tables[0, at], tables[1, at]
    if bernstein:
        sums[0, row] += ahead
        sums[1, row] += ahead * ahead
        mean = sums[0, row] / at
        W = max(0.0, sums[1, row] / at - mean * mean)
        now = min(tables[2, at] * sqrt(W + H) + tables[3, at], tables[4, at])
        bonus = (now - (1.0 - alpha) * beta[row]) / (2.0 * alpha)
        beta[row] = now
    Q[row] += alpha * (paid + ahead + bonus - Q[row])


@njit(cache=True, nogil=True)
def greedy(t: int, s: int, first: Ints, stride: int, Q: Floats) -> int:
    """The row of highest Q (rows,) in a state."""
    best = t * stride + first[s]
    for row in range(best + 1, t * stride + first[s + 1]):
        if Q[row] > Q[best]:
            best = row
    return int(best)


@njit(cache=True, nogil=True)
def learn_by_rates(
    rng: np.random.Generator,
    episodes: int,
    start: Floats,
    nature: Nature,
    sheet: Sheet,
    bernstein: bool,
    tables: Floats,
    c: Ints,
    n: Ints,
    Q: Floats,
    sums: Floats,
    beta: Floats,
    V: Floats,
    rows: Ints,
    followed: Ints,
    first_episode: Ints,
    value: Floats,
    promised: Floats,
) -> tuple[int, int]:
    """Q-learning with a bonus, step by step, over rows (t, s, a); as `learn`."""
    H = len(rows)
    path, recorded = np.empty(H + 1, np.int64), 0
    for episode in range(episodes):
        if not _same(rows, followed):
            if recorded == len(value):
                return episode, recorded
            first_episode[recorded], promised[recorded] = episode, promise(start, V[0])
            value[recorded] = _take_up(nature, rows, followed)
            recorded += 1
        _walk(rng, nature, rows, path)
        s, full = nature.indices[path[0]], False
        for t in range(H):
            row, following = rows[t, s], nature.indices[path[t + 1]]
            n[row] += 1
            c[nature.position[path[t + 1]]] += 1
            ahead = V[t + 1, following]
            e = nature.position[path[t + 1]]
            update_q(H, t, row, e, ahead, sheet, bernstein, tables, n, Q, sums, beta)
            rows[t, s] = greedy(t, s, sheet.first, sheet.stride, Q)
            V[t, s] = min(float(H), Q[rows[t, s]])
            full |= n[row] + 1 >= tables.shape[1]
            s = following
        if full:
            return episode + 1, recorded
    return episodes, recorded
