"""The body of `POST /v1/chat/completions`, with every parameter that OpenAI has.

The fields of `ChatCompletion` are the table: a parameter works, or it may be ignored and its description says
why, or it is refused by name unless its value asks for nothing. `GET /openapi.json` shows the same. A
parameter that is ignored although it was meant to do something would give the client a wrong answer, which
it cannot tell from a right one. Names that OpenAI does not have are passed over: many programs send some of
their own.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.inspect import Metadata, StructType, type_info

from ..http.http_errors import Refusal, parsed
from .openai_sessions import ChatMessages


def _only(*values: object, because: str) -> Meta:
    """A parameter of which only these values, or none, are accepted."""
    return Meta(description=because, extra_json_schema={"enum": [None, *values]})


def _ignored(because: str) -> Meta:
    """A parameter that does nothing here, and why no client is misled by that."""
    return Meta(description=f"Ignored. {because}")


_SAMPLING = "How the model samples is set by the owner of the gateway; no value promises a certain text."
_LABEL = "A label for accounts and caches of OpenAI."
_LENGTH = (
    "A turn asks the model several times, with tools in between, so it has no such limit. `agent.max_turns` "
    "and the model's own limit bound it."
)
_TOOLS = (
    "The agent uses its own tools. A model that may choose may always answer without a call, so no call of "
    "these comes back."
)
_NO_CHOICE = "No tool of a client is called, so no call can be promised."


class StreamOptions(msgspec.Struct, frozen=True):
    """What else is wanted of a stream."""

    include_usage: bool | None = None


class ChatCompletion(msgspec.Struct, frozen=True):
    """The body that asks for an answer. Any `model` is taken: the gateway's own answers."""

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
        Any, _only("", [], because="An answer does not end at a text of the client's choice.")
    ] = None
    logprobs: Annotated[Any, _only(False, because="Probabilities of tokens are not known here.")] = None
    top_logprobs: Annotated[Any, _only(0, because="Probabilities of tokens are not known here.")] = None
    logit_bias: Annotated[Any, _only({}, because="Tokens cannot be forbidden or preferred here.")] = None
    modalities: Annotated[Any, _only(["text"], because="The answer is text.")] = None
    audio: Annotated[Any, _only(because="The answer is text.")] = None
    moderation: Annotated[Any, _only(because="Nothing is moderated on behalf of a client.")] = None
    store: Annotated[
        Any,
        _only(
            False, because="A completion cannot be fetched by its id; its session can, below /api/sessions."
        ),
    ] = None
    web_search_options: Annotated[
        Any, _only(because="The agent decides itself when it searches, and its sources stand in the text.")
    ] = None

    tools: Annotated[Any, _ignored(_TOOLS)] = None
    functions: Annotated[Any, _ignored(_TOOLS)] = None
    parallel_tool_calls: Annotated[Any, _ignored("No tool of a client is called.")] = None
    max_tokens: Annotated[Any, _ignored(_LENGTH)] = None
    max_completion_tokens: Annotated[Any, _ignored(_LENGTH)] = None
    temperature: Annotated[Any, _ignored(_SAMPLING)] = None
    top_p: Annotated[Any, _ignored(_SAMPLING)] = None
    presence_penalty: Annotated[Any, _ignored(_SAMPLING)] = None
    frequency_penalty: Annotated[Any, _ignored(_SAMPLING)] = None
    seed: Annotated[Any, _ignored("Even OpenAI promises the same answer to nobody.")] = None
    prediction: Annotated[Any, _ignored("It makes an answer faster, and no other.")] = None
    reasoning_effort: Annotated[Any, _ignored("The owner of the gateway chooses it.")] = None
    verbosity: Annotated[Any, _ignored("A wish, which a system message can say too.")] = None
    service_tier: Annotated[Any, _ignored("A price class of OpenAI.")] = None
    metadata: Annotated[Any, _ignored("Labels of stored completions, of which there are none.")] = None
    user: Annotated[Any, _ignored(_LABEL)] = None
    safety_identifier: Annotated[Any, _ignored(_LABEL)] = None
    prompt_cache_key: Annotated[Any, _ignored(_LABEL)] = None
    prompt_cache_retention: Annotated[Any, _ignored(_LABEL)] = None
    prompt_cache_options: Annotated[Any, _ignored(_LABEL)] = None


def completion_asked(body: bytes) -> ChatCompletion:
    """Return the body as a value. Raises `Refusal`, which names the parameter, for a value that asks for
    something that cannot be done."""
    asked = parsed(body, ChatCompletion)
    for name, accepted in _ACCEPTED.items():
        if getattr(asked, name) not in accepted:
            known = ", ".join(msgspec.json.encode(value).decode() for value in accepted if value is not None)
            raise Refusal(
                400,
                "unsupported_parameter",
                f"`{name}` cannot be used here with this value. {_BECAUSE[name]}",
                f"Leave it out{f', or send {known}' if known else ''}.",
                param=name,
            )
    return asked


def _limited() -> dict[str, dict[str, Any]]:
    """The schema of each parameter of which only some values are accepted."""
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
