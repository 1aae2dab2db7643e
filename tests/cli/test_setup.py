"""`hermes-trio setup`: the written files are valid and private, and keep their other content."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from hermes_trio.cli import main
from hermes_trio.config.config_file import load_config
from hermes_trio.host.home.home_lock import locked_home
from hermes_trio.testing.model_server import open_model_server

Cli = Callable[..., Result]
KEY = "sk-hunter2-hunter2"
MINE = """\
# My gateway.
agent:
    max_turns: 7   # seven is enough

terminal:
    env_passthrough:
      - A   # for the build
      - "B"
model:  # the one that thinks
    default: old-model
"""

PLATFORM = """
from hermes_trio.platform.setup_questions import Question

def number(text):
    if not text.isdecimal():
        raise ValueError("A number: count them.")
    return text

QUESTIONS = [
    Question(key="token", ask="Token", help="Ask the parrots' father for it.", variable="PARROT_TOKEN"),
    Question(key="perches", ask="How many perches", default="2", check=number),
]
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def cli(home: Path) -> Cli:
    def run(*arguments: str, said: str | None = None, **environ: str) -> Result:
        keys = {
            "OPENAI_API_KEY": None,
            "ANTHROPIC_API_KEY": None,
            "PARROT_TOKEN": None,
            "HERMES_HOME": str(home),
        }
        return CliRunner().invoke(main, ["setup", *arguments], env={**keys, **environ}, input=said)

    return run


