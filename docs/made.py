"""Make the reference pages of the documentation from the code.

    python docs/made.py            write the pages
    python docs/made.py --check    exit with 1 and name each page that differs from the code

Run it after a change of a configuration key, a command, a route, or the table of hermes-agent's keys.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from hermes_trio import COMMANDS
from hermes_trio.cli import main
from hermes_trio.config.config_values import wanted
from hermes_trio.config.original_limits import LIMITS, VARIABLES, Limit, Verdict
from hermes_trio.config.schema import GatewayConfig
from hermes_trio.config.section import Key, Section, keys
from hermes_trio.web.http.openapi import description
from hermes_trio.web.route_table import SPECS

FOLDER = Path(__file__).parent / "reference"
MADE = "<!-- Made by docs/made.py from the code. Do not edit: run `python docs/made.py`. -->"
_METHODS = ("get", "post", "patch", "put", "delete")
_API_GROUPS = (
    ("OpenAI-compatible API", ("/v1/models", "/v1/chat")),
    ("Runs", ("/v1/runs", "/v1/capabilities")),
    ("Sessions and events", ("/api/sessions", "/api/events")),
    ("Health", ("/health", "/ready", "/metrics")),
    ("Administration", ("/api/admin",)),
    ("Page and log-in", ("/",)),
)
"""Headings of the HTTP page and the beginnings of the paths below each; the first match counts."""


# --- Markdown -------------------------------------------------------------------------------------


def _cell(text: str) -> str:
    """Return text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table; nothing if it has no rows."""
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    if lines:
        yield f"| {' | '.join(head)} |"
        yield f"|{'|'.join('---' for _ in head)}|"
        yield from lines
        yield ""


def _escaped(text: str) -> str:
    """Return text whose `<name>` outside of code is no HTML."""
    parts = text.split("`")
    return "`".join(part.replace("<", "&lt;") if index % 2 == 0 else part for index, part in enumerate(parts))


# --- Configuration --------------------------------------------------------------------------------


def configuration() -> Iterator[str]:
    """Yield the lines of the page about `config.yaml`."""
    yield "# Configuration keys\n"
    yield (
        "The file is `config.yaml` in the home directory. `${NAME}` in a value is replaced by the variable "
        "NAME of `.env` or of the environment. A wrong value stops the start with exit code 78. An unknown "
        "key causes a warning; in security settings it is an error. `hermes-trio config show` prints this "
        "list with the values in effect, and `hermes-trio config check` names every mistake.\n"
    )
    alone = [key for key in keys(GatewayConfig) if not (key.section or key.named)]
    yield "## Keys at the top level\n"
    yield from _table(("Key", "Takes", "Default", "Meaning"), _key_rows(alone, ""))
    for key in keys(GatewayConfig):
        if key.section is not None:
            yield from _section(key.name, key.help, key.section)
        elif key.named is not None:
            yield from _section(f"{key.name}.NAME", key.help, key.named)


def _section(path: str, help_: str, section: type[Section]) -> Iterator[str]:
    """Yield one section, and each section in it after it."""
    yield f"## {path}\n"
    yield f"{_escaped(help_)}\n"
    found = keys(section)
    yield from _table(
        ("Key", "Takes", "Default", "Meaning"),
        _key_rows([key for key in found if not key.section], f"{path}."),
    )
    for key in found:
        if key.section is not None:
            yield from _section(f"{path}.{key.name}", key.help, key.section)


def _key_rows(found: Iterable[Key], prefix: str) -> Iterator[tuple[str, ...]]:
    for key in found:
        yield _code(prefix + key.name), _escaped(wanted(key)), _default(key.default), _escaped(key.help)


def _default(value: object) -> str:
    if value is None:
        return "left out"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return _code(msgspec.json.encode(value).decode())


# --- Command line ---------------------------------------------------------------------------------


def command_line() -> Iterator[str]:
    """Yield the lines of the page about the command line."""
    yield "# Command line\n"
    yield (
        "`hermes-trio` is also `python -m hermes_trio`. Every command takes `--help`. Commands read "
        "`HERMES_HOME`, and use `~/.hermes-trio` if it is not set.\n"
    )
    context = click.Context(main, info_name="hermes-trio")
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None  # noqa: S101 - it is in the list
        yield from _command(command, f"hermes-trio {name}", context)


def _command(command: click.Command, path: str, parent: click.Context) -> Iterator[str]:
    """Yield a command, and each command of a group after it. Hidden ones are left out."""
    if command.hidden:
        return
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent)
    yield f"{'##' if path.count(' ') == 1 else '###'} {path}\n"
    yield f"{_help(command)}\n"
    if not isinstance(command, click.Group):
        yield f"```text\n{path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    yield from _table(
        ("Option", "Meaning"),
        ((_code(_spelling(each, context)), _escaped(each.help or "")) for each in options),
    )
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None  # noqa: S101 - it is in the list
            yield from _command(inner, f"{path} {name}", context)


def _help(command: click.Command) -> str:
    """Return the help of a command as paragraphs."""
    paragraphs = (" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    return _escaped("\n\n".join(paragraphs))


def _spelling(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    return record[0] if record else ", ".join(option.opts)


# --- Commands in a chat ---------------------------------------------------------------------------


def chat_commands() -> Iterator[str]:
    """Yield the lines of the page about the commands in a chat."""
    yield "# Commands in a chat\n"
    yield (
        "A command is obeyed at once, also while a turn runs. It is never sent to the model and is never "
        "repeated after a restart. `/help` lists the commands in the chat.\n"
    )
    yield from _table(
        ("Command", "Effect"), ((_code(f"/{name}"), one.help) for name, one in COMMANDS.items() if one.help)
    )


# --- HTTP -----------------------------------------------------------------------------------------


def http_api() -> Iterator[str]:
    """Yield the lines of the page about the HTTP API."""
    described = description(SPECS, "")
    schemas = described["components"]["schemas"]
    yield "# HTTP API reference\n"
    yield (
        "Each route below is in `GET /openapi.json` of a running gateway. A route marked *open* needs no "
        "key. Every other one needs `Authorization: Bearer KEY`, or the log-in of the page. An error has the "
        'body `{"error": {"code", "message", "remedy"}}`; below `/v1` it has the form of OpenAI\'s API.\n'
    )
    grouped: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {name: [] for name, _ in _API_GROUPS}
    for path, operations in described["paths"].items():
        for method in _METHODS:
            if method in operations:
                grouped[_group_of(path)].append((method, path, operations[method]))
    for name, routes_ in grouped.items():
        yield f"## {name}\n"
        for method, path, operation in routes_:
            yield from _operation(method, path, operation)
    yield "## Bodies\n"
    for name, schema in sorted(schemas.items()):
        yield from _schema(name, schema)


def _group_of(path: str) -> str:
    return next(name for name, starts in _API_GROUPS if path.startswith(starts))


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {method.upper()} {path}\n"
    # The description begins with the route itself, which is the heading here.
    told = re.sub(r"^`[^`]*`(?: `[^`]*`)?:? ?", "", operation["description"])
    if told:
        yield f"{_escaped(told[0].upper() + told[1:])}\n"
    if "security" in operation:
        yield "*Open.*\n"
    yield from _table(
        ("Parameter", "Place"), ((_code(each["name"]), each["in"]) for each in operation["parameters"])
    )
    if "requestBody" in operation:
        name = _named(operation["requestBody"]["content"]["application/json"]["schema"])
        yield f"Body: [{name}](#{name.lower()})\n"


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name}\n"
    if "description" in schema:
        yield f"{_escaped(' '.join(schema['description'].split()))}\n"
    required = schema.get("required", ())
    yield from _table(
        ("Field", "Type", "Required", "Meaning"),
        (
            (
                _code(field),
                _type(one),
                "yes" if field in required else "no",
                _escaped(one.get("description", "")),
            )
            for field, one in schema.get("properties", {}).items()
        ),
    )


def _named(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in words."""
    if "$ref" in schema:
        name = _named(schema)
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(_code(msgspec.json.encode(one).decode()) for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}{_size(schema, 'Items', 'entries')}"
    return f"{schema.get('type', 'any')}{_size(schema, 'Length', 'characters')}"


