"""Learners side by side."""
