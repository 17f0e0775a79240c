"""An HTTP client of a service, with the standard library alone.

Connections are kept alive and reused. After a lost connection or a 503, a request is retried for
some seconds: all calls on a task are idempotent. Other errors are raised as the exceptions of a
task.
"""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from ucfh.exceptions import InputError, wrong_type
from ucfh.tasks.errors import (
    Conflict,
    EpisodeOver,
    InvalidReport,
    OutOfOrder,
    StoreBusy,
    StoreError,
    StoreFull,
    TaskError,
    UnknownEpisode,
    UnknownTask,
)

TIMEOUT = 60.0
"""Seconds to wait for a response: the first certificate on a new machine also compiles."""
PATIENCE = 20.0
"""Seconds for which a request is retried."""
LONGEST_PAUSE = 2.0
FIRST_PAUSE = 0.05
CHUNK = 1 << 16
"""Bytes of a chunk of a long response."""
UNAVAILABLE = (502, 503, 504)
"""Statuses of a service, or of a proxy in front of it, that cannot respond now."""
TOKEN = "UCFH_TOKEN"
"""The environment variable of the token."""
EXCEPTIONS: dict[str, type[InputError]] = {
    kind.__name__: kind
    for kind in (
        TaskError, UnknownTask, UnknownEpisode, Conflict, EpisodeOver, OutOfOrder, InvalidReport,
        StoreFull, StoreBusy, StoreError, InputError,
    )
}  # fmt: skip
"""Exceptions by the name in problem details."""
BY_STATUS: dict[int, type[TaskError]] = {
    404: UnknownTask, 409: Conflict, 413: InvalidReport, 422: InvalidReport,
    503: StoreBusy, 507: StoreFull,
}  # fmt: skip
"""Exceptions of problems without a name."""


