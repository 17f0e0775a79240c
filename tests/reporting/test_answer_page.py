"""The page of an answer: what it says is what the certificate says, for everybody."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reporting._html import Reader, contrast
from support.log_reports import (
    COLUMNS,
    FINDING,
    answer_of_log,
    faulty_answer,
    large_answer,
    refuted_answer,
    small_answer,
    write_renewals,
)
from ucfh import make, read_log
from ucfh.confidence.behavior_policy import BehaviorValue
from ucfh.logs.assumptions import Assumption, AssumptionCode
from ucfh.logs.synthetic import write_log
from ucfh.reporting import policy_table
from ucfh.reporting.log_report import CLOSE, OPEN, SETTLED, UNSEEN, LogReport
from ucfh.reporting.page import answer_page
from ucfh.reporting.style import STYLE
from ucfh.reporting.text import EVIDENCE, evidence_words, headline, improvement, lead

KINDS = {
    "small": small_answer,
    "faulty": faulty_answer,
    "large": large_answer,
    "refuted": refuted_answer,
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LogReport]:
    return {kind: make(tmp_path_factory.mktemp(kind)) for kind, make in KINDS.items()}


@pytest.fixture(scope="module")
def pages(answers: dict[str, LogReport]) -> dict[str, str]:
    return {kind: answer_page(answer) for kind, answer in answers.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_it_needs_nothing_besides_itself(pages: dict[str, str], kind: str) -> None:
    html = pages[kind]
    read = Reader(html)
    assert all(value.startswith(("#", "data:")) for value in read.values("src", "href"))
    tags = {tag for tag, _, _ in read.elements}
    assert tags.isdisjoint({"script", "iframe", "object", "base", "img", "form", "input"})
    assert not {name for _, found, _ in read.elements for name in found if name.startswith("on")}
    (style,) = read.texts("style")
    assert "url(" not in style
    assert "@import" not in style
    assert "http" not in html


@pytest.mark.parametrize("kind", KINDS)
def test_it_can_be_read_aloud(pages: dict[str, str], kind: str) -> None:
    """One heading of the page, headings in order, names that exist, pictures that are in words."""
    read = Reader(pages[kind])
    ids = read.values("id")
    assert len(set(ids)) == len(ids)
    assert set(read.values("aria-labelledby")) <= set(ids)
    headings = [tag for tag, _, _ in read.elements if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == "h1"
    assert set(headings[1:]) == {"h2", "h3"}
    pictures = [found for tag, found, _ in read.elements if tag == "svg"]
    assert all(found["aria-hidden"] == "true" for found in pictures)
    # each bar stands under its words, and the key of the picture follows
    bars = re.findall(r'<p><b>[^<]+</b>[^<]*\d[^<]*</p>\n<svg height="20"', pages[kind])
    assert len(bars) == pages[kind].count('<svg height="20"') > 0
    (caption,) = read.texts("figcaption")
    assert ", with 90% confidence. Full: at least this. Hatched: perhaps earned" in caption
    assert all(found["tabindex"] == "0" for _, found, _ in read.elements if "tabindex" in found)
    assert read.values("lang") == ["en"]


@pytest.mark.parametrize("kind", ["small", "refuted"])
def test_same_log_same_page(pages: dict[str, str], kind: str, tmp_path: Path) -> None:
    assert answer_page(KINDS[kind](tmp_path)) == pages[kind]


def test_the_order_is_that_of_the_questions(pages: dict[str, str]) -> None:
    usual = ["better", "bounds", "plan", "missing", "assumed", "faults", "reading"]
    for kind, html in pages.items():
        found = [x["id"] for tag, x, _ in Reader(html).elements if tag == "section"]
        assert found == (["contradicted"] if kind == "refuted" else []) + usual


# -- the sentences --------------------------------------------------------------------------------


def words(answer: LogReport) -> str:
    return " ".join([*headline(answer), *lead(answer), *improvement(answer)[1]])


def test_verdicts(answers: dict[str, LogReport], pages: dict[str, str]) -> None:
    small, faulty, refuted = (answers[kind] for kind in ("small", "faulty", "refuted"))
    assert headline(small)[0] == "Certified"
    assert headline(faulty)[0] == headline(refuted)[0] == "Not certified"
    assert "this one; at most 10 was asked for." in lead(small)[0]
    assert "may earn up to" in lead(faulty)[0]
    assert "contradicts" in headline(refuted)[1]
    for kind, html in pages.items():
        verdict = headline(answers[kind])[0]
        assert f">{verdict}</p>" in html
        assert Reader(html).texts("title")[0].endswith(verdict.lower())
    assert "90% sure" in words(small)


def test_an_improvement_is_said_although_nothing_is_certified(
    answers: dict[str, LogReport],
) -> None:
    small = answers["small"]
    answer = replace(small, known=replace(small.known, epsilon=1.0))
    assert headline(answer)[0] == "Not certified"
    assert headline(answer)[1].startswith("This plan is better than what was done, but the log")
    assert headline(answers["faulty"])[1].startswith("The log is not enough")
    unsure = replace(answer, known=replace(answer.known, delta=0.5))
    assert "better than what" not in headline(unsure)[1]
    assert "cannot be promised" in improvement(unsure)[0]


def test_what_is_refuted_is_said_first(pages: dict[str, str]) -> None:
    read = Reader(pages["refuted"])
    (note,) = read.texts("div", **{"class": "note"})
    for part in (FINDING.assumption, FINDING.effect, FINDING.meaning, FINDING.remedy):
        assert part in note
    refuted = [x for x in read.texts("small") if x.startswith("Refuted (evidence more than")]
    assert len(refuted) == 1
    assert "Better than before" not in pages["refuted"]
    assert read.texts("h2")[0] == "The log contradicts 1 assumption"


def test_a_contradiction_leaves_no_numbers(answers: dict[str, LogReport]) -> None:
    small = answers["small"]
    answer = replace(small, known=replace(small.known, contradiction="the data contradict it all"))
    html = answer_page(answer)
    assert "The data contradict it all." in html
    assert 'id="bounds"' not in html
    assert "at least" not in " ".join([*headline(answer), *lead(answer)])


def test_every_kind_of_assumption_has_its_evidence(answers: dict[str, LogReport]) -> None:
    assert set(EVIDENCE) == set(AssumptionCode)
    markov = Assumption(AssumptionCode.MARKOV, "the next state depends on the state alone")
    assert evidence_words(answers["refuted"], markov) == "Tested: see below."
    assert evidence_words(replace(answers["refuted"], tested=()), markov) == "Not tested."


amounts = st.floats(-1e5, 1e5).map(lambda x: round(x, 6))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(amounts, st.floats(1e-4, 1e5), st.floats(1e-4, 1e5), amounts, st.floats(0, 1e4))
def test_every_number_is_rounded_to_the_safe_side(
    answers: dict[str, LogReport], low: float, more: float, gap: float, was: float, width: float
) -> None:
    behavior = BehaviorValue(was + width / 2, was, was + width, 7, 0)
    known = replace(
        answers["faulty"].known, lower=low, upper=low + more, gap=gap, epsilon=1e-9,
        behavior=behavior,
    )  # fmt: skip
    answer = replace(answers["faulty"], known=known)
    text = words(answer).replace(",", "").replace("\N{MINUS SIGN}", "-")
    number = r"(-?[\d.]*\d)"

    def the(pattern: str) -> float:
        return float(re.findall(pattern.replace("#", number), text)[0])

    assert the(r"earns at least # per \w+; no plan") <= low
    assert the("no plan earns more than #") >= low + more
    assert the("may earn up to #") >= gap
    assert the("worth between # and") <= was
    assert the(r"worth between \S+ and #") >= was + width
    gain = known.improvement
    assert gain is not None
    assert ("promised" in improvement(answer)[0]) == (gain <= 0)
    if gain > 0:
        assert the("earns at least # more") <= gain


@pytest.mark.parametrize(
    ("column", "noun"),
    [
        ("student", "student"),
        ("Student_ID", "student"),
        ("case no.", "case"),
        ("Patient number", "patient"),
        ("id", "episode"),
        ("a b", "episode"),
        ("run-7", "episode"),
        ("episode", "episode"),
        ("élève", "élève"),
    ],
)
def test_an_episode_is_called_as_its_column(
    answers: dict[str, LogReport], column: str, noun: str
) -> None:
    log = answers["small"].log
    understood = replace(log.understood, columns={"episode": column})
    assert replace(answers["small"], log=replace(log, understood=understood)).noun == noun


def test_columns_are_called_as_in_the_log(pages: dict[str, str]) -> None:
    assert "23.80 per customer" in pages["small"]
    assert "the state (mood)" in pages["small"]
    assert "the step (week)" in pages["small"]
    assert "more students</h2>" in pages["large"]
    reading = Reader(pages["small"]).texts("dd")
    assert any("reward: euros" in text for text in reading)


# -- the plan -------------------------------------------------------------------------------------


CELL = re.compile(
    r'<td class="(\w+)"(?: colspan="(\d+)")?><b>(.*?)</b><span class="how">(.*?)</span></td>'
)


def grid_of(html: str) -> dict[tuple[str, int], tuple[str, str, str]]:
    """(action, level, text) of each state and step, read back from the tables."""
    out = {}
    for table in re.findall(r'<table class="plan">.*?</table>', html, re.DOTALL):
        heads = re.findall(r'<th scope="col">([^<]*)</th>', table)
        columns = [[int(x) for x in head.split("\N{EN DASH}")] for head in heads]
        for line in re.findall(r'<tr><th scope="row">.*?</tr>', table):
            state = re.findall(r'<th scope="row">(.*?)</th>', line)[0]
            k = 0
            for level, more, action, text in CELL.findall(line):
                width = int(more or 1)
                for t in range(columns[k][0], columns[k + width - 1][-1] + 1):
                    assert (state, t) not in out
                    out[state, t] = action, level, text
                k += width
            assert k == len(columns)
    return out


def slow_level(suboptimality: float, epsilon: float, most: float) -> str:
    if np.isnan(suboptimality):
        return UNSEEN.key
    if suboptimality <= 1e-9 * most:
        return SETTLED.key
    return CLOSE.key if suboptimality <= epsilon else OPEN.key


@pytest.mark.parametrize(("kind", "columns"), [("small", 20), ("large", 20), ("large", 3)])
def test_the_grid_is_the_policy(
    answers: dict[str, LogReport], kind: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every state and step, however steps share columns and columns share tables."""
    monkeypatch.setattr(policy_table, "MOST_COLUMNS", columns)
    answer = answers[kind]
    known, log = answer.known, answer.log
    assert known.suboptimality is not None
    assert known.visits is not None
    found = grid_of(answer_page(answer))
    over = set(answer.over)
    for s in range(log.states.count):
        for t in range(log.horizon):
            entry = found.pop((str(log.states.label(s)), answer.log.times[t]), None)
            if s in over:
                assert entry is None
                continue
            assert entry is not None
            action, level, text = entry
            assert action == log.actions.label(int(known.policy[t, s]))
            suboptimality = float(known.suboptimality[t, s])
            assert known.epsilon is not None
            assert level == slow_level(suboptimality, known.epsilon, answer.ends[1])
            if level != UNSEEN.key:
                seen = text.replace(",", "").rpartition("· ")[2].rstrip("\N{MULTIPLICATION SIGN}")
                least, _, most = seen.partition(" to ")
                assert int(least) <= known.visits[t, s] <= int(most or least)
            if level == OPEN.key:
                assert float(re.findall(r"\+([\d.]+)", text)[0]) >= suboptimality
    assert found == {}


