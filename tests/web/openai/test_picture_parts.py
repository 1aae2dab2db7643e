"""Pictures in requests of the OpenAI form: read from the request itself, and part of its conversation."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from tests.web.conftest import WebStage
from tests.web.openai.openai_client import official

PNG = b"\x89PNG\r\n\x1a\n a cat"
ADDRESS = f"data:image/png;base64,{b64encode(PNG).decode()}"

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


def shown(text: str, url: str = ADDRESS) -> dict[str, Any]:
    picture = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    return {"role": "user", "content": [{"type": "text", "text": text}, picture]}


async def test_a_picture_of_a_request_is_stored_and_named_to_the_agent(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http), official(web_stage) as client:
        messages: list[Any] = [shown("What is this?")]
        answered = await client.chat.completions.create(model="default", messages=messages)
        messages += [{"role": "assistant", "content": answered.choices[0].message.content}]
        messages += [{"role": "user", "content": "And now?"}]
        await client.chat.completions.create(model="default", messages=messages)
        sessions = (await http.get("/api/sessions")).json()["sessions"]
    assert web_stage.agent.prompts[0].startswith("What is this?\n[Sent along: photo picture.png")
    assert web_stage.agent.prompts[1] == "And now?"
    assert len(sessions) == 1, "the second request goes on with the session of the first"
    [kept] = [path for path in (web_stage.home / "files").rglob("*") if path.is_file()]
    assert kept.read_bytes() == PNG


async def test_the_pictures_of_a_brought_history_are_stored_too(web_stage: WebStage) -> None:
    messages: list[Any] = [shown("Look."), {"role": "assistant", "content": "A cat."}]
    messages += [{"role": "user", "content": "Sure?"}]
    async with web_stage.served() as (_, http), official(web_stage) as client:
        await client.chat.completions.create(model="default", messages=messages)
        [session] = (await http.get("/api/sessions")).json()["sessions"]
        read = (await http.get(f"/api/sessions/{session['id']}/messages")).json()["messages"][0]
        content = await http.get(f"/api/sessions/{session['id']}/files/{read['files'][0]['name']}")
    assert (read["content"], content.content) == ("Look.", PNG)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://example.org/cat.png", "The address of a picture must hold the picture."),
        ("data:image/png;base64,???", "A picture cannot be read."),
        (f"data:image/png;base64,{b64encode(b'<svg>').decode()}", "A picture cannot be read."),
        ("data:image/png,plain", "The address of a picture must hold the picture."),
    ],
)
async def test_a_picture_that_cannot_be_read_is_refused_by_name(
    web_stage: WebStage, url: str, why: str
) -> None:
    async with web_stage.served() as (_, http):
        answer = await http.post("/v1/chat/completions", json={"messages": [shown("What?", url)]})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "unsupported_content")
    assert error["message"].startswith(why)
    assert web_stage.agent.prompts == []
