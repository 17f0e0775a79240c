"""Tasks that are really done, one step after the other: environments as sources of steps."""
