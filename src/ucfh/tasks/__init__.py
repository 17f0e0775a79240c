"""Live tasks in a database: ask for an action, report its outcome."""
