"""A copy of a PostgreSQL database, made while a service uses it, and what is in it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import ucfh
from support.services import near_service
from support.settings import DOCS
from support.stores import QUICK, Server

PAGE = (DOCS / "howto" / "operate.md").read_text()


def test_a_dump_holds_all_that_was_acknowledged(tmp_path: Path) -> None:
    dump, restore = re.findall(r"^    (pg_\w+ .*)$", PAGE, re.MULTILINE)
    server = Server(QUICK)
    try:
        address = server.address()

        def run(command: str) -> None:
            environment = {"PATH": f"{server.programs}:/usr/bin:/bin", "DATABASE": address}
            subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, check=True)

        ucfh.open_task(address, actions=["a", "b"], horizon=2, epsilon=0.5, planning="off").close()
        with near_service(address) as url, ucfh.connect(url) as task:
            decisions = [task.ask("x", k) for k in range(20)]
            run(dump)
            for decision in decisions:
                task.tell(decision, reward=1, done=True)
        run(restore)
        with near_service(address) as url, ucfh.connect(url) as task:
            assert len(task.decisions("open")) == 20
            assert task.tell(decisions[0], reward=1, done=True) is None
        with ucfh.open_task(address, planning="off") as near:
            assert near.check() == []
    finally:
        server.remove()
