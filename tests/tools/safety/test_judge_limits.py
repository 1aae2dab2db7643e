"""The judge of commands with any text: it is fast, and always gives a verdict."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_trio.tools.safety.judge import judge, places_here
from hermes_trio.tools.safety.verdict import Blocked, Free, NeedsYes
from tests.tools.safety.places import HERE


@pytest.mark.parametrize(
    "command",
    [
        "a" * 127_000, "'" * 127_001, '"$(' * 40_000, "$((" * 40_000, "{a,b}" * 20_000, "\\" * 127_000,
        "`" * 127_001,
        "<<a\n" * 30_000, "a;" * 60_000, "((" * 60_000, "${a:-" * 25_000, "[[ " * 40_000,
        "case x in " * 12_000,
        "!(" * 60_000, "echo " + "@(" * 60_000, "$\\\n" * 40_000, "f() { :; }; " + "f " * 60_000,
        "$a " * 40_000,
        "coproc " * 18_000, "case x\n" * 18_000, "cat <<'E'\n" + "E \n" * 40_000, "{a..z}" * 20_000,
        "x=$x$x$x;" * 14_000, "a=(" * 40_000, "$'\\" * 40_000, "f(){f|f&};" * 12_000,
        "{" * 127_000,
        "echo {" + "{a,b}," * 20_000, "[[ " + "\\" * 120_000, "sh -c '" + "a " * 60_000 + "'",
    ],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_judging_a_hostile_command_line_is_fast(command: str) -> None:
    before = time.process_time()
    judge(command, HERE)
    assert time.process_time() - before < 10, "far more than it takes, and far less than a hang"


@settings(max_examples=400)
@given(
    st.lists(
        st.sampled_from(
            [*"abr$(){}[]<>|&;'\"`\\#~*?!=/-@ \n\t", "rm", "-rf", " / ", "sh", "-c", "<<a", "$(", "${",
            "case x in ",
             "esac", "for x in ", "do ", "xargs ", "find ", "-exec ", "sudo ", "env ", "kill ", "chmod ",
             "7 ", "755 ", "git ", "<&-", "2>&- ", "2>&1 ", "<>", ">|", "<<<",
             "docker run ", "curl ", "awk ", "[[ ", "((", "x=(", "$'"]
        ),
        max_size=40,
    )
)  # fmt: skip
def test_any_text_gets_a_verdict(parts: list[str]) -> None:
    assert isinstance(judge("".join(parts), HERE), Free | NeedsYes | Blocked)


@pytest.mark.parametrize("name", ["\\x00", "\\ud800", "\\0a", "\\c", "\\xff"])
def test_a_path_that_no_file_has_gets_a_verdict(tmp_path: Path, name: str) -> None:
    places = places_here(tmp_path, tmp_path, tmp_path)
    assert isinstance(judge(f"echo a > $'{name}'", places), Free | NeedsYes)
