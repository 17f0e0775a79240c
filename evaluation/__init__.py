"""Empirical evaluation of UCFH: one script per study, and the report made from their results."""
