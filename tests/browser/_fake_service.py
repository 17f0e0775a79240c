"""A service that shows what a test puts into it: views of any size, in any state, at any moment.

It answers what the page asks for, with the headers of the real one, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Condition, Thread
from typing import Any
from urllib.parse import unquote

from ucfh.server.application import HEADERS

KINDS = {"html": "text/html; charset=utf-8", "js": "text/javascript", "css": "text/css"}
PAGE = files("ucfh.server") / "page"

DECLARATION: dict[str, Any] = {
    "actions": ["practice", "exam"],
    "horizon": 4,
    "epsilon": 0.1,
    "delta": 0.1,
    "rewards": [0.0, 1.0],
    "max_return": 1.0,
    "states": None,
    "segments": [],
    "timeout": 259200.0,
    "on_timeout": ["left", 0.0],
}
NOTHING: dict[str, Any] = {
    "task": "students", "begun": 0, "open": 0, "over": 0, "decisions": 0, "waiting": 0,
    "oldest": None, "outcomes": 0, "lost": 0, "late": 0, "faults": 0, "states": 0, "policy": 0,
    "age": None, "made_from": 0, "upper": None, "lower": None, "gap": None, "certified": False,
    "refuted": False, "planner": None, "error": None, "conflicts": 0, "ahead": None,
}  # fmt: skip
NOW = 1_800_000_000.0
MEMORY = "the outcome depends on the state and the action alone, not on earlier steps"
DRIFT = "the distribution of outcomes is the same early and late in the log"
ASSUMED = [
    "the next state and the reward depend on state and action only",
    "the return of an episode is the sum of its first 4 rewards",
    "rewards lie in [0, 1]",
    "no episode pays more than 1 in all",
    "episodes do not influence each other, and no outcome is missing because of later results",
]


def plans(count: int, last: int = 2000) -> list[dict[str, Any]]:
    """Plans whose bounds come closer, the last one after some number of episodes."""
    out = []
    for number in range(1, count + 1):
        episodes = last ** (number / count)
        width = min(1.0, 9 / episodes**0.5)
        out.append(
            {
                "number": number,
                "made": NOW - 7 * (count - number),
                "episodes": int(episodes),
                "outcomes": int(3.4 * episodes),
                "upper": min(1.0, 0.62 + 0.55 * width),
                "lower": max(0.0, 0.62 - 0.62 * width),
                "gap": width,
            }
        )
    return out


def new_view(task: str = "students") -> dict[str, Any]:
    """The view of a task of which nothing is known."""
    return {
        "task": task,
        "version": "0.0.0",
        "now": NOW,
        "headline": "Nothing is known yet: no outcome is known.",
        "state": "new",
        "declaration": DECLARATION,
        "status": {**NOTHING, "task": task},
        "remaining": None,
        "plans": [],
        "report": None,
    }


def learning_view(task: str = "students", count: int = 12, episodes: int = 2000) -> dict[str, Any]:
    """The view of a task that learns, after some plans."""
    view, made = new_view(task), plans(count, episodes)
    last = made[-1]
    begun = last["episodes"] + 9
    view |= {
        "state": "learning",
        "headline": f"Not certified yet: this policy may lose up to {last['gap']:.3g} per episode "
        "against the best one (90% confidence), and 0.1 is asked for; about 3,600 more episodes.",
        "remaining": 3600,
        "plans": made,
        "status": {
            **view["status"], "begun": begun, "open": 8, "over": begun - 8,
            "decisions": 4 * begun, "waiting": 8, "oldest": 93_000.0, "outcomes": 4 * begun - 37,
            "lost": 29, "late": 12, "faults": 15, "states": 6, "policy": count, "age": 42.0,
            "made_from": last["episodes"], "planner": "desk:4711", **known(last),
        },
        "report": {
            "number": count, "made": NOW - 42, "episodes": last["episodes"],
            "missing": [
                {"segment": 0, "state": "knows a", "action": "exam", "visits": 812, "share": 0.41},
                {"segment": 0, "state": "knows a", "action": "practice", "visits": 655,
                 "share": 0.225},
                {"segment": 0, "state": "new", "action": "exam", "visits": 140, "share": 0.0912},
                {"segment": 0, "state": None, "action": None, "visits": 2410, "share": 0.0033},
            ],
            "losses": {"lost": 29, "waiting": 8, "gap": last["gap"],
                       "gap_if_random": 0.8 * last["gap"]},
            "assumed": ASSUMED,
            "tested": [
                {"name": "memory", "assumption": MEMORY, "e_value": 0.73, "threshold": 20.0,
                 "refuted": False},
                {"name": "drift", "assumption": DRIFT, "e_value": 2.4e-7, "threshold": 20.0,
                 "refuted": False},
            ],
            "findings": [],
            "contradiction": None,
        },
    }  # fmt: skip
    return view


def known(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the bounds of a plan as in a status."""
    return {key: plan[key] for key in ("upper", "lower", "gap")}


def certified_view(task: str = "students") -> dict[str, Any]:
    """The view of a task whose policy is certified."""
    view = learning_view(task, episodes=20_000)
    gap = view["plans"][-1]["gap"]
    view["status"] |= {"certified": True, "waiting": 0, "oldest": None, "open": 0}
    said = f"this policy is within {gap:.3g} of optimal per episode, as was asked for (0.1; 90%)."
    return {**view, "state": "certified", "headline": f"Certified: {said}", "remaining": 0}


