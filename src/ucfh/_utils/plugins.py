"""Names with parameters, such as ``chain:n=5``, and plugins: user code by ``module:name``.

The module of a plugin may lie in the current folder, as for ``python -m``. The parameters after a
name are read by the annotations of the function that takes them.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module, invalidate_caches
from importlib.machinery import PathFinder
from traceback import extract_tb
from types import FunctionType, ModuleType, NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

from ucfh.exceptions import InputError, unknown, unknown_parameter

BUILT_IN = (os.path.dirname(os.path.dirname(__file__)), "<")
"""Prefixes of file names that are not user code: this package, and no file."""

FORM = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)(:(?P<rest>.*))?")


class PluginError(InputError):
    """An error in user code, independent of its arguments."""


class Plugin(NamedTuple):
    """An object of a user's module.

    Attributes:
        label: ``module:name``.
        thing: the object.
        parameters: the string after a second colon.

    """

    label: str
    thing: Any
    parameters: str


def is_plugin(text: str) -> bool:
    """Return True if a string has the form ``module:name``.

    >>> [is_plugin(x) for x in ("mine:Eager", "mine:Eager:c=2", "chain:n=5", "chain")]
    [True, True, False, False]
    """
    return FORM.fullmatch(text) is not None


def find_plugin(kind: str, text: str, fits: Callable[[Any], bool]) -> Plugin:
    """Import the object of ``module:name``.

    Args:
        kind: the expected kind, such as "problem", for messages.
        text: the name.
        fits: selects the objects of the module that an error suggests.

    Raises:
        InputError: if there is no such module or name.

    """
    parts = FORM.fullmatch(text)
    assert parts is not None
    module, name = parts["module"], parts["name"]
    if module.endswith(".py"):
        raise InputError(f"{text}: write {module.removesuffix('.py')}:{name}, without .py")
    add_to_path(os.getcwd())
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
    """Return True unless it is a class or function imported from elsewhere."""
    return not isinstance(thing, type | FunctionType) or thing.__module__ == module


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """Return an error for an unknown built-in name, which may be meant as a plugin."""
    module, _, rest = name.rpartition(".")
    own = f"{module}:{'NAME' if rest == 'py' else rest}"
    if is_plugin(own):
        add_to_path(os.getcwd())
        if PathFinder.find_spec(module.partition(".")[0]) is not None:
            return InputError(f"unknown {kind} {name!r}: name your own {kind} {own}, with a colon")
    return unknown(kind, name, known)


def folder_of(text: str) -> str:
    """Return the folder of the module of ``module:name``."""
    top = import_module(text.partition(":")[0].partition(".")[0])
    path = os.path.dirname(str(top.__file__))
    return os.path.dirname(path) if hasattr(top, "__path__") else path


def add_to_path(folder: str) -> None:
    """Add a folder to the module search path."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    invalidate_caches()  # it may have been written a moment ago


def _load(kind: str, text: str, module: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise InputError(
                f"{text!r} is not a built-in {kind}, and there is no module {error.name!r}: "
                f"correct the name, or run in the folder of {error.name}.py"
            ) from None
        raise InputError(
            f"the module {module} does not import ({describe_error(error)}): install what it needs"
        ) from error
    except (Exception, SystemExit) as error:
        raise InputError(
            f"the module {module} does not import ({describe_error(error)}): correct it"
        ) from error


@contextmanager
def user_code(label: str) -> Iterator[None]:
    """Turn any error of user code into an `InputError` of one line with its location."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{label}: {error}") from error
    except Exception as error:
        raise PluginError(f"{label} fails ({describe_error(error)}): correct it") from error


def describe_error(error: BaseException) -> str:
    """Describe an error in one line: type, message, and line and file of the user code.

    >>> describe_error(ValueError("too\\nlong"))
    'ValueError: too long'
    """
    text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    if isinstance(error, SyntaxError):
        return text  # it names file and line itself
    frames = [x for x in extract_tb(error.__traceback__) if not x.filename.startswith(BUILT_IN)]
    if not frames:
        return text
    return f"{text}, line {frames[-1].lineno} of {os.path.basename(frames[-1].filename)}"


def _read_bool(text: str) -> bool:
    words = {"0": False, "1": True, "false": False, "true": True, "no": False, "yes": True}
    return words[text.lower()]


_READERS: dict[type, tuple[Callable[[str], Any], str]] = {
    int: (int, "an integer"),
    float: (float, "a number"),
    bool: (_read_bool, "0, 1, true or false"),
    str: (str, "a string"),
}


def read_arguments(
    label: str, function: Callable[..., Any], text: str
) -> tuple[list[Any], dict[str, Any]]:
    """Return positional and named arguments from a string such as ``n=10,gap=0.125``.

    Positional-only parameters come first, without a name. A function with ``**settings`` takes
    names that it does not list, and checks them itself.

    Args:
        label: the name of the function in messages.
        function: the function that takes the arguments.
        text: the string; "" for no arguments.

    Raises:
        InputError: for unknown or repeated names, and values of the wrong type.

    """
    parameters = inspect.signature(function).parameters
    hints = _hints(function)
    leading = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_ONLY]
    known = [
        p.name for p in parameters.values() if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    others = next((p.name for p in parameters.values() if p.kind is p.VAR_KEYWORD), None)
    items = [item.strip() for item in text.split(",")] if text else []

    given = []
    for name in leading:
        if not items or not items[0] or "=" in items[0]:
            first, colon, rest = items[0].rpartition(":") if items else ("", "", "")
            example = f"{first},{rest}" if colon else name.upper()
            raise InputError(f"{label} needs its {name} first: write {label}:{example}")
        given.append(_read(label, name, items.pop(0), hints[name], None))

    named: dict[str, Any] = {}
    for item in items:
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (name and equals and value):
            raise InputError(
                f"{label}: {item!r} in {text!r} is not of the form name=value: "
                + _example(parameters)
            )
        if name in named:
            raise InputError(f"{label}: {name} is given twice in {text!r}: give it once")
        if name in known:
            named[name] = _read(label, name, value, hints[name], parameters[name].default)
        elif others:
            named[name] = _read(label, name, value, hints[others], None)
        else:
            raise unknown_parameter(label, name, known)
    return given, named


def _example(parameters: Mapping[str, inspect.Parameter]) -> str:
    """Return an example of a parameter in an error message."""
    for p in parameters.values():
        if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD):
            return f"write them like {p.name}={p.default or 20}, separated by commas"
    return "it has no parameters"


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the type of each parameter: its annotation or, without one, that of its default."""
    parameters = inspect.signature(function).parameters.values()
    kinds = {p.name: type(p.default) if type(p.default) in _READERS else str for p in parameters}
    return kinds | get_type_hints(function)


def _read(label: str, name: str, text: str, hint: Any, default: Any) -> Any:
    """Read a value as the first type of the annotation that fits."""
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    for kind in kinds:
        try:
            return _READERS[kind][0](text)
        except (ValueError, KeyError):
            continue
    example = f", such as {name}={default}" if default not in (None, "") else ""
    raise InputError(f"{label}: {name}={text} is not {_READERS[kinds[0]][1]}: write one{example}")
