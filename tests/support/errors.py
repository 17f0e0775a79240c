"""Errors that a test expects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ucfh import InputError


def refusal(action: Callable[..., object], *args: Any, **options: Any) -> str:
    """Return the message of the `InputError` that a call must raise: one line."""
    with pytest.raises(InputError) as caught:
        action(*args, **options)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message
