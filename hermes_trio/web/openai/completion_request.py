"""The body of `POST /v1/chat/completions`, with every parameter that OpenAI has.

The fields of `ChatCompletion` are the table. Each parameter works; or it is ignored, and its description says
why this does no harm; or it is refused by name unless its value has no effect. `GET /openapi.json` shows the
same. A parameter with an effect is never ignored, because the client could not tell the wrong answer from a
right one. Names that OpenAI does not have are ignored: many programs send some of their own.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.inspect import Metadata, StructType, type_info

from ..http.http_errors import Refusal, parsed
from .chat_messages import ChatMessages


def _only(*values: object, because: str) -> Meta:
    """Return the schema of a parameter that accepts only these values, or none."""
    return Meta(description=because, extra_json_schema={"enum": [None, *values]})


def _ignored(because: str) -> Meta:
    """Return the schema of a parameter that has no effect here, and why this misleads no client."""
    return Meta(description=f"Ignored. {because}")


_SAMPLING = "The owner of the gateway sets how the model samples; no value promises a certain text."
_LABEL = "A label for accounts and caches of OpenAI."
_LENGTH = (
    "A turn asks the model several times, with tools in between, so it has no such limit. `agent.max_turns` "
    "and the model's own limit bound it."
)
_TOOLS = (
    "The agent uses its own tools. A model may always answer without a tool call, so the client gets no call "
    "of these."
)
_NO_CHOICE = "The agent calls no tool of a client, so no call can be promised."


class StreamOptions(msgspec.Struct, frozen=True):
    """Options of a stream."""

    include_usage: bool | None = None


class ChatCompletion(msgspec.Struct, frozen=True):
    """The body that asks for an answer. Any `model` is accepted; the gateway's own one answers."""

    messages: ChatMessages
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    n: Annotated[Any, _only(1, because="There is one answer.")] = None
    tool_choice: Annotated[Any, _only("auto", "none", because=_NO_CHOICE)] = None
    function_call: Annotated[Any, _only("auto", "none", because=_NO_CHOICE)] = None
    response_format: Annotated[
        Any, _only({"type": "text"}, because="The answer is text; no other format can be promised.")
    ] = None
    stop: Annotated[
        Any, _only("", [], because="The client cannot choose a text at which the answer ends.")
    ] = None
    logprobs: Annotated[Any, _only(False, because="Probabilities of tokens are not known here.")] = None
    top_logprobs: Annotated[Any, _only(0, because="Probabilities of tokens are not known here.")] = None
    logit_bias: Annotated[Any, _only({}, because="Tokens cannot be forbidden or preferred here.")] = None
    modalities: Annotated[Any, _only(["text"], because="The answer is text.")] = None
    audio: Annotated[Any, _only(because="The answer is text.")] = None
    moderation: Annotated[Any, _only(because="Nothing is moderated on behalf of a client.")] = None
    store: Annotated[
        Any,
        _only(False, because="A completion cannot be read by its id; its session can, below /api/sessions."),
    ] = None
    web_search_options: Annotated[
        Any, _only(because="The agent decides when it searches, and names its sources in the text.")
    ] = None

    tools: Annotated[Any, _ignored(_TOOLS)] = None
    functions: Annotated[Any, _ignored(_TOOLS)] = None
    parallel_tool_calls: Annotated[Any, _ignored("The agent calls no tool of a client.")] = None
    max_tokens: Annotated[Any, _ignored(_LENGTH)] = None
    max_completion_tokens: Annotated[Any, _ignored(_LENGTH)] = None
    temperature: Annotated[Any, _ignored(_SAMPLING)] = None
    top_p: Annotated[Any, _ignored(_SAMPLING)] = None
    presence_penalty: Annotated[Any, _ignored(_SAMPLING)] = None
    frequency_penalty: Annotated[Any, _ignored(_SAMPLING)] = None
    seed: Annotated[Any, _ignored("OpenAI does not promise the same answer either.")] = None
    prediction: Annotated[Any, _ignored("It makes an answer faster, and does not change it.")] = None
    reasoning_effort: Annotated[Any, _ignored("The owner of the gateway chooses it.")] = None
    verbosity: Annotated[Any, _ignored("It is a hint, which a system message can give too.")] = None
    service_tier: Annotated[Any, _ignored("A price class of OpenAI.")] = None
    metadata: Annotated[Any, _ignored("Labels of stored completions; the gateway stores none.")] = None
    user: Annotated[Any, _ignored(_LABEL)] = None
    safety_identifier: Annotated[Any, _ignored(_LABEL)] = None
    prompt_cache_key: Annotated[Any, _ignored(_LABEL)] = None
    prompt_cache_retention: Annotated[Any, _ignored(_LABEL)] = None
    prompt_cache_options: Annotated[Any, _ignored(_LABEL)] = None


def completion_asked(body: bytes) -> ChatCompletion:
    """Return the body as a value. Raises `Refusal`, which names the parameter, for a value that is not
    supported."""
    asked = parsed(body, ChatCompletion)
    for name, accepted in _ACCEPTED.items():
        if getattr(asked, name) not in accepted:
            known = ", ".join(msgspec.json.encode(value).decode() for value in accepted if value is not None)
            raise Refusal(
                400,
                "unsupported_parameter",
                f"`{name}` does not support this value. {_BECAUSE[name]}",
                f"Leave it out{f', or send {known}' if known else ''}.",
                param=name,
            )
    return asked


def _limited() -> dict[str, dict[str, Any]]:
    """Return the schema of each parameter that accepts only some values."""
    kind = type_info(ChatCompletion)
    assert isinstance(kind, StructType)  # noqa: S101 - it is one
    schemas = {
        field.name: field.type.extra_json_schema or {}
        for field in kind.fields
        if isinstance(field.type, Metadata)
    }
    return {name: schema for name, schema in schemas.items() if "enum" in schema}


_ACCEPTED: dict[str, list[object]] = {name: schema["enum"] for name, schema in _limited().items()}
_BECAUSE: dict[str, str] = {name: schema["description"] for name, schema in _limited().items()}
