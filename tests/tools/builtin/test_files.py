"""The tools for files."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path

import pytest
import trio

from hermes_trio.config.schema import GatewayConfig, ModelConfig
from hermes_trio.tools.builtin.files import LONGEST_LINE, LONGEST_PAGE, Files
from hermes_trio.tools.tool import ToolFailed
from tests.host.children.kinds import until
from tests.tools.desk import Desk, desk_in

TOOLS = {tool.name: tool for tool in Files().tools}
READ, WRITE, PATCH = TOOLS["read_file"], TOOLS["write_file"], TOOLS["patch"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return desk_in(tmp_path)


async def test_read_file_numbers_lines_and_returns_pages(desk: Desk) -> None:
    (desk.cwd / "a.txt").write_text("".join(f"line {n}\r\n" for n in range(1, 8)))
    assert (
        await desk.use(READ, path="a.txt", limit=2)
    ).content == "1|line 1\n2|line 2\n[There is more: next_offset=3]"
    assert (await desk.use(READ, path="a.txt", offset=6, limit=2)).content == "6|line 6\n7|line 7"
    assert (await desk.use(READ, path="a.txt", offset=8)).content == "[The file has 7 lines.]"


async def test_read_file_cuts_long_lines_and_pages_and_says_where_to_go_on(desk: Desk) -> None:
    (desk.cwd / "a.txt").write_text(
        "x" * 300_000 + "\nshort\n" + "".join(f"{'y' * 1000}{n}\n" for n in range(500))
    )
    page = (await desk.use(READ, path="a.txt")).content
    first, second, *_, last = page.split("\n")
    assert first == f"1|{'x' * 2000} [the line is longer]"
    assert second == "2|short"
    assert len(page) < LONGEST_PAGE + 100
    following = int(last.removeprefix("[There is more: next_offset=").removesuffix("]"))
    next_page = (await desk.use(READ, path="a.txt", offset=following)).content
    assert next_page.startswith(f"{following}|{'y' * 1000}{following - 3}\n")


async def test_read_file_refuses_binary_files_directories_and_the_home(desk: Desk) -> None:
    (desk.cwd / "a.png").write_bytes(b"\x89PNG\0\0")
    (desk.cwd / "empty").touch()
    (desk.cwd / "folder").mkdir()
    with pytest.raises(ToolFailed, match="not a text file"):
        await desk.use(READ, path="a.png")
    with pytest.raises(ToolFailed, match="directory"):
        await desk.use(READ, path="folder")
    with pytest.raises(ToolFailed, match=r"gateway's own home"):
        await desk.use(READ, path=str(desk.home / "gateway.db"))
    assert (await desk.use(READ, path="empty")).content == "[The file is empty.]"


async def test_read_file_suggests_similar_names_but_no_secret_files(desk: Desk) -> None:
    (desk.cwd / "settings.toml").touch()
    (desk.cwd / ".env").touch()
    with pytest.raises(ToolFailed, match=r"There is settings\.toml\."):
        await desk.use(READ, path="setings.toml")
    with pytest.raises(ToolFailed, match=r"no file \.emv\.$"):
        await desk.use(READ, path=".emv")


async def test_write_file_and_patch_keep_a_file_that_somebody_else_changed(desk: Desk) -> None:
    file = desk.cwd / "a.txt"
    await desk.use(WRITE, path="a.txt", content="one\n")
    await desk.use(WRITE, path="a.txt", content="two\n")  # a change by the session itself is allowed
    os.utime(file, ns=(1, 1))
    for tool, arguments in (
        (WRITE, {"content": "three\n"}),
        (PATCH, {"edits": [{"old_string": "two", "new_string": "x"}]}),
    ):
        with pytest.raises(ToolFailed, match="has changed since you read it"):
            await desk.use(tool, path="a.txt", **arguments)
    assert file.read_text() == "two\n"
    other = Desk(desk.home, desk.cwd, "session-2")
    await other.use(WRITE, path="a.txt", content="of another session\n")
    await desk.use(READ, path="a.txt")
    assert (await desk.use(WRITE, path="a.txt", content="three\n")).content.endswith("1 lines, 6 bytes.")
    file.unlink()
    await desk.use(WRITE, path="a.txt", content="made again\n")


async def test_patch_returns_a_diff(desk: Desk) -> None:
    (desk.cwd / "a.py").write_text("a = 1\nb = 2\n")
    edits = [{"old_string": "a = 1", "new_string": "a = 10"}, {"old_string": "b = 2\n", "new_string": ""}]
    told = (await desk.use(PATCH, path="a.py", edits=edits)).content
    assert told == "--- a.py\n+++ a.py\n@@ -1,2 +1 @@\n-a = 1\n-b = 2\n+a = 10"
    assert (desk.cwd / "a.py").read_text() == "a = 10\n"
    with pytest.raises(ToolFailed, match="Nothing was changed"):
        await desk.use(PATCH, path="a.py", edits=[{"old_string": "a = 10", "new_string": "x"}, *edits])
    assert (desk.cwd / "a.py").read_text() == "a = 10\n"


async def test_patch_refuses_a_file_that_is_not_utf8(desk: Desk) -> None:
    (desk.cwd / "a").write_bytes(b"caf\xe9")
    with pytest.raises(ToolFailed, match="UTF-8"):
        await desk.use(PATCH, path="a", edits=[{"old_string": "caf", "new_string": "tea"}])


async def test_wrong_arguments_of_the_file_tools_are_named(desk: Desk) -> None:
    for arguments in ({"path": "a", "offset": 0}, {"path": "a", "limit": 9999}, {}):
        with pytest.raises(ToolFailed, match="arguments of read_file"):
            await desk.use(READ, **arguments)
    with pytest.raises(ToolFailed, match="arguments of patch"):
        await desk.use(PATCH, path="a", edits=[])


async def test_a_cancelled_write_file_leaves_no_file(desk: Desk) -> None:
    written, go_on = trio.Event(), threading.Event()

    class Slow(Desk):
        """A desk whose writing thread stops after writing the new file and before replacing the old one."""

        @property
        def session_id(self) -> str:
            if threading.current_thread() is not threading.main_thread():
                trio.from_thread.run_sync(written.set)
                go_on.wait(30)
            return "slow"

        @session_id.setter
        def session_id(self, value: str) -> None: ...

    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(Slow(desk.home, desk.cwd).use, WRITE, path="a.txt", content="late"))
        with trio.fail_after(30):
            await written.wait()
        assert len(os.listdir(desk.cwd)) == 1, "the temporary file exists"
        nursery.cancel_scope.cancel()
    go_on.set()
    await until(lambda: not os.listdir(desk.cwd))


async def test_the_file_tools_mask_our_own_secrets_and_keep_them_in_the_file(desk: Desk) -> None:
    desk.config = GatewayConfig(model=ModelConfig(api_key="our-own-secret"))
    (desk.cwd / "a.py").write_text("key = 'our-own-secret'\npassword = ask_for_it()\n")
    assert (await desk.use(READ, path="a.py")).content == "1|key = '***'\n2|password = ask_for_it()"
    edits = [{"old_string": "ask_for_it", "new_string": "asked"}]
    assert "our-own-secret" not in (await desk.use(PATCH, path="a.py", edits=edits)).content
    assert (desk.cwd / "a.py").read_text() == "key = 'our-own-secret'\npassword = asked()\n"


async def test_the_file_tools_mask_a_likely_secret_and_keep_it_in_the_file(desk: Desk) -> None:
    token = "ghp_" + "x7" * 18
    (desk.cwd / "a.env").write_text(f"TOKEN={token}\nPORT=1\n")
    told = (await desk.use(READ, path="a.env")).content
    assert told == "1|TOKEN=***\n2|PORT=1"
    with pytest.raises(ToolFailed, match="holds a secret"):
        await desk.use(WRITE, path="a.env", content="TOKEN=***\nPORT=2\n")
    edits = [{"old_string": "PORT=1", "new_string": "PORT=2"}]
    assert token not in (await desk.use(PATCH, path="a.env", edits=edits)).content
    assert (desk.cwd / "a.env").read_text() == f"TOKEN={token}\nPORT=2\n"
    await desk.use(WRITE, path="b.txt", content="*** is a mask\n")
    await desk.use(WRITE, path="b.txt", content="*** is what hides\n")


async def test_read_file_masks_a_secret_before_it_cuts_a_long_line(desk: Desk) -> None:
    desk.config = GatewayConfig(model=ModelConfig(api_key="our-own-long-secret"))
    for before in range(LONGEST_LINE - 18, LONGEST_LINE):
        (desk.cwd / "a.txt").write_text(" " * before + "our-own-long-secret and more " * 9)
        assert "our-" not in (await desk.use(READ, path="a.txt")).content


async def test_read_file_masks_a_private_key_at_any_offset(desk: Desk) -> None:
    lines = [f"{number}abcdefgh" * 6 for number in range(10, 24)]
    key = "\n".join(["-----BEGIN OPENSSH PRIVATE KEY-----", *lines, "-----END OPENSSH PRIVATE KEY-----"])
    (desk.cwd / "id").write_text(f"one\n{key}\nlast\n")
    assert (await desk.use(READ, path="id")).content == "1|one\n2|***\n18|last"
    assert "abcdefgh" not in (await desk.use(READ, path="id", offset=9)).content
