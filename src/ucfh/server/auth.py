"""Authentication by a token, by a session of the dashboard, or by a loopback host name.

Without tokens, only loopback host names are accepted, against DNS rebinding. Requests of other
origins may change nothing, even with valid cookies.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from ucfh.server.router import ALL, RequestContext
from ucfh.server.schemas import RequestError
from ucfh.server.tokens import READ, WRITE, TokenFile

COOKIE = "ucfh_session"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
READING = ("GET", "HEAD")


class Authenticator:
    """Authorizes requests.

    Args:
        tokens: the accepted tokens; None: all requests from this machine are allowed.

    """

    def __init__(self, tokens: TokenFile | None) -> None:
        self._tokens = tokens

    def authorize(self, context: RequestContext, role: str) -> None:
        """Raise `RequestError` unless a request has a role; sets its token or its session."""
        headers = context.request.headers
        if len(headers.getlist("host")) > 1:
            raise RequestError(400, "the request has more than one Host header. Fix: send one.")
        host, origin = headers.get("host", ""), headers.get("origin")
        if self._tokens is None and name_of(host) not in LOOPBACK:
            raise RequestError(
                403, "without tokens only this machine is served: use 127.0.0.1 as its name"
            )
        if origin is not None and context.request.method not in READING and not same(origin, host):
            raise RequestError(403, "a page of another site may not do this")
        if self._tokens is None:
            return
        said = headers.get("authorization")
        if said is not None:
            scheme, _, text = said.partition(" ")
            context.token = self._tokens.find(text.strip()) if scheme.lower() == "bearer" else None
        else:
            context.session = context.request.cookies.get(COOKIE, "")
            if (found := self._tokens.session(context.session)) is not None:
                context.token, context.until = found
        if role == ALL:
            return
        if context.token is None:
            what = "no token was sent" if said is None else "this token is not known"
            raise RequestError(
                401,
                f"{what}: send Authorization: Bearer TOKEN, as ucfh token create printed it",
                **{"WWW-Authenticate": "Bearer"},
            )
        if role == WRITE and context.token.role == READ:
            raise RequestError(
                403, f"the token {context.token.name!r} is read-only: use another one"
            )


@lru_cache(100)
def name_of(host: str) -> str:
    """Return the name of a host, without its port.

    >>> name_of("[::1]:80"), name_of("LocalHost:8765"), name_of("evil.com")
    ('::1', 'localhost', 'evil.com')
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def same(origin: str, host: str) -> bool:
    """True if an origin is this service, by http or https."""
    return origin.partition("://")[2].lower() == host.lower() != ""
