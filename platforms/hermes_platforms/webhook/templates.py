"""Templates: the text of a message, made of the data of a request. Pure.

    Build {build.status} of {repository.full_name}: {header.x-github-event}

A name in braces is a path into the data; a number is the place in a list. `{body}` is the whole data, and
`{header.NAME}` a header. What is missing is empty. `{{` and `}}` are braces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

LONGEST = 30_000
"""Characters of a text; the rest is left out."""
_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


def rendered(template: str, data: object, headers: Mapping[str, str]) -> str:
    """Return the text of a template."""

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        path = match[1].strip()
        if path.startswith("header."):
            return headers.get(path.removeprefix("header.").lower(), "")
        return _text(data if path == "body" else _found(data, path))

    text = _PLACE.sub(value, template)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n… ({len(text) - LONGEST} characters more)"


def _found(data: object, path: str) -> object:
    for name in path.split("."):
        if isinstance(data, dict):
            data = data.get(name)
        elif isinstance(data, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(data):
            data = data[int(name[:9])]
        else:
            return None
    return data


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
