"""Requests in both wire formats: any conversation becomes a request that keeps the rules."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.agent.providers.endpoint import Endpoint
from hermes_trio.agent.providers.model import Finished, ModelRequest, ToolSpec
from hermes_trio.agent.providers.model_messages import AssistantMessage, Message, ToolResult, UserMessage
from hermes_trio.agent.providers.repair import NOT_SEEN, json_object, repaired
from hermes_trio.agent.providers.wire import anthropic, openai
from hermes_trio.state.tables.transcript import ToolCall
from hermes_trio.testing.model_replies import Plain, Reply, refused
from hermes_trio.testing.model_server import ModelServer
from tests.agent.providers.conftest import HELLO, OpenModel, answer, bounded
from tests.agent.wire_rules import BreaksTheRules, check_chat, check_messages

CHAT = Endpoint("openai", "http://127.0.0.1:1/v1", "m")
LS = ToolSpec("ls", "List files.", {"type": "object", "properties": {}})


def claude(model: str) -> Endpoint:
    return Endpoint("anthropic", "https://api.anthropic.com", model)


def chat_body(request: ModelRequest, endpoint: Endpoint = CHAT) -> dict[str, Any]:
    """Return the body as it is sent, after a check of the rules."""
    body: dict[str, Any] = json.loads(msgspec.json.encode(openai.chat_body(request, endpoint)))
    check_chat(body)
    return body


def messages_body(request: ModelRequest, endpoint: Endpoint | None = None) -> dict[str, Any]:
    body = anthropic.messages_body(request, endpoint or claude("claude-sonnet-5"))
    sent: dict[str, Any] = json.loads(msgspec.json.encode(body))
    check_messages(sent)
    return sent


def call(id_: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(id_, "ls", arguments)


ROUND = (
    UserMessage("Which files?"),
    AssistantMessage("I look.", (call("a", '{"path": "."}'), call("b"))),
    ToolResult("a", "one two"),
    ToolResult("b", "no such place", is_error=True),
)


def test_a_round_of_tools_has_the_form_of_openai() -> None:
    body = chat_body(
        ModelRequest(messages=ROUND, system="You help.", tools=(LS,), max_tokens=9, effort="low")
    )
    function = {"name": "ls", "arguments": '{"path": "."}'}
    assert body["messages"][0] == {"role": "system", "content": "You help."}
    assert body["messages"][2]["tool_calls"][0] == {"id": "a", "type": "function", "function": function}
    assert body["messages"][3] == {"role": "tool", "tool_call_id": "a", "content": "one two"}
    assert (body["max_tokens"], body["reasoning_effort"]) == (9, "low")
    assert body["stream_options"] == {"include_usage": True}


def test_a_round_of_tools_has_the_form_of_anthropic() -> None:
    body = messages_body(ModelRequest(messages=ROUND, system="You help.", tools=(LS,)))
    user, said, results = body["messages"]
    use = {"type": "tool_use", "id": "a", "name": "ls", "input": {"path": "."}}
    assert said["content"][:2] == [{"type": "text", "text": "I look."}, use]
    assert results["content"][0] == {"type": "tool_result", "tool_use_id": "a", "content": "one two"}
    assert results["content"][1]["is_error"]
    marked = [body["system"][-1], user["content"][-1], results["content"][-1]]
    assert all(block["cache_control"] == {"type": "ephemeral"} for block in marked)


def test_openai_gets_its_own_name_for_the_length_limit() -> None:
    endpoint = Endpoint("openai", "https://api.openai.com/v1", "m")
    assert chat_body(ModelRequest(messages=ROUND, max_tokens=9), endpoint)["max_completion_tokens"] == 9


REPAIRS: list[tuple[str, list[Message], list[Message]]] = [
    (
        "a call without its result",
        [UserMessage("x"), AssistantMessage("", (call("a"),))],
        [UserMessage("x"), AssistantMessage("", (call("a"),)), ToolResult("a", NOT_SEEN, is_error=True)],
    ),
    (
        "a result without its call",
        [UserMessage("x"), ToolResult("a", "?"), AssistantMessage("y"), UserMessage("z")],
        [UserMessage("x"), AssistantMessage("y"), UserMessage("z")],
    ),
    (
        "results in another order",
        [
            UserMessage("x"),
            AssistantMessage("", (call("a"), call("b"))),
            ToolResult("b", "2"),
            ToolResult("a", "1"),
        ],
        [
            UserMessage("x"),
            AssistantMessage("", (call("a"), call("b"))),
            ToolResult("a", "1"),
            ToolResult("b", "2"),
        ],
    ),
    (
        "somebody spoke before the result",
        [UserMessage("x"), AssistantMessage("", (call("a"),)), UserMessage("faster!"), ToolResult("a", "1")],
        [UserMessage("x"), AssistantMessage("", (call("a"),)), ToolResult("a", "1"), UserMessage("faster!")],
    ),
    ("two people in a row", [UserMessage("x"), UserMessage("y")], [UserMessage("x\n\ny")]),
    (
        "two answers in a row",
        [UserMessage("x"), AssistantMessage("y"), AssistantMessage("z"), UserMessage("u")],
        [UserMessage("x"), AssistantMessage("y\n\nz"), UserMessage("u")],
    ),
    (
        "nothing in it",
        [UserMessage("x"), AssistantMessage(" "), UserMessage("\n"), UserMessage("z")],
        [UserMessage("x\n\nz")],
    ),
    (
        "no output",
        [UserMessage("x"), AssistantMessage("", (call("a"),)), ToolResult("a", "")],
        [UserMessage("x"), AssistantMessage("", (call("a"),)), ToolResult("a", "(no output)")],
    ),
    (
        "nobody asked",
        [AssistantMessage("y"), UserMessage("x")],
        [UserMessage("(The conversation began earlier.)"), AssistantMessage("y"), UserMessage("x")],
    ),
    (
        "the model spoke last",
        [UserMessage("x"), AssistantMessage("y")],
        [UserMessage("x"), AssistantMessage("y"), UserMessage("Go on.")],
    ),
    ("half a character", [UserMessage("a\ud83d")], [UserMessage("a?")]),
    (
        "an id twice",
        [
            UserMessage("x"),
            AssistantMessage("", (call("a"),)),
            ToolResult("a", "1"),
            AssistantMessage("", (call("a"),)),
            ToolResult("a", "2"),
        ],
        [
            UserMessage("x"),
            AssistantMessage("", (call("a"),)),
            ToolResult("a", "1"),
            AssistantMessage("", (call("a_2"),)),
            ToolResult("a_2", "2"),
        ],
    ),
    (
        "an id of another kind",
        [UserMessage("x"), AssistantMessage("", (call("fc:1"),)), ToolResult("fc:1", "1")],
        [UserMessage("x"), AssistantMessage("", (call("fc_1"),)), ToolResult("fc_1", "1")],
    ),
    (
        "arguments that were cut",
        [UserMessage("x"), AssistantMessage("", (call("a", '{"k'),)), ToolResult("a", "It was cut.")],
        [UserMessage("x"), AssistantMessage("", (call("a"),)), ToolResult("a", "It was cut.")],
    ),
]


@pytest.mark.parametrize(("what", "given_", "made"), REPAIRS)
def test_an_incomplete_conversation_is_completed(
    what: str, given_: list[Message], made: list[Message]
) -> None:
    assert repaired(given_) == made


def test_a_complete_conversation_is_not_changed() -> None:
    assert repaired(ROUND) == list(ROUND)


TEXTS = st.sampled_from(["", " ", "Hello.", "ä ♥ \U0001f600", "\ud800", "trailing  ", "\x00"])
IDS = st.sampled_from(["", "a", "b", "call:1/2", "x" * 50, "♥"])
CALLS = st.builds(
    ToolCall, IDS, st.just("ls"), st.sampled_from(["", "{}", '{"k": 1}', '{"k', "[1]", "null", '"\\ud800"'])
)
THOUGHTS = {
    "origin": claude("claude-sonnet-5").origin,
    "blocks": [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "tool_use", "id": "a", "name": "ls"},
    ],
}
EXTRAS = {"origin": CHAT.origin, "reasoning_content": "Hm.", "calls": {"a": {"extra_content": {"g": 1}}}}
OPAQUE = st.sampled_from([None, "nonsense", "[]", json.dumps(EXTRAS), json.dumps(THOUGHTS)])
MESSAGES = st.lists(
    st.builds(UserMessage, TEXTS)
    | st.builds(AssistantMessage, TEXTS, st.lists(CALLS, max_size=3).map(tuple), OPAQUE)
    | st.builds(ToolResult, IDS, TEXTS, st.booleans()),
    max_size=12,
)


@bounded
@given(MESSAGES, TEXTS)
def test_any_conversation_keeps_the_rules_of_both_wire_formats(messages: list[Message], system: str) -> None:
    request = ModelRequest(messages=tuple(messages), system=system, tools=(LS,))
    chat_body(request)
    messages_body(request)


@bounded
@given(MESSAGES)
def test_a_second_repair_changes_nothing(messages: list[Message]) -> None:
    assert repaired(repaired(messages)) == repaired(messages)


@bounded
@given(
    MESSAGES,
    st.sampled_from(["low", "max", None]),
    st.sampled_from(["claude-3-7-sonnet", "claude-haiku-4-5", "claude-opus-5"]),
)
def test_requests_with_thinking_keep_the_rules(messages: list[Message], effort: Any, model: str) -> None:
    messages_body(ModelRequest(messages=tuple(messages), effort=effort, temperature=0.5), claude(model))


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "temperature"),
    [
        ("claude-3-5-haiku-20241022", "high", None, 0.5),
        ("claude-3-7-sonnet-20250219", "low", {"type": "enabled", "budget_tokens": 4000}, None),
        ("claude-haiku-4-5-20251001", "high", {"type": "enabled", "budget_tokens": 16000}, None),
        ("claude-opus-4-6", "high", {"type": "adaptive", "display": "summarized"}, None),
        ("claude-opus-4-6", None, None, 0.5),
        ("claude-opus-4-7", None, None, None),
        ("claude-sonnet-5", "max", {"type": "adaptive", "display": "summarized"}, None),
        ("claude-mythos-preview", None, None, None),
    ],
)
def test_each_generation_thinks_in_its_own_way(
    model: str, effort: Any, thinking: object, temperature: float | None
) -> None:
    body = messages_body(
        ModelRequest(messages=(UserMessage("x"),), effort=effort, temperature=0.5), claude(model)
    )
    assert (body.get("thinking"), body.get("temperature")) == (thinking, temperature)


def test_arguments_are_an_object_or_nothing() -> None:
    assert json_object(' {"a": 1} ') == ' {"a": 1} '
    assert json_object("") == json_object("null") == "{}"
    assert [json_object(text) for text in ("[1]", '"x"', "1", '{"a"', '{"a": 1} x', "true")] == [None] * 6
    assert json_object('{"a": "\\ud800"}') == '{"a": "?"}'
    assert json_object('{"a": "two\nlines"}') == '{"a": "two\\nlines"}'
    assert json_object('{"a": NaN}') is None
    assert json_object('{"a":' * 100_000) is None


async def test_the_reasoning_of_a_model_is_sent_back_to_it(server: ModelServer, models: OpenModel) -> None:
    server.answers(Reply(piece=3).thinks("Files first.").says("I look.").calls("ls", {"path": "."}, id="one"))
    async with models() as model:
        finished = (await answer(model))[-1]
        assert isinstance(finished, Finished)
        said = AssistantMessage("I look.", (call("one", '{"path": "."}'),), finished.opaque)
        await answer(model, ModelRequest(messages=(*HELLO.messages, said, ToolResult("one", "a b"))))
    sent = server.requests[1].body["messages"][1]
    if server.requests[1].wire == "openai":
        assert sent["reasoning_content"] == "Files first."
    else:
        thought, text, use = sent["content"]
        assert thought == {"type": "thinking", "thinking": "Files first.", "signature": "signed-1"}
        assert (text["text"], use["input"]) == ("I look.", {"path": "."})


def test_the_reasoning_of_another_model_is_not_sent() -> None:
    opaque = json.dumps({"origin": "openai/127.0.0.1/other", "reasoning_content": "Hm."})
    request = ModelRequest(messages=(UserMessage("x"), AssistantMessage("y", (), opaque), UserMessage("z")))
    assert "Hm." not in json.dumps(chat_body(request)) + json.dumps(messages_body(request))


def test_a_call_that_the_loop_dropped_is_not_sent_with_the_reasoning() -> None:
    endpoint = claude("claude-sonnet-5")
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "tool_use", "id": "a", "name": "ls"},
        {"type": "tool_use", "id": "b", "name": "ls"},
    ]
    opaque = json.dumps({"origin": endpoint.origin, "blocks": blocks})
    messages = (
        UserMessage("x"),
        AssistantMessage("", (call("b", '{"k": 1}'),), opaque),
        ToolResult("b", "1"),
    )
    body = messages_body(ModelRequest(messages=messages), endpoint)
    assert body["messages"][1]["content"] == [
        blocks[0],
        {"type": "tool_use", "id": "b", "name": "ls", "input": {"k": 1}},
    ]


def test_reasoning_of_a_changed_answer_is_not_sent_back() -> None:
    endpoint = claude("claude-sonnet-5")
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    said = {"type": "text", "text": "I look."}
    use = {"type": "tool_use", "id": "a", "name": "ls"}

    def sent(text: str, calls: tuple[ToolCall, ...], *blocks: object) -> Any:
        opaque = json.dumps({"origin": endpoint.origin, "blocks": blocks})
        messages = (UserMessage("x"), AssistantMessage(text, calls, opaque), UserMessage("y"))
        return messages_body(ModelRequest(messages=messages), endpoint)["messages"][1]["content"]

    assert sent("I look.", (), thought, said) == [thought, said]
    assert sent("I look.", (), thought, said, use) == [thought, said]
    assert sent("Other.", (), thought, said) == [{"type": "text", "text": "Other."}]
    assert sent("", (call("b"),), thought, use) == [
        {"type": "tool_use", "id": "b", "name": "ls", "input": {}}
    ]


def test_an_older_model_does_not_begin_to_think_in_a_round_of_tools() -> None:
    endpoint = claude("claude-haiku-4-5")
    assert "thinking" not in messages_body(ModelRequest(messages=ROUND, effort="low"), endpoint)
    assert "thinking" in messages_body(
        ModelRequest(messages=(*ROUND, AssistantMessage("Two."), UserMessage("x")), effort="low"), endpoint
    )


AMENDED = [
    ("temperature: not supported", {"temperature": 1}, {}),
    ("tool_choice.type: unknown", {"tool_choice": {"type": "none"}}, {}),
    ("max_tokens: 32000 > 8192, which is the maximum", {"max_tokens": 32000}, {"max_tokens": 8192}),
    ("'thinking.type.enabled' is not supported", {"thinking": {}, "output_config": {}}, {}),
    ("output_config: unknown", {"output_config": {}}, {}),
    ("tools.0: bad", {"temperature": 1}, None),
]


@pytest.mark.parametrize(("said", "body", "amended"), AMENDED)
def test_a_part_that_anthropic_refuses_is_left_out(said: str, body: Any, amended: Any) -> None:
    assert anthropic.amended(body, said) == amended


def test_signatures_are_sent_back_with_their_calls() -> None:
    extra = {"extra_content": {"google": {"thought_signature": "s"}}}
    opaque = json.dumps({"origin": CHAT.origin, "calls": {"a": extra}})
    messages = (UserMessage("x"), AssistantMessage("", (call("a"),), opaque), ToolResult("a", "1"))
    sent = chat_body(ModelRequest(messages=messages))["messages"][1]["tool_calls"][0]
    assert sent["extra_content"] == extra["extra_content"]


async def test_reasoning_that_a_server_refuses_is_left_out(server: ModelServer, models: OpenModel) -> None:
    async with models() as model:
        server.answers(Reply().thinks("Hm.").calls("ls", id="one"))
        finished = (await answer(model))[-1]
        assert isinstance(finished, Finished)
        said = AssistantMessage("", (call("one"),), finished.opaque)
        server.answers(_refuses_thoughts)
        await answer(
            model, ModelRequest(messages=(*HELLO.messages, said, ToolResult("one", "a b")), effort="low")
        )
    assert "Hm." in json.dumps(server.requests[1].body)
    assert "Hm." not in json.dumps(server.requests[2].body)


def _refuses_thoughts(asked: Any) -> Plain:
    if asked.wire == "openai":
        return refused("openai", 400, "invalid_request_error", "property 'reasoning_content' is unsupported")
    text = "messages.1.content.0: Invalid `signature` in `thinking` block"
    return refused("anthropic", 400, "invalid_request_error", text)


BROKEN_BODIES: list[dict[str, Any]] = [
    {"messages": []},
    {"messages": [{"role": "assistant", "content": "x"}]},
    {"messages": [{"role": "user", "content": ""}]},
    {"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]},
    {"messages": [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "a", "content": "y"}]},
]


@pytest.mark.parametrize("body", BROKEN_BODIES)
def test_the_rules_refuse_broken_bodies(body: dict[str, Any]) -> None:
    with pytest.raises(BreaksTheRules):
        check_chat({"model": "m", "stream": True, **body})
    turns = [
        {"role": m["role"], "content": [{"type": "text", "text": m["content"]}]} for m in body["messages"]
    ]
    with pytest.raises(BreaksTheRules):
        check_messages({"model": "m", "stream": True, "max_tokens": 1, "messages": turns})
