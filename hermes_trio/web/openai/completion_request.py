"""The body of `POST /v1/chat/completions`, with every parameter that OpenAI has."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from .chat_messages import ChatMessages
from .parameters import CHOICE, LABEL, LENGTH, NO_TOOL, PRICE, SAMPLING, TOOLS, ignored, only


class StreamOptions(msgspec.Struct, frozen=True):
    """Options of a stream."""

    include_usage: bool | None = None


class ChatCompletion(msgspec.Struct, frozen=True):
    """The body that asks for an answer. Any `model` is accepted; the gateway's own one answers."""

    messages: ChatMessages
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    n: Annotated[Any, only(1, because="There is one answer.")] = None
    tool_choice: Annotated[Any, CHOICE] = None
    function_call: Annotated[Any, CHOICE] = None
    response_format: Annotated[
        Any, only({"type": "text"}, because="The answer is text; no other format can be promised.")
    ] = None
    stop: Annotated[
        Any, only("", [], because="The client cannot choose a text at which the answer ends.")
    ] = None
    logprobs: Annotated[Any, only(False, because="Probabilities of tokens are not known here.")] = None
    top_logprobs: Annotated[Any, only(0, because="Probabilities of tokens are not known here.")] = None
    logit_bias: Annotated[Any, only({}, because="Tokens cannot be forbidden or preferred here.")] = None
    modalities: Annotated[Any, only(["text"], because="The answer is text.")] = None
    audio: Annotated[Any, only(because="The answer is text.")] = None
    moderation: Annotated[Any, only(because="Nothing is moderated on behalf of a client.")] = None
    store: Annotated[
        Any,
        only(False, because="A completion cannot be read by its id; its session can, below /api/sessions."),
    ] = None
    web_search_options: Annotated[
        Any, only(because="The agent decides when it searches, and names its sources in the text.")
    ] = None

    tools: Annotated[Any, TOOLS] = None
    functions: Annotated[Any, TOOLS] = None
    parallel_tool_calls: Annotated[Any, NO_TOOL] = None
    max_tokens: Annotated[Any, LENGTH] = None
    max_completion_tokens: Annotated[Any, LENGTH] = None
    temperature: Annotated[Any, SAMPLING] = None
    top_p: Annotated[Any, SAMPLING] = None
    presence_penalty: Annotated[Any, SAMPLING] = None
    frequency_penalty: Annotated[Any, SAMPLING] = None
    seed: Annotated[Any, ignored("OpenAI does not promise the same answer either.")] = None
    prediction: Annotated[Any, ignored("It makes an answer faster, and does not change it.")] = None
    reasoning_effort: Annotated[Any, ignored("The owner of the gateway chooses it.")] = None
    verbosity: Annotated[Any, ignored("It is a hint, which a system message can give too.")] = None
    service_tier: Annotated[Any, PRICE] = None
    metadata: Annotated[Any, ignored("Labels of stored completions; the gateway stores none.")] = None
    user: Annotated[Any, LABEL] = None
    safety_identifier: Annotated[Any, LABEL] = None
    prompt_cache_key: Annotated[Any, LABEL] = None
    prompt_cache_retention: Annotated[Any, LABEL] = None
    prompt_cache_options: Annotated[Any, LABEL] = None
