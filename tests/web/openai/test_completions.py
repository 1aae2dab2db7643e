"""Chat completions for the official client of OpenAI, which knows nothing of this gateway."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import openai
import pytest
import trio

from hermes_trio.base.events import ToolCompleted, ToolStarted
from hermes_trio.gateway.operations.run_follower import HEARTBEAT
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.state.tables.turns import Outcome
from hermes_trio.testing import Script
from tests.web.conftest import WebStage
from tests.web.openai.openai_client import HELLO, at_rest, complete, left, official, said, using

# The official client leaves its generators to the garbage collector, on Trio too.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


# --- the official client -----------------------------------------------------------------------------


async def test_the_models_are_listed_and_found_by_name(web_stage: WebStage) -> None:
    async with web_stage.served(), official(web_stage) as client:
        listed = [one.id async for one in client.models.list()]
        assert listed == ["default"]
        assert (await client.models.retrieve("default")).object == "model"
        with pytest.raises(openai.NotFoundError) as refused:
            await client.models.retrieve("gpt-nothing")
        assert refused.value.code == "model_not_found"


async def test_a_completion_has_the_answer_of_the_agent(web_stage: WebStage) -> None:
    async with web_stage.served(), official(web_stage) as client:
        answered = await client.chat.completions.create(model="gpt-4o", messages=HELLO)
        [choice] = answered.choices
        assert (choice.message.role, choice.message.content) == ("assistant", "You said: hello")
        assert choice.finish_reason == "stop"
        assert answered.id.startswith("chatcmpl-")
        assert answered.object == "chat.completion"


async def test_the_usage_is_in_a_whole_answer_and_in_a_stream(web_stage: WebStage) -> None:
    web_stage.agent = using  # type: ignore[assignment]
    async with web_stage.served(), official(web_stage) as client:
        answered = await client.chat.completions.create(model="default", messages=HELLO)
        assert answered.usage is not None
        assert (answered.usage.prompt_tokens, answered.usage.completion_tokens) == (15, 7)
        assert answered.usage.total_tokens == 22
        more: list[dict[str, Any]] = [{}, {"stream_options": {"include_usage": True}}]
        for options in more:
            chunks = [
                chunk
                async for chunk in await client.chat.completions.create(
                    model="default", messages=HELLO, stream=True, **options
                )
            ]
            assert chunks[-1].usage == answered.usage
            assert bool(chunks[-1].choices) is (not options)


@pytest.mark.parametrize("include_usage", [None, False, True])
async def test_a_client_that_adds_up_the_usage_of_all_chunks_counts_it_once(
    web_stage: WebStage, include_usage: bool | None
) -> None:
    async def agent(turn: TurnContext) -> str:
        await turn.emit(ToolStarted("terminal", "1", "ls"))
        await turn.emit(ToolCompleted("terminal", "1", "ls"))
        return await using(turn)

    web_stage.agent = agent  # type: ignore[assignment]
    options = {} if include_usage is None else {"stream_options": {"include_usage": include_usage}}
    async with web_stage.served() as (_, http), official(web_stage) as client:
        create = client.chat.completions.create
        chunks = [c async for c in await create(model="x", messages=HELLO, stream=True, **options)]  # type: ignore[call-overload]
        counted = [chunk.usage for chunk in chunks if chunk.usage is not None]
        assert [(one.prompt_tokens, one.completion_tokens) for one in counted] == [(15, 7)]
        body = {"messages": HELLO, "stream": True, **options}
        lines = (await http.post("/v1/chat/completions", json=body)).text.splitlines()
    *before, last = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert last["usage"]["total_tokens"] == 22
    assert last["choices"] == [] if include_usage else last["choices"][0]["finish_reason"] == "stop"
    assert [one.get("usage") for one in before] == [None] * len(before)
    assert all(("usage" in one) is bool(include_usage) for one in before), "as OpenAI does it"
    assert [one["choices"][0]["finish_reason"] for one in before if one["choices"][0]["finish_reason"]] == (
        ["stop"] if include_usage else []
    )


async def test_a_stream_is_sent_while_the_answer_is_written(web_stage: WebStage) -> None:
    go_on = trio.Event()

    async def agent(turn: TurnContext) -> str:
        await turn.say("first ")
        await go_on.wait()
        await turn.say("last")
        return "first last"

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served(), official(web_stage) as client:
        text, reasons = "", []
        async for chunk in await client.chat.completions.create(model="x", messages=HELLO, stream=True):
            [choice] = chunk.choices
            text += choice.delta.content or ""
            if text == "first ":
                go_on.set()
            reasons.append(choice.finish_reason)
        assert text == "first last"
        assert reasons == [None] * (len(reasons) - 1) + ["stop"]


async def test_tool_uses_of_the_agent_are_visible_and_harm_no_client(web_stage: WebStage) -> None:
    script = Script().says("Let me see.").calls("terminal", preview="ls", result="a b").says("Two files.")
    web_stage.agent.on("hello", script.calls("terminal", preview="rm x", error=True))
    tools: list[Any] = [{"type": "function", "function": {"name": "mine", "parameters": {}}}]
    async with web_stage.served() as (_, http), official(web_stage) as client:
        create = client.chat.completions.create
        chunks = [c async for c in await create(model="x", messages=HELLO, tools=tools, stream=True)]
        assert all(len(chunk.choices) == 1 for chunk in chunks), "as clients expect"
        seen = [chunk.model_extra for chunk in chunks if "tool" in (chunk.model_extra or {})]
        assert [(one["tool"], one["label"], one["status"]) for one in seen if one] == [
            ("terminal", "ls", "running"),
            ("terminal", "ls", "completed"),
            ("terminal", "rm x", "running"),
            ("terminal", "rm x", "failed"),
        ]
        assert len({one["toolCallId"] for one in seen if one}) == 2
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        answered = await create(model="x", messages=HELLO, tools=tools)
        assert answered.choices[0].message.tool_calls is None, "the agent has used the tools itself"
        body = {"messages": HELLO, "stream": True}
        lines = (await http.post("/v1/chat/completions", json=body)).text.splitlines()
        assert lines.count("event: hermes.tool.progress") == 4
        assert lines[-2] == "data: [DONE]"
    assert text.startswith("Let me see.\n\nTwo files.")
    assert answered.choices[0].message.content == text


async def test_errors_have_the_types_of_the_official_client(web_stage: WebStage) -> None:
    async with web_stage.served():
        async with official(web_stage, "wrong") as stranger:
            with pytest.raises(openai.AuthenticationError) as refused:
                await stranger.models.list()
            assert refused.value.code == "wrong_key"
            assert "web.key" in refused.value.message
        async with official(web_stage) as client:
            create = client.chat.completions.create
            wrong: list[Any] = [
                {"messages": []},
                {"messages": [{"role": "assistant", "content": "I end."}]},
                {"messages": [{"role": "user", "content": " "}]},
                {"messages": [{"role": "nobody", "content": "x"}]},
                {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
                {"messages": HELLO, "n": 2},
                {"messages": HELLO, "extra_headers": {"X-Hermes-Session-Id": "../x"}},
                {"messages": HELLO, "extra_headers": {"Idempotency-Key": "k" * 300}},
            ]
            for body in wrong:
                with pytest.raises(openai.BadRequestError) as bad:
                    await create(model="x", **body)
                assert bad.value.type == "invalid_request_error"
                assert bad.value.code
            with pytest.raises(openai.NotFoundError):
                await client.embeddings.create(model="x", input="x")
        assert web_stage.agent.began == []


async def test_a_client_that_leaves_a_stream_stops_its_turn(web_stage: WebStage) -> None:
    web_stage.agent.on("hello", Script().says("I begin.").hangs())
    async with web_stage.served() as (gateway, _), official(web_stage) as client:
        stream = await client.chat.completions.create(model="x", messages=HELLO, stream=True)
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        assert len(gateway.work.running) == 1
        await stream.close()
        await at_rest(web_stage, gateway)
        assert left(web_stage) == [("hello", "cancelled")]
        assert gateway.work.outcomes[Outcome.STOPPED] == 1
        assert not web_stage.web.callers  # type: ignore[union-attr]


async def test_a_cut_turn_is_an_error_for_the_client(web_stage: WebStage) -> None:
    web_stage.agent.on("hello", Script().says("I begin.").hangs())
    async with web_stage.served() as (gateway, _), official(web_stage) as client:
        text = ""
        with pytest.raises(openai.APIError) as cut:  # noqa: PT012
            async for chunk in await client.chat.completions.create(model="x", messages=HELLO, stream=True):
                text += chunk.choices[0].delta.content or ""
                if text:
                    gateway.stop(grace=0)
        assert text == "I begin."
        assert cut.value.code == "agent_incomplete"


async def test_a_held_gateway_refuses_a_completion_and_answers_the_retry_later(
    web_stage: WebStage,
) -> None:
    async with web_stage.served() as (gateway, http), official(web_stage) as client:
        gateway.control.hold(True)
        with pytest.raises(openai.InternalServerError) as refused:
            await client.chat.completions.create(model="x", messages=HELLO)
        assert refused.value.status_code == 503
        assert refused.value.code == "gateway_draining"
        assert int(refused.value.response.headers["retry-after"]) > 0
        assert (await http.get("/api/sessions")).json()["sessions"] == []
        async with trio.open_nursery() as nursery:

            async def let_it_go_on() -> None:
                await trio.sleep(0.2)
                gateway.control.hold(False)

            nursery.start_soon(let_it_go_on)
            async with official(web_stage, max_retries=5) as patient:
                answered = await patient.chat.completions.create(model="x", messages=HELLO)
        assert answered.choices[0].message.content == "You said: hello"


# --- ends of turns -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "A part."])
async def test_an_incomplete_answer_differs_from_a_complete_one(web_stage: WebStage, text: str) -> None:
    script = Script().says(text) if text else Script()
    web_stage.agent.on("hello", script.raises(RuntimeError("broken\r\nSet-Cookie: x=y")))
    async with web_stage.served() as (_, http):
        answered = await complete(http, ("user", "hello"))
        if text:
            assert said(answered) == text
            assert answered.json()["choices"][0]["finish_reason"] == "length"
            assert answered.headers["x-hermes-completed"] == "false"
            assert answered.headers["x-hermes-partial"] == "true"
            assert answered.headers["x-hermes-error"] == "failed"
        else:
            assert answered.status_code == 502
            assert answered.json()["error"]["code"] == "agent_incomplete"
            assert "broken" in answered.json()["error"]["message"]
        assert "set-cookie" not in answered.headers
        lines = (await http.post("/v1/chat/completions", json={"messages": HELLO, "stream": True})).text
        *_, last, done = [json.loads(x[6:]) for x in lines.splitlines() if x.startswith("data: {")] + [
            "[DONE]"
        ]
        assert last["error"]["code"] == "agent_incomplete"
        assert last["choices"][0]["finish_reason"] == "error"
        assert lines.endswith(f"data: {done}\n\n")


async def test_a_completion_that_has_not_begun_when_the_gateway_stops_is_refused_and_not_answered_later(
    web_stage: WebStage,
) -> None:
    web_stage.agent.before_asking = 1000.0
    async with web_stage.served() as (gateway, http):
        answers = {}
        async with trio.open_nursery() as nursery:

            async def ask(name: str, **headers: str) -> None:
                answers[name] = await complete(http, ("user", name), **headers)

            nursery.start_soon(ask, "without")
            nursery.start_soon(partial(ask, "with", Idempotency_Key="k"))
            await web_stage.until(lambda: len(web_stage.agent.began) == 2)
            gateway.stop(grace=0)
        for refused in answers.values():
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "gateway_draining")
            assert int(refused.headers["retry-after"]) > 0
    web_stage.agent.before_asking = 0.0
    began = len(web_stage.agent.began)
    async with web_stage.served() as (gateway, http):
        await web_stage.until(lambda: ("with", "answered") in left(web_stage))
        assert said(await complete(http, ("user", "without"))) == "You said: without"
        assert said(await complete(http, ("user", "with"), Idempotency_Key="k")) == "You said: with"
        await at_rest(web_stage, gateway)
        assert sorted(one[0] for one in web_stage.agent.began[began:]) == ["with", "without"]


def test_a_silent_completion_stream_sends_heartbeats() -> None:
    assert HEARTBEAT <= 30
