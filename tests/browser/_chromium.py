"""The system's Chromium, driven by Playwright: pages that complain of nothing, and axe-core."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage",
]  # fmt: skip
AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
DESK, PHONE = (1200, 900), (360, 740)
"""Width and height of a window, in pixels."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.fail("no Chromium to open the page in: install Debian's chromium", pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page_at(
    browser: Browser, url: str, size: tuple[int, int] = DESK, **options: Any
) -> Iterator[tuple[Page, list[str]]]:
    """A page in a window of its own, and all that the console says about it.

    ``options``: of Playwright's context, such as color_scheme="dark".
    """
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    page, said = context.new_page(), list[str]()

    def keep(message: ConsoleMessage) -> None:
        said.append(f"{message.type}: {message.text}")

    page.on("console", keep)
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.set_default_timeout(10_000)
    try:
        page.goto(url)
        yield page, said
    finally:
        context.close()


def violations(page: Page) -> list[str]:
    """Serious and critical violations that axe-core finds, with the elements."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{x['id']} ({x['impact']}): {node['html'][:200]} {node['failureSummary'][:300]}"
        for x in found["violations"]
        if x["impact"] in ("serious", "critical")
        for node in x["nodes"]
    ]


def sticks_out(page: Page) -> list[str]:
    """Return elements wider than the window, apart from tables that scroll in a frame."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("body *")].filter(x =>
          !x.closest(".table table, .sr, .skip") && x.checkVisibility()
          && x.getBoundingClientRect().right > innerWidth + 1)
          .map(x => `${x.tagName} ${x.id} ${x.getBoundingClientRect().right}`)"""
    )
    return found
