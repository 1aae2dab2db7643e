"""The tool `search_files`: in a child process, within limits, and without secrets."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
import trio

from hermes_trio.config.schema import GatewayConfig, ModelConfig
from hermes_trio.host.processes.guard import open_guard
from hermes_trio.tools.builtin.search import SEARCH
from hermes_trio.tools.builtin.search_program import search
from hermes_trio.tools.paths import PathRefused
from hermes_trio.tools.tool import ToolFailed
from tests.tools.desk import Desk, desk_in


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = desk_in(tmp_path)
    for name, text in {
        "a.py": "import os\nprint('hello')\nx = 1\ny = 2\nprint('bye')\n",
        "sub/b.py": "print('hello again')\n",
        "sub/c.txt": "hello\n",
        ".env": "PASSWORD=hello\n",
        ".gitignore": "*.log\n/build/\n!keep.log\ndocs/*.html\n",
        "x.log": "hello\n",
        "keep.log": "hello\n",
        "build/out.txt": "hello\n",
        "sub/build/out.txt": "hello\n",
        "docs/a.html": "hello\n",
        "sub/docs/a.html": "hello\n",
        ".git/config": "hello\n",
        "sub/.gitignore": "c.*\n",
    }.items():
        (desk.cwd / name).parent.mkdir(parents=True, exist_ok=True)
        (desk.cwd / name).write_text(text)
    (desk.home / ".env").write_text("hello")
    (desk.cwd / "link").symlink_to(desk.home)
    (desk.cwd / "binary").write_bytes(b"hello\0")
    return desk


def found(desk: Desk, pattern: str, **more: Any) -> list[str]:
    """Return the output of a search that runs in this process."""
    task = {
        "home": str(desk.home), "cwd": str(desk.cwd), "readable": [],
        "temporary": str(desk.sandbox.temporary), "path": str(desk.cwd), "pattern": pattern,
        "target": "content", "file_glob": "", "files_only": False, "context": 0, "limit": 50, "offset": 0,
    }  # fmt: skip
    out = io.StringIO()
    search(task | more, out)
    return out.getvalue().splitlines()


def test_search_finds_lines_but_not_in_secret_or_ignored_files(desk: Desk) -> None:
    assert found(desk, "hel+o") == [
        "a.py:2:print('hello')",
        "keep.log:1:hello",
        "sub/b.py:1:print('hello again')",
        "sub/build/out.txt:1:hello",
        "sub/docs/a.html:1:hello",
    ]
    assert found(desk, "hello", files_only=True, file_glob="*.py") == ["a.py", "sub/b.py"]
    assert found(desk, "hello", path=str(desk.cwd / "sub/c.txt")) == ["c.txt:1:hello"]
    assert found(desk, "hello", path=str(desk.home)) == []
    assert found(desk, "nothing like it") == []


def test_search_finds_files_by_name(desk: Desk) -> None:
    assert found(desk, "*.py", target="files") == ["a.py", "sub/b.py"]
    assert found(desk, "sub/*.py", target="files") == ["sub/b.py"]
    assert found(desk, "*env*", target="files") == []


def test_search_returns_each_context_line_once(desk: Desk) -> None:
    assert found(desk, "print", path=str(desk.cwd / "a.py"), context=1) == [
        "a.py:1-import os",
        "a.py:2:print('hello')",
        "a.py:3-x = 1",
        "a.py:4-y = 2",
        "a.py:5:print('bye')",
    ]
    assert len(found(desk, "print", path=str(desk.cwd / "a.py"), context=2)) == 5
    assert found(desk, "x =", path=str(desk.cwd / "a.py"), context=1) == [
        "a.py:2-print('hello')",
        "a.py:3:x = 1",
        "a.py:4-y = 2",
    ]


def test_search_pages_together_are_the_whole_result(desk: Desk) -> None:
    whole = found(desk, "o")
    pages: list[str] = []
    offset: int | None = 0
    while offset is not None:
        *page, last = found(desk, "o", limit=2, offset=offset)
        more = last.startswith("[There is more")
        pages += page if more else [*page, last]
        offset = int(last.removeprefix("[There is more: next_offset=").removesuffix("]")) if more else None
    assert pages == whole


def test_a_search_page_has_a_size_limit(desk: Desk) -> None:
    (desk.cwd / "long.txt").write_text("".join(f"{'ü' * 5000} wide\n" for _ in range(1000)))
    lines = found(desk, "wide", limit=500)
    assert len("\n".join(lines).encode()) < 50_000
    assert lines[-1].startswith("[There is more")
    assert "wide" in lines[0], "a long line is shown around the match"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_search_skips_pipes(desk: Desk) -> None:
    os.mkfifo(desk.cwd / "pipe")
    (desk.cwd / "sub/.gitignore").unlink()
    os.mkfifo(desk.cwd / "sub/.gitignore")
    assert "sub/c.txt:1:hello" in found(desk, "hello")


async def test_search_runs_in_a_child_process_with_our_modules(desk: Desk) -> None:
    (desk.cwd / "json.py").write_text("raise SystemExit('taken for a part of Python')")
    async with open_guard() as guard:
        desk.guard = guard
        assert (await desk.use(SEARCH, pattern="again")).content == "sub/b.py:1:print('hello again')"
        assert (await desk.use(SEARCH, pattern="no such thing")).content == "[Nothing was found.]"
        assert "no regular expression" in (await desk.use(SEARCH, pattern="(")).content
        with pytest.raises(PathRefused):
            await desk.use(SEARCH, pattern="x", path=str(desk.home))


async def test_a_search_with_an_endless_pattern_can_be_cancelled(desk: Desk) -> None:
    (desk.cwd / "evil.txt").write_text("a" * 60 + "b\n")
    async with open_guard() as guard:
        desk.guard = guard
        ticks = 0
        with trio.move_on_after(3) as patience:
            async with trio.open_nursery() as nursery:

                async def tick() -> None:
                    nonlocal ticks
                    while True:
                        await trio.sleep(0.05)
                        ticks += 1

                nursery.start_soon(tick)
                await desk.use(SEARCH, pattern="(a+)+$")
        assert patience.cancelled_caught
        assert ticks >= 2, "the other tasks went on"
        assert guard.listed == (), "no process is left"


def test_search_finds_files_at_any_depth(desk: Desk) -> None:
    here = os.open(desk.cwd, os.O_RDONLY)
    for _ in range(1_000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    with open(os.open("deep.py", os.O_CREAT | os.O_WRONLY, dir_fd=here), "w") as file:
        file.write("hello\n")
    os.close(here)
    try:
        names = found(desk, "*.py", target="files")
    finally:  # pytest removes directories recursively, which fails at this depth
        os.unlink(f"{desk.cwd}/{'d/' * 1_000}deep.py")
        os.removedirs(f"{desk.cwd}/{'d/' * 1_000}".rstrip("/"))
    assert names == ["a.py", "d/" * 1_000 + "deep.py", "sub/b.py"]
    assert not os.path.exists(f"{desk.cwd}/d")


async def test_search_in_a_missing_directory_fails_with_its_name(desk: Desk) -> None:
    with pytest.raises(ToolFailed, match=r"There is no nowhere\."):
        await desk.use(SEARCH, pattern="hello", path="nowhere")


async def test_search_shows_no_half_of_a_secret_where_a_long_line_is_cut(desk: Desk) -> None:
    secret = "our-own-long-secret"
    desk.config = GatewayConfig(model=ModelConfig(api_key=secret))
    for before in range(370, 404, 5):
        (desk.cwd / f"{before}.txt").write_text("found " + "x " * (before // 2) + secret + " y" * 300)
    async with open_guard() as guard:
        desk.guard = guard
        told = (await desk.use(SEARCH, pattern="found")).content
    assert told.count("found") == 7
    assert "our-" not in told
