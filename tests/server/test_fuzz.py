"""Somebody who means harm: nothing breaks, and nothing is written."""

from __future__ import annotations

from pathlib import Path

from server._hostile import attack
from support.services import near_service
from ucfh.server.tokens import READ, WRITE, TokenFile
from ucfh.tasks.opening import open_task


def test_hostile_requests(tmp_path: Path) -> None:
    store = tmp_path / "t.db"
    open_task(store, "t", actions=["a", "b"], horizon=3, epsilon=0.5, planning="off").close()
    tokens = TokenFile(str(tmp_path / "tokens.json"), create=True)
    (_, write), (_, read) = tokens.add(WRITE, None), tokens.add(READ, None)
    with near_service(store, tokens) as url:
        found = attack(url, store, 400, 1, write, read)
        assert found.keys() >= {400, 401, 403, 404, 405, 413, 422}
