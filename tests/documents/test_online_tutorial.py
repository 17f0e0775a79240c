"""The tutorial of a page: students are served over HTTP until the policy is certified."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ucfh
from support.services import near_service
from support.settings import DOCS

SCRIPT = DOCS / "tutorials" / "online.py"


def test_students_are_served(tmp_path: Path) -> None:
    """As `make serve` does, until Ctrl-C; nothing is left."""
    command = [sys.executable, str(SCRIPT), "--port", "0", "--day", "0.05"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as script:
        assert script.stdout is not None
        url, _, rest = script.stdout.readline().partition("  ")
        assert rest == "(Ctrl-C ends it)\n"
        with ucfh.connect(url, task="course") as task:
            # on a machine with other things to do, those who left are open for a while
            until = time.monotonic() + 60
            while (status := task.status()).outcomes < 1000 or status.open > 250:
                assert script.poll() is None
                assert time.monotonic() < until, status
        script.send_signal(signal.SIGINT)
        assert script.wait(30) == 0
    assert status.lost == 0
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    with near_service(tmp_path / "other.db") as url:
        port = url.rpartition(":")[2]
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "--port", port], capture_output=True, text=True
        )
    assert done.returncode == 1
    assert re.fullmatch(rf"ucfh: port {port} of 127.0.0.1 cannot be used: .*\n", done.stderr)
    with pytest.raises(ucfh.StoreBusy):
        ucfh.connect(url)
