"""Some 400 kinds of secrets, every value of `.env` and the key of the web are shown at no door: neither to
the model, nor in the transcript, the journal, the chat, the page and the log."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from hermes_trio.cli.logs import log_to_file
from hermes_trio.config.schema import GatewayConfig, TerminalConfig
from hermes_trio.log import Log
from hermes_trio.testing.model_replies import Reply, refused
from hermes_trio.tools.all_tools import toolbox
from hermes_trio.tools.tool import Result, Tool, Workplace
from tests.agent.agent_scene import Scene, open_scene
from tests.masking.fake_secrets import SHAPES, halves
from tests.masking.secrets_by_service import TEXTS
from tests.stage import KEY

WEB_KEY = "WmJ2x0key-of-the-web-8sT4"
DOT_ENV = {
    "WORD": "swordfish",
    "PHRASE": "seven green umbrellas",
    "NUMBER": "48151623",
    "OPAQUE": "value_from.dot-env-417",
    "KEY_OF_US": "k9-short",
}
KNOWN = [WEB_KEY, *DOT_ENV.values()]
EVERY = SHAPES | TEXTS
SHAPED = "\n\n".join(text for text, _ in EVERY.values())
SPOKEN = f"It is {WEB_KEY}, {DOT_ENV['PHRASE']}; and {DOT_ENV['OPAQUE']}!"


class Nothing(msgspec.Struct, frozen=True):
    note: str = ""


async def _breaks(arguments: Nothing, place: Workplace) -> Result:
    raise RuntimeError(f"{SHAPED} {' '.join(KNOWN)}")


def create_home(path: Path) -> Path:
    """Create a home with a key of the web and a `.env`."""
    path.mkdir(parents=True)
    (path / "web.key").write_text(WEB_KEY + "\n")
    (path / ".env").write_text("".join(f"{name}='{value}'\n" for name, value in DOT_ENV.items()))
    return path


def content_of(home: Path) -> str:
    """Return the content of all files of a home but its secrets and the spools, which nobody reads unmasked:
    the database, the journals and the log."""
    files = [path for path in home.rglob("*") if path.is_file() and path.name not in ("web.key", ".env")]
    return "".join(
        path.read_bytes().decode("utf-8", "replace") for path in files if "spools" not in path.parts
    )


async def told_by(scene: Scene) -> str:
    """Return all that the model, the chat, the transcript and the page were told."""
    entry = await scene.gateway.home.store.get_session_entry(KEY.format("42"))
    assert entry is not None
    page = await scene.gateway.home.reader.with_transcript(entry)
    return "\n".join(
        [
            *(json.dumps(asked.body, ensure_ascii=False) for asked in scene.server.requests),
            *(message.text for message in scene.platform.chat("42").messages),
            *(row.content for row in await scene.rows()),
            *(repr(row) for row in page.rows),
        ]
    )


def shown_in(text: str) -> list[str]:
    """Return the secrets of which a text shows twelve characters in a row, each with its surroundings."""
    secrets = [secret for _, secret in EVERY.values() if len(secret) >= 8] + KNOWN
    found: list[str] = []
    for secret in secrets:
        at = max(map(text.find, halves(secret, 12)))
        if at >= 0:
            found.append(text[max(0, at - 40) : at + 40])
    return found


@asynccontextmanager
async def open_told(home: Path, tools: dict[str, Tool] | None = None) -> AsyncIterator[Scene]:
    create_home(home)
    work = home.parent / "work"
    work.mkdir()
    everything, terminal = {**toolbox(), **(tools or {})}, TerminalConfig(cwd=str(work))
    with log_to_file(home, GatewayConfig(), {}):
        async with open_scene(home, tools=everything, terminal=terminal) as scene:
            yield scene


def test_the_check_finds_a_secret_that_is_shown() -> None:
    assert len(shown_in(SHAPED)) > 380
    assert len(shown_in(SPOKEN)) == 3


async def test_the_output_of_a_command_and_the_content_of_a_file_are_told_without_secrets(
    tmp_path: Path,
) -> None:
    file = tmp_path / "work" / "notes.txt"
    async with open_told(tmp_path / "home") as scene:
        file.write_text(f"{SHAPED}\n\n{chr(10).join(KNOWN)}\nthe end")
        scene.server.answers(
            Reply().calls("terminal", {"command": f"cat {file}"}),
            Reply().calls("read_file", {"path": str(file), "limit": 2000}),
            Reply().calls("search_files", {"pattern": "^", "path": str(file), "limit": 500}),
            Reply().says("Done."),
        )
        await scene.says("look", until="Done.")
        told = await told_by(scene)
        results = [row.content for row in await scene.rows() if row.role == "tool"]
    assert len(results) == 3
    assert all(result.count("***") > 100 for result in results)
    assert shown_in(told) == []
    assert shown_in(content_of(tmp_path / "home")) == []


async def test_errors_of_tools_and_models_are_told_and_logged_without_secrets(tmp_path: Path) -> None:
    async with open_told(tmp_path / "home", {"break": Tool("break", "Breaks.", Nothing, _breaks)}) as scene:
        scene.server.answers(
            Reply().calls("break", {}),
            refused("openai", 400, "invalid", f"You sent {SPOKEN} {SHAPED[:2000]}"),
        )
        await scene.says("go", until="You sent It is ***, ***; and ***!")
        told = await told_by(scene)
    assert shown_in(told) == []
    content = content_of(tmp_path / "home")
    assert "tool failed" in content
    assert "RuntimeError" in content
    assert shown_in(content) == []


def test_records_and_tracebacks_of_us_and_of_other_packages_are_logged_without_secrets(
    tmp_path: Path,
) -> None:
    home = create_home(tmp_path / "home")
    with log_to_file(home, GatewayConfig(), {}):
        for text in [*(text for text, _ in EVERY.values()), *KNOWN]:
            Log("hermes_trio.story").warning(f"said {text}", text=text, deep={"a": [text]})
            logging.getLogger("httpx").warning("said %s", text)
            try:
                raise ValueError(text)
            except ValueError:
                Log("hermes_trio.story").exception("failed")
                logging.getLogger("httpx").exception("failed")
    assert shown_in(content_of(home)) == []


@pytest.mark.parametrize("size", [1, 3, 10, 0])
async def test_the_answer_and_the_reasoning_of_a_model_are_shown_without_known_secrets(
    tmp_path: Path, size: int
) -> None:
    """A model may know a secret that a program has encoded. The pieces of its text end within secrets."""
    async with open_told(tmp_path / "home") as scene:
        thought = Reply(piece=size).thinks(f"I think: {SPOKEN}").says(f"Well: {SPOKEN}")
        scene.server.answers(thought.calls("todo", {"todos": []}), Reply(piece=size).says(f"Done: {SPOKEN}"))
        await scene.says("tell me", until="Done: ")
        rows = await scene.rows()
        shown = "".join(message.text for message in scene.platform.chat("42").messages)
        page = [repr(row) for row in rows]
    assert shown_in("\n".join([shown, *page])) == []
    content = content_of(tmp_path / "home")
    assert shown_in(content) == []
    # Of a piece of one character, two are shown before a secret is recognised.
    assert "Done: It is ***" in content if size == 0 else "***, " in content


async def test_the_arguments_of_a_call_are_stored_without_known_secrets(tmp_path: Path) -> None:
    async with open_told(tmp_path / "home") as scene:
        call = Reply().calls("todo", {"todos": [{"id": "1", "content": SPOKEN, "status": "pending"}]})
        scene.server.answers(call, Reply().says("Done."))
        await scene.says("note it", until="Done.")
        (row,) = [row for row in await scene.rows() if row.tool_calls]
    assert json.loads(row.tool_calls[0].arguments)
    assert shown_in(row.tool_calls[0].arguments) == []
