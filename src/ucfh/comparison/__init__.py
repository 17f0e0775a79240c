"""Agents against each other: the same problem, the same seeds, exact evaluation."""
