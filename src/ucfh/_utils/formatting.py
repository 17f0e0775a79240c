"""Numbers and lists as text."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from math import isfinite


def number(x: float, digits: int = 3) -> str:
    """Format a number with significant digits, without trailing zeros; "-" for nan.

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


def percent(share: float) -> str:
    """Format a share in percent.

    >>> percent(0.9), percent(0.99999)
    ('90%', 'more than 99.99%')
    """
    if 0.9999 < share < 1:
        return "more than 99.99%"
    return "less than 0.01%" if 0 < share < 1e-4 else f"{100 * share:.4g}%"


def lower_bound(x: float, last: Decimal = Decimal("0.001")) -> str:
    """Format a lower bound, rounded down to a multiple of the last digit shown.

    >>> lower_bound(0.2499), lower_bound(-1234.56, Decimal("0.1"))
    ('0.249', '-1,234.6')
    """
    return _rounded(x, last, ROUND_FLOOR)


def upper_bound(x: float, last: Decimal = Decimal("0.001")) -> str:
    """Format an upper bound, rounded up to a multiple of the last digit shown."""
    return _rounded(x, last, ROUND_CEILING)


def _rounded(x: float, last: Decimal, rounding: str) -> str:
    return f"{Decimal(repr(float(x))).quantize(last, rounding):,f}" if isfinite(x) else f"{x}"


def upper_bound_digits(x: float) -> str:
    """Format an upper bound with three digits, or all before the decimal point and one after it.

    >>> upper_bound_digits(0.19981), upper_bound_digits(160.0), upper_bound_digits(1234.52)
    ('0.2', '160', '1234.6')
    """
    exact = Decimal(repr(float(x)))
    digits = 3 if exact.adjusted() < 2 else exact.adjusted() + 2
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(exact)
    return f"{rounded.normalize():f}"


def rough_count(x: float) -> str:
    """Format an estimated count with two digits; at least 1.

    >>> rough_count(1234.5), rough_count(0.3)
    ('1,200', '1')
    """
    return f"{max(1.0, float(f'{x:.2g}')):,.0f}"


def plural(n: int, noun: str) -> str:
    """Format a count with its noun.

    >>> plural(1, "run"), plural(12000, "run"), plural(0, "policy")
    ('1 run', '12,000 runs', '0 policies')
    """
    if n == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        noun = noun[:-1] + "ie"
    return f"{n:,} {noun}s"


def segment_noun(segments: int, horizon: int) -> str:
    """Return the noun for a time segment: "step", "segment", or "" if there is only one."""
    if segments == 1:
        return ""
    return "step" if segments == horizon else "segment"


def listed(items: list[str], last: str = "and") -> str:
    """Join items in a sentence.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"