class HttpCaller:
    """A client of one service; several threads may use it at once.

    Attributes:
        url: of the service, without a slash at its end.

    """

    def __init__(self, url: str, token: str | None) -> None:
        self.url = check_url(url)
        parts = urlsplit(self.url)
        self._host, self._port, self._path = parts.hostname or "", parts.port, parts.path
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._headers = {"Accept": "application/json"}
        if token is None:
            token = os.environ.get(TOKEN) or None
        if token is not None:
            self._headers["Authorization"] = f"Bearer {check_token(token)}"
        self._process, self._idle = os.getpid(), list[HTTPConnection]()
        self._closed = False

    def call(self, method: str, path: str, body: Any = None, *, wait: bool = True) -> Any:
        """Send a request and return the decoded response; a problem is raised.

        ``wait``: whether to retry if there is no service.
        """
        connection, response, content = self._send(method, path, body, wait, whole=True)
        if response.will_close or self._closed:
            connection.close()
        else:
            self._idle.append(connection)
        return self._decoded(method, path, response, content)

    def stream(self, path: str) -> Iterator[bytes]:
        """Yield the chunks of a long response."""
        connection, response, _ = self._send("GET", path, None, True, whole=False)
        with closing(connection):
            try:
                if response.status != 200:
                    self._decoded("GET", path, response, response.read())
                while chunk := response.read(CHUNK):
                    yield chunk
                if response.length:
                    raise HTTPException("it ended early")
            except (OSError, HTTPException) as error:
                raise self._no_answer(error) from None

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _send(
        self, method: str, path: str, body: Any, wait: bool, whole: bool
    ) -> tuple[HTTPConnection, HTTPResponse, bytes]:
        """Send a request, with retries; returns its connection, response and body."""
        content, headers = None, self._headers
        if body is not None:
            content = json.dumps(body, allow_nan=False).encode()
            headers = {**headers, "Content-Type": "application/json"}
        until, pause = time.monotonic() + PATIENCE, 0.0
        while True:
            connection, is_new = self._connection()
            try:
                connection.request(method, f"{self._path}{path}", content, headers)
                response = connection.getresponse()
                found = response.read() if whole or response.status in UNAVAILABLE else b""
            except (OSError, HTTPException) as error:
                connection.close()
                if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
                    raise self._insecure(error) from None
                if time.monotonic() + pause > until or (is_new and not wait):
                    raise self._no_answer(error) from None
            except BaseException:
                connection.close()
                raise
            else:
                asked = response.headers.get("Retry-After", "")
                if response.status in UNAVAILABLE and asked.isdecimal():
                    pause = max(pause, float(asked))
                is_late = not wait or time.monotonic() + pause > until
                if response.status not in UNAVAILABLE or is_late:
                    return connection, response, found
                connection.close()
            time.sleep(pause)
            pause = min(max(2 * pause, FIRST_PAUSE), LONGEST_PAUSE)

    def _connection(self) -> tuple[HTTPConnection, bool]:
        """An idle connection or a new one, and whether it is new."""
        if self._closed:
            raise StoreError(f"the connection to {self.url} was closed: connect again")
        if self._process != os.getpid():  # after a fork, they are those of another process
            self._process = os.getpid()
            while self._idle:
                self._idle.pop().close()
        try:
            return self._idle.pop(), False
        except IndexError:
            pass
        if self._tls is not None:
            secure = HTTPSConnection(self._host, self._port, timeout=TIMEOUT, context=self._tls)
            return secure, True
        return HTTPConnection(self._host, self._port, timeout=TIMEOUT), True

    def _decoded(self, method: str, path: str, response: HTTPResponse, content: bytes) -> Any:
        """The decoded content of a response; raise its problem."""
        status = response.status
        if 300 <= status < 400:
            where = response.headers.get("Location", "another address")
            raise StoreError(f"{self.url} redirects to {where}: connect to that address")
        if status == 401:
            what = "does not accept the token: pass" if self._has_token else "needs a token: pass"
            raise with_status(TaskError, 401, f"{self.url} {what} token=..., or set {TOKEN}")
        try:
            found = json.loads(content)
            ours = status == 200 or {"status", "detail"} <= found.keys()
        except (ValueError, AttributeError):
            ours = False
        if not ours:
            raise self._unexpected(method, path, response)
        if status != 200:
            raise exception_of(found)
        return found

    @property
    def _has_token(self) -> bool:
        return "Authorization" in self._headers

    def _unexpected(self, method: str, path: str, response: HTTPResponse) -> TaskError:
        if response.status in UNAVAILABLE:
            return StoreBusy(f"{self.url} cannot answer now (status {response.status}): call again")
        return StoreError(
            f"{self.url} is not a ucfh service: it answered {method} {path} with status "
            f"{response.status}; check the address"
        )

    def _no_answer(self, error: Exception) -> TaskError:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return StoreBusy(
            f"no answer from {self.url} ({why}): check the address and that `ucfh serve` runs "
            "there, then call again; every call may be repeated"
        )

    def _insecure(self, error: ssl.SSLError) -> TaskError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return StoreError(
                f"the certificate of {self.url} cannot be trusted ({error.verify_message}): check "
                "the address, or name your own authority's file in SSL_CERT_FILE"
            )
        return StoreError(f"{self.url} does not speak TLS ({error.reason}): check the address")


def exception_of(problem: dict[str, Any]) -> InputError:
    """Return the exception of problem details.

    >>> exception_of({"status": 409, "detail": "it is over", "fault": "EpisodeOver"})
    EpisodeOver('it is over')
    """
    status = int(problem["status"])
    other = BY_STATUS.get(status, StoreError if status >= 500 else TaskError)
    return with_status(
        EXCEPTIONS.get(problem.get("fault", ""), other), status, str(problem["detail"])
    )


def with_status(kind: type[InputError], status: int, message: str) -> InputError:
    """Return an exception with its HTTP status."""
    made = kind(message)
    if isinstance(made, TaskError):
        made.status = status
    return made


def check_url(url: Any) -> str:
    """Return the valid URL of a service, without a slash at its end.

    >>> check_url("http://127.0.0.1:8765/")
    'http://127.0.0.1:8765'
    >>> check_url("127.0.0.1:8765")
    Traceback (most recent call last):
    ucfh.exceptions.InputError: url = '127.0.0.1:8765' must be an address, such as
    http://127.0.0.1:8765
    """
    what = "an address, such as http://127.0.0.1:8765"
    if not isinstance(url, str) or not url.isprintable() or " " in url:
        raise wrong_type("url", url, what)
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        right = False
    if not right:
        raise wrong_type("url", url, what)
    if parts.username is not None or parts.query or parts.fragment:
        raise InputError(
            f"url = {parts.scheme}://... holds more than an address: leave out what stands before "
            "@ or after ? and #, and pass token=..."
        )
    return url.rstrip("/")


def check_token(token: Any) -> str:
    """Return a valid token; the error does not contain it."""
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
        raise InputError("token is not a token: pass the text that `ucfh token create` printed")
    return token
