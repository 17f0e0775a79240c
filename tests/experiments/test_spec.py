"""Studies as TOML: what is wrong is said in a line, and what is right becomes jobs."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.paths import SOURCE
from ucfh import make
from ucfh.errors import InputError
from ucfh.experiments.jobs import Job
from ucfh.experiments.measures import MEASURES
from ucfh.experiments.spec import parse_study
from ucfh.models import write_model
from ucfh.studies.catalogue import STUDIES, read_study

HEAD = 'title = "A title"\npredicted = "So many."\nreading = "claims"\n'
GOOD = """[[grid]]
measure = "lifetime"
problem = "chain:n=3,horizon=3"
epsilon = 0.5
delta = 0.1
"""
CERTIFICATE = GOOD.replace("lifetime", "certificate")
CASES = """[[grid]]
measure = "lifetime"
delta = 0.1
cases = [
    { problem = "chain:n=3,horizon=3", epsilon = 0.5 },
    { problem = "chain:n=4,horizon=3", epsilon = 0.4 },
]
"""
LEARNER = GOOD.replace("lifetime", "learner") + 'agent = "psrl"\nepisodes = 10\n'
STATIONARY = '[[grid]]\nmeasure = "stationary"\nproblem = "chain:n=3,horizon=3"\n'


def wrong(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_study("mine", text, "mine.toml")
    message = str(caught.value)
    assert message.startswith("mine.toml: ")
    assert "\n" not in message
    return message.removeprefix("mine.toml: ")


def jobs(text: str, **how: Any) -> list[Job]:
    return parse_study("mine", HEAD + text, "mine.toml").jobs(**how)


@pytest.mark.parametrize(
    ("text", "path", "remedy"),
    [
        ("", "title is missing", "add it"),
        (HEAD, "grid is missing", "add it"),
        ('title = "t"\n' + GOOD, "predicted is missing", "add it"),
        (HEAD + "grid = []\n", "grid", "at least one"),
        (HEAD + 'grid = "no"\n', "grid", "[[grid]]"),
        (HEAD + "[grid]\n" + GOOD.split("\n", 1)[1], "grid", "[[grid]]"),
        (HEAD + "grid = [1, 2]\n", "grid", "[[grid]]"),
        (HEAD + 'titel = "t"\n' + GOOD, "'titel'", "did you mean 'title'"),
        (HEAD.replace('"A title"', "3") + GOOD, "title: 3", "string"),
        (HEAD.replace('"A title"', "true") + GOOD, "title: True", "string"),
        (HEAD.replace('"A title"', '["a"]') + GOOD, "title: ['a']", "string"),
        (HEAD + "title = 1\n" + GOOD, "not TOML", "line 4"),
        (HEAD + "[[grid]\n", "not TOML", "line 4"),
        ("\0", "not TOML", "line 1"),
    ],
)
def test_wrong_heads(text: str, path: str, remedy: str) -> None:
    message = wrong(text)
    assert path in message
    assert remedy in message


@pytest.mark.parametrize(
    ("grid", "path", "remedy"),
    [
        (GOOD.replace('measure = "lifetime"\n', ""), "measure is missing", "add it"),
        (GOOD.replace("lifetime", "lifetimes"), "measure", "did you mean 'lifetime'"),
        (GOOD.replace('"lifetime"', "1"), "measure: 1", "string"),
        (GOOD.replace('"lifetime"', '["lifetime"]'), "measure: ['lifetime']", "string"),
        (GOOD + "label = 1\n", "label: 1", "string"),
        (GOOD + "epsilom = 0.1\n", "'epsilom'", "did you mean 'epsilon'"),
        (GOOD + "seed = 3\n", "'seed'", "known: "),
        (GOOD.replace("delta = 0.1\n", ""), "delta is missing", "lifetime needs it"),
        (GOOD + "replicates = 0\n", "replicates", "at least 1"),
        (GOOD + "replicates = -1\n", "replicates", "at least 1"),
        (GOOD + "replicates = 1.5\n", "replicates", "whole number"),
        (GOOD + "replicates = true\n", "replicates", "whole number"),
        (GOOD + 'replicates = "3"\n', "replicates", "whole number"),
        (GOOD + "replicates = [1, 2]\n", "replicates", "whole number"),
        (STATIONARY + "replicates = 2\n", "replicates", "leave it out"),
        (GOOD.replace("0.5", '"half"'), "epsilon: 'half'", "a number"),
        (GOOD.replace("0.5", "true"), "epsilon: True", "a number"),
        (GOOD.replace("0.5", "[]"), "epsilon is an empty list", "at least one"),
        (GOOD.replace("0.5", "[[0.5]]"), "epsilon: [0.5]", "a number"),
        (GOOD.replace("0.5", "{ a = 1 }"), "epsilon: {'a': 1}", "a number"),
        (GOOD.replace("0.5", "2026-01-01"), "epsilon", "a number"),
        (GOOD.replace("0.5", "0"), "epsilon", "(0, 1]"),
        (GOOD.replace("0.5", "1.5"), "epsilon", "(0, 1]"),
        (GOOD.replace("0.5", "nan"), "epsilon", "(0, 1]"),
        (GOOD.replace("0.5", "[0.5, -0.1]"), "epsilon", "(0, 1]"),
        (GOOD.replace("0.1", "2"), "delta", "(0, 1]"),
        (GOOD.replace('"chain:n=3,horizon=3"', "7"), "problem: 7", "a string"),
        (GOOD.replace("chain:", "chian:"), "problem", "did you mean 'chain'"),
        (GOOD.replace("n=3", "m=3"), "problem", "known: "),
        (GOOD.replace("n=3", "n=0"), "problem", "n"),
        (GOOD.replace("chain:n=3,horizon=3", "none.json"), "problem", "check the name"),
        (GOOD + 'variant = "printed"\n', "variant", "known: corrected, paper"),
        (GOOD + "variant = 1\n", "variant: 1", "a string"),
        (GOOD + 'confidence = "papr"\n', "confidence", "did you mean 'paper'"),
        (GOOD + 'stages = "yes"\n', "stages: 'yes'", "true or false"),
        (GOOD + "stages = 1\n", "stages: 1", "true or false"),
        (CERTIFICATE + 'confidence = "papr"\n', "confidence", "did you mean 'paper'"),
        (CERTIFICATE + "most = 1.5\n", "most: 1.5", "a whole number"),
        (CERTIFICATE + "most = true\n", "most: True", "a whole number"),
        (CERTIFICATE + "most = 0\n", "most", "at least 1"),
        (LEARNER.replace('"psrl"', '"psrll"'), "agent", "did you mean 'psrl'"),
        (LEARNER.replace('"psrl"', '"psrl:colour=red"'), "agent", "colour"),
        (LEARNER.replace('"psrl"', "1"), "agent: 1", "a string"),
        (LEARNER.replace('agent = "psrl"\n', ""), "agent is missing", "learner needs it"),
        (CASES.replace("0.4", "4.0"), "cases[1].epsilon: epsilon = 4.0", "(0, 1]"),
        (CASES.replace("epsilon = 0.4", "epsilom = 0.4"), "cases[1]: ", "did you mean 'epsilon'"),
        (CASES.replace(", epsilon = 0.4", ""), "cases[1]: epsilon is missing", "needs it"),
        (CASES.replace("chain:n=4", "chian:n=4"), "cases[1].problem", "did you mean 'chain'"),
        (CASES.replace("0.5", "[0.5, 7]"), "cases[0].epsilon", "(0, 1]"),
        (CASES + "epsilon = 0.3\n", "cases[0].epsilon", "remove one"),
        (CASES + "quick = { epsilon = 0.3 }\n", "cases[0].epsilon", "remove one"),
        (GOOD + "cases = 1\n", "cases", "list of tables"),
        (GOOD + "cases = [1]\n", "cases", "list of tables"),
        (GOOD + "cases = []\n", "cases", "at least one"),
        (GOOD + "cases = { epsilon = 0.1 }\n", "cases", "list of tables"),
        (GOOD + "quick = 1\n", "quick", "a table"),
        (GOOD + "quick = [{ replicates = 1 }]\n", "quick", "a table"),
        (GOOD + "quick = { replicate = 1 }\n", "replicate", "did you mean 'replicates'"),
        (GOOD + "quick = { replicates = 0 }\n", "replicates", "at least 1"),
        (GOOD + "quick = { epsilon = 3 }\n", "epsilon", "(0, 1]"),
    ],
)  # fmt: skip
def test_wrong_grids(grid: str, path: str, remedy: str) -> None:
    message = wrong(HEAD + STATIONARY + grid)
    place = "grid[1].quick" if "quick = {" in grid else "grid[1]"
    assert re.match(re.escape(place) + "(: |[.])", message)
    assert path in message
    assert remedy in message.removeprefix(place)


def test_wrong_files(tmp_path: Path) -> None:
    for content, words in [
        (b"", "title is missing"),
        (b'title = "\xff"', "line 1 is not text in UTF-8"),
        (b"title = 3", "title: 3 is not a string"),
        (b"\x7fELF\0\0", "not TOML"),
    ]:
        path = tmp_path / "mine.toml"
        path.write_bytes(content)
        with pytest.raises(InputError, match=f"^{re.escape(str(path))}: .*{words}"):
            read_study(path)
    names: list[tuple[Path | str, str]] = [
        (tmp_path / "none.toml", "does not exist"),
        (tmp_path, "unknown study"),
        ("mistaks", "did you mean 'mistakes'"),
        ("", "unknown study"),
    ]
    for name, words in names:
        with pytest.raises(InputError, match=words):
            read_study(name)
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InputError, match="cannot read"):
        read_study(tmp_path / "folder.toml")


def test_expansion_is_every_combination() -> None:
    text = """[[grid]]
