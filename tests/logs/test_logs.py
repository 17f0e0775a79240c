"""Logs: the fast reader against the slow one, each kind of fault, each format."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from support import log_files
from support.errors import refusal
from support.log_files import (
    ACTIONS,
    FUZZ,
    GOOD,
    HEAD,
    STATES,
    TOLD,
    assert_same,
    assumed,
    logs,
    problems,
    read,
    slow_read,
    write,
)
from support.settings import DOCS
from ucfh import MDP, InputError, Problem, make
from ucfh.logs import batches, csv_rows, labels
from ucfh.logs.issues import IssueKind
from ucfh.logs.reading import Log, read_log
from ucfh.logs.synthetic import write_log

PAGE = DOCS / "howto" / "logs.md"


declared = st.fixed_dictionaries(
    {},
    optional={
        "states": st.just([*STATES, "end"]),
        "actions": st.just(ACTIONS),
        "horizon": st.integers(1, 4),
        "time_dependent": st.booleans(),
    },
)


def attempt(path: Path, *args: Any, **options: Any) -> Log | str:
    """The log in a file that may be damaged, or the line that says why it is refused."""
    try:
        return read_log(path, *args, **{"accept_losses": True, **options})
    except InputError as error:
        message = str(error)
    assert message.startswith(str(path))
    assert len(message.splitlines()) == 1
    return message


def fields(log: Log) -> tuple[Any, ...]:
    """All that two readings of the same rows share, whatever the format."""
    problem = log.problem
    return (
        *(log.rows, log.episodes, log.counted, problem.horizon, problem.terminal),
        *(problem.state_names, problem.action_names, problem.table.segments),
        *(x.tolist() for x in (log.counts.visits, log.counts.successors)),
        *(x.tolist() for x in (log.counts.rewards, log.counts.least, log.counts.most)),
        [(fault.kind, fault.count) for fault in log.faults],
        log.assumptions,
    )


@pytest.mark.slow
@FUZZ
@given(
    content=logs(),
    problem=st.none() | problems(),
    options=declared,
    quote=st.booleans(),
    chunk=st.sampled_from([8, 64, 2**16]),
)
def test_finds_what_the_slow_reader_finds(
    content: list[dict[str, Any]],
    problem: Problem | None,
    options: dict[str, Any],
    quote: bool,
    chunk: int,
    tmp_path: Path,
) -> None:
    options = {} if problem is not None else options
    for ending in ("csv", "jsonl", "parquet"):
        path = write(content, tmp_path / f"log.{ending}", quote)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv_rows, "CHUNK", chunk)
            patch.setattr(batches, "BATCH", chunk // 8)
            patch.setattr(labels, "MOST_KEPT", chunk)
            log = attempt(path, problem, **options)
            careful = attempt(path, problem, **options, accept_losses=False)
        slow = slow_read(path, problem, **options)
        if isinstance(log, Log):
            assert_same(log, slow)
            assert isinstance(careful, str) == slow.has_lost_its_point
            if isinstance(careful, str) and slow.lost and "contradicts" not in careful:
                assert f"{slow.lost} of {slow.rows} rows are lost" in careful
        else:
            assert "no row of it can be counted" in log
            assert not (slow.states and slow.actions and slow.horizon)


@pytest.mark.slow
@FUZZ
@given(content=logs(), data=st.data())
def test_any_damage_to_the_text(
    content: list[dict[str, Any]], data: st.DataObject, tmp_path: Path
) -> None:
    """Cut anywhere, and with lines of other things, it still finds what the slow reader finds."""
    for name in ("log.csv", "log.jsonl"):
        path = write(content, tmp_path / name)
        lines = path.read_bytes().splitlines(keepends=True)
        for _ in range(data.draw(st.integers(0, 2))):
            odd = data.draw(st.sampled_from([b"\n", b"1,2\n", b"{}\n", b"[1]\n", b",,,,,,,,\n"]))
            lines.insert(data.draw(st.integers(1, max(1, len(lines)))), odd)
        text = b"".join(lines)
        first = len(lines[0]) if lines else 0
        path.write_bytes(text[: data.draw(st.integers(first, max(first, len(text))))])
        log = attempt(path, states=[*STATES, "end"], actions=ACTIONS, horizon=3)
        if isinstance(log, Log):
            assert_same(log, slow_read(path, None, [*STATES, "end"], ACTIONS, 3))
        else:
            assert "no column is called" in log  # the first object lacks some


@pytest.mark.slow
@FUZZ
@given(content=logs(), options=declared)
def test_formats_agree(
    content: list[dict[str, Any]], options: dict[str, Any], tmp_path: Path
) -> None:
    options = {"horizon": 3, "states": [*STATES, "end"], "actions": ACTIONS, **options}
    plain = write(content, tmp_path / "log.csv")
    text = plain.read_bytes()
    paths = [plain, write(content, tmp_path / "quoted.csv", quote=True)]
    paths.append(write(content, tmp_path / "crlf.csv", end="\r\n"))
    paths += [write(content, tmp_path / f"log.{ending}") for ending in ("jsonl", "parquet")]
    variants = {
        "bom.csv": b"\xef\xbb\xbf" + text,
        "log.csv.gz": gzip.compress(text),
    }
    for name, variant in variants.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(variant)
    first, *others = (fields(read_log(path, **options, accept_losses=True)) for path in paths)
    for other in others:
        assert other == first


@FUZZ
@given(
    content=st.binary(max_size=300), ending=st.sampled_from(["csv", "jsonl", "parquet", "csv.gz"])
)
def test_random_bytes(content: bytes, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{ending}"
    for text in (content, HEAD.encode() + content):
        path.write_bytes(text)
        log = attempt(path, states=2, actions=2, horizon=3)
        assert not isinstance(log, Log) or log.counted <= log.rows


MORE = "2,0,a,x,0,a,\n2,1,a,x,0,a,\n"


@pytest.mark.parametrize(
    ("kind", "text", "line", "told"),
    [
        ("line", "1,0,a,x,0\n", 4, "5 values"),
        ("line", "1,0,a,x,0,b,,\n", 4, "8 values"),
        ("line", "1,0,a,,0,b,\n", 4, "action is missing"),
        ("line", ",0,a,x,0,b,\n", 4, "episode is missing"),
        ("line", "1,0,a,x,0,b,perhaps\n", 4, "'perhaps' is neither true nor false"),
        ("line", '1,0,a,"x"y,0,b,\n', 4, "not CSV"),
        ("cut", "1,0,a,x,0,b,\n1,1,b,x,0,b", 5, "no line break"),
        ("cut", "1,0,a,x,0,b,\n", 4, "after 1 of 2 steps, in state 'b'"),
        ("repeat", "1,0,a,x,0,a,\n1,1,a,x,0,a,\n0,0,a,x,0,a,\n", 6, "'0' appeared before"),
        ("after", "1,0,a,y,0,end,\n1,1,end,x,0,end,\n", 5, "t '1' comes after the end"),
        ("after", "1,0,a,y,0,end,true\n1,1,a,x,0,b,\n", 5, "after the end"),
        ("t", "1,1,a,x,0,a,\n", 4, "t '1' where 0 is expected"),
        ("t", "1,0,a,x,0,b,\n1,0,b,x,0,b,\n", 5, "t '0' where 1 is expected"),
        ("t", "1,0,a,x,0,b,\n1,one,b,x,0,b,\n", 5, "t 'one' where 1 is expected"),
        (
            "long",
            "1,0,a,x,0,a,\n1,1,a,x,0,b,\n1,2,b,x,0,b,\n",
            6,
            "t '2' is beyond the horizon of 2",
        ),
        ("state", "1,0,c,x,0,a,\n", 4, "state 'c' is not one of the 3 states"),
        ("state", "1,0,,x,0,a,\n", 4, "state is missing"),
        ("start", "1,0,b,x,0,b,\n", 4, "state 'b' is not one in which"),
        ("action", "1,0,a,z,0,a,\n", 4, "action 'z' is not one of the 2 actions"),
        ("action", "1,0,a,x,0,b,\n1,1,b,y,0,b,\n", 5, "state 'b' has no action 'y'"),
        ("range", "1,0,a,x,1.01,a,\n", 4, "reward '1.01'"),
        ("reward", "1,0,a,x,nan,a,\n", 4, "reward 'nan'"),
        ("reward", "1,0,a,x,,a,\n", 4, "reward is missing"),
        ("next_state", "1,0,a,x,0,c,\n", 4, "next_state 'c' is not one of the 3 states"),
        ("next_state", "1,0,a,x,0,,\n", 4, "next_state is missing"),
        ("excluded", "1,0,a,y,0,b,\n", 4, "'b' cannot follow state 'a' and action 'y'"),
        (
            "mismatch",
            "1,0,a,x,0,b,\n1,1,a,x,0,a,\n",
            4,
            "next_state 'b', but the next row has state 'a'",
        ),
        (
            "short",
            f"1,0,a,x,0,b,\n{MORE}",
            4,
            "after 1 of 2 steps, in state 'b'",
        ),
        ("done", f"1,0,a,x,0,b,1\n{MORE}", 4, "which is not terminal"),
    ],
)
def test_each_kind_of_fault(kind: str, text: str, line: int, told: str, tmp_path: Path) -> None:
    log = read(GOOD + text, tmp_path, TOLD)
    (fault,) = log.faults
    assert (fault.kind, fault.count, fault.lines) == (kind, 1, (line,))
    assert told in fault.example
    assert str(fault) == f"1 x {fault.what}: line {line}: {fault.example}; {fault.remedy}"
    assert fault.harmless == (kind in ("cut", "long"))
    assert fault.harmless == ("issues" not in assumed(log))
    assert_same(log, slow_read(tmp_path / "log.csv", TOLD))
    message = refusal(read, GOOD + text, tmp_path, TOLD, strict=True)
    assert message == f"{tmp_path / 'log.csv'}: {fault.first}"
    assert read(GOOD, tmp_path, TOLD, strict=True).counted == 2


def test_every_kind_is_tested() -> None:
    marks = [m for m in test_each_kind_of_fault.pytestmark if m.name == "parametrize"]  # type: ignore[attr-defined]
    tested = {case[0] for case in marks[0].args[1]}
    assert tested == {kind.name.lower() for kind in IssueKind} - {"none"}


def test_a_value_too_many_does_not_make_up_for_one_too_few(tmp_path: Path) -> None:
    log = read("0,0,a,x,0,a,,\n1,0,a,x,0,a\n2,0,a,x,0,a,\n", tmp_path, horizon=1)
    assert [(fault.kind, fault.lines) for fault in log.faults] == [("line", (2, 3))]
    assert log.counted == 1


def test_what_happens_before_a_fault_counts(tmp_path: Path) -> None:
    """Dropping whole episodes would bias the first step: all those through b have a fault."""
    episode = "{0},0,a,x,0,{1},\n{0},1,{1},{2},0,{1},\n"
    through = [("b", "?") if i % 3 else ("a", "x") for i in range(30)]
    text = "".join(episode.format(i, s, action) for i, (s, action) in enumerate(through))
    log = read(text, tmp_path, states=["a", "b"], actions=["x"], horizon=2)
    assert log.counts.successors.tolist() == [10 + 10, 20, 0, 0, 30, 0]
    assert [(fault.kind, fault.count) for fault in log.faults] == [("action", 20)]
    assert (log.rows, log.counted) == (60, 40)


def test_the_start_counts_whatever_comes_of_it(tmp_path: Path) -> None:
    log = read("0,0,a,x,9,a,\n1,0,b,x,0,a,\n", tmp_path, states=["a", "b"], horizon=1)
    assert log.counts.successors[-2:].tolist() == [1, 1]
    assert log.counted == 1


def test_done_makes_a_terminal_state(tmp_path: Path) -> None:
    text = "0,0,a,x,0,a,0\n0,1,a,x,1,won,1\n1,0,a,x,0,a,0\n1,1,a,x,0,a,0\n1,2,a,x,0,a,1\n"
    log = read(text, tmp_path)
    assert log.problem.state_names == ("a", "won")
    assert log.problem.terminal == (1,)  # at the horizon, done says nothing of a
    assert not log.faults
    assert "'won'" in assumed(log)["terminal"]
    # on the way to a and to won; after the end; and at the start
    assert log.counts.rewards.tolist() == [0, 1, 0, 0, 0]
    assert log.counts.least.tolist() == [0, 1, 1, 1, 1]
    assert log.counts.most.tolist() == [0, 1, 0, 0, 0]


def test_done_in_a_state_that_goes_on(tmp_path: Path) -> None:
    text = "0,0,a,x,0,b,1\n1,0,a,x,0,b,0\n1,1,b,x,0,a,0\n"
    log = read(text, tmp_path)
    assert log.problem.terminal == ()
    assert log.counted == 3
    assert [(fault.kind, fault.lines) for fault in log.faults] == [("done", (2,))]


def test_terminal_states_of_a_problem_need_no_done(tmp_path: Path) -> None:
    log = read("0,0,a,y,0,end,\n1,0,a,y,0,end,\n", tmp_path, TOLD)
    assert not log.faults
    assert log.counted == 2


@pytest.mark.parametrize("first", [0, 1])
def test_steps_count_from_0_or_from_1(first: int, tmp_path: Path) -> None:
    text = "".join(f"{e},{t + first},a,x,0,a,\n" for e in range(3) for t in range(2))
    log = read(text, tmp_path)
    assert not log.faults
    assert log.problem.horizon == 2
    assert ("first_step" in assumed(log)) == bool(first)


def test_a_log_that_begins_within_an_episode(tmp_path: Path) -> None:
    log = read("0,1,a,x,0,a,\n1,0,a,x,0,a,\n1,1,a,x,0,a,\n", tmp_path)
    assert [(fault.kind, fault.lines) for fault in log.faults] == [("t", (2,))]
    assert log.counted == 2


def test_what_was_not_declared_is_assumed(tmp_path: Path) -> None:
    text = "0,0,a,x,0,b,\n0,1,b,y,0,b,\n"
    codes = set(assumed(read(text, tmp_path)))
    assert {"actions", "horizon", "markov", "rewards"} <= codes
    assert "states" not in codes  # there may be more than the log shows
    options = {"states": ["a", "b", "c"], "actions": ["x", "y"], "horizon": 2}
    declared = read(text, tmp_path, **options, time_dependent=True)
    codes = set(assumed(declared))
    assert "states" in codes
    assert codes.isdisjoint({"actions", "horizon"})
    assert declared.problem.states == 3
    assert declared.problem.table.segments == 2
    assert "problem" in assumed(read(text, tmp_path, TOLD))


def test_labels_in_order(tmp_path: Path) -> None:
    numbers = read("0,0,10,1,0,9,\n0,1,9.0,0,0,10,\n", tmp_path)
    assert numbers.problem.state_names == ("9", "10")
    assert numbers.problem.action_names is None
    assert not numbers.faults
    assert read("0,0,1,b,0,0,\n0,1,0, a ,0,1,\n", tmp_path).problem.state_names is None
    assert read("0,0,1,b,0,0,\n0,1,0, a ,0,1,\n", tmp_path).problem.action_names == ("a", "b")
    assert read("0,0,10,b,0,9x,\n", tmp_path).problem.state_names == ("10", "9x")


def test_a_state_shown_only_after_a_fault_exists(tmp_path: Path) -> None:
    log = read("0,0,a,x,7,a,\n0,1,a,x,0,cliff,\n1,0,a,x,0,a,\n1,1,a,x,0,a,\n", tmp_path)
    assert log.problem.state_names == ("a", "cliff")


def test_numbers_and_names_of_a_problem(tmp_path: Path) -> None:
    by_name = read(GOOD, tmp_path, TOLD)
    by_number = read(GOOD.replace("a", "0").replace("b", "1").replace("x", "0"), tmp_path, TOLD)
    assert fields(by_name) == fields(by_number)


def small() -> MDP:
    """Segments, noise, rewards on the next state, fewer actions, an end, a random start."""
    rng = np.random.default_rng(1)
    p = (rng.dirichlet(np.ones(4), (3, 4, 2)) + 0.25) / 2
    p[0, 0, 0] = [0, 0.5, 0, 0.5]
    return MDP(
        p,
        rng.random((3, 4, 2, 4)),
        3,
        [0.3, 0.7, 0, 0],
        noise="bernoulli",
        available=[[True, True], [True, False], [False, True], [True, True]],
        terminal=[3],
        state_names=["a", "b, or not", 'c"', "end"],
    )


def test_written_logs_follow_the_law(tmp_path: Path) -> None:
    """Each row's counts are multinomial: chi-square, at a level split over all of them."""
    mdp, path = small(), tmp_path / "log.csv"
    write_log(mdp, path, 20_000)
    log = read_log(path, mdp.problem.hiding("rewards"), strict=True)
    assert log.episodes == 20_000
    counts, table = log.counts, mdp.table
    tests = 0
    for row in range(table.rows):
        at = table.entries_of(row)
        possible = mdp.p[at] > 0
        assert not counts.successors[at][~possible].any()
        n = counts.visits[row]
        if n == 0:
            continue
        assert n > 500
        tests += 1
        expected = n * mdp.p[at][possible] / mdp.p[at][possible].sum()
        assert stats.chisquare(counts.successors[at][possible], expected).pvalue > 1e-6
        if row < table.start:
            mean = mdp.mean_rewards.ravel()[row]
            ones = int(counts.rewards[at].sum())
            assert stats.binomtest(ones, int(n), mean).pvalue > 1e-6
            assert set(np.concatenate([counts.least[at], counts.most[at]])) <= {0.0, 1.0}
    assert tests == 3 + 4 + 4 + 1
    both = counts.visits[: table.pairs][table.state == 0]
    assert stats.binomtest(int(both[0]), int(both.sum())).pvalue > 1e-6


