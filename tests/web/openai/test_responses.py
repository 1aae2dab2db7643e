"""Responses for the official client of OpenAI, which knows nothing of this gateway."""

from __future__ import annotations

from typing import Any, get_type_hints

import openai
import pytest
import trio
from openai import AsyncOpenAI
from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.testing import Script
from tests.web.conftest import WebStage
from tests.web.openai.openai_client import Parrot, at_rest, left, official, using

# The official client leaves its generators to the garbage collector, on Trio too.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

WORKS = {"input", "instructions", "model", "previous_response_id", "store", "stream"}
REFUSED: dict[str, Any] = {
    "access_programs": {"cyber": True},
    "background": True,
    "conversation": "conv_1",
    "image": {"quality": "high"},
    "moderation": {"model": "m"},
    "prompt": {"id": "p"},
    "text": {"format": {"type": "json_object"}},
    "tool_choice": "required",
    "top_logprobs": 3,
}


async def ask(client: AsyncOpenAI, said: Any, **more: Any) -> Response:
    response: Response = await client.responses.create(model="any", input=said, **more)
    return response


async def test_a_response_has_the_answer_and_the_usage(web_stage: WebStage) -> None:
    web_stage.agent = using  # type: ignore[assignment]
    async with web_stage.served(), official(web_stage) as client:
        response = await ask(client, "hello")
        assert (response.status, response.output_text, response.error) == ("completed", "Counted.", None)
        assert response.usage is not None
        used = response.usage
        assert (used.input_tokens, used.output_tokens, used.total_tokens) == (15, 7, 22)
        assert (await client.responses.retrieve(response.id)).output_text == "Counted."


async def test_a_conversation_goes_on_after_its_last_response_and_others_are_their_own(
    web_stage: WebStage,
) -> None:
    web_stage.agent = parrot = Parrot()  # type: ignore[assignment]
    async with web_stage.served(), official(web_stage) as client:
        first = await ask(client, "hello", instructions="Be brief.")
        other = await ask(client, "hello")
        second = await ask(client, "and then?", previous_response_id=first.id)
        assert second.previous_response_id == first.id
        brief = ("system", "Be brief.")
        assert parrot.knew == [
            [brief],
            [],
            [brief, ("user", "hello"), ("assistant", "Heard hello.")],
        ]
        with pytest.raises(openai.ConflictError) as refused:
            await ask(client, "no, rather", previous_response_id=first.id)
        assert refused.value.code == "previous_response_not_last"
        assert (await ask(client, "still here?", previous_response_id=other.id)).status == "completed"
        with pytest.raises(openai.BadRequestError) as unknown:
            await ask(client, "who?", previous_response_id="resp_00000000")
        assert unknown.value.code == "previous_response_not_found"


async def test_a_client_that_stores_nothing_sends_the_whole_conversation(web_stage: WebStage) -> None:
    web_stage.agent = parrot = Parrot()  # type: ignore[assignment]
    async with web_stage.served(), official(web_stage) as client:
        talk: list[Any] = [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "hello"},
        ]
        first = await ask(client, talk, store=False)
        talk += [one.model_dump() for one in first.output]
        talk.append({"role": "user", "content": [{"type": "input_text", "text": "and then?"}]})
        second = await ask(client, talk, store=False)
        assert second.output_text == "Heard and then?."
        assert parrot.knew[1] == [
            ("system", "Be brief."),
            ("user", "hello"),
            ("assistant", "Heard hello."),
        ]


async def test_the_events_of_a_stream_build_up_the_response(web_stage: WebStage) -> None:
    script = Script().says("Let me see.").calls("terminal", result="a").says("Two files.")
    web_stage.agent.on("hello", script.returns("Two files."))
    async with web_stage.served(), official(web_stage) as client:
        kinds, numbers, text = [], [], ""
        async with client.responses.stream(model="any", input="hello") as stream:
            async for event in stream:
                kinds.append(event.type)
                numbers.append(event.sequence_number)
                text += event.delta if event.type == "response.output_text.delta" else ""
            final = await stream.get_final_response()
        assert (final.status, final.output_text) == ("completed", "Let me see.\n\nTwo files.")
        assert text == final.output_text
        assert numbers == list(range(len(numbers)))
        assert list(dict.fromkeys(kinds)) == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]


