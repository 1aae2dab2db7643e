"""The page about the HTTP API, made from its description."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hermes_trio.web.http.openapi import description
from hermes_trio.web.route_table import SPECS

from .markdown import code, escaped, table

_METHODS = ("get", "post", "patch", "put", "delete")
_API_GROUPS = (
    ("OpenAI-compatible API", ("/v1/models", "/v1/chat")),
    ("Runs", ("/v1/runs", "/v1/capabilities")),
    ("Sessions and events", ("/api/sessions", "/api/events")),
    ("Health", ("/health", "/ready", "/metrics")),
    ("Administration", ("/api/admin",)),
    ("Page and log-in", ("/",)),
)
"""Headings of the HTTP page and the beginnings of the paths below each; the first match counts."""


def http_api() -> Iterator[str]:
    """Yield the lines of the page about the HTTP API."""
    described = description(SPECS, "")
    schemas = described["components"]["schemas"]
    yield "# HTTP API reference\n"
    yield (
        "Each route below is in `GET /openapi.json` of a running gateway. A route marked *open* needs no "
        "key. Every other one needs `Authorization: Bearer KEY`, or the log-in of the page. An error has the "
        'body `{"error": {"code", "message", "remedy"}}`; below `/v1` it has the form of OpenAI\'s API.\n'
    )
    grouped: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {name: [] for name, _ in _API_GROUPS}
    for path, operations in described["paths"].items():
        for method in _METHODS:
            if method in operations:
                grouped[_group_of(path)].append((method, path, operations[method]))
    for name, routes_ in grouped.items():
        yield f"## {name}\n"
        for method, path, operation in routes_:
            yield from _operation(method, path, operation)
    yield "## Bodies\n"
    for name, schema in sorted(schemas.items()):
        yield from _schema(name, schema)


def _group_of(path: str) -> str:
    return next(name for name, starts in _API_GROUPS if path.startswith(starts))


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {method.upper()} {path}\n"
    # The description begins with the route itself, which is the heading here.
    told = re.sub(r"^`[^`]*`(?: `[^`]*`)?:? ?", "", operation["description"])
    if told:
        yield f"{escaped(told[0].upper() + told[1:])}\n"
    if "security" in operation:
        yield "*Open.*\n"
    yield from table(
        ("Parameter", "Place"), ((code(each["name"]), each["in"]) for each in operation["parameters"])
    )
    if "requestBody" in operation:
        name = _named(operation["requestBody"]["content"]["application/json"]["schema"])
        yield f"Body: [{name}](#{name.lower()})\n"


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name}\n"
    if "description" in schema:
        yield f"{escaped(' '.join(schema['description'].split()))}\n"
    required = schema.get("required", ())
    yield from table(
        ("Field", "Type", "Required", "Meaning"),
        (
            (
                code(field),
                _type(one),
                "yes" if field in required else "no",
                escaped(one.get("description", "")),
            )
            for field, one in schema.get("properties", {}).items()
        ),
    )


def _named(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in words."""
    if "$ref" in schema:
        name = _named(schema)
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(code(msgspec.json.encode(one).decode()) for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}{_size(schema, 'Items', 'entries')}"
    return f"{schema.get('type', 'any')}{_size(schema, 'Length', 'characters')}"


def _size(schema: Mapping[str, Any], name: str, unit: str) -> str:
    """Return the limits of a list or a text in words; empty if it has none."""
    least, most = schema.get(f"min{name}"), schema.get(f"max{name}")
    if most is None:
        return f" of at least {least} {unit}" if least else ""
    return f" of {least} to {most:,} {unit}" if least else f" of at most {most:,} {unit}"
