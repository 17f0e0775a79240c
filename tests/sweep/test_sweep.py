"""The sweep reads all signatures, finds nothing in a hundred runs, and finds planted bugs."""

from __future__ import annotations

import numpy as np
import pytest

from sweep.broken import PLANTED, runs_until_caught
from sweep.checks import Result
from sweep.coverage import SIGNATURES, unknown_names
from sweep.models import Model, Needs, Support, draw_model
from sweep.sweep import Case, cells_of, exceeding, failing, report_of, run_one, upper_bound

QUICK = {"simulate": 25, "learn": 20, "log": 45, "task": 10}


def test_every_option_is_drawn_or_left_out_for_a_reason() -> None:
    assert unknown_names() == {}


def test_a_new_option_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    names, drawn, left_out = SIGNATURES["ucfh.learn"]
    more = lambda: {*names(), "discount"}  # noqa: E731
    monkeypatch.setitem(SIGNATURES, "ucfh.learn", (more, drawn, left_out))
    assert unknown_names() == {"ucfh.learn": ["discount"]}


@pytest.mark.parametrize("entry", QUICK)
def test_runs_show_no_error(entry: str) -> None:
    results = [run_one(entry, 10_000 + seed) for seed in range(QUICK[entry])]
    assert [(x.seed, x.errors) for x in results if x.errors] == []
    assert exceeding(cells_of(results), 1e-4) == []


def test_a_run_can_be_repeated() -> None:
    once, again, other = (run_one("log", 7), run_one("log", 7), run_one("log", 8))
    assert once == again
    assert once.labels != other.labels


def test_values_of_a_model_by_hand() -> None:
    """Two states: stay in 0 for 1 a step, or go to 1, which pays 3 at the last step alone."""
    stay: Support = ((1.0, 1.0),)
    go: Support = ((1.0, 0.0),)
    late: Support = ((1.0, 3.0),)
    p = np.zeros((2, 2, 2, 2))
    p[:, 0, 0, 0] = p[:, 0, 1, 1] = p[:, 1, :, 1] = 1.0
    pays = [
        [[[stay] * 2, [go] * 2], [[go] * 2] * 2],
        [[[stay] * 2, [go] * 2], [[late] * 2] * 2],
    ]
    all_actions = np.ones((2, 2), bool)
    start = np.array([1.0, 0.0])
    model = Model(3, (2,), p, pays, all_actions, frozenset(), None, start, 0.0, 3.0)
    assert model.best == 4.0  # stay, go, 3 is 1 + 0 + 3
    assert model.largest_return == 4.0
    assert model.at_start(model.values([[0, 0]] * 3)) == 3.0
    assert model.at_start(model.values_of_mixture(np.full((3, 2, 2), 0.5))) == 3.125


def test_draws_have_the_mean_of_the_model() -> None:
    rng = np.random.default_rng(0)
    model = draw_model(rng, Needs())
    s = model.decision_states[0]
    a = model.choices(s)[0]
    draws = [model.draw(rng, 0, s, a) for _ in range(4000)]
    expected = model.q_values(0, model.optimal[1])[s, a]
    seen = np.mean([r + model.optimal[1, x] for r, x in draws])
    width = 4 * (model.high - model.low) * model.horizon / np.sqrt(len(draws))
    assert abs(seen - expected) <= width


def test_thresholds() -> None:
    def runs(count: int, wrong: int) -> list[Result]:
        kinds = [["x"]] * wrong + [[]] * (count - wrong)
        return [Result("log", i, 0.1, {"a": "b"}, v) for i, v in enumerate(kinds)]

    assert report_of(runs(500, 50), []).passed
    assert not report_of(runs(500, 100), []).passed
    assert not report_of([Result("log", 0, errors=["crash"])], []).passed
    assert upper_bound(0, 100) == pytest.approx(1 - 0.05**0.01)
    always = Case("log", 1, 0.1, "violations", 40, 40, 1e-40)
    assert failing([always]) == [always]
    assert not report_of(runs(500, 1), [always]).passed


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PLANTED)[:1])
def test_a_planted_bug_is_caught_soon(name: str) -> None:
    assert runs_until_caught(name, 10) is not None


@pytest.mark.verify
@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_caught(name: str) -> None:
    """Shows after how many runs."""
    caught = runs_until_caught(name, MOST_RUNS)
    print(f"{name}: caught after {caught} runs")
    assert caught is not None


MOST_RUNS = 3000
