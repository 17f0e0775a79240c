"""Labels that are unknown: what their absence may depend on."""

from __future__ import annotations

import numpy as np
import pytest

from ucfh.auditing.e_process import Audit
from ucfh.auditing.steps import AuditSteps, PreviousStep


def false_alarm(seed: int, rule: str, contexts: int = 800) -> bool:
    """Return True if an audit refutes fair coins, with two tosses by context; some may be missing.

    rule: "chance", "own" (by the toss itself) or "later" (by the next toss in the context).
    """
    rng, n = np.random.default_rng(seed), 2 * contexts
    toss = rng.integers(0, 2, (2, contexts))
    by = {"chance": rng.random(contexts) < 0.5, "own": toss[0] == 0, "later": toss[0] != toss[1]}
    lost = np.append(by[rule], np.zeros(contexts, bool))
    none = np.zeros(n, np.int64)
    audit = Audit((), rewards=False, losses=False)
    steps = AuditSteps(
        new=np.zeros(n, bool), t=none + 1, state=none, action=none,
        following=np.where(lost, -1, toss.ravel() + 1), reward=np.full(n, np.nan), lost=lost,
        detail=none,
    )  # fmt: skip
    audit.add(steps, PreviousStep(none, 10 + np.tile(np.arange(contexts), 2), np.full(n, np.nan)))
    audit.update_evidence()
    return bool(audit.refutes(0.01))


@pytest.mark.parametrize(("rule", "accused"), [("chance", False), ("own", False), ("later", True)])
def test_unknown_labels_may_not_depend_on_later_ones(rule: str, accused: bool) -> None:
    """Proposition 68 needs (U): losses that look ahead make fair coins look predictable."""
    alarms = sum(false_alarm(seed, rule) for seed in range(30))
    assert (alarms > 10) if accused else (alarms == 0)
