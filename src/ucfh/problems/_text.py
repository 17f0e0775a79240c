"""The text after a problem's name, read by the annotations of the function that builds it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, get_args, get_type_hints

from ucfh.exceptions import InputError, unknown_parameter


def _read_truth(text: str) -> bool:
    words = {"0": False, "1": True, "false": False, "true": True, "no": False, "yes": True}
    return words[text.lower()]


_READERS: dict[type, tuple[Callable[[str], Any], str]] = {
    int: (int, "a whole number"),
    float: (float, "a number"),
    bool: (_read_truth, "0, 1, true or false"),
    str: (str, "text"),
}


def read_arguments(
    problem: str, builder: Callable[..., Any], text: str
) -> tuple[list[Any], dict[str, Any]]:
    """The positional and the named arguments in a text such as ``n=10,gap=0.125``.

    A builder whose first parameter is positional-only takes it first, without a name. A
    builder with ``**settings`` takes names that it does not list, and checks them itself.
    """
    parameters = inspect.signature(builder).parameters
    hints = _hints(builder)
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
            such = f"{first},{rest}" if colon else name.upper()
            raise InputError(f"{problem} needs its {name} first: write {problem}:{such}")
        given.append(_read(problem, name, items.pop(0), hints[name], None))

    named: dict[str, Any] = {}
    for item in items:
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (name and equals and value):
            raise InputError(
                f"{problem}: {item!r} in {text!r} is not of the form name=value: "
                + _form(parameters)
            )
        if name in named:
            raise InputError(f"{problem}: {name} is given twice in {text!r}: give it once")
        if name in known:
            named[name] = _read(problem, name, value, hints[name], parameters[name].default)
        elif others:
            named[name] = _read(problem, name, value, hints[others], None)
        else:
            raise unknown_parameter(problem, name, known)
    return given, named


def _form(parameters: Mapping[str, inspect.Parameter]) -> str:
    """How parameters are written, for one of those that there are."""
    for p in parameters.values():
        if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD):
            return f"write them like {p.name}={p.default or 20}, separated by commas"
    return "it has no parameters"


def _hints(builder: Callable[..., Any]) -> dict[str, Any]:
    """The type of each parameter: its annotation or, without one, the type of its default."""
    parameters = inspect.signature(builder).parameters.values()
    kinds = {p.name: type(p.default) if type(p.default) in _READERS else str for p in parameters}
    return kinds | get_type_hints(builder)


def _read(problem: str, name: str, text: str, hint: Any, default: Any) -> Any:
    """The value of a text as the first type of the annotation that it can be read as."""
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    for kind in kinds:
        try:
            return _READERS[kind][0](text)
        except (ValueError, KeyError):
            continue
    such = f", such as {name}={default}" if default not in (None, "") else ""
    raise InputError(f"{problem}: {name}={text} is not {_READERS[kinds[0]][1]}: write one{such}")
