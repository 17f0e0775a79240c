"""The assumptions behind bounds from a log, and notes on the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ucfh._utils.formatting import segment_noun
from ucfh.logs.column_layout import ColumnLayout
from ucfh.logs.column_mapping import STEP, in_options
from ucfh.logs.counting import LogContents
from ucfh.logs.early_termination import END, LEFT
from ucfh.logs.episode_checks import Episodes
from ucfh.logs.finalize import REPEATED, missing_words
from ucfh.logs.issues import IssueKind
from ucfh.logs.settings import Settings
from ucfh.logs.times import MANY as MANY_STEPS

UNCONFOUNDED = (
    "actions were chosen without knowledge of anything that affects the outcome and is not part of "
    "the state (no hidden confounding)"
)
"""The assumption on a behavior policy that is not an algorithm."""
REPLACED = (
    "where another action than the recommended one was taken, neither that choice nor whether and "
    "when it was reported depended on its outcome or on those of later decisions"
)
"""The assumption on outcomes reported with another action than the recommended one."""
MANY = 100
"""The number of states from which a note says that few of them repeat."""
MOST_NAMED = 5
"""The largest number of terminal states, or of similar names, in a sentence."""


class AssumptionCode(StrEnum):
    """The kinds of assumptions on a log."""

    SELECTION = "selection"
    UNCONFOUNDED = "unconfounded"
    PROBLEM = "problem"
    MARKOV = "markov"
    STATES = "states"
    ACTIONS = "actions"
    HORIZON = "horizon"
    REWARDS = "rewards"
    BLANK_REWARD = "blank_reward"
    MAX_RETURN = "max_return"
    TERMINAL = "terminal"
    ROW_ORDER = "row_order"
    STEP_UNIT = "step_unit"
    FIRST_STEP = "first_step"
    REWARD_AT_END = "reward_at_end"
    DROPOUTS_OUTCOME = "dropouts_outcome"
    DROPOUTS_LOST = "dropouts_lost"
    DROPOUTS_RANDOM = "dropouts_random"
    BINS = "bins"
    ISSUES = "issues"


@dataclass(frozen=True)
class Assumption:
    """An assumption behind bounds from a log: its kind, and the sentence for people."""

    code: AssumptionCode
    text: str

    def __str__(self) -> str:
        return self.text


def assumptions_of(
    settings: Settings,
    layout: ColumnLayout,
    reader: Episodes,
    shown: LogContents | None,
    horizon: int,
    dropouts: int,
) -> Iterator[Assumption]:
    """Return the assumptions behind bounds from the counts of a log.

    Args:
        settings: the declarations of the log.
        layout: the columns of the log.
        reader: the checks, after all rows were read.
        shown: the contents of a log without a problem, or None.
        horizon: H.
        dropouts: the number of episodes that end early.

    """
    counter = reader.counter
    yield Assumption(
        AssumptionCode.SELECTION,
        "no episode is in the log, or missing from it, because of what happened in it, and no "
        "action was chosen with knowledge of what stands later in the log",
    )
    yield Assumption(AssumptionCode.UNCONFOUNDED, UNCONFOUNDED)
    if shown is None:
        yield Assumption(AssumptionCode.PROBLEM, "the given problem is right")
    else:
        noun = segment_noun(shown.experience.P, horizon)
        alone = f"the {noun}, the state and" if noun else "the state and"
        yield Assumption(
            AssumptionCode.MARKOV,
            f"the next state and the reward depend on {alone} the action alone",
        )
        if not counter.states.is_open:
            yield Assumption(
                AssumptionCode.STATES,
                f"there are no states besides the {len(counter.states.index)} that were declared",
            )
        if counter.actions.is_open:
            yield Assumption(
                AssumptionCode.ACTIONS,
                f"there are no actions besides the {shown.actions.count} that the log shows",
            )
        if settings.horizon is None:
            source = (
                "header of the log shows" if layout.mapping.steps else "longest in the log does"
            )
            yield Assumption(
                AssumptionCode.HORIZON, f"an episode lasts {horizon} steps, as the {source}"
            )
        yield Assumption(AssumptionCode.REWARDS, f"rewards lie in {settings.rewards}")
        if settings.blank_reward is not None:
            yield Assumption(
                AssumptionCode.BLANK_REWARD,
                f"a reward that is left blank is {settings.blank_reward:g}",
            )
        if settings.max_return is not None:
            yield Assumption(
                AssumptionCode.MAX_RETURN,
                f"no episode pays more than {settings.max_return:g} in all",
            )
        named = [str(shown.states.label(s)) for s in shown.terminal]
        named = [name for name in named if name not in (END, LEFT)]
        if named:
            some = ", ".join(map(repr, named[:MOST_NAMED]))
            more = ", ..." if len(named) > MOST_NAMED else ""
            yield Assumption(
                AssumptionCode.TERMINAL,
                f"the task is over, and nothing more is paid, in these states: {some}{more}",
            )
    yield from _on_steps(layout, reader)
    if dropouts:
        yield _on_dropouts(settings, f"{dropouts} of {reader.missing.episodes} episodes")
    if layout.held_out:
        yield Assumption(
            AssumptionCode.BINS,
            f"bins were chosen without a look at any episode but the first {layout.held_out}",
        )
    harmful = [issue for issue in reader.issues.values() if not issue.harmless]
    if harmful:
        kinds = ", ".join(issue.kind for issue in harmful)
        yield Assumption(
            AssumptionCode.ISSUES,
            f"the faults of the log ({kinds}; {missing_words(reader)}) have nothing to do with "
            "what happened in it",
        )


def _on_steps(layout: ColumnLayout, reader: Episodes) -> Iterator[Assumption]:
    """Return the assumptions on the numbering of steps."""
    kind = reader.clock.kind
    if kind == "order":
        yield Assumption(
            AssumptionCode.ROW_ORDER,
            "the rows of an episode are all of its steps, in their order (there is no column t)",
        )
    elif kind == "dates":
        yield Assumption(
            AssumptionCode.ROW_ORDER,
            "the rows of an episode are all of its steps, in the order of their dates",
        )
    elif reader.clock.unit > 1:
        unit = reader.clock.unit
        yield Assumption(
            AssumptionCode.STEP_UNIT,
            f"t grows by {unit} from one step to the next: t = {unit} is step 1",
        )
    elif reader.clock.first and not layout.mapping.steps:
        yield Assumption(AssumptionCode.FIRST_STEP, "t counts from 1, as no early row has t = 0")
    if layout.mapping.steps and any(STEP not in name for name in layout.mapping.columns["reward"]):
        yield Assumption(
            AssumptionCode.REWARD_AT_END,
            "the reward of a line is paid with the last step of its episode",
        )


def _on_dropouts(settings: Settings, which: str) -> Assumption:
    """Return the assumption on the episodes that end early."""
    if settings.dropouts == "outcome":
        return Assumption(
            AssumptionCode.DROPOUTS_OUTCOME,
            f"an episode that ends early ({which}) has no further reward; leaving is an outcome of "
            f"its last step, the state {LEFT!r}, and drawn like any other",
        )
    if settings.dropouts == "lost":
        return Assumption(
            AssumptionCode.DROPOUTS_LOST,
            f"where an episode stops short ({which}), what followed may be anything; that it stops "
            "does not depend on what later episodes show",
        )
    return Assumption(
        AssumptionCode.DROPOUTS_RANDOM,
        f"that an episode stops short ({which}) has nothing to do with what would have followed",
    )


def notes_of(
    layout: ColumnLayout, reader: Episodes, horizon: int, shown: LogContents | None
) -> Iterator[str]:
    """Return notes on a log that are neither issues nor assumptions."""
    seen = reader.missing.seen["state"]
    once, states = int((seen == 1).sum()), int((seen > 0).sum())
    if states > MANY and 2 * once > states:
        yield (
            f"{once:,} of {states:,} states come up in one row only, so hardly anything repeats: "
            "make the state of fewer or coarser parts, or cut numbers into bins, --bins"
        )
    if reader.units.high <= 0 and reader.counter.ends.dropouts == "outcome":
        yield (
            "all rewards are costs, and who stops short is taken to pay nothing more: to leave is "
            "then the best that can happen; if it is not, pass --dropouts lost"
        )
    if IssueKind.LONG in reader.issues:
        cut, all_of_them = reader.issues[IssueKind.LONG].count, reader.missing.episodes
        yield (
            f"{cut:,} of {all_of_them:,} episodes ({cut / all_of_them:.0%}) continue after "
            f"{horizon} steps, the declared horizon: later rewards do not count"
        )
    if reader.repeats and horizon > 1:
        yield (
            "every row of an episode has the same reward, and they are added up; if it is the "
            f"outcome of the whole episode, {REPEATED}"
        )
    if unmet := [name for name in reader.terminal if reader.counter.states.code_of(name) < 0]:
        some = ", ".join(map(repr, unmet[:MOST_NAMED])) + ", ..." * (len(unmet) > MOST_NAMED)
        yield f"terminal: the log never shows {some}; check the spelling"
    for column in layout.mapping.ignored:
        instead = " + ".join(layout.mapping.columns[column]) or "the next row"
        yield f"the column {column!r} is not read: {column} is taken from {instead}"
    if name := layout.mapping.like_t:
        how = in_options({"t": (name,)})
        yield (
            f"the column {name!r} is not read; if it numbers the steps 0, 1, 2, ..., or with "
            f"another constant step in at least {MANY_STEPS} rows, pass {how}"
        )
    for kind, names in (("states", reader.counter.states), ("actions", reader.counter.actions)):
        alike = [f"{a!r} and {b!r}" for a, b in names.alike()]
        if alike:
            more = ", ..." if len(alike) > MOST_NAMED else ""
            yield (
                f"{kind} that differ only in case or blanks are taken for different ones: "
                f"{', '.join(alike[:MOST_NAMED])}{more}; if they are the same, pass --ignore-case "
                "(ignore_case=True)"
            )
    if layout.held_out:
        yield f"the first {layout.held_out} episodes serve to choose bins, and are not counted"
    if not layout.derived and reader.counter.ends.differ_at_last and horizon > 1:
        yield (
            "nobody can be seen to leave after the last step, so that is counted apart, as a "
            "segment of its own"
        )
    if layout.derived and shown is not None and horizon > 1:
        yield (
            "the log has no next_state, so it is that of the next row; as nothing follows the last "
            "step, that is counted apart, as a segment of its own"
        )
