"""One log in every form: all are read to the counts of a slow reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from logs._log_forms import CONTAINERS, as_lines, as_rows, columns_of, episodes, write_as
from oracles.open_world import assert_same
from oracles.slow_log import Form, Happened, SlowLog
from support.log_files import FUZZ
from support.settings import many
from ucfh import Log, read_log
from ucfh.auditing.e_process import Audit
from ucfh.logs import batches, bins, counting, csv_rows

SOME = settings(FUZZ, max_examples=many(25, 60))
SPLIT = 3
"""How many numbers of an outer bin are met before it is split, here."""


class Recorder(Audit):
    """An audit that remembers what it was fed with, and does nothing else."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.seen: list[tuple[Any, ...]] = []

    def add(self, steps: Any, earlier: Any = None) -> None:  # noqa: ARG002
        columns = ("new", "t", "state", "action", "following", "reward", "lost", "detail")
        lists = (getattr(steps, name).tolist() for name in columns)
        self.seen += zip(*lists, strict=True)


def check(log: Log, slow: SlowLog) -> None:
    """A log shows what the slow reader says."""
    assert log.shown is not None
    states = [str(log.states.label(s)) for s in range(log.states.count)]
    actions = [str(log.actions.label(a)) for a in range(log.actions.count)]
    assert set(states) == slow.names
    assert (log.horizon, log.counted) == (slow.horizon, slow.counted)
    ends = {states[s] for s in log.shown.terminal}
    assert ends == slow.terminal | ({"(end)", "(left)"} & slow.names)
    assert_same(log.shown.experience, slow.experience(states, actions))
    assert log.returns is not None
    np.testing.assert_allclose(log.returns, slow.returns, atol=1e-12)
    assert log.complete.tolist() == slow.complete
    assert isinstance(log.audit, Recorder)
    expected = []
    for (t, s, a, reward, then), lost, detail in zip(
        slow.outcomes, slow.lost, slow.details, strict=True
    ):
        after = states.index(then) if isinstance(then, str) else -1
        paid = None if reward is None else reward
        codes = states.index(s), actions.index(a), after
        expected.append((t == 0, t, *codes, paid, lost, detail))
    seen = [(*x[:5], None if np.isnan(x[5]) else x[5], *x[6:]) for x in log.audit.seen]
    assert seen == expected


def read(data: Any, **options: Any) -> Log:
    """Read a log in small pieces, and record what the audit is fed with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "Audit", Recorder)
        patch.setattr(bins, "MOST_SPLIT", SPLIT)
        patch.setattr(csv_rows, "CHUNK", 64)
        patch.setattr(batches, "BATCH", 3)
        return read_log(data, **options, accept_losses=True)


CUTS = st.sampled_from([{}, {"level": [0.5]}, {"level": [-1.0, 0.5, 2.5]}])
NAMES = st.sampled_from([("level",), ("level", "mood"), ("mood", "level")])


@pytest.mark.slow
@SOME
@given(data=st.data())
def test_a_row_for_each_step(data: st.DataObject, tmp_path: Path) -> None:
    longest = data.draw(st.integers(1, 3))
    form = Form(
        data.draw(NAMES),
        horizon=data.draw(st.sampled_from([None, longest, longest + 1])),
        shows_next=data.draw(st.booleans()),
        dropouts=data.draw(st.sampled_from([None, "outcome", "lost", "random"])),
        cuts=data.draw(CUTS),
    )
    log = data.draw(episodes(form, longest))
    times = data.draw(st.sampled_from(["0", "1", "dates", "clock", "none"]))
    rows, slow = as_rows(log, form, times), SlowLog(log, form, SPLIT)
    for container in CONTAINERS:
        note(container)
        source, options = write_as(container, rows, tmp_path)
        found = read(
            source,
            columns=columns_of(form, times),
            horizon=form.horizon,
            dropouts=form.dropouts,
            bins={name: list(edges) for name, edges in form.cuts.items()},
            **options,
        )
        check(found, slow)
        assert found.times.start == (times == "1")
        assert {fault.kind for fault in found.faults} <= {"short", "cut"}


@pytest.mark.slow
@SOME
@given(data=st.data())
def test_a_row_for_each_episode(data: st.DataObject, tmp_path: Path) -> None:
    H, first = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([0, 1, 7]))
    form = Form(
        data.draw(NAMES),
        horizon=H,
        shows_next=data.draw(st.booleans()),
        whole=True,
        dropouts=data.draw(st.sampled_from([None, "outcome", "lost", "random"])),
        cuts=data.draw(CUTS),
    )
    # with the state after the last step, a reward may be blank only if that is declared
    blanks = form.dropouts in ("outcome", "lost") or not form.shows_next
    log = data.draw(episodes(form, H, blanks))
    lines, slow = as_lines(log, form, first, H), SlowLog(log, form, SPLIT)
    for container in CONTAINERS:
        note(container)
        source, options = write_as(container, lines, tmp_path)
        found = read(
            source,
            columns=columns_of(form, "0"),
            dropouts=form.dropouts,
            bins={f"{name}_{{t}}": list(edges) for name, edges in form.cuts.items()},
            **options,
        )
        check(found, slow)
        assert found.times.start == first
        assert {fault.kind for fault in found.faults} <= {"short"}


@pytest.mark.slow
@SOME
@given(data=st.data())
def test_bins_chosen_by_the_first_episodes(data: st.DataObject, tmp_path: Path) -> None:
    """The first two choose the edges, and do not count; the same edges, declared, count alike."""
    form = Form(("level",), shows_next=data.draw(st.booleans()), cuts={"level": [0.0]}, apart=2)
    log = data.draw(episodes(form, 3))
    numbers = sorted({parts[0] for episode in log[:2] for parts, *_ in episode.steps})
    if len(log) < 3 or len(numbers) < 2:
        return
    shown = [parts[0] for episode in log[:2] for parts, *_ in episode.steps]
    edge = np.quantile(shown, 0.5, method="higher")
    form.cuts = {"level": [float(edge if edge > numbers[0] else numbers[1])]}
    source, _ = write_as("comma", as_rows(log, form, "0"), tmp_path)
    cut = {"level": {"quantiles": 2, "episodes": 2}}
    found = read(source, columns=columns_of(form, "0"), bins=cut)
    slow = SlowLog(log, form, SPLIT)
    later = [step for episode in log[2:] for step in episode.steps]
    slow.details = [halves(log, form, step) for step in later][: len(slow.details)]
    check(found, slow)
    assert "the first 2 episodes serve to choose bins, and are not counted" in found.notes


def halves(log: list[Happened], form: Form, step: Any) -> int:
    """Whether a number lies above the median of those in its bin, in the first two episodes."""
    edge, x = form.cuts["level"][0], step[0][0]
    mine = [
        parts[0]
        for episode in log[:2]
        for parts, *_ in episode.steps
        if (parts[0] >= edge) == (x >= edge)
    ]
    return int(x >= np.median(mine))