def _size(schema: Mapping[str, Any], name: str, unit: str) -> str:
    """Return the limits of a list or a text in words; empty if it has none."""
    least, most = schema.get(f"min{name}"), schema.get(f"max{name}")
    if most is None:
        return f" of at least {least} {unit}" if least else ""
    return f" of {least} to {most:,} {unit}" if least else f" of at most {most:,} {unit}"


# --- hermes-agent ---------------------------------------------------------------------------------

_VERDICTS: Mapping[Verdict, tuple[str, str]] = {
    "taken": ("Taken", "These keys have the same meaning here."),
    "refused": (
        "Refused",
        "Nothing here does the same. A value that limits the agent stops the start with exit code 78. To "
        "start without the limit, remove the key.",
    ),
    "harmless": (
        "Not used",
        "Without these keys the agent may do no more than before. A warning names each one that has a value.",
    ),
}


def hermes_agent() -> Iterator[str]:
    """Yield the lines of the page about the keys of hermes-agent."""
    yield "# Keys of hermes-agent\n"
    yield (
        "The keys by which a configuration of hermes-agent limits the agent or its users, and the result of "
        "each here. `*` stands for any name. Values in the column *Accepted values* limit nothing, so they "
        "pass; so do empty values.\n"
    )
    for verdict, (heading, meaning) in _VERDICTS.items():
        limits = [limit for limit in LIMITS if limit.verdict == verdict]
        yield f"## {heading}\n\n{meaning}\n"
        yield from _limits(limits, "Key")
    yield "## Environment variables\n"
    yield "These variables, in `.env` or in the environment, are refused likewise.\n"
    yield from _limits(VARIABLES, "Variable")


