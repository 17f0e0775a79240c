"""PRISM's explicit files against a slow reader."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import reference
from support.errors import refusal as fault
from support.model_files import FUZZ
from support.prism_files import (
    LAB,
    SREW,
    STA,
    TRA,
    TREW,
    Slow,
    assert_reads,
    prism_files,
    read_slowly,
    rooms,
    write,
)
from ucfh import InputError
from ucfh._utils import memory
from ucfh.io import prism, read_intervals


def best_value(slow: Slow, horizon: int, optimistic: bool) -> float:
    """By the paper's loop, over dense arrays in which a choice is an action."""
    S, A = slow.states, max(k for _, k in slow.action) + 1
    lo, hi, r = np.zeros((S, A, S)), np.zeros((S, A, S)), np.zeros((horizon, S, A, S))
    for s in range(S):
        for a in range(A):
            if (s, a) not in slow.action:
                lo[s, a, 0] = hi[s, a, 0] = 1
                r[:, s, a] = -1e9
            else:
                r[:, s, a] = slow.paid.get(s, 0.0)
    for where, (low, high) in slow.bounds.items():
        lo[where], hi[where] = low, high
        r[(slice(None), *where)] += slow.paid_on.get(where, 0.0)
    _, V = reference.evi(lo, hi, r, horizon, optimistic, reference.greedy_expectation)
    return float(V[0, slow.start])


@FUZZ
@given(texts=prism_files(), chunk=st.sampled_from([1, 7, 64, 1 << 20]), optimistic=st.booleans())
def test_random_files(texts: dict[str, str], chunk: int, optimistic: bool, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prism, "CHUNK", chunk)
        model = read_intervals(write(tmp_path, texts), horizon=3)
    slow = read_slowly(texts)
    assert_reads(slow, model)
    assert model.horizon == 3
    named = model.problem.state_names
    assert named == (tuple(f"({s})" for s in range(slow.states)) if "sta" in texts else None)
    value = model.at_start(model.plan(optimistic, threads=1).values)
    assert value == pytest.approx(best_value(slow, 3, optimistic), rel=1e-12, abs=1e-15)


def test_the_rooms(tmp_path: Path) -> None:
    texts = rooms()
    model = read_intervals(write(tmp_path, texts), horizon=5)
    assert_reads(read_slowly(texts), model)
    assert model.problem.action_names == ("-", "back", "fast", "leap", "slow")
    assert model.problem.state_names == ("(0,0)", "(1,0)", "(2,0)", "(0,1)", "(1,1)", "(2,1)")
    plan = model.plan()
    # from state 1: slow to 2 for sure and half a reward, then 5 at each of the 4 other steps
    assert model.at_start(plan.values) == pytest.approx(0.5 + 4 * 5)
    assert model.rewards.successor is not None  # choice 0 of state 1 pays for one of two
    # at worst it stays, once in ten
    worst = model.plan(optimistic=False)
    by_hand = [0.0]
    for t in range(5):
        by_hand.append(0.9 * (0.5 + 5 * t) + 0.1 * by_hand[-1])
    assert model.at_start(worst.values) == pytest.approx(by_hand[-1])


def test_other_files_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path, {"tra": TRA})
    message = fault(read_intervals, path, 5)
    assert message.startswith(f"{path} has no rewards: put a .srew or .trew file")
    others = {"states": STA, "labels": LAB, "state_rewards": SREW, "transition_rewards": TREW}
    for name, text in others.items():
        (tmp_path / name).write_text(text)
    model = read_intervals(path, 5, **{name: tmp_path / name for name in others})
    assert_reads(read_slowly(rooms()), model)
    missing = tmp_path / "missing"
    message = fault(lambda: read_intervals(path, 5, state_rewards=missing))
    assert message == f"{missing} does not exist: check the name"


def test_rewards_of_choices_are_kept_as_such(tmp_path: Path) -> None:
    """Rewards that agree for all transitions of a choice do not depend on the next state."""
    texts = rooms(trew="6 10 4\n0 0 0 1\n0 0 1 1\n2 0 2 0.5\n4 0 5 3\n")
    model = read_intervals(write(tmp_path, texts), horizon=5)
    assert model.rewards.successor is None
    assert_reads(read_slowly(texts), model)


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        (" back", " back", ("-", "back", "fast", "leap", "slow")),
        (" back", " slow", None),  # twice in state 4
        (" back", "", ("-", "fast", "leap", "slow")),
        (" [a-z]+", "", None),
    ],
)
def test_names_of_actions(old: str, new: str, names: Any, tmp_path: Path) -> None:
    texts = rooms(tra=re.sub(old, new, TRA))
    model = read_intervals(write(tmp_path, texts), horizon=2)
    assert model.problem.action_names == names
    assert_reads(read_slowly(texts), model)


