"""The page in all its states, in light and dark, on desk, phone and paper; and at large sizes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from browser._chromium import DESK, PHONE, page_at, sticks_out, violations
from browser._fake_service import (
    FakeService,
    certified_view,
    learning_view,
    new_view,
    open_decision,
    plans,
    policy_of,
    refuted_view,
)
from ucfh.tasks.opening import open_task

STATES = {
    "new": new_view,
    "learning": learning_view,
    "certified": certified_view,
    "refuted": refuted_view,
}
LOOKS: list[tuple[tuple[int, int], Literal["light", "dark"]]] = [
    (DESK, "light"), (PHONE, "light"), (DESK, "dark"), (PHONE, "dark"),
]  # fmt: skip


def check_looks(page: Page) -> None:
    """On desk and phone, in light and dark: nothing sticks out, and axe-core finds nothing."""
    for (width, height), scheme in LOOKS:
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == [], f"{width} pixels, {scheme}"
        assert sticks_out(page) == [], f"{width} pixels, {scheme}"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def settled(page: Page, fake: FakeService) -> None:
    """Wait until all is drawn."""
    expect(page.locator("#task")).to_be_visible()
    view = next(iter(fake.views.values()))
    if view["state"] != "new":
        expect(page.locator("#policy-rows tr").first).to_be_attached()
        expect(page.locator("#open-rows tr")).to_have_count(min(100, len(fake.decisions)))


@pytest.mark.parametrize("state", STATES)
def test_every_state_can_be_read(browser: Browser, fake: FakeService, state: str) -> None:
    view = STATES[state]()
    fake.publish(view)
    if state == "new":
        fake.decisions, fake.policy = [], policy_of([], number=0)
    with page_at(browser, fake.url) as (page, said):
        settled(page, fake)
        expect(page.locator("#headline")).to_have_text(view["headline"])
        expect(page.locator("#state")).to_have_text(state.capitalize())
        page.evaluate("document.querySelectorAll('details').forEach(x => x.open = true)")
        check_looks(page)
        assert said == []


def test_many_tasks(browser: Browser, fake: FakeService) -> None:
    fake.publish(*(learning_view(f"task {k}", 2) for k in range(130)), refuted_view("wrong"))
    with page_at(browser, fake.url) as (page, said):
        rows = page.locator("#task-rows tr")
        expect(rows).to_have_count(100)
        page.get_by_role("button", name="Show 31 more").click()
        expect(rows).to_have_count(131)
        expect(rows.last).to_contain_text("Refuted")
        page.get_by_label("Show tasks whose name contains").fill("TASK 12")
        expect(rows).to_have_count(11)
        expect(page.get_by_text("11 of 11 tasks shown")).to_be_visible()
        check_looks(page)
        assert said == []


def test_a_store_without_tasks(browser: Browser, fake: FakeService) -> None:
    with page_at(browser, fake.url) as (page, said):
        expect(page.get_by_text("This store has no task yet")).to_be_visible()
        assert violations(page) == []
        assert said == []


def test_it_prints(browser: Browser, fake: FakeService) -> None:
    fake.publish(learning_view())
    with page_at(browser, fake.url, color_scheme="dark") as (page, _):
        settled(page, fake)
        page.emulate_media(media="print")
        expect(page.locator("#headline")).to_be_visible()
        expect(page.locator("#figure")).to_be_visible()
        expect(page.locator("#open-rows button").first).to_be_hidden()
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(255, 255, 255)"
        assert page.pdf().startswith(b"%PDF")


def test_zoomed_to_twice_its_size(browser: Browser, fake: FakeService) -> None:
    fake.publish(learning_view())
    zoomed = {"device_scale_factor": 2}  # a window of 1,200 pixels then has room for 600
    with page_at(browser, fake.url, (600, 450), **zoomed) as (page, _):
        settled(page, fake)
        assert sticks_out(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_names_of_any_direction(browser: Browser, fake: FakeService) -> None:
    """Letters that reverse what follows end with their name; blanks are seen."""
    names = ["\u202eevil", "<b>bold</b>", " ", ["a", 1], "\u05d0\u05d1"]
    fake.publish(learning_view())
    fake.policy = policy_of(names)
    fake.decisions = [open_decision(f"e{k}", state=name) for k, name in enumerate(names)]
    with page_at(browser, fake.url) as (page, said):
        settled(page, fake)
        states = page.locator("#policy-rows th bdi")
        assert states.all_text_contents() == [*names[:2], '" "', "(a, 1)", names[4]]
        assert set(states.evaluate_all("x => x.map(y => getComputedStyle(y).unicodeBidi)")) == {
            "isolate"
        }
        expect(page.locator("#policy-rows b")).to_have_count(0)
        assert said == []


def test_a_page_that_nobody_sees_rests(browser: Browser, fake: FakeService) -> None:
    """It catches up when it is seen again, and so does one whose connection died unnoticed."""
    fake.publish(view := learning_view())
    with page_at(browser, "about:blank") as (page, said):
        page.clock.install()
        page.goto(fake.url)
        settled(page, fake)
        set_hidden(page, True)
        view["headline"] = "Something else is known now."
        fake.publish(view)
        page.wait_for_timeout(500)
        expect(page.locator("#headline")).not_to_have_text(view["headline"])
        set_hidden(page, False)
        expect(page.locator("#headline")).to_have_text(view["headline"])
        assert fake.watched == 2
        page.clock.fast_forward("01:00")  # a minute without a pulse
        until(lambda: fake.watched == 3)
        assert said == []


def set_hidden(page: Page, hidden: bool) -> None:
    page.evaluate(
        """hidden => {
          Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def until(condition: Callable[[], bool]) -> None:
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it never came to that")


LARGE_STATES, LARGE_STEPS = 300, 20
COUNT_CHANGES = """() => {
  window.touched = new Map();
  new MutationObserver(list => list.forEach(x => {
    const place = x.target.closest?.("tbody, svg, dl, p") ?? x.target.parentNode;
    window.touched.set(place.id, (window.touched.get(place.id) ?? 0) + 1);
  })).observe(document.body, {subtree: true, childList: true, characterData: true,
    attributes: true});
}"""


def large(fake: FakeService) -> dict[str, Any]:
    """A view with 1,000 plans, a policy of 300 states and 20 steps, and 1,000 open decisions."""
    view = learning_view()
    view["plans"] = plans(1000, 10_000)
    view["status"] |= {"begun": 10_000, "policy": 1000, "waiting": 1000, "states": LARGE_STATES}
    fake.policy = policy_of([f"state {k}" for k in range(LARGE_STATES)], LARGE_STEPS, 1000)
    fake.decisions = [open_decision(f"episode {k}") for k in range(1000)]
    return view


def test_only_what_changed_is_drawn(browser: Browser, fake: FakeService) -> None:
    """A view in which one number differs touches a few elements, and no row of a long table."""
    fake.publish(view := large(fake))
    with page_at(browser, fake.url) as (page, said):
        settled(page, fake)
        expect(page.locator("#policy-rows tr")).to_have_count(50)
        page.get_by_role("button", name="Show 200 more").click()
        expect(page.locator("#policy-rows tr")).to_have_count(250)
        page.get_by_label("Show states whose name contains").fill("state 29")
        expect(page.locator("#policy-rows tr")).to_have_count(11)
        page.get_by_label("Show states whose name contains").fill("")
        page.get_by_text("The figure as a table").click()
        expect(page.locator("#figure-rows tr")).to_have_count(1000)
        page.evaluate(COUNT_CHANGES)
        view["status"]["begun"] += 1
        fake.publish(view)
        expect(page.locator("#now-episodes")).to_contain_text("10,001 begun")
        touched = page.evaluate("Object.fromEntries(window.touched)")
        assert not {"policy-rows", "open-rows", "figure-rows", "missing-rows"} & set(touched)
        assert sum(touched.values()) < 60
        view["plans"].append({**view["plans"][-1], "number": 1001, "episodes": 10_001})
        fake.publish(view)
        expect(page.locator("#figure-rows tr")).to_have_count(1001)
        expect(page.locator("#figure-rows th").first).to_have_text("1,001")
        assert said == []


def test_ten_views_a_second(
    browser: Browser, fake: FakeService, record_property: Callable[[str, object], None]
) -> None:
    """Every number arrives; what it costs is recorded."""
    fake.publish(view := large(fake))
    with page_at(browser, fake.url) as (page, said):
        settled(page, fake)
        measure = page.context.new_cdp_session(page)
        measure.send("Performance.enable")

        def spent() -> dict[str, float]:
            found = measure.send("Performance.getMetrics")["metrics"]
            return {x["name"]: x["value"] for x in found if x["name"].endswith("Duration")}

        before, begun = spent(), time.perf_counter()
        for k in range(20):
            time.sleep(0.1)
            view["status"]["begun"] += 1
            if k % 5 == 0:
                view["plans"].append(
                    {**view["plans"][-1], "number": 1001 + k // 5, "episodes": 10_000 + k}
                )
                view["status"]["policy"] += 1
            fake.publish(view)
        expect(page.locator("#now-episodes")).to_contain_text("10,020 begun")
        seconds, after = time.perf_counter() - begun, spent()
        busy = {key: round((after[key] - before[key]) / seconds, 3) for key in before}
        record_property("share of a core", busy)
        print("share of a core, with ten views a second:", busy)
        assert said == []


def test_axes_and_words(browser: Browser, fake: FakeService) -> None:
    """Axes cover what they show with a few round numbers; numbers and times read as text."""
    ranges: list[list[float]] = [
        [0, 1], [0.62, 0.63], [-7, 1234567], [0, 1e-9], [5, 5], [-3, -2.999], [0, 1e12],
    ]  # fmt: skip
    with page_at(browser, fake.url) as (page, said):
        drawn = page.evaluate(
            """async (ranges) => {
              const {ticks} = await import("/page/figure.js");
              return ranges.map(([low, high]) => ticks(low, high, 5));
            }""",
            ranges,
        )
        for (low, high), found in zip(ranges, drawn, strict=True):
            assert 2 <= len(found) <= 8
            assert found[0] <= low
            assert high <= found[-1]
        words = page.evaluate(
            """async () => {
              const {amount, span, plural} = await import("/page/words.js");
              const {textOf} = await import("/page/dom.js");
              return [[0, 0.82049, 1234.5, -0.5, 5.3e8, 1e-7, 2e20, null].map(amount),
                [0, 1, 119, 120, 7200, 1e6].map(span), [plural(1, "state"), plural(2000, "state")],
                ["a", "", " ", 3, true, ["a", [1, false]]].map(textOf)];
            }"""
        )
        assert words == [
            ["0", "0.82", "1,230", "\u22120.5", "530,000,000", "1.0 \u00d7 10\u207b\u2077",
             "2.0 \u00d7 10\u00b2\u2070", "\u2013"],
            ["0 seconds", "1 second", "119 seconds", "2 minutes", "2 hours", "12 days"],
            ["1 state", "2,000 states"],
            ["a", '""', '" "', "3", "true", "(a, (1, false))"],
        ]  # fmt: skip
        assert said == []


def test_the_stand_in_says_what_a_task_says(tmp_path: Path) -> None:
    """Views here have the fields of real ones."""
    store = tmp_path / "x.db"
    with open_task(store, actions=["a"], horizon=1, epsilon=0.5, planning="off") as task:
        assert shape(task.view()) == shape(new_view())
        assert policy_of([], 1, 0).keys() == task.policy_table().keys()
        task.ask("s", "e")
        (waiting,) = task.decisions()
        assert waiting.keys() == open_decision("e").keys()


def shape(view: Any) -> Any:
    """The fields of what is nested, without values."""
    return {key: shape(x) for key, x in view.items()} if isinstance(view, dict) else None
