"""The curl commands of a page, and how they are run without curl."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from doctest import ELLIPSIS, OutputChecker
from http.client import HTTPConnection
from urllib.parse import urlsplit

VALUED = ("-X", "--json", "--oauth2-bearer", "--max-time")
"""Options that have a value; others are about what is printed."""


def commands(page: str) -> Iterator[tuple[str, str]]:
    """Each command of the page, and what it prints."""
    for block in re.findall(r"```(?:console|text)\n(.*?)```", page, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            count = 1 + sum(1 for line in lines if line.startswith("> "))
            told = [line.removeprefix("> ") for line in lines[:count]]
            yield "\n".join(told), "\n".join(lines[count:])


def request_of(command: str, variables: Mapping[str, str]) -> tuple[str, str, dict[str, str]]:
    """The method, the address and the options of a curl command."""
    words = iter(shlex.split(command.replace("\\\n", "").partition(" 2>")[0]))
    assert next(words) == "curl"
    url, options = "", {}
    for word in words:
        if word in VALUED:
            options[word] = re.sub(r"\$(\w+)", lambda x: variables[x[1]], next(words))
        elif not word.startswith("-"):
            url = word
    return options.get("-X", "POST" if "--json" in options else "GET"), url, options


def run_command(command: str, variables: Mapping[str, str]) -> str:
    """What curl would print."""
    method, url, options = request_of(command, variables)
    parts = urlsplit(url)
    headers = {"Content-Type": "application/json"} if "--json" in options else {}
    if (token := options.get("--oauth2-bearer")) is not None:
        headers["Authorization"] = f"Bearer {token}"
    connection = HTTPConnection(parts.netloc, timeout=float(options.get("--max-time", 30)))
    try:
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method, path, options.get("--json"), headers)
        response, found = connection.getresponse(), b""
        try:
            while piece := response.read1(1 << 16):
                found += piece
        except TimeoutError:
            assert "--max-time" in options
        return found.decode()
    finally:
        connection.close()


def check_page(
    page: str, places: Mapping[str, str], run: Callable[[str], str]
) -> list[tuple[str, str]]:
    """Run all commands of a page, and compare; the method and the address of each.

    Args:
        page: its text.
        places: where the services are that the page has at other addresses.
        run: what a command prints.

    """
    called = []
    for command, printed in commands(page):
        method, url, _ = request_of(command, {"UCFH_TOKEN": ""})
        called.append((method, urlsplit(url).path))
        for name, place in places.items():
            command = command.replace(name, place)
        found, wanted = (re.sub(r"\s+", "", text) for text in (run(command), printed))
        assert OutputChecker().check_output(wanted, found, ELLIPSIS), (command, found)
    return called
