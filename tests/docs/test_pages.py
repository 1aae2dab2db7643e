"""The pages are true: examples run, links lead somewhere, and what is named exists."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name

import httpx
import pytest
import trio
from markdown_it import MarkdownIt

from docs.made import PAGES as MADE_PAGES
from hermes_trio.config.config_file import load_config
from hermes_trio.config.schema import GatewayConfig
from hermes_trio.config.section import Section, keys
from hermes_trio.gateway.ending.endings_table import Cause, Ending, Exit, Supervisor, consequences
from hermes_trio.gateway.startup.resume_rules import Action, Verdict
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.home.state_file import read_status
from hermes_trio.state.tables.turns import END_EFFECTS, Outcome
from hermes_trio.tools import Workplace
from hermes_trio.tools.tool import ENTRY_POINTS
from tests.machine import HERMES, PATIENCE, UP

pytestmark = pytest.mark.timeout(180)

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))
ADDRESS = "127.0.0.1:8642"
"""As the pages have it; a test puts the address of its gateway in its place."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    output: str | None
    """The block of output that follows directly."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(DOCS)}:{self.line}"


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


@cache
def blocks() -> list[Block]:
    """Every fenced block of the pages that are written by hand."""
    found = []
    for path in PAGES:
        tokens = MarkdownIt().parse(path.read_text("utf-8"))
        for index, token in enumerate(tokens):
            if token.type == "fence" and token.map is not None:
                after = tokens[index + 1] if index + 1 < len(tokens) else None
                output = after.content if after and after.type == "fence" and after.info == "text" else None
                found.append(Block(path, token.map[0] + 1, token.info, token.content, output))
    return found


def examples(language: str, *, gateway: bool) -> list[Block]:
    """The blocks of a language that need a gateway, or those that need none."""
    needs = ("8642", ".hermes-trio", "curl")
    found = (block for block in blocks() if block.language == language)
    return [block for block in found if any(word in block.text for word in needs) is gateway]


def test_the_pages_have_examples_of_each_kind() -> None:
    assert len(examples("python", gateway=False)) >= 4
    assert len(examples("python", gateway=True)) >= 3
    assert any("curl" in block.text for block in examples("sh", gateway=True))
    assert sum(block.language == "yaml" for block in blocks()) >= 4


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


@pytest.mark.parametrize("block", [one for one in blocks() if one.language == "yaml"], ids=str)
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


def titled(path: Path) -> dict[str, str]:
    """The files of a page: the blocks that have a title."""
    found = (
        (re.search(r'title="([^"]+)"', block.language), block) for block in blocks() if block.page == path
    )
    return {match[1]: block.text for match, block in found if match is not None}


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
        assert group in _entry_points()
        for point in points.values():
            module, _, name = point.partition(":")
            defined = {
                target.id if isinstance(target, ast.Name) else None
                for node in ast.parse(files[f"{module}.py"]).body
                for target in (node.targets if isinstance(node, ast.Assign) else [])
            } | {getattr(node, "name", None) for node in ast.parse(files[f"{module}.py"]).body}
            assert name in defined


# --- the three tasks ---


def _steps() -> list[Block]:
    """The blocks of the page about first tasks that are steps of its last task."""
    found = (block for block in blocks() if block.page == DOCS / "change/tasks.md")
    return [block for block in found if block.language.startswith("sh title=")]


def _matches(output: str, expected: str) -> bool:
    """Whether an output is as expected. `…` stands for any text, and a space for any number of spaces."""
    words = ".*".join(re.sub(r"(?:\\ )+", " +", re.escape(part.strip(" "))) for part in expected.split("…"))
    return re.fullmatch(words, output.strip(" ")) is not None


@pytest.mark.skipif(sys.platform == "win32", reason="the steps are for a shell")
def test_the_search_for_the_reason_of_a_turn_that_was_not_resumed(tmp_path: Path) -> None:
    mark = "--- end of the step ---"
    script = "\n".join(f"{step.text}\necho '{mark}'" for step in _steps())
    environ = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run(
        ["bash", "-c", f"set -eu\n{script}"],
        env={**environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = done.stdout.split(f"{mark}\n")
    for step, output in zip(_steps(), outputs, strict=False):
        if step.output is not None:
            lines = list(zip(output.splitlines(), step.output.splitlines(), strict=True))
            assert not [pair for pair in lines if not _matches(*pair)], output


def test_the_page_about_first_tasks_has_each_verdict_and_what_it_does_with_the_mark() -> None:
    _, *rows = _cells("change/tasks.md", "Find out why a turn was not resumed")
    told = {cells[0]: cells[1] for cells in rows}
    assert list(told) == [verdict.why for verdict in Verdict]
    actions = {
        Action.RUN: "It is resumed now.",
        Action.WAIT: "It is judged again when the platform connects.",
        Action.KEEP: "The mark stays.",
        Action.CLEAR: "The mark is cleared.",
    }
    assert list(told.values()) == [actions[verdict.action] for verdict in Verdict]


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


# --- what is named exists -------------------------------------------------------------------------


def _cells(name: str, heading: str) -> Iterator[list[str]]:
    """The rows of the first table below a heading."""
    lines = iter(page(name).partition(f"## {heading}\n")[2].splitlines())
    for line in lines:
        if line.startswith("## "):
            return
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split("|")]


_INBOX = {"done": "done", "of_turn": "stay with the turn", "pending": "pending again"}


def test_the_page_about_stopping_has_each_outcome_and_its_effects() -> None:
    _, *told = _cells("run/stopping.md", "Outcomes of a turn")
    assert [cells[0] for cells in told] == [outcome.replace("_", " ") for outcome in Outcome]
    assert [cells[2] for cells in told] == [_INBOX[END_EFFECTS[outcome].inbox] for outcome in Outcome]
    assert [cells[4] == "yes" for cells in told] == [
        END_EFFECTS[outcome].mark == "set" for outcome in Outcome
    ]


_ENDINGS = {
    "Planned stop": (Cause.PLANNED, Supervisor.NONE),
    "Signal that nobody announced": (Cause.SIGNAL, Supervisor.NONE),
    "Restart under systemd": (Cause.RESTART, Supervisor.SYSTEMD),
    "Restart under another supervisor": (Cause.RESTART, Supervisor.OTHER),
    "Restart without a supervisor": (Cause.RESTART, Supervisor.NONE),
    "Every platform refuses the gateway": (Cause.NOTHING_SERVES, Supervisor.NONE),
}
_EXITS = {
    Exit.OK: "0",
    Exit.FAILURE: "1",
    Exit.QUEUE_UNIT: "0, ",
    Exit.TEMPFAIL: "75",
    Exit.EXEC: "none",
    Exit.CONFIG: "78",
}


@pytest.mark.parametrize("ending", _ENDINGS)
def test_the_page_about_stopping_says_what_follows_from_an_ending(ending: str) -> None:
    (told,) = (cells for cells in _cells("run/stopping.md", "Endings of the gateway") if cells[0] == ending)
    cause, supervisor = _ENDINGS[ending]
    follows = consequences(Ending(cause, 0), supervisor)
    assert f"Gateway {told[1]}" in follows.told
    assert told[2] == f"`{follows.resume_reason}`"
    assert told[3] == f"`{follows.state_left}`"
    assert told[4].startswith(_EXITS[follows.exit])


@cache
def texts_of_the_code() -> str:
    """Every text in the code, with … for what is put into it."""
    found = []
    for path in (*ROOT.glob("hermes_trio/**/*.py"), *ROOT.glob("platforms/hermes_platforms/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (one.value if isinstance(one, ast.Constant) else "…" for one in node.values)
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def symptoms() -> list[str]:
    """The messages in the first column of the tables about trouble."""
    first = re.findall(r"^\| (.+?) \|", page("run/troubleshooting.md"), re.MULTILINE)
    found = [code for cell in first for code in re.findall(r"`([^`]+)`", cell)]
    return [text for text in found if " " in text and not text.startswith(("hermes-trio ", "/"))]


@pytest.mark.parametrize("symptom", symptoms())
def test_a_message_in_the_page_about_trouble_is_one_of_the_code(symptom: str) -> None:
    assert symptom.strip("… ") in texts_of_the_code()


BY_HAND = [path for path in PAGES if str(path.relative_to(DOCS)) not in MADE_PAGES]
ROOT_PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "RELEASING.md")]
OTHER_PAGES = [*ROOT_PAGES, ROOT / "platforms/README.md"]
"""Pages outside of the site."""


def _written_by_hand() -> str:
    """The texts in which names are checked. Of the changelog only the part that is not released: the others
    may name what is gone."""
    unreleased = (
        (ROOT / "CHANGELOG.md").read_text("utf-8").partition("## Unreleased\n")[2].partition("\n## ")[0]
    )
    pages = [path for path in (*BY_HAND, *OTHER_PAGES) if path != DOCS / "run/hermes-agent.md"]
    return "\n".join([*(path.read_text("utf-8") for path in pages), unreleased])


def _named(pattern: str) -> list[str]:
    """What the pages that are written by hand name in this way."""
    return sorted(set(re.findall(pattern, _written_by_hand())))


def _takes(path: list[str], section: type[Section]) -> bool:
    """Whether a section has the key at this path; any name stands for one that people choose."""
    key = next((key for key in keys(section) if key.name == path[0]), None)
    if key is None or len(path) == 1:
        return key is not None
    if key.named is not None:
        return len(path) == 2 or _takes(path[2:], key.named)
    return key.section is not None and _takes(path[1:], key.section)


_NO_KEYS = {"gateway.control.current", "gateway.db", "gateway.lock", "terminal.backend"}
"""Other names that are written like a key; the last is one of hermes-agent."""
_SECTIONS = "|".join(key.name for key in keys(GatewayConfig))


@pytest.mark.parametrize("name", _named(rf"`((?:{_SECTIONS})\.\w+(?:\.\w+)*)(?::[^`]*)?`"))
def test_a_configuration_key_in_a_page_is_there(name: str) -> None:
    assert name in _NO_KEYS or _takes(name.split("."), GatewayConfig)


@cache
def words_of_the_code() -> frozenset[str]:
    """Every word of the code, and of the examples that are files."""
    folders = ("hermes_trio", "platforms", "tests")
    code = [path.read_text("utf-8") for folder in folders for path in (ROOT / folder).rglob("*.py")]
    examples = [text for path in PAGES for text in titled(path).values()]
    return frozenset(re.findall(r"\w+", "\n".join([*code, *examples])))


@pytest.mark.parametrize("name", _named(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)\b[^`]*`"))
def test_a_class_in_a_page_is_in_the_code(name: str) -> None:
    assert name in words_of_the_code()


def _titles() -> set[str]:
    """The files that the pages tell their readers to write."""
    return {name for path in PAGES for name in titled(path)}


def _members(kind: type) -> set[str]:
    """The members of a class: those of its body, and what its `__init__` sets."""
    source = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    set_there = {
        node.attr
        for node in ast.walk(source)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    return set_there | set(dir(kind))


@pytest.mark.parametrize("name", _named(r"`turn\.(\w+)"))
def test_a_member_of_a_turn_in_a_page_is_there(name: str) -> None:
    assert name in _members(TurnContext)


@pytest.mark.parametrize("name", _named(r"`place\.(\w+)"))
def test_a_member_of_a_workplace_in_a_page_is_there(name: str) -> None:
    assert name in dir(Workplace)


def _entry_points() -> set[str]:
    """The groups of entry points, which are written like modules."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        return {*tomllib.load(file)["project"]["entry-points"], ENTRY_POINTS}


