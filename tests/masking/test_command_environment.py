"""A command of the agent gets a short list of our variables, and those that the configuration names."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from hermes_trio.config.schema import TerminalConfig
from hermes_trio.masking.command_environment import command_environment
from hermes_trio.testing.model_replies import Reply
from hermes_trio.tools.all_tools import toolbox
from tests.agent.agent_scene import open_scene

USUAL = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/kim",
    "USER": "kim",
    "LANG": "en_GB.UTF-8",
    "LC_TIME": "de_DE.UTF-8",
    "TERM": "xterm-256color",
    "TZ": "Europe/Berlin",
    "TMPDIR": "/home/kim/tmp",
    "XDG_CACHE_HOME": "/home/kim/.cache",
    "VIRTUAL_ENV": "/home/kim/venv",
    "HTTPS_PROXY": "http://proxy.example.org:3128",
    "no_proxy": "localhost,.example.org",
}
LEFT_OUT = {
    "OPENAI_API_KEY": "x",
    "DATABASE_URL": "postgres://db/x",
    "PGSERVICE": "x",
    "SSH_AUTH_SOCK": "/run/agent.sock",
    "XDG_RUNTIME_DIR": "/run/user/1000",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/1000/bus",
    "DOCKER_HOST": "unix:///run/docker.sock",
    "DISPLAY": ":0",
    "LD_PRELOAD": "/x.so",
    "BASH_ENV": "/x",
    "LC_all": "x",
    "INNOCENT": "x",
    "http_proxy": "http://kim:hunter2@proxy:3128",
    "PIP_INDEX_URL": "https://__token__:hunter2x@example.org/simple",
}


def test_a_command_gets_the_usual_variables_and_no_other() -> None:
    assert command_environment(USUAL | LEFT_OUT) == USUAL


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_variable_that_the_configuration_names_is_passed_on(name: str) -> None:
    assert command_environment(LEFT_OUT, [name]) == {name: LEFT_OUT[name]}


@pytest.mark.skipif(os.name != "posix", reason="the command is written for a shell of POSIX")
async def test_commands_and_searches_of_the_agent_run_without_our_other_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LIBRARY_CARD", "LET_THROUGH"):
        monkeypatch.setenv(name, "of-ours-4711")
    shows = f"{sys.executable} -c 'import json, os; print(json.dumps(sorted(os.environ)))'"
    terminal = TerminalConfig(env_passthrough=("LET_THROUGH",))
    async with open_scene(tmp_path / "home", tools=toolbox(), terminal=terminal) as told:
        told.server.answers(Reply().calls("terminal", {"command": shows}), Reply().says("Done."))
        await told.says("look", until="Done.")
        (result,) = [row.content for row in await told.rows() if row.role == "tool"]
    names = set(json.loads(result.splitlines()[0]))
    assert {"PATH", "LET_THROUGH", "HERMES_TRIO_GROUP"} <= names
    assert "LIBRARY_CARD" not in names
