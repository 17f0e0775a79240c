"""The report on a log, as one HTML file."""
