"""The Slack server for tests is one for Slack's own library too: it connects, hears, acknowledges, sends,
edits, finds its message again, and opens a new connection when it is asked to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hermes_platforms.slack.testing import SlackServer
from tests.platforms.written_lines import until_written

APP = Path(__file__).with_name("other_client.py")


async def test_an_app_of_slacks_own_library_talks_with_the_server(slack: SlackServer) -> None:
    program = [sys.executable, str(APP), slack.base_url, slack.app_token, slack.token]
    running = subprocess.Popen(program, stdout=subprocess.PIPE)
    try:
        await until_written(running, "ready", slack.username)
        slack.post("hello")
        await until_written(running, "heard", "events_api", "hello")
        await until_written(running, "found", True, "another")
        assert slack.chat("42").texts == ["You said: hello"]
        assert not slack.waiting
        await slack.refreshes()
        await slack.until(lambda: slack.opened == 2)
        slack.post("again")
        await until_written(running, "heard", "events_api", "again")
    finally:
        running.kill()
        running.communicate()