def refuted_view(task: str = "students") -> dict[str, Any]:
    """The view of a task that does not do what is assumed."""
    view = learning_view(task, episodes=370)
    view["status"]["refuted"] = True
    view["report"]["tested"][0] |= {"e_value": 5.3e8, "refuted": True}
    view["report"]["findings"] = [
        {
            "name": "memory",
            "assumption": MEMORY,
            "where": "after action 'exam' in state 'knows a'",
            "effect": "if the step before had action 'practice', state 'passed' follows in 71 % "
            "of 412 cases, otherwise in 28 % of 390",
            "meaning": "the bounds take these cases for one, so they may be false: nothing is "
            "certified",
            "remedy": "make the previous action a part of the state",
            "e_value": 5.3e8,
            "episodes": 803,
        }
    ]
    said = f"Not certified: the outcomes contradict the assumption that {MEMORY}."
    return {**view, "state": "refuted", "headline": said, "remaining": None}


def policy_of(states: list[Any], horizon: int = 4, number: int = 12) -> dict[str, Any]:
    """A policy with an entry for each step and state."""
    steps, count = range(horizon), range(len(states))
    return {
        "policy": number,
        "horizon": horizon,
        "actions": ["practice", "exam"],
        "states": states,
        "table": [[(s + t) % 2 for s in count] for t in steps],
        "changed": [
            [max(1, number - (7 * s + 3 * t) % (number + 1)) for s in count] for t in steps
        ],
    }


def open_decision(episode: str, t: int = 1, state: Any = "knows a") -> dict[str, Any]:
    """A decision that waits."""
    return {
        "number": 1, "episode": episode, "t": t, "state": state, "action": "practice", "policy": 12,
        "status": "open", "asked": NOW - 93_000.0, "deadline": NOW + 5000.0, "reward": None,
        "next_state": None, "done": False, "told": None, "note": None, "taken": None,
    }  # fmt: skip


class FakeService:
    """Views by task; `publish` changes a view."""

    def __init__(self) -> None:
        self.views: dict[str, dict[str, Any]] = {}
        self.policy = policy_of(["new", "knows a", "knows b", "knows both", "passed", "left"])
        self.decisions = [open_decision(f"student-{k}") for k in range(8)]
        self.needed, self.role = False, "write"
        self.news = Condition()
        self.version, self.stopped = 0, False
        self.watched = 0  # times
        self.url = ""

    def publish(self, *views: dict[str, Any]) -> None:
        """Show the tasks of these views, with all their plans."""
        with self.news:
            self.views |= {view["task"]: deepcopy(view) for view in views}
            self.version += 1
            self.news.notify_all()

    def watch(self, task: str) -> Iterator[bytes]:
        """The events of a task: first with all plans, then with new ones."""
        seen, last = 0, 0
        self.watched += 1
        yield b"retry: 2000\n\n"
        while not self.stopped:
            with self.news:
                self.news.wait_for(lambda seen=seen: self.stopped or self.version > seen, 0.2)  # type: ignore[misc]
                if self.version == seen or self.stopped:
                    continue
                view, seen = dict(self.views[task]), self.version
            view["plans"] = [x for x in view["plans"] if x["number"] > last]
            last = max([last, *(x["number"] for x in view["plans"])])
            yield b"event: view\ndata: " + json.dumps(view).encode() + b"\n\n"

    def answer(self, method: str, path: str) -> tuple[int, Any]:
        """Status and JSON."""
        rest = [unquote(x) for x in path.partition("?")[0].split("/")[1:]]
        match method, *rest:
            case ["GET", "session"]:
                return 200, {"role": self.role, "needed": self.needed, "until": None}
            case ["GET", "v1", "tasks"]:
                return 200, {"tasks": [view["status"] for view in self.views.values()]}
            case ["GET", "v1", "tasks", task] if task in self.views:
                return 200, self.views[task]
            case ["GET", "v1", "tasks", task, "policy"] if task in self.views:
                return 200, self.policy
            case ["GET", "v1", "tasks", task, "decisions"] if task in self.views:
                return 200, {"decisions": self.decisions[:100], "more": len(self.decisions) > 100}
            case _:
                return 404, {"title": "Not Found", "status": 404, "detail": "there is nothing"}


def handler(service: FakeService) -> type[BaseHTTPRequestHandler]:
    """Return the request handler of a service."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.split("/")
            if self.path == "/" or path[1] == "tasks":
                self.file("index.html")
            elif path[1] == "page":
                self.file(path[2])
            elif path[-1] == "events":
                self.stream(unquote(path[3]))
            else:
                status, said = service.answer("GET", self.path)
                self.whole(status, json.dumps(said).encode(), "application/json")

        def file(self, name: str) -> None:
            kind = KINDS.get(name.rpartition(".")[2], "image/svg+xml")
            self.whole(200, (PAGE / name).read_bytes(), kind)

        def whole(self, status: int, body: bytes, kind: str) -> None:
            self.begin(status, kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def begin(self, status: int, kind: str) -> None:
            self.send_response(HTTPStatus(status))
            for name, value in HEADERS:
                self.send_header(name.decode(), value.decode())
            self.send_header("Content-Type", kind)

        def stream(self, task: str) -> None:
            self.begin(200, "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            try:
                for event in service.watch(task):
                    self.wfile.write(event)
            except OSError:
                pass  # the page is closed

        def log_message(self, *args: Any) -> None:
            pass

    return Handler


@contextmanager
def serving() -> Iterator[FakeService]:
    """A service at some port."""
    service = FakeService()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler(service)) as server:
        server.daemon_threads = True
        service.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, args=[0.05])
        thread.start()
        try:
            yield service
        finally:
            service.stopped = True
            server.shutdown()
            thread.join()
