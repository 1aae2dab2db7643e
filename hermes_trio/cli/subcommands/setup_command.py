"""`hermes-trio setup`: the few things a newcomer has to decide, asked once and written down.

Whatever is not given as an option is asked; with `--non-interactive` it is an error instead, so the same
command serves scripts. Nothing is written before everything is known to be good, and what is in the files
already stays: other keys, comments, other variables. Secrets go to `.env` alone, and are taken from a
hidden prompt or from the environment, never from an option, which other users of the machine could read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from urllib.parse import urlsplit

import click

from ...base.errors import ConfigInvalid
from ...config.config_file import home_directory, load_config
from ...config.schema import GatewayConfig, ModelConfig, PlatformConfig
from ...host.home.home_lock import is_locked
from ...platform.setup_questions import GROUP, Question
from ..config_writer import Changes, stored_variables, write
from .doctor_command import ask_platform, show

_VARIABLES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_TERMINAL = "terminal"


@click.command()
@click.argument("platform", required=False)
@click.option("--model", type=click.Choice(["demo", "openai", "anthropic"]), help="Who answers.")
@click.option("--base-url", help="Address of a server that speaks OpenAI's way; none for OpenAI itself.")
@click.option("--model-name", help="Which model to ask; none for the provider's usual one.")
@click.option("--key-env", metavar="NAME", help="Variable that holds the key; its value goes to .env.")
@click.option("--answer", "answers", metavar="KEY=VALUE", multiple=True, help="An answer to the platform.")
@click.option("--allow", metavar="IDS", help="Who may talk: ids with commas, or all. none: by pairing code.")
@click.option("--check/--no-check", "checks", default=None, help="Ask the platform too; usual if you are.")
@click.option("--non-interactive", is_flag=True, help="Ask nothing; what is missing is an error.")
def command(
    platform: str | None,
    model: str | None,
    base_url: str | None,
    model_name: str | None,
    key_env: str | None,
    answers: tuple[str, ...],
    allow: str | None,
    checks: bool | None,
    non_interactive: bool,
) -> None:
    """Answer a few questions, and be ready to start.

    With the name of a PLATFORM only that is set up. Can be run again at any time.
    """
    home = home_directory(os.environ)
    now = load_config(home, os.environ).config  # what is broken is to be mended by hand, and is named here
    given = {name: value for name, _, value in (answer.partition("=") for answer in answers)}
    asking = _Asking(home, now, given, not non_interactive)
    if platform is None or model is not None:
        _ask_model(asking, model, base_url, model_name, key_env)
    platform = _which_platform(asking, platform)
    if platform != _TERMINAL:
        _ask_platform(asking, platform, allow)
    for path in write(home, asking.changes, os.environ, platform):
        click.echo(f"Written: {path}")
    if platform != _TERMINAL and (asking.may_ask if checks is None else checks):
        written = load_config(home, os.environ).config.platforms[platform]
        show(ask_platform(platform, written))
    if is_locked(home):
        click.echo("A gateway is running; it reads this when it starts again: `hermes-trio restart`.")
    here = "`hermes-trio chat` here, or `hermes-trio run` for the page in your browser"
    click.echo(f"Next: {here if platform == _TERMINAL else '`hermes-trio run`'}.")


@dataclass(slots=True)
class _Asking:
    """What is known so far, and the way to know more."""

    home: Path
    now: GatewayConfig
    given: Mapping[str, str]
    may_ask: bool
    changes: Changes = field(default_factory=Changes)

    def one(
        self,
        what: str,
        option: str,
        value: str | None,
        check: Callable[[str], str],
        *,
        default: str = "",
        secret: bool = False,
    ) -> str:
        """An answer that is good: the one that was given, or one that is asked for until it is. Raises
        `ConfigInvalid` where it was given and is not good, or nobody can be asked."""
        if value is not None or not self.may_ask:
            try:
                return check(default if value is None else value)
            except ValueError as wrong:
                problem = "missing" if value is None else "not usable"
                raise ConfigInvalid(option, problem, str(wrong)) from None
        while True:
            answer = click.prompt(what, default=default, hide_input=secret, show_default=bool(default))
            try:
                return check(answer)
            except ValueError as wrong:
                click.echo(f"  {wrong}")

    def change(self, *path: str, to: object, now: object = None) -> None:
        """Note what is to be written. What stays as it is stays as it is written, be it by a variable."""
        if to != now:
            self.changes.values[path] = to

    def secret(self, what: str, variable: str, check: Callable[[str], str], *, needed: bool) -> bool:
        """See to it that a variable is in `.env`: what the environment holds, else what is typed; nothing
        typed keeps what is there. False if there is none, and none is needed."""
        kept = stored_variables(self.home).get(variable, "")
        found = os.environ.get(variable, "")

        def checked(answer: str) -> str:
            if answer:
                return check(_a_secret(answer))
            if needed and not kept:
                raise ValueError(
                    f"It is needed: type it when it is asked for, or set {variable} for this command."
                )
            return ""

        if found:
            value = self.one(what, variable, found, checked)
        else:
            hint = "nothing keeps the one there is" if kept else "it is not shown"
            value = self.one(f"{what} ({hint})", variable, None, checked, secret=True)
        if value:
            self.changes.variables[variable] = value
        return bool(value or kept)


# --- the model ---


def _ask_model(
    asking: _Asking, model: str | None, base_url: str | None, name: str | None, key_env: str | None
) -> None:
    if asking.may_ask and model is None:
        click.echo("Who answers? demo needs nothing; openai is OpenAI or any server that speaks its way.")
    model = asking.one(
        "Model (demo, openai, anthropic)", "--model", model, _a_provider, default=asking.now.model.provider
    )
    asking.change("model", "provider", to=model)
    asking.change(
        "model", "default", to=None, now="a word of the original for the name, which is written anew"
    )
    if model == "demo":
        for key in ("base_url", "name", "api_key"):
            asking.change("model", key, to=None, now="what a demo has no use for")
        return
    before = asking.now.model if asking.now.model.provider == model else ModelConfig()
    url = ""
    if model == "openai":
        text = "Address of the server; none for OpenAI itself"
        url = asking.one(text, "--base-url", base_url, _a_url, default=before.base_url or "none")
    asking.change("model", "base_url", to=url or None, now=before.base_url or "of another provider")
    text = "Name of the model; none for the usual one"
    name = asking.one(text, "--model-name", name, _a_name, default=before.name or "none")
    asking.change("model", "name", to=name or None, now="written anew")
    text, usual = "Variable that holds the key", _VARIABLES[model]
    variable = asking.one(text, "--key-env", key_env, _a_variable, default=usual)
    if asking.secret("Key", variable, str, needed=not url or key_env is not None):
        asking.change("model", "api_key", to=f"${{{variable}}}")


def _a_provider(answer: str) -> str:
    if answer not in ("demo", *_VARIABLES):
        raise ValueError("One of demo, openai, anthropic.")
    return answer


def _a_url(answer: str) -> str:
    answer = answer.strip().rstrip("/")
    if answer in ("", "none"):
        return ""
    remedy = "Write it whole, such as http://localhost:11434/v1."
    try:
        parts = urlsplit(answer)
        known = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        raise ValueError(remedy) from None
    if not known or not answer.isprintable() or " " in answer:
        raise ValueError(remedy)
    if parts.username or parts.password:
        raise ValueError("Leave name and password out of the address; the key is asked for next.")
    return answer


def _a_name(answer: str) -> str:
    if not answer.isprintable():
        raise ValueError("Write the name as your provider lists it.")
    return "" if answer.strip() == "none" else answer.strip()


def _a_variable(answer: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", answer):
        # Not repeated: whoever misunderstands the question pastes the key.
        raise ValueError("The name of a variable, such as OPENAI_API_KEY, and not the key itself.")
    return answer


def _a_secret(answer: str) -> str:
    if not answer.isascii() or not answer.isprintable() or " " in answer.strip():
        raise ValueError("It has characters that no key has. Copy it alone, without spaces and quotes.")
    return answer.strip()


# --- a platform ---


def _registry() -> dict[str, EntryPoint]:
    """The platforms that can be set up. What they ask is loaded for the one that is chosen: another's package
    may be broken."""
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name)}


def _which_platform(asking: _Asking, given: str | None) -> str:
    known = [_TERMINAL, *_registry()]

    def checked(answer: str) -> str:
        if answer not in known:
            raise ValueError(f"One of {', '.join(known)}. Others come with their packages.")
        return answer

    if given is None and len(known) == 1:
        return _TERMINAL
    what = f"Where do you talk to it ({', '.join(known)})"
    return asking.one(what, "PLATFORM", given, checked, default=_TERMINAL)


def _ask_platform(asking: _Asking, name: str, allow: str | None) -> None:
    try:
        questions: Sequence[Question] = _registry()[name].load()
    except ImportError as error:
        remedy = "Install what it needs beside hermes-trio, then call this again."
        raise ConfigInvalid(f"platforms.{name}", f"its package cannot be loaded ({error})", remedy) from error
    unknown = set(asking.given) - {question.key for question in questions}
    if unknown:
        names = ", ".join(question.key for question in questions)
        raise ConfigInvalid(f"--answer {min(unknown)}", f"{name} does not ask that", f"It asks: {names}.")
    before = asking.now.platforms.get(name, PlatformConfig(enabled=False))
    asking.change("platforms", name, "enabled", to=True, now=before.enabled)
    for question in questions:
        value = asking.given.get(question.key)
        if asking.may_ask and question.help and value is None:
            click.echo(question.help)
        if question.variable is None:
            kept = getattr(before, question.key, before.options.get(question.key))
            default = question.default if kept is None else str(kept)
            option = f"--answer {question.key}"
            answer = asking.one(question.ask, option, value, question.check, default=default)
            asking.change("platforms", name, question.key, to=answer, now=kept and str(kept))
        else:
            if value is not None:
                remedy = f"Options can be read by others: set {question.variable} for this command."
                raise ConfigInvalid(f"--answer {question.key}", "a secret", remedy)
            asking.secret(question.ask, question.variable, question.check, needed=True)
            asking.change("platforms", name, question.key, to=f"${{{question.variable}}}")
    what = "Who may talk: ids with commas, or all; none lets people in by a code that you approve"
    kept_ids = before.allow_from if before.allow_from == "all" else ",".join(before.allow_from)
    allowed = asking.one(what, "--allow", allow, _ids, default=kept_ids or "none")
    to = allowed if allowed == "all" else allowed.split()
    asking.change("platforms", name, "allow_from", to=to, now=to if allowed == _ids(kept_ids) else None)


def _ids(answer: str) -> str:
    """The ids with single spaces between them, or the word all."""
    ids = [one.strip() for one in answer.split(",") if one.strip() not in ("", "none")]
    if ("all" in ids and len(ids) > 1) or "*" in ids:
        raise ValueError("Either ids with commas between them, or the one word all.")
    if any(" " in one or not one.isprintable() for one in ids):
        raise ValueError("Ids have no spaces in them: 42, 43.")
    return " ".join(ids)
