"""Agents: each sees a `Problem` and counts, never the transition probabilities."""
