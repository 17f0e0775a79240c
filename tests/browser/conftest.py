from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from browser._chromium import chromium
from browser._fake_service import FakeService, serving


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def fake() -> Iterator[FakeService]:
    with serving() as service:
        yield service
