"""Logs without declared states: what they prove of a world that may hold more than they show."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import ucfh
from oracles.open_world import SlowExperience
from support.environments import named_counts
from support.errors import refusal
from support.log_files import HEAD, assumed, read
from support.settings import many
from ucfh._utils.memory import check_memory
from ucfh.sparse_counts import END

Row = tuple[int, int, str, str, float, str, int]


def write(path: Path, rows: Iterable[tuple[Any, ...]]) -> Path:
    path.write_text(HEAD + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def doors(rng: np.random.Generator, episodes: int, horizon: int) -> list[Row]:
    """Behind a door is nothing, for good, or in one of 20 cases a jackpot at every step."""
    rows: list[Row] = []
    for e, hit in enumerate((rng.random(episodes) < 0.05).tolist()):
        room = "jackpot" if hit else "dull"
        rows.append((e, 0, "door", "go", 0, room, 0))
        rows += [(e, t, room, "go", int(hit), room, 0) for t in range(1, horizon)]
    return rows


# what may come besides


def test_nothing_is_assumed_of_states_that_are_not_shown(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", doors(np.random.default_rng(5), 40, 3))
    log = ucfh.read_log(path)
    assert not log.closed
    assert "states" not in assumed(log)
    declared = ucfh.read_log(path, states=["door", "dull", "jackpot", "cellar"])
    assert declared.closed
    assert "states" in assumed(declared)
    assert declared.states.names == ("door", "dull", "jackpot", "cellar")


def test_a_jackpot_that_was_never_seen(tmp_path: Path) -> None:
    """The log of issue 15: 40 episodes without a jackpot; without the states, all is right."""
    rows = [row for row in doors(np.random.default_rng(0), 60, 30) if row[2] != "jackpot"]
    dull = {e for e, _, s, *_ in rows if s == "dull"}
    path = write(tmp_path / "log.csv", [row for row in rows if row[0] in sorted(dull)[:40]])
    best = 0.05 * 29
    assert ucfh.certify(path, delta=0.05).upper > best
    told = ucfh.read_log(path, states=["door", "dull"])  # which is not true
    assert ucfh.certify(told, delta=0.05).upper < best


@pytest.mark.slow
def test_jackpots_at_delta(tmp_path: Path) -> None:
    """Of many logs, bounds are wrong in no more than delta; with the wrong states in more."""
    rng, best, wrong = np.random.default_rng(1), 0.05 * 29, {"open": 0, "declared": 0}
    logs = many(60, 200)
    for _ in range(logs):
        rows = doors(rng, 40, 30)
        path = write(tmp_path / "log.csv", rows)
        shown = sorted({row[2] for row in rows})
        for name, states in (("open", None), ("declared", shown)):
            log = ucfh.read_log(path, states=states)
            wrong[name] += ucfh.certify(log, delta=0.05).upper < best
    assert binomtest(wrong["open"], logs, 0.05, "greater").pvalue > 1e-3
    assert binomtest(wrong["declared"], logs, 0.05, "greater").pvalue < 1e-3


def test_what_is_declared_makes_bounds_narrower(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", exam(30))
    given: dict[str, Any] = {"rewards": (0, 100), "segments": [2]}
    known = [
        ucfh.certify(ucfh.read_log(path, states=states, **given), delta=0.1)
        for states in (None, ["a", "b"], ["a"])
    ]
    assert known[0].upper >= known[1].upper > known[2].upper >= 60
    assert known[0].gap > known[2].gap
    known = [
        ucfh.certify(ucfh.read_log(path, rewards=(0, 100), max_return=most), delta=0.1)
        for most in (None, 100, 80)
    ]
    assert known[0].upper > 1.5 * known[1].upper > 1.5 * known[2].upper
    assert min(one.upper for one in known) >= 60 >= max(one.lower for one in known)


# units, segments and ends


def exam(episodes: int) -> list[Row]:
    """Practice pays nothing; the last of three steps is an exam, with 40 points or 80."""
    paid = np.random.default_rng(3).choice([40.0, 80.0], size=episodes).tolist()
    return [
        (e, t, "a", "x", paid[e] if t == 2 else 0.0, "a", 0)
        for e in range(episodes)
        for t in range(3)
    ]


def test_an_exam_at_the_end(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", exam(100))
    given: dict[str, Any] = {"rewards": (0, 100), "max_return": 100}
    log = ucfh.read_log(path, segments=[2], **given)
    assert log.shown is not None
    assert (log.shown.experience.P, log.shown.experience.c.tolist()) == (2, [200, 100])
    known = ucfh.certify(log, delta=0.1, epsilon=10.0)
    assert known.lower < 60 < known.upper <= 100 + 1e-9
    assert {"markov", "rewards", "max_return"} <= set(assumed(log))
    every = ucfh.read_log(path, time_dependent=True, **given)
    assert every.shown is not None
    assert every.shown.experience.c.tolist() == [100] * 3
    # with segments, what was practice is not taken for an exam
    assert ucfh.certify(ucfh.read_log(path, **given), delta=0.1).upper > known.upper


def test_other_units_are_another_scale(tmp_path: Path) -> None:
    plain = write(tmp_path / "1.csv", [(*r[:4], r[4] / 80, *r[5:]) for r in exam(50)])
    other = write(tmp_path / "2.csv", [(*r[:4], r[4] / 16 - 3, *r[5:]) for r in exam(50)])
    one = ucfh.certify(ucfh.read_log(plain, max_return=2), delta=0.2)
    scaled = ucfh.certify(
        ucfh.read_log(other, rewards=(-3, 2), max_return=2 * 5 - 9), delta=0.2, epsilon=4
    )
    assert scaled.upper == pytest.approx(5 * one.upper - 9, abs=1e-9)
    assert scaled.lower == pytest.approx(5 * one.lower - 9, abs=1e-9)
    assert scaled.gap == pytest.approx(5 * one.gap, abs=1e-9)


@pytest.mark.parametrize(
    ("rewards", "value"), [((-1.0, 1.0), 0.25), ((-4.0, 0.5), 0.25), ((0.25, 0.5), 0.25)]
)
def test_what_is_over_pays_nothing_more(
    tmp_path: Path, rewards: tuple[float, float], value: float
) -> None:
    """An end at once is worth what was paid, whatever the range, in tasks of five steps."""
    path = write(tmp_path / "log.csv", [(e, 0, "a", "x", 0.25, "b", 1) for e in range(400)])
    log = ucfh.read_log(path, horizon=5, rewards=rewards)
    assert log.shown is not None
    assert log.shown.terminal == (1,)
    known = ucfh.certify(log, delta=0.1)
    assert known.lower <= value <= known.upper
    assert known.upper - known.lower < 0.2 * 5 * log.units.span
    assert assumed(log)["terminal"].endswith(": 'b'")
    assert ucfh.certify(ucfh.read_log(path, horizon=5, rewards=rewards, states=["a", "b"]))


def test_bounds_are_within_what_is_possible(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", [(e, 0, "a", "x", -1, "a", 0) for e in range(20)])
    for most in (None, -0.125):
        log = ucfh.read_log(path, rewards=(-1, 0), max_return=most)
        known = ucfh.certify(log, delta=0.1)
        assert known.lower >= -1
        assert known.upper <= (most or 0)


def test_counts_over_a_table(tmp_path: Path) -> None:
    """A table has one segment, or one for each step, and rewards from 0 to 1: others have none."""
    path = write(tmp_path / "log.csv", [(*r[:4], r[4] / 80, *r[5:]) for r in exam(10)])
    every = ucfh.read_log(path, time_dependent=True)
    assert (every.problem.table.segments, every.counts.visits.tolist()) == (3, [10, 10, 10, 10])
    assert ucfh.read_log(path, segments=[1, 2]).counts.visits.tolist() == [10, 10, 10, 10]
    assert ucfh.read_log(path).counts.visits.tolist() == [30, 10]
    given: tuple[dict[str, Any], ...] = ({"segments": [2]}, {"rewards": (-1, 1)})
    for declared in given:
        log = ucfh.read_log(path, **declared)
        for name in ("problem", "counts"):
            assert refusal(getattr, log, name) == (
                "a log with segments, with lost outcomes, or with rewards below 0, has no problem "
                "and counts over a table: use ucfh.certify(log)"
            )
        assert ucfh.certify(log, delta=0.1).episodes == 10


def test_bad_declarations(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", exam(20))
    good: dict[str, Any] = {"rewards": (0, 100)}
    for given, message in (
        ({"rewards": (1, 0)}, "rewards = (1, 0) must be the least and the largest reward"),
        ({**good, "max_return": 0}, "max_return = 0 must be more than 0, the least return of 3"),
        ({**good, "segments": [3]}, "segments = [3] must be steps from 1 to 2, ascending"),
        ({**good, "states": 200_000}, "states = 200000 is too many: pass at most 100000"),
        ({**good, "states": "ab"}, "states = 'ab': pass a list of names, or how many there are"),
        (
            {**good, "problem": ucfh.make("chain")},
            "rewards: the problem that is given declares the task",
        ),
        ({}, "reward '"),
        ({"rewards": (0, 50)}, "reward '80.0'"),
    ):
        assert message in refusal(ucfh.read_log, path, **given)
    assert "--rewards" in refusal(ucfh.read_log, path)


@pytest.mark.parametrize("epsilon", [0, -1, 1e-300, float("nan"), "0.1"])
def test_an_epsilon_that_is_none(tmp_path: Path, epsilon: Any) -> None:
    path = write(tmp_path / "log.csv", doors(np.random.default_rng(0), 5, 2))
    message = refusal(ucfh.certify, path, epsilon=epsilon)
    assert message == f"epsilon = {epsilon!r} must be a number of at least 1e-12, such as 0.1"


# counts


def test_counts_are_those_of_a_slow_reader(tmp_path: Path) -> None:
    for seed in range(25):
        rng = np.random.default_rng(seed)
        H, S, A = (int(x) for x in rng.integers([1, 1, 1], [5, 5, 3]))
        segments = sorted({int(x) for x in rng.integers(1, H, size=2)}) if H > 1 else []
        low, high = (-2.0, 3.0) if seed % 2 else (0.0, 1.0)
        slow, rows = SlowExperience(segments), []
        labels = {0: "end", **{i: f"s{i}" for i in range(1, S + 1)}}
        for e in range(12):
            s = int(rng.integers(1, S + 1))
            slow.begin(s)
            for t in range(H):
                a, after = int(rng.integers(A)), int(rng.integers(1, S + 1))
                if t + 1 < H and rng.random() < 0.2:
                    after = END
                r = float(rng.choice([low, high, round(rng.uniform(low, high), 3)]))
                slow.step(t, s, a, (r - min(low, 0)) / (high - min(low, 0)), after)
                rows.append((e, t, labels[s], f"a{a}", r, labels[after], int(after == END)))
                s = after
                if s == END:
                    break
        log = read("".join(",".join(map(str, row)) + "\n" for row in rows), tmp_path,
                   horizon=H, segments=segments, rewards=(low, high))  # fmt: skip
        assert log.faults == ()
        assert log.shown is not None
        data = log.shown.experience
        names = ["end", *(str(log.states.label(s)) for s in range(log.states.count))]
        counts = named_counts(data, names.__getitem__)
        action = [str(log.actions.label(a)) for a in range(log.actions.count)]

        def row(segment: int, s: int, a: int, known: Any = (labels, action)) -> tuple[Any, ...]:
            return segment, known[0][s], known[1].index(f"a{a}")

        assert counts["counts"] == {
            (*row(*entry[:3]), labels[entry[3]]): (
                len(paid), round(sum(paid), 9), min(paid), max(paid)
            )
            for entry, paid in slow.paid.items()
        }  # fmt: skip
        assert counts["visits"] == {row(*key): n for key, n in slow.visits.items()}
        assert counts["last_new"] == {row(*key): n for key, n in slow.last_new.items()}
        assert counts["place"] == {(labels[s], p): n for (s, p), n in slow.place.items()}
        assert counts["reached"] == {(labels[s], t) for s, t in slow.reached}
        assert counts["started"] == {labels[s]: n for s, n in slow.started.items()}
        assert counts["new"] == (slow.started_new, len(slow.place), 12)


@pytest.mark.slow
def test_very_many_states_fit(tmp_path: Path) -> None:
    """Memory grows with what is shown, not with the square of it."""
    check_memory("this test", 2**30)
    rows, k, episodes = [], 0, many(15_000, 50_000)
    for e in range(episodes):
        k += 2
        rows.append((e, 0, "root", f"a{e % 2}", 0, f"s{k}", 0))
        rows.append((e, 1, f"s{k}", "a0", e % 2, f"s{k + 1}", 0))
    log = ucfh.read_log(write(tmp_path / "log.csv", rows))
    assert (log.states.count, log.counted) == (2 * episodes + 1, 2 * episodes)
    assert log.shown is not None
    assert len(log.shown.experience.key) == 2 * episodes
    known = ucfh.certify(log, delta=0.1)
    assert known.policy.shape == (2, 2 * episodes + 1)
    assert known.lower <= 0.5 <= known.upper
    assert "too many for a table" in refusal(lambda: log.problem)