def test_marks_tell_levels_apart_without_colour(pages: dict[str, str]) -> None:
    marks = [level.mark for level in (SETTLED, CLOSE, OPEN, UNSEEN)]
    assert len(set(marks)) == 4
    for _, level, text in grid_of(pages["large"]).values():
        (mine,) = [x for x in (SETTLED, CLOSE, OPEN, UNSEEN) if x.key == level]
        assert text.startswith(f"{mine.mark} {mine.name}")
    borders = re.findall(r"\.plan td\.\w+ \{ border-left: \d+px (\w+)", STYLE)
    assert len(set(borders)) == len(borders) == 3


def test_many_states_are_folded_but_for_the_most_visited(
    answers: dict[str, LogReport], pages: dict[str, str]
) -> None:
    answer, html = answers["large"], pages["large"]
    head, _, rest = html.partition("<details>")
    rest = rest.partition("</details>")[0]
    shown, folded = ({s for s, _ in grid_of(x)} for x in (head, rest))
    assert (len(shown), len(folded)) == (60, 90)
    visits = {row.state: row.visits for row in answer.rows}
    assert min(visits[s] for s in shown) >= max(visits[s] for s in folded)
    assert sum(visits.values()) == answer.log.counted
    assert "<details>" not in pages["small"]


def test_levels_without_an_accuracy(answers: dict[str, LogReport]) -> None:
    answer = replace(answers["small"], known=replace(answers["small"].known, epsilon=None))
    assert {level for _, level, _ in grid_of(answer_page(answer)).values()} == {
        SETTLED.key, OPEN.key, UNSEEN.key,
    }  # fmt: skip


