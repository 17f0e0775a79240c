"""What is done before something is compiled for the first time; it is loaded early, so it is small.

Attributes:
    alone: whether no other code than this package's runs in this process.
    before: called once, by the first function that has to be compiled; None: nothing is done.

"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

alone = False
before: Callable[[], None] | None = None


def begin() -> bool:
    """Do it, unless it was done; whether it was done now."""
    global before
    if before is None:
        return False
    due, before = before, None
    due()
    return True
