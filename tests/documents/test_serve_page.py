"""Serve tasks over HTTP: each request of the page is answered as the page says.

`tests/slow/test_serve_page_in_shell.py` runs the same commands in a shell.
"""

from __future__ import annotations

import re
from pathlib import Path

from support.services import check_page, near_service, run_command
from support.settings import DOCS
from ucfh.server.endpoints import ENDPOINTS
from ucfh.server.tokens import WRITE, TokenFile

PAGE = (DOCS / "howto" / "serve.md").read_text()


def test_the_requests_are_answered_as_the_page_shows(tmp_path: Path) -> None:
    """And every request that there is, is on the page."""
    tokens = TokenFile(str(tmp_path / "tokens.json"), create=True)
    _, token = tokens.add(WRITE, "shop")
    with (
        near_service(tmp_path / "tasks.db", planning=True) as near,
        near_service(tmp_path / "more.db", tokens) as guarded,
    ):
        places = {"http://127.0.0.1:8765": near, "http://127.0.0.1:8766": guarded}
        while run_command(f"curl {near}/readyz", {}) != "ready\n":
            pass
        called = check_page(PAGE, places, lambda x: run_command(x, {"UCFH_TOKEN": token}))
    for endpoint in ENDPOINTS:
        path = re.sub(r"{\w+}", "[^/]+", endpoint.path)
        assert any(
            method == endpoint.method and re.fullmatch(path, where) for method, where in called
        ), f"{endpoint.method} {endpoint.path}"
