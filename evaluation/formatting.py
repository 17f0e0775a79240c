"""Numbers and problem names as text."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite, isnan

SYMBOLS = {"states": "S", "actions": "A", "successors": "C", "horizon": "H"}
OMITTED = ("seed", "gap", "epsilon")
"""Parameters that a short label omits."""


def number(x: float | None, digits: int = 3) -> str:
    """Format a number with so many significant digits; "-" for None and NaN.

    >>> number(3.5816e9), number(12345), number(0.25), number(1e-6), number(7), number(None)
    ('3.58e+09', '12,300', '0.25', '1e-06', '7', '-')
    """
    if x is None or isnan(x):
        return "-"
    if not isfinite(x):
        return "inf" if x > 0 else "-inf"
    mantissa, power = f"{x:.{digits - 1}e}".split("e")
    if x and not -3 <= int(power) < 5:
        return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{power}"
    plain = f"{float(f'{mantissa}e{power}'):,.{max(0, digits - 1 - int(power))}f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def span(values: Iterable[float], digits: int = 3) -> str:
    """Format the smallest and the largest of some numbers, without NaN.

    >>> span([3, 20.04, 7]), span([1.001, 1.0]), span([])
    ('3 to 20', '1', '-')
    """
    known = sorted(x for x in values if not isnan(x))
    ends = [number(x, digits) for x in known[:1] + known[-1:]]
    return " to ".join(dict.fromkeys(ends)) or "-"


def interval(value: float, low: float, high: float) -> str:
    """Format a value and, if it has one, its interval.

    >>> interval(2.0, 1.5, 2.52), interval(2.0, float("nan"), float("nan"))
    ('2 (1.5 to 2.52)', '2')
    """
    return number(value) + (f" ({number(low)} to {number(high)})" if isfinite(low) else "")


def unseeded(problem: str) -> str:
    """Return a problem's name without its seed.

    >>> unseeded("hard:n=4,seed=7"), unseeded("random:seed=3"), unseeded("chain")
    ('hard:n=4', 'random', 'chain')
    """
    name, _, text = problem.partition(":")
    parts = [part for part in text.split(",") if not part.startswith("seed=")]
    return ":".join(filter(None, [name, ",".join(parts)]))


def short(problem: str, omitted: tuple[str, ...] = OMITTED) -> str:
    """Return a label of a problem's name.

    >>> short("hard:n=4,actions=3,horizon=10,gap=0.25,seed=7")
    'hard n=4 A=3 H=10'
    """
    name, _, text = problem.partition(":")
    given = [part.split("=") for part in text.split(",") if part]
    return " ".join([name, *(f"{SYMBOLS.get(k, k)}={v}" for k, v in given if k not in omitted)])


def labels(problems: Iterable[str]) -> dict[str, str]:
    """Return the shortest label of each problem that no other problem has.

    >>> labels(["chain:n=5", "chain:n=9", "tutoring:horizon=4"])
    {'chain:n=5': 'chain n=5', 'chain:n=9': 'chain n=9', 'tutoring:horizon=4': 'tutoring'}
    """
    found = list(dict.fromkeys(problems))
    ways = [(name.partition(":")[0], short(name), short(name, ())) for name in found]
    return {
        name: next(x for x in own if sum(x in other for other in ways) == 1)
        for name, own in zip(found, ways, strict=True)
    }
