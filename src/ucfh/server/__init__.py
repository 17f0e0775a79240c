"""A service of tasks over HTTP, with a dashboard."""
