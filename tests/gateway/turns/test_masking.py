"""Secrets of a home are masked in the model request, transcript, journal, chat, page and log."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import trio

from hermes_trio.base.messages import Attachment
from hermes_trio.cli.logs import log_to_file
from hermes_trio.platform.contract import LinkLost, Refused, Traits
from hermes_trio.testing import MemoryPlatform
from hermes_trio.testing.model_replies import Reply, refused
from hermes_trio.tools.all_tools import toolbox
from hermes_trio.tools.tool import Result, Tool, ToolFailed, Workplace
from tests.agent.agent_scene import open_scene
from tests.stage import Stage

WEB_KEY = "WmJ2x0key-of-the-web-8sT4"
DOT_ENV = "value_from.dot-env-417"
TOKEN = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0"


class How(msgspec.Struct, frozen=True):
    how: str


def create_home(path: Path) -> Path:
    """Create a home with two secrets that match no pattern and are in no environment variable."""
    path.mkdir(exist_ok=True)
    (path / "web.key").write_text(WEB_KEY + "\n")
    (path / ".env").write_text(f"OPAQUE={DOT_ENV}\n")
    return path


def content_of(home: Path) -> str:
    """Return the content of all files of a home, except the two that hold its secrets."""
    files = [path for path in home.rglob("*") if path.is_file() and path.name not in ("web.key", ".env")]
    return "".join(path.read_bytes().decode("utf-8", "replace") for path in files)


async def _tells(arguments: How, place: Workplace) -> Result:
    text = f"the key is {WEB_KEY}, and {DOT_ENV}, and {TOKEN}"
    if arguments.how == "fails":
        raise ToolFailed(text)
    if arguments.how == "breaks":
        raise RuntimeError(text)
    if arguments.how == "is long":  # cut in the middle of a secret, wherever the limit is
        return Result("".join(f"{number} {text}\n" for number in range(3000)))
    return Result(text)


@pytest.mark.parametrize("how", ["answers", "fails", "breaks", "is long"])
async def test_the_result_of_a_tool_is_masked_everywhere(tmp_path: Path, how: str) -> None:
    home = create_home(tmp_path / "home")
    async with open_scene(home, tools={"tell": Tool("tell", "Tells.", How, _tells)}) as told:
        told.server.answers(Reply().calls("tell", {"how": how}))
        told.server.answers(refused("openai", 400, "invalid", f"You sent {DOT_ENV} and {WEB_KEY}."))
        await told.says("tell me", until="You sent *** and ***.")
        asked = json.dumps(told.server.requests[1].body)
        said = "".join(message.text for message in told.platform.chat("42").messages)
        rows = "".join(row.content for row in await told.rows())
    assert "the key is ***, and ***, and ***" in asked
    for text in (asked, said, rows, content_of(home)):
        for secret in (WEB_KEY, DOT_ENV, TOKEN):
            assert secret not in text
            assert secret[:12] not in text
            assert secret[-12:] not in text


async def test_the_output_of_a_command_is_masked_everywhere(tmp_path: Path) -> None:
    home = create_home(tmp_path / "home")
    command = f"printf '%s\\n' '{WEB_KEY[:9]}''{WEB_KEY[9:]}' '{DOT_ENV[:9]}''{DOT_ENV[9:]}'"
    async with open_scene(home, tools=toolbox()) as told:
        told.server.answers(Reply().calls("terminal", {"command": command}), Reply().says("Done."))
        await told.says("run it", until="Done.")
        (result,) = [row.content for row in await told.rows() if row.role == "tool"]
    assert result.splitlines()[:2] == ["***", "***"]
    # No tool reads the spool of the process, which lies in the home; all other files are searched.
    lines = [text for path in home.glob("journal/*/*.jsonl") for text in path.read_text().splitlines()]
    assert not any(secret in line for line in lines for secret in (WEB_KEY, DOT_ENV))


async def test_errors_and_texts_of_a_platform_are_masked_in_the_state_the_prompt_and_the_log(
    stage: Stage,
) -> None:
    create_home(stage.home)
    stage.platform = MemoryPlatform(traits=Traits(edits=True, fetches=True))
    address = f"https://api.example.org/file/bot{TOKEN}/x: {DOT_ENV}"
    stage.platform.fails("connect", LinkLost(address))
    stage.platform.fails("fetch", Refused(address))
    stage.platform.fails("send", Refused(address))
    with log_to_file(stage.home, stage.config, {}):
        async with stage.life():
            await trio.sleep(5)
            state = (stage.home / "gateway_state.json").read_text()
            assert "api.example.org" in state
            event = stage.platform.event("look")
            files = (Attachment("document", name="a.txt", file_id="f1"),)
            await stage.platform.deliver(replace(event, attachments=files)).wait()
            await trio.sleep(60)
    assert "not fetched: https://api.example.org/file/bot***/x: ***" in stage.agent.prompts[0]
    for secret in (TOKEN, DOT_ENV):
        assert secret not in content_of(stage.home)
        assert secret not in "".join(stage.agent.prompts)
