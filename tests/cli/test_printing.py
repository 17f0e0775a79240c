"""What is printed of a certificate promises no more than the certificate does."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ucfh import Certificate, Counts, certify, make
from ucfh._utils.files import labels_of
from ucfh.certificate import UncertaintySource
from ucfh.cli.printing import certificate_lines

PROBLEM = make("chain:n=3").problem
KNOWN = certify(Counts.zero(PROBLEM), PROBLEM, epsilon=0.1)
numbers = st.floats(1e-8, 1e6)


def lines_of(known: Certificate, segmented: str = "") -> dict[str, str]:
    return certificate_lines(known, *labels_of(PROBLEM), segmented)


@given(numbers, numbers, numbers)
def test_bounds_are_rounded_outward(lower: float, more: float, gap: float) -> None:
    known = replace(KNOWN, lower=lower, upper=lower + more, gap=gap)
    lines = lines_of(known)
    (least,) = re.findall(r"at least (\S+) per episode", lines["known"])
    (most,) = re.findall(r"more than (\S+)\.$", lines["known"])
    (within,) = re.findall(r"within (\S+) of optimal", lines[""])
    assert lower - 0.001 < float(least.replace(",", "")) <= lower
    assert known.upper <= float(most.replace(",", "")) < known.upper + 0.0011
    assert gap <= float(within) <= 1.011 * gap


def test_nothing_is_known() -> None:
    known = replace(KNOWN, lower=-inf, upper=inf, gap=inf)
    assert "at least -inf per episode" in lines_of(known)["known"]
    known = replace(KNOWN, lower=np.float64(0.25))
    assert "at least 0.250 per episode" in lines_of(known)["known"]


def test_a_gap_of_epsilon_is_printed_as_epsilon() -> None:
    assert lines_of(replace(KNOWN, gap=0.1))[""].startswith("It is within 0.1 of")


def test_a_gap_of_rounding_is_optimal_also_if_losses_were_random() -> None:
    lines = lines_of(replace(KNOWN, gap=0.1, gap_if_random=1e-14))
    assert lines["lost"].startswith("It would be optimal ")
    assert "lost" not in lines_of(replace(KNOWN, gap=0.0, gap_if_random=1e-14))


def test_pairs_that_hardly_matter_are_not_named() -> None:
    pair = KNOWN.missing[0]
    known = replace(KNOWN, missing=(replace(pair, share=0.9), replace(pair, share=0.001)))
    lines = lines_of(known)["missing"].splitlines()
    assert len(lines) == 2
    assert lines[1].endswith("visits, 90% of it)")


def test_pairs_are_named_with_their_segment() -> None:
    """If there is more than one, and as it is called."""
    pairs = (UncertaintySource(2, 1, 0, 7, 0.6), UncertaintySource(0, -1, -1, 9, 0.4))
    known = replace(KNOWN, missing=pairs)
    for segmented, where in (("", ""), ("step", " at step 3"), ("segment", " at segment 3")):
        lines = lines_of(known, segmented)["missing"].splitlines()
        assert lines[1].strip() == f"left in state 1{where} (7 visits, 60% of it)"
        assert lines[2].strip() == "where episodes start (9 seen, 40% of it)"
