"""What is asked for where a call or a command does not say it."""

from __future__ import annotations

DELTA = 0.1
"""The probability with which a guarantee may fail."""