def test_a_problem_that_was_told(tmp_path: Path) -> None:
    """Its visits, its ends, and the value of the logged policy, by the known rewards."""
    mdp, path = make("chain:n=3"), tmp_path / "chain.csv"
    write_log(mdp, path, episodes=500)
    answer = answer_of_log(read_log(path, mdp.problem), str(path), 0.2)
    assert answer.known.behavior is not None
    assert answer.visits.sum() == answer.log.counted
    assert len(grid_of(answer_page(answer))) == 3 * answer.log.horizon


def test_segments_are_named_by_the_steps_of_the_log(tmp_path: Path) -> None:
    path = write_renewals(tmp_path / "log.csv", 200, first=1)
    options: dict[str, Any] = {"columns": COLUMNS, "rewards": (0, 80), "max_return": 80}
    answer = answer_of_log(read_log(path, time_dependent=True, **options), str(path), 8.0)
    assert answer.segment_word == "step"
    page = answer_page(answer)
    assert "at this step" in page
    assert re.search(r"(mail|call|wait) in state (cold|warm) at step \d", page)
    answer = answer_of_log(read_log(path, segments=[3, 4], **options), str(path), 8.0)
    assert answer.segments == [(1, 2), (3, 3), (4, 4)]
    page = answer_page(answer)
    assert re.search(r"in state (cold|warm) at (steps 1 to 2|step 3|step 4):", page)
    assert "together: steps 1 to 2; step 3; step 4" in page


