"""The page of a service that runs: who may see it, what it shows live, and what it can do."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from browser._chromium import page_at, violations
from browser._served import Served
from ucfh.server.client import RemoteTask, connect
from ucfh.tasks.opening import open_task
from ucfh.tasks.protocol import Decision

REFUSED = "error: Failed to load resource: the server responded with a status of 401 (Unauthorized)"
"""What the browser itself says of every answer with this status."""
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "עברית ثم العربية",
    "a/b?c#d%2Fe&f=g",
    "'\";--",
    "x" * 400,
    "{{7*7}} ${8*8}",
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    service = Served(tmp_path_factory.mktemp("service"))
    for name in ("calls", "hostile"):
        open_task(
            service.store, name, actions=["call", "mail"], horizon=2, epsilon=0.1, max_return=1
        ).close()
    with service:
        yield service


@pytest.fixture
def calls(served: Served) -> Iterator[RemoteTask]:
    with connect(served.url, served.write, "calls") as task:
        yield task


def begin(task: RemoteTask, names: range) -> list[Decision]:
    """Let some episodes begin."""
    return task.serve([task.asking("new", f"episode-{k}") for k in names])


def end(task: RemoteTask, decisions: list[Decision]) -> None:
    """Tell what came of them, at once: a call is worth more than a mail."""
    draw, chance = random.Random(len(decisions)), {"call": 0.7, "mail": 0.1}
    paid = [int(draw.random() < chance[x.action]) for x in decisions]
    told = zip(decisions, paid, strict=True)
    task.serve([task.telling(x, reward=reward, done=True) for x, reward in told])


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def curves(page: Page) -> list[str | None]:
    """The sentence, and what is drawn."""
    lines = [page.get_attribute(f"path.curve.{kind}", "d") for kind in ("upper", "lower")]
    return [page.text_content("#headline"), *lines]


def test_who_may_see_it(browser: Browser, served: Served, calls: RemoteTask) -> None:
    calls.ask("new", "seen-by-all")
    with page_at(browser, f"{served.url}/tasks/calls") as (page, said):
        expect(page.locator("#task")).to_be_hidden()
        assert violations(page) == []
        sign_in(page, "not a token")
        expect(page.get_by_text("This token is not known here")).to_be_visible()
        assert said == [REFUSED]
        sign_in(page, served.read)
        expect(page.locator("#headline")).not_to_be_empty()
        expect(page.get_by_role("rowheader", name="seen-by-all")).to_be_visible()
        expect(page.get_by_role("button", name="Give up")).to_have_count(0)
        expect(page.get_by_text("sign in with a token that may write")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Token")).to_be_visible()
        expect(page.locator("#task")).to_be_hidden()
        page.keyboard.type(served.write)  # the field has the focus
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Give up episode seen-by-all")).to_be_visible()
        assert said == [REFUSED]


def test_a_session_that_ends_leaves_the_page(browser: Browser, served: Served) -> None:
    with page_at(browser, f"{served.url}/tasks/calls", **session(served, 3)) as (page, said):
        expect(page.locator("#headline")).not_to_be_empty()
        expect(page.get_by_text("Your session has ended")).to_be_visible()
        expect(page.locator("#headline")).to_be_visible()
        assert violations(page) == []
        sign_in(page, served.write)
        expect(page.locator("#link")).to_have_text("Live")
        expect(page.get_by_text("Your session has ended")).to_be_hidden()
        assert said == []


def test_a_token_that_is_revoked_ends_its_sessions(
    browser: Browser, served: Served, calls: RemoteTask
) -> None:
    _, text = served.tokens.add("read", "guest")
    with page_at(browser, f"{served.url}/tasks/calls") as (page, said):
        page.wait_for_timeout(1100)  # the service looks at the file once a second
        sign_in(page, text)
        expect(page.locator("#link")).to_have_text("Live")
        served.tokens.revoke("guest")
        page.wait_for_timeout(1100)
        begun = page.text_content("#now-episodes") or ""
        calls.ask("new", "not for guests")
        expect(page.get_by_text("Your session has ended")).to_be_visible()
        expect(page.locator("#now-episodes")).to_have_text(begun)
        assert said == []


def session(served: Served, seconds: float) -> dict[str, Any]:
    """Return the options of a window with a session."""
    cookie = {**served.cookie("write", seconds), "domain": "127.0.0.1", "path": "/", "expires": -1}
    return {"storage_state": {"cookies": [{**cookie, "httpOnly": True, "secure": False}]}}


def open_page(browser: Browser, served: Served, task: str) -> Iterator[tuple[Page, list[str]]]:
    with page_at(browser, f"{served.url}/tasks/{task}", **session(served, 3600)) as (page, said):
        expect(page.locator("#headline")).not_to_be_empty()
        yield page, said


@pytest.fixture
def shown(browser: Browser, served: Served) -> Iterator[tuple[Page, list[str]]]:
    yield from open_page(browser, served, "calls")


@pytest.fixture
def hostile(browser: Browser, served: Served) -> Iterator[tuple[Page, list[str]]]:
    yield from open_page(browser, served, "hostile")


def test_it_follows_a_task_that_runs(
    shown: tuple[Page, list[str]],
    calls: RemoteTask,
    record_property: Callable[[str, object], None],
) -> None:
    """The sentence and both curves change within two seconds after outcomes are sent."""
    page, said = shown
    took = []
    for k in range(4):
        decisions = begin(calls, range(2**k * 100, 2 ** (k + 1) * 100))
        from_all = f"from {calls.status().begun:,} episodes"
        expect(page.locator("#now-policy")).to_contain_text(from_all)  # nothing else is on its way
        before, begun = curves(page), time.perf_counter()
        end(calls, decisions)
        page.wait_for_function(
            """([text, upper, lower]) => document.getElementById("headline").textContent !== text
              && document.querySelector(".curve.upper").getAttribute("d") !== upper
              && document.querySelector(".curve.lower").getAttribute("d") !== lower""",
            arg=before,
        )
        took.append(time.perf_counter() - begun)
    record_property("seconds", took)
    print("seconds until the page has changed:", [round(x, 2) for x in took])
    assert statistics.median(took) < 2
    for k in range(2, 12):
        if page.text_content("#state") == "Learning":
            end(calls, begin(calls, range(800 * k, 800 * (k + 1))))
            page.wait_for_timeout(700)
    expect(page.locator("#state")).to_have_text("Certified")
    expect(page.locator("#headline")).to_contain_text("Certified: this policy loses at most")
    expect(page.locator("#spoken")).to_contain_text("Certified")
    assert said == []


def test_an_episode_is_given_up_by_keyboard(
    shown: tuple[Page, list[str]], calls: RemoteTask
) -> None:
    page, said = shown
    calls.ask("new", "to keep")
    calls.ask("new", "to give up")
    page.locator("#downloads").scroll_into_view_if_needed()
    button = page.get_by_role("button", name="Give up episode to give up")
    expect(button).to_be_visible()
    tab_to(page, "Give up episode to keep")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Give up this episode?")
    expect(dialog).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    tab_to(page, "Give up episode to give up")
    page.keyboard.press("Enter")
    page.keyboard.type("moved away")
    page.keyboard.press("Enter")
    expect(button).to_have_count(0)
    expect(page.locator("#spoken")).to_have_text("Episode to give up was given up.")
    (lost,) = calls.decisions("lost", "to give up")
    assert "moved away" in lost["note"]
    assert [x["status"] for x in calls.decisions("all", "to keep")] == ["open"]
    assert said == []


def tab_to(page: Page, name: str) -> None:
    """Press Tab until something has the focus."""
    for _ in range(200):
        page.keyboard.press("Tab")
        found = page.evaluate(
            "(x => x.getAttribute('aria-label') ?? x.textContent)(document.activeElement)"
        )
        if found.strip() == name:
            return
    raise AssertionError(f"Tab does not lead to {name}")


def test_all_that_opens_can_be_opened_by_keyboard(shown: tuple[Page, list[str]]) -> None:
    page, said = shown
    tab_to(page, "Skip to the content")
    page.keyboard.press("Enter")
    tab_to(page, "What the words on this page mean")
    page.keyboard.press("Enter")
    expect(page.get_by_text("One round from its start to its end")).to_be_visible()
    tab_to(page, "The figure as a table")
    page.keyboard.press("Space")
    expect(page.get_by_role("table", name="All plans").get_by_role("row").nth(1)).to_be_visible()
    tab_to(page, "Log of all episodes")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename == "calls-log.jsonl"
    assert download.value.path().read_text().startswith("{")
    tab_to(page, "Certificate")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert '"upper"' in download.value.path().read_text()
    assert said == []


def test_names_are_shown_and_never_run(hostile: tuple[Page, list[str]], served: Served) -> None:
    page, said = hostile
    with connect(served.url, served.write, "hostile") as task:
        for name in HOSTILE:
            task.tell(task.ask(name, name), reward=0.5, state=name)
        page.locator("#downloads").scroll_into_view_if_needed()
        rows = page.locator("#open-rows tr")
        expect(rows).to_have_count(len(HOSTILE))
        for k, name in enumerate(HOSTILE):
            cells = rows.nth(k).locator("th, td")
            for cell in (cells.nth(0), cells.nth(2)):
                assert name in (cell.text_content() or "")
                assert cell.locator("*").evaluate_all("x => x.map(y => y.tagName)")[-1] == "BDI"
        expect(page.locator("#policy-rows th").first).to_contain_text(HOSTILE[0])
        expect(page.locator("img[src=x], main script")).to_have_count(0)
        page.get_by_role("button", name="Give up episode a/b?c#d%2Fe&f=g").click()
        page.get_by_role("button", name="Give up the episode").click()
        expect(rows).to_have_count(len(HOSTILE) - 1)
        assert [x["episode"] for x in task.decisions("lost")] == ["a/b?c#d%2Fe&f=g"]
    long = rows.filter(has_text="xxxx").locator("th").first
    expect(long.locator("bdi").last).to_be_hidden()
    long.locator("summary").click()
    expect(long.locator("bdi").last).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert said == []


def test_several_tasks_are_listed(browser: Browser, served: Served) -> None:
    with page_at(browser, served.url, **session(served, 3600)) as (page, said):
        expect(page.locator("#task-rows tr")).to_have_count(2)
        assert violations(page) == []
        page.get_by_role("link", name="calls").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("calls")
        expect(page.locator("#link")).to_have_text("Live")
        page.goto(f"{served.url}/tasks/nothing")
        expect(page.get_by_text("There is no such task")).to_be_visible()
        not_found = "error: Failed to load resource: the server responded with a status of 404"
        assert [x.startswith(not_found) for x in said] == [True]


def test_the_service_is_stopped_and_started_again(
    shown: tuple[Page, list[str]], served: Served
) -> None:
    page, said = shown
    sentence = page.text_content("#headline")
    served.stop()
    expect(page.locator("#link")).to_contain_text("Connection lost at")
    expect(page.locator("#headline")).to_have_text(sentence or "")
    served.start()
    expect(page.locator("#link")).to_have_text("Live")
    with connect(served.url, served.write, "calls") as task:
        begun = page.text_content("#now-episodes") or ""
        task.ask("new", "after the start")
        expect(page.locator("#now-episodes")).not_to_have_text(begun)
    # the browser itself says that it could not connect, the page says nothing
    assert {x.partition("net::")[0] for x in said} <= {"error: Failed to load resource: "}
