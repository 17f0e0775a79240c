"""The package computes what was recorded; see `golden.record` for the data."""

from __future__ import annotations

import pytest

from golden.record import ENTRIES, compute, recorded
from golden.values import differences


@pytest.mark.parametrize(("kind", "name"), [(k, name) for k in ENTRIES for name in ENTRIES[k]])
def test_recorded_behavior(kind: str, name: str) -> None:
    found = differences(recorded(kind)[name], compute(kind, name), f"{kind}/{name}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("kind", ENTRIES)
def test_every_entry_is_recorded(kind: str) -> None:
    assert set(recorded(kind)) == set(ENTRIES[kind])


def test_a_renamed_field_is_one_difference() -> None:
    old = {"a": {"gap": [0.5, 1], "n": 3}}
    assert differences(old, {"a": {"loss": [0.5 + 1e-12, 1], "n": 3}}) == [
        "/a/gap -> loss: renamed"
    ]
    assert differences(old, {"a": {"gap": [0.5, 1], "n": 4}}) == ["/a/n: 3, now 4"]
    assert differences(old, {"a": {"n": 3}}) == ["/a/gap is gone"]