def _limits(limits: Iterable[Limit], name: str) -> Iterator[str]:
    rows = [
        (_code(one.key), _escaped(one.meaning), ", ".join(map(_code, one.passes)), _escaped(one.remedy))
        for one in limits
    ]
    head = (name, "Meaning", "Accepted values", "Remedy")
    shown = [column for column in range(len(head)) if column < 2 or any(row[column] for row in rows)]
    yield from _table(
        tuple(head[column] for column in shown), (tuple(row[column] for column in shown) for row in rows)
    )


# --- All of them ----------------------------------------------------------------------------------

PAGES: Mapping[str, Callable[[], Iterator[str]]] = {
    "configuration.md": configuration,
    "cli.md": command_line,
    "chat-commands.md": chat_commands,
    "http-api.md": http_api,
    "hermes-agent.md": hermes_agent,
}


def made() -> dict[Path, str]:
    """Return the text of each made page."""
    pages = {}
    for name, page in PAGES.items():
        title, *lines = page()
        pages[FOLDER / name] = "\n".join([title, MADE, "", *lines]).rstrip() + "\n"
    return pages


def differing() -> list[Path]:
    """Return the made pages that are not there or differ from the code."""
    return [path for path, text in made().items() if not path.exists() or path.read_text("utf-8") != text]


def run(arguments: list[str]) -> int:
    """Write the pages, or with `--check` compare them. Return the exit code."""
    stale = differing()
    if arguments == ["--check"]:
        for path in stale:
            sys.stderr.write(f"{path.name} differs from the code. Run `python docs/made.py`.\n")
        return 1 if stale else 0
    if arguments:
        sys.stderr.write("usage: python docs/made.py [--check]\n")
        return 2
    for path, text in made().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(run(sys.argv[1:]))
