"""The command line as a person uses it: its output, its streams and its exit codes."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hermes_trio import __version__
from hermes_trio.cli import main
from hermes_trio.config.config_file import load_config

Cli = Callable[..., Result]

ROOT = Path(__file__).parents[2]
SECRET = "hunter2-hunter2"
FULL = f"""
model: {{provider: openai, name: gpt-x, api_key: {SECRET}, base_url: "https://me:{SECRET}@host/v1"}}
agent: {{max_turns: 7, restart_drain_timeout: 2.5, crash_recovery: suspend, gateway_timeout: 1800}}
approvals: {{mode: off}}
terminal: {{env_passthrough: [A, "B C"]}}
reset_by_type: {{group: {{mode: daily}}}}
web: {{host: "::1", key: {SECRET}}}
platforms:
  telegram:
    token: {SECRET}
    allow_from: [42, +4912]
    home_channel: {{chat_id: -100, thread_id: 7, name: Ops}}
    app_secret: {SECRET}
    poll: {{every: 30, key: {SECRET}}}
  matrix: {{enabled: false, allow_from: all}}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def cli(home: Path) -> Cli:
    """Return a function that runs a command for a home in this process."""

    def run(*arguments: str, config: str | None = None) -> Result:
        if config is not None:
            (home / "config.yaml").write_text(config, encoding="utf-8")
        environ = {"HERMES_HOME": str(home), "OPENAI_API_KEY": None, "ANTHROPIC_API_KEY": None}
        return CliRunner().invoke(main, arguments, env=environ)

    return run


def program(
    *arguments: str, environ: Mapping[str, str], stdout: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """Run a command as a separate program, as a shell does."""
    keep = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "hermes_trio", *arguments],
        cwd=ROOT,
        env={**keep, **environ},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=30,
    )


def test_help_names_every_command_with_its_effect(cli: Cli) -> None:
    for result in (cli("--help"), cli("-h")):
        assert result.exit_code == 0
        assert re.search("run +Run the gateway.", result.stdout)
        assert re.search("config +Print the configuration, and check it.", result.stdout)


@pytest.mark.parametrize("name", ["run", "config"])
def test_the_help_of_a_command_contains_its_line_in_the_list(cli: Cli, name: str) -> None:
    (line,) = (line for line in cli("--help").stdout.splitlines() if line.split()[:1] == [name])
    assert line.strip().removeprefix(name).strip() in cli(name, "--help").stdout


def command_lines_in_pages() -> list[list[str]]:
    """Return each of our command lines in the pages, as a list of words."""
    files = (ROOT / "README.md", *ROOT.glob("platforms/*.md"), *sorted(ROOT.glob("docs/**/*.md")))
    pages = "\n".join(path.read_text("utf-8") for path in files)
    lines = re.findall(r"hermes-trio ((?:[a-z][\w-]*|--[\w-]+)[^`\n#;,.]*)", pages)
    found = dict.fromkeys(tuple(line.split()) for line in lines)
    return [list(words) for words in found if words[0] in main.list_commands(click.Context(main))]


@pytest.mark.parametrize("words", command_lines_in_pages(), ids=" ".join)
def test_every_command_and_option_in_the_pages_exists(words: list[str]) -> None:
    context, command = click.Context(main), main.get_command(click.Context(main), words[0])
    assert command is not None
    for word in words[1:]:
        if isinstance(command, click.Group) and not word.startswith("-"):
            command = command.get_command(context, word)
            assert command is not None, word
        elif word.strip("[]").startswith("--"):
            options = {option for parameter in command.params for option in parameter.opts}
            assert word.strip("[]") in options


def test_the_version_is_printed(cli: Cli) -> None:
    assert cli("--version").stdout == f"hermes-trio {__version__}\n"


def test_an_unknown_command_is_a_usage_error(cli: Cli) -> None:
    result = cli("fly")
    assert result.exit_code == 2
    assert "No such command 'fly'" in result.stderr


@pytest.mark.parametrize("command", ["run", "config show", "config show --json", "config check"])
def test_a_bad_configuration_ends_with_78_and_one_line(home: Path, command: str) -> None:
    (home / "config.yaml").write_text("agent: {max_turns: many}")
    result = program(*command.split(), environ={"HERMES_HOME": str(home)})
    assert result.returncode == 78
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: agent.max_turns: 'many' is not a whole number")
    assert line.endswith("default, 90.")


