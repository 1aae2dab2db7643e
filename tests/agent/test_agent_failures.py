"""A failure of the model or of the agent: the person gets a reason and a remedy, and never a secret."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from hermes_trio.agent.providers.model import Item, ModelRequest
from hermes_trio.config.schema import FallbackConfig
from hermes_trio.testing.model_replies import Reply, refused
from tests.agent.agent_scene import API_KEY, open_scene


async def test_a_failure_of_the_model_is_shown_with_a_remedy(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        scene.server.answers(refused("openai", 401, "invalid_request_error", "Incorrect API key provided."))
        shown = await scene.says("hello", until="key")
        assert "the key was refused" in shown
        assert "model.api_key" in shown
        assert API_KEY not in shown


async def test_the_fallback_model_answers_if_the_first_one_cannot(tmp_path: Path) -> None:
    async with open_scene(tmp_path, fallback=FallbackConfig(name="other-model")) as scene:
        scene.server.answers(refused("openai", 404, "model_not_found", "There is no such model."))
        scene.server.answers(Reply().says("I am the other one."))
        await scene.says("hello", until="the other one")
        assert [asked.body["model"] for asked in scene.server.requests] == ["test-model", "other-model"]
        said = [message.text for message in scene.platform.chat("42").messages]
        assert any("Going on with other-model" in text for text in said)
        scene.server.answers(Reply().says("Back again."))
        await scene.says("and now?", until="Back again.")
        assert scene.server.requests[-1].body["model"] == "test-model", (
            "the next turn begins with the first one"
        )


class BrokenModel:
    """A model with a defect: it raises an unexpected exception whose text contains secrets."""

    name = "broken"

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Item]]:
        raise RuntimeError(f"cannot reach https://kim:pass-0815@host/?token=abcd-0123 with {API_KEY}")


async def test_the_text_of_an_unexpected_exception_is_shown_without_secrets(tmp_path: Path) -> None:
    async with open_scene(tmp_path, model=BrokenModel()) as scene:
        shown = await scene.says("hello", until="The agent failed (RuntimeError: cannot reach")
        for secret in (API_KEY, "pass-0815", "abcd-0123"):
            assert secret not in shown


async def test_the_preview_of_a_call_holds_no_secret(tmp_path: Path) -> None:
    secret = "ghp_" + "x" * 36
    async with open_scene(tmp_path) as scene:
        for word in (f"use {secret} for it", "y" * (200 - len('{"word": "') - 11) + " " + secret):
            scene.server.answers(Reply().calls("spell", {"word": word}))
        scene.server.answers(Reply().says("Done."))
        await scene.says("spell", until="Done.")
        events = "".join(path.read_text() for path in tmp_path.glob("journal/*/*.jsonl"))
        previews = [json.loads(line)["payload"].get("preview", "") for line in events.splitlines()]
        assert any("use ***" in preview for preview in previews)
        assert not any("ghp_" in preview for preview in previews)
