"""Integers of Python and NumPy as arguments, and errors for all other values."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucfh
from support.agents import fitting
from ucfh._utils.defaults import DELTA
from ucfh.algorithms.psrl import OPSRL, PSRL
from ucfh.algorithms.registry import AGENTS
from ucfh.exceptions import InputError, check_count, check_seed, unknown
from ucfh.logs.synthetic import write_log

CHAIN = ucfh.make("chain:n=3,horizon=3")
KINDS: tuple[Any, Any] = (np.int64, int)


@pytest.fixture(autouse=True)
def _no_overflow() -> Iterator[None]:
    """NumPy warns where its integers overflow."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("kind", [int, np.int8, np.uint16, np.int64])
def test_integers_of_any_kind(kind: Callable[[int], Any]) -> None:
    assert (check_count("n", kind(1)), check_count("n", kind(100))) == (1, 100)
    assert check_seed(kind(0)) == 0
    assert type(check_count("n", kind(3))) is type(check_seed(kind(3))) is int


@pytest.mark.parametrize("wrong", [True, np.True_, 1.0, np.float64(2), "3", None, -1])
def test_invalid_counts_are_refused(wrong: Any) -> None:
    for check, least in ((lambda x: check_count("n", x), 1), (check_seed, 0)):
        with pytest.raises(InputError, match=f"must be an integer of at least {least}$"):
            check(wrong)


@pytest.mark.parametrize("name", [True, None, 3, ("a", "b")])
def test_names_that_are_not_strings_are_refused(name: Any) -> None:
    assert str(unknown("set", name, ["kt", "l1"])) == f"unknown set {name!r} (known: kt, l1)"


@pytest.mark.parametrize("stop", [True, False, 1, "certificat", np.True_])
def test_a_wrong_stop_is_one_line(stop: Any) -> None:
    with pytest.raises(
        InputError, match=r"^stop = .* must be 'certificate', or None to learn without end"
    ):
        ucfh.CertifiedUCFH(CHAIN.problem, 0.5, 0.1, stop=stop)


@pytest.mark.parametrize("kind", [np.int8, np.int64])
def test_sizes_of_problems(kind: Callable[[int], Any]) -> None:
    size, sizes = (100, 2, 100), (kind(100), kind(2), kind(100))
    assert repr(ucfh.Problem(*sizes)) == repr(ucfh.Problem(*size))
    assert ucfh.constants(*sizes, 0.1, 0.1, kind(5)) == ucfh.constants(*size, 0.1, 0.1, 5)
    assert ucfh.bounds(*sizes, 0.1, 0.1, kind(5)) == ucfh.bounds(*size, 0.1, 0.1, 5)
    p, r = np.full((2, 1, 2), 0.5), [[0.0], [1.0]]
    one, other = (ucfh.MDP(p, r, k(3), k(1), terminal=[k(0)]) for k in (kind, int))
    assert one.at_start(one.optimal().values) == other.at_start(other.optimal().values)


def test_large_numpy_sizes_do_not_overflow() -> None:
    one, other = (ucfh.bounds(n(10**6), n(10**6), n(10**6), 0.1, 0.1) for n in KINDS)
    assert one == other


def run_and_save(
    agent: Any, path: Path, n: Any = np.int64, mdp: ucfh.MDP = CHAIN
) -> dict[str, Any]:
    run = ucfh.simulate(mdp, agent, n(20), n(4))
    run.save(path, force=True)
    assert ucfh.Run.load(path).about == run.about
    return json.loads(json.dumps({**run.about, "regret": run.regret}))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", AGENTS)
def test_episodes_and_seeds_of_agents(name: str, tmp_path: Path) -> None:
    """The same run, which can be saved."""
    mdp, path = fitting(name), tmp_path / "run.npz"
    numpys, pythons = (
        run_and_save(ucfh.make_agent(name, mdp, 0.5, 0.1, n(20), n(4)), path, n, mdp) for n in KINDS
    )
    assert numpys == pythons


def test_settings_of_agents(tmp_path: Path) -> None:
    problem, n = CHAIN.problem, KINDS[0]
    one = n(1)
    half: Any = np.float32(0.5)
    for agent in (
        OPSRL(problem, 0.5, 0.1, n(20), seed=one, J=n(3), n0=one),
        PSRL(problem, 0.5, 0.1, n(20), seed=one, prior=one),
        ucfh.UCFH(problem, one, one),
        ucfh.UCFH(problem, half, half, m=n(20)),
        ucfh.CertifiedUCFH(problem, 0.5, 0.1, m=n(20), schedule="paper"),
    ):
        run_and_save(agent, tmp_path / "run.npz")


@pytest.mark.slow
def test_numbers_of_runs_and_of_rows(tmp_path: Path) -> None:
    results = [ucfh.compare(CHAIN, ["psrl"], n(20), n(2), workers=n(1)) for n in KINDS]
    assert [x.regret for x in results[0].outcomes] == [x.regret for x in results[1].outcomes]
    json.dumps([results[0].episodes, results[0].seeds])
    one, other = (ucfh.verify(CHAIN, 0.5, 0.1, runs=n(1), seed=n(3)) for n in KINDS)
    assert one == other
    write_log(CHAIN, tmp_path / "log.csv", np.int64(9), seed=np.int64(2))  # type: ignore[arg-type]


def test_one_default_of_delta_everywhere() -> None:
    from inspect import signature

    from ucfh.cli import certify, compare, learn, verify

    commands = (learn.learn, certify.certify, compare.compare, verify.verify)
    for call in (ucfh.certify, ucfh.compare, *commands):
        assert signature(call).parameters["delta"].default == DELTA == 0.1
