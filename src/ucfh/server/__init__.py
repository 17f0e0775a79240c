"""A service: tasks over HTTP, with a page to watch them."""
