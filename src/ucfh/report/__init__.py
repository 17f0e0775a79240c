"""Reports for people: sections, their words, and the HTML page."""
