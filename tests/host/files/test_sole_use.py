"""Resources that only one process of this machine may use, such as a bot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_trio import GatewayError
from hermes_trio.platform import sole_use

HOLDER = """
import sys
from hermes_trio.platform import sole_use
with sole_use("parrot", "Polly") as alone:
    print(alone, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def is_free(of: str, identity: str) -> bool:
    with sole_use(of, identity) as alone:
        return alone


def test_one_holder_at_a_time_has_the_sole_use_of_a_resource() -> None:
    with sole_use("parrot", "Polly") as alone:
        assert alone
        assert not is_free("parrot", "Polly")
        assert is_free("parrot", "Coco")
        assert is_free("cat", "Polly")
    assert is_free("parrot", "Polly")


def test_a_killed_holder_loses_the_sole_use() -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert not is_free("parrot", "Polly")
    finally:
        holder.kill()
        holder.communicate()
    assert is_free("parrot", "Polly")


def test_the_lock_file_does_not_show_the_identity(state: Path) -> None:
    assert is_free("parrot", "123456:secret")
    [lock] = (path for path in state.rglob("*") if path.is_file())
    assert "secret" not in lock.name
    assert lock.read_bytes() == b""
    assert os.name != "posix" or lock.stat().st_mode & 0o077 == 0


def test_a_lock_that_cannot_be_made_is_an_error_with_a_remedy(state: Path) -> None:
    state.write_text("a file, where a directory should be")
    with pytest.raises(GatewayError, match="Set XDG_STATE_HOME"), sole_use("parrot", "Polly"):
        pass
