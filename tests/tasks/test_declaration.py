"""What a task is: checks, agreement with what is stored, labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ucfh
from support.stores import Stores
from ucfh.tasks.config import Declaration
from ucfh.tasks.labels import canonical, label_of, name_in_log

FULL: dict[str, Any] = {
    "actions": ["call", "mail"],
    "horizon": 8,
    "epsilon": 0.2,
    "delta": 0.05,
    "rewards": (-1, 2),
    "max_return": 3,
    "states": {"new": None, "warm": ["mail"], "over": []},
    "segments": [7],
    "timeout": 60,
    "on_timeout": ("left", 0),
}


@pytest.mark.parametrize("on_timeout", [None, "lost", ("left", 0)])
@pytest.mark.parametrize("states", [None, ["a", ("b", 2)], {"a": ["mail"], 3: None}])
def test_a_declaration_is_stored_as_it_is(states: Any, on_timeout: Any) -> None:
    made = Declaration.make("t", **{**FULL, "states": states, "on_timeout": on_timeout})
    assert Declaration.of_json(made.to_json()) == made
    made.check_same({**FULL, "states": states, "on_timeout": on_timeout}, "x.db")
    made.check_same({}, "x.db")


def test_what_is_left_out_is_as_everywhere() -> None:
    made = Declaration.make("t", ["a"], 2, 0.5)
    assert (made.delta, made.rewards, made.segments) == (0.1, (0.0, 1.0), ())
    assert (made.max_return, made.states, made.timeout, made.on_timeout) == (
        None,
        None,
        None,
        "lost",
    )


def test_states_that_are_known_from_the_beginning() -> None:
    made = Declaration.make("t", **FULL)
    assert [tuple(x) for x in made.first_states] == [
        (1, '"new"', None),
        (2, '"warm"', (1,)),
        (3, '"over"', ()),
        (4, '"left"', ()),
    ]
    assert made.available(None) is None
    mask = made.available((1,))
    assert mask is not None
    assert mask.tolist() == [False, True]


def test_the_state_of_silence_may_be_among_the_declared_ones() -> None:
    made = Declaration.make("t", **{**FULL, "states": ["left", "new"]})
    assert [tuple(x) for x in made.first_states] == [(1, '"left"', ()), (2, '"new"', None)]
    with pytest.raises(ucfh.InvalidReport, match='state "left" is the state of on_timeout'):
        Declaration.make("t", **{**FULL, "states": {"left": ["mail"], "new": None}})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"horizon": 9}, "has horizon 8, not 9: leave horizon out, or create another task"),
        ({"actions": ["mail", "call"]}, r'has actions \["call", "mail"\], not \["mail", "call"\]'),
        ({"epsilon": 0.3}, r"has epsilon 0\.2, not 0\.3"),
        ({"delta": 0.1}, r"has delta 0\.05, not 0\.1"),
        ({"rewards": (0, 2)}, r"has rewards \(-1\.0, 2\.0\), not \(0\.0, 2\.0\)"),
        ({"max_return": 4}, r"has max_return 3\.0, not 4\.0"),
        ({"states": ["new"]}, r'has states \["new", "warm", "over"\], not \["new"\]'),
        ({"segments": [6]}, r"has segments \(7,\), not \(6,\)"),
        ({"timeout": 61}, r"has timeout 60\.0, not 61\.0"),
        ({"on_timeout": "lost"}, r'has on_timeout \["left", 0\.0\], not lost'),
    ],
)
def test_a_difference_is_named(stores: Stores, change: dict[str, Any], why: str) -> None:
    path = stores("calls")
    ucfh.open_task(path, "calls", **FULL, planning="off").close()
    with pytest.raises(ucfh.Conflict, match=rf"task 'calls' in .* {why}"):
        ucfh.open_task(path, "calls", **change, planning="off")
    ucfh.open_task(path, "calls", planning="off").close()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"actions": []}, "actions is empty"),
        ({"actions": "call"}, "actions = 'call' must be a list"),
        ({"actions": ["a", "a"]}, 'action "a" is listed twice'),
        ({"actions": [1, "1"]}, 'action "1" has the same name as 1 in a log'),
        ({"actions": [0.5]}, "action 0.5 is not a text"),
        ({"horizon": 0}, "horizon = 0 must be"),
        ({"epsilon": 0}, "epsilon = 0 must be"),
        ({"epsilon": 100}, "range of possible returns"),
        ({"delta": 2}, "delta = 2 is outside"),
        ({"rewards": (1, 0)}, "rewards = "),
        ({"max_return": -100}, "max_return = -100 must be"),
        ({"states": []}, "states is empty"),
        ({"states": {"over": []}}, "states has no state with actions"),
        ({"states": ["a", "a"]}, 'state "a" is listed twice'),
        ({"states": [1, True, "True"]}, "has the same name as true in a log"),
        ({"states": ["(end)"]}, "is the name of the end in a log"),
        ({"states": {"a": ["sing"]}}, 'state "a" has an unknown action "sing"'),
        ({"states": 3}, "states = 3 must be a list"),
        ({"segments": [9]}, "segments = "),
        ({"timeout": 0}, "timeout = 0 must be a positive number"),
        ({"timeout": float("nan")}, "timeout = nan must be"),
        ({"on_timeout": "left"}, "on_timeout = 'left' must be 'lost', or a terminal state"),
        ({"on_timeout": ("left", 9)}, "reward 9 is outside the declared range"),
        ({"planning": "later"}, "unknown planning 'later'"),
        ({"name": " "}, "name = ' ' must be"),
    ],
)
def test_bad_declarations_make_no_store(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    with pytest.raises(ucfh.InputError, match=why) as error:
        ucfh.open_task(tmp_path / "t.db", **{**FULL, **change})
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_task_names_those_that_are_there(stores: Stores) -> None:
    ucfh.open_task(stores("t"), "calls", **FULL, planning="off").close()
    with pytest.raises(ucfh.UnknownTask, match=r"no task 'cals' \(known: 'calls'\).* horizon") as e:
        ucfh.open_task(stores("t"), "cals", actions=["a"], planning="off")
    assert e.value.status == 404


def test_one_store_holds_several_tasks(stores: Stores) -> None:
    path = stores("t")
    with (
        ucfh.open_task(path, "one", actions=["a"], horizon=2, epsilon=0.5, planning="off") as one,
        ucfh.open_task(path, "two", actions=["b"], horizon=2, epsilon=0.5, planning="off") as two,
    ):
        assert one.ask("s", "e").action == "a"
        assert two.ask("z", "e").action == "b"
        assert one.states.labels[1:] == ["s"]
        assert (one.status().begun, two.status().begun) == (1, 1)
        assert one.store.tasks() == ["one", "two"]
        assert one.check() == two.check() == []


# labels

scalars = st.one_of(
    st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1)
    .filter(str.isprintable)
    .filter(str.strip),
    st.integers(),
    st.booleans(),
)
labels = st.recursive(scalars, lambda x: st.lists(x, min_size=1, max_size=3).map(tuple))


@given(labels)
def test_labels_come_back(label: Any) -> None:
    text = canonical(label)
    back = label_of(text)
    assert back == label
    assert type(back) is type(label)
    assert canonical(back) == text


@given(labels, labels)
def test_different_labels_have_different_texts(one: Any, two: Any) -> None:
    assert (canonical(one) == canonical(two)) == (repr(one) == repr(two))


def test_labels_of_other_types() -> None:
    assert canonical(np.int64(3)) == canonical(3)
    assert canonical(np.str_("a")) == canonical("a")
    assert canonical((np.int8(1), [np.bool_(True)])) == "[1,[true]]"
    assert canonical(["a"]) == canonical(("a",))
    assert name_in_log(canonical((1, "b"))) == '[1, "b"]'


@pytest.mark.parametrize("label", [None, 0.5, 1.0, "", " ", "a\nb", (), (1, 0.5), {"a": 1}, b"a"])
def test_what_is_no_label(label: Any) -> None:
    with pytest.raises(ucfh.InvalidReport) as error:
        canonical(label)
    assert "\n" not in str(error.value)


def test_labels_that_a_log_cannot_tell_apart(stores: Stores) -> None:
    with ucfh.open_task(stores("t"), actions=["a"], horizon=2, epsilon=0.5, planning="off") as task:
        first = task.ask(1, "e1")
        for label, why in (
            ("1", '"1" has the same name as 1 in a log'),
            (" 1", "has the same name as 1"),
            ("1.0", "has the same name as 1"),
            ("(end)", "is the name of the end in a log"),
        ):
            with pytest.raises(ucfh.InvalidReport, match=why):
                task.tell(first, reward=0, state=label)
        assert task.tell(first, reward=0, state=True) is not None
        assert task.states.labels[1:] == [1, True]


def test_a_typing_error_does_not_fill_the_memory_of_whoever_plans() -> None:
    with pytest.raises(ucfh.InputError, match="horizon = 100,000 is more than can be planned for"):
        Declaration.make("t", ["a"], 100_000, 0.5)
    with pytest.raises(ucfh.InputError, match="actions = 1,001 is more than"):
        Declaration.make("t", list(range(1001)), 5, 0.5)
    assert Declaration.make("t", ["a"], 10_000, 0.5).horizon == 10_000
    for name in (".", " ..", "x" * 501):
        with pytest.raises(ucfh.InputError, match="name"):
            ucfh.open_task("never.db", name, **FULL)
