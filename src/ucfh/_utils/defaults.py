"""Defaults of calls and commands."""

from __future__ import annotations

EPSILON = 0.1
"""The accuracy that is asked of agents by name."""

DELTA = 0.1
"""The probability with which a guarantee may fail."""

ALPHA = 0.01
"""The probability that data are said to refute something that is true."""
