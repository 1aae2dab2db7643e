"""The laws and the stories of XMPP in a process of their own: trio-asyncio changes asyncio for a whole
process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.platforms.conftest import NEEDS_TRIO_ASYNCIO
from tests.platforms.xmpp.prosody_server import MAY_RUN

CONNECTIONS = "100"
"""Connections of the law about leaks: each needs ten answers of the server."""


@pytest.mark.skipif(find_spec("slixmpp") is None, reason="slixmpp is not installed")
@pytest.mark.skipif(NEEDS_TRIO_ASYNCIO in os.environ, reason="this is that process")
def test_the_laws_and_the_stories_of_xmpp(tmp_path: Path) -> None:
    here = Path(__file__).parent
    places = [here.parent / "test_laws.py", here / "test_link.py", here / "test_prosody.py"]
    at_temp = ["--basetemp", str(tmp_path / "inner")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "xmpp", *at_temp, *places],
        cwd=here.parents[2],
        env={**os.environ, NEEDS_TRIO_ASYNCIO: "1", "CONNECTIONS": CONNECTIONS},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    passed = re.search(r"(\d+) passed", done.stdout.splitlines()[-1])
    assert passed is not None
    assert int(passed[1]) == 25 + 11 + (7 if MAY_RUN else 0), "all of them ran"
