"""The examples in the pages run, and print what the pages say."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest
import trio

from hermes_trio.config.config_file import load_config
from hermes_trio.host.home.state_file import read_status
from tests.machine import HERMES, PATIENCE, UP

from .pages import DOCS, PAGES, README, Block, blocks, entry_points, page, titled

pytestmark = pytest.mark.timeout(180)

ADDRESS = "127.0.0.1:8642"
"""As the pages have it; a test puts the address of its gateway in its place."""


def examples(language: str, *, gateway: bool) -> list[Block]:
    """Return the blocks of a language that need a gateway, or those that need none."""
    needs = ("8642", ".hermes-trio", "curl")
    found = (block for block in blocks() if block.language == language)
    return [block for block in found if any(word in block.text for word in needs) is gateway]


def configurations() -> list[Block]:
    """Return the blocks that are our configuration, and not a file of Compose or Kubernetes."""
    found = (block for block in blocks() if block.language == "yaml")
    return [block for block in found if not re.search("^(services|apiVersion):", block.text, re.MULTILINE)]


def test_the_pages_have_examples_of_each_kind() -> None:
    assert len(examples("python", gateway=False)) >= 4
    assert len(examples("python", gateway=True)) >= 2
    assert any("curl" in block.text for block in examples("sh", gateway=True))
    assert len(configurations()) >= 4


def test_the_first_screen_of_the_readme_has_a_program_that_is_tested() -> None:
    program = next(block for block in examples("python", gateway=False) if block.page == README)
    lines = program.text.splitlines()
    assert program.line + len(lines) <= 40
    assert program.output
    assert len([line for line in lines if line]) <= 10


@pytest.mark.parametrize("block", examples("python", gateway=False), ids=str)
def test_a_python_example_prints_what_its_page_says(block: Block, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block.text],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert block.output is None or done.stdout == block.output


@pytest.mark.parametrize("block", configurations(), ids=str)
def test_a_configuration_in_a_page_is_taken_without_a_warning(block: Block, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(block.text, "utf-8")
    variables = re.findall(r"\$\{(\w+)\}", block.text)
    loaded = load_config(tmp_path, dict.fromkeys(variables, "0123456789abcdef-0123456789"))
    assert loaded.origins
    assert not loaded.warnings


@pytest.mark.parametrize("block", [one for one in blocks() if one.language == "text"], ids=str)
def test_a_drawing_fits_the_width_of_the_page(block: Block) -> None:
    assert max(map(len, block.text.splitlines())) <= 78


# --- examples that are files ---


WITH_TESTS = [path for path in PAGES if any(name.startswith("test_") for name in titled(path))]


def test_there_are_pages_whose_examples_are_tested() -> None:
    assert {DOCS / "change/adapter.md", DOCS / "change/tool.md"} <= set(WITH_TESTS)


@pytest.mark.parametrize("path", WITH_TESTS, ids=lambda path: path.stem)
def test_the_tests_of_a_page_pass_with_the_files_of_the_page(path: Path, tmp_path: Path) -> None:
    for name, text in titled(path).items():
        (tmp_path / name).write_text(text, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "trio_mode=true", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "CONNECTIONS": "50"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.parametrize(
    "path", [path for path in PAGES if "pyproject.toml" in titled(path)], ids=lambda path: path.stem
)
def test_the_entry_points_of_a_page_lead_to_names_of_its_files(path: Path) -> None:
    files = titled(path)
    for group, points in tomllib.loads(files["pyproject.toml"])["project"]["entry-points"].items():
        assert group in entry_points()
        for point in points.values():
            module, _, name = point.partition(":")
            defined = {
                target.id if isinstance(target, ast.Name) else None
                for node in ast.parse(files[f"{module}.py"]).body
                for target in (node.targets if isinstance(node, ast.Assign) else [])
            } | {getattr(node, "name", None) for node in ast.parse(files[f"{module}.py"]).body}
            assert name in defined


# --- with a gateway -------------------------------------------------------------------------------


async def run(command: list[str], home: Path, place: Path) -> str:
    """Run a command of a page as a user with this home directory, and return its output."""
    environ = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(home)}
    done = await trio.run_process(
        command, env=environ, cwd=place, capture_stdout=True, capture_stderr=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="the examples are for a shell")
async def test_the_examples_that_need_a_gateway_and_the_facts_about_one(tmp_path: Path) -> None:
    home = tmp_path / ".hermes-trio"
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text("web: {port: 0}\nmodel: {provider: demo}\n", "utf-8")
    place = tmp_path / "place"
    place.mkdir()
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with trio.fail_after(PATIENCE):
        gateway = await trio.lowlevel.open_process([*HERMES, "run"], env=environ, stdout=subprocess.DEVNULL)
        try:
            while (status := read_status(home)) is None or status.gateway_state not in UP:
                assert gateway.poll() is None
                await trio.sleep(0.05)
            assert status.web is not None
            address = status.web.removeprefix("http://")
            for block in examples("python", gateway=True):
                program = block.text.replace(ADDRESS, address)
                assert await run([sys.executable, "-c", program], tmp_path, place) == block.output, str(block)
            for block in examples("sh", gateway=True):
                if "curl" in block.text:
                    script = "set -eu\n" + block.text.replace(ADDRESS, address)
                    assert '"run_id"' in await run(["sh", "-c", script], tmp_path, place), str(block)
            async with httpx.AsyncClient(trust_env=False) as http:
                metrics = (await http.get(f"http://{address}/metrics")).text
            there = {path.relative_to(home).parts[0] for path in home.rglob("*")}
        finally:
            gateway.terminate()
            with trio.move_on_after(10, shield=True):
                await gateway.wait()
            if gateway.poll() is None:
                gateway.kill()
    told = page("run/home.md")
    assert not [name for name in there if f"`{name}`" not in told and f"`{name}/" not in told]
    named = set(re.findall(r"^\| `(hermes_\w+)`", page("run/metrics.md"), re.MULTILINE))
    measured = set(re.findall(r"^# TYPE (\w+)", metrics, re.MULTILINE))
    after_a_stop = {"hermes_last_drain_seconds", "hermes_last_drain_overshoot_seconds"}
    assert named - after_a_stop == {name for name in measured if not name.endswith("_created")} - after_a_stop
