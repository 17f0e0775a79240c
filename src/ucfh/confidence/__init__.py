"""Confidence bounds from counts: on single probabilities, on transition models, on values."""
