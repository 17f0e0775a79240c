"""The commands of "Serve tasks over HTTP" in a shell, and its client in Node.js."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from support.services import check_page, near_service
from support.settings import DOCS
from ucfh.server.tokens import WRITE, TokenFile

PAGE = (DOCS / "howto" / "serve.md").read_text()


def test_curl_prints_what_the_page_shows(tmp_path: Path) -> None:
    for program in ("curl", "node"):
        assert shutil.which(program), f"{program} is not there: install it"
    tokens = TokenFile(str(tmp_path / "tokens.json"), create=True)
    _, token = tokens.add(WRITE, "shop")

    def run(command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "UCFH_TOKEN": token},
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.stderr == "", command
        return done.stdout

    with (
        near_service(tmp_path / "tasks.db", planning=True) as near,
        near_service(tmp_path / "more.db", tokens) as guarded,
    ):
        run(f"curl -sS --retry 60 --retry-max-time 120 {near}/readyz > /dev/null 2>&1")
        check_page(PAGE, {"http://127.0.0.1:8765": near, "http://127.0.0.1:8766": guarded}, run)
        (played,) = re.findall(r"`node client.mjs (.*?)`", PAGE)
        client = DOCS / "examples" / "client.mjs"
        printed = run(f"node {client} {played.replace('http://127.0.0.1:8765', near)}")
    assert re.fullmatch(r"\d+ decisions\nNot certified yet: .*\n", printed)
