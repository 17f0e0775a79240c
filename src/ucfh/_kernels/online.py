"""Agents that plan again after every episode: planning, acting and counting in one loop.

An agent's estimates are p^ = c/n over a table of rows (`ucfh.transitions`). One backward sweep
plans for all bonus-based agents, with V = V_{t+1}, left = H - 1 - t and coefficients of each row:

    Q_t = r + p^ V + flat [left] + deviation sqrt(Var_p^ V) + spread p^ (V - L)
            + distance sqrt(p^ (V - L)^2) + crowd sqrt(p^ G_{t+1})

where L bounds the value of a policy from below, and G is a function of visits to states. With a
radius, the mean p^ V is the best one in an L1 ball around p^ instead; with a budget, the best one
p V with KL(p^, p) <= budget (`ucfh._kernels.kl_ball`); with a deviate z, a quantile of w V for
Dirichlet weights w (`ucfh._kernels.dirichlet`). Coefficients are functions of n alone: tables hold
their values after n visits, so that the loop only looks them up.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.dirichlet import upper_quantile
from ucfh._kernels.episodes import note, walk_once
from ucfh._kernels.intrinsics import borrow
from ucfh._kernels.kl_ball import extreme
from ucfh._kernels.types import CountArrays, EnvironmentArrays, ProblemArrays, Progress, Record

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NO_CAP, CAP_LEFT, CAP_HORIZON, CAP_NEXT = 0, 1, 2, 3
NO_LOWER, LOWER_OF_PLAYED, LOWER_OF_BEST = 0, 1, 2
# the lines of coefficients; from BUDGET on they need much code
FLAT, DEVIATION, SPREAD, DISTANCE, CROWD, RADIUS, BUDGET, DEVIATE = range(8)
TIE = 1e-12  # times H: actions this close are equal, and the first is taken


class Rule(NamedTuple):
    """Options of planning besides the bonus.

    cap: Q is at most H (CAP_HORIZON), the steps left, H - t (CAP_LEFT), or the largest value of the
    next state (CAP_NEXT), also of rows without visits. by_left: flat is multiplied by the largest
    value of the next state: left, and one more where rewards depend on the next state. best_next:
    p^ V + flat is at most the best V of a successor. falling: Q never rises. lower: L is kept for
    the action played, or for its own best one. own: L's bonus has the deviation of L, not of V.
    most: visits of a row beyond so many are not counted. apart: the weights w have this parameter
    for one more state, with the reward ``pays`` in each step that is left.
    """

    cap: int = CAP_LEFT
    by_left: bool = False
    best_next: bool = False
    falling: bool = False
    lower: int = NO_LOWER
    own: bool = False
    most: int = 2**62
    apart: float = 0.0
    pays: float = 0.0


class Bonus(NamedTuple):
    """Coefficients, by line: terms (8, rows), the current ones; 0 where one is not used.

    tables (k, most + 1): the k coefficients which (k,) by n. crowding (most + 1,): G after so many
    visits N (H+1, S) of a state at a step; N and G (H+1, S) are empty if G does not matter.
    """

    which: Ints
    tables: Floats
    terms: Floats
    crowding: Floats
    N: Ints
    G: Floats


class Outlook(NamedTuple):
    """Output of planning: V, L (H+1, S), 0 at H, and rows (H, S), the ones of highest Q.

    Q (H, R) is used only if it may not rise.
    """

    Q: Floats
    V: Floats
    L: Floats
    rows: Ints


@njit()
def _in_ball(c: Ints, v: Floats, radius: float) -> float:
    """Return the largest mean of v (k,) within an L1 distance of c / sum c (k,).

    Half of the radius goes to the best, and is taken from the worst upwards.
    """
    c, v = borrow((c, v))
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


@njit()
def plan(
    sheet: ProblemArrays,
    rule: Rule,
    terms: Floats,
    sets: Floats | None,
    seen: CountArrays,
    G: Floats,
    out: Outlook,
) -> None:
    """Plan by one backward sweep; terms and G as in `Bonus`, and G is used if there is crowding.

    sets (2, rows): terms from BUDGET on; None if there are no such terms, which saves much of the
    compilation.
    """
    sheet, rule, terms, seen, G = borrow((sheet, rule, terms, seen, G))
    out = borrow(out)
    first, indptr, indices, stride = sheet.first, sheet.indptr, sheet.indices, sheet.stride
    r, extra, c, n = sheet.r, sheet.extra, seen.c, seen.n
    Q, V, L, rows = out.Q, out.V, out.L, out.rows
    H, S = rows.shape
    # made here, so that the compiler knows that nothing else is stored there
    values, lower = np.empty(S), rule.lower != NO_LOWER
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
                    gap, gap_square, crowd, most = 0.0, 0.0, 0.0, -inf
                    for e in range(begin, end):
                        p = share * c[e] if visits > 0 else share
                        paid = extra_t[e] if extra_t.size else 0.0
                        v = U1[indices[e]] + paid
                        values[e - begin] = v
                        mean += p * v
                        square += p * v * v
                        most = max(most, v)
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
                    if sets is not None:
                        budget, deviate = sets[0, row], sets[1, row]
                        if deviate > 0.0:
                            mean = upper_quantile(
                                c[begin:end], values[: end - begin], rule.apart,
                                rule.pays * worth, deviate,
                            )  # fmt: skip
                        elif budget > 0.0:
                            mean = extreme(
                                begin, end, c, float(visits), budget, values, -inf, 0.0, 0.0, 0.0
                            ).bound
                    mean += up
                    if rule.best_next:
                        mean = min(mean, most)
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


@njit()
def learn(
    rng: np.random.Generator,
    episodes: int,
    nature: EnvironmentArrays,
    sheet: ProblemArrays,
    rule: Rule,
    bonus: Bonus,
    sets: Floats | None,
    seen: CountArrays,
    out: Outlook,
    followed: Ints,
    record: Record,
) -> Progress:
    """Plan, walk an episode, count, again and again.

    Stops early if there is no room for another record, or in the tables. sets as in `plan`.
    followed (H, S): the rows of the policy recorded last.
    """
    nature, sheet, rule, bonus, seen = borrow((nature, sheet, rule, bonus, seen))
    out, followed, record = borrow((out, followed, record))
    rows, c, n, N, G = out.rows, seen.c, seen.n, bonus.N, bonus.G
    which, tables, terms, crowding = bonus.which, bonus.tables, bonus.terms, bonus.crowding
    H = len(rows)
    path, recorded, changed = np.empty(H + 1, np.int64), 0, True
    for episode in range(episodes):
        if changed:
            plan(sheet, rule, terms, sets, seen, G, out)
            now = note(episode, recorded, nature, sheet.start, out.V[0], rows, followed, record)
            if now < 0:
                return Progress(episode, recorded)
            recorded = now
        walk_once(rng, nature, rows, path)
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
            return Progress(episode + 1, recorded)
    return Progress(episodes, recorded)
