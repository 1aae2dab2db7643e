"""A command in a container or on another host behaves as a local one: output, exit code, directory, input. If
that place cannot be reached, it fails, and never runs here. No file tool speaks of another disk."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import trio

from hermes_trio import open_gateway
from hermes_trio.base.errors import ConfigInvalid, GatewayError
from hermes_trio.cli.sandbox_check import sandbox_findings
from hermes_trio.config.remote_section import DockerConfig, SshConfig
from hermes_trio.config.schema import ApprovalsConfig, TerminalConfig
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.testing.model_replies import Reply
from hermes_trio.tools.builtin.files import Files
from hermes_trio.tools.builtin.search import SEARCH
from hermes_trio.tools.builtin.send_file import SEND_FILE
from hermes_trio.tools.sandbox.available import choose
from hermes_trio.tools.sandbox.remote.remote_place import RemoteUnreachable
from tests.agent.agent_scene import open_scene
from tests.host.children.kinds import alive, soon, token
from tests.stage import Stage, everyone
from tests.tools.bench import Bench
from tests.tools.sandbox.remote.places import Place

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the supervisor needs /proc")

LAST = {"process_id": "last"}
TMP = "/tmp"  # noqa: S108 - of the other place
NOWHERE = TerminalConfig(sandbox="ssh", ssh=SshConfig(host="nowhere.invalid"))


def background(command: str, **more: object) -> dict[str, object]:
    return {"command": command, "background": True, **more}


@pytest.fixture
def mine() -> Iterator[str]:
    """A number that all processes of the test carry; none of them may be left after it."""
    yield (number := token())
    soon(lambda: not alive(number))


def bench_with(stage: Stage, terminal: TerminalConfig, mode: str = "off") -> Bench:
    approvals = ApprovalsConfig(mode="off" if mode == "off" else "ask", timeout=0.2)
    stage.config = msgspec.structs.replace(everyone(), terminal=terminal, approvals=approvals)
    return Bench(stage)


@pytest.fixture
def bench(real_stage: Stage, place: Place) -> Bench:
    """A gateway whose commands run in one of the places."""
    return bench_with(real_stage, msgspec.structs.replace(place.terminal, cwd=TMP))


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo hello", "hello\n\n[exit code 0]"),
        ("echo out; echo err >&2; echo out; exit 3", "out\nerr\nout\n\n[exit code 3]"),
        ("true", "[exit code 0]"),
        ("exit 255", "[exit code 255]"),
        ("no_such_command_here 2>/dev/null", "[exit code 127: there is no such command]"),
        ("kill -KILL $$", "[exit code 137: it was killed, perhaps because memory ran out]"),
        ("cat", "[exit code 0]"),
        ("printf '%s' 'a b\\c'; echo '$HOME \"é\"'", 'a b\\c$HOME "é"\n\n[exit code 0]'),
        ("echo key is sk-abcdefghijklmnop1234", "key is ***\n\n[exit code 0]"),
    ],
)
async def test_terminal_returns_output_and_exit_code_from_elsewhere(
    bench: Bench, command: str, told: str
) -> None:
    async with bench.life():
        assert (await bench.run(command)).content == told


async def test_terminal_keeps_the_directory_of_the_last_cd_elsewhere(bench: Bench) -> None:
    async with bench.life():
        made, where = await bench.do(
            {"command": f"cd {TMP} && mkdir -p 'hermes a' && cd 'hermes a'; exit 4"}, {"command": "pwd"}
        )
        assert made.content == f"[exit code 4; now in {TMP}/hermes a]"
        assert where.content.startswith(f"{TMP}/hermes a\n")
        assert (await bench.run("pwd", workdir="..")).content.startswith(f"{TMP}\n")
        assert (await bench.run("pwd", workdir=TMP)).content.startswith(f"{TMP}\n")
        await bench.run(f"rm -r '{TMP}/hermes a'", workdir="/")


async def test_the_note_of_the_last_directory_is_removed_over_there(bench: Bench) -> None:
    async with bench.life():
        noted, checked = await bench.do({"command": 'echo "$HERMES_TRIO_DIRECTORY"'}, {"command": "true"})
        name = noted.content.partition("\n")[0]
        assert name.startswith(f"{TMP}/")
        assert checked.content == "[exit code 0]"
        assert (await bench.run(f"ls {name}; true")).content.count("No such file") == 1


async def test_the_work_directory_is_one_over_there(real_stage: Stage, place: Place) -> None:
    at_home = '[ "$(pwd -P)" = "$(cd && pwd -P)" ] && echo at home'
    for cwd, command, told in ((None, at_home, "at home\n"), (f"/usr/..{TMP}", "pwd -P", f"{TMP}\n")):
        bench = bench_with(real_stage, msgspec.structs.replace(place.terminal, cwd=cwd))
        async with bench.life():
            assert (await bench.run(command)).content.startswith(told)


async def test_a_missing_directory_over_there_is_an_error_of_its_own(bench: Bench) -> None:
    async with bench.life():
        missing = await bench.run("echo ran", workdir="/no/such/directory")
        assert missing.is_error
        assert "cannot work in /no/such/directory in the " in missing.content
        assert "Choose a directory that exists there" in missing.content


async def test_a_command_elsewhere_gets_its_own_environment_and_what_is_passed_on(
    real_stage: Stage, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GREETING", "hello\n it's  'me' \\0101")
    monkeypatch.setenv("TOKEN_OF_MINE", "not passed on")
    monkeypatch.setenv("VIRTUAL_ENV", "/only/here")
    bench = bench_with(
        real_stage, msgspec.structs.replace(place.terminal, env_passthrough=("GREETING",), cwd=TMP)
    )
    async with bench.life():
        told = await bench.run('printf "<%s>" "$GREETING" "$TOKEN_OF_MINE$VIRTUAL_ENV$HERMES_HOME"')
        assert told.content == "<hello\n it's  'me' \\0101><>\n[exit code 0]"


async def test_what_a_command_leaves_running_elsewhere_ends_with_it(bench: Bench, mine: str) -> None:
    async with bench.life():
        left = await bench.run(f"(sleep {mine} &); sleep {mine} & echo started")
        assert left.content.startswith("started\n")
        assert alive(mine) == []


async def test_a_command_elsewhere_that_takes_too_long_is_ended_and_keeps_its_output(
    bench: Bench, mine: str
) -> None:
    async with bench.life():
        told = await bench.run(f"echo begun; trap 'echo bye; exit' TERM; sleep {mine} & wait", timeout=1)
        assert told.is_error
        assert told.content.startswith("begun\nbye\n")
        assert "[exit code 124:" in told.content
        assert alive(mine) == []


async def test_a_large_output_from_elsewhere_comes_whole(bench: Bench) -> None:
    async with bench.life():
        line = "line-$i-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        counted = f"i=0; while [ $i -lt 20000 ]; do echo {line}; i=$((i+1)); done"
        started, waited = await bench.do(background(counted), {"action": "wait", **LAST})
        assert "ended with exit code 0" in waited.content
        log = (await bench.do({"action": "log", **LAST, "offset": 19_999, "limit": 5}))[0]
        assert "(lines 19999 to 20000 of 20000)" in log.content
        assert "line-19999-" in log.content
        assert started.content.startswith("Started proc_")


async def test_a_background_process_elsewhere_takes_input_until_it_ends(bench: Bench) -> None:
    async with bench.life():
        results = await bench.do(
            background("cat; echo over"),
            {"action": "list"},
            {"action": "submit", **LAST, "data": "one 'é' \\n"},
            {"action": "write", **LAST, "data": "tw"},
            {"action": "write", **LAST, "data": "o\n"},
            {"action": "close", **LAST},
            {"action": "wait", **LAST},
            {"action": "submit", **LAST, "data": "late"},
        )
        assert results[-2].content.endswith("one 'é' \\n\ntwo\nover")
        assert "ended with exit code 0" in results[-2].content
        assert "takes no more input" in results[-1].content
        assert "pid" not in results[0].content + results[1].content, "a number that means nothing over there"


async def test_input_for_a_process_elsewhere_that_does_not_read_fails_in_time(
    bench: Bench, mine: str
) -> None:
    async with bench.life():
        _, given, killed = await bench.do(
            background(f"exec sleep {mine}"),
            {"action": "write", **LAST, "data": "x" * 300_000},
            {"action": "kill", **LAST},
        )
        assert "does not read its input" in given.content
        assert ": ended " in killed.content
        assert alive(mine) == []


async def test_a_process_elsewhere_that_has_closed_its_input_takes_no_more(bench: Bench, mine: str) -> None:
    async with bench.life():
        await bench.do(background(f"exec <&-; echo closed; exec sleep {mine}"))
        for _ in range(50):
            (given,) = await bench.do({"action": "submit", **LAST, "data": "x"})
            if given.is_error:
                break
        assert "takes no more input" in given.content
        await bench.do({"action": "kill", **LAST})


async def test_doctor_and_the_start_say_where_commands_run(
    real_stage: Stage, place: Place, tmp_path: Path
) -> None:
    config = msgspec.structs.replace(everyone(), terminal=place.terminal)
    (found,) = await trio.to_thread.run_sync(lambda: list(sandbox_findings(tmp_path, config)))
    assert (found.level, found.text) == ("ok", f"commands run in {place.name}, in ~")
    async with bench_with(real_stage, place.terminal).life() as gateway:
        available = gateway.work.background.commands.available
        assert (available.remote is not None and available.remote.name, available.trouble) == (
            place.name,
            None,
        )


# A place that cannot be reached.


def missing_places(tmp_path: Path) -> list[TerminalConfig]:
    none = DockerConfig(container="nothing", program=str(tmp_path / "no-engine"))
    return [NOWHERE, TerminalConfig(sandbox="docker", docker=none)]


@pytest.mark.parametrize("number", [0, 1])
async def test_a_command_fails_with_a_typed_error_and_never_runs_here(
    real_stage: Stage, tmp_path: Path, number: int
) -> None:
    terminal = missing_places(tmp_path)[number]
    mark, errors = tmp_path / "ran", list[Exception]()

    async def agent(turn: TurnContext) -> str:
        try:
            async with turn.running(f"touch {mark}", cwd=tmp_path) as process:
                await process.wait()
        except RemoteUnreachable as error:
            errors.append(error)
        try:
            await turn.start_background(f"touch {mark}", cwd=tmp_path)
        except RemoteUnreachable as error:
            errors.append(error)
        return "Tried."

    config = msgspec.structs.replace(everyone(), terminal=terminal)
    async with open_gateway(real_stage.home, config, agent=agent, adapters=[real_stage.platform]):
        await real_stage.platform.says("work")
        with trio.fail_after(60):
            await real_stage.platform.until(lambda: real_stage.platform.chat("42").last == "Tried.")
    assert len(errors) == 2
    assert "cannot be reached (" in str(errors[0])
    assert not mark.exists()


@pytest.mark.parametrize("number", [0, 1])
def test_doctor_names_a_place_that_cannot_be_reached_and_the_remedy(tmp_path: Path, number: int) -> None:
    config = msgspec.structs.replace(everyone(), terminal=missing_places(tmp_path)[number])
    (found,) = sandbox_findings(tmp_path, config)
    assert found.level == "problem"
    assert "cannot be reached (" in found.text
    assert "true`" in (found.remedy or "")


@pytest.mark.parametrize("kind", ["docker", "ssh"])
def test_a_place_without_a_name_is_a_mistake_of_the_configuration(kind: str) -> None:
    with pytest.raises(ConfigInvalid, match=rf"terminal\.{kind}\.\w+: no \w+ is named"):
        choose(TerminalConfig(sandbox=msgspec.convert(kind, type=type(NOWHERE.sandbox))))


def test_a_host_cannot_be_an_option_of_ssh() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"host": "-oProxyCommand=id"}, type=SshConfig)


# Files and grants.


async def test_the_model_gets_no_file_tools_and_they_refuse_to_work(host: Place, tmp_path: Path) -> None:
    files = [tool.name for tool in Files().tools] + [SEARCH.name, SEND_FILE.name]
    async with open_scene(tmp_path, tools=None, terminal=host.terminal) as told:
        told.server.answers(Reply().says("Hello."))
        await told.says("hello", until="Hello.")
        (asked,) = told.server.requests
        offered = {tool["function"]["name"] for tool in asked.body.get("tools", [])}
        assert not offered & set(files)


@pytest.mark.parametrize("number", range(5))
async def test_a_file_tool_that_is_called_all_the_same_names_the_reason(
    real_stage: Stage, host: Place, tmp_path: Path, number: int
) -> None:
    (tmp_path / "here.txt").write_text("of this machine")
    tool = [*Files().tools, SEARCH, SEND_FILE][number]
    given = {
        "read_file": {"path": f"{tmp_path}/here.txt"},
        "write_file": {"path": f"{tmp_path}/here.txt", "content": "x"},
        "patch": {"path": f"{tmp_path}/here.txt", "edits": [{"old_string": "of", "new_string": "x"}]},
        "search_files": {"pattern": "machine", "path": str(tmp_path)},
        "send_file": {"path": f"{tmp_path}/here.txt"},
    }[tool.name]
    told = list[Exception]()

    async def agent(turn: TurnContext) -> str:
        try:
            await tool.run(tool.read(json.dumps(given)), turn)
        except GatewayError as error:
            told.append(error)
        return "Tried."

    config = msgspec.structs.replace(everyone(), terminal=host.terminal)
    async with open_gateway(real_stage.home, config, agent=agent, adapters=[real_stage.platform]):
        await real_stage.platform.says("work")
        with trio.fail_after(60):
            await real_stage.platform.until(lambda: real_stage.platform.chat("42").last == "Tried.")
    assert "is in the host box, where only commands reach it. Use the tool terminal." in str(told[0])
    assert (tmp_path / "here.txt").read_text() == "of this machine"


async def test_a_command_on_a_host_is_judged_and_one_in_a_container_is_not(
    real_stage: Stage, place: Place
) -> None:
    bench = bench_with(real_stage, place.terminal, mode="ask")
    async with bench.life():
        told = await bench.run("rm -rf ~/.ssh/hermes-none", needs=["network"])
        assert told.is_error is (place.terminal.sandbox == "ssh")
