"""Judging of input for running processes. The processes are real."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from hermes_trio.config.schema import TerminalConfig
from hermes_trio.tools.safety.process_input import InputReader, is_answer, is_whole, reader_of
from tests.stage import Stage, everyone
from tests.tools.bench import Bench

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")

LAST = {"process_id": "last"}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (work := tmp_path / "work").mkdir()
    (work / "build").mkdir()
    return work


@pytest.fixture
def bench(real_stage: Stage, work: Path) -> Bench:
    real_stage.config = msgspec.structs.replace(
        everyone(), terminal=TerminalConfig(cwd=str(work), timeout=20, sandbox="off")
    )
    return Bench(real_stage)


@asynccontextmanager
async def person(bench: Bench, *answers: str) -> AsyncIterator[list[str]]:
    """Answer questions with these texts, one after another and then always the last; yield the questions."""
    asked: list[str] = []

    async def watch() -> None:
        chat = bench.stage.platform.chat("42")
        while True:
            questions = [text for text in chat.texts if "May I do this?" in text]
            if len(questions) > len(asked):
                asked.append(questions[-1])
                await bench.stage.platform.says(answers[min(len(asked), len(answers)) - 1])
            await trio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        yield asked
        nursery.cancel_scope.cancel()


def starts(command: str) -> dict[str, Any]:
    return {"command": command, "background": True}


def submits(text: str) -> dict[str, Any]:
    return {"action": "submit", **LAST, "data": text}


def writes(text: str) -> dict[str, Any]:
    return {"action": "write", **LAST, "data": text}


OVER = ({"action": "close", **LAST}, {"action": "wait", **LAST})


async def test_a_background_shell_runs_no_harmful_input_without_a_yes(bench: Bench, work: Path) -> None:
    async with bench.life(), person(bench, "no", "yes") as asked:
        _, first, second, *_, over = await bench.do(
            starts("bash"), submits("rm -rf build"), submits("rm -rf build/x; echo still"), *OVER
        )
        assert first.content.startswith("BLOCKED: this deletes recursively.")
        assert "characters" in second.content
        assert "still" in over.content
        assert (work / "build").exists()
        assert ["rm -rf build" in text for text in asked] == [True, True]


async def test_blocked_input_is_not_given_to_a_shell(bench: Bench) -> None:
    async with bench.life(), person(bench, "yes") as asked:
        _, *refused = await bench.do(starts("bash"), submits("rm -rf /"), submits("hermes-trio stop"))
        assert all("nobody can allow this" in one.content for one in refused)
        assert asked == []


async def test_harmless_input_for_a_shell_needs_no_yes(bench: Bench, work: Path) -> None:
    async with bench.life(), person(bench, "no") as asked:
        calls = map(submits, ("cd build", "echo hi > a", "for x in 1 2; do", "echo $x", "done", "ls"))
        *_, over = await bench.do(starts("bash"), *calls, *OVER)
        assert "1\n2\na" in over.content
        assert asked == []


@pytest.mark.parametrize(
    "pieces",
    [
        ["rm -rf", " bui", "ld\n"],
        ["r", "m", " -", "rf build", "\n"],
        ["x=rm\n", "$x -rf build\n"],
        ["cd ..\n", "rm -rf work/build\n"],
        ["rm \\\n", "-rf build\n"],
        ["sh <<EOF\n", "rm -rf build\n", "EOF\n"],
        ["echo 'rm -rf build' |\n", "sh\n"],
        ["f() {\n", "rm -rf build\n", "}\n", "f\n"],
        ["cat <<A\n: '\nA\n", "rm -rf build\n", ": '\n"],
    ],
    ids=lambda pieces: repr(pieces[0]),
)
async def test_a_harmful_line_sent_in_pieces_needs_a_yes(bench: Bench, work: Path, pieces: list[str]) -> None:
    async with bench.life(), person(bench, "no") as asked:
        *results, _, over = await bench.do(starts("bash"), *map(writes, pieces), *OVER)
        assert (work / "build").exists(), over.content
        assert asked
        assert any(one.content.startswith("BLOCKED") for one in results)


async def test_a_harmful_line_cut_at_random_places_needs_a_yes(bench: Bench, work: Path) -> None:
    seed = random.randrange(2**32)  # noqa: S311
    print(f"seed {seed}")
    chance = random.Random(seed)  # noqa: S311
    texts = (
        "x=build\nrm -rf $x\n",
        "cd .. && rm -r -f work/build\n",
        "sh -c 'rm -rf build'\n",
        "pkill -f x$$\n",
    )
    async with bench.life(), person(bench, "no"):
        for text in chance.choices(texts, k=8):
            cuts = sorted(chance.sample(range(1, len(text)), k=3))
            pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
            *results, _, _ = await bench.do(starts("bash"), *map(writes, pieces), *OVER)
            assert (work / "build").exists(), pieces
            assert any(one.content.startswith("BLOCKED") for one in results), pieces


async def test_a_yes_to_a_shell_does_not_cover_its_later_input(bench: Bench, work: Path) -> None:
    async with bench.life(), person(bench, "yes", "no") as asked:
        _, given, *_ = await bench.do(starts("cat | sh"), submits("rm -rf build"), *OVER)
        assert given.content.startswith("BLOCKED")
        assert len(asked) == 2
        assert (work / "build").exists()


async def test_input_for_an_interpreter_needs_a_yes_and_is_shown_whole(bench: Bench, work: Path) -> None:
    code = "import pathlib; pathlib.Path('made').touch()"
    async with bench.life(), person(bench, "no", "yes") as asked:
        _, first, second, *_ = await bench.do(
            starts("python3 -i"), submits(code), submits(code + " # again"), *OVER
        )
        assert first.content.startswith("BLOCKED: this is input for a program that may run what it reads.")
        assert not second.is_error
        assert code in asked[0]
        assert "python3 -i" in asked[0]
        assert (work / "made").exists()
        assert len(asked) == 2


async def test_input_for_an_interpreter_started_by_a_shell_needs_a_yes(bench: Bench, work: Path) -> None:
    async with bench.life(), person(bench, "no") as asked:
        code = "open('made', 'w')"
        _, _, given, *_ = await bench.do(starts("bash"), submits("python3 -iq"), submits(code), *OVER)
        assert given.content.startswith("BLOCKED")
        assert code in asked[0]
        assert not (work / "made").exists()


async def test_plain_answers_and_data_need_no_yes(bench: Bench, work: Path) -> None:
    (work / "asks.py").write_text("print(input('Go on? [y/N] '), input(), repr(input()))")
    async with bench.life(), person(bench, "no") as asked:
        calls = starts("python3 asks.py"), submits("y"), submits("12"), submits(""), OVER[1]
        *_, over = await bench.do(*calls)
        assert "y 12 ''" in over.content
        *_, over = await bench.do(starts("cat; wc -l"), submits("rm -rf /"), *OVER)
        assert "rm -rf /" in over.content
        assert asked == []


@pytest.mark.parametrize(
    ("reader", "commands"),
    [
        (InputReader.SHELL,
         ["bash", "sh -s", "exec bash -i", "/bin/sh", "cat | sh", "ssh host", "cd x && bash",
          "bash --norc -i", "nohup zsh"]),
        (InputReader.DATA,
         ["cat", "while read x; do echo got $x; done", "tee out | wc -l", "sleep 5", "grep x"]),
        (InputReader.UNKNOWN,
         ["python3 -i", "node", "psql db", "./run", "bash run.sh", "bash -c 'read x; $x'",
          "tr a-z b-za | sh", "cat | sh | sh", "docker exec -i box sh", "xargs rm", "sed e",
          "read x; echo $((x))", "read x; echo ${a[x]}", "read x; [[ $x -gt 1 ]]", "./cat",
          "PATH=.:$PATH; cat", "sh < pipe", "bash --rcfile x", "ssh host python3", "$SHELLS",
          "cat <<EOF"]),
    ],
)  # fmt: skip
def test_reader_of_knows_the_kind_of_program_by_its_command(reader: InputReader, commands: list[str]) -> None:
    assert [(one, reader_of(one)) for one in commands] == [(one, reader) for one in commands]


@pytest.mark.parametrize(
    ("given", "reader"),
    [
        ("make\npython3 x.py\npsql < x.sql\necho 1 | python3\n", InputReader.SHELL),
        ("python3\n", InputReader.UNKNOWN),
        ("env X=1 python3 -i x.py\n", InputReader.UNKNOWN),
        ("sudo -u db psql\n", InputReader.UNKNOWN),
        ("docker exec -it box node\n", InputReader.UNKNOWN),
        ("source /dev/stdin\n", InputReader.UNKNOWN),
    ],
)
def test_reader_of_knows_a_shell_by_its_earlier_input(given: str, reader: InputReader) -> None:
    assert reader_of("bash", given) is reader


def test_is_whole_knows_the_end_of_a_statement() -> None:
    whole = ("ls\n", "echo 'a\nb'\n", "cat <<E\nx\nE\n", "ls && pwd\n", "")
    assert [is_whole(text) for text in whole] == [True, True, True, True, False]
    assert not any(map(is_whole, ("ls", "ls \\\n", "ls |\n", "echo 'a\n", "cat <<E\nx\n", "echo $(\n")))


def test_is_answer_knows_plain_answers() -> None:
    assert all(map(is_answer, ("", "\n", "y", "Y\n", "no\n", "12\n3\n", "yes\n\n")))
    assert not any(map(is_answer, ("yes;", "y\nx", "exit()", "rm", "1+1", "no rm\n", "y\0", "1" * 10)))