def test_names_of_single_choices_are_not_actions(tmp_path: Path) -> None:
    S = 1500
    body = "".join(f"{s} 0 {s} 1 only{s}\n" for s in range(S))
    texts = {"tra": f"{S} {S} {S}\n{body}", "srew": f"{S} 1\n0 1\n"}
    model = read_intervals(write(tmp_path, texts), horizon=2)
    assert (model.problem.action_names, model.problem.actions) == (None, 1)


TRA_ERRORS: list[tuple[str, str, str]] = [
    ("6 10 17", "6 10", "line 2 is '0 0 0 [0.3,0.5] slow': it must be 'state next state prob"),
    ("6 10 17", "6", "line 1 is '6': it must give the sizes, 'states choices transitions' or 'sta"),
    ("6 10 17", "6 10 17 3", "line 1 is '6 10 17 3': it must give the sizes"),
    ("6 10 17", "six 10 17", "line 1 is 'six 10 17': it must give the sizes"),
    ("6 10 17", "0 10 17", "line 1: 0 states: there must be at least 1, and below 2^31"),
    ("6 10 17", "6 10 18", "it ends on line 18, after 17 of 18 entries: it is cut short, or its"),
    ("6 10 17", "6 10 16", "it has more entries than the 16 that its sizes say"),
    ("6 10 17", "6 11 17", "it has 10 choices, but line 1 says 11: it is cut short, or that"),
    ("6 10 17", "5 10 17", "line 13: next state 5 does not exist: they are numbered from 0 to 4"),
    ("6 10 17", "7 10 17", "state 6 has no transition: if an episode stays there, write '6 0"),
    ("0 1 3 0.7", "0 1 3 0.9", "(state '(0,0)', action 'fast') (from line 4 on): lo sums to"),
    ("0 1 3 0.7", "0 1 3 1.7", "line 5: the probability is 1.7: it must be in [0, 1], and lo"),
    ("0 1 3 0.7", "0 1 3 nan", "line 5: the probability is nan: it must be in [0, 1]"),
    ("0 1 3 0.7", "0 1 3 [0.7,nan]", "line 5: the probability is [0.7,nan]: it must be in [0, 1]"),
    ("0 1 3 0.7", "0 1 3 [0.7,0.6]", "line 5: the probability is [0.7,0.6]: it must be in [0, 1]"),
    ("0 1 3 0.7", "0 1 3 -0.7", "line 5: the probability is -0.7"),
    ("0 1 3 0.7", "0 1 3 4/5", "line 5 is '0 1 3 4/5 fast': it must be 'state choice next state"),
    ("0 1 3 0.7", "0 1 3 [0.7;0.9]", "line 5 is '0 1 3 [0.7;0.9] fast': it must be"),
    ("0 1 3 0.7", "0 1 3 0.7 0.9", "line 5 is '0 1 3 0.7 0.9 fast': it must be"),
    ("0 1 3 0.7", "0 1 3 0.7_0", "line 5 is '0 1 3 0.7_0 fast': it must be"),
    ("0 1 3 0.7", "0 1 0.7:3", "line 5 is '0 1 0.7:3 fast': it must be"),
    ("0 1 3 0.7", "0 1 3.0 0.7", "line 5 is '0 1 3.0 0.7 fast': it must be"),
    ("0 1 3 0.7", "0 1 -3 0.7", "line 5: next state -3 does not exist: they are numbered from 0"),
    ("0 1 3 0.7", "0 1 99999999999999999999 0.7", "line 5 is '0 1 9999999"),
    ("0 1 3 0.7", "6 1 3 0.7", "line 5: state 6 does not exist: they are numbered from 0 to 5"),
    ("0 1 3 0.7", "0 10 3 0.7", "line 5: choice 10 does not exist: they are numbered from 0 to 9"),
    ("0 1 3 0.7", "0 1 1 0.7", "line 5 repeats line 4: keep only one"),
    ("0 1 3 0.7 fast", "0 1 3 0.7 leap", "line 5: this choice has another action on another"),
    ("1 0 2 [0.9,1]", "1 0 2 [0.9,1", "line 8 is '1 0 2 [0.9,1 slow': it must be"),
    ("1 0 2 [0.9,1]", "1 0 2 [0.8,0.8]", "(state '(1,0)', action 'slow') (from line 7 on): lo"),
    ("1 0 2 [0.9,1]", "#", "line 8 is '# slow': it must be"),
]


