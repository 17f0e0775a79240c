"""The studies that come with the package: a folder each, of a spec and how its results are read."""
