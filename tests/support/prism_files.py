"""PRISM's explicit files, for tests: a slow reader of their own, examples and random ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from ucfh.interval_mdp import IntervalMDP

Entry = tuple[int, int, int]


TRA = """\
6 10 17
0 0 0 [0.3,0.5] slow
0 0 1 [0.5,0.7] slow
0 1 1 0.15 fast
0 1 3 0.7 fast
0 1 4 0.15 fast
1 0 1 [0,0.1] slow
1 0 2 [0.9,1] slow
1 1 2 [0.35,0.6] fast
1 1 4 [0.45,0.65] fast
2 0 2 1
3 0 3 1
4 0 5 1 slow
4 1 3 0.55 back
4 1 4 0.45 back
5 0 4 1 back
5 1 2 0.85 leap
5 1 5 0.15 leap
"""
SREW = "6 2\n2 5\n5 1\n"
TREW = '# Reward structure "move"\n# Transition rewards\n6 10 3\n0 0 0 1\n0 0 1 1\n1 0 2 0.5\n'
LAB = '0="init" 1="deadlock" 2="goal"\n1: 0\n2: 2\n'
STA = "(x,y)\n" + "".join(f"{i}:({i % 3},{i // 3})\n" for i in range(6))


@dataclass
class Slow:
    """A model as dictionaries, read line by line; it takes right files only."""

    states: int = 0
    chain: bool = False
    bounds: dict[Entry, tuple[float, float]] = field(default_factory=dict)
    action: dict[tuple[int, int], str] = field(default_factory=dict)
    paid: dict[int, float] = field(default_factory=dict)
    paid_on: dict[Entry, float] = field(default_factory=dict)
    start: int = 0


def words_of(line: str) -> list[str]:
    """Brackets and commas are words of their own, and need no spaces around them."""
    words = [""]
    for letter in line:
        if letter in "[],":
            words += [letter, ""]
        elif letter in " \t\r\v\f":
            words.append("")
        else:
            words[-1] += letter
    return [word for word in words if word]


def lines(text: str) -> list[list[str]]:
    kept = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    return [words_of(line) for line in kept]


def read_slowly(texts: dict[str, str]) -> Slow:
    first, *rest = lines(texts["tra"])
    slow = Slow(int(first[0]), len(first) == 2)

    def entry(words: list[str]) -> tuple[Entry, list[str]]:
        if slow.chain:
            words = [words[0], "0", *words[1:]]
        return (int(words[0]), int(words[1]), int(words[2])), words[3:]

    for words in rest:
        where, tail = entry(words)
        if tail[0] == "[":
            _, lo, comma, hi, bracket, *name = tail
            assert (comma, bracket) == (",", "]")
        else:
            lo, *name = tail
            hi = lo
        slow.bounds[where] = float(lo), float(hi)
        slow.action[where[:2]] = name[0] if name else "-"
        assert len(name) < 2
    for words in lines(texts.get("srew", ""))[1:]:
        slow.paid[int(words[0])] = float(words[1])
    for words in lines(texts.get("trew", ""))[1:]:
        where, (value,) = entry(words)
        slow.paid_on[where] = float(value)
    if "lab" in texts:
        names, *rest = lines(texts["lab"].replace(":", " "))
        (number,) = [x.partition("=")[0] for x in names if x.endswith('="init"')]
        (slow.start,) = [int(words[0]) for words in rest if number in words[1:]]
    return slow


def write(tmp_path: Path, texts: dict[str, str]) -> Path:
    for ending in ("tra", "sta", "lab", "srew", "trew"):
        path = tmp_path / f"model.{ending}"
        if ending in texts:
            path.write_bytes(texts[ending].encode())
        else:
            path.unlink(missing_ok=True)
    return tmp_path / "model.tra"


def assert_reads(slow: Slow, model: IntervalMDP) -> None:
    """The same transitions, bounds, rewards, actions and start, to the last bit."""
    table = model.table
    names = model.problem.action_names
    choices = {pair: k for k, pair in enumerate(sorted(slow.action))}
    assert table.pairs == len(choices)
    assert np.flatnonzero(model.initial).tolist() == [slow.start]
    after = model.rewards.successor
    found = {}
    for row in range(table.start):
        _, s, a = table.pair_of(row)
        if names is None:
            pair = (s, a)
        else:
            (pair,) = [p for p in choices if p[0] == s and slow.action[p] == names[a]]
        at = table.entries_of(row)
        for e in range(at.start, at.stop):
            where = (*pair, int(table.indices[e]))
            found[where] = (float(model.lo[e]), float(model.hi[e]))
            paid = float(model.rewards.pair[0, row]) + (0.0 if after is None else after[0, e])
            assert paid == slow.paid.get(s, 0.0) + slow.paid_on.get(where, 0.0)
    wanted = slow.bounds
    if model.exact:  # rows that are off by rounding are divided out
        totals = {p: sum(lo for w, (lo, _) in wanted.items() if w[:2] == p) for p in choices}
        for where, (lo, hi) in found.items():
            assert lo == hi == pytest.approx(wanted[where][0] / totals[where[:2]], rel=1e-15)
        assert found.keys() == wanted.keys()
    else:
        assert found == wanted


@st.composite
def prism_files(draw: st.DrawFn) -> dict[str, str]:
    """Right files of a random model, in one of the ways in which they may be written."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    S, A = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    chain, known = draw(st.booleans()), draw(st.booleans())
    space = draw(st.sampled_from([" ", "\t", "  "]))
    end = draw(st.sampled_from(["\n", "\r\n", " \n", "\n\n"]))
    called = draw(st.sampled_from(["none", "all", "some", "twice"]))
    body, trew = [], []
    choices = 0
    for s in range(S):
        for k in range(1 if chain else int(rng.integers(1, A + 1))):
            choices += 1
            following = rng.permutation(S)[: int(rng.integers(1, S + 1))].tolist()
            p = rng.dirichlet(np.ones(len(following))).tolist()
            name = {"none": "", "all": f"a{k}", "twice": "same"}.get(called, f"b{k}" * (s + k & 1))
            for j, x in zip(following, p, strict=True):
                where = [str(s), str(j)] if chain else [str(s), str(k), str(j)]
                value = repr(x)
                if not known and rng.random() < 0.7:
                    width = rng.random(2).tolist()
                    value = f"[{x * width[0]!r},{x + width[1] * (1 - x)!r}]"
                body.append(space.join([*where, value, *([name] if name else [])]))
                if rng.random() < 0.5:
                    trew.append(space.join([*where, repr(float(rng.integers(0, 9)) / 4)]))
    if draw(st.booleans()):
        body = [body[i] for i in rng.permutation(len(body))]
    sizes = str(S) if chain else f"{S} {choices}"
    paid = [f"{s}{space}{rng.random()!r}" for s in range(S) if rng.random() < 0.5]
    texts = {
        "tra": end.join([f"{sizes} {len(body)}", *body, ""]),
        "srew": end.join(["# State rewards", f"{S} {len(paid)}", *paid, ""]),
    }
    if draw(st.booleans()):
        texts["trew"] = end.join([f"{sizes} {len(trew)}", *trew, ""])
    if draw(st.booleans()):
        texts["lab"] = f'0="deadlock" 1="init"\n{int(rng.integers(S))}: 0 1\n'
    if draw(st.booleans()):
        texts["sta"] = "(x)\n" + "".join(f"{s}:({s})\n" for s in range(S))
    return texts


def rooms(**changes: str) -> dict[str, str]:
    return {"tra": TRA, "srew": SREW, "trew": TREW, "lab": LAB, "sta": STA} | changes
