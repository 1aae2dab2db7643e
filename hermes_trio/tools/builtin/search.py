"""The tool `search_files`: find lines by a regular expression, or files by name."""

from __future__ import annotations

import json
import re
import sys
from typing import Annotated, Literal

import msgspec
import trio
from msgspec import Meta

from ..sandbox.views import Grants
from ..tool import Result, Tool, ToolFailed, Workplace

LONGEST_SEARCH = 60.0
_HALF_A_WORD = re.compile(r"…\S{1,128}|\S{1,64}…$", re.MULTILINE)
"""The rest of a word where a long line was cut: half a secret is not recognised."""


class SearchArguments(msgspec.Struct, frozen=True):
    pattern: Annotated[
        str,
        Meta(
            min_length=1, max_length=1000, description="A Python regular expression; for files a glob: *.py"
        ),
    ]
    target: Annotated[
        Literal["content", "files"],
        Meta(description="Match the pattern with lines of text, or with file names."),
    ] = "content"
    path: Annotated[str, Meta(description="The directory, or file, to search.")] = "."
    file_glob: Annotated[str, Meta(max_length=200, description="Only files with such a name, like *.py")] = ""
    output: Annotated[
        Literal["lines", "files"], Meta(description="Return the matching lines, or only their files.")
    ] = "lines"
    context: Annotated[int, Meta(ge=0, le=20, description="Lines around each match.")] = 0
    limit: Annotated[int, Meta(ge=1, le=500, description="How many hits.")] = 50
    offset: Annotated[int, Meta(ge=0, description="How many hits to skip.")] = 0


OUR_OWN_PROGRAM = Grants(everything=True)
"""The search runs our own program, which judges every path by itself."""


async def _search(arguments: SearchArguments, place: Workplace) -> Result:
    sandbox = place.sandbox
    find = sandbox.territory.find
    root = await trio.to_thread.run_sync(find, arguments.path, abandon_on_cancel=True)
    if not await trio.Path(root).exists():
        raise ToolFailed(f"There is no {arguments.path}.")
    task = {
        "home": str(place.home),
        "cwd": str(place.cwd),
        "readable": [str(path) for path in sandbox.readable],
        "temporary": str(sandbox.temporary),
        "path": str(root),
        "pattern": arguments.pattern,
        "target": arguments.target,
        "file_glob": arguments.file_glob,
        "files_only": arguments.output == "files",
        "context": arguments.context,
        "limit": arguments.limit,
        "offset": arguments.offset,
    }
    # -P, and started in the home: a file in the working directory must not be imported as one of our modules.
    command = [sys.executable, "-P", "-m", "hermes_trio.tools.builtin.search_program", json.dumps(task)]
    with trio.move_on_after(LONGEST_SEARCH):
        async with place.running(command, cwd=place.home, grants=OUR_OWN_PROGRAM) as process:
            code = await process.wait()
            found = process.output.tail.decode("utf-8", "replace").rstrip("\n")
            if code != 0:
                raise ToolFailed(f"The search failed: {found[-1000:]}")
            return Result(place.masking(_HALF_A_WORD.sub("…", found)) or "[Nothing was found.]")
    raise ToolFailed(
        f"The search took over {LONGEST_SEARCH:.0f} s. Search a smaller directory, or use a simpler pattern."
    )


SEARCH = Tool(
    "search_files",
    "Finds lines by a regular expression, or files by a glob. Skips files that .gitignore excludes.",
    SearchArguments,
    _search,
    reads_only=True,
)
