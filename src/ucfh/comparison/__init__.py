"""Comparison of agents on one problem, with the same seeds and exact evaluation."""
