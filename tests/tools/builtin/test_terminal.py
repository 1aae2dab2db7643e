"""The tool `terminal`: output, exit code and directory of a command, and no processes left. Processes and
clock are real."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hermes_trio.config.schema import AgentConfig, ApprovalsConfig, TerminalConfig
from hermes_trio.masking.redaction import redactor
from hermes_trio.tools.builtin.terminal import Terminal
from hermes_trio.tools.output import MARGIN, MOST, cleaned, fitted, latest
from hermes_trio.tools.tool import ToolFailed
from tests.host.children.kinds import KINDS, MORE, alive, soon, token
from tests.stage import Stage, everyone
from tests.tools.bench import Bench
from tests.tools.desk import desk_in

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")


@pytest.fixture
def mine() -> Iterator[str]:
    """A number that all processes of the test carry; none of them may be left after it."""
    yield (number := token())
    soon(lambda: not alive(number))


@pytest.fixture(params=["bubblewrap", "landlock", "off"])
def bench(real_stage: Stage, tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    """A gateway with one of the sandboxes: a command behaves the same in each."""
    work = tmp_path / "work"
    work.mkdir()
    terminal = TerminalConfig(cwd=str(work), sandbox=request.param)
    real_stage.config = msgspec.structs.replace(everyone(), terminal=terminal)
    return Bench(real_stage)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo hello", "hello\n\n[exit code 0]"),
        ("echo out; echo err >&2; exit 3", "out\nerr\n\n[exit code 3]"),
        ("true", "[exit code 0]"),
        ("echo abc | grep x", "[exit code 1: no line matched]"),
        ("no_such_command_here 2>/dev/null", "[exit code 127: there is no such command]"),
        ("kill -KILL $$", "[exit code 137: it was killed, perhaps because memory ran out]"),
        ("[[ ab == a* ]] && echo matched", "matched\n\n[exit code 0]"),
        ("printf '\\033[31mred\\033[0m 10%%\\r100%%\\r\\nnext'", "100%\nnext\n[exit code 0]"),
        ("cat", "[exit code 0]"),
        ("echo key is sk-abcdefghijklmnop1234", "key is ***\n\n[exit code 0]"),
    ],
)
async def test_terminal_returns_output_and_exit_code_with_its_meaning(
    bench: Bench, command: str, told: str
) -> None:
    async with bench.life():
        assert (await bench.run(command)).content == told


async def test_terminal_keeps_the_directory_of_the_last_cd(bench: Bench, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "a b" / "c").mkdir(parents=True)
    async with bench.life():
        first, second = await bench.do({"command": "cd 'a b'; exit 4"}, {"command": "pwd"})
        assert first.content == f"[exit code 4; now in {work / 'a b'}]"
        assert second.content.startswith(f"{work / 'a b'}\n")
        assert (await bench.run("pwd")).content.startswith(f"{work / 'a b'}\n"), "also in the next turn"
        await bench.do(
            {"command": "(cd /)"},
            {"command": "cd / && false || exec true"},
            {"command": "cd /", "workdir": "c"},
            {"command": "cd / && sleep 60", "timeout": 1},
        )
        told = (await bench.run("pwd", workdir="c")).content
        assert told.startswith(f"{work / 'a b' / 'c'}\n"), (
            "for this command only, relative to the current directory"
        )
        assert (await bench.run("pwd")).content.startswith(f"{work / 'a b'}\n")
        await bench.do({"command": "cd c && rmdir ../c"})
        assert (await bench.run("pwd")).content.startswith(f"{work / 'a b'}\n")
        (work / "a b").rmdir()
        assert (await bench.run("pwd")).content.startswith(f"{work}\n"), "back in the configured directory"
        assert not list(bench.stage.home.glob("spools/cwd-*"))


async def test_terminal_keeps_a_directory_for_each_session(bench: Bench, tmp_path: Path) -> None:
    async with bench.life():
        await bench.run("cd /")
        (other,) = await bench.do({"command": "pwd"}, chat="43")
        assert other.content.startswith(str(tmp_path / "work"))
        await bench.stage.platform.says("/new")
        assert (await bench.run("pwd")).content.startswith(str(tmp_path / "work"))


async def test_terminal_returns_beginning_and_end_of_a_long_output(bench: Bench) -> None:
    async with bench.life():
        numbers, letters, words = await bench.do(
            {"command": "seq 1 60000"}, {"command": "yes ü | head -c 120000"}, {"command": "seq 1 11000"}
        )
        for result, first, last in (
            (numbers, "1\n2\n3\n", "59999\n60000\n\n[exit code 0]"),
            (letters, "ü\nü\n", "ü\nü\n\n[exit code 0]"),
            (words, "1\n2\n3\n", "10999\n11000\n\n[exit code 0]"),
        ):
            assert result.content.startswith(first)
            assert result.content.endswith(last)
            assert MOST * 0.7 < len(result.content) < MOST + 200
        assert numbers.content.index("left out here") == pytest.approx(MOST * 0.4, abs=100)
        assert "�" not in letters.content[: -MOST // 2]


def test_a_secret_at_the_cut_of_an_output_is_masked() -> None:
    redact = redactor(iter(["hunter2-hunter2-hunter2"]))
    for place in range(MOST * 2 // 5 - 30, MOST * 2 // 5 + 30):
        text = "x" * place + "hunter2-hunter2-hunter2" + "y" * MOST
        assert "hunter" not in fitted("", text, redact)
        assert "hunter" not in fitted(text[: MOST * 2], text, redact, total=10**6)


def test_a_secret_at_the_cut_of_an_output_is_masked_even_if_little_text_remains() -> None:
    """Progress bars are overwritten; the cleaned text is short, so that the cut would be shown."""
    secret, bar = "hunter2-hunter2-hunter2", "10%\r20%\r\x1b[31m"
    redact = redactor(iter([secret]))
    head, tail = "begun\n" + bar * 5_000 + "\n", "\n" + bar * 5_000 + "\nover"
    for size in range(1, len(secret)):
        told = fitted(head + secret[:size], secret[size:] + tail, redact, total=10**6)
        assert "hunter" not in told
        assert told.startswith("begun")
        assert told.endswith("over")
        assert "hunter" not in latest(secret[size:] + tail, 1000, redact)
    assert latest(f"key {secret}", 1000, redact) == "key ***"
    key = "-----BEGIN PRIVATE KEY-----\n" + "x" * 3_000 + "\n-----END PRIVATE KEY-----\n"
    assert "xx" not in latest(("y" * 10_000 + key)[-1000 - MARGIN :], 1000, redact)


def test_terminal_codes_are_removed_from_an_output() -> None:
    told = cleaned("\x1b]0;title\x07a\x1b[1;2Hb\x1b(Bc\x9b1md\x00\x08e\tf\r\n50%\r99%\n", lambda text: text)
    assert told == "abcde\tf\n99%\n"


@pytest.mark.parametrize("kind", sorted(KINDS | MORE))
async def test_terminal_leaves_no_process_of_a_command(bench: Bench, mine: str, kind: str) -> None:
    bench.stage.config = msgspec.structs.replace(bench.stage.config, approvals=ApprovalsConfig(mode="off"))
    async with bench.life():
        result = await bench.run((KINDS | MORE)[kind].format(t=mine), timeout=2)
        assert alive(mine) == []
        if "setsid" not in (KINDS | MORE)[kind] and kind != "ends before its children":
            assert "[exit code 124: it took longer than 2 s" in result.content
            assert result.is_error


async def test_terminal_returns_the_output_until_the_timeout(bench: Bench, mine: str) -> None:
    async with bench.life():
        result = await bench.run(f"echo begun; sleep {mine}", timeout=1)
        assert result.content.startswith("begun\n\n[exit code 124: it took longer than 1 s and was ended")


async def test_output_of_a_command_counts_as_activity_of_the_turn(bench: Bench) -> None:
    bench.stage.config = msgspec.structs.replace(bench.stage.config, agent=AgentConfig(gateway_timeout=4))
    async with bench.life():
        result = await bench.run("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i; sleep 0.5; done")
        assert "12\n\n[exit code 0]" in result.content


async def test_terminal_names_a_missing_workdir(bench: Bench) -> None:
    async with bench.life():
        result = await bench.run("pwd", workdir="nowhere")
        assert "cannot work in" in result.content
        assert "Choose a directory that exists" in result.content


@pytest.mark.parametrize(
    "command",
    [
        "sleep 5 &", "sleep 5 & ", "make; (sleep 5 &)", "nohup make", "setsid make", "make & disown",
        "/usr/bin/nohup make",
        "npm run dev", "cd web && npm start", "yarn dev", "python3 -m http.server 8000",
        "uvicorn app:app --reload",
        "python manage.py runserver", "flask --app x run", "docker compose up",
        "docker-compose -f x.yml up --build",
        "vite", "npx vite --port 3", "tail -f log", "tail -n 5 -f log", "jupyter lab", "redis-server",
        "PORT=1 npm run start",
        "next dev", "watch ls", "php -S localhost:1", "bundle exec rails s",
    ],
)  # fmt: skip
async def test_terminal_refuses_a_command_that_does_not_end_in_the_foreground(
    tmp_path: Path, command: str
) -> None:
    (terminal,) = Terminal().tools
    with pytest.raises(ToolFailed, match="background=true"):
        await desk_in(tmp_path).use(terminal, command=command)


@pytest.mark.parametrize(
    "command",
    [
        "sleep 0.1 & wait", "sleep 60 & echo $!", "echo 'npm start &'", "timeout 1 tail -f /dev/null",
        "echo a && echo b",
        "tail --help", "echo vite build", "tail -n 3 /dev/null", "python3 -m http.server --help",
        "tail -f /dev/null & sleep 0.1",
        "echo nohup",
    ],
)  # fmt: skip
async def test_terminal_accepts_a_command_that_ends_in_the_foreground(bench: Bench, command: str) -> None:
    async with bench.life():
        assert "[exit code" in (await bench.run(command, timeout=20)).content


async def test_terminal_refuses_a_timeout_of_more_than_ten_minutes(tmp_path: Path) -> None:
    (terminal,) = Terminal().tools
    with pytest.raises(ToolFailed, match="background=true"):
        await desk_in(tmp_path).use(terminal, command="ls", timeout=601)


@pytest.mark.parametrize("arguments", [{}, {"command": ""}, {"command": "ls", "timeout": 0}, {"command": 3}])
def test_wrong_arguments_of_terminal_are_refused(arguments: dict[str, object]) -> None:
    (terminal,) = Terminal().tools
    with pytest.raises(ToolFailed, match="arguments of terminal are wrong"):
        terminal.read(msgspec.json.encode(arguments).decode())


@pytest.mark.parametrize("bench", ["bubblewrap"], indirect=True)
async def test_a_command_begins_again_if_a_path_went_while_its_sandbox_was_set_up(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bubblewrap fails if a socket that it is to hide has gone. This one says so, as often as it is told."""
    failing = tmp_path / "bin" / "bwrap"
    failing.parent.mkdir()
    (told := tmp_path / "failures").mkdir()
    failing.write_text(
        f"""#!/bin/sh
set -- {told}/* "$@"
if [ -e "$1" ]; then rm "$1"; echo "bwrap: Can't mkdir parents for /a/b: Read-only" >&2; exit 1; fi
shift
PATH=${{PATH#*:}} exec bwrap "$@"
"""
    )
    failing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{failing.parent}:{os.environ['PATH']}")
    async with bench.life():
        (told / "1").touch()
        assert (await bench.run("echo ran >> ran; cat ran")).content == "ran\n\n[exit code 0]"
        (told / "1").touch()
        (told / "2").touch()
        assert "mkdir parents" in (await bench.run("echo ran >> ran")).content, "it is tried twice only"
    assert (tmp_path / "work" / "ran").read_text() == "ran\n"