def test_written_logs_follow_a_policy(tmp_path: Path) -> None:
    mdp, path = make("chain:n=3,horizon=3"), tmp_path / "log.csv"
    policy = mdp.optimal().policy
    write_log(mdp, path, 50, policy=policy, seed=3)
    log = read_log(path, mdp, strict=True)
    used = np.zeros(mdp.table.pairs, bool)
    used[mdp.table.rows_of(policy, 3)] = True
    assert not log.counts.visits[:-1][~used].any()
    assert log.counts.visits.sum() == 50 * (3 + 1)
    again = tmp_path / "again.csv"
    write_log(mdp, again, 50, policy=policy, seed=3)
    assert again.read_bytes() == path.read_bytes()
    assert "exists" in refusal(write_log, mdp, path, 1)
    assert "episodes = 0" in refusal(write_log, mdp, again, 0, force=True)
    assert "unknown ending" in refusal(write_log, mdp, tmp_path / "log.json", 1)
    gone = MDP([[[0, 1]], [[0, 1]]], [[0], [0]], 2, [0.5, 0.5], terminal=[1])
    assert "leaves no row" in refusal(write_log, gone, tmp_path / "gone.csv", 1)


def test_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every piece of code on the page runs, on the files that the page shows."""
    page = PAGE.read_text()
    monkeypatch.chdir(tmp_path)
    (content,) = re.findall(r"```csv\n(.*?)```", page, re.DOTALL)
    Path("shop.csv").write_text(content)
    scope: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, scope)
        said = capsys.readouterr().out.splitlines()
        assert said == re.findall(r"# (.*)\n", code)
    (line,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    Path("shop.jsonl").write_text(line)
    assert read_log("shop.jsonl").counted == len(line.splitlines())
    kinds = Counter(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert set(log_files.COLUMNS) | {kind.name.lower() for kind in IssueKind if kind} <= set(kinds)


def test_done_without_a_next_state_is_the_end(tmp_path: Path) -> None:
    text = "0,0,a,x,0,b,0\n0,1,b,x,1,,1\n1,0,a,x,0,,1\n2,0,a,x,0,b,0\n2,1,b,x,0,b,\n"
    for options in ({}, {"states": ["a", "b"]}, {"time_dependent": True}):
        log = read(text, tmp_path, **options)
        assert log.problem.state_names == ("a", "b", "(end)")
        assert log.problem.terminal == (2,)
        assert_same(log, slow_read(tmp_path / "log.csv", **options))
    assert [fault.kind for fault in read(text, tmp_path, TOLD).faults] == ["next_state"]