measure = "lifetime"
replicates = 3
delta = [0.1, 0.2]
variant = ["paper", "corrected"]
cases = [
    { problem = ["chain:n=3,horizon=3", "random:states=3,seed={replicate}"], epsilon = 0.5 },
    { problem = "chain:n=4,horizon=3", epsilon = [0.4, 0.3, 1] },
]
quick = { replicates = 1, delta = 0.2 }
"""

    def slowly(replicates: int, deltas: list[float]) -> set[tuple[Any, ...]]:
        pairs = [
            ("chain:n=3,horizon=3", 0.5), ("random:states=3,seed={}", 0.5),
            *(("chain:n=4,horizon=3", epsilon) for epsilon in (0.4, 0.3, 1.0)),
        ]  # fmt: skip
        return {
            (r, problem.format(r), epsilon, delta, variant)
            for r in range(replicates)
            for (problem, epsilon), delta, variant in product(pairs, deltas, ("paper", "corrected"))
        }

    for quick, asked in [(False, slowly(3, [0.1, 0.2])), (True, slowly(1, [0.2]))]:
        found = jobs(text, quick=quick)
        names = ("problem", "epsilon", "delta", "variant")
        seen = {(job.replicate, *(job.arguments[name] for name in names)) for job in found}
        assert seen == asked
        assert len(found) == len(asked) == len({job.id for job in found})
        assert [job.replicate for job in found] == sorted(job.replicate for job in found)
        for job in found:
            assert job.arguments.keys() == {*names, "confidence", "stages", "m_factor"}
            assert "{" not in job.arguments["problem"]


def test_a_job_is_what_it_is_and_not_where_it_stands() -> None:
    one = jobs(STATIONARY + GOOD)
    lines = GOOD.splitlines()
    turned = "\n".join([lines[0], 'label = "other"', *reversed(lines[1:]), ""])
    spelt = GOOD + 'variant = "paper"\nstages = false\nm_factor = 1\n'  # as the defaults are
    for text in (GOOD + STATIONARY, turned + STATIONARY, spelt + STATIONARY, GOOD * 2 + STATIONARY):
        other = jobs(text)
        assert {job.id for job in other} == {job.id for job in one}
        assert {job.seed for job in other} == {job.seed for job in one}
    twice = GOOD.replace("0.5", "[0.5, 0.5]") + "cases = [{}, {}]\n"
    assert len(jobs(twice)) == 1


def test_whole_and_decimal_numbers_are_the_same_job() -> None:
    ids = {jobs(GOOD.replace("0.5", number))[0].id for number in ("1", "1.0", "1e0")}
    assert len(ids) == 1
    assert len(jobs(GOOD.replace("0.5", "[1, 1.0]"))) == 1


def test_jobs_differ_by_everything_that_counts() -> None:
    found = [
        *jobs(GOOD + "replicates = 3\n"),
        *jobs(GOOD + "replicates = 3\n", root=1),
        *jobs(GOOD.replace("0.5", "0.25")),
        *jobs(GOOD.replace("n=3", "n=4")),
        *jobs(GOOD + "stages = true\n"),
        *jobs(CERTIFICATE),
    ]
    assert len({job.id for job in found}) == len({job.seed for job in found}) == len(found) == 10
    assert jobs(STATIONARY)[0].seed is None
    # no sum of root and replicate, nor a text put together from both
    pairs = [Job("stationary", {"problem": "x"}, r, root) for r in range(12) for root in range(112)]
    assert len({job.id for job in pairs}) == len(pairs)


@pytest.mark.parametrize("ending", ["model.json", "model.npz"])
def test_a_model_is_known_by_its_content(tmp_path: Path, ending: str) -> None:
    path = tmp_path / ending
    write_model(make("chain:n=3,horizon=3"), path)
    text = GOOD.replace("chain:n=3,horizon=3", str(path))
    one = jobs(text)[0]
    assert one.id == jobs(text)[0].id
    write_model(make("chain:n=4,horizon=3"), path, force=True)
    other = jobs(text)[0]
    assert one.id != other.id
    assert one.seed != other.seed


def shipped() -> list[Job]:
    """The jobs of all studies whose measures are there."""
    return [
        job
        for name in STUDIES
        for quick in (False, True)
        for job in read_study(name).jobs(7, quick)
    ]


@pytest.mark.slow
def test_shipped_studies() -> None:
    found = {job.id: job for job in shipped()}
    seeds = [job.seed for job in found.values() if job.seed is not None]
    assert len(seeds) > 500
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    # uniform in all bits: 63 of them, so 5 standard deviations are seldom exceeded by chance
    bits = np.array([[seed >> k & 1 for k in range(63)] for seed in seeds])
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / len(seeds) ** 0.5
    for name in STUDIES:
        study = read_study(name)
        assert study.name == name
        assert (SOURCE / "studies" / name / "study.toml").read_text() == study.text
        assert 0 < len(study.jobs(quick=True)) <= len(study.jobs())
    assert {path.parent.name for path in SOURCE.glob("studies/*/study.toml")} == set(STUDIES)
    assert {job.measure for job in found.values()} == set(MEASURES)


def test_golden_ids_and_seeds() -> None:
    """Change these, and results of old folders are done anew, with other seeds."""
    one, *_, last = jobs(GOOD + "replicates = 2\n", root=5)
    (learner,) = jobs(LEARNER)
    assert [(job.id, job.seed) for job in (one, last, learner)] == [
        ("2866c345ada984bd", 8193443733114917026),
        ("6e29645ab402ee44", 5133983603791651004),
        ("58049ee923577a0c", 2416218410206987883),
    ]


@pytest.mark.slow
def test_arguments_are_plain() -> None:
    for job in shipped():
        assert json.loads(json.dumps(job.arguments)) == job.arguments
