"""The Bot API server for tests, with a bot that is written with another library (`a_bot.py`): the server
understands the requests of that library, and the library understands its answers."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from hermes_platforms.telegram.testing import ApiError, open_bot_api
from hermes_trio.base.messages import Attachment, MessageEvent, SessionSource
from hermes_trio.platform.contract import ChatGone, FloodWait

pytest.importorskip("telegram")

A_BOT = Path(__file__).with_name("a_bot.py")
DATA = b"\x00\r\n--x\r\n\xff"


@pytest.mark.timeout(120)
async def test_a_bot_of_another_library_works_with_the_simulated_server() -> None:
    async with open_bot_api() as telegram:
        telegram.fails("send", ChatGone("blocked"), chat="43")
        written: list[bytes] = []
        with trio.fail_after(100):
            async with trio.open_nursery() as nursery:

                async def run() -> None:
                    command = [sys.executable, str(A_BOT), telegram.base_url, telegram.token]
                    environ = {**os.environ, "NO_PROXY": "127.0.0.1"}
                    done = await trio.run_process(command, capture_stdout=True, env=environ)
                    written.append(done.stdout)

                nursery.start_soon(run)
                await telegram.until(lambda: any(one.chat_id == "43" for one in telegram.history))
                telegram.fails("send", FloodWait(7))
                telegram.loses_answer()
                # From here on the bot polls and answers.
                chat, group = telegram.chat("42"), telegram.chat("-100")
                await telegram.says("hello")
                await telegram.until(lambda: chat.last == "You said: hello")
                await telegram.presses("Yes")
                await telegram.until(lambda: chat.last == "Thank you")
                await telegram.says("in a topic", chat="-100", chat_type="group", user="7", thread_id="5")
                await telegram.until(lambda: group.last == "You said: in a topic")
                telegram.answers("getUpdates", ApiError(409, "Conflict: terminated by other getUpdates"))
                source = SessionSource("telegram", "42", user_id="42")
                photo = MessageEvent(source, "look", "900", attachments=(Attachment("photo", file_id="p"),))
                telegram.deliver(photo)
                telegram.deliver(MessageEvent(source, "edited", "900", edited=True, sent_at=50.0))
                await telegram.says("bye")
        written_lines = [json.loads(line) for line in written[0].splitlines()]
    once: dict[str, Any] = {name: value for name, value in written_lines if name not in ("heard", "pressed")}
    assert once["me"] == [telegram.bot_id, telegram.username, True]
    assert once["sent"] == ["Done. See a_b", 42, "private", ["bold", "code"]]
    assert once["edited"] == ["Really done"]
    assert [name for name in ("same again", "bad markup", "too long") if once[name][0] != "BadRequest"] == []
    assert once["document"] == ["A file", "a b.bin", len(DATA)]
    assert bytes.fromhex(once["downloaded"]) == DATA
    assert (once["photo"], once["voice"]) == (["Look", True], True)
    assert (once["commands"], once["typing"], once["deleted"]) == (True, True, True)
    assert once["blocked"][0] == "Forbidden"
    assert once["flood"] == ["RetryAfter", 7.0]
    assert once["hung up"][0] == "NetworkError"
    assert "rejected by the server" in once["token"]
    assert [value for name, value in written_lines if name == "pressed"] == [["yes", 42]]
    assert [value for name, value in written_lines if name == "heard"] == [
        ["private", "hello", False],
        ["supergroup", "in a topic", False],
        ["private", "look", False],
        ["private", "edited", True],
        ["private", "bye", False],
    ]
    assert telegram.commands == {"help": "Helps"}
    assert len(telegram.pressed) == 1
    assert [shown.buttons for shown in chat.messages if shown.text == "Thank you"] == [()]
    assert (group.messages[0].thread_id, group.messages[0].reply_to is not None) == ("5", True)
