"""Experiments as data: specs in TOML, jobs, and their results."""
