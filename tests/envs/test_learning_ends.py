"""Early ends of learning, by Ctrl-C and by errors: the result until then is kept."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucfh
from support.environments import Listed, Scripted, step
from support.errors import refusal
from ucfh.algorithms.unknown_states import UnknownStatesUCFH
from ucfh.envs.learning import BROKEN_OFF
from ucfh.envs.log_writer import LogWriter
from ucfh.envs.simulated import SteppedMDP
from ucfh.sparse_counts import END


class Undecided:
    """Neither true nor false, as a missing value is."""

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")


class Counting(Listed):
    """A world that knows what it has shown; before step number ``at`` it does something else."""

    def __init__(self, at: int, instead: Callable[[], Any]) -> None:
        super().__init__({
            0: {0: [(0.5, 1.0, 1), (0.5, 0.0, 0)], 1: [(1.0, 0.25, None)]},
            1: {0: [(1.0, 0.5, 0)], 1: [(0.5, 0.75, None), (0.5, 0.0, 1)]},
        })  # fmt: skip
        self.left, self.instead = at, instead
        self.shown: list[tuple[int, int, float, int | None]] = []
        self.resets = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        self.resets += 1
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        self.left -= 1
        if self.left == 0 and (given := self.instead()) is not None:
            return given
        s = self.s
        out = super().step(action)
        self.shown.append((s, int(action), out[1], None if out[2] else out[0]))
        return out


def stop() -> None:
    raise KeyboardInterrupt


def assert_counted(found: ucfh.LearningResult, toy: Counting) -> None:
    """All that was shown is counted, and nothing else; the bounds are of all of it."""
    data, number = found.agent.experience, found.world.number_of
    expected: dict[tuple[int, int, int], list[float]] = {}
    for s, a, r, after in toy.shown:
        entry = number(s), a, END if after is None else number(after)
        expected.setdefault(entry, []).append(r)
    counted = {}
    for i, key in enumerate(data.key.tolist()):
        _, s, a = data.pair_of(key >> 32)
        counted[s + 1, a, key & (2**32 - 1)] = int(data.c[i]), round(float(data.paid[i]), 9)
    assert counted == {key: (len(r), round(sum(r), 9)) for key, r in expected.items()}
    assert data.visits.sum() == found.steps == len(toy.shown)
    assert found.episodes == data.started.sum() == toy.resets
    assert found.certificate.episodes == found.episodes
    assert found.agent._planned == found.episodes


# Ctrl-C


@pytest.mark.parametrize("at", [1, 2, 3, 7, 50, 123])
def test_an_interruption_in_a_step_keeps_all(at: int, tmp_path: Path) -> None:
    toy, store = Counting(at, stop), tmp_path / "kept.npz"
    found = ucfh.learn(toy, 0.01, horizon=3, seed=at, store=store, log=tmp_path / "steps.csv")
    assert found.interrupted
    assert len(toy.shown) == at - 1
    assert_counted(found, toy)
    assert store.exists()
    assert not found.certificate.certified
    if at > 1:
        log = ucfh.read_log(tmp_path / "steps.csv", horizon=3, actions=2, accept_losses=True)
        assert log.counted == at - 1


def test_an_interrupted_run_continues(tmp_path: Path) -> None:
    store = tmp_path / "kept.npz"
    toy = Counting(40, stop)
    first = ucfh.learn(toy, 0.01, horizon=3, store=store)
    second = Counting(0, stop)
    found = ucfh.learn(second, 0.01, horizon=3, store=store, episodes=first.episodes + 30)
    second.shown, second.resets = toy.shown + second.shown, toy.resets + second.resets
    found.steps += first.steps
    assert_counted(found, second)


def test_unfinished_episodes_are_an_assumption(tmp_path: Path) -> None:
    """Not the last one, but those before learning was continued."""
    store, assumed = tmp_path / "kept.npz", []
    for end in (stop, crash, stop):
        try:
            found = ucfh.learn(Counting(20, end), 0.01, horizon=3, store=store, seed=1)
        except ucfh.LearningError as fault:
            found = fault.result
        assumed.append(found.certificate.assumed)
    more = found.episodes + 5
    assumed += [
        ucfh.learn(Counting(0, stop), 0.01, horizon=3, store=store, episodes=n).certificate.assumed
        for n in (more, more + 5)
    ]
    between = tmp_path / "between.npz"
    ucfh.learn(Counting(0, stop), 0.01, horizon=3, store=between, progress=lambda _: stop())
    again = ucfh.learn(Counting(0, stop), 0.01, horizon=3, store=between, episodes=9)
    assert again.certificate.assumed == assumed[0]  # after an episode, none is broken off
    kept = assumed[0]
    assert "early" not in " ".join(kept)
    assert assumed[1:] == [(*kept, BROKEN_OFF.format(n)) for n in (1, 2, 3, 3)]


@pytest.mark.parametrize("which", [1, 2, 20])
def test_an_interruption_in_progress_keeps_all(which: int) -> None:
    calls: list[int] = []

    def progress(found: ucfh.LearningResult) -> None:
        calls.append(found.episodes)
        if len(calls) == which:
            raise KeyboardInterrupt

    toy = Counting(0, stop)
    found = ucfh.learn(toy, 0.01, horizon=3, progress=progress)
    assert found.interrupted
    assert found.episodes == calls[-1]
    assert_counted(found, toy)


def late(kind: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send Ctrl-C when that method is called for the twentieth time."""
    method, left = getattr(kind, name), [20]

    def called(*given: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(signal.SIGINT)
        return method(*given)

    monkeypatch.setattr(kind, name, called)


def learned(*given: Any, **more: Any) -> ucfh.LearningResult:
    """Call `learn`; pytest itself would end at a KeyboardInterrupt."""
    try:
        return ucfh.learn(*given, **more)
    except KeyboardInterrupt:
        pytest.fail("interrupted")


@pytest.mark.parametrize(
    ("kind", "name"), [(UnknownStatesUCFH, "plan"), (UnknownStatesUCFH, "observe")]
)
def test_an_interruption_between_runs_keeps_all(
    kind: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late(kind, name, monkeypatch)
    toy = Counting(0, stop)
    found = learned(toy, 0.01, horizon=3, episodes=200)
    assert found.interrupted
    assert_counted(found, toy)


def test_an_interruption_of_an_mdp_keeps_all(monkeypatch: pytest.MonkeyPatch) -> None:
    late(SteppedMDP, "_discover", monkeypatch)
    found = learned(ucfh.make("chain:n=3,horizon=3"), 0.01, episodes=200)
    assert found.interrupted
    assert found.episodes >= 19
    assert found.agent.experience.visits.sum() == 3 * found.episodes


# errors


def crash() -> None:
    raise ZeroDivisionError("of\nthe environment")


ERRORS: list[tuple[Callable[[], Any], str]] = [
    (crash, "Counting raised ZeroDivisionError at step .*: of the environment"),
    (lambda: (0, 7.0, False, False, {}), "reward 7 at step .*, outside of [0, 1]"),
    (lambda: (0, float("nan"), False, False, {}), "reward nan at step .*, outside of [0, 1]"),
    (lambda: (0, "x", False, False, {}), "reward 'x' at step .*"),
    (lambda: ("a", 0.0, False, False, {}), "'a' at step "),
    (lambda: 5, "Counting raised TypeError at step .*: cannot unpack non-iterable int object"),
    (
        lambda: (0, 0.0, np.array([True, False]), False, {}),
        "Counting did not say whether it terminated",
    ),
    (lambda: (0, 0.0, Undecided(), False, {}), "Counting did not say whether it terminated"),
]


@pytest.mark.parametrize(("instead", "message"), ERRORS)
@pytest.mark.parametrize("at", [1, 30])
def test_an_error_keeps_the_counts(
    instead: Callable[[], Any], message: str, at: int, tmp_path: Path
) -> None:
    toy = Counting(at, instead)
    with pytest.raises(ucfh.LearningError) as caught:
        ucfh.learn(toy, 0.01, horizon=3, seed=0, store=tmp_path / "kept.npz")
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    for part in message.split(".*"):
        assert part in text
    found = caught.value.result
    assert_counted(found, toy)
    assert not found.interrupted
    assert found.history[-1][0] == found.episodes
    kept = at > 1 and found.contradiction is None
    assert (tmp_path / "kept.npz").exists() == kept


def test_truncation_is_an_error_after_its_step() -> None:
    toy = Scripted([step(0), step(1, 0.5), step(2, 0.25, cut=True), step(3)])
    with pytest.raises(ucfh.LearningError, match="truncated an episode after 2 of 3 steps") as one:
        ucfh.learn(toy, 0.1, horizon=3)
    assert one.value.result.steps == 2
    assert one.value.result.states == [0, 1, 2]


def test_an_error_at_the_reset() -> None:
    toy = Scripted([step(0), step(1, end=True)], [RuntimeError("no more")])
    with pytest.raises(
        ucfh.LearningError, match="raised RuntimeError at the reset: no more"
    ) as one:
        ucfh.learn(toy, 0.1, horizon=3)
    assert (one.value.result.episodes, one.value.result.steps) == (1, 1)


def test_an_error_shows_where_the_environment_raised() -> None:
    with pytest.raises(ucfh.LearningError) as caught:
        ucfh.learn(Counting(5, crash), 0.01, horizon=3)
    cause = caught.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    assert cause.__traceback__ is not None
    names = [frame.name for frame in traceback.extract_tb(cause.__traceback__)]
    assert names[-1] == "crash"


def test_the_log_of_an_error_at_the_first_step_has_the_same_start(tmp_path: Path) -> None:
    """An episode without steps has a row without an outcome, which is a loss."""
    path = tmp_path / "steps.csv"
    toy = Scripted([step(0), step(1, end=True)], [step(5), RuntimeError("no")])
    with pytest.raises(ucfh.LearningError) as caught:
        ucfh.learn(toy, 0.1, horizon=2, log=path)
    assert caught.value.result.agent.experience.started.tolist() == [0, 1, 1]
    log = ucfh.read_log(path, horizon=2, accept_losses=True)
    assert log.shown is not None
    assert log.shown.experience.started.tolist() == [0, 1, 1, 0]  # of 0, 5 and the end
    assert (log.counted, [fault.kind for fault in log.faults]) == (1, ["reward"])
    assert "1 of 2 rows are lost" in refusal(ucfh.read_log, path, horizon=2)


def test_a_log_that_cannot_be_written_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, left = LogWriter._write, [20]

    def full(self: LogWriter, lines: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise ucfh.InputError("cannot write steps.csv: No space left on device")
        write(self, lines)

    monkeypatch.setattr(LogWriter, "_write", full)
    store = tmp_path / "kept.npz"
    toy = Counting(0, stop)
    with pytest.raises(ucfh.LearningError, match="No space left on device") as caught:
        ucfh.learn(toy, 0.01, horizon=3, episodes=60, log=tmp_path / "a.csv", store=store)
    assert_counted(caught.value.result, toy)
    assert caught.value.result.episodes == 19
    found = ucfh.learn(Counting(0, stop), 0.01, horizon=3, episodes=19, store=store)
    assert (found.episodes, found.steps) == (19, 0)


def test_the_log_of_an_interruption_continues(tmp_path: Path) -> None:
    """An unfinished episode is a missing outcome that the log's reader names."""
    kinds = set()
    for at in range(20, 40):  # in the middle of an episode, and at its first step
        store, path = tmp_path / f"{at}.npz", tmp_path / f"{at}.csv"
        first = ucfh.learn(Counting(at, stop), 0.01, horizon=3, store=store, log=path)
        assert first.interrupted
        found = ucfh.learn(Counting(0, stop), 0.01, horizon=3, store=store, log=path, episodes=40)
        assert BROKEN_OFF.format(1) in found.certificate.assumed
        log = ucfh.read_log(path, horizon=3, actions=2, accept_losses=True)
        assert log.counted == first.steps + found.steps
        assert log.shown is not None
        assert log.shown.experience.episodes == log.episodes == found.episodes
        (fault,) = log.faults
        kinds.add(fault.kind)
        assert fault.count == 1
        assert log.assumptions[-1].text.startswith(f"the faults of the log ({fault.kind}; 1 of ")
        assert "Fix: " in refusal(ucfh.read_log, path, horizon=3)
    assert kinds == {"short", "reward"}


@pytest.mark.parametrize(
    ("given", "name"), [({"max_return": 0.5}, "max_return"), ({"rewards": (0, 0.5)}, "rewards")]
)
def test_a_refuted_declaration_leaves_no_bounds(
    given: dict[str, Any], name: str, tmp_path: Path
) -> None:
    """No bound that rests on it is valid or saved."""
    toy, store = Scripted([step(0), step(1, 0.25), step(2, 0.75, end=True)]), tmp_path / "kept.npz"
    with pytest.raises(ucfh.LearningError, match=name) as caught:
        ucfh.learn(toy, 0.4, horizon=3, store=store, **given)
    found = caught.value.result
    known = found.certificate
    assert found.refuted
    assert known.refuted
    assert not known.certified
    assert known.contradiction == str(caught.value)
    assert [known.as_dict()[x] for x in ("upper", "lower", "gap")] == [None] * 3
    assert not store.exists()


def test_an_error_before_the_first_outcome_writes_nothing(tmp_path: Path) -> None:
    toy, path, store = (
        Scripted([step(5), RuntimeError("no")]),
        tmp_path / "a.csv",
        tmp_path / "a.npz",
    )
    with pytest.raises(ucfh.LearningError):
        ucfh.learn(toy, 0.1, horizon=2, log=path, store=store)
    assert list(tmp_path.iterdir()) == []
