"""A configuration written to a home and loaded from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes_trio.config.config_file import Loaded, load_config
from tests.config.reading import Load


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return a function that writes the files of a home and loads them with an environment."""

    def write_and_load(
        config: str | bytes, environ: Mapping[str, str] | None = None, dotenv: str = ""
    ) -> Loaded:
        content = config if isinstance(config, bytes) else config.encode()
        (tmp_path / "config.yaml").write_bytes(content)
        (tmp_path / ".env").write_text(dotenv, encoding="utf-8")
        return load_config(tmp_path, environ or {})

    return write_and_load
