"""About how many more episodes it takes until a policy is certified: a guess, and said to be one.

With n episodes the gap of a policy behaves like n^-b; b = 1/2 if nothing is learned but the same
probabilities ever more closely, and more while it is still being found out what matters. So
b is read off the plans since n was half of what it is, and the gap reaches epsilon at

    n (gap / epsilon)^(1/b)

If the gap shrinks more slowly than n^-1/2, it stands still for some reason (an action that was not
tried yet, outcomes that are lost), and nothing is said.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LEAST, MOST = 0.5, 1.5
"""The least power for which a guess is made, and the largest that is believed."""
WINDOW = 2.0
"""The plans are looked at since there were that many times fewer episodes."""
FARTHEST = 100.0
"""No guess goes beyond that many times the episodes so far."""


def episodes_left(plans: Sequence[tuple[int, float]], epsilon: float) -> int | None:
    """How many more episodes it takes until the gap is epsilon; None if that cannot be said.

    ``plans``: the episodes and the gap of each plan, in their order.

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
