"""The tool `send_file`: readable files, size limits, and chats that take no files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_trio.tools.builtin.send_file import MOST_BYTES, SEND_FILE, SendFileArguments
from hermes_trio.tools.paths import files_of
from hermes_trio.tools.tool import ToolFailed
from tests.tools.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return Desk(tmp_path / "home", tmp_path / "work")


async def test_send_file_sends_a_file_with_its_caption(desk: Desk) -> None:
    (desk.cwd / "cat.png").write_bytes(b"\x89PNG")
    result = await SEND_FILE.run(SendFileArguments("cat.png", "A cat"), desk)
    assert desk.sent == [("cat.png", b"\x89PNG", "A cat")]
    assert "on its way" in result.content


async def test_send_file_may_send_an_attachment_of_the_session(desk: Desk) -> None:
    place = files_of(desk.home, desk.session_id) / "cat.png"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"x")
    await SEND_FILE.run(SendFileArguments(str(place)), desk)
    assert len(desk.sent) == 1


@pytest.mark.parametrize(
    "path", ["../home/gateway.db", "/etc/shadow", "~/.ssh/id_rsa", "/proc/self/environ", "link"]
)
async def test_send_file_refuses_a_file_that_may_not_be_read(desk: Desk, path: str) -> None:
    (desk.home / "gateway.db").write_bytes(b"secrets")
    (desk.cwd / "link").symlink_to(desk.home / "gateway.db")
    with pytest.raises(ToolFailed):
        await SEND_FILE.run(SendFileArguments(path), desk)
    assert desk.sent == []


async def test_send_file_names_a_limit_or_a_missing_file(desk: Desk) -> None:
    (desk.cwd / "empty").write_bytes(b"")
    with open(desk.cwd / "large", "wb") as file:
        file.truncate(MOST_BYTES + 1)
    for path, why in (("empty", "is empty"), ("large", "the limit is"), ("none", "No such file")):
        with pytest.raises(ToolFailed, match=why):
            await SEND_FILE.run(SendFileArguments(path), desk)


async def test_send_file_fails_in_a_chat_that_takes_no_files(desk: Desk) -> None:
    desk.takes_files = False
    (desk.cwd / "cat.png").write_bytes(b"x")
    with pytest.raises(ToolFailed, match="This chat takes no files"):
        await SEND_FILE.run(SendFileArguments("cat.png"), desk)
