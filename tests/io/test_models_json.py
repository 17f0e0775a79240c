"""Models in JSON: content by hand, and errors for everything else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.errors import refusal as fault
from support.model_files import (
    FUZZ,
    GO,
    assert_same,
    blocks,
    example,
    mutate,
    read,
    read_or_refuse,
    read_text,
    segmented_example,
)


def test_json_by_hand(tmp_path: Path) -> None:
    mdp = read(segmented_example(), tmp_path)
    p = np.zeros((2, 3, 2, 3))
    p[0, 0, 0] = 0.25, 0.75, 0
    p[0, 0, 1, 1] = p[0, 1, 1, 0] = p[1, 0, 0, 0] = p[1, 0, 1, 0] = p[1, 1, 1, 1] = 1
    p[:, 2, 0, 2] = 1
    np.testing.assert_array_equal(mdp.table.dense(mdp.p), p)
    r = np.zeros((2, 3, 2))
    r[0, 0, 0], r[0, 1, 1], r[1, 0, 1], r[1, 1, 1] = 0.5, 0.25, 1, 1
    pairs = [[0, 0], [0, 1], [1, 1], [2, 0]]
    np.testing.assert_array_equal(np.argwhere(mdp.table.available), pairs)
    np.testing.assert_array_equal(mdp.mean_rewards, r[:, *np.transpose(pairs)])
    assert mdp.rewards.successor is not None
    np.testing.assert_array_equal(mdp.initial, [0.5, 0.5, 0])
    assert (mdp.noise, mdp.note, mdp.problem.terminal) == ("bernoulli", "halved", (2,))
    # the zero after (t=1, s=0, a=0) is told to the agent
    assert mdp.table.lengths.tolist() == [2, 1, 1, 1, 2, 1, 1, 1, 2]


def test_names_and_numbers_are_interchangeable(tmp_path: Path) -> None:
    document = example()
    by_name = read(document, tmp_path)
    numbers = {"home": 0, "work": 1, "done": 2, "stay": 0, "go": 1, "present": 2}
    text = json.dumps(document["transitions"])
    for name, number in numbers.items():
        text = text.replace(f'"{name}":', f'"{number}":').replace(f'"{name}"', str(number))
    rows = list(reversed(json.loads(text)))
    document |= {"transitions": rows, "initial": {"0": 1}, "terminal": [2, "done"]}
    assert_same(read(document, tmp_path), by_name)
    # digits that are a name are that name
    swapped = {"states": ["1", "0", "2"], "initial": "0", "terminal": ["2"]}
    mdp = read(example() | swapped | {"transitions": rows}, tmp_path)
    np.testing.assert_array_equal(mdp.initial, [0, 1, 0])
    assert mdp.table.dense(mdp.p)[0, 1].tolist() == [0.8, 0.2, 0]


def change(*keys: Any, to: Any) -> Callable[[Any], None]:
    """A change of one entry of a document; None takes it out."""

    def apply(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        if to is None:
            del document[keys[-1]]
        else:
            document[keys[-1]] = to

    return apply


ROW = "transitions[1]: "
NEXT, REWARD = ("transitions", 1, "next"), ("transitions", 1, "reward")
ERRORS: list[tuple[Callable[[Any], None], str]] = [
    (change("format", to=None), 'its "format" is missing: it must be "ucfh-model"'),
    (change("format", to="ucfh-policy"), 'its "format" is "ucfh-policy": it must be'),
    (change("version", to=2), 'its "version" is 2: this version of ucfh reads version 1'),
    (change("version", to=True), 'its "version" is true'),
    (change("horizon", to=None), '"horizon" is missing: add it'),
    (change("horizon", to=0), '"horizon" is 0: it must be'),
    (change("horizon", to=2.0), '"horizon" is 2.0: it must be'),
    (change("horizon", to=10**4000), '"horizon" is 1000'),
    (change("horzion", to=3), "unknown key 'horzion': did you mean 'horizon'?"),
    (change("states", to=[]), '"states" is a list: it must be their number, or a list of'),
    (change("states", to=["a", 1]), '"states" is a list: it must be'),
    (change("states", to=["home", "home", "work"]), "state name 'home' is given twice"),
    (change("actions", to=True), '"actions" is true'),
    (change("noise", to="normal"), "unknown noise 'normal'"),
    (change("note", to=3), '"note" is 3: it must be a string'),
    (change("terminal", to="done"), '"terminal" is "done": it must be a list of states'),
    (change("terminal", to=["dnoe"]), "terminal: unknown state 'dnoe': did you mean 'done'?"),
    (change("terminal", to=None), "state 'done' has no row"),
    (change("terminal", to=["work", "done"]), "(state 'work', action 'stay'): its state is term"),
    (change("initial", to=None), '"initial" is missing'),
    (change("initial", to="hmoe"), "initial: unknown state 'hmoe': did you mean 'home'?"),
    (change("initial", to=3), "initial: state 3 does not exist: states are 0 to 2"),
    (change("initial", to={}), "initial: no state is given"),
    (
        change("initial", to=[1, 0, 0]),
        "initial: a list is not a valid state: give its name, or its number",
    ),
    (change("initial", to={"home": 0.5, "0": 0.5}), "initial: state 'home' is given twice"),
    (change("initial", to={"home": 0.5, "work": 0.4}), "the probabilities at the start sum to 0.9"),
    (change("initial", to={"home": 0}), '"initial" sums to 0'),
    (
        change("initial", to={"home": -1, "work": 2}),
        "probability of state 'home' at the start is -1",
    ),
    (change("transitions", to={}), '"transitions" is an object: it must be a list of rows'),
    (change("transitions", 1, to=7), ROW + "it must be an object {...}, not 7"),
    (
        change("transitions", 1, "state", to="hom"),
        ROW + "unknown state 'hom': did you mean 'home'?",
    ),
    (change("transitions", 1, "action", to=1.5), ROW + "1.5 is not a valid action: give its name"),
    (
        change("transitions", 1, "action", to="stay"),
        ROW + "(state 'home', action 'stay') is given in",
    ),
    (change("transitions", 1, "t", to=0), ROW + 'give "t" in every row, or in none'),
    (change("transitions", 0, "t", to=5), "transitions[0]: t = 5: it must be a time step, 0 to 2"),
    (
        change("transitions", 1, "rewards", to=0),
        ROW + "unknown key 'rewards': did you mean 'reward'?",
    ),
    (change(*NEXT, to=None), ROW + '"next" is missing'),
    (
        change(*NEXT, to={"werk": 1}),
        ROW + GO + ": next: unknown state 'werk': did you mean 'work'?",
    ),
    (change(*NEXT, to={"work": "1"}), ROW + GO + ": next: state 'work': \"1\" is not a number"),
    (change(*NEXT, to={"work": 10**400}), ROW + GO + ": next: state 'work': 1000"),
    (change(*NEXT, to={"work": 0.8}), f"the probabilities after {GO} sum to 0.8: they must sum"),
    (change(*NEXT, to={"work": 1.5, "home": -0.5}), f"of state 'home' after {GO} is -0.5: it must"),
    (change(*NEXT, to={"work": float("nan")}), f"of state 'work' after {GO} is nan: it must"),
    (change(*REWARD, to="much"), ROW + GO + ': reward: "much" is not a number'),
    (change(*REWARD, to=[0, 1]), ROW + GO + ": reward: 2 numbers, but the row is for 3 time steps"),
    (change(*REWARD, to={"done": 1}), ROW + GO + ": reward: state 'done' is not in next"),
    (change(*REWARD, to=2), "the reward of (t=0, state 'home', action 'go') is 2: rewards must"),
    (change(*REWARD, to=[0, 1, 2]), "the reward of (t=2, state 'home', action 'go') is 2"),
    (change(*REWARD, to=float("nan")), "the reward of (t=0, state 'home', action 'go') is nan"),
    (change(*REWARD, to={"work": -1}), f"the reward in state 'work' after {GO}, t=0 is -1"),
    (change(*REWARD, to={"work": [0, 2, 0]}), f"the reward in state 'work' after {GO}, t=1 is 2"),
]


@pytest.mark.parametrize(("spoil", "message"), ERRORS)
def test_errors_are_named(spoil: Callable[[Any], None], message: str, tmp_path: Path) -> None:
    document = example()
    spoil(document)
    assert message in fault(read, document, tmp_path)


def test_errors_of_segments_are_named(tmp_path: Path) -> None:
    document = segmented_example()
    last = document["transitions"].pop()
    message = fault(read, document, tmp_path)
    assert "no row for (t=1, state 1, action 1): with t, list every pair at every" in message
    document["transitions"].append(last | {"reward": [1, 1]})
    message = fault(read, document, tmp_path)
    assert "(t=1, state 1, action 1): reward: 2 numbers, but the row is for 1 time step:" in message
    document["transitions"][-1] = last | {"next": {"0": 0.5}}
    message = fault(read, document, tmp_path)
    assert "the probabilities after (t=1, state 1, action 1) sum to 0.5" in message
    document["transitions"][-1] = last | {"reward": 1.5}
    message = fault(read, document, tmp_path)
    assert "the reward of (t=1, state 1, action 1) is 1.5" in message
    document["transitions"][-1] = last
    message = fault(read, document | {"states": 10**9}, tmp_path)
    assert "state 3 has no row: add one for each of its actions" in message
    message = fault(read, document | {"actions": 10**9}, tmp_path)
    assert '"actions" is 1000000000, with 3 states and only 6 rows' in message
    document["transitions"][-1] = last | {"next": {"first": 1}}
    assert "unknown state 'first': states have no names" in fault(read, document, tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: not JSON, or cut short"),
        ("[]", "a ucfh-model file holds a JSON object, not a list"),
        ('{\n "format": "ucfh-model",\n "version" 1}', "line 3, column 12: not JSON"),
        ('{"format": "ucfh-model", "version": 1, "version": 1}', "'version' is given twice"),
        ("[" * 100_000, "not JSON that can be read"),
        ("1" * 5000, "not JSON that can be read"),
        (b"{\n\xff}", "line 2 is not text in UTF-8"),
    ],
)
def test_text_that_is_no_model(text: str | bytes, message: str, tmp_path: Path) -> None:
    assert f"model.json: {message}" in fault(read_text, text, tmp_path)


def test_twice_in_one_object(tmp_path: Path) -> None:
    text = blocks("json")[0].replace('"work": 0.8', '"work": 0.4, "work": 0.4')
    message = fault(read_text, text, tmp_path)
    assert message.endswith(f"transitions[1]: {GO}: next: 'work' is given twice: keep only one")


def test_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    text = blocks("json")[0]
    assert_same(read_text("\ufeff" + text, tmp_path), read_text(text, tmp_path))


@FUZZ
@given(data=st.data(), segmented=st.booleans())
def test_mutations_of_json(data: st.DataObject, segmented: bool, tmp_path: Path) -> None:
    document = segmented_example() if segmented else example()
    mutate(document, data)
    mdp = read_or_refuse(json.dumps(document), tmp_path, "model.json")
    if mdp is not None and mdp.horizon < 10:
        assert 0 <= mdp.at_start(mdp.optimal().values) <= mdp.horizon


def test_names_with_line_breaks_do_not_break_messages(tmp_path: Path) -> None:
    document = example() | {"states": ["home", "work", "a\nb"], "initial": "away"}
    document["terminal"] = ["a\nb"]
    assert "known: a b, home, work" in fault(read, document, tmp_path)
