"""`GET /openapi.json`: the description of all routes, for programs that generate clients and tests.

It is made from the table of routes, so it has every route. The path and the method are the route's, and the
text is the docstring of its handler; the query parameters (`?limit=&offset=`) and headers that the docstring
names become parameters. It contains nothing about this gateway, but needs the key like every route that
a client without the key has no use for.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from .http_errors import json_response
from .route_spec import RouteSpec

_QUERY = re.compile(r"\?([\w=&]+)`")
_IN_PATH = re.compile(r"{(\w+)(?::\w+)?}")
_HEADER = re.compile(r"`([A-Z]\w*(?:-\w+)+)`")
_REF = "#/components/schemas/{name}"


class DescriptionRoutes:
    """The handler of the description."""

    def __init__(self, specs: Sequence[RouteSpec[Any]], version: str) -> None:
        self._specs, self._version = specs, version

    async def description(self, request: Request) -> Response:
        """`GET /openapi.json`: this table."""
        return json_response(description(self._specs, self._version))


def description(specs: Sequence[RouteSpec[Any]], version: str) -> dict[str, Any]:
    """Return the OpenAPI description of these routes."""
    bodies = [spec.takes for spec in specs if spec.takes is not None]
    schemas, components = msgspec.json.schema_components(bodies, ref_template=_REF)
    body_of = dict(zip(bodies, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for spec in specs:
        operation = _operation(spec, body_of.get(spec.takes) if spec.takes is not None else None)
        paths.setdefault(_IN_PATH.sub(r"{\1}", spec.path), {})[spec.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "hermes-trio", "version": version or "0"},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _operation(spec: RouteSpec[Any], body: dict[str, Any] | None) -> dict[str, Any]:
    text = " ".join((inspect.getdoc(spec.handler) or "").split())
    named = [_parameter(name, "path") for name in _IN_PATH.findall(spec.path)]
    for query in _QUERY.findall(text):
        named += [_parameter(name, "query") for name in re.findall(r"(\w+)=", query)]
    named += [_parameter(name, "header") for name in _HEADER.findall(text)]
    operation: dict[str, Any] = {
        "description": text,
        "parameters": named,
        "responses": {
            "2XX": {"description": "The request succeeded."},
            "default": {"description": "The request failed. The body has the reason and the remedy."},
        },
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if spec.is_open:
        operation["security"] = []
    return operation


def _parameter(name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}
