"""The OpenAPI document, generated from the table of endpoints and the message types."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from ucfh import __version__
from ucfh.server.router import ALL, JSON, MOST_DIGITS, Endpoint
from ucfh.server.schemas import LABEL, ProblemDetails
from ucfh.server.tokens import WRITE
from ucfh.tasks.config import LONGEST_NAME

REFERENCE = "#/components/schemas/{name}"
PROBLEM = "application/problem+json"
OF_BODY = {400, 408, 413, 415, 422}
"""Statuses of requests with an invalid body."""


def document(endpoints: list[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI document of all endpoints."""
    types = [
        kind for x in endpoints for kind in (x.body, *x.responses.values()) if kind is not None
    ] + [ProblemDetails]
    schemas, components = _plain(msgspec.json.schema_components(types, ref_template=REFERENCE))
    schema_of = {repr(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for x in endpoints:
        paths.setdefault(x.path, {})[x.method.lower()] = _operation(x, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "ucfh", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {**components, "Label": LABEL},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _plain(schema: Any) -> Any:
    """Leave out "items": false of fixed-length arrays, which generators of clients reject.

    "maxItems" says the same.
    """
    if isinstance(schema, dict):
        return {k: _plain(x) for k, x in schema.items() if not (k == "items" and x is False)}
    return [_plain(x) for x in schema] if isinstance(schema, list | tuple) else schema


def _operation(x: Endpoint, schema_of: dict[str, Any]) -> dict[str, Any]:
    names = [part[1:-1] for part in x.parts if part.startswith("{")]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _of_name(name)} for name in names
    ] + [{"name": name, "in": "query", "schema": schema} for name, schema in x.query.items()]
    answers = {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {x.media: {"schema": schema_of[repr(kind)]} if x.media == JSON else {}},
        }
        for status, kind in x.responses.items()
    }
    refused = {403, *x.problems}
    refused |= OF_BODY if x.body is not None else set()
    refused |= {404} if names else set()
    refused |= {401} if x.role != ALL else set()
    problem = {"content": {PROBLEM: {"schema": schema_of[repr(ProblemDetails)]}}}
    answers |= {str(s): {"description": HTTPStatus(s).phrase, **problem} for s in sorted(refused)}
    answers["default"] = {"description": "Any other problem", **problem}
    out: dict[str, Any] = {"summary": x.summary, "parameters": parameters, "responses": answers}
    if x.body is not None:
        content = {JSON: {"schema": schema_of[repr(x.body)]}}
        out["requestBody"] = {"required": True, "content": content}
    if x.role != ALL:
        out["security"] = [{"token": []}]
        out["description"] = f"Needs a token{' that may write' if x.role == WRITE else ''}."
    return out


def _of_name(name: str) -> dict[str, Any]:
    if name == "t":
        return {"type": "integer", "minimum": 0, "maximum": 10**MOST_DIGITS - 1}
    return {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
