"""Colors of all figures."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
"""Distinct to people with any colour vision (Okabe and Ito); their yellow is too pale."""

GREY = "#555555"