@pytest.fixture
def parrots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with a platform that can be set up."""
    site = tmp_path / "site"
    info = site / "parrots-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "parrots.py").write_text(PLATFORM)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parrots\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hermes_trio.setup]\nparrot = parrots:QUESTIONS\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "parrots", raising=False)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_default_answers_set_up_the_demo_in_the_terminal(cli: Cli, home: Path) -> None:
    result = cli("--no-check", said="\n\n")
    assert result.exit_code == 0
    assert f"Written: {home / 'config.yaml'}\nNext: `hermes-trio chat` here, or" in result.stdout
    assert load_config(home, {}).config.model.provider == "demo"
    assert (mode(home), mode(home / "config.yaml")) == (0o700, 0o600)
    assert not (home / ".env").exists()


def test_a_typed_key_is_stored_in_dotenv_and_never_shown(cli: Cli, home: Path) -> None:
    result = cli("--no-check", said=f"anthropic\n\n{KEY}\nnone\n\n")
    assert result.exit_code == 0
    assert KEY not in result.output
    assert (home / ".env").read_text() == f"ANTHROPIC_API_KEY='{KEY}'\n"
    assert mode(home / ".env") == 0o600
    assert KEY not in (home / "config.yaml").read_text()
    model = load_config(home, {}).config.model
    assert (model.provider, model.api_key) == ("anthropic", KEY)


def test_a_key_of_the_environment_is_stored_in_dotenv(cli: Cli, home: Path) -> None:
    result = cli("--non-interactive", "--model", "openai", OPENAI_API_KEY=KEY)
    assert result.exit_code == 0
    assert KEY not in result.output
    assert load_config(home, {}).config.model.api_key == KEY


def test_a_local_model_server_needs_no_key(cli: Cli, home: Path) -> None:
    url = "http://localhost:11434/v1"
    result = cli("--non-interactive", "--model", "openai", "--base-url", url + "/", "--model-name", "m-1")
    assert result.exit_code == 0
    model = load_config(home, {}).config.model
    assert (model.provider, model.base_url, model.name, model.api_key) == ("openai", url, "m-1", None)
    assert not (home / ".env").exists()


async def test_the_models_of_a_server_are_listed_before_one_is_chosen(cli: Cli, home: Path) -> None:
    async with open_model_server(models=("text-embedding-3", "gpt-9", "gpt-9-mini")) as server:
        answers = f"openai\n{server.openai_url}\n\n{KEY}\ngpt-9-mini\n\n"
        result = await trio.to_thread.run_sync(lambda: cli(said=answers, OLLAMA_HOST="127.0.0.1:9"))
        keys = {one.headers.get("authorization") for one in server.lists}
    assert result.exit_code == 0, result.output
    assert "The server has gpt-9, gpt-9-mini.\nName of the model" in result.stdout
    assert keys == {f"Bearer {KEY}"}
    assert load_config(home, {}).config.model.name == "gpt-9-mini"


async def test_a_model_server_on_this_machine_is_offered(cli: Cli, home: Path) -> None:
    async with open_model_server(models=("llama-9",)) as server:
        host = f"127.0.0.1:{server.port}"
        result = await trio.to_thread.run_sync(lambda: cli(said="\n" * 6, OLLAMA_HOST=host))
    assert result.exit_code == 0, result.output
    assert f"Found Ollama at {server.openai_url}. It has llama-9." in result.stdout
    model = load_config(home, {}).config.model
    assert (model.provider, model.base_url, model.name) == ("openai", server.openai_url, "llama-9")


def test_a_server_without_a_list_is_no_obstacle(cli: Cli, home: Path) -> None:
    result = cli(said="openai\nhttp://127.0.0.1:9/v1\n\n\nm-1\n\n", OLLAMA_HOST="127.0.0.1:9")
    assert result.exit_code == 0, result.output
    assert "gives no list of its models" in result.stdout
    assert load_config(home, {}).config.model.name == "m-1"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--model", "openai"],
            "OPENAI_API_KEY: missing. It is needed: type it at the prompt, or set OPENAI_API_KEY",
        ),
        (["--model", "openai", "--base-url", "localhost"], "--base-url: not usable. Write the whole address"),
        (
            ["--model", "openai", "--base-url", "http://[::1"],
            "--base-url: not usable. Write the whole address",
        ),
        (["--model", "openai", "--base-url", f"http://me:{KEY}@h/v1"], "without name and password"),
        (["--model", "openai", "--key-env", KEY], "--key-env: not usable. Write the name of a variable"),
        (["--model", "openai", "--base-url", "http://h", "--key-env", "NONE_SUCH"], "NONE_SUCH: missing."),
        (["--model", "demo", "--allow", "x"], ""),
        (
            ["parrot"],
            "PLATFORM: not usable. Choose one of terminal, discord, email, irc, matrix, slack, telegram, "
            "webhook, xmpp, or install",
        ),
    ],
)
def test_an_invalid_option_is_named_with_a_remedy_and_nothing_is_written(
    cli: Cli, home: Path, arguments: list[str], said: str
) -> None:
    result = cli("--non-interactive", *arguments)
    if said:
        assert result.exit_code == 78
        assert said in result.stderr
        assert KEY not in result.output
        assert not home.exists()


def test_an_invalid_answer_is_asked_for_again(cli: Cli, home: Path) -> None:
    pasted = "two words"
    answers = ["gpt", "openai", "localhost", "https://host/v1", KEY, "MY_KEY", pasted, KEY, "m-1", ""]
    result = cli("--no-check", said="\n".join(answers) + "\n")
    assert result.exit_code == 0
    for remedy in (
        "Choose one of demo",
        "Write the whole address",
        "Write the name of a variable",
        "It has characters that no key has",
    ):
        assert remedy in result.stdout
    assert pasted not in result.output
    model = load_config(home, {}).config.model
    assert (model.base_url, model.name, model.api_key) == ("https://host/v1", "m-1", KEY)
    assert "api_key: ${MY_KEY}" in (home / "config.yaml").read_text()


def test_an_aborted_setup_changes_nothing(cli: Cli, home: Path) -> None:
    result = cli("--no-check", said="openai\n")
    assert result.exit_code == 1
    assert not home.exists()


# --- what is there already ---


def test_comments_other_keys_and_formatting_stay(cli: Cli, home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text(MINE)
    (home / ".env").write_text("# keys\nexport OPENAI_API_KEY=old\nOTHER='x'  # mine\n")
    (home / ".env").chmod(0o644)
    assert cli("--non-interactive", "--model", "openai", OPENAI_API_KEY=KEY).exit_code == 0
    assert (home / "config.yaml").read_text() == MINE.replace(
        "    default: old-model\n",
        "    provider: openai\n    api_key: ${OPENAI_API_KEY}\n    name: old-model\n",
    )
    assert (home / ".env").read_text() == f"# keys\nOPENAI_API_KEY='{KEY}'\nOTHER='x'  # mine\n"
    assert mode(home / ".env") == 0o600


def test_a_second_setup_with_default_answers_changes_nothing(cli: Cli, home: Path) -> None:
    cli(
        "--non-interactive",
        "--model",
        "openai",
        "--base-url",
        "http://h:1",
        "--model-name",
        "m",
        "--key-env",
        "K",
        K=KEY,
    )
    before = {path: path.read_text() for path in home.iterdir()}
    result = cli("--no-check", said="\n" * 9)
    assert result.exit_code == 0
    assert "Written" not in result.stdout
    assert {path: path.read_text() for path in home.iterdir()} == before


def test_a_change_to_the_demo_removes_the_other_model_keys(cli: Cli, home: Path) -> None:
    cli("--non-interactive", "--model", "anthropic", ANTHROPIC_API_KEY=KEY)
    assert cli("--non-interactive", "--model", "demo").exit_code == 0
    model = load_config(home, {}).config.model
    assert (model.provider, model.api_key) == ("demo", None)


def test_a_file_that_other_accounts_can_read_becomes_private(cli: Cli, home: Path) -> None:
    home.mkdir()
    (home / ".env").write_text("OTHER='x'\n")
    (home / ".env").chmod(0o644)
    cli("--non-interactive", "--model", "demo")
    assert mode(home / ".env") == 0o600


def test_a_file_of_comments_alone_keeps_them(cli: Cli, home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("# nothing yet\n")
    cli("--non-interactive", "--model", "demo")
    assert (home / "config.yaml").read_text() == "# nothing yet\n\nmodel:\n  provider: demo\n"


def test_a_broken_file_is_named_and_not_changed(cli: Cli, home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("agent: {max_turns: many}")
    result = cli("--no-check", said="\n" * 9)
    assert result.exit_code == 78
    assert "agent.max_turns" in result.stderr
    assert (home / "config.yaml").read_text() == "agent: {max_turns: many}"


def test_a_configuration_that_is_a_symbolic_link_stays_one(cli: Cli, home: Path, tmp_path: Path) -> None:
    home.mkdir()
    real = tmp_path / "dotfiles.yaml"
    real.write_text("agent: {max_turns: 7}\n")
    (home / "config.yaml").symlink_to(real)
    cli("--non-interactive", "--model", "demo")
    assert (home / "config.yaml").is_symlink()
    assert "provider: demo" in real.read_text()


def test_a_running_gateway_needs_a_restart_for_new_settings(cli: Cli, home: Path) -> None:
    home.mkdir()
    with locked_home(home):
        assert "`hermes-trio restart`" in cli("--non-interactive", "--model", "demo").stdout


# --- a platform ---


@pytest.mark.usefixtures("parrots")
def test_a_platform_brings_its_questions_with_its_package(cli: Cli, home: Path) -> None:
    answers = ["demo", "parrot", KEY, "three", "3", "42, kim"]
    result = cli(said="\n".join(answers) + "\n")
    assert result.exit_code == 0
    assert KEY not in result.output
    assert "Ask the parrots' father for it." in result.stdout
    assert "A number: count them." in result.stdout
    assert result.stdout.endswith("Next: `hermes-trio run`.\n")
    platform = load_config(home, {}).config.platforms["parrot"]
    assert (platform.token, platform.allow_from, dict(platform.options)) == (
        KEY,
        ("42", "kim"),
        {"perches": "3"},
    )
    assert (home / ".env").read_text() == f"PARROT_TOKEN='{KEY}'\n"


@pytest.mark.usefixtures("parrots")
def test_one_platform_is_set_up_without_questions(cli: Cli, home: Path) -> None:
    arguments = ["parrot", "--non-interactive", "--answer", "perches=5", "--allow", "all"]
    result = cli(*arguments, PARROT_TOKEN=KEY)
    assert result.exit_code == 0
    config = load_config(home, {}).config
    assert (config.platforms["parrot"].allow_from, config.platforms["parrot"].token) == ("all", KEY)
    assert "model" not in (home / "config.yaml").read_text()
    again = cli("parrot", said="\n\n\n")
    assert (again.exit_code, "Written" in again.stdout) == (0, False)


@pytest.mark.usefixtures("parrots")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "PARROT_TOKEN: missing. It is needed: type it at the prompt, or set PARROT_TOKEN for"),
        (["--answer", f"token={KEY}"], "--answer token: a secret. Other users can read options"),
        (
            ["--answer", "wings=2"],
            "--answer wings: parrot has no such question. Its questions are: token, perches.",
        ),
        (["--answer", "perches=few"], "--answer perches: not usable. A number: count them."),
        (["--allow", "all, 42"], "--allow: not usable. Write either ids with commas"),
        (["--allow", "4 2"], "--allow: not usable. Write ids without spaces"),
    ],
)
def test_an_invalid_answer_for_a_platform_is_refused(
    cli: Cli, home: Path, arguments: list[str], said: str
) -> None:
    environ = {} if said.startswith("PARROT") else {"PARROT_TOKEN": "t-1234567"}
    result = cli("parrot", "--non-interactive", *arguments, **environ)
    assert result.exit_code == 78
    assert said in result.stderr
    assert KEY not in result.output
    assert not home.exists()


def test_settings_that_would_prevent_a_start_are_not_written(cli: Cli, home: Path) -> None:
    result = cli(
        "--non-interactive", "--model", "openai", "--base-url", "http://h", "--model-name", "${NONE}"
    )
    assert result.exit_code == 78
    assert "model.name" in result.stderr
    assert not home.exists()


@pytest.mark.usefixtures("parrots")
@pytest.mark.parametrize("secret", ["it's", "${NONE}", "quo\"te\\and's", "a#b", "$HOME", "a=b"])
def test_any_secret_is_read_back_unchanged(cli: Cli, home: Path, secret: str) -> None:
    assert cli("parrot", "--non-interactive", PARROT_TOKEN=secret).exit_code == 0
    assert load_config(home, {}).config.platforms["parrot"].token == secret
