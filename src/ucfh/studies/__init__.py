"""The studies of the package, one folder each: a spec, and how its results are read."""
