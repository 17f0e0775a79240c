"""Numbers and lists as text."""

from __future__ import annotations

from math import isfinite


def number(x: float, digits: int = 3) -> str:
    """A number with that many significant digits, without needless zeros; "-" for nan.

    >>> number(3.5816e9), number(12345), number(0.25), number(1e-6), number(7)
    ('3.58e+09', '12,300', '0.25', '1e-06', '7')
    """
    if not isfinite(x):
        return "-" if x != x else ("inf" if x > 0 else "-inf")
    if x == 0:
        return "0"
    text = f"{x:.{digits - 1}e}"
    mantissa, power = text.split("e")
    if not -3 <= int(power) < 5:
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{power}"
    plain = f"{float(text):,.{max(0, digits - 1 - int(power))}f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def plural(n: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "run"), plural(12000, "run"), plural(0, "policy")
    ('1 run', '12,000 runs', '0 policies')
    """
    if n == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        noun = noun[:-1] + "ie"
    return f"{n:,} {noun}s"


def listed(items: list[str], last: str = "and") -> str:
    """Items in a sentence.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"
