"""The dashboard, its files, and its sessions."""

from __future__ import annotations

import time
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from ucfh.server.auth import COOKIE
from ucfh.server.router import RequestContext, json_response
from ucfh.server.schemas import RequestError
from ucfh.server.tokens import SESSION, WRITE


async def page(context: RequestContext) -> Response:
    """Return the dashboard, or one of its files."""
    name = context.names.get("file", "index.html")
    if "/" in name or "\\" in name or "\0" in name:
        raise RequestError(404, "there is no such file")
    try:
        found = await context.service.page.get_response(name, context.request.scope)
    except HTTPException:
        raise RequestError(404, "there is no such file") from None
    found.headers["Cache-Control"] = "no-cache"
    return found


def _session(context: RequestContext) -> dict[str, Any]:
    needed = context.service.tokens is not None
    role = WRITE if not needed else context.token and context.token.role
    return {"role": role, "needed": needed, "until": context.until}


async def session(context: RequestContext) -> Response:
    """Return the current session."""
    return json_response(_session(context))


async def sign_in(context: RequestContext) -> Response:
    """Start a session with a token."""
    tokens = context.service.tokens
    if tokens is None:
        return json_response(_session(context))
    context.token = tokens.find(context.body.token)
    if context.token is None:
        raise RequestError(401, "this token is not known", **{"WWW-Authenticate": "Bearer"})
    context.until = time.time() + SESSION
    response = json_response(_session(context))
    _set_cookie(context, response, tokens.cookie(context.token, context.until), int(SESSION))
    return response


async def sign_out(context: RequestContext) -> Response:
    """End a session."""
    if context.service.tokens is not None:
        context.service.tokens.end(context.session)
    context.token = context.until = None
    response = json_response(_session(context))
    _set_cookie(context, response, "", 0)
    return response


def _set_cookie(context: RequestContext, response: Response, text: str, seconds: int) -> None:
    headers = context.request.headers
    secure = headers.get("x-forwarded-proto", context.request.url.scheme) == "https"
    response.set_cookie(
        COOKIE, text, max_age=seconds, secure=secure, httponly=True, samesite="strict"
    )