@pytest.mark.parametrize("command", [["run"], ["config", "check"], ["config", "show"]])
def test_every_mistake_of_a_configuration_has_its_own_line(cli: Cli, command: list[str]) -> None:
    result = cli(*command, config="agent: {max_turns: many}\nplatforms: {x: {alow_from: []}}\nmodel: [a]")
    assert result.exit_code == 78
    lines = result.stderr.splitlines()
    assert {line.split(": ")[1] for line in lines} == {"agent.max_turns", "platforms.x.alow_from", "model"}
    assert all(line.startswith("error: ") for line in lines)


def test_the_mistakes_of_all_platforms_are_reported_at_once(cli: Cli) -> None:
    result = cli("run", config="platforms: {telegram: {}, parrot: {}}")
    assert result.exit_code == 78
    assert "platforms.telegram.token: " in result.stderr
    assert "platforms.parrot: no such platform is installed" in result.stderr


def test_the_mistakes_of_the_file_and_of_the_platforms_are_reported_at_once(cli: Cli) -> None:
    config = "agent: {max_turns: many}\nplatforms: {telegram: {token: x}, loopbak: {}, o: {alow_from: []}}"
    for command in (["run"], ["config", "check"]):
        result = cli(*command, config=config)
        assert result.exit_code == 78
        assert {line.split(": ")[1] for line in result.stderr.splitlines()} == {
            "agent.max_turns",
            "platforms.telegram.token",
            "platforms.loopbak",
            "platforms.o.alow_from",
        }


# Pieces of broken files, as people, editors and programs write them.
PIECES = st.sampled_from(
    [*"\n\t\r\0 :-[]{}&*!|>'\"#?,~", "\n  ", ": ", "- ", "a", "agent", "max_turns", "platforms", "telegram",
     "allow_from", "security", "tirith_enabled", "mcp_servers", "tools", "include", "terminal", "backend",
     "docker", "web", "port", "extra", "&x ", "*x", "<<: *x", "<<", "!!python/object:os.system ", "!!binary ",
     "%YAML 1.1\n---\n", "---\n", "99999999999999999999", "1e999", "0x" + "f" * 40, "true", "${A}", "${",
     "[" * 50, "é", "\ufeff", "\u2028", "x" * 300]
)  # fmt: skip


@given(content=st.lists(PIECES, max_size=25).map("".join))
@example(content="a: &x {b: 1}\nagent: {<<: *x}")
@example(content="agent: {max_turns: 1}\nagent: {max_turns: 2}")
@example(content="agent:\n\tmax_turns: 1")
@example(content="agent: {max_turns: \0}")
@example(content="platforms: {telegram: {extra: {allow_from: [[[[1]]]]}}}")
@example(content="mcp_servers: {a: {tools: [include]}}")
@example(content="security: [tirith_enabled]")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=150)
def test_any_file_passes_the_check_or_ends_with_78_and_no_traceback(cli: Cli, content: str) -> None:
    result = cli("config", "check", config=content)
    assert result.exit_code in (0, 78)
    assert isinstance(result.exception, SystemExit | None)
    for line in result.stderr.splitlines() if result.exit_code == 78 else []:
        assert re.match(r"error: [^:]+: \S", line)


def test_a_bad_home_ends_with_78(home: Path) -> None:
    result = program("config", "path", environ={"HERMES_HOME": "relative"})
    assert (result.returncode, result.stdout) == (78, "")
    assert result.stderr.startswith("error: HERMES_HOME: 'relative' depends on the directory")


def test_path_prints_the_path_of_the_file_even_if_it_is_missing(cli: Cli, home: Path) -> None:
    assert cli("config", "path").stdout == f"{home / 'config.yaml'}\n"


def test_path_works_for_a_broken_file(cli: Cli, home: Path) -> None:
    assert cli("config", "path", config="{").stdout == f"{home / 'config.yaml'}\n"


def test_check_prints_ok(cli: Cli, home: Path) -> None:
    assert cli("config", "check").stdout == (
        f"ok: {home / 'config.yaml'} does not exist, so every key has its default\n"
    )
    assert cli("config", "check", config="agent: {max_turns: 5}").stdout == f"ok: {home / 'config.yaml'}\n"


