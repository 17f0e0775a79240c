"""Estimate of the number of episodes until a policy is certified.

The optimality gap after n episodes behaves like n^-b: b = 1/2 if the data only sharpen the same
probabilities, and b is larger during exploration. So b is fitted to the plans since n/2, and the
gap reaches epsilon at

    n (gap / epsilon)^(1/b)

If the gap shrinks more slowly than n^-1/2, it stagnates for some reason (an untried action, missing
outcomes), and there is no estimate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LEAST, MOST = 0.5, 1.5
"""The least power for which there is an estimate, and the largest that is used."""
WINDOW = 2.0
"""The fit uses plans since the number of episodes was smaller by this factor."""
FARTHEST = 100.0
"""The largest estimate, as a multiple of the number of episodes so far."""


def episodes_left(plans: Sequence[tuple[int, float]], epsilon: float) -> int | None:
    """Return the estimated number of episodes until the gap is epsilon, or None.

    Args:
        plans: (episodes, gap) of each plan, in order.
        epsilon: the target accuracy.

    >>> episodes_left([(n, 10 * n**-0.5) for n in (100, 120, 150, 200, 300, 400)], 0.25)
    1200
    >>> episodes_left([(n, 0.9) for n in (100, 120, 150, 200, 300, 400)], 0.25) is None
    True
    """
    if not plans or plans[-1][0] < 1:
        return None
    n, gap = plans[-1]
    if gap <= epsilon:
        return 0
    recent = np.log([x for x in plans if x[0] >= n / WINDOW and x[1] > 0])  # (k, 2)
    if len(recent) < 3 or np.ptp(recent[:, 0]) < np.log(WINDOW) / 2:
        return None
    power = -np.polyfit(recent[:, 0], recent[:, 1], 1)[0]
    if power < LEAST - 1e-9:
        return None
    reached = (gap / epsilon) ** (1 / min(power, MOST))
    return None if reached > FARTHEST else round(n * (reached - 1))
