"""Learning from environments that are stepped."""
