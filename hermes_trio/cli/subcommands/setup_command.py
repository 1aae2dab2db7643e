"""`hermes-trio setup`: ask a new user for the necessary settings, and write them.

A setting without an option is asked for; with `--non-interactive` its absence is an error, so scripts can use
the command too. Nothing is written before every answer is valid. Other keys, comments and variables in the
files stay. Secrets go only to `.env`. They come from a hidden prompt or from the environment, never from an
option, which other users of the machine could read.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import click
import trio

from ...agent.providers.choose import configured
from ...agent.providers.served_models import known_ports, local_server, served_models, shown_names
from ...base.errors import ConfigInvalid, GatewayError
from ...base.extras import install_command
from ...config.config_file import PROGRAM, Loaded, home_directory, load_config
from ...config.schema import GatewayConfig, ModelConfig, PlatformConfig
from ...host.home.home_lock import is_locked
from ...platform.setup_questions import GROUP, Question
from ...platform.trial import GROUP as TRIALS
from ...platform.trial import OpenTrial
from ..config_writer import Changes, stored_variables, write
from ..probes import LIST_WITHIN
from ..terminal_output import unescaped
from .config_command import config_source, load_and_warn
from .doctor_command import ask_platform, show
from .platform_trial import run_trial

_VARIABLES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_TERMINAL = "terminal"
_ANY: Any = object()
"""A present value that differs from every new one: the new value is always written."""


@click.command()
@click.argument("platform", required=False)
@click.option("--model", type=click.Choice(["demo", "openai", "anthropic"]), help="Provider of the model.")
@click.option("--base-url", help="Address of a server with the API of OpenAI; none for OpenAI itself.")
@click.option("--model-name", help="Name of the model; none for the usual model of the provider.")
@click.option("--key-env", metavar="NAME", help="Variable with the key. Its value is written to .env.")
@click.option(
    "--answer", "answers", metavar="KEY=VALUE", multiple=True, help="Answer to a question of the platform."
)
@click.option(
    "--allow", metavar="IDS", help="People who may talk: ids with commas, or all. none: by pairing code."
)
@click.option(
    "--check/--no-check",
    "checks",
    default=None,
    help="Ask the model's server for its models, and check the platform over the network. "
    "Default: yes, except with --non-interactive.",
)
@click.option("--simulate", is_flag=True, help="Try the platform without an account, in this terminal.")
@click.option("--non-interactive", is_flag=True, help="Ask nothing; a missing answer is an error.")
def command(
    platform: str | None,
    model: str | None,
    base_url: str | None,
    model_name: str | None,
    key_env: str | None,
    answers: tuple[str, ...],
    allow: str | None,
    checks: bool | None,
    simulate: bool,
    non_interactive: bool,
) -> None:
    """Set up the model and a platform with a few questions.

    With the name of a PLATFORM only this platform is set up. The command can be run again at any time.
    With --simulate nothing is written: the gateway answers in a chat of a simulated platform.
    """
    if simulate:
        _simulate(platform)
        return
    home = home_directory(os.environ)
    loaded = load_config(home, os.environ)  # raises for mistakes, which people correct by hand
    given = {name: value for name, _, value in (answer.partition("=") for answer in answers)}
    has_model = "model.provider" in loaded.origins
    dialog = _Dialog(home, loaded.config, given, not non_interactive, has_model)
    if platform is None or model is not None:
        _ask_model(dialog, model, base_url, model_name, key_env, lists=checks is not False)
    platform = _choose_platform(dialog, platform)
    if platform != _TERMINAL:
        _ask_platform(dialog, platform, allow)
    for path in write(home, dialog.changes, os.environ, platform):
        click.echo(f"Written: {path}")
    if platform != _TERMINAL and (dialog.may_ask if checks is None else checks):
        written = load_config(home, os.environ).config.platforms[platform]
        show(ask_platform(platform, written))
    if is_locked(home):
        click.echo("A gateway is running. It uses the new settings after `hermes-trio restart`.")
    here = "`hermes-trio chat` here, or `hermes-trio run` for the page in your browser"
    click.echo(f"Next: {here if platform == _TERMINAL else '`hermes-trio run`'}.")


def _simulate(platform: str | None) -> None:
    """Run the trial of a platform."""
    trials = {entry.name: entry for entry in entry_points(group=TRIALS)}
    if platform not in trials:
        known = ", ".join(sorted(trials)) or "no installed platform"
        raise ConfigInvalid("PLATFORM", "it has no simulator", f"These have one: {known}.")
    if not (sys.stdin and sys.stdin.isatty()):
        raise GatewayError("There is no terminal here to type into. Start the command in a terminal.")
    loaded = load_and_warn()
    try:
        open_trial: OpenTrial = trials[platform].load()
    except ImportError as error:
        remedy = f"Install the packages that it needs: `{install_command(platform)}`."
        raise ConfigInvalid(f"platforms.{platform}", f"it cannot be loaded ({error})", remedy) from error
    click.echo(f"{platform} is simulated on this machine; {config_source(loaded)}")
    trio.run(_run_trial, loaded, open_trial)
    click.echo(f"\nNext: `hermes-trio setup {platform}` for a real account.")


async def _run_trial(loaded: Loaded, open_trial: OpenTrial) -> None:
    from ..terminal.line_editor import open_line_editor  # imported here: it takes 0.2 s

    # The editor draws with control characters; the trial escapes what it prints.
    with redirect_stdout(unescaped(sys.stdout)):
        async with open_line_editor() as editor:
            await run_trial(loaded, open_trial, editor, editor)


@dataclass(slots=True)
class _Dialog:
    """The answers so far, and the functions that ask for more."""

    home: Path
    config: GatewayConfig
    """The configuration before the changes."""
    given: Mapping[str, str]
    """The values of `--answer`."""
    may_ask: bool
    has_model: bool
    """True if the configuration or a key of the environment chooses a model."""
    changes: Changes = field(default_factory=Changes)

    def ask(
        self,
        prompt: str,
        option: str,
        value: str | None,
        check: Callable[[str], str],
        *,
        default: str = "",
        secret: bool = False,
    ) -> str:
        """Return a valid answer: the value of the option, or an answer that is asked for until it is valid.
        Raise `ConfigInvalid` if the value of the option is invalid, or is missing and must not be asked
        for."""
        if value is not None or not self.may_ask:
            try:
                return check(default if value is None else value)
            except ValueError as error:
                problem = "missing" if value is None else "not usable"
                raise ConfigInvalid(option, problem, str(error)) from None
        while True:
            answer = click.prompt(prompt, default=default, hide_input=secret, show_default=bool(default))
            try:
                return check(answer)
            except ValueError as error:
                click.echo(f"  {error}")

    def change(self, *path: str, to: object, present: object = _ANY) -> None:
        """Note a new value for a key. An unchanged value keeps its text in the file, such as `${NAME}`."""
        if to != present:
            self.changes.values[path] = to

    def ask_secret(self, prompt: str, variable: str, check: Callable[[str], str], *, needed: bool) -> bool:
        """Write a variable to `.env`: its value in the environment, else a typed one. An empty answer keeps
        the stored value. Return False if there is no value and none is needed."""
        kept = stored_variables(self.home).get(variable, "")
        found = os.environ.get(variable, "")

        def checked(answer: str) -> str:
            if answer:
                return check(_a_secret(answer))
            if needed and not kept:
                raise ValueError(f"It is needed: type it at the prompt, or set {variable} for this command.")
            return ""

        if found:
            value = self.ask(prompt, variable, found, checked)
        else:
            hint = "an empty answer keeps the stored one" if kept else "it is not shown"
            value = self.ask(f"{prompt} ({hint})", variable, None, checked, secret=True)
        if value:
            self.changes.variables[variable] = value
        return bool(value or kept)


# --- the model ---


def _ask_model(
    dialog: _Dialog,
    model: str | None,
    base_url: str | None,
    name: str | None,
    key_env: str | None,
    *,
    lists: bool,
) -> None:
    """Ask for the settings of the model, except those that are given as options. `lists` allows to ask
    servers for their models."""
    before = dialog.config.model
    if dialog.may_ask and model is None:
        click.echo("demo needs no key; openai is OpenAI or any server with its API.")
        if lists and not dialog.has_model:
            before = _found_on_this_machine(before)
    model = dialog.ask(
        "Model (demo, openai, anthropic)", "--model", model, _a_provider, default=before.provider
    )
    dialog.change("model", "provider", to=model)
    dialog.change("model", "default", to=None)  # the original's key for the name
    if model == "demo":
        for key in ("base_url", "name", "api_key"):
            dialog.change("model", key, to=None)
        return
    if before.provider != model:
        before = ModelConfig()
    url = ""
    if model == "openai":
        prompt = "Address of the server; none for OpenAI itself"
        url = dialog.ask(prompt, "--base-url", base_url, _a_url, default=before.base_url or "none")
    dialog.change("model", "base_url", to=url or None, present=dialog.config.model.base_url or _ANY)
    prompt, usual = "Variable with the key", _VARIABLES[model]
    variable = dialog.ask(prompt, "--key-env", key_env, _a_variable, default=usual)
    if dialog.ask_secret("Key", variable, str, needed=not url or key_env is not None):
        dialog.change("model", "api_key", to=f"${{{variable}}}")
    if dialog.may_ask and lists and name is None:
        api_key = {**stored_variables(dialog.home), **dialog.changes.variables}.get(variable)
        provider: Literal["openai", "anthropic"] = "anthropic" if model == "anthropic" else "openai"
        _list_models(ModelConfig(provider=provider, base_url=url or None, api_key=api_key))
    prompt = "Name of the model; none for the usual one"
    chosen = dialog.ask(prompt, "--model-name", name, _a_name, default=before.name or "none")
    dialog.change("model", "name", to=chosen or None)


def _found_on_this_machine(model: ModelConfig) -> ModelConfig:
    """Return the settings that are offered: those of a model server on this machine, if one is found."""
    server = trio.run(local_server, known_ports(os.environ))
    if server is None:
        return model
    click.echo(f"Found {server.name} at {server.url}. It has {shown_names(server.models)}.")
    return ModelConfig(provider="openai", base_url=server.url, name=server.models[0].name)


def _list_models(model: ModelConfig) -> None:
    """Print the models that the server offers to this key, or that it offers none."""
    endpoint = configured(model, {"model.provider": PROGRAM, "model.api_key": PROGRAM}, {})
    models = trio.run(served_models, endpoint, LIST_WITHIN) if endpoint else []
    if models:
        click.echo(f"The server has {shown_names(models)}.")
    else:
        click.echo("The server gives no list of its models. `hermes-trio doctor` asks it for an answer.")


def _a_provider(answer: str) -> str:
    if answer not in ("demo", *_VARIABLES):
        raise ValueError("Choose one of demo, openai, anthropic.")
    return answer


def _a_url(answer: str) -> str:
    answer = answer.strip().rstrip("/")
    if answer in ("", "none"):
        return ""
    remedy = "Write the whole address, such as http://localhost:11434/v1."
    try:
        parts = urlsplit(answer)
        known = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        raise ValueError(remedy) from None
    if not known or not answer.isprintable() or " " in answer:
        raise ValueError(remedy)
    if parts.username or parts.password:
        raise ValueError("Write the address without name and password; the key is asked for next.")
    return answer


def _a_name(answer: str) -> str:
    if not answer.isprintable():
        raise ValueError("Write the name as your provider lists it.")
    return "" if answer.strip() == "none" else answer.strip()


def _a_variable(answer: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", answer):
        # The answer is not printed: it may be the key, pasted by mistake.
        raise ValueError("Write the name of a variable, such as OPENAI_API_KEY, not the key itself.")
    return answer


def _a_secret(answer: str) -> str:
    if not answer.isascii() or not answer.isprintable() or " " in answer.strip():
        raise ValueError("It has characters that no key has. Copy only the key, without spaces and quotes.")
    return answer.strip()


# --- a platform ---


def _registry() -> dict[str, EntryPoint]:
    """Return the platforms that can be set up. Only the questions of the chosen platform are loaded, because
    the package of another one may be broken."""
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name)}


def _choose_platform(dialog: _Dialog, given: str | None) -> str:
    """Return the platform of the argument, or ask for one."""
    known = [_TERMINAL, *_registry()]

    def checked(answer: str) -> str:
        if answer not in known:
            raise ValueError(f"Choose one of {', '.join(known)}, or install the package of another platform.")
        return answer

    if given is None and len(known) == 1:
        return _TERMINAL
    prompt = f"Platform ({', '.join(known)})"
    return dialog.ask(prompt, "PLATFORM", given, checked, default=_TERMINAL)


def _ask_platform(dialog: _Dialog, name: str, allow: str | None) -> None:
    """Ask the questions of a platform, and for the people who may talk there."""
    try:
        questions: Sequence[Question] = _registry()[name].load()
    except ImportError as error:
        remedy = "Install the packages that it needs, then run this command again."
        raise ConfigInvalid(f"platforms.{name}", f"its package cannot be loaded ({error})", remedy) from error
    unknown = set(dialog.given) - {question.key for question in questions}
    if unknown:
        names = ", ".join(question.key for question in questions)
        problem = f"{name} has no such question"
        raise ConfigInvalid(f"--answer {min(unknown)}", problem, f"Its questions are: {names}.")
    before = dialog.config.platforms.get(name, PlatformConfig(enabled=False))
    dialog.change("platforms", name, "enabled", to=True, present=before.enabled)
    for question in questions:
        value = dialog.given.get(question.key)
        if dialog.may_ask and question.help and value is None:
            click.echo(question.help)
        if question.variable is None:
            kept = getattr(before, question.key, before.options.get(question.key))
            default = question.default if kept is None else str(kept)
            option = f"--answer {question.key}"
            answer = dialog.ask(question.ask, option, value, question.check, default=default)
            dialog.change("platforms", name, question.key, to=answer, present=kept and str(kept))
        else:
            if value is not None:
                remedy = f"Other users can read options: set {question.variable} for this command."
                raise ConfigInvalid(f"--answer {question.key}", "a secret", remedy)
            dialog.ask_secret(question.ask, question.variable, question.check, needed=True)
            dialog.change("platforms", name, question.key, to=f"${{{question.variable}}}")
    prompt = "People who may talk: ids with commas, or all; none: people get a code that you approve"
    kept_ids = before.allow_from if before.allow_from == "all" else ",".join(before.allow_from)
    allowed = dialog.ask(prompt, "--allow", allow, _ids, default=kept_ids or "none")
    to = allowed if allowed == "all" else allowed.split()
    dialog.change("platforms", name, "allow_from", to=to, present=to if allowed == _ids(kept_ids) else _ANY)


def _ids(answer: str) -> str:
    """Return the ids separated by single spaces, or the word all."""
    ids = [one.strip() for one in answer.split(",") if one.strip() not in ("", "none")]
    if ("all" in ids and len(ids) > 1) or "*" in ids:
        raise ValueError("Write either ids with commas between them, or only the word all.")
    if any(" " in one or not one.isprintable() for one in ids):
        raise ValueError("Write ids without spaces, and with commas between them: 42, 43.")
    return " ".join(ids)
