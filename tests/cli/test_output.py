"""No text of a person, a model or a platform controls the terminal of the reader."""

from __future__ import annotations

import io
import json
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from hermes_trio.base.world import World
from hermes_trio.cli import main
from hermes_trio.cli.terminal.rendering import Renderer
from hermes_trio.cli.terminal_output import Visible, unescaped, visible
from hermes_trio.platform.contract import LinkLost
from hermes_trio.state.tables import pairing
from hermes_trio.state.tables.pairing import Person
from hermes_trio.testing import Script
from tests.stage import Stage

CLIPBOARD = "\x1b]52;c;cm0gLXJmIH4=\x07"
EVIL = (
    f"begin {CLIPBOARD} \x1b[2J\x1b[1;1H \x1bP1$r \x9b31m \x9d0;title\x9c \r over \b\b \x7f \x0c \x00"
    " \u202e desrever \u2066 \u2028 \U000e0041 end"
)
OBEYED = {chr(code) for code in (*range(32), 127, *range(128, 160)) if chr(code) not in "\n\t"} | set(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\U000e0041"
)


def obeyed(text: str) -> set[str]:
    """Return the characters of a text that a terminal would obey."""
    return OBEYED & set(text)


def test_control_characters_become_escapes_and_text_stays() -> None:
    innocent = "Grüße,\n\tאבג 👩‍👩‍👧 café \\u001b 日本語 👍🏽"
    assert visible(innocent) == innocent
    assert visible(f"a{CLIPBOARD}b") == "a\\u001b]52;c;cm0gLXJmIH4=\\u0007b"
    assert visible("two\r\nlines\r") == "two\nlines\\u000d"
    for character in OBEYED:
        assert visible(character).isascii()
        assert visible(visible(character)) == visible(character)
    assert json.loads(visible(json.dumps("\x7f\U000e0041", ensure_ascii=False))) == "\x7f\U000e0041"


def test_a_visible_stream_escapes_everything_except_our_styles() -> None:
    inner = io.StringIO()
    outer = Visible(inner)
    print(EVIL, file=outer)
    outer.writelines([EVIL])
    assert not obeyed(inner.getvalue())
    assert not hasattr(outer, "buffer")
    assert unescaped(outer) is inner  # type: ignore[arg-type]


async def test_no_command_prints_control_characters_of_others(stage: Stage) -> None:
    stage.agent.on(EVIL.strip(), Script().says(EVIL).calls("terminal", preview=EVIL))
    stage.platform.fails("connect", LinkLost(EVIL), times=1)
    async with stage.life():
        await trio.sleep(60)
        event = stage.platform.event(EVIL)
        source = replace(event.source, user_name=EVIL, chat_name=EVIL)
        await stage.platform.deliver(replace(event, source=source)).wait()
        await trio.sleep(5)
        stage.platform.fails("connect", LinkLost(EVIL), times=9)
        stage.platform.drop()
        await trio.sleep(5)
        entry = stage.entry()
        (run,) = (stage.home / "journal" / entry.session_id).glob("*.jsonl")
        state = (stage.home / "gateway_state.json").read_bytes()
    (stage.home / "gateway_state.json").write_bytes(state)  # as after a kill at that moment
    with closing(sqlite3.connect(stage.home / "gateway.db")) as db:
        person = Person("telegram", "42\x1b[2J", EVIL, World().time())
        pairing.ask(db, person, pairing.sealed(pairing.new_code()))
        db.commit()
    (stage.home / "config.yaml").write_text(f"platforms: {{x: {{label: {json.dumps(EVIL)}}}}}\n")
    commands = [
        ["sessions", "list"], ["sessions", "list", "--search", EVIL], ["sessions", "show", entry.session_id],
        ["sessions", "show", f"{entry.session_id}{EVIL}"], ["sessions", "export", entry.session_id],
        ["sessions", "export", "--format", "jsonl", entry.session_id], ["sessions", "list", "--json"],
        ["journal", "show", run.stem], ["journal", "check"], ["status"], ["status", "--json"],
        ["pairing", "list"],
        ["pairing", "list", "--json"], ["pairing", "revoke", "telegram", EVIL], ["config", "show"],
        ["config", "check"], ["doctor"], ["drain", "status"], [EVIL],
    ]  # fmt: skip
    shown = ""
    for command in commands:
        result = CliRunner().invoke(main, command, env={"HERMES_HOME": str(stage.home)})
        assert not obeyed(result.stdout), command
        if command != [EVIL]:  # click echoes the argument
            assert not obeyed(result.stderr), command
        assert not isinstance(result.exception, AttributeError | TypeError), command
        shown += result.output
    assert shown.count("\\u001b]52;c;") > 5
    assert "desrever" in shown


@pytest.mark.parametrize("around", ["{}", "# {}", "`{}`", "```\n{}\n```", "[{0}](http://{0})", "|{}|\n|-|"])
def test_an_answer_in_the_terminal_has_no_control_characters(around: str) -> None:
    entities = "".join(one if one.isalnum() else f"&#{ord(one)};" for one in EVIL)
    for evil in (EVIL, entities):
        assert not obeyed(Renderer(colours=False).markdown(around.format(evil)))
    shown = Renderer(colours=False).markdown(around.format(EVIL))
    assert "\\u001b]52;c;" in "".join(shown.split())


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of POSIX")
def test_a_table_keeps_its_style_in_a_terminal(tmp_path: Path) -> None:
    import pty
    import subprocess

    ours, theirs = pty.openpty()
    program = (
        "import sys; from hermes_trio.cli.terminal_output import visible_output\n"
        "from hermes_trio.cli.home_reader import print_table\n"
        "with visible_output(): print_table(['NAME'], [['\\x1b[2Jx']], texts=[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=theirs, timeout=50, check=True)
    assert done.returncode == 0
    import os

    shown = os.read(ours, 4096).decode()
    os.close(ours)
    os.close(theirs)
    assert shown.startswith("\x1b[1mNAME\x1b[0m")
    assert "\\u001b[2Jx" in shown
