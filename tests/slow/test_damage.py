"""800 damaged stores: no call hangs, none raises more than one line, no bound changes silently."""

from __future__ import annotations

from pathlib import Path

from support.damaging import fuzz

STORES = 800


def test_damaged_stores(tmp_path: Path) -> None:
    found = fuzz(tmp_path, STORES, seed=1)
    assert [(number, x.wrong) for number, *_, x in found if x.wrong] == []
    changed = [x for *_, right, x in found if x.bounds is not None and x.bounds != right]
    assert [x for x in changed if not x.found and not x.refused] == []
    refused = sum(bool(x.refused) for *_, x in found)
    reported = sum(bool(x.found) for *_, x in found)
    print(
        f"{STORES} damaged stores: {refused} refused by some call, {reported} reported by check, "
        f"{len(changed)} with other bounds, all of them reported; none hung"
    )
