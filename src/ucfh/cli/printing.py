"""How commands print: JSON for programs, lines and tables for people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unicodedata import category

from ucfh._utils.formatting import lower_bound, percent, upper_bound, upper_bound_digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ucfh._utils.files import Labels
    from ucfh.certificate import Certificate

NOT_CERTIFIED = 3
"""The exit code of data that contradict the assumptions or, from a log, do not reach epsilon."""

LEAST_SHARE = 0.005
"""Pairs that hold a smaller share of the gap are not named."""


UNSEEN = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C}
"""Marks that turn the direction of writing."""


def printable(text: str) -> str:
    r"""A text as a terminal may show it: with escapes in place of what would control it.

    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    if text.isprintable():
        return text
    return "".join(
        x.encode("unicode_escape").decode()
        if ord(x) in UNSEEN or (category(x) in ("Cc", "Cs", "Zl", "Zp") and x not in "\n\t")
        else x
        for x in text
    )


def print_json(result: Any) -> None:
    """One JSON value on stdout."""
    print(json.dumps(result, indent=2))


def print_lines(lines: Mapping[str, str]) -> None:
    """Facts, one a line, their names in a column on the left."""
    for key, text in lines.items():
        print(f"{key:>12}  {printable(text)}")


def print_table(columns: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[str]]) -> None:
    """A table as wide as the terminal; a column is what rich's ``add_column`` takes."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    for column in columns:
        table.add_column(**column)
    for row in rows:
        table.add_row(*map(printable, row))
    Console(highlight=False, markup=False).print(table)


def certificate_lines(
    known: Certificate, states: Labels, actions: Labels, segmented: str, times: range | None = None
) -> dict[str, str]:
    """A certificate for a person: what is known, how surely, and what is missing.

    ``segmented``: what the segments of rows are called, "step" or "segment"; "" if there is only
    one. ``times``: the t of each step; 1, 2, ... by default.
    """
    from ucfh.certificate import ROUNDING

    if known.refuted:
        found = [str(x) for x in known.findings]
        return {"refuted": _under(filter(None, [known.contradiction, *found]))}

    def near(gap: float) -> str:
        return "optimal" if gap < ROUNDING else f"within {upper_bound_digits(gap)} of optimal"

    lines = {
        "known": f"This policy earns at least {lower_bound(known.lower)} per episode; no "
        f"policy earns more than {upper_bound(known.upper)}.",
        "": f"It is {near(known.gap)} ({percent(1 - known.delta)} confidence).",
        **_behavior_lines(known),
    }
    if known.gap_if_random is not None and known.gap >= ROUNDING:
        late = f"late ({known.waiting:,} wait) or " if known.waiting else ""
        lines["lost"] = (
            f"It would be {near(known.gap_if_random)} if outcomes had been {late}"
            "lost at random, which is not assumed."
        )
    worst = known.missing[0].share if known.missing else 0.0
    if not known.certified and worst >= LEAST_SHARE:
        own = times if segmented == "step" else None
        pairs = [
            f"{actions.label(x.action)} in state {states.label(x.state)!r}"
            + (
                f" at {segmented} {x.segment + 1 if own is None else own[x.segment]}"
                if segmented
                else ""
            )
            + f" ({x.visits} visits, {x.share:.0%} of it)"
            if x.state >= 0
            else f"where episodes start ({x.visits} seen, {x.share:.0%} of it)"
            for x in known.missing[:5]
            if x.share >= LEAST_SHARE
        ]
        lines["missing"] = _under(["the gap depends most on", *pairs])
    return lines


def _behavior_lines(known: Certificate) -> dict[str, str]:
    """What was earned while a log was collected, and whether the policy is better."""
    was, gain = known.behavior, known.improvement
    if was is None or gain is None:
        return {}
    low, high = lower_bound(was.lower), upper_bound(was.upper)
    better = "No improvement on that can be promised."
    if gain > 0 and known.delta < 0.5:
        better = (
            f"This policy earns at least {lower_bound(gain)} more per episode than that "
            f"({percent(1 - 2 * known.delta)} confidence)."
        )
    return {
        "logged": f"What was done in the log is worth {low} to {high} per episode.",
        " ": better,
    }


def _under(lines: Iterable[str]) -> str:
    """Lines under each other, as `print_lines` shows them."""
    return f"\n{'':>14}".join(lines)