@pytest.mark.parametrize(("old", "new", "message"), TRA_ERRORS)
def test_errors_of_transitions_are_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert TRA.count(old) == 1
    texts = rooms(tra=TRA.replace(old, new))
    path = write(tmp_path, texts)
    for chunk in (7, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prism, "CHUNK", chunk)
            found = fault(read_intervals, path, 5)
        assert found.startswith(str(path))
        assert message in found


def test_known_probabilities_are_named_too(tmp_path: Path) -> None:
    texts = {"tra": "2 3\n0 0 0.5\n\n0 1 0.4\n1 1 1\n", "srew": "2 1\n0 1\n"}
    message = fault(read_intervals, write(tmp_path, texts), 5)
    assert "the probabilities after (state 0, action 0) (from line 2 on) sum to 0.9" in message


OTHER_ERRORS: list[tuple[str, str, str]] = [
    ("srew", "", "line 1 is '': it must give the sizes, 'states rewards'"),
    ("srew", "6 2\n2 5\n", "it ends on line 2, after 1 of 2 entries: it is cut short"),
    ("srew", "6 1\n2 5", "line 2 does not end: the file is cut short"),
    ("srew", "5 1\n2 5\n", "line 1: the sizes are [5], but those of the model [6]"),
    ("srew", "6 1\n6 5\n", "line 2: state 6 does not exist: they are numbered from 0 to 5"),
    ("srew", "6 1\n2 -5\n", "line 2: the reward is -5.0: it must be a number of at least 0"),
    ("srew", "6 2\n1 0\n\n2 nan\n", "line 4: the reward is nan: it must be a number of at"),
    ("srew", "6 1\n2 inf\n", "line 2: the reward is inf: it must be a number of at least 0"),
    ("srew", "6 1\n2 [1,2]\n", "line 2 is '2 [1,2]': it must be 'state reward'"),
    ("srew", "6 1\n2 5 a\n", "line 2 is '2 5 a': it must be 'state reward'"),
    ("srew", "6 3\n2 5\n1 5\n2 6\n", "line 4 repeats line 2: keep only one"),
    ("trew", "6 0\n", "line 1 is '6 0': it must give the sizes, 'states choices rewards'"),
    ("trew", "6 9 0\n", "line 1: the sizes are [6, 9], but those of the model [6, 10]"),
    ("trew", "6 10 1\n0 0 2 1\n", "model.tra has no such transition: add it there"),
    ("trew", "6 10 1\n0 2 0 1\n", "line 2: "),
    ("trew", "6 10 1\n0 2 1 1\n", "line 2: "),  # as state 1, choice 0 has
    ("trew", "6 10 1\n2 1 3 1\n", "line 2: "),  # as state 3, choice 0 has
    ("trew", "6 10 1\n4 4 4 1\n", "line 2: "),  # beyond the last state
    ("trew", "6 10 2\n1 0 2 1\n5 2 2 1\n", "line 3: "),  # which has two choices
    ("trew", "6 10 1\n5 9 5 1\n", "model.tra has no such transition: add it there"),
    ("trew", "#\n6 10 2\n0 0 0 1\n0 0 0 1\n", "line 4 repeats line 3: keep only one"),
    ("lab", "", "its first line is '': it must list the labels and init among them, such as 0="),
    ("lab", '0="goal"\n1: 0\n', "its first line is '0=\"goal\"': it must list the labels and init"),
    ("lab", '0="init"1\n1: 0\n', "its first line is '0=\"init\"1': it must list the labels"),
    (
        "lab",
        '0="init"\n',
        "0 states have the label init: give it only to the one in which an episode",
    ),
    ("lab", '0="init"\n1: 0\n2: 0\n', "2 states have the label init"),
    ("lab", '0="init"\n9: 0\n', "line 2: state 9 does not exist: states are 0 to 5"),
    ("lab", '0="init"\nx: 0\n', "line 2: unknown state 'x'"),
    ("lab", '0="init"\n1: 0', "line 2 does not end: the file is cut short"),
    ("sta", "(x,y)\n0:(0,0)\n", "state 1 is missing: the file is cut short, or for another model"),
    (
        "sta",
        "(x,y)\n0:(0,0)\n0:(0,1)\n",
        "line 3: '0:(0,1)' is not of the form 'i:(values)', or state 0",
    ),
    ("sta", "(x,y)\n9:(0,0)\n", "line 2: state 9 does not exist"),
    ("sta", STA.replace("(1,0)", "(0,0)"), "state name '(0,0)' is given twice"),
]


