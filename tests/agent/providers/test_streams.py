"""Answers over a real connection: complete ones, and each way in which one fails. The `server` fixture checks
that no connection is left open."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hermes_trio.agent.providers import model_errors
from hermes_trio.agent.providers.endpoint import Endpoint
from hermes_trio.agent.providers.model import (
    Finished,
    ReasoningDelta,
    TextDelta,
    ToolCallBroken,
    ToolCallReady,
    ToolCallStarted,
)
from hermes_trio.agent.providers.model_clients import Http
from hermes_trio.agent.providers.open_models import open_model
from hermes_trio.agent.providers.sse import LONGEST_EVENT
from hermes_trio.base.world import World
from hermes_trio.state.tables.session_entry import Usage
from hermes_trio.testing.model_replies import Plain, Reply, Wire, refused
from hermes_trio.testing.model_server import ModelServer
from tests.agent.providers.conftest import HELLO, OpenModel, answer, outcome, text_of


async def test_an_answer_is_yielded_while_it_is_written(server: ModelServer, models: OpenModel) -> None:
    server.answers(Reply(piece=4).thinks("Files?").says("I look.").calls("ls", {"path": "."}).uses(12, 7))
    async with models() as model:
        items = await answer(model)
    started = next(item for item in items if isinstance(item, ToolCallStarted))
    ready = next(item for item in items if isinstance(item, ToolCallReady))
    assert [type(item) for item in items] == [
        *[ReasoningDelta] * 2, *[TextDelta] * 2, ToolCallStarted, ToolCallReady, Usage, Finished,
    ]  # fmt: skip
    assert (ready.call.id, ready.call.name, ready.call.arguments) == (started.id, "ls", '{"path": "."}')
    assert text_of(items) == "I look."
    assert items[-2] == Usage(input_tokens=12, output_tokens=7, last_prompt_tokens=12)
    assert isinstance(items[-1], Finished)
    assert items[-1].reason == "tool_calls"


@pytest.mark.parametrize("chunk", [1, 3, 1000])
async def test_chunks_on_the_wire_do_not_change_the_items(
    chunk: int, server: ModelServer, models: OpenModel
) -> None:
    reply = Reply(piece=2).thinks("Hm ♥").says("Zwölf.").calls("ls", {"a": "ä"}, id="one").uses(1, 2)
    server.answers(reply, replace(reply, chunk=chunk, line_end="\r\n", comments=True))
    async with models() as model:
        first, second = await answer(model), await answer(model)
    assert [item for item in first if not isinstance(item, Finished)] == [
        item for item in second if not isinstance(item, Finished)
    ]


async def test_the_limit_of_silence_counts_from_the_last_byte(
    server: ModelServer, models: OpenModel, autojump_clock: MockClock
) -> None:
    server.answers(
        Reply().says("One,").pauses(890).sends(b": still here\n\n").pauses(890).says("two.").hangs()
    )
    async with models() as model:
        seen, error = await outcome(model)
    assert text_of(seen) == "One,two."
    assert isinstance(error, model_errors.Interrupted)
    assert "900 seconds" in str(error)
    assert trio.current_time() == 890 + 890 + 900


async def test_a_response_that_never_begins_is_given_up(
    server: ModelServer, models: OpenModel, autojump_clock: MockClock
) -> None:
    server.answers(replace(Reply().says("Late."), head_after=10_000))
    async with models() as model:
        with pytest.raises(model_errors.StreamStale):
            await answer(model)
    assert trio.current_time() == 900


BROKEN = {
    "closed in the middle": (Reply().says("Hel").breaks(), model_errors.StreamCut),
    "closed before anything": (Reply().breaks(), model_errors.StreamCut),
    "ended without a reason": (Reply().says("Hel").finishes("", done=False), model_errors.StreamCut),
    "no JSON": (Reply().says("Hel").sends(b"data: {nonsense}\n\n"), model_errors.StreamMalformed),
    "no object": (Reply().says("Hel").sends(b"data: 17\n\n"), model_errors.StreamMalformed),
    "overloaded": (Reply().says("Hel").fails("overloaded_error", "Overloaded"), model_errors.Overloaded),
    "a fault of its own": (Reply().says("Hel").fails("api_error", "Oops"), model_errors.ServerTrouble),
    "an error in no frame": (Reply().sends(b'{"error": {"code": 500}}\n'), model_errors.ServerTrouble),
    "content filter": (Reply().says("Hel").finishes("content_filter"), model_errors.ContentRefused),
    "a cut event": (Reply().says("Hel").sends(b'data: {"choices": [{"delta": {"con'), model_errors.StreamCut),
}  # fmt: skip


@pytest.mark.parametrize("trouble", BROKEN)
async def test_a_broken_answer_names_its_reason(trouble: str, server: ModelServer, models: OpenModel) -> None:
    reply, error = BROKEN[trouble]
    server.answers(replace(reply, chunk=7))
    async with models() as model:
        seen, broken = await outcome(model)
    assert text_of(seen) in ("", "Hel")
    assert not any(isinstance(item, Finished) for item in seen)
    cause = broken.cause if isinstance(broken, model_errors.Interrupted) else broken
    assert type(cause) is error
    assert isinstance(broken, model_errors.Interrupted) == bool(seen)
    assert f"at {cause.endpoint.shown}" in str(broken)


async def test_an_endless_line_is_an_error(server: ModelServer, models: OpenModel) -> None:
    server.answers(Reply().sends(b"data: " + b"x" * (LONGEST_EVENT + 1)).hangs())
    async with models() as model:
        with pytest.raises(model_errors.StreamMalformed):
            await answer(model)


CUT_CALLS = [
    ('{"path": "/tm', "length"),
    ('{"path": "/tm', "tool_calls"),
    ("", "length"),
    ('["x"]', "tool_calls"),
]


@pytest.mark.parametrize(("arguments", "reason"), CUT_CALLS)
async def test_a_call_that_was_cut_is_never_ready(
    arguments: str, reason: str, server: ModelServer, models: OpenModel
) -> None:
    server.answers(Reply(piece=2).says("Now").calls("rm", arguments).finishes(reason))
    async with models() as model:
        items = await answer(model)
    assert not any(isinstance(item, ToolCallReady) for item in items)
    broken = next(item for item in items if isinstance(item, ToolCallBroken))
    assert (broken.name, broken.arguments) == ("rm", arguments)
    assert isinstance(items[-1], Finished)
    assert items[-1].reason == reason


async def test_a_call_in_a_stream_that_breaks_is_never_ready(server: ModelServer, models: OpenModel) -> None:
    server.answers(Reply().calls("rm", {"path": "/"}).breaks())
    async with models() as model:
        seen, error = await outcome(model)
    assert isinstance(error, model_errors.StreamCut)
    assert [type(item) for item in seen] == [ToolCallStarted]


async def test_a_stream_with_a_wrong_content_type_is_read(server: ModelServer, models: OpenModel) -> None:
    reply = Reply(comments=True).says("Hello.").calls("ls", {"path": "/"}).uses(3, 4)
    server.answers(replace(reply, content_type="application/json"))
    async with models() as model:
        items = await answer(model)
    assert text_of(items) == "Hello."
    assert [type(item) for item in items[-3:]] == [ToolCallReady, Usage, Finished]


async def test_an_html_page_is_no_answer(server: ModelServer, models: OpenModel) -> None:
    server.answers(replace(Reply().sends(b"<html>Welcome</html>"), content_type="text/html; charset=utf-8"))
    async with models() as model:
        with pytest.raises(model_errors.NotAModelServer, match="/v1"):
            await answer(model)


async def test_a_redirect_is_not_followed(server: ModelServer, models: OpenModel) -> None:
    server.answers(Plain(307, "", {"location": "http://127.0.0.1:1/v1"}))
    async with models() as model:
        with pytest.raises(model_errors.NotAModelServer, match="307"):
            await answer(model)


async def test_an_answer_in_one_piece_is_accepted(server: ModelServer, world: World) -> None:
    message = {"content": "All of it.", "tool_calls": [{"function": {"name": "ls"}}]}
    server.answers(Plain(200, {"choices": [{"message": message, "finish_reason": "stop"}]}))
    endpoint = Endpoint("openai", server.openai_url, "m")
    async with open_model(Http(), [endpoint], world, retries=0) as model:
        items = await answer(model)
    assert text_of(items) == "All of it."
    assert items[-1] == Finished("tool_calls")


async def test_a_refused_connection_names_its_remedy(wire: Wire, world: World) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        async with open_model(Http(), [Endpoint(wire, url, "m")], world, retries=3) as model:
            with pytest.raises(model_errors.CannotConnect) as caught:
                await answer(model)
    assert url in str(caught.value)
    assert "Start the server" in str(caught.value)
    assert not caught.value.may_retry


async def test_a_server_without_a_key_is_asked_without_one(
    server: ModelServer, wire: Wire, world: World
) -> None:
    url = server.openai_url if wire == "openai" else server.anthropic_url
    async with open_model(Http(), [Endpoint(wire, url, "m")], world, retries=0) as model:
        await answer(model)
    assert not {"authorization", "x-api-key"} & set(server.requests[0].headers)


async def test_a_part_that_a_server_refuses_is_left_out(server: ModelServer, world: World) -> None:
    said = [
        "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.",
        "Function tools with reasoning_effort are not supported. Set reasoning_effort to 'none'.",
        "stream_options: extra inputs are not permitted",
    ]
    server.answers(*(refused("openai", 400, "invalid_request_error", text) for text in said))
    async with open_model(Http(), [Endpoint("openai", server.openai_url, "m")], world, retries=0) as model:
        assert text_of(await answer(model, replace(HELLO, max_tokens=100))) == "Hello."
        assert text_of(await answer(model, replace(HELLO, max_tokens=100))) == "Hello."
    for last in (asked.body for asked in server.requests[3:]):
        assert (last["max_completion_tokens"], last["reasoning_effort"]) == (100, "none")
        assert "stream_options" not in last
    assert len(server.requests) == 5


async def test_a_server_that_refuses_every_form_is_given_up(server: ModelServer, world: World) -> None:
    server.otherwise = refused("openai", 400, "invalid_request_error", "max_tokens? max_completion_tokens?")
    async with open_model(Http(), [Endpoint("openai", server.openai_url, "m")], world, retries=3) as model:
        with pytest.raises(model_errors.RequestRefused):
            await answer(model, replace(HELLO, max_tokens=100))
    assert len(server.requests) == 5


async def test_a_refusal_of_a_part_that_cannot_be_left_out_is_an_error(
    server: ModelServer, wire: Wire, models: OpenModel
) -> None:
    server.otherwise = refused(
        wire, 400, "invalid_request_error", "temperature and reasoning_effort, thinking"
    )
    async with models() as model:
        with pytest.raises(model_errors.RequestRefused):
            await answer(model, replace(HELLO, temperature=0.5, effort="high"))
    assert len(server.requests) <= 4
