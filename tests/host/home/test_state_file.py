"""`gateway_state.json` as other processes read it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hermes_trio.host.files.json_files import LARGEST, write_small
from hermes_trio.host.home.state_file import (
    STATUS_FILE,
    GatewayState,
    PlatformState,
    PlatformStatus,
    read_status,
)
from hermes_trio.host.home.status_board import shown_state

STARTING, RUNNING, DEGRADED, DRAINING, STOPPED, STARTUP_FAILED = GatewayState
CONNECTING, CONNECTED, RETRYING, FATAL, DISABLED = PlatformState


@pytest.mark.parametrize("state", [STARTING, DRAINING, STOPPED, STARTUP_FAILED])
def test_only_a_running_gateway_can_be_degraded(state: GatewayState) -> None:
    assert shown_state(state, {"telegram": PlatformStatus(FATAL)}) is state


@pytest.mark.parametrize(
    ("platforms", "shown"),
    [
        ((), RUNNING),
        ((CONNECTED,), RUNNING),
        ((DISABLED,), RUNNING),
        ((CONNECTED, DISABLED, CONNECTED), RUNNING),
        ((CONNECTING,), DEGRADED),
        ((CONNECTED, RETRYING), DEGRADED),
        ((CONNECTED, FATAL), DEGRADED),
    ],
)
def test_a_running_gateway_is_degraded_when_a_platform_is_missing(
    platforms: tuple[PlatformState, ...], shown: GatewayState
) -> None:
    links = {str(place): PlatformStatus(state) for place, state in enumerate(platforms)}
    assert shown_state(RUNNING, links) is shown


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"gateway_state": "running"}',
        b"\xff",
        b"[" * 60_000,
        b" " * LARGEST + b" ",
    ],
)
def test_a_status_that_cannot_be_read_is_none(tmp_path: Path, content: bytes) -> None:
    write_small(tmp_path / STATUS_FILE, content)
    assert read_status(tmp_path) is None


def test_a_missing_status_or_a_directory_in_its_place_is_none(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    (tmp_path / STATUS_FILE).mkdir()
    assert read_status(tmp_path) is None


def test_the_modules_of_the_command_line_do_not_load_trio() -> None:
    code = (
        "import sys\n"
        "from hermes_trio.host.home import home_lock, markers, state_file\n"
        "from hermes_trio.host.processes import process_identity\n"
        "print({'trio', 'structlog', 'outcome'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=30)
    assert result.stdout.strip() == b"set()"
