"""Test of whether transitions depend on the step, from counts by step.

Counts hold no order, but with segments they hold the frequency of each label at each step. For one
label of a pair (s, a), with c_t of n_t draws at step t, c of n in total, the Krichevsky-Trofimov
mixture of each step over the largest likelihood of one probability for all,

    ln E  =  sum over t of ln KT(c_t, n_t - c_t)  -  c ln(c/n) - (n - c) ln(1 - c/n),

is an e-process in every order, as KT does not depend on it. Successors are declared in advance; so
E of a pair is the mean over these, and E of all the mean over pairs.
"""

from __future__ import annotations

from math import exp, lgamma, log

import numpy as np

from ucfh._utils.arrays import Floats, Ints
from ucfh._utils.defaults import ALPHA
from ucfh._utils.files import labels_of
from ucfh.auditing.e_process import max_log_likelihood
from ucfh.auditing.report import (
    ASSUMPTIONS,
    MAX_LN_E,
    AssumptionCheck,
    AuditReport,
    Contrast,
    Finding,
)
from ucfh.counts import Counts
from ucfh.exceptions import InputError, check_unit
from ucfh.mdp import Problem

_ln_gamma = np.frompyfunc(lgamma, 1, 1)


def report_of_counts(counts: Counts, problem: Problem, alpha: float = ALPHA) -> AuditReport:
    """Return the audit report of counts by step: a test that transitions do not depend on the step.

    Args:
        counts: counts over the table of the problem.
        problem: a problem whose table has a row for each step.
        alpha: the probability of a finding if the assumption is true.

    Raises:
        InputError: if the counts are not by step.

    >>> import numpy as np, ucfh
    >>> task = ucfh.Problem(2, 1, 3, rewards=np.zeros((2, 1)), time_dependent=True)
    >>> seen = np.zeros((3, 2, 1, 2), int)
    >>> seen[:2, 0, 0], seen[2, 0, 0] = [90, 10], [10, 90]
    >>> print(ucfh.audit(seen, task).findings[0].effect)
    at step 3, state '0' follows much less often (10% of 100) than at other steps (90% of 200)
    """
    check_unit("alpha", alpha)
    table = problem.table
    if table.segments == 1:
        raise InputError(
            "counts that pool all steps hold no order, and no assumption can be tested: pass a log"
        )
    S, entries = table.states, table.indptr[table.start]
    segment, pair = np.divmod(table.row_of_entry[:entries], table.pairs)
    keys, at = np.unique(pair * S + table.indices[:entries].astype(np.int64), return_inverse=True)
    c = np.zeros((table.segments, len(keys)), np.int64)  # (H, labels)
    c[segment, at] = counts.successors[:entries]
    n = counts.visits[:-1].reshape(table.segments, -1)[:, keys // S]
    ln = (_kt(c) + _kt(n - c) - _ln_gamma(n + 1.0).astype(float)).sum(0)
    ln -= max_log_likelihood(c.sum(0), n.sum(0))
    weighted = ln - np.log(np.bincount(keys // S)[keys // S] * table.pairs)
    evidence = max(0.0, float(np.logaddexp.reduce(weighted)))
    findings = []
    if evidence >= log(1 / alpha):
        findings.append(_finding(problem, c, n, keys, int(weighted.argmax()), evidence))
    e_value = exp(min(evidence, MAX_LN_E))
    return AuditReport(
        findings=tuple(findings),
        tested=(AssumptionCheck("step", ASSUMPTIONS["step"], e_value, 1 / alpha),),
        e_values={"next state by step": e_value},
        alpha=alpha,
        steps=int(counts.visits[:-1].sum()),
        episodes=int(counts.visits[-1]),
        stopped=None,
    )


def _kt(c: Ints) -> Floats:
    """Return ln Gamma(c + 1/2)/Gamma(1/2), elementwise."""
    return np.asarray(_ln_gamma(c + 0.5).astype(float) - lgamma(0.5))


def _finding(problem: Problem, c: Ints, n: Ints, keys: Ints, at: int, evidence: float) -> Finding:
    """Return the finding about label ``at``; c, n (H, labels), keys (labels,)."""
    states, actions = labels_of(problem)
    pair, label = divmod(int(keys[at]), problem.states)
    _, s, a = problem.table.pair_of(pair)
    by_step = [
        Contrast(
            (int(c[t, at]), int(n[t, at])),
            (int(c[:, at].sum() - c[t, at]), int(n[:, at].sum() - n[t, at])),
        )
        for t in range(len(c))
    ]
    t = max(range(len(c)), key=lambda t: by_step[t].gain)
    event = f"state {str(states.label(label))!r} follows"
    return Finding(
        name="step",
        assumption=ASSUMPTIONS["step"],
        where=f"after action {str(actions.label(a))!r} in state {str(states.label(s))!r}",
        effect=by_step[t].sentence(f"at step {t + 1}", event, "at other steps"),
        meaning="bounds that pool the steps may be invalid",
        remedy="do not pool the steps: time_dependent=True",
        e_value=exp(min(evidence, MAX_LN_E)),
        episodes=0,
    )
