"""Live tasks: ask for an action, do it, tell what came of it; kept in a database."""
