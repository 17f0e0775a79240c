"""The dashboard, its files, and its sessions."""

from __future__ import annotations

import time
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from ucfh.server.auth import COOKIE
from ucfh.server.routes import RequestContext, given
from ucfh.server.schemas import RequestError
from ucfh.server.tokens import SESSION, WRITE


async def page(visit: RequestContext) -> Response:
    """Return the dashboard, or one of its files."""
    name = visit.names.get("file", "index.html")
    if "/" in name or "\\" in name or "\0" in name:
        raise RequestError(404, "there is no such file")
    try:
        found = await visit.service.page.get_response(name, visit.request.scope)
    except HTTPException:
        raise RequestError(404, "there is no such file") from None
    found.headers["Cache-Control"] = "no-cache"
    return found


def _session(visit: RequestContext) -> dict[str, Any]:
    needed = visit.service.tokens is not None
    role = WRITE if not needed else visit.token and visit.token.role
    return {"role": role, "needed": needed, "until": visit.until}


async def session(visit: RequestContext) -> Response:
    """Return the current session."""
    return given(_session(visit))


async def sign_in(visit: RequestContext) -> Response:
    """Start a session with a token."""
    tokens = visit.service.tokens
    if tokens is None:
        return given(_session(visit))
    visit.token = tokens.find(visit.body.token)
    if visit.token is None:
        raise RequestError(401, "this token is not known", **{"WWW-Authenticate": "Bearer"})
    visit.until = time.time() + SESSION
    response = given(_session(visit))
    _set_cookie(visit, response, tokens.cookie(visit.token, visit.until), int(SESSION))
    return response


async def sign_out(visit: RequestContext) -> Response:
    """End a session."""
    if visit.service.tokens is not None:
        visit.service.tokens.end(visit.session)
    visit.token = visit.until = None
    response = given(_session(visit))
    _set_cookie(visit, response, "", 0)
    return response


def _set_cookie(visit: RequestContext, response: Response, text: str, seconds: int) -> None:
    headers = visit.request.headers
    secure = headers.get("x-forwarded-proto", visit.request.url.scheme) == "https"
    response.set_cookie(
        COOKIE, text, max_age=seconds, secure=secure, httponly=True, samesite="strict"
    )
