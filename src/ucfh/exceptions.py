"""Errors that users can cause, and helpers for their messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from numbers import Real
from operator import index
from typing import Any, SupportsIndex


class InputError(ValueError):
    """Invalid input; the message names the wrong entry and the remedy.

    The command line prints the message in one line and exits with code 2; every other exception is
    a bug and keeps its traceback.
    """


LEAST_ACCURACY = 1e-12
"""The least epsilon: smaller values are below rounding errors."""
MIN_SIMILARITY = 0.7
"""The least similarity of a name to be suggested: 'chian' and 'chain' score 0.8."""


def unknown(kind: str, name: object, known: Iterable[str]) -> InputError:
    """Return an error for an unknown name, with the nearest known one.

    >>> print(unknown("problem", "chian", ["chain", "grid"]))
    unknown problem 'chian': did you mean 'chain'? (known: chain, grid)
    """
    names = list(known)
    close = nearest(name, names) if isinstance(name, str) else ""
    hint = f": did you mean {close!r}?" if close else ""
    return InputError(f"unknown {kind} {name!r}{hint} (known: {some_of(names)})")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name with the most similar spelling, or "" if none is similar.

    >>> nearest("chian", ["chain", "grid"]), nearest("x", ["chain", "grid"])
    ('chain', '')
    """
    from difflib import get_close_matches

    lower = {known.lower(): known for known in sorted(known)}
    close = get_close_matches(name.lower(), lower, 1, MIN_SIMILARITY)
    return lower[close[0]] if close else ""


def some_of(names: Iterable[str]) -> str:
    """Return the first twenty names in sorted order, joined by commas.

    >>> some_of(["grid", "chain"])
    'chain, grid'
    """
    listed = sorted(names)
    return ", ".join(listed[:20]) + (", ..." if len(listed) > 20 else "")


def unknown_parameter(owner: str, name: str, known: Iterable[str]) -> InputError:
    """Return an error for an unknown parameter of a problem or an agent.

    >>> print(unknown_parameter("eqo", "lambda", []))
    eqo has no parameters: leave out 'lambda'
    """
    if not (names := [*known]):
        return InputError(f"{owner} has no parameters: leave out {name!r}")
    return unknown(f"parameter of {owner}", name, names)


def with_article(noun: str) -> str:
    """Return a noun with its indefinite article.

    >>> with_article("function"), with_article("int")
    ('a function', 'an int')
    """
    return f"{'an' if noun[:1].lower() in tuple('aeiou') else 'a'} {noun}"


def not_installed(what: str, package: str) -> InputError:
    """Return an error for a missing package, with the command that installs it.

    >>> print(not_installed("a log in Parquet", "pyarrow"))
    a log in Parquet needs pyarrow, which is not installed: pip install pyarrow
    """
    return InputError(f"{what} needs {package}, which is not installed: pip install {package}")


def wrong_type(name: str, value: object, what: str) -> InputError:
    """Return an error for a value of another kind than ``what``.

    >>> print(wrong_type("resume", 5, "a Run, or None"))
    resume = 5 must be a Run, or None
    """
    text = " ".join(repr(value).split())
    text = re.sub(r"np\.\w+\(([^()]*)\)", r"\1", text)  # np.int64(5) is printed as 5
    text = text if len(text) <= 100 else f"{text[:100]}..."
    return InputError(f"{name} = {text} must be {what}")


def check_type(name: str, value: object, kind: Any, what: str) -> None:
    """Raise `InputError` unless ``value`` is an instance of ``kind``, described by ``what``."""
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
    """Contradiction between data and a declaration, such as the range of rewards."""


def check_accuracy(epsilon: float) -> float:
    """Return epsilon if it is a positive number in the units of the rewards; else raise."""
    number = isinstance(epsilon, Real) and not isinstance(epsilon, bool)
    if not number or not LEAST_ACCURACY <= epsilon < float("inf"):
        raise wrong_type(
            "epsilon", epsilon, f"a number of at least {LEAST_ACCURACY:g}, such as 0.1"
        )
    return float(epsilon)


def check_count(name: str, value: SupportsIndex, least: int = 1) -> int:
    """Return ``value`` as an int if it is an integer of at least ``least``; else raise.

    Integers of NumPy are accepted.
    """
    try:
        number = least - 1 if isinstance(value, bool) else index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise InputError(f"{name} = {value!r} must be an integer of at least {least}")
    return number


def check_seed(seed: SupportsIndex) -> int:
    """Return a random seed if it is an integer of at least 0; else raise."""
    return check_count("seed", seed, least=0)
