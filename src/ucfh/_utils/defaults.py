"""Defaults of calls and commands."""

from __future__ import annotations

EPSILON = 0.1
"""The accuracy of agents given by name."""

DELTA = 0.1
"""The failure probability of a guarantee."""

ALPHA = 0.01
"""The level of assumption checks: the probability of a false alarm."""
