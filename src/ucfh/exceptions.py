"""The one kind of error that a user can cause, and the words shared by its messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from numbers import Real
from operator import index
from typing import Any, SupportsIndex


class InputError(ValueError):
    """Something the caller gave is wrong; the message names the entry at fault and the remedy.

    It is a ``ValueError``, so Python users catch what they expect. The command line prints its
    one line and exits with code 2; every other exception is a bug and keeps its traceback.
    """


LEAST_ACCURACY = 1e-12
"""No smaller epsilon can be told from rounding."""
NEAR = 0.7
"""How similar a name must be to be suggested: 'chian' and 'chain' score 0.8."""


def unknown(kind: str, name: object, known: Iterable[str]) -> InputError:
    """An error for a name that does not exist, with the nearest one that does.

    >>> print(unknown("problem", "chian", ["chain", "grid"]))
    unknown problem 'chian': did you mean 'chain'? (known: chain, grid)
    """
    names = list(known)
    close = nearest(name, names) if isinstance(name, str) else ""
    hint = f": did you mean {close!r}?" if close else ""
    return InputError(f"unknown {kind} {name!r}{hint} (known: {some_of(names)})")


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is spelt most like this one; "" if none is near.

    >>> nearest("chian", ["chain", "grid"]), nearest("x", ["chain", "grid"])
    ('chain', '')
    """
    from difflib import get_close_matches

    lower = {known.lower(): known for known in sorted(known)}
    close = get_close_matches(name.lower(), lower, 1, NEAR)
    return lower[close[0]] if close else ""


def some_of(names: Iterable[str]) -> str:
    """The names in their order, twenty at most.

    >>> some_of(["grid", "chain"])
    'chain, grid'
    """
    listed = sorted(names)
    return ", ".join(listed[:20]) + (", ..." if len(listed) > 20 else "")


def unknown_parameter(owner: str, name: str, known: Iterable[str]) -> InputError:
    """An error for a parameter that a problem or an agent does not have.

    >>> print(unknown_parameter("eqo", "lambda", []))
    eqo has no parameters: leave out 'lambda'
    """
    if not (names := [*known]):
        return InputError(f"{owner} has no parameters: leave out {name!r}")
    return unknown(f"parameter of {owner}", name, names)


def with_article(noun: str) -> str:
    """The noun after its indefinite article.

    >>> with_article("function"), with_article("int")
    ('a function', 'an int')
    """
    return f"{'an' if noun[:1].lower() in tuple('aeiou') else 'a'} {noun}"


def not_installed(what: str, package: str) -> InputError:
    """An error for a package that is not installed, with the command that installs it.

    >>> print(not_installed("a log in Parquet", "pyarrow"))
    a log in Parquet needs pyarrow, which is not installed: pip install pyarrow
    """
    return InputError(f"{what} needs {package}, which is not installed: pip install {package}")


def wrong_type(name: str, value: object, what: str) -> InputError:
    """An error for a value that is not ``what`` a call asks for.

    >>> print(wrong_type("resume", 5, "a Run, or None"))
    resume = 5 must be a Run, or None
    """
    text = re.sub(
        r"np\.\w+\(([^()]*)\)", r"\1", " ".join(repr(value).split())
    )  # of NumPy's scalars
    text = text if len(text) <= 100 else f"{text[:100]}..."
    return InputError(f"{name} = {text} must be {what}")


def check_type(name: str, value: object, kind: Any, what: str) -> None:
    """Raise unless ``value`` is an instance of ``kind``, which ``what`` describes in words."""
    if not isinstance(value, kind):
        raise wrong_type(name, value, what)


def check_unit(name: str, value: float) -> float:
    """Return ``value`` if it lies in (0, 1], as epsilon and delta must; else raise."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InputError(f"{name} = {value!r} is not a number: pass one in (0, 1], such as 0.1")
    if not 0 < value <= 1:
        raise InputError(f"{name} = {value} is outside (0, 1]: pass a number such as 0.1")
    return float(value)


class ContradictionError(InputError):
    """Data contradict a declaration, such as the range of rewards: no bound holds under it."""


def check_accuracy(epsilon: float) -> float:
    """Return epsilon if it is a positive number in the units of the rewards; else raise."""
    number = isinstance(epsilon, Real) and not isinstance(epsilon, bool)
    if not number or not LEAST_ACCURACY <= epsilon < float("inf"):
        raise wrong_type(
            "epsilon", epsilon, f"a number of at least {LEAST_ACCURACY:g}, such as 0.1"
        )
    return float(epsilon)


def check_count(name: str, value: SupportsIndex, least: int = 1) -> int:
    """Return ``value`` if it is a whole number of at least ``least``; else raise.

    NumPy's integers count as whole numbers; the result is an integer of Python.
    """
    try:
        whole = least - 1 if isinstance(value, bool) else index(value)
    except TypeError:
        whole = least - 1
    if whole < least:
        raise InputError(f"{name} = {value!r} must be a whole number of at least {least}")
    return whole


def check_seed(seed: SupportsIndex) -> int:
    """Return a random seed if it is a whole number of at least 0; else raise."""
    return check_count("seed", seed, least=0)
