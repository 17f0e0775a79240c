"""Files that are written: links are not followed, and a power cut leaves the old or the new one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ucfh._utils.files import refuse_existing, write_text
from ucfh.exceptions import InputError


def test_a_dangling_link_is_not_followed_without_force(tmp_path: Path) -> None:
    link, target = tmp_path / "log.csv", tmp_path / "target"
    link.symlink_to(target)
    with pytest.raises(InputError, match="exists"):
        refuse_existing(link)
    with pytest.raises(InputError, match="exists"):
        write_text(link, "mine")
    assert not target.exists()
    write_text(link, "mine", force=True)
    assert link.is_symlink()
    assert target.read_text() == "mine"


def test_a_file_is_on_the_disk_before_it_replaces_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, done = tmp_path / "log.csv", []
    sync, replace = os.fsync, os.replace

    def synced(file: int) -> None:
        done.append(("synchronized", os.fstat(file).st_ino))
        sync(file)

    def replaced(source: Path, target: Path) -> None:
        done.append(("replaced", source.stat().st_ino))
        assert source.read_text() == "mine"
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_text(path, "mine")
    file, folder = path.stat().st_ino, tmp_path.stat().st_ino
    assert done == [("synchronized", file), ("replaced", file), ("synchronized", folder)]