def test_check_prints_warnings(cli: Cli) -> None:
    result = cli("config", "check", config="agent: {max_turn: 5}")
    warning, ok = result.stdout.splitlines()
    assert warning == "warning: agent.max_turn is an unknown key; did you mean agent.max_turns?"
    assert ok.startswith("ok: ")
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("platforms: {loopbak: {allow_from: all}}", "Did you mean loopback?"),
        ("platforms: {loopback: {allow_from: all}}", "platforms.loopback"),
    ],
)
def test_check_includes_the_platforms(cli: Cli, config: str, said: str) -> None:
    """`check` refuses what `run` refuses: a platform that is not installed, and keys that its adapter
    rejects."""
    for command in (["config", "check"], ["run"]):
        result = cli(*command, config=config)
        assert result.exit_code == 78
        assert said in result.stderr


def test_run_and_show_print_warnings_to_standard_error(cli: Cli) -> None:
    for command in (["run"], ["config", "show"]):
        result = cli(*command, config="agent: {max_turn: 5}\nplatforms: {loopbak: {allow_from: all}}")
        assert result.stderr.startswith(
            "warning: agent.max_turn is an unknown key; did you mean agent.max_turns?\n"
        )
        assert "max_turn:" not in result.stdout


def test_run_refuses_a_platform_that_is_not_installed(cli: Cli) -> None:
    result = cli("run", config="platforms: {loopbak: {allow_from: all}}")
    assert result.exit_code == 78
    assert "platforms.loopbak" in result.stderr
    assert "Did you mean loopback?" in result.stderr


def test_show_explains_each_key_and_marks_changed_values(cli: Cli) -> None:
    shown = cli("config", "show", config=FULL).stdout
    for lines in (
        "  # Model requests in one turn; after the last one the model has to answer.\n"
        "  # A whole number from 1 to 1,000,000,000; default: 90.\n"
        "  max_turns: 7  # changed by config.yaml\n",
        "  # Resume or suspend the turns that were cut by a crash.\n"
        "  # One of resume, suspend; default: resume.\n"
        "  crash_recovery: suspend  # changed by config.yaml\n",
        "  # Hour of the daily reset, in local time.\n"
        "  # A whole number from 0 to 23; default: 4.\n"
        "  at_hour: 4\n",
        "  # Text; default: left out.\n  cwd: null\n",
        "  gateway_timeout: 1800  # set by config.yaml, to the default\n",
        "    # A list of ids such as [42, 43], or the word all without brackets; default: [].\n"
        '    allow_from: ["42", "+4912"]  # changed by config.yaml\n',
        '    home_channel: {chat_id: "-100", thread_id: "7", name: Ops}  # changed',
        '    # Own keys of this platform.\n    app_secret: "***"\n    poll: {every: 30, key: "***"}\n',
    ):
        assert lines in shown


def test_show_names_the_variable_that_changed_a_value(home: Path) -> None:
    result = program("config", "show", environ={"HERMES_HOME": str(home), "ANTHROPIC_API_KEY": SECRET})
    assert "  provider: anthropic  # changed by ANTHROPIC_API_KEY\n" in result.stdout
    assert '  api_key: "***"  # changed by ANTHROPIC_API_KEY\n' in result.stdout


def test_no_command_shows_a_secret(cli: Cli) -> None:
    assert SECRET not in cli("run", config=FULL).output
    for command in (["config", "show"], ["config", "show", "--json"], ["config", "check"]):
        assert SECRET not in cli(*command, config=FULL).output


def test_show_as_json_has_the_structure_of_the_file(cli: Cli, home: Path) -> None:
    report = json.loads(cli("config", "show", "--json", config=FULL + "agents: {}\n").stdout)
    assert report["path"] == str(home / "config.yaml")
    assert report["warnings"] == ["agents is an unknown key; did you mean agent?"]
    assert report["set"]["agent.max_turns"] == "config.yaml"
    assert report["config"]["agent"]["max_turns"] == 7
    assert report["config"]["platforms"]["telegram"] == {
        "enabled": True,
        "token": "***",
        "base_url": None,
        "home_channel": {"chat_id": "-100", "thread_id": "7", "name": "Ops"},
        "allow_from": ["42", "+4912"],
        "allow_admin_from": [],
        "unauthorized_dm_behavior": None,
        "require_mention": True,
        "gateway_restart_notification": True,
        "app_secret": "***",
        "poll": {"every": 30, "key": "***"},
    }