@pytest.mark.parametrize(("ending", "text", "message"), OTHER_ERRORS)
def test_errors_of_other_files_are_named(
    ending: str, text: str, message: str, tmp_path: Path
) -> None:
    path = write(tmp_path, rooms(**{ending: text}))
    found = fault(read_intervals, path, 5)
    assert found.startswith(f"{path.with_suffix(f'.{ending}')}: ")
    assert message in found


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["tra", "srew", "trew", "sta"])
def test_truncation_at_every_length(ending: str, tmp_path: Path) -> None:
    texts = rooms()
    whole = texts[ending].encode()
    path = write(tmp_path, texts)
    for shorter in range(len(whole)):
        path.with_suffix(f".{ending}").write_bytes(whole[:shorter])
        assert str(path.with_suffix(f".{ending}")) in fault(read_intervals, path, 5)


@FUZZ
@given(texts=prism_files(), data=st.data())
def test_changed_bytes(texts: dict[str, str], data: st.DataObject, tmp_path: Path) -> None:
    """Refused in one line that names a file, or read as the slow reader reads it."""
    ending = data.draw(st.sampled_from(sorted(texts)))
    text = bytearray(texts[ending].encode())
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 1))] = data.draw(
            st.sampled_from(
                [b"", b"0", b"1", b"9", b".", b"-", b" ", b"\n", b"[", b"]", b",", b"#"]
            )
            | st.binary(min_size=1, max_size=1)
        )
    path = write(tmp_path, texts)
    path.with_suffix(f".{ending}").write_bytes(text)
    try:
        model = read_intervals(path, 3)
    except InputError as error:
        message = str(error)
    else:
        assert_reads(read_slowly(texts | {ending: text.decode(errors="replace")}), model)
        return
    assert message.startswith(str(tmp_path / "model."))
    assert len(message.splitlines()) == 1


def test_random_bytes_and_odd_places(tmp_path: Path) -> None:
    path = write(tmp_path, rooms())
    for content in (
        b"\0" * 100_000,
        b"#\n" * 1000,
        bytes(range(256)) * 400,
        b"1 1 1\n" + b"1" * 99_999,
    ):
        path.write_bytes(content)
        assert fault(read_intervals, path, 5).startswith(str(path))
    path.unlink()
    assert fault(read_intervals, path, 5) == f"{path} does not exist: check the name"
    path.mkdir()
    assert "Is a directory" in fault(read_intervals, path, 5)


def test_the_horizon_is_required(tmp_path: Path) -> None:
    path = write(tmp_path, rooms())
    assert fault(read_intervals, path).startswith(f"{path} has no horizon: pass --horizon")
    assert "horizon = 0 must be an integer" in fault(read_intervals, path, 0)


def test_models_that_do_not_fit_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what the first line says, before anything is read or made of that size."""
    sizes = (10**9, 4 * 10**9, 4 * 10**10)
    path = write(tmp_path, rooms(tra=" ".join(map(str, sizes)) + "\n0 0 0 1\n"))
    needed = 160 * (sizes[1] + sizes[2]) + 64 * sizes[0]
    message = fault(read_intervals, path, 5)
    expected = f"a model of {sizes[0]} states and {sizes[2]} transitions needs about {needed} bytes"
    assert message.startswith(f"{path}: {expected} of memory (7.1e+03 GB), but only ")
    path = write(tmp_path, rooms(srew=f"6 {10**15}\n0 1\n"))
    assert f"{10**15} rewards needs about {16 * 10**16} bytes" in fault(read_intervals, path, 5)
    monkeypatch.setattr(memory, "free_memory", lambda: None)
    assert read_intervals(write(tmp_path, rooms()), 5).table.states == 6
