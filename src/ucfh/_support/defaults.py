"""Defaults of calls and commands."""

from __future__ import annotations

DELTA = 0.1
"""The probability with which a guarantee may fail."""
