"""Fixtures of long statistical tests."""

from __future__ import annotations

import pytest

from ucfh import counts


@pytest.fixture
def fewer_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan after 10% more episodes, not 2%: so that many runs fit."""
    monkeypatch.setattr(counts, "GROWTH", 0.1)
