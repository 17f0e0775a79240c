"""What is printed of a certificate promises no more than the certificate does."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ucfh import Counts, certify, make
from ucfh.commands.printing import certificate_lines

PROBLEM = make("chain:n=3").problem
KNOWN = certify(Counts.zero(PROBLEM), PROBLEM, epsilon=0.1)
numbers = st.floats(1e-8, 1e6)


@given(numbers, numbers, numbers)
def test_bounds_are_rounded_outward(lower: float, more: float, gap: float) -> None:
    known = replace(KNOWN, lower=lower, upper=lower + more, gap=gap)
    lines = certificate_lines(known, PROBLEM)
    (least,) = re.findall(r"at least (\S+) per episode", lines["known"])
    (most,) = re.findall(r"more than (\S+)\.$", lines["known"])
    (within,) = re.findall(r"within (\S+) of optimal", lines[""])
    assert lower - 0.001 < float(least) <= lower
    assert known.upper <= float(most) < known.upper + 0.0011
    assert gap <= float(within) <= 1.011 * gap


def test_nothing_is_known() -> None:
    known = replace(KNOWN, lower=-inf, upper=inf, gap=inf)
    assert "at least -inf per episode" in certificate_lines(known, PROBLEM)["known"]
    known = replace(KNOWN, lower=np.float64(0.25))
    assert "at least 0.250 per episode" in certificate_lines(known, PROBLEM)["known"]


def test_a_gap_of_epsilon_is_printed_as_epsilon() -> None:
    assert certificate_lines(replace(KNOWN, gap=0.1), PROBLEM)[""].startswith("It is within 0.1 of")


def test_pairs_that_hardly_matter_are_not_named() -> None:
    pair = KNOWN.missing[0]
    known = replace(KNOWN, missing=(replace(pair, share=0.9), replace(pair, share=0.001)))
    lines = certificate_lines(known, PROBLEM)["missing"].splitlines()
    assert len(lines) == 2
    assert lines[1].endswith("visits, 90%)")
