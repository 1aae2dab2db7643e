"""Any file is either understood or refused, whatever its content is."""

from __future__ import annotations

import json
from contextlib import suppress

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from hermes_trio.base.errors import ConfigInvalid
from hermes_trio.config.schema import GatewayConfig, PlatformConfig
from tests.config.reading import Load, paths, rewriting

NAMES = sorted({part for path in paths(GatewayConfig) for part in path.split(".")} | {"telegram"})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(NAMES),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(NAMES), inner),
)
PIECES = st.sampled_from(
    [*"\n \t:-{}[]&*!|>'\"%@,#?", *NAMES, ": ", "- ", "---", "&a ", "*a", "<<", "${A}", "${", "~",
     "!!int", "1", "-.5", ".inf", "0o7", "2026-01-01", "\\U", "%YAML 1.1\n", "\n  ", "\r", "é", "\x85"]
)  # fmt: skip


@given(
    content=st.binary()
    | st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.lists(PIECES, max_size=40).map(lambda pieces: "".join(pieces).encode())
    | st.dictionaries(st.sampled_from(NAMES), VALUES).map(lambda tree: json.dumps(tree).encode())
)
@example(content=b'"\\UFFFFFFFF"')
@example(content=b"%YAML 1.1\n--- {a: 0o9, b: 09, c: 1:30, d: 1e999}")
@rewriting
def test_any_file_is_either_understood_or_refused(load: Load, content: bytes) -> None:
    with suppress(ConfigInvalid):
        config = load(content, {"A": "a"}).config
        assert all(isinstance(each, PlatformConfig) for each in config.platforms.values())
        # What was understood is right: every value passes the checks of its own key once more.
        assert msgspec.convert(msgspec.to_builtins(config), GatewayConfig) == config


@given(text=st.text(st.sampled_from("AB=' \"\\#\n\r\texport$é")))
@rewriting
def test_any_dotenv_is_read_or_warned_about(load: Load, text: str) -> None:
    for warning in load("", dotenv=text).warnings:
        assert "is not KEY=value" in warning
