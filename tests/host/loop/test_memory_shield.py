"""The memory of a gateway is closed to other processes of its account."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("setpriv") is None, reason="Linux has it, and setpriv shows it"
)

WITHOUT = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
"""Root may look at everything, so both processes of the test give up the capabilities for that."""
PROGRAM = """
import sys
from hermes_trio.host.loop.memory_shield import close_memory
if sys.argv[1] == "closed":
    close_memory()
print("ready", flush=True)
input()
"""


@pytest.mark.parametrize(("state", "is_read"), [("closed", False), ("open", True)])
def test_another_process_of_the_account_reads_the_environment_only_without_the_shield(
    state: str, is_read: bool
) -> None:
    with subprocess.Popen(
        [*WITHOUT, sys.executable, "-c", PROGRAM, state], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as gateway:
        assert gateway.stdout is not None
        assert gateway.stdin is not None
        gateway.stdout.readline()
        reads = ["cat", f"/proc/{gateway.pid}/environ"]
        looked = subprocess.run([*WITHOUT, *reads], capture_output=True, check=False)
        gateway.stdin.write(b"\n")
        gateway.stdin.close()
    assert (looked.returncode == 0) is is_read, looked.stderr
