"""The Discord server for tests is one for another library too: discord.py connects, hears, sends, edits, and
resumes after its connection broke."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hermes_platforms.discord.testing import DiscordServer
from tests.platforms.written_lines import until_written

BOT = Path(__file__).with_name("other_client.py")


async def test_a_bot_of_another_library_talks_with_the_server(discord: DiscordServer) -> None:
    discord.heartbeat = 5.0
    program = [sys.executable, str(BOT), discord.base_url, discord.gateway_url, discord.token]
    running = subprocess.Popen(program, stdout=subprocess.PIPE)
    try:
        await until_written(running, "ready", discord.username)
        discord.post("hello", message_id="1001")
        await until_written(running, "heard", "hello", "42", True)
        await until_written(running, "answered")
        assert discord.chat("42").texts == ["You said: hello"]
        discord.drop()
        discord.post("again", message_id="1002")
        await until_written(running, "heard", "again", "42", True)
        await until_written(running, "resumed")
        assert len(discord.identified) == 1
        assert discord.resumed
    finally:
        running.kill()
        running.communicate()
