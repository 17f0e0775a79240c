"""What studies found, as a page for people: sections, words, tables and figures."""
