"""Numbers and names as readings write them."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite, isnan
from pathlib import PurePath

from ucfh._support.statistics import LEVEL, Interval

SYMBOLS = {"states": "S", "actions": "A", "successors": "C", "horizon": "H"}
"""Parameters of problems that have a symbol."""

UNSAID = ("seed", "gap", "epsilon")
"""Parameters that a short label leaves out."""


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


def times(ratio: float) -> str:
    """How many times, with two digits: more would claim too much precision.

    >>> times(1234), times(2.04), times(3.58e9)
    ('1,200 times', '2 times', '3.6e+09 times')
    """
    return f"{number(ratio, 2)} times"


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


def unseeded(problem: str) -> str:
    """A problem's name without its seed.

    >>> unseeded("hard:n=4,seed=7"), unseeded("random:seed=3"), unseeded("chain")
    ('hard:n=4', 'random', 'chain')
    """
    name, _, text = problem.partition(":")
    parts = [part for part in text.split(",") if part.partition("=")[0].strip() != "seed"]
    return ":".join(filter(None, [name, ",".join(parts)]))


def short(problem: str) -> str:
    """A short label of a problem's name, for figures.

    >>> short("hard:n=4,actions=3,horizon=10,gap=0.25,seed=7")
    'hard n=4 A=3 H=10'
    >>> short("gym:FrozenLake-v1,horizon=20"), short("models/clinic.json")
    ('FrozenLake-v1 H=20', 'clinic')
    """
    if problem.endswith((".json", ".npz")):
        return PurePath(problem).stem
    name, _, text = problem.partition(":")
    words = [] if name == "gym" else [name]
    for part in filter(None, text.split(",")):
        key, equals, value = (word.strip() for word in part.partition("="))
        if key not in UNSAID:
            words.append(f"{SYMBOLS.get(key, key)}{equals}{value}")
    return " ".join(words)


def labels(problems: Iterable[str]) -> dict[str, str]:
    """Labels of problems: the kind alone where no two share it, else more of the name.

    >>> labels(["chain:n=5", "chain:n=9", "tutoring:horizon=4"])
    {'chain:n=5': 'chain n=5', 'chain:n=9': 'chain n=9', 'tutoring:horizon=4': 'tutoring'}
    >>> list(labels(["hard:n=2,gap=0.1", "hard:n=2,gap=0.2"]).values())
    ['hard n=2 gap=0.1', 'hard n=2 gap=0.2']
    """
    found = list(dict.fromkeys(problems))
    ways = [(name.partition(":")[0], short(name), _full(name), name) for name in found]
    return {
        name: next(x for x in own if sum(x in other for other in ways) == 1)
        for name, own in zip(found, ways, strict=True)
    }


def _full(problem: str) -> str:
    """The short label, and the parameters that it leaves out."""
    parts = problem.partition(":")[2].split(",")
    unsaid = [part for part in parts if part.partition("=")[0].strip() in UNSAID]
    return " ".join([short(problem), *unsaid])


def span(values: Iterable[float], digits: int = 3) -> str:
    """From the smallest to the largest number; "-" if there is none.

    >>> span([3, 20.04, 7]), span([1.001, 1.0]), span([float("nan")])
    ('3 to 20', '1', '-')
    """
    known = sorted(x for x in values if not isnan(x))
    ends = [number(x, digits) for x in known[:1] + known[-1:]]
    return " to ".join(dict.fromkeys(ends)) or "-"


def bars(intervals: Iterable[Interval]) -> str:
    """What the bars beside some medians show: few runs do not give a 95 % interval.

    >>> bars([Interval(2.0, 1.0, 3.0, 0.96)]), bars([Interval(2.0, 1.0, 3.0, 0.5)])
    ('95 % interval', 'range')
    """
    sure = [x.coverage >= LEVEL for x in intervals]
    if all(sure):
        return f"{100 * LEVEL:.0f} % interval"
    return "interval" if any(sure) else "range"