def test_the_output_of_show_is_an_equal_configuration(cli: Cli, home: Path) -> None:
    plain = FULL.replace(SECRET, "***").replace(": ***", ': "***"').replace("me:***@", "***@")
    shown = cli("config", "show", config=plain).stdout
    before = load_config(home, {})
    (home / "config.yaml").write_text(shown, encoding="utf-8")
    assert load_config(home, {}).config == before.config


# All characters except `$`, which begins a variable, and those that YAML or UTF-8 cannot hold.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="$\0", max_codepoint=0xFFFF), max_size=20
)


@given(text=TEXTS)
@example(text="null")
@example(text="True")
@example(text="\x9b2J")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=50)
def test_any_text_is_shown_without_control_characters_and_reads_back(cli: Cli, home: Path, text: str) -> None:
    shown = cli("config", "show", config=json.dumps({"terminal": {"cwd": text}})).stdout
    assert all(line.isprintable() for line in shown.split("\n"))
    (home / "config.yaml").write_text(shown, encoding="utf-8")
    assert load_config(home, {}).config.terminal.cwd == text


def test_a_terminal_with_few_characters_gets_escapes(home: Path) -> None:
    result = program("config", "show", environ={"HERMES_HOME": str(home), "PYTHONIOENCODING": "latin-1"})
    assert (result.returncode, result.stderr) == (0, "")
    assert r'cursor: " \u2589"' in result.stdout


@pytest.mark.parametrize("command", ["sessions show", "sessions list --search", "pairing revoke x", "doctor"])
def test_an_argument_that_is_no_text_is_a_usage_error(cli: Cli, home: Path, command: str) -> None:
    sqlite3.connect(home / "gateway.db").close()
    result = cli(*command.split(), os.fsdecode(b"caf\xe9"))
    assert result.exit_code == 2
    assert result.stderr.endswith("Error: 'caf\\udce9' is not valid UTF-8.\n")


def test_a_closed_output_causes_no_traceback(home: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        result = program("config", "show", environ={"HERMES_HOME": str(home)}, stdout=write_end)
    finally:
        os.close(write_end)
    assert result.stderr == ""


REFUSED = [
    ("web: {host: 0.0.0.0}", "web.key: web.host 0.0.0.0 is reached from other machines"),
    ("web: {host: 0.0.0.0, key: short}", "there is no key of at least 16 characters"),
    ("model: {base_url: localhost}", "model.base_url: it is no address of a server"),
    ("model: {api_key: 'a b'}", "model.api_key: it has characters that no key has"),
    (
        "model: {base_url: 'http://127.0.0.1:9/v1', fallback: {name: x, base_url: example}}",
        "model.fallback.base_url: it is no address of a server",
    ),
]


@pytest.mark.parametrize(("config", "words"), REFUSED)
def test_check_and_run_refuse_with_the_same_message(home: Path, config: str, words: str) -> None:
    (home / "config.yaml").write_text(config)
    environ = {"HERMES_HOME": str(home)}
    check, run = program("config", "check", environ=environ), program("run", environ=environ)
    assert (check.returncode, run.returncode) == (78, 78)
    assert words in check.stderr
    assert check.stderr == run.stderr
    assert check.stdout == ""


def test_check_reports_all_mistakes_at_once(home: Path) -> None:
    (home / "config.yaml").write_text(
        "web: {host: 0.0.0.0}\nmodel: {base_url: localhost, api_key: 'a b'}\n"
        "platforms: {telegran: {token: x}, loopback: {port: none}}\n"
    )
    errors = program("config", "check", environ={"HERMES_HOME": str(home)}).stderr
    keys = [line.split(": ")[1] for line in errors.splitlines()]
    assert keys == [
        "platforms.telegran", "platforms.loopback.port", "web.key", "model.base_url", "model.api_key"
    ]  # fmt: skip
