"""Logs of episodes that really happened, read into counts."""
