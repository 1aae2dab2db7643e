"""The session in which a completion is answered, and the history that a client brings."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import trio

from hermes_trio.agent.model_agent import open_agent
from hermes_trio.config.config_file import Loaded
from hermes_trio.config.schema import ModelConfig
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.testing import Script
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import open_model_server
from tests.web.conftest import WebStage
from tests.web.openai.openai_client import Parrot, complete, left, official, said

# The official client leaves its generators to the collector, on Trio too.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


async def test_the_messages_of_a_request_are_the_whole_conversation(web_stage: WebStage) -> None:
    parrot = web_stage.agent = Parrot()  # type: ignore[assignment]
    talk = [("system", "Be brief."), ("user", "one"), ("assistant", "Other words."), ("user", "two")]
    async with web_stage.served() as (_, http):
        assert said(await complete(http, *talk)) == "Heard two."
        assert said(await complete(http, *talk)) == "Heard two."
    assert parrot.knew == [talk[:-1]] * 2, "not mixed with the stored messages"


async def test_a_continued_conversation_is_one_session(web_stage: WebStage) -> None:
    parrot = web_stage.agent = Parrot()  # type: ignore[assignment]
    talk = [("system", "Be brief."), ("user", "one")]
    async with web_stage.served() as (_, http):
        names = set()
        for more in ("two", "three", "four"):
            answered = await complete(http, *talk)
            names.add(answered.headers["x-hermes-session-id"])
            talk += [("assistant", f" {said(answered)}\n"), ("user", more)]
        assert len(names) == 1
        [session] = (await http.get("/api/sessions")).json()["sessions"]
        assert session["id"] in names
    assert parrot.knew[-1] == [
        ("system", "Be brief."),
        ("user", "one"),
        ("assistant", "Heard one."),
        ("user", "two"),
        ("assistant", "Heard two."),
    ]


async def test_a_conversation_with_a_different_history_starts_a_new_session(web_stage: WebStage) -> None:
    parrot = web_stage.agent = Parrot()  # type: ignore[assignment]
    async with web_stage.served() as (_, http):
        await complete(http, ("user", "one"))
        edited = [("user", "one"), ("assistant", "What I wish it had said."), ("user", "two")]
        assert said(await complete(http, *edited)) == "Heard two."
        sessions = (await http.get("/api/sessions")).json()["sessions"]
        assert [one["end_reason"] for one in sessions] == [None, "history_given"]
    assert parrot.knew[-1] == edited[:-1]


async def test_the_system_message_and_the_history_reach_the_model(
    web_stage: WebStage, tmp_path: Path
) -> None:
    async with open_model_server() as server:
        model = ModelConfig(provider="openai", base_url=server.openai_url, name="test-model", api_key="k")
        web_stage.config = msgspec.structs.replace(web_stage.config, model=model)
        loaded = Loaded(web_stage.config, (), tmp_path / "config.yaml", {"model.provider": "config.yaml"})
        web_stage.opened_agent = open_agent(loaded, {}, web_stage.world, tools={})
        talk = [("system", "Be brief."), ("user", "one"), ("assistant", "1"), ("user", "two")]
        async with web_stage.served() as (_, http), official(web_stage) as client:
            server.answers(Reply().says("Two.").uses(100, 3))
            assert [one.id async for one in client.models.list()] == ["default", "test-model"]
            answered = await complete(http, *talk)
            assert said(answered) == "Two."
            assert answered.json()["usage"]["completion_tokens"] == 3
            assert answered.json()["model"] == "test-model"
            first, *rest = server.requests[-1].body["messages"]
            assert first["role"] == "system"
            assert first["content"].endswith("Be brief.")
            assert [(one["role"], one["content"]) for one in rest] == talk[1:]


async def test_equal_requests_at_the_same_time_do_not_wait_for_each_other(web_stage: WebStage) -> None:
    everybody, go_on = trio.Event(), trio.Event()
    knew = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        knew.append(len(turn.history))
        if len(knew) == 3:
            everybody.set()
        await go_on.wait()
        return "Done."

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (_, http), trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(complete, http, ("user", "one"))
        await everybody.wait()
        go_on.set()
    assert knew == [0, 0, 0]


async def test_a_named_session_continues_with_its_stored_messages(web_stage: WebStage) -> None:
    parrot = web_stage.agent = Parrot()  # type: ignore[assignment]
    async with web_stage.served() as (_, http):
        for text in ("one", "two"):
            answered = await complete(
                http, ("user", "a lie"), ("assistant", "x"), ("user", text), X_Hermes_Session_Id="mine"
            )
            assert said(answered) == f"Heard {text}."
            assert answered.headers["x-hermes-session-id"] == "mine"
    assert parrot.knew == [[], [("user", "one"), ("assistant", "Heard one.")]]


async def test_a_chat_session_is_continued_in_its_chat_and_its_turn_outlives_the_client(
    web_stage: WebStage,
) -> None:
    web_stage.agent.on("more", Script().says("I begin.").takes(0.2).says(" I end."))
    async with web_stage.served(), official(web_stage) as client:
        await web_stage.platform.says("hello")
        await web_stage.until(lambda: web_stage.platform.chat("42").texts == ["You said: hello"])
        named = {"X-Hermes-Session-Id": web_stage.entry().session_id}
        stream = await client.chat.completions.create(
            model="x", messages=[{"role": "user", "content": "more"}], stream=True, extra_headers=named
        )
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        await stream.close()
        await web_stage.until(lambda: ("more", "answered") in left(web_stage))
        await web_stage.until(lambda: web_stage.platform.chat("42").last == "I begin. I end.")
