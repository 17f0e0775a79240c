"""Hostile requests as bytes; none of them is a call that may change something.

Those with a token that may write are broken; those that are not broken have no token, a wrong one,
or one that is read-only.
"""

from __future__ import annotations

import json
import re
import socket
import sqlite3
from pathlib import Path
from random import Random
from typing import NamedTuple

METHODS = ["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "put", "G\0T", ""]
ODD = [
    "%00", "..", "%2e%2e%2f", "%2F", "\\", "%", "%zz", "%ff%fe", "%C0%AF", "%F0%9F%92%A9", ";x=1",
    "?", "#", "//", "t", "nix", "0", "-1", "1e3", "99999999999999999999", "%0d%0aX:%20y", "a" * 600,
    "'; DROP TABLE events;--", "${7*7}", "\x7f", "*", "http://evil.com", "events", "page",
]  # fmt: skip
PLACES = [
    "/v1/tasks/t/episodes/e/steps/0", "/v1/tasks/t/episodes/e/steps/0/outcome",
    "/v1/tasks/t/episodes/e/steps/0/record", "/v1/tasks/t/episodes/e/abandon",
    "/v1/tasks/t/batch", "/v1/tasks/t/expire", "/v1/tasks", "/session",
]  # fmt: skip
RIGHT = {
    "/v1/tasks/t/episodes/e/steps/0": {"state": "x"},
    "/v1/tasks/t/episodes/e/steps/0/outcome": {"reward": 0, "done": True},
    "/v1/tasks/t/episodes/e/steps/0/record": {"state": "x", "action": "a"},
    "/v1/tasks/t/episodes/e/abandon": {},
    "/v1/tasks/t/batch": {"calls": [{"call": "ask", "episode": "e", "state": "x"}]},
    "/v1/tasks/t/expire": {},
    "/v1/tasks": {"task": "new", "actions": ["a"], "horizon": 2, "epsilon": 0.5},
    "/session": {"token": "x"},
}
BROKEN = [
    b"", b"{", b"[]", b"null", b"7", b'"x"', b'{"state": }', b'{"state": NaN}', b"\xff\xfe{",
    b'{"state": "\\ud800"}', b"[" * 20000, b'{"a":' * 3000, b'{"nix": 1}', b'{"state": 1e999}',
    b'{"state": 0.5}', b'{"state": {}}', b'{"reward": "1"}', b'{"reward": 1e400}',
    b'{"calls": [{}]}', b'{"calls": [[]]}', b'{"calls": {"call": "ask"}}', b'{"token": 5}',
    b'{"task": "\\u0000", "actions": ["a"], "horizon": 2, "epsilon": 0.5}',
    b'{"task": "n", "actions": [], "horizon": 2, "epsilon": 0.5}',
    b'{"task": "n", "actions": ["a"], "horizon": 1e99, "epsilon": 0.5}',
    b'{"task": "n", "actions": ["a"], "horizon": 2, "epsilon": -0.5}',
    b'{"state": 1' + b"0" * 5000 + b"}", b"0" * 70000, b'{"state": "' + b"x" * 1_000_001 + b'"}',
    b'{"calls": [' + b'{"call":"ask","episode":"e","state":"x"},' * 1001 + b"0]}",
]  # fmt: skip
HEADS = [
    "Transfer-Encoding: chunked\r\nContent-Length: 5", "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: -1", "Content-Length: 0x10", "Content-Length: 1 0", "Content-Length: ",
    "Content-Length: 99999999999999999999999", "Transfer-Encoding: xchunked",
    "Transfer-Encoding: chunked, identity", "Transfer-Encoding : chunked", " folded: x",
    "X: " + "y" * 40_000, "\r\n".join(f"X{k}: y" for k in range(3000)), "X: \0", "no colon",
    "Expect: 100-continue", "Upgrade: websocket\r\nConnection: Upgrade", "Range: bytes=0-99999",
    "Host: evil.com", "Origin: http://evil.com", "Cookie: ucfh_session=" + "a." * 500,
    "Authorization: Bearer \xff\xfe", "Authorization: " + "Bearer " * 200, "If-None-Match: *",
]  # fmt: skip
CHUNKS = [
    b"5\r\nhello\r\n0\r\n\r\n",
    b"ffffffffffffffff\r\nx",
    b"-1\r\n\r\n",
    b"5;x=y\r\nab",
    b"zz",
]
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


class Hostile(NamedTuple):
    """Bytes of a request, and whether the service can know that no more follow."""

    sent: bytes
    ends: bool


def hostile(random: Random, write: str, read: str) -> Hostile:
    """One of very many."""
    kind = random.randrange(8)
    if kind == 0:
        return Hostile(random.randbytes(random.randrange(1, 300)), False)
    if kind == 1:  # odd addresses
        path = "/" + "/".join(random.choice([*ODD, *PLACES]) for _ in range(random.randrange(5)))
        return _request(random.choice(METHODS), path, b'{"state": "x"}', read)
    place = random.choice(PLACES)
    method = "POST" if place in PLACES[3:] else "PUT"
    if kind == 2:  # broken, with a token that may write
        body = random.choice([x for x in BROKEN if _is_wrong(place, x)])
        return _request(method, place, body, write)
    right = json.dumps(RIGHT[place]).encode()
    if kind == 3:  # changed at random, without such a token
        changed = bytearray(right)
        for _ in range(random.randrange(1, 4)):
            changed[random.randrange(len(changed))] = random.randrange(256)
        return _request(method, place, bytes(changed), random.choice([read, "nix", ""]))
    if kind == 4:  # heads that lie
        return _request(method, place, right, random.choice([read, ""]), random.choice(HEADS), True)
    if kind == 5:  # a second request in the body of the first
        inner = _request(method, place, right, random.choice([read, "nix"])).sent
        return _request(method, place, inner, random.choice([read, ""]), "Content-Length: 3", True)
    if kind == 6:  # pieces
        head = "Transfer-Encoding: chunked"
        return _request(method, place, random.choice(CHUNKS), write, head, True)
    whole = _request(method, place, right, write).sent
    return Hostile(whole[: random.randrange(len(whole) - 1)], False)  # cut off


def _is_wrong(place: str, body: bytes) -> bool:
    """Return whether a body is not a complete call at a place."""
    return not (place == "/session" and body.startswith(b'{"token"')) or b"5" in body


def _request(
    method: str, path: str, body: bytes, token: str, more: str = "", lies: bool = False
) -> Hostile:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    lines += [more] if more else []
    lines += (
        [] if (lies and "ength" in more) or "ncoding" in more else [f"Content-Length: {len(body)}"]
    )
    head = "\r\n".join([*lines, "Connection: close", "", ""])
    return Hostile(head.encode("latin-1", "replace") + body, not lies)


def answers(url: str, request: Hostile) -> list[int]:
    """Send it on a connection of its own; the statuses that come back."""
    host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
    found = b""
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        try:
            connection.sendall(request.sent)
            if not request.ends:
                connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                found += piece
        except (ConnectionError, BrokenPipeError):  # it would not hear the rest
            pass
    return [int(x) for x in STATUS.findall(found)]


def content(store: Path) -> list[str]:
    """All that a store holds."""
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
        return list(connection.iterdump())


def attack(url: str, store: Path, count: int, seed: int, write: str, read: str) -> dict[int, int]:
    """Send many; how often each status came. Nothing is written, and nothing breaks.

    A call that may be made is written at the end: so that would have been seen.
    """
    random, found, before = Random(seed), dict[int, int](), content(store)
    for _ in range(count):
        request = hostile(random, write, read)
        for status in answers(url, request):
            found[status] = found.get(status, 0) + 1
            assert status < 500 or status == 503, request
    assert content(store) == before
    assert answers(url, _request("PUT", PLACES[0], b'{"state": "x"}', write)) == [200]
    assert content(store) != before
    return found
