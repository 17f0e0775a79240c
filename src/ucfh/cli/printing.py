"""Output of commands: JSON, labeled lines and tables."""

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
"""The smallest share of the gap of a state-action pair that is listed."""

UNSEEN = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C}
"""Characters that change the direction of writing."""


def printable(text: str) -> str:
    r"""Return a text with control characters escaped, safe to print on a terminal.

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
    """Print a JSON value on stdout."""
    print(json.dumps(result, indent=2))


def print_lines(lines: Mapping[str, str]) -> None:
    """Print labeled lines, the labels right-aligned in a column."""
    for key, text in lines.items():
        print(f"{key:>12}  {printable(text)}")


def print_table(columns: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[str]]) -> None:
    """Print a table as wide as the terminal; columns are arguments of rich's ``add_column``."""
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
    """Return the labeled lines of a certificate: bounds, confidence and largest uncertainties.

    Args:
        known: the certificate.
        states, actions: their labels.
        segmented: the noun for a segment, "step" or "segment"; "" if there is only one.
        times: the t of each step; 1, 2, ... by default.

    """
    from ucfh.certificate import ROUNDING

    if known.refuted:
        findings = [str(x) for x in known.findings]
        return {"refuted": join_lines(filter(None, [known.contradiction, *findings]))}

    def near(gap: float) -> str:
        return "optimal" if gap < ROUNDING else f"within {upper_bound_digits(gap)} of optimal"

    lines = {
        "known": f"This policy earns at least {lower_bound(known.lower)} per episode; no "
        f"policy earns more than {upper_bound(known.upper)}.",
        "": f"It is {near(known.gap)} ({percent(1 - known.delta)} confidence).",
        **_behavior_lines(known),
    }
    if known.gap_if_random is not None and known.gap >= ROUNDING:
        delayed = f"late ({known.waiting:,} wait) or " if known.waiting else ""
        lines["lost"] = (
            f"It would be {near(known.gap_if_random)} if outcomes had been {delayed}"
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
        lines["missing"] = join_lines(["the gap depends most on", *pairs])
    return lines


def _behavior_lines(known: Certificate) -> dict[str, str]:
    """Return the lines on the value of the behavior policy and the improvement over it."""
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


def join_lines(lines: Iterable[str]) -> str:
    """Join lines as the text of one label of `print_lines`."""
    return f"\n{'':>14}".join(lines)
