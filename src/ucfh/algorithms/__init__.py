"""Algorithms: each agent sees a `Problem` and counts, never the transition probabilities."""
