"""What bounds from a log rest on, and what else is worth knowing of it, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator

from ucfh.logs.column_layout import ColumnLayout
from ucfh.logs.column_mapping import STEP, in_options
from ucfh.logs.counting import LogContents
from ucfh.logs.early_termination import END, LEFT
from ucfh.logs.episodes import Episodes
from ucfh.logs.finalize import REPEATED, lost_in_words
from ucfh.logs.issues import IssueKind
from ucfh.logs.settings import Settings
from ucfh.logs.times import MANY as MANY_STEPS

UNCONFOUNDED = (
    "actions were chosen without knowledge of anything that affects the outcome and is not part of "
    "the state (no hidden confounding)"
)
"""What is assumed of whoever chose the actions, where that was not an algorithm."""
REPLACED = (
    "where another action than the recommended one was taken, neither that choice nor whether and "
    "when it was reported depended on its outcome or on those of later decisions"
)
"""What is assumed of outcomes that were reported with another action than the one given."""
MANY = 100
"""Of fewer states nothing is said if they do not repeat."""
MOST_NAMED = 5
"""How many terminal states, or names that look alike, are named."""


def assumptions_of(
    settings: Settings,
    layout: ColumnLayout,
    reader: Episodes,
    shown: LogContents | None,
    horizon: int,
    dropped: int,
) -> Iterator[str]:
    """What bounds from the counts rest on; ``dropped``: how many episodes are drop-outs."""
    tally = reader.tally
    yield (
        "no episode is in the log, or missing from it, because of what happened in it, and no "
        "action was chosen with knowledge of what stands later in the log"
    )
    yield UNCONFOUNDED
    if shown is None:
        yield "the given problem is right"
    else:
        segments = {horizon: "the step, the state and", 1: "the state and"}
        alone = segments.get(shown.experience.P, "the segment, the state and")
        yield f"the next state and the reward depend on {alone} the action alone"
        if not tally.states.is_open:
            yield f"there are no states besides the {len(tally.states.index)} that were declared"
        if tally.actions.is_open:
            yield f"there are no actions besides the {shown.actions.count} that the log shows"
        if settings.horizon is None:
            what = "header of the log shows" if layout.roles.steps else "longest in the log does"
            yield f"an episode lasts {horizon} steps, as the {what}"
        yield f"rewards lie in {settings.rewards}"
        if settings.blank_reward is not None:
            yield f"a reward that is left blank is {settings.blank_reward:g}"
        if settings.max_return is not None:
            yield f"no episode pays more than {settings.max_return:g} in all"
        named = [str(shown.states.label(s)) for s in shown.terminal]
        named = [name for name in named if name not in (END, LEFT)]
        if named:
            some = ", ".join(map(repr, named[:MOST_NAMED]))
            more = ", ..." if len(named) > MOST_NAMED else ""
            yield f"the task is over, and nothing more is paid, in these states: {some}{more}"
    yield from _of_steps(layout, reader)
    yield from _of_dropouts(settings, reader, dropped)
    if layout.apart:
        yield f"bins were chosen without a look at any episode but the first {layout.apart}"
    harmful = [fault for fault in reader.faults.values() if not fault.harmless]
    if harmful:
        kinds = ", ".join(fault.kind for fault in harmful)
        yield (
            f"the faults of the log ({kinds}; {lost_in_words(reader)}) have nothing to do with "
            "what happened in it"
        )


def _of_steps(layout: ColumnLayout, reader: Episodes) -> Iterator[str]:
    """What is taken for the steps."""
    kind = reader.clock.kind
    if kind == "order":
        yield "the rows of an episode are all of its steps, in their order (there is no column t)"
    elif kind == "dates":
        yield "the rows of an episode are all of its steps, in the order of their dates"
    elif reader.clock.unit > 1:
        unit = reader.clock.unit
        yield f"t grows by {unit} from one step to the next: t = {unit} is step 1"
    elif reader.clock.first and not layout.roles.steps:
        yield "t counts from 1, as no early row has t = 0"
    if layout.roles.steps and any(STEP not in name for name in layout.roles.columns["reward"]):
        yield "the reward of a line is paid with the last step of its episode"


def _of_dropouts(settings: Settings, reader: Episodes, dropped: int) -> Iterator[str]:
    """What is assumed of episodes that stop short."""
    if not dropped:
        return
    which = f"{dropped} of {reader.losses.episodes} episodes"
    if settings.dropouts == "outcome":
        yield (
            f"who stops short ({which}) has left for good and is paid nothing more; leaving is an "
            f"outcome of the last step, the state {LEFT!r}, and drawn like any other"
        )
    elif settings.dropouts == "lost":
        yield (
            f"where an episode stops short ({which}), what followed may be anything; that it stops "
            "does not depend on what later episodes show"
        )
    else:
        yield (
            f"that an episode stops short ({which}) has nothing to do with what would have followed"
        )


def notes_of(
    layout: ColumnLayout, reader: Episodes, horizon: int, shown: LogContents | None
) -> Iterator[str]:
    """What is worth knowing, but no fault."""
    seen = reader.losses.seen["state"]
    once, states = int((seen == 1).sum()), int((seen > 0).sum())
    if states > MANY and 2 * once > states:
        yield (
            f"{once:,} of {states:,} states come up in one row only, so hardly anything repeats: "
            "make the state of fewer or coarser parts, or cut numbers into bins, --bins"
        )
    if reader.units.high <= 0 and reader.tally.ends.dropouts == "outcome":
        yield (
            "all rewards are costs, and who stops short is taken to pay nothing more: to leave is "
            "then the best that can happen; if it is not, pass --dropouts lost"
        )
    if IssueKind.LONG in reader.faults:
        cut, all_of_them = reader.faults[IssueKind.LONG].count, reader.losses.episodes
        yield (
            f"{cut:,} of {all_of_them:,} episodes ({cut / all_of_them:.0%}) continue after "
            f"{horizon} steps, the declared horizon: later rewards do not count"
        )
    if reader.repeats and horizon > 1:
        yield (
            "every row of an episode has the same reward, and they are added up; if it is the "
            f"outcome of the whole episode, {REPEATED}"
        )
    if unmet := [name for name in reader.terminal if reader.tally.states.met(name) < 0]:
        some = ", ".join(map(repr, unmet[:MOST_NAMED])) + ", ..." * (len(unmet) > MOST_NAMED)
        yield f"terminal: the log never shows {some}; check the spelling"
    for column in layout.roles.ignored:
        instead = " + ".join(layout.roles.columns[column]) or "the next row"
        yield f"the column {column!r} is not read: {column} is taken from {instead}"
    if name := layout.roles.like_t:
        how = in_options({"t": (name,)})
        yield (
            f"the column {name!r} is not read; if it numbers the steps 0, 1, 2, ..., or with "
            f"another constant step in at least {MANY_STEPS} rows, pass {how}"
        )
    for kind, names in (("states", reader.tally.states), ("actions", reader.tally.actions)):
        alike = [f"{a!r} and {b!r}" for a, b in names.alike()]
        if alike:
            more = ", ..." if len(alike) > MOST_NAMED else ""
            yield (
                f"{kind} that differ only in case or blanks are taken for different ones: "
                f"{', '.join(alike[:MOST_NAMED])}{more}; if they are the same, pass --ignore-case "
                "(ignore_case=True)"
            )
    if layout.apart:
        yield f"the first {layout.apart} episodes serve to choose bins, and are not counted"
    if not layout.derived and reader.tally.ends.differ_at_last and horizon > 1:
        yield (
            "nobody can be seen to leave after the last step, so that is counted apart, as a "
            "segment of its own"
        )
    if layout.derived and shown is not None and horizon > 1:
        yield (
            "the log has no next_state, so it is that of the next row; as nothing follows the last "
            "step, that is counted apart, as a segment of its own"
        )
