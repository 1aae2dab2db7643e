"""The report about the layout: each measure on a tiny package, and the whole on our own tree."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from . import cycles, facade, folders, patches, surface, walk, wording
from .__main__ import BEFORE, ROOT, main, table
from .source import Measure, Source, read_source

Tiny = Callable[[dict[str, str]], Source]


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    """Write a made-up repository, and parse it."""

    def write(files: dict[str, str]) -> Source:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return read_source(tmp_path)

    return write


def figures(measures: Iterable[Measure]) -> dict[str, int]:
    return {measure.name.strip(): measure.figure for measure in measures}


def found(measures: Iterable[Measure], name: str) -> tuple[str, ...]:
    [measure] = [measure for measure in measures if measure.name == name]
    return measure.found


def test_functions_that_take_a_facade_are_counted_in_each_form_of_the_annotation(tiny: Tiny) -> None:
    source = tiny(
        {
            "hermes_trio/gateway/parts.py": (
                "class RunningGateway: ...\ndef make(g: RunningGateway) -> None: ...\n"
            ),
            "hermes_trio/gateway/intake.py": (
                "def plain(gateway: RunningGateway): ...\n"
                "async def quoted(*, gateway: 'RunningGateway'): ...\n"
                "def optional(gateway: Optional[RunningGateway]): ...\n"
                "def union(gateway: 'parts.RunningGateway | None'): ...\n"
                "def other(start: TaskStatus[RunningGateway]) -> RunningGateway: ...\n"
                "class Holder:\n"
                "    gateway: RunningGateway\n"
                "    def method(self, gateway: RunningGateway): ...\n"
            ),
            "hermes_trio/web/pages.py": "def page(web: None | Web, request: Request): ...\n",
            "hermes_trio/embed.py": "def embedded(gateway: RunningGateway): ...\n",
            "hermes_trio/cli/run.py": "def run(web: Web): ...\n",
        }
    )
    measures = facade.measures(source)
    assert figures(measures) == {
        "functions that take the whole RunningGateway": 5,
        "functions that take the whole Web": 1,
        "modules with such functions": 2,
        "classes with a façade as a field": 1,
        "apart: in the façade's module, embed, CLI": 3,
    }
    assert found(measures, "functions that take the whole Web") == (
        "  1 hermes_trio.web.pages",
        "hermes_trio.web.pages.page:1",
    )


def test_entries_of_folders_are_modules_and_packages_without_init_and_main(tiny: Tiny) -> None:
    source = tiny(
        {
            "hermes_trio/__init__.py": "",
            "hermes_trio/__main__.py": "",
            "hermes_trio/ids.py": "",
            "hermes_trio/web/__init__.py": "",
            **{f"hermes_trio/web/m{number}.py": "" for number in range(16)},
        }
    )
    assert folders.entries_of_folders(source.code) == {Path("hermes_trio/web"): 16, Path("hermes_trio"): 2}
    counted = figures(folders.measures(source))
    assert counted["entries of the largest folder"] == 16
    assert counted["folders with more than 15 entries"] == 1


def test_names_of_modules_and_public_classes_that_are_used_twice_are_counted(tiny: Tiny) -> None:
    source = tiny(
        {
            "hermes_trio/state/__init__.py": "",
            "hermes_trio/state/turn.py": "class Turn: ...\nclass _Row: ...\n",
            "hermes_trio/gateway/__init__.py": "",
            "hermes_trio/gateway/turn.py": "class Turn: ...\nclass _Row: ...\nclass Lane: ...\n",
        }
    )
    measures = folders.measures(source)
    assert found(measures, "module names used more than once") == (
        "turn: hermes_trio.gateway.turn, hermes_trio.state.turn",
    )
    assert found(measures, "public class names used more than once") == (
        "Turn: hermes_trio.gateway.turn.Turn, hermes_trio.state.turn.Turn",
    )


def test_modules_over_400_lines_are_counted_for_code_tests_and_bench(tiny: Tiny) -> None:
    source = tiny(
        {
            "hermes_trio/long.py": "x = 1\n" * 401,
            "hermes_trio/full.py": "x = 1\n" * 400,
            "tests/test_long.py": "x = 1\n" * 500,
            "tests/test_longer.py": "x = 1\n" * 501,
        }
    )
    counted = figures(folders.measures(source))
    assert [counted[f"modules over 400 lines: {what}"] for what in ("code", "tests", "bench")] == [1, 2, 0]


def test_import_cycles_are_found_through_type_checking_relative_imports_and_functions(tiny: Tiny) -> None:
    source = tiny(
        {
            "hermes_trio/__init__.py": "",
            "hermes_trio/ids.py": "",
            "hermes_trio/gateway/__init__.py": "",
            "hermes_trio/gateway/a.py": "from . import b\nfrom ..ids import x\n",
            "hermes_trio/gateway/b.py": "if TYPE_CHECKING:\n    from .c import C\n",
            "hermes_trio/gateway/c.py": "def f():\n    import hermes_trio.gateway.a\n",
            "hermes_trio/gateway/free.py": "from . import a\n",
            "hermes_trio/web/__init__.py": "from .door import Door\n",
            "hermes_trio/web/door.py": "from . import NAME\nfrom hermes_trio.cli import run\n",
            "hermes_trio/cli/run.py": "from ..web.door import Door\n",
        }
    )
    measures = cycles.measures(source)
    assert figures(measures) == {
        "modules in import cycles": 6,
        "modules in the largest import cycle": 3,
        "inside hermes_trio.gateway": 3,
        "inside hermes_trio.web": 2,
    }
    assert found(measures, "modules in import cycles") == (
        "  3: hermes_trio.cli.run, hermes_trio.web, hermes_trio.web.door",
        "  3: hermes_trio.gateway.a, hermes_trio.gateway.b, hermes_trio.gateway.c",
    )


def test_cycles_of_a_graph_are_its_strongly_connected_components() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d", "f"}, "f": set[str]()}
    assert cycles.cycles(graph) == [["a", "b", "c"], ["d", "e"]]


def test_public_names_are_those_of_all_and_of_imports_as_themselves(tiny: Tiny) -> None:
    source = tiny(
        {
            "hermes_trio/__init__.py": "from .ids import Id as Id\n__all__ = ['serve', '__version__']\n",
            "hermes_trio/ids.py": "from .x import Hidden as Hidden\n",
            "hermes_trio/testing/__init__.py": "from ..ids import Id as Id\nfrom .a import B as C\n",
        }
    )
    measures = surface.measures(source)
    assert found(measures, "public names") == ("Id: hermes_trio, hermes_trio.testing", "serve: hermes_trio")
    counted = figures(measures)
    assert counted["public names with more than one place"] == 1
    assert (counted["public names of hermes_trio"], counted["public names of hermes_trio.testing"]) == (2, 1)


def test_patches_of_our_names_are_counted_and_those_of_others_are_not(tiny: Tiny) -> None:
    source = tiny(
        {
            "tests/test_groups.py": (
                "import os\n"
                "from hermes_trio.host import groups as ours\n"
                "def test(monkeypatch):\n"
                "    monkeypatch.setattr(ours, 'LIMIT', 1)\n"
                "    monkeypatch.setattr(ours.Group, 'signal', None)\n"
                "    monkeypatch.setattr('hermes_trio.ids.x', 1)\n"
                "    with mock.patch.object(ours, 'y'), patch('hermes_platforms.z'): ...\n"
                "    ours.LIMIT = 2\n"
                "    monkeypatch.setattr(os, 'open', None)\n"
                "    monkeypatch.setenv('HOME', 'x')\n"
                "    http.patch('/api/sessions')\n"
            )
        }
    )
    [lines] = [found(patches.measures(source), "patches of internals in tests")]
    assert sorted(int(line.split()[0].rpartition(":")[2]) for line in lines) == [4, 5, 6, 7, 7, 8]


def test_private_names_of_ours_are_counted_where_tests_set_or_import_them(tiny: Tiny) -> None:
    source = tiny(
        {
            "hermes_trio/lane.py": "class Lane:\n    def __init__(self):\n        self._held = 1\n",
            "tests/test_lane.py": (
                "from hermes_trio import __version__\n"
                "from hermes_trio.lane import _secret, Lane\n"
                "from hermes_trio import lane as module\n"
                "module._other()\n"
                "lane._held += 2\n"
                "loop._foreign = 3\n"
                "class Own(Lane):\n"
                "    def f(self): self._held = 4\n"
            ),
        }
    )
    measures = patches.measures(source)
    assert found(measures, "private attributes set by tests") == ("tests/test_lane.py:5 lane._held",)
    assert found(measures, "private names of ours in tests") == (
        "tests/test_lane.py:2 from hermes_trio.lane import _secret, Lane",
        "tests/test_lane.py:4 module._other",
    )


def test_lengths_and_parameters_of_functions_are_measured(tiny: Tiny) -> None:
    short = "".join(f"def f{number}(): ...\n" for number in range(8))
    source = tiny(
        {
            "hermes_trio/a.py": (
                short
                + "class C:\n    def seven(self, a, b, /, c, *d, e, f, **g):\n        return 1\n"
                + "def six(a, b, c, d, e, f):\n    x = 1\n    return x\n"
            )
        }
    )
    measures = wording.measures(source)
    counted = figures(measures)
    assert counted["lines of a function: median"] == 1
    assert counted["lines of a function: 90 of 100 have at most"] == 2
    assert found(measures, "lines of the longest function")[:2] == (
        "   3 hermes_trio/a.py:12 six",
        "   2 hermes_trio/a.py:10 C.seven",
    )
    assert found(measures, "functions with more than 6 parameters") == ("  7 hermes_trio/a.py:10 C.seven",)


def test_docstrings_with_an_indirect_first_word_are_counted(tiny: Tiny) -> None:
    source = tiny(
        {
            "hermes_trio/a.py": (
                '"""What it does."""\n'
                'def f():\n    """Return a number."""\n'
                'class C:\n    """Somebody."""\n    x: int\n    """So many seconds."""\n'
            ),
            "tests/a.py": '"""Whoever does so."""\n',
        }
    )
    counted = figures(wording.measures(source))
    assert counted["docstrings with an indirect first word: code"] == 2
    assert counted["docstrings with an indirect first word: tests, bench"] == 1


def test_samples_are_the_same_for_a_seed(tiny: Tiny) -> None:
    source = tiny(
        {
            "hermes_trio/a.py": 'log.info("marker written", n=1)\n'
            + "".join(f'def f{number}():\n    """Return {number}."""\n' for number in range(40)),
            "tests/test_a.py": "async def test_a(): ...\ndef helper(): ...\n",
        }
    )
    first = wording.samples(source, 1)
    assert first == wording.samples(source, 1) != wording.samples(source, 2)
    assert len(set(first["docstrings"])) == 10
    assert first["log events"] == ["hermes_trio/a.py:1 'marker written'"]
    assert first["test names"] == ["test_a"]


def test_a_walk_counts_calls_files_and_hops_and_no_call_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "tiny_walked"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text(
        "import asyncio\n"
        "from . import two, pipes\n"
        "async def walk():\n"
        "    two.f()\n"
        "    await two.g()\n"
        "    pipes.clean()\n"
        "    return back([x for x in two.numbers()])\n"
        "def back(x):\n"
        "    return sorted(x, key=lambda n: -n)\n"
    )
    (package / "two.py").write_text(
        "import asyncio\n"
        "def f(): ...\n"
        "async def g():\n"
        "    await asyncio.sleep(0)\n"
        "    task = asyncio.create_task(hang())\n"
        "    await asyncio.sleep(0)\n"
        "    task.cancel()\n"
        "    await asyncio.wait([task])\n"
        "async def hang():\n"
        "    await asyncio.sleep(60)\n"
        "def numbers():\n"
        "    yield 1\n"
        "    yield 2\n"
    )
    (package / "pipes.py").write_text("def clean(): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    one = importlib.import_module("tiny_walked.one")

    with walk.recorded([package], plumbing=["*.pipes"]) as walked:
        assert asyncio.run(one.walk()) == [2, 1]

    assert [name for _, name in walked.calls] == ["walk", "f", "g", "hang", "numbers", "back"]
    assert (walked.files, walked.hops) == (2, 2)
    assert walked.steps() == (
        "tiny_walked.one: walk",
        "tiny_walked.two: f, g, hang, numbers",
        "tiny_walked.one: back",
    )


@pytest.mark.parametrize("text", ["hello", "/stop"])
def test_a_walk_is_the_same_in_each_run(text: str) -> None:
    first = walk.walk_of(text)
    assert len(first.calls) > first.hops > first.files > 10
    assert walk.walk_of(text).calls == first.calls


def test_a_walk_is_the_same_in_each_process() -> None:
    # The order of a set of strings depends on this seed.
    told = "from tests.house.walk import walk_of; print(walk_of('hello').calls, walk_of('/stop').calls)"
    runs = {
        subprocess.run(
            [sys.executable, "-c", told],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=50,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_the_table_shows_before_and_now_and_marks_a_missed_goal() -> None:
    grouped = {"Sizes": [Measure("bad", 3, 2, ("here",)), Measure("good", 1, 1), Measure("free", 7)]}
    shown = table(grouped, {"Sizes": {"bad": 9}}, everything=True).splitlines()
    assert [line.split() for line in shown[2:]] == [
        ["Sizes"],
        ["bad", "9", "3", "*", "≤", "2"],
        ["here"],
        ["good", "-", "1", "≤", "1"],
        ["free", "-", "7"],
    ]


def test_the_report_runs_on_our_own_tree_and_gives_the_figures_as_json() -> None:
    result = CliRunner().invoke(main, ["--json", "--long", "--seed", "1"], catch_exceptions=False)
    assert result.exit_code == 0
    values = json.loads(result.stdout)
    before = json.loads(BEFORE.read_text(encoding="utf-8"))
    assert values["figures"].keys() == before["figures"].keys()
    assert values["figures"]["Walks"]["plumbing patterns that match no module"] == 0, "a module has moved"
    assert {what: len(texts) for what, texts in values["samples"].items()} == {
        "docstrings": 10,
        "log events": 10,
        "test names": 10,
    }


def test_the_report_shows_figures_of_an_earlier_tree_beside_those_of_now() -> None:
    result = CliRunner().invoke(main, [], catch_exceptions=False)
    assert result.exit_code == 0
    earlier = json.loads(BEFORE.read_text(encoding="utf-8"))["figures"]["Walks"]["calls for one message"]
    [line] = [line for line in result.stdout.splitlines() if "calls for one message" in line]
    assert line.split()[4] == str(earlier)
