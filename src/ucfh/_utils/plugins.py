"""What users wrote themselves, by its name: ``module:name``, or ``module:name:parameter=value``.

The module may lie in the current folder, as it may for ``python -m``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module, invalidate_caches
from importlib.machinery import PathFinder
from traceback import extract_tb
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from ucfh.exceptions import InputError, unknown

OURS = (os.path.dirname(os.path.dirname(__file__)), "<")
"""How the paths of files begin that are not a user's: those of this package, and none."""

FORM = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)(:(?P<rest>.*))?")


class PluginError(InputError):
    """What a user wrote is at fault, whatever it is given."""


class Plugin(NamedTuple):
    """What a name stands for.

    Attributes:
        label: ``module:name``.
        thing: what that is.
        parameters: the text after a second colon.

    """

    label: str
    thing: Any
    parameters: str


def is_own(text: str) -> bool:
    """Whether a text has the form ``module:name``.

    >>> is_own("mine:Eager"), is_own("mine:Eager:c=2"), is_own("chain:n=5"), is_own("chain")
    (True, True, False, False)
    """
    return FORM.fullmatch(text) is not None


def find_own(kind: str, text: str, fits: Callable[[Any], bool]) -> Plugin:
    """What ``module:name`` names; ``kind`` is what it should be, such as "problem".

    Where there is no such name, those are listed that the module defines and that fit.
    """
    parts = FORM.fullmatch(text)
    assert parts is not None
    module, name = parts["module"], parts["name"]
    if module.endswith(".py"):
        raise InputError(f"{text}: write {module.removesuffix('.py')}:{name}, without .py")
    look_in(os.getcwd())
    known = vars(_load(kind, text, module))
    if name not in known:
        listed = [
            key
            for key, thing in known.items()
            if not key.startswith("_") and _is_from(module, thing) and fits(thing)
        ]
        if not listed:
            raise InputError(f"the module {module} has no {kind}: write {name} into it")
        raise unknown(f"{kind} in {module}", name, listed)
    return Plugin(f"{module}:{name}", known[name], parts["rest"] or "")


def _is_from(module: str, thing: Any) -> bool:
    """Whether a class or function was written there, and not imported."""
    return not isinstance(thing, type | FunctionType) or thing.__module__ == module


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """An error for a name of this package that does not exist; one's own may be meant by it."""
    module, _, rest = name.rpartition(".")
    own = f"{module}:{'NAME' if rest == 'py' else rest}"
    if is_own(own):
        look_in(os.getcwd())
        if PathFinder.find_spec(module.partition(".")[0]) is not None:
            return InputError(f"unknown {kind} {name!r}: your own is written {own}, with a colon")
    return unknown(kind, name, known)


def home_of(text: str) -> str:
    """The folder in which the module of ``module:name`` was found."""
    top = import_module(text.partition(":")[0].partition(".")[0])
    path = os.path.dirname(str(top.__file__))
    return os.path.dirname(path) if hasattr(top, "__path__") else path


def look_in(folder: str) -> None:
    """Let modules in a folder be found."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    invalidate_caches()  # it may have been written a moment ago


def _load(kind: str, text: str, module: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise InputError(
                f"{text!r} is no {kind} of this package, and there is no module {error.name!r}: "
                f"correct the name, or run it in the folder that holds {error.name}.py"
            ) from None
        raise InputError(
            f"the module {module} does not import ({told(error)}): install what it needs"
        ) from error
    except (Exception, SystemExit) as error:
        raise InputError(
            f"the module {module} does not import ({told(error)}): correct it"
        ) from error


@contextmanager
def calling(label: str) -> Iterator[None]:
    """Turn any error of what a user wrote into one line that says where it happened."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{label}: {error}") from error
    except Exception as error:
        raise PluginError(f"{label} fails ({told(error)}): correct it") from error


def told(error: BaseException) -> str:
    """An error in a line: what it is, and in which line of which file of theirs.

    >>> told(ValueError("too\\nlong"))
    'ValueError: too long'
    """
    text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    if isinstance(error, SyntaxError):
        return text  # it names file and line itself
    theirs = [x for x in extract_tb(error.__traceback__) if not x.filename.startswith(OURS)]
    if not theirs:
        return text
    return f"{text}, line {theirs[-1].lineno} of {os.path.basename(theirs[-1].filename)}"
