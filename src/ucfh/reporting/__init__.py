"""The report on a log, as an HTML page or a figure."""
