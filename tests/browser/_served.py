"""``ucfh serve`` as a process of its own, with a store and tokens in a folder."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from ucfh.server.tokens import READ, WRITE, TokenFile


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class Served:
    """A service that may be stopped and started again at the same address.

    Attributes:
        url: its address. tokens: their file. write, read: a token of each role.

    """

    def __init__(self, folder: Path) -> None:
        self.store, self.port = folder / "tasks.db", free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._file, self._log = str(folder / "tokens.json"), folder / "log"
        self.tokens = TokenFile(self._file, create=True)
        self.write_token, self.write = self.tokens.add(WRITE, "writer")
        self.read_token, self.read = self.tokens.add(READ, "reader")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it can be used."""
        command = [sys.executable, "-m", "ucfh", "serve", str(self.store), "--port", str(self.port)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--token-file", self._file], stdout=log, stderr=log
            )
        for _ in range(1200):
            try:
                with urlopen(f"{self.url}/readyz"):
                    return
            except URLError:
                assert self._process.poll() is None, self._log.read_text()
                time.sleep(0.1)
        raise AssertionError(f"not ready: {self._log.read_text()}")

    def stop(self) -> None:
        """Stop it, as Ctrl-C does."""
        if self._process is not None:
            self._process.terminate()
            assert self._process.wait(60) == 0, self._log.read_text()
            self._process = None

    def cookie(self, role: str, seconds: float) -> dict[str, Any]:
        """A session that lasts for some time, as a browser keeps it."""
        from ucfh.server.auth import COOKIE

        token = self.write_token if role == WRITE else self.read_token
        text = self.tokens.cookie(token, time.time() + seconds)
        return {"name": COOKIE, "value": text, "sameSite": "Strict"}

    def __enter__(self) -> Served:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
