"""The body of `POST /v1/responses`, with every parameter that OpenAI has."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ...gateway.operations.conversation_entry import ConversationInput
from ..http.http_errors import Refusal
from .chat_messages import MOST_MESSAGES, ChatMessage, MessagePart, conversation_of
from .parameters import CHOICE, LABEL, LENGTH, NO_TOOL, PRICE, SAMPLING, TOOLS, ignored, only


class InputItem(msgspec.Struct, frozen=True):
    """One item of a conversation. Only messages can be read here."""

    type: str = "message"
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | tuple[MessagePart, ...] | None = None


Items = Annotated[tuple[InputItem, ...], Meta(min_length=1, max_length=MOST_MESSAGES)]


class NewResponse(msgspec.Struct, frozen=True):
    """The body that asks for a response. Any `model` is accepted; the gateway's own one answers.

    `previous_response_id` continues the conversation of that response, and the input is one message then.
    With `store: false` the input is the whole conversation, as in a chat completion."""

    input: str | Items
    model: str | None = None
    instructions: str | None = None
    previous_response_id: Annotated[str, Meta(max_length=256)] | None = None
    store: bool | None = None
    stream: bool | None = None

    access_programs: Annotated[Any, only(because="They are programs of OpenAI.")] = None
    background: Annotated[
        Any, only(False, because="`POST /v1/runs` begins a run for which nobody waits.")
    ] = None
    conversation: Annotated[Any, only(because="Conversations are continued with `previous_response_id`.")] = (
        None
    )
    image: Annotated[Any, only(because="The answer is text.")] = None
    prompt: Annotated[Any, only(because="The gateway stores no templates of prompts.")] = None
    text: Annotated[
        Any,
        only(
            {},
            {"format": {"type": "text"}},
            because="The answer is text; no other format can be promised.",
        ),
    ] = None
    tool_choice: Annotated[Any, CHOICE] = None
    top_logprobs: Annotated[Any, only(0, because="Probabilities of tokens are not known here.")] = None

    include: Annotated[Any, ignored("A response has no parts that could be left out.")] = None
    max_output_tokens: Annotated[Any, LENGTH] = None
    max_tool_calls: Annotated[Any, LENGTH] = None
    metadata: Annotated[Any, ignored("Labels, which the gateway does not keep.")] = None
    moderation: Annotated[Any, only(because="Nothing is moderated on behalf of a client.")] = None
    parallel_tool_calls: Annotated[Any, NO_TOOL] = None
    prompt_cache_key: Annotated[Any, LABEL] = None
    prompt_cache_options: Annotated[Any, LABEL] = None
    prompt_cache_retention: Annotated[Any, LABEL] = None
    reasoning: Annotated[Any, ignored("The owner of the gateway chooses it.")] = None
    safety_identifier: Annotated[Any, LABEL] = None
    service_tier: Annotated[Any, PRICE] = None
    stream_options: Annotated[Any, ignored("They change the form of a stream, and not its text.")] = None
    temperature: Annotated[Any, SAMPLING] = None
    tools: Annotated[Any, TOOLS] = None
    top_p: Annotated[Any, SAMPLING] = None
    truncation: Annotated[
        Any, ignored("The gateway shortens a conversation that becomes too long for its model.")
    ] = None
    context_management: Annotated[
        Any, ignored("The gateway shortens a conversation that becomes too long for its model.")
    ] = None
    user: Annotated[Any, LABEL] = None


def input_of(asked: NewResponse) -> ConversationInput:
    """Return the content of the conversation that a body brings. Raises `Refusal`."""
    items = (InputItem(role="user", content=asked.input),) if isinstance(asked.input, str) else asked.input
    content = conversation_of([_message(one) for one in items])
    if asked.previous_response_id is not None and content.history:
        message = "With `previous_response_id` the input is one message of a person."
        remedy = "Send that message alone, or the whole conversation without the id."
        raise Refusal(400, "bad_input", message, remedy, param="input")
    instructions = "\n\n".join(filter(None, (asked.instructions, content.instructions))) or None
    return replace(content, instructions=instructions)


def _message(one: InputItem) -> ChatMessage:
    if one.type != "message" or one.role is None:
        message = f"Items of type {one.type[:40]!r} cannot be read here."
        remedy = "Send messages with a role and a content; the agent uses its own tools."
        raise Refusal(400, "unsupported_content", message, remedy, param="input")
    return ChatMessage(one.role, one.content)
