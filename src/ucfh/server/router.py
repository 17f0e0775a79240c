"""Endpoints, routing, and the context of a request.

The table of endpoints determines the handler of a request, the check of its body, and the OpenAPI
document. Names in a path are percent-encoded, so they may contain a slash.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ucfh.server.schemas import RequestError, plain_number
from ucfh.server.tokens import READ, Token
from ucfh.tasks.config import LONGEST_NAME

if TYPE_CHECKING:
    from ucfh.server.application import Service

T = TypeVar("T")
ALL = "all"
"""The role of endpoints that need no token."""
encode = msgspec.json.Encoder(enc_hook=plain_number).encode
NO_STORE = {"Cache-Control": "no-store"}
JSON, LOG = "application/json", "application/jsonl"
HTML, TEXT, STREAM = "text/html", "text/plain", "text/event-stream"
MOST_PARTS = 12
"""Largest number of parts of a path."""
MOST_DIGITS = 15
"""Largest number of digits of a step."""


class Query:
    """The query string of a request; unknown parameters are rejected."""

    def __init__(self, given: Iterable[tuple[str, str]], known: Iterable[str]) -> None:
        self._given: dict[str, str] = {}
        for key, value in given:
            if key not in known:
                listed = ", ".join(known) or "nothing"
                raise RequestError(
                    422, f"?{key[:50]}= is not known here: use {listed}", "InputError"
                )
            if key in self._given:
                raise RequestError(422, f"?{key}= is given twice. Fix: give it once.", "InputError")
            self._given[key] = value

    def text(self, key: str, default: T) -> str | T:
        """Return a string parameter."""
        return self._given.get(key, default)

    def count(self, key: str, default: int, least: int, most: int = 10**MOST_DIGITS - 1) -> int:
        """Return an integer parameter."""
        text = self._given.get(key, str(default))
        if not is_count(text) or not least <= int(text) <= most:
            raise RequestError(
                422, f"?{key}= must be a whole number from {least} to {most}", "InputError"
            )
        return int(text)


def is_count(text: str) -> bool:
    """True if a text is a nonnegative integer that is not too long."""
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


@dataclass
class RequestContext:
    """The context of a request.

    Attributes:
        service, request: the service and the raw request.
        names: path parameters by name.
        body: the decoded body, if the request has one.
        token: of the client, None if there is none.
        session, until: cookie and end of its session, if it has a session instead of a token.
        query: the query parameters.

    """

    service: Service
    request: Request
    names: dict[str, Any] = field(default_factory=dict)
    body: Any = None
    token: Token | None = None
    session: str = ""
    until: float | None = None
    query: Query = field(default_factory=lambda: Query((), ()))

    def is_valid(self) -> bool:
        """True if its token, or its session, is still valid."""
        tokens = self.service.tokens
        if tokens is None:
            return True
        if self.until is not None:
            return tokens.session(self.session) is not None
        tokens.refresh()
        return self.token in tokens.tokens


@dataclass(frozen=True)
class Endpoint:
    """An endpoint.

    Attributes:
        method, path: "{...}" in a path is a parameter; "{t}" is a step.
        handler: the function that answers.
        summary: for the OpenAPI document.
        role: the required role: "all" (none), "read" (any token) or "write".
        body: the type of the request body. responses: the type of the response, by status.
        media: the media type of the response.
        query: schemas of the query parameters by name.
        problems: statuses of problems, in addition to those of parameters, bodies and roles.

    """

    method: str
    path: str
    handler: Callable[[RequestContext], Awaitable[Response]]
    summary: str
    role: str = READ
    body: Any = None
    responses: dict[int, Any] = field(default_factory=lambda: {200: dict[str, Any]})
    media: str = JSON
    query: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: tuple[int, ...] = ()

    @cached_property
    def decoder(self) -> msgspec.json.Decoder[Any]:
        """The decoder of the body."""
        return msgspec.json.Decoder(self.body)

    @cached_property
    def parts(self) -> list[str]:
        """The parts of the path."""
        return self.path.split("/")[1:]


class Router:
    """Finds the endpoint of a request in a tree of path parts."""

    def __init__(self, endpoints: list[Endpoint]) -> None:
        self._root: dict[str, Any] = {}
        for endpoint in endpoints:
            here = self._root
            for part in endpoint.parts:
                here = here.setdefault("{}" if part.startswith("{") else f"/{part}", {})
            here.setdefault("", {})[endpoint.method] = endpoint

    def find(self, method: str, raw_path: bytes) -> tuple[Endpoint, dict[str, Any]]:
        """Return the endpoint of a request and its path parameters."""
        parts, names, here = raw_path.split(b"/", MOST_PARTS)[1:], list[bytes](), self._root
        for part in parts:
            there = here.get("/" + part.decode("latin-1"))
            if there is None and (there := here.get("{}")) is not None:
                names.append(part)
            if there is None:
                raise RequestError(404, "there is nothing at this address: see /openapi.json")
            here = there
        methods: dict[str, Endpoint] = here.get("", {})
        found = methods.get("GET" if method == "HEAD" else method)
        if found is None or (method == "HEAD" and found.media == STREAM):
            if not methods:
                raise RequestError(404, "there is nothing at this address: see /openapi.json")
            allowed = ", ".join(methods)
            raise RequestError(405, f"{method} is not possible here: use {allowed}", Allow=allowed)
        keys = (part[1:-1] for part in found.parts if part.startswith("{"))
        return found, {key: read_name(key, part) for key, part in zip(keys, names, strict=True)}


def read_name(key: str, part: bytes) -> Any:
    """Return the value of a path parameter: a name, or the number of a step."""
    try:
        text = (unquote_to_bytes(part) if b"%" in part else part).decode()
    except UnicodeDecodeError:
        raise RequestError(404, f"{key} in the path is not UTF-8: encode it so") from None
    if key == "t":
        if not is_count(text):
            raise RequestError(
                404, f"step {text[:20]!r} in the path must be a whole number from 0 on"
            )
        return int(text)
    if not 0 < len(text) <= LONGEST_NAME:
        raise RequestError(404, f"{key} in the path must have 1 to {LONGEST_NAME} letters")
    return text


def json_response(content: Any, status: int = 200) -> Response:
    """Return a JSON response."""
    return Response(encode(content), status, NO_STORE, JSON)
