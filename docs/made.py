"""Make those pages of the documentation that follow from the code.

    python docs/made.py            write the pages
    python docs/made.py --check    exit with 1 and name each page that differs from the code

Run it after a change of a configuration key, a command, a route, a public name, an import contract, the first
sentence about a module, or the table of hermes-agent's keys.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # it is run as a program, and from any directory

from docs.making.chat_commands import chat_commands
from docs.making.command_line import command_line
from docs.making.configuration import configuration
from docs.making.http_api import http_api
from docs.making.laws import laws
from docs.making.layers import layers
from docs.making.man_page import man_page
from docs.making.original_keys import hermes_agent
from docs.making.public_names import public_names

FOLDER = Path(__file__).parent
MADE = "Made by docs/made.py from the code. Do not edit: run `python docs/made.py`."
PAGES: Mapping[str, Callable[[], Iterator[str]]] = {
    "reference/configuration.md": configuration,
    "reference/cli.md": command_line,
    "reference/hermes-trio.1": man_page,
    "reference/chat-commands.md": chat_commands,
    "reference/http-api.md": http_api,
    "reference/hermes-agent.md": hermes_agent,
    "reference/public-names.md": public_names,
    "change/laws.md": laws,
    "change/layers.md": layers,
}


def made() -> dict[str, str]:
    """Return the text of each made page."""
    pages = {}
    for name, page in PAGES.items():
        title, *lines = page()
        made = [f'.\\" {MADE}'] if name.endswith(".1") else [f"<!-- {MADE} -->", ""]
        pages[name] = "\n".join([title, *made, *lines]).rstrip() + "\n"
    return pages


def differing(folder: Path = FOLDER) -> list[str]:
    """Return the made pages that are missing in the folder or differ from the code."""
    found = {name: folder / name for name in PAGES}
    return [
        name
        for name, text in made().items()
        if not found[name].exists() or found[name].read_text("utf-8") != text
    ]


def run(arguments: list[str], folder: Path = FOLDER) -> int:
    """Write the pages, or with `--check` compare them. Return the exit code."""
    if arguments == ["--check"]:
        stale = differing(folder)
        for name in stale:
            sys.stderr.write(f"{name} differs from the code. Run `python docs/made.py`.\n")
        return 1 if stale else 0
    if arguments:
        sys.stderr.write("usage: python docs/made.py [--check]\n")
        return 2
    for name, text in made().items():
        (folder / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(run(sys.argv[1:]))
