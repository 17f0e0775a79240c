"""Mistakes against Theorems 1 and 2."""
