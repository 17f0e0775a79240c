"""Ten thousand hostile requests, and many that are made from the OpenAPI document."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from server._hostile import attack
from support.services import check_document, near_service
from ucfh.server.tokens import READ, WRITE, TokenFile
from ucfh.tasks.opening import open_task


@pytest.mark.parametrize("seed", range(4))
def test_hostile_requests(tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int) -> None:
    caplog.set_level(logging.ERROR, "uvicorn.error")
    store = tmp_path / "t.db"
    open_task(store, "t", actions=["a", "b"], horizon=3, epsilon=0.5, planning="off").close()
    tokens = TokenFile(str(tmp_path / "tokens.json"), create=True)
    (_, write), (_, read) = tokens.add(WRITE, None), tokens.add(READ, None)
    with near_service(store, tokens) as url:
        found = attack(url, store, 2500, seed, write, read)
        print(dict(sorted(found.items())))


@pytest.mark.parametrize("of_one_task", [True, False])
def test_requests_made_from_the_document(tmp_path: Path, of_one_task: bool) -> None:
    print(check_document(tmp_path, "examples,coverage,fuzzing,stateful", 50, of_one_task))