# -- names, and looks -----------------------------------------------------------------------------

NAME = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=',"\n\r'), min_size=1
).filter(lambda x: x.strip() == x and not re.fullmatch(r"[-\d.]+", x))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAME, min_size=3, max_size=3, unique=True))
def test_any_name_comes_back(names: list[str], tmp_path: Path) -> None:
    one, other, action = names
    path = tmp_path / "log.csv"
    path.write_text(
        "episode,t,state,action,reward,next_state\n"
        + "".join(
            f"{k},0,{one},{action},0,{other}\n{k},1,{other},{action},1,{one}\n" for k in "ab"
        ),
        "utf-8",
    )
    answer = answer_of_log(read_log(path), str(path), 0.1)
    read = Reader(answer_page(answer))
    assert set(read.texts("th", scope="row")[:2]) == {one, other}
    assert action in read.texts("b")


def test_colours_can_be_read() -> None:
    """At least 4.5 to 1, as WCAG 2 asks of text, by day and by night."""
    day, _, night = STYLE.partition("(prefers-color-scheme: dark)")
    night = night.partition("@media print")[0]
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w{6}|#fff)\b", text)) for text in (day, night))
    for named in (light, light | dark):
        paper = named["paper"] if len(named["paper"]) == 7 else "#ffffff"
        for ink in ("ink", "soft", "link", "warn-edge", "bar"):
            assert contrast(named[ink], paper) >= 4.5, ink
        assert contrast(named["warn-ink"], named["warn"]) >= 4.5
