"""``ucfh study`` and ``ucfh report``, as a person and as a program use them."""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from joblib.externals.loky import get_reusable_executor

from helpers import study_measures as measures
from helpers.command_line import fails, run
from helpers.dask_cluster import cluster
from helpers.interruptions import OWN, finish, kill_often, of_session, results, start
from helpers.lengths import LONG, many
from helpers.paths import TESTS
from ucfh import __version__
from ucfh.experiments import runner
from ucfh.experiments.jobs import made_with
from ucfh.experiments.measures import MEASURES
from ucfh.experiments.store import FILE
from ucfh.report.section import Figure, Reading
from ucfh.studies import readings
from ucfh.studies.catalogue import STUDIES

Capture = pytest.CaptureFixture[str]
REAL = """[[grid]]
measure = "lifetime"
replicates = 3
problem = ["chain:n=3,horizon=3", "chain:n=4,horizon=3"]
epsilon = 0.5
delta = 0.1
[[grid]]
measure = "stationary"
problem = "chain:n=3,horizon=3"
"""
SIXTY = f'[[grid]]\nmeasure = "steady"\nnumber = {[*range(60)]}\n'


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place to work, with measures of our own; files are written by `spec`."""
    for name, measure in measures.OWN.items():
        monkeypatch.setitem(MEASURES, name, measure)
    monkeypatch.setattr(runner, "do", measures.do)
    monkeypatch.setattr(readings, "read_results", measures.read)
    monkeypatch.setitem(readings.READINGS, "claims", tuple(MEASURES))
    monkeypatch.setenv("UCFH_MARKS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def spec(*grids: str, name: str = "mine") -> str:
    Path(f"{name}.toml").write_text(measures.TEXT + "\n".join(grids))
    return f"{name}.toml"


def grid(measure: str, *lines: str) -> str:
    return "\n".join(["[[grid]]", f'measure = "{measure}"', *lines, ""])


def count(folder: str = "results") -> int:
    return len(results(Path(folder)))


@pytest.mark.slow
@pytest.mark.usefixtures("mine")
def test_one_json_object(capsys: Capture) -> None:
    asked = ["study", spec(REAL), "--workers", "1", "--json"]
    code, out, err = run(capsys, *asked)
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert {k: result[k] for k in ("folder", "report", "jobs", "done", "failures")} == {
        "folder": "results", "report": "results/report.html", "jobs": 7, "done": 7, "failures": []
    }  # fmt: skip
    assert (result["interrupted"], result["version"]) == (False, __version__)
    (study,) = result["studies"]
    assert (study["name"], study["title"], study["results"], study["missing"]) == (
        "mine", "A study", 7, 0
    )  # fmt: skip
    assert study["seen"] == ["7 results."]
    assert "A study" in Path("results/report.html").read_text()
    before = results(Path("results"))
    began = time.perf_counter()
    code, out, err = run(capsys, *asked)  # nothing is left to do
    assert time.perf_counter() - began < 5
    again = json.loads(out)
    assert {**again, "seconds": 0} == {**result, "seconds": 0}
    assert results(Path("results")) == before


@pytest.mark.usefixtures("mine")
def test_for_a_person(capsys: Capture) -> None:
    code, out, err = run(capsys, "study", spec(grid("good", "replicates = 3")), "--workers", "1")
    assert (code, err) == (0, "")
    assert "A study (mine)" in out
    assert "3 results." in out
    assert out.splitlines()[-1].split() == ["report", "results/report.html"]


@pytest.mark.usefixtures("mine")
def test_figures_for_a_screen_and_for_print(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = Figure("two lines", "", "", lambda figure: figure.subplots().plot([1, 2]))
    found = Reading(["Seen."], [figure], [])
    monkeypatch.setattr(readings, "read_results", lambda *_: found)
    asked = ["study", spec(grid("good")), "--workers", "1"]
    for more, width in (([], 5.5), (["--width", "3.3"], 3.3)):
        assert run(capsys, *asked, *more)[0] == 0
        assert Path("results/two lines.svg").read_text() == figure.svg
        assert Path("results/two lines.pdf").read_bytes() == figure.pdf(width)
    for wrong in ("0", "-3.3", "330", "nan"):
        assert "inches: pass one such as 3.3" in fails(capsys, *asked, f"--width={wrong}")


@pytest.mark.slow
def test_the_list(capsys: Capture) -> None:
    code, out, err = run(capsys, "study")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[: len(STUDIES)]] == list(STUDIES)
    code, out, err = run(capsys, "study", "--json")
    assert [study["name"] for study in json.loads(out)["studies"]] == list(STUDIES)


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.usefixtures("mine")
def test_any_number_of_workers_gives_the_same_results(capsys: Capture) -> None:
    name = spec(REAL)
    for workers in ("1", "2", "3"):
        assert run(capsys, "study", name, "--workers", workers, "--out", workers)[0] == 0
    assert results(Path("1")) == results(Path("2")) == results(Path("3"))
    assert run(capsys, "study", name, "--workers", "2", "--seed", "1", "--out", "other")[0] == 0
    assert {row[0] for row in results(Path("1"))}.isdisjoint(x[0] for x in results(Path("other")))
    assert len({row[6] for row in results(Path("1")) + results(Path("other"))}) > 9


@pytest.mark.usefixtures("mine")
def test_more_jobs_are_added_to_what_is_there(capsys: Capture) -> None:
    small = spec(grid("good", "replicates = 3", "quick = { replicates = 2 }"), name="small")
    for more, number in [(["--quick"], 2), ([], 3), (["--seed", "1"], 6)]:
        code, out, _ = run(capsys, "study", small, "--workers", "1", "--json", *more)
        assert (code, count()) == (0, number)
    large = spec(grid("good", "replicates = 5"), name="large")
    code, out, _ = run(capsys, "study", large, small, "--workers", "1", "--json")
    assert (code, count()) == (0, 8)  # those of seed 0 were there
    assert [(x["name"], x["results"]) for x in json.loads(out)["studies"]] == [
        ("large", 5), ("small", 3)
    ]  # fmt: skip
    code, out, _ = run(capsys, "report", "--json")
    assert (code, [x["name"] for x in json.loads(out)["studies"]]) == (0, ["large", "small"])


@pytest.mark.slow
def test_failures_are_named_and_tried_again(mine: Path, capsys: Capture) -> None:
    get_reusable_executor().shutdown(wait=True)  # they have another environment
    name = spec(grid("faulty", "number = [0, 1, 2]"), grid("odd"))
    code, out, err = run(capsys, "study", name, "--workers", "2", "--json")
    assert code == 1
    assert sorted(err.splitlines()) == [
        "ucfh: faulty (number 1): RuntimeError: no way",
        "ucfh: odd (): ValueError: Out of range float values are not JSON compliant",
    ]
    result = json.loads(out)
    assert (result["jobs"], result["done"], len(result["failures"])) == (4, 2, 2)
    assert {"number": 1, "reason": "RuntimeError: no way"} in result["failures"]
    assert (result["studies"][0]["results"], result["studies"][0]["missing"]) == (2, 2)
    (mine / "mended").touch()
    code, out, err = run(capsys, "study", name, "--workers", "2", "--json")
    assert (code, json.loads(out)["done"], count()) == (1, 3, 3)
    assert err.startswith("ucfh: odd ()")
    code, out, err = run(capsys, "study", spec(grid("odd")), "--workers", "1", "--out", "odd")
    assert code == 1
    assert "No job has a result yet." in out


@pytest.mark.usefixtures("mine")
def test_many_failures_are_counted(capsys: Capture) -> None:
    name = spec(grid("odd"), *(grid("deep", f"number = {k}") for k in range(8)))
    code, _, err = run(capsys, "study", name, "--workers", "1")
    lines = err.splitlines()
    assert (code, len(lines), lines[-1]) == (1, 6, "ucfh: and 4 more jobs failed")


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("workers", ["1", "2"] if LONG else ["2"])
def test_a_job_that_kills_its_process_is_named(capsys: Capture, workers: str) -> None:
    name = spec(grid("deadly", "number = [0, 1, 2, 3, 4]"), grid("good", "replicates = 3"))
    code, out, err = run(capsys, "study", name, "--workers", workers, "--json")
    assert (code, err) == (
        1, "ucfh: deadly (number 2): its process died twice: out of memory?\n"
    )  # fmt: skip
    assert (json.loads(out)["done"], count()) == (7, 7)


@pytest.mark.usefixtures("mine")
def test_wrong_input(capsys: Capture) -> None:
    good = spec(grid("good"))
    for given, words in [
        (["mistaks"], "did you mean 'mistakes'"),
        (["none.toml"], "none.toml does not exist"),
        ([good, f"./{good}"], "two studies are called mine: rename"),
        ([good, "--seed", "-1"], "seed = -1"),
        ([good, "--seed", str(2**63)], "less than 2^63"),
        ([good, "--seed", "x"], "--seed"),
        ([good, "--workers", "0"], "workers = 0"),
        ([good, "--workers", "1", "--cluster", "tcp://127.0.0.1:1"], "leave one out"),
        ([good, "--cluster", "foo"], "no Dask scheduler answers at foo"),
        ([good, "--out", good], f"cannot use the folder {good}"),
        ([good, "--out", "."], "holds other files"),
        ([spec(grid("good", "numbr = 1"), name="bad")], "bad.toml: grid[0]: "),
    ]:
        assert words in fails(capsys, "study", *given), given
    Path("odd.toml").write_text(Path(good).read_text().replace('"claims"', '"clams"'))
    assert "odd.toml: reading: unknown reading 'clams': did you" in fails(
        capsys, "study", "odd.toml"
    )
    Path("odd.toml").write_text(Path(good).read_text().replace('"claims"', '"peers"'))
    assert "odd.toml: reading: peers does not read good: write claims" in fails(
        capsys, "study", "odd.toml"
    )
    assert not Path("results", FILE).exists() or count() == 0  # nothing was done
    for given, words in [
        (["none"], "run a study first"),
        ([good], "run a study first"),
        (["results", "--html", "x.txt"], "unknown ending"),
    ]:
        assert words in fails(capsys, "report", *given), given


@pytest.mark.usefixtures("mine")
def test_other_versions_are_refused_and_read(capsys: Capture) -> None:
    name = spec(grid("good", "replicates = 2"))
    assert run(capsys, "study", name, "--workers", "1")[0] == 0
    db = sqlite3.connect(Path("results", FILE))
    db.execute("update results set made_with = ?", [json.dumps({**made_with(), "ucfh": "0.0.1"})])
    db.commit()
    db.close()
    message = fails(capsys, "study", name)
    assert "results of ucfh 0.0.1" in message
    assert "--out" in message
    code, _, err = run(capsys, "report")
    assert (code, err) == (0, "")
    assert "0.0.1" in Path("results/report.html").read_text()


@pytest.mark.usefixtures("mine")
def test_the_report_is_written_where_it_is_asked_for(capsys: Capture) -> None:
    assert run(capsys, "study", spec(grid("good")), "--workers", "1")[0] == 0
    assert run(capsys, "report", "results", "--html", "page.html")[0] == 0
    assert Path("page.html").read_text() == Path("results/report.html").read_text()
    assert "--force" in fails(capsys, "report", "results", "--html", "page.html")
    assert run(capsys, "report", "results", "--html", "page.html", "--force")[0] == 0


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.usefixtures("mine")
def test_a_full_disk_stops_it_and_keeps_what_is_there(capsys: Capture) -> None:
    """Files may not grow beyond a size, which is what a full disk does."""
    name = spec(grid("good", "replicates = 90"))
    room = 32 * 1024

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    done = subprocess.run(
        [sys.executable, *OWN, "study", name, "--workers", "1"],
        capture_output=True, text=True, preexec_fn=limit, check=False,
        env={**os.environ, "PYTHONPATH": str(TESTS), "JOBLIB_TEMP_FOLDER": str(Path.cwd())},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ucfh: cannot write results/results.sqlite: ")
    assert done.stderr.count("\n") == 1
    kept = results(Path("results"))
    assert 0 < len(kept) < 90
    assert run(capsys, "study", name, "--workers", "2")[0] == 0
    whole = results(Path("results"))
    assert len(whole) == 90
    assert set(kept) <= set(whole)


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_done(mine: Path) -> None:
    name = spec(grid("endless", "number = [0, 1, 2, 3, 4, 5, 6]"))
    process = start([name, "--workers", "2", "--json"])
    try:
        while not (mine / "endless").exists():
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(0.5)  # until the others were kept
        began = time.perf_counter()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        code, out, err = finish(process)
    finally:
        process.kill()
    assert time.perf_counter() - began < 20
    assert (code, err) == (
        130, "ucfh: interrupted; 4 of 7 results are kept: run it again to continue\n"
    )  # fmt: skip
    result = json.loads(out)
    assert (result["interrupted"], result["done"], result["failures"]) == (True, 4, [])
    assert count() == 4
    deadline = time.perf_counter() + 20
    while of_session(process.pid):
        assert time.perf_counter() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "wanted"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)][: many(1, 2)]
)
@pytest.mark.usefixtures("mine")
def test_a_signal_while_workers_work(number: int, wanted: int) -> None:
    name = spec(grid("interrupting", f"number = [0, {int(number)}]"))
    process = start([name, "--workers", "1", "--json"])
    code, out, err = finish(process)
    kept = count()
    assert (code, err) == (
        wanted, f"ucfh: interrupted; {kept} of 2 results are kept: run it again to continue\n"
    )  # fmt: skip
    assert kept < 2
    assert json.loads(out)["interrupted"] is True
    until = time.monotonic() + 60
    while of_session(process.pid):
        assert time.monotonic() < until, "a process outlives the one that started it"
        time.sleep(0.02)


@pytest.mark.verify
@pytest.mark.slow
def test_kill_9_loses_nothing_that_was_kept(mine: Path) -> None:
    name, gate = spec(SIXTY), mine / "open"
    gate.touch()
    code, _, err = finish(start([name, "--workers", "2", "--out", "whole"]))
    assert (code, err) == (0, "")
    gate.unlink()
    kills = kill_often([name, "--workers", "2"], mine / "killed", kills=many(1, 3), jobs=60, seed=1)
    assert kills.kept == sorted(kills.kept)
    assert 0 < kills.kept[-1] <= 50
    gate.touch()
    code, _, err = finish(start([name, "--workers", "2", "--out", "killed"]))
    assert (code, err) == (0, "")
    assert results(mine / "killed") == results(mine / "whole")
    assert count("whole") == 60


@pytest.mark.verify
@pytest.mark.slow
def test_two_at_once(mine: Path) -> None:
    jobs = many(20, 40)
    name = spec(grid("good", f"replicates = {jobs}"))
    both = [start([name, "--workers", "1", "--json"]) for _ in range(2)]
    for process in both:
        code, out, err = finish(process)
        assert (code, err) == (0, "")
        assert json.loads(out)["done"] == jobs
    assert len(results(mine / "results")) == jobs


@pytest.mark.verify
@pytest.mark.slow
def test_a_cluster_gives_the_same_results(
    mine: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = spec(REAL)
    assert run(capsys, "study", name, "--workers", "1", "--out", "one")[0] == 0
    with cluster(2) as address:
        code, _, err = run(capsys, "study", name, "--cluster", address, "--out", "two")
        assert (code, err) == (0, "")
        monkeypatch.setattr(runner, "do", measures.other_version)
        other = spec(grid("good", "replicates = 3"), name="other")
        message = fails(capsys, "study", other, "--cluster", address, "--out", "two")
        assert f"a worker has ucfh 9.9.9, here it is {__version__}: install the same" in message
    assert results(mine / "two") == results(mine / "one")
    assert len(results(mine / "one")) == 7
    monkeypatch.setitem(sys.modules, "distributed", None)  # as if it were not installed
    message = fails(capsys, "study", other, "--cluster", address, "--out", "two")
    assert message.endswith("pip install distributed\n")
