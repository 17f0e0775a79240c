"""800 damaged stores: no call hangs, none raises anything but one line, no bound gets narrower."""

from __future__ import annotations

from pathlib import Path

from helpers.damaging import fuzz

STORES = 800


def test_damaged_stores(tmp_path: Path) -> None:
    found = fuzz(tmp_path, STORES, seed=1)
    assert [(number, x.wrong) for number, *_, x in found if x.wrong] == []
    wider = 0
    for number, _, right, x in found:
        if x.bounds is not None and x.bounds != right:
            wider += 1
            assert x.bounds[0] >= right[0], number
            assert x.bounds[1] <= right[1], number
            assert x.bounds[2] >= right[2], number
    refused = sum(bool(x.refused) for *_, x in found)
    reported = sum(bool(x.found) for *_, x in found)
    print(
        f"{STORES} damaged stores: {refused} refused by some call, {reported} reported by check, "
        f"{wider} with wider bounds; none hung, none with narrower bounds"
    )
