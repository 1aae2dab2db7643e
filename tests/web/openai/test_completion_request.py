"""The parameters of a completion: each works, or is ignored without harm, or is refused by name."""

from __future__ import annotations

from typing import Any, get_type_hints

import openai
import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from tests.web.conftest import WebStage
from tests.web.openai.openai_client import HELLO, Parrot, official

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

FUNCTION: dict[str, Any] = {"name": "mine", "parameters": {"type": "object", "properties": {}}}
REFUSED: dict[str, list[Any]] = {
    "n": [2, 0],
    "tool_choice": ["required", {"type": "function", "function": {"name": "mine"}}],
    "function_call": [{"name": "mine"}],
    "response_format": [{"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "x"}}],
    "stop": ["\n", ["END"]],
    "logprobs": [True],
    "top_logprobs": [3],
    "logit_bias": [{"50256": -100}],
    "modalities": [["text", "audio"], ["audio"]],
    "audio": [{"voice": "ash", "format": "mp3"}],
    "moderation": [{"model": "omni-moderation-latest"}],
    "store": [True],
    "web_search_options": [{}],
}
MAKES_NO_DIFFERENCE: dict[str, list[Any]] = {
    "n": [1],
    "tool_choice": ["auto", "none"],
    "function_call": ["auto", "none"],
    "response_format": [{"type": "text"}],
    "stop": [[], ""],
    "logprobs": [False],
    "top_logprobs": [0],
    "logit_bias": [{}],
    "modalities": [["text"]],
    "store": [False],
    "tools": [[{"type": "function", "function": FUNCTION}]],
    "functions": [[FUNCTION]],
    "parallel_tool_calls": [True, False],
    "max_tokens": [5],
    "max_completion_tokens": [5],
    "temperature": [0.2],
    "top_p": [0.5],
    "presence_penalty": [1],
    "frequency_penalty": [1],
    "seed": [7],
    "prediction": [{"type": "content", "content": "x"}],
    "reasoning_effort": ["low"],
    "verbosity": ["low"],
    "service_tier": ["flex"],
    "metadata": [{"a": "b"}],
    "user": ["me"],
    "safety_identifier": ["me"],
    "prompt_cache_key": ["k"],
    "prompt_cache_retention": ["24h"],
    "prompt_cache_options": [{"mode": "implicit"}],
    "no_parameter_of_openai": [1],
}
WORKS = {"messages", "model", "stream", "stream_options"}


async def test_an_unsupported_parameter_is_refused_by_its_name(
    web_stage: WebStage,
) -> None:
    async with web_stage.served() as (_, http), official(web_stage, max_retries=2) as client:
        for name, values in REFUSED.items():
            for value in values:
                with pytest.raises(openai.BadRequestError) as refused:
                    await client.chat.completions.create(model="x", messages=HELLO, extra_body={name: value})
                error = refused.value
                assert (error.param, error.code) == (name, "unsupported_parameter"), error.message
                assert f"`{name}`" in error.message
                streamed = {"messages": HELLO, "stream": True, name: value}
                assert (await http.post("/v1/chat/completions", json=streamed)).status_code == 400
    assert web_stage.agent.began == []


async def test_a_parameter_without_effect_is_accepted(web_stage: WebStage) -> None:
    async with web_stage.served(), official(web_stage) as client:
        for name, values in MAKES_NO_DIFFERENCE.items():
            for value in (*values, None):
                answered = await client.chat.completions.create(
                    model="x", messages=HELLO, extra_body={name: value}
                )
                assert answered.choices[0].message.content == "You said: hello"


async def test_the_description_says_how_each_parameter_of_openai_is_handled(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        schemas = (await http.get("/openapi.json")).json()["components"]["schemas"]
    described = schemas["ChatCompletion"]["properties"]
    theirs = get_type_hints(CompletionCreateParamsStreaming).keys()
    assert theirs - described.keys() == set()
    assert described.keys() - theirs == set()
    tried = WORKS | REFUSED.keys() | MAKES_NO_DIFFERENCE.keys()
    assert described.keys() == tried - {"no_parameter_of_openai"}
    for name, schema in described.items():
        if name in REFUSED:
            assert all(value in schema["enum"] for value in [None, *MAKES_NO_DIFFERENCE.get(name, [])])
            assert schema["description"]
        elif name not in WORKS:
            assert schema["description"].startswith("Ignored. ")


async def test_a_wrong_type_is_refused_with_the_name_of_the_field(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        for path, body, param in (
            ("/v1/chat/completions", {"messages": HELLO, "stream": "yes"}, "stream"),
            ("/v1/chat/completions", {"messages": [{"role": "nobody", "content": "x"}]}, "messages[0].role"),
            ("/v1/chat/completions", {}, None),
            ("/v1/runs", {"input": 5}, "input"),
            ("/v1/runs", {"input": "x", "conversation_history": [{}]}, "conversation_history[0]"),
        ):
            refused = await http.post(path, json=body)
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, param), refused.text


async def test_a_run_ignores_unknown_keys(web_stage: WebStage) -> None:
    more = {name: values[0] for name, values in REFUSED.items()}
    async with web_stage.served() as (_, http):
        begun = await http.post("/v1/runs", json={"input": "hello", **more})
        assert begun.status_code == 202, begun.text


@pytest.mark.parametrize(
    "refusal",
    [
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I would rather not."}]},
        {"role": "assistant", "content": None, "refusal": "I would rather not."},
        {
            "role": "assistant",
            "content": "I would rather not.",
            "refusal": None,
            "audio": None,
            "function_call": None,
            "tool_calls": None,
        },
    ],
)
async def test_a_refusal_in_a_history_is_a_text_of_the_assistant(
    web_stage: WebStage, refusal: dict[str, Any]
) -> None:
    parrot = web_stage.agent = Parrot()  # type: ignore[assignment]
    talk: list[Any] = [{"role": "user", "content": "one"}, refusal, {"role": "user", "content": "two"}]
    async with web_stage.served() as (_, http), official(web_stage) as client:
        answered = await client.chat.completions.create(model="x", messages=talk)
        assert answered.choices[0].message.content == "Heard two."
        assert (await http.post("/v1/runs", json={"input": talk})).status_code == 202
        await web_stage.until(lambda: len(parrot.knew) == 2)
    assert parrot.knew == [[("user", "one"), ("assistant", "I would rather not.")]] * 2


async def test_an_unreadable_message_is_refused_and_not_taken_for_an_empty_one(
    web_stage: WebStage,
) -> None:
    unreadable: list[dict[str, Any]] = [
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}],
        },
        {"role": "user", "content": [{"type": "input_image", "image_url": "https://x"}]},
        {
            "role": "user",
            "content": [{"type": "input_audio", "input_audio": {"data": "AA"}}],
        },
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]},
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "assistant", "content": [{"type": "refusal"}]},
        {"role": "assistant", "content": None, "audio": {"id": "audio_1"}},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    ]
    async with web_stage.served() as (_, http), official(web_stage) as client:
        for message in unreadable:
            talk: list[Any] = [message, *HELLO]
            with pytest.raises(openai.BadRequestError) as refused:
                await client.chat.completions.create(model="x", messages=talk)
            assert (refused.value.code, refused.value.param) == ("unsupported_content", "messages")
            assert (await http.post("/v1/runs", json={"input": talk})).status_code == 400
    assert web_stage.agent.began == []
