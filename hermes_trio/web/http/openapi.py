"""`GET /openapi.json`: what there is to ask for, for programs that make clients and tests of it.

It is made from the table of the routes itself, so no route can be missing: the path and the method are the
route's, the words are those of its handler, and what a query (`?limit=&offset=`) and a header may hold is
named there too.
It tells nothing of this gateway, and yet it is behind the key, like all that nobody needs who has none.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from starlette.routing import Route

_QUERY = re.compile(r"\?([\w=&]+)`")
_IN_PATH = re.compile(r"{(\w+)(?::\w+)?}")
_HEADER = re.compile(r"`([A-Z]\w*(?:-\w+)+)`")
_REF = "#/components/schemas/{name}"


class Entry(Route):
    """A line of the table."""

    def __init__(
        self,
        method: str,
        path: str,
        endpoint: Callable[..., Any],
        *,
        handler: Callable[..., Any],
        takes: type[msgspec.Struct] | None,
        is_open: bool,
    ) -> None:
        super().__init__(path, endpoint, methods=[method])
        self.method, self.handler, self.takes, self.is_open = method, handler, takes, is_open


def description(table: Sequence[Entry], version: str) -> dict[str, Any]:
    """All of the table."""
    bodies = [entry.takes for entry in table if entry.takes is not None]
    schemas, components = msgspec.json.schema_components(bodies, ref_template=_REF)
    body_of = dict(zip(bodies, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for entry in table:
        operation = _operation(entry, body_of.get(entry.takes) if entry.takes is not None else None)
        paths.setdefault(_IN_PATH.sub(r"{\1}", entry.path), {})[entry.method.lower()] = operation
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


def _operation(entry: Entry, body: dict[str, Any] | None) -> dict[str, Any]:
    told = " ".join((inspect.getdoc(entry.handler) or "").split())
    named = [_parameter(name, "path") for name in _IN_PATH.findall(entry.path)]
    for query in _QUERY.findall(told):
        named += [_parameter(name, "query") for name in re.findall(r"(\w+)=", query)]
    named += [_parameter(name, "header") for name in _HEADER.findall(told)]
    operation: dict[str, Any] = {
        "description": told,
        "parameters": named,
        "responses": {
            "2XX": {"description": "It is done, or it is what was asked for."},
            "default": {"description": "It is not, and the body says why and what to do about it."},
        },
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if entry.is_open:
        operation["security"] = []
    return operation


def _parameter(name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}
