"""Learning from what really happened: so far, from logs."""
