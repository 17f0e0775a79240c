"""Logs of episodes, read as counts."""
