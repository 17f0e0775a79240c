"""Logs of any length: memory stays the same, and what is said of the progress is right."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import numpy as np

from ucfh.logs.reading import read_log

HEAD = b"episode,t,state,action,reward,next_state,done\n"


def test_a_zipped_log_that_expands_a_thousandfold_needs_no_more_memory(tmp_path: Path) -> None:
    peaks = []
    for episodes in (1, 8):
        path = tmp_path / f"{episodes}.csv.gz"
        with gzip.open(path, "wb") as file:
            file.write(HEAD)
            for _ in range(episodes):
                file.write(b"1,0,home,go,0,home,0\n" * 5_000)
        tracemalloc.start()
        assert read_log(path, accept_losses=True).rows == episodes * 5_000
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert path.stat().st_size < episodes * 5_000 * 21 / 100
    # what was used but not yet collected comes on top; all rows would be eight times as many
    assert peaks[1] < 3 * peaks[0]


def test_progress_is_the_share_of_the_zipped_bytes(tmp_path: Path) -> None:
    """The size of the unzipped rows is not known before they are read."""
    path = tmp_path / "log.csv.gz"
    rng = np.random.default_rng(1)
    with gzip.open(path, "wb") as file:
        file.write(HEAD)
        for i in range(25_000):
            file.write(f"{i},0,home,go,{rng.random()},home,1\n".encode())
    shares: list[float] = []
    read_log(path, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[0] < 0.5
    assert shares[-1] == 1.0
    assert max(np.diff(shares)) < 0.5
