"""Import paths of earlier versions: one line that says where to."""

from __future__ import annotations

from importlib import import_module

import pytest

from ucfh._support.moved import MOVED

# there is a package of that name again, but these of its modules were other ones
OLD = [*(name for name in MOVED if name != "ucfh.live"), "ucfh.live.logs", "ucfh.live.samples"]


@pytest.mark.parametrize("old", OLD)
def test_old_paths_name_the_new_ones(old: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="has moved: from ucfh") as caught:
        import_module(old)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("old", MOVED)
def test_the_new_paths_are_there(old: str) -> None:
    line = MOVED[old].partition(";")[0]
    exec(line, {})


def test_other_modules_are_missing_as_ever() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'ucfh\.nothing'"):
        import_module("ucfh.nothing")