@pytest.mark.parametrize("name", _named(r"\b(hermes_(?:trio|platforms)(?:\.[A-Za-z_]\w*)+)"))
def test_a_module_or_a_name_of_the_code_in_a_page_is_there(name: str) -> None:
    if f"{name.replace('.', '/')}.py" not in _titles() and name not in _entry_points():
        assert resolve_name(name) is not None


@pytest.mark.parametrize("path", _named(r"(?<![\w/])((?:hermes_trio|platforms|tests|docs|bench)/[\w./-]*\w)"))
def test_a_path_of_the_repository_in_a_page_is_there(path: str) -> None:
    assert "NAME" in path or path in _titles() or (ROOT / path).exists()


@pytest.mark.parametrize("route", _named(r"`((?:GET|POST|PATCH|DELETE) /[^`? ]*)"))
def test_a_route_in_a_page_is_there(route: str) -> None:
    assert f"### {route}\n" in page("reference/http-api.md")


# --- links ----------------------------------------------------------------------------------------


def _anchor(heading: str) -> str:
    """The anchor of a heading, as the site has it."""
    plain = re.sub(r"[^\w\s-]", "", heading.lower()).strip()
    return re.sub(r"[-\s]+", "-", plain)


@pytest.mark.parametrize("path", [*PAGES, *OTHER_PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_link_in_a_page_leads_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name) if name else path
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
            assert anchor in map(_anchor, headings), target


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs the extra docs")
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    html = "\n".join(path.read_text("utf-8") for path in (tmp_path / "site").rglob("*.html"))
    assert not re.findall(r"<(?:script|img)[^>]+src=\"?https?:|<link[^>]+stylesheet[^>]+https?:", html)
