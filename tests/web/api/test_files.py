"""The files of a session: sent before their message, shown with it, read, and deleted with the session."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from hermes_trio.gateway.turn.attachments import MOST_BYTES
from tests.web.conftest import WebStage

PNG = b"\x89PNG\r\n\x1a\n a cat"


async def sent(http: httpx.AsyncClient, name: str, data: bytes, session: str = "s1") -> dict[str, Any]:
    """Send a file to a session, and return what the gateway calls it."""
    answer = await http.post(f"/api/sessions/{session}/files", params={"name": name}, content=data)
    assert answer.status_code == 201, answer.text
    file: dict[str, Any] = answer.json()["file"]
    return file


async def test_a_file_is_sent_shown_with_its_message_and_read_again(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        file = await sent(http, "a cat.png", PNG)
        again = await sent(http, "a cat.png", PNG)
        message = {"text": "What is this?", "attachments": [{"kind": "photo", "file": file["name"]}]}
        assert (await http.post("/api/sessions/s1/messages", json=message)).status_code == 202
        await web_stage.until(lambda: bool(web_stage.agent.left))
        read = (await http.get("/api/sessions/s1/messages")).json()["messages"][0]
        content = await http.get(f"/api/sessions/s1/files/{file['name']}")
    assert again == file
    assert (file["mime_type"], file["size"]) == ("image/png", len(PNG))
    assert (read["content"], read["files"][0]["name"]) == ("What is this?", file["name"])
    assert "[Sent along: photo a_cat.png" in web_stage.agent.prompts[-1]
    assert (content.content, content.headers["content-type"]) == (PNG, "image/png")
    assert content.headers["content-disposition"] == "inline"


async def test_a_file_that_is_no_picture_is_a_download(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        file = await sent(http, "page.html", b"<script>alert(1)</script>")
        content = await http.get(f"/api/sessions/s1/files/{file['name']}")
    assert content.headers["content-type"] == "application/octet-stream"
    assert content.headers["content-disposition"] == "attachment; filename*=UTF-8''page.html"
    assert content.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("size", "status", "code"), [(0, 400, "empty_file"), (MOST_BYTES + 1, 413, "too_large")]
)
async def test_a_file_out_of_bounds_is_refused(
    web_stage: WebStage, size: int, status: int, code: str
) -> None:
    async with web_stage.served() as (_, http):
        answer = await http.post("/api/sessions/s1/files?name=x", content=bytes(size))
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert not (web_stage.home / "files").exists()


@pytest.mark.parametrize("name", ["%2e%2e", "..%2f..%2fweb.key", "0123456789ab-none.png", "%00", "..%5cx"])
async def test_a_name_leads_to_no_other_file(web_stage: WebStage, name: str) -> None:
    async with web_stage.served() as (_, http):
        await sent(http, "cat.png", PNG)
        answer = await http.get(f"/api/sessions/s1/files/{name}")
    assert answer.status_code == 404


async def test_an_attachment_is_a_file_of_the_session_or_an_address(web_stage: WebStage) -> None:
    attachments: list[dict[str, str]] = [{}, {"file": "../../web.key"}, {"file": "0123456789ab-../x"}]
    async with web_stage.served() as (_, http):
        for one in attachments:
            answer = await http.post("/api/sessions/s1/messages", json={"text": "x", "attachments": [one]})
            assert answer.status_code == 400
        assert web_stage.agent.prompts == []


async def test_a_message_whose_file_is_gone_is_answered_and_says_so(web_stage: WebStage) -> None:
    attachments = [{"kind": "photo", "file": "0123456789ab-gone.png"}]
    async with web_stage.served() as (_, http):
        message = {"text": "look", "attachments": attachments}
        assert (await http.post("/api/sessions/s1/messages", json=message)).status_code == 202
        await web_stage.until(lambda: bool(web_stage.agent.left))
    assert "you cannot see it: No such file" in web_stage.agent.prompts[-1]


async def test_a_deleted_session_has_no_files(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        file = await sent(http, "cat.png", PNG)
        await http.post("/api/sessions/s1/messages", json={"attachments": [{"file": file["name"]}]})
        await web_stage.until(lambda: bool(web_stage.agent.left))
        assert (await http.delete("/api/sessions/s1")).is_success
    assert not (web_stage.home / "files" / "s1").exists()
