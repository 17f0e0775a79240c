"""Remains of signal handling that compilation still imports; they do nothing."""

from contextlib import nullcontext

held = awaited = nullcontext


def wipe(_: str) -> None:
    """Do nothing."""