async def test_a_turn_that_fails_is_an_error_or_a_failed_response_with_its_text(web_stage: WebStage) -> None:
    web_stage.agent.on("at once", Script().raises(ValueError("no")))
    web_stage.agent.on("later", Script().says("Half of").raises(ValueError("no")))
    async with web_stage.served(), official(web_stage) as client:
        with pytest.raises(openai.InternalServerError) as refused:
            await ask(client, "at once")
        assert refused.value.code == "agent_incomplete"
        response = await ask(client, "later")
        assert (response.status, response.output_text) == ("failed", "Half of")
        async with client.responses.stream(model="any", input="later") as stream:
            events = [event async for event in stream]
        last = events[-1]
        assert last.type == "response.failed"
        assert last.response.error is not None


async def test_a_client_that_leaves_ends_its_turn(web_stage: WebStage) -> None:
    web_stage.agent.on("hello", Script().says("Well").hangs())
    async with web_stage.served() as (gateway, _), official(web_stage) as client:
        async with client.responses.stream(model="any", input="hello") as stream:
            async for event in stream:
                if event.type == "response.output_text.delta":
                    break
        await at_rest(web_stage, gateway)
        assert left(web_stage) == [("hello", "cancelled")]


async def test_a_response_is_cancelled_by_its_id(web_stage: WebStage) -> None:
    begun, found = trio.Event(), dict[str, str]()

    async def agent(turn: TurnContext) -> str:
        await turn.say("Well")
        begun.set()
        await trio.sleep_forever()

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served(), official(web_stage) as client, trio.open_nursery() as nursery:

        async def listen() -> None:
            async with client.responses.stream(model="any", input="hello") as stream:
                async for event in stream:
                    if event.type == "response.created":
                        found["id"] = event.response.id

        nursery.start_soon(listen)
        await begun.wait()
        assert (await client.responses.cancel(found["id"])).status == "cancelled"
        assert (await client.responses.retrieve(found["id"])).status == "cancelled"


async def test_the_same_request_with_the_same_key_gets_the_same_response(web_stage: WebStage) -> None:
    async with web_stage.served(), official(web_stage) as client:
        first = await ask(client, "hello")
        more = {"previous_response_id": first.id, "extra_headers": {"Idempotency-Key": "one"}}
        again = [await ask(client, "and then?", **more) for _ in range(2)]
        assert again[0].id == again[1].id
        assert again[1].output_text == "You said: and then?"
        assert [said for said, _, _ in web_stage.agent.left] == ["hello", "and then?"]


async def test_every_parameter_of_openai_works_or_is_ignored_or_refused_by_its_name(
    web_stage: WebStage,
) -> None:
    async with web_stage.served() as (_, http), official(web_stage) as client:
        for name, value in REFUSED.items():
            with pytest.raises(openai.BadRequestError) as refused:
                await ask(client, "hello", extra_body={name: value})
            assert (refused.value.param, refused.value.code) == (name, "unsupported_parameter")
        schemas = (await http.get("/openapi.json")).json()["components"]["schemas"]
    assert web_stage.agent.began == []
    described = schemas["NewResponse"]["properties"]
    assert described.keys() == get_type_hints(ResponseCreateParamsStreaming).keys()
    for name in described.keys() - WORKS - REFUSED.keys():
        assert described[name]["description"].startswith("Ignored. ")


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ([{"type": "function_call_output", "call_id": "1", "output": "2"}], "unsupported_content"),
        ([{"role": "assistant", "content": "I spoke last."}], "no_text"),
        ([], "wrong_type"),
        ("  ", "no_text"),
    ],
)
async def test_an_input_that_cannot_be_read_is_refused(web_stage: WebStage, said: Any, code: str) -> None:
    async with web_stage.served(), official(web_stage) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            await ask(client, said)
        assert refused.value.code == code


async def test_after_a_response_the_input_is_one_message(web_stage: WebStage) -> None:
    async with web_stage.served(), official(web_stage) as client:
        first = await ask(client, "hello")
        said: list[Any] = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
        with pytest.raises(openai.BadRequestError) as refused:
            await ask(client, said, previous_response_id=first.id)
        assert refused.value.code == "bad_input"
