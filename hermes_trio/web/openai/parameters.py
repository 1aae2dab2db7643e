"""The parameters of OpenAI's requests. Each one works; or it is ignored, and its description says why this
does no harm; or it is refused by name unless its value has no effect. `GET /openapi.json` shows the same.

A parameter with an effect is never ignored, because the client could not tell the wrong answer from a right
one. Names that OpenAI does not have are ignored: many programs send some of their own.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Meta
from msgspec.inspect import Metadata, StructType, type_info

from ..http.http_errors import Refusal, parsed

S = TypeVar("S", bound=msgspec.Struct)


def only(*values: object, because: str) -> Meta:
    """Return the schema of a parameter that accepts only these values, or none."""
    return Meta(description=because, extra_json_schema={"enum": [None, *values]})


def ignored(because: str) -> Meta:
    """Return the schema of a parameter that has no effect here, and why this misleads no client."""
    return Meta(description=f"Ignored. {because}")


SAMPLING = ignored("The owner of the gateway sets how the model samples; no value promises a certain text.")
LABEL = ignored("A label for accounts and caches of OpenAI.")
LENGTH = ignored(
    "A turn asks the model several times, with tools in between, so it has no such limit. `agent.max_turns` "
    "and the model's own limit bound it."
)
TOOLS = ignored(
    "The agent uses its own tools. A model may always answer without a tool call, so the client gets no call "
    "of these."
)
NO_TOOL = ignored("The agent calls no tool of a client.")
CHOICE = only("auto", "none", because="The agent calls no tool of a client, so no call can be promised.")
PRICE = ignored("A price class of OpenAI.")


def asked_for(body: bytes, kind: type[S]) -> S:
    """Return the body as a value. Raises `Refusal`, which names the parameter, for a value that is not
    supported."""
    asked = parsed(body, kind)
    for name, schema in _limited(kind).items():
        accepted: list[object] = schema["enum"]
        if getattr(asked, name) not in accepted:
            known = ", ".join(msgspec.json.encode(value).decode() for value in accepted if value is not None)
            raise Refusal(
                400,
                "unsupported_parameter",
                f"`{name}` does not support this value. {schema['description']}",
                f"Leave it out{f', or send {known}' if known else ''}.",
                param=name,
            )
    return asked


@cache
def _limited(kind: type[msgspec.Struct]) -> dict[str, dict[str, Any]]:
    """Return the schema of each parameter that accepts only some values."""
    known = type_info(kind)
    assert isinstance(known, StructType)  # noqa: S101 - it is one
    schemas = {
        field.name: field.type.extra_json_schema or {}
        for field in known.fields
        if isinstance(field.type, Metadata)
    }
    return {name: schema for name, schema in schemas.items() if "enum" in schema}
