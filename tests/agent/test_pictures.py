"""Pictures that people send: shown to models that see, in both wire formats, within limits, and remembered by
reference."""

from __future__ import annotations

import json
import struct
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from hermes_trio.agent.providers.pictures import picture_type, prepare
from hermes_trio.base.messages import Attachment, MessageEvent, SessionSource
from hermes_trio.testing.model_replies import Reply, refused
from hermes_trio.testing.model_server import RecordedRequest
from tests.agent.agent_scene import Provider, Scene, open_scene

BOTH = pytest.mark.parametrize("provider", ["openai", "anthropic"])
HELLO = Reply().says("A red square.").finishes()


def png(width: int = 20, height: int = 10) -> bytes:
    out = BytesIO()
    Image.new("RGB", (width, height), "red").save(out, "PNG")
    return out.getvalue()


async def show(scene: Scene, data: bytes, number: int = 900) -> None:
    """Send a picture in the chat."""
    scene.platform.files["picture"] = data
    photo = Attachment("photo", "cat.png", "image/png", file_id="picture")
    source = SessionSource("memory", "42", user_id="42")
    event = MessageEvent(source, "What is this?", str(number), attachments=(photo,))
    await scene.platform.deliver(event).wait()


def pictures(asked: RecordedRequest) -> list[bytes]:
    """Return the pictures in a request, as the model gets them."""
    return [b64decode(data) for data in _pictures(asked.body["messages"])]


def _pictures(value: Any) -> list[str]:
    match value:
        case {"type": "image_url", "image_url": {"url": url}}:
            return [url.partition("base64,")[2]]
        case {"type": "image", "source": {"data": data}}:
            return [data]
        case dict():
            return [one for part in value.values() for one in _pictures(part)]
        case list():
            return [one for part in value for one in _pictures(part)]
    return []


@BOTH
async def test_a_model_gets_a_picture_and_has_it_in_later_turns(tmp_path: Path, provider: Provider) -> None:
    async with open_scene(tmp_path, provider=provider) as scene:
        scene.server.answers(HELLO, Reply().says("Still red.").finishes())
        await show(scene, png())
        await scene.shows("A red square.")
        await scene.says("And now?", until="Still red.")
        [row] = [row for row in await scene.rows() if row.files]
        assert [pictures(asked) for asked in scene.server.requests] == [[png()], [png()]]
        assert row.files[0].name.endswith("-cat.png")
        scene.check_requests()


async def test_a_large_picture_is_scaled_once_and_keeps_its_original(tmp_path: Path) -> None:
    large = png(4000, 1000)
    async with open_scene(tmp_path) as scene:
        scene.server.answers(HELLO)
        await show(scene, large)
        await scene.shows("A red square.")
        [shown] = pictures(scene.server.requests[0])
    assert Image.open(BytesIO(shown)).size == (1568, 392)
    assert picture_type(shown) == "image/jpeg"
    kept = sorted(path.read_bytes() for path in (tmp_path / "files").rglob("*") if path.is_file())
    assert kept == sorted([large, shown])


REFUSALS = [
    refused(
        "openai", 400, "invalid_request_error", "Invalid content type. image_url is only for some models."
    ),
    refused("openai", 404, "not_found", "No endpoints found that support image input"),
    refused(
        "openai", 500, "server_error", "image input is not supported - you may need to provide the mmproj"
    ),
]


@pytest.mark.parametrize("answer", REFUSALS)
async def test_a_model_that_does_not_see_says_so_and_still_answers(tmp_path: Path, answer: Any) -> None:
    async with open_scene(tmp_path) as scene:
        scene.server.answers(answer, Reply().says("I have not seen it.").finishes())
        await show(scene, png())
        await scene.shows("I have not seen it.")
        texts = scene.platform.chat("42").texts
        refused_request, second = scene.server.requests
        assert len(pictures(refused_request)) == 1
        assert pictures(second) == []
        assert "your server refuses pictures" in json.dumps(second.body)
        assert any("test-model takes no pictures, and answers without yours." in text for text in texts), (
            texts
        )


async def test_a_picture_that_no_model_can_read_is_named_with_the_reason(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        scene.server.answers(HELLO)
        await show(scene, b"\x89PNG\r\n\x1a\n and then nothing")
        await scene.shows("A red square.")
        [asked] = scene.server.requests
    assert "you cannot see it: it cannot be read as a picture" in json.dumps(asked.body)


def test_a_picture_of_too_many_pixels_is_not_decoded(tmp_path: Path) -> None:
    small = png()
    at = small.index(b"IHDR") + 4
    (tmp_path / "huge.png").write_bytes(small[:at] + struct.pack(">II", 60_000, 60_000) + small[at + 8 :])
    assert "picture" in prepare(tmp_path / "huge.png") or "pixels" in prepare(tmp_path / "huge.png")
    assert not (tmp_path / "huge.png.shown.jpg").exists()


def test_a_file_that_is_no_picture_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"only a name")
    assert prepare(tmp_path / "cat.png") == ""
