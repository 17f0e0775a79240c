"""Load for a service, from a process of its own: episodes that are simulated, and pages that watch.

    python load_service.py HOST PORT TASK CONNECTIONS SECONDS VIEWERS

Each connection asks and tells one episode after the other, as fast as it is answered. A viewer
reads what is sent to it. Prints figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from array import array
from functools import partial
from random import Random
from time import perf_counter
from typing import Any

STATES, ACTIONS, HORIZON, SUCCESSORS = 12, 3, 8, 4


class World:
    """A random task with few successors, the same for all."""

    def __init__(self) -> None:
        draw = Random(0)
        pairs = [(s, a) for s in range(STATES) for a in range(ACTIONS)]
        self.following = {pair: draw.sample(range(STATES), SUCCESSORS) for pair in pairs}
        self.paid = {pair: round(draw.random(), 1) for pair in pairs}


class Client(asyncio.Protocol):
    """A connection that simulates episodes."""

    def __init__(self, task: str, number: int, world: World, record: Any) -> None:
        self.prefix, self.world, self.record = f"/v1/tasks/{task}/episodes", world, record
        self.draw, self.number, self.count = Random(number), number, 0
        self.buffer, self.going = b"", True
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert hasattr(transport, "write")
        self.transport = transport
        self.begin()

    def begin(self) -> None:
        self.count += 1
        self.episode, self.t = f"{os.getpid()}-{self.number}-{self.count}", 0
        self.state, self.action = self.draw.randrange(STATES), 0
        self.send("", b'{"state":"state %d"}' % self.state)

    def send(self, what: str, body: bytes) -> None:
        head = (
            f"PUT {self.prefix}/{self.episode}/steps/{self.t}{what} HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.sent = perf_counter()
        self.transport.write(head.encode() + body)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        self.buffer = b""
        status = int(head[9:12])
        answer = json.loads(body)
        if status != 200:
            self.record(perf_counter() - self.sent, 0, 1)
            print(answer, file=sys.stderr)
        decision = answer.get("next", answer) if status == 200 else None
        self.record(perf_counter() - self.sent, int(decision is not None), 0)
        if not self.going:
            self.transport.close()
        elif decision is None:
            self.begin()
        else:
            self.t, action = decision["t"], int(decision["action"][7:])
            pair = self.state, action
            self.state = self.draw.choice(self.world.following[pair])
            paid = self.world.paid[pair]
            self.send("/outcome", b'{"reward":%g,"state":"state %d"}' % (paid, self.state))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if self.going:
            self.record(0.0, 0, 1)
        if not self.done.done():
            self.done.set_result(None)


class Viewer(asyncio.Protocol):
    """A page that watches."""

    def __init__(self, task: str) -> None:
        self.task, self.views, self.bytes = task, 0, 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert hasattr(transport, "write")
        self.transport = transport
        head = f"GET /v1/tasks/{self.task}/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
        self.transport.write(head.encode())

    def data_received(self, data: bytes) -> None:
        self.views += data.count(b"event: view")
        self.bytes += len(data)


def _same(client: Client) -> Client:
    return client


async def load(
    host: str, port: int, task: str, connections: int, seconds: float, viewers: int
) -> dict[str, Any]:
    """Make load for some seconds; figures."""
    loop, world = asyncio.get_running_loop(), World()
    waits, counts = array("d"), [0, 0]

    def record(wait: float, decisions: int, errors: int) -> None:
        waits.append(wait)
        counts[0] += decisions
        counts[1] += errors

    pages = [
        (await loop.create_connection(lambda: Viewer(task), host, port))[1] for _ in range(viewers)
    ]
    began = perf_counter()
    clients = []
    for k in range(connections):
        client = Client(task, k, world, record)
        clients.append((await loop.create_connection(partial(_same, client), host, port))[1])
    await asyncio.sleep(seconds)
    for client in clients:
        client.going = False
    took = perf_counter() - began
    waited, decisions, errors = sorted(waits), *counts
    await asyncio.gather(*(client.done for client in clients))
    for page in pages:
        page.transport.close()
    return {
        "decisions_per_second": decisions / took,
        "requests_per_second": len(waited) / took,
        "p50_ms": 1000 * waited[len(waited) // 2],
        "p99_ms": 1000 * waited[int(0.99 * len(waited))],
        "max_ms": 1000 * waited[-1],
        "errors": errors,
        "views_per_second": sum(page.views for page in pages) / took,
        "mb_per_second": sum(page.bytes for page in pages) / took / 1e6,
    }


if __name__ == "__main__":
    import uvloop

    host, port, task, connections, seconds, viewers = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(
            load(host, int(port), task, int(connections), float(seconds), int(viewers))
        )
    print(json.dumps(found))
