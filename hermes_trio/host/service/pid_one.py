"""The first process of a container, where that would be the gateway.

Process number 1 inherits every process whose parent has ended, and has to take note of their ends; and
the kernel gives it no signal that it does not ask for. A gateway that took note of everybody's end would
take those of its own commands away from under the tasks that wait for them. So number 1 is this: it
starts the gateway as its child, hands on the signals that the gateway knows, takes note of all that
ends, starts it again when it leaves with the code that asks for that, and leaves with its code otherwise.

`become_init` puts it in place of the calling program. It needs the standard library alone and is run as a
script by an interpreter without packages, so it stays small.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

HANDED_ON = ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2")


def become_init(command: Sequence[str], restart_code: int) -> None:
    """Be number 1, with this command as the child. Does not return."""
    arguments = [sys.executable, "-I", "-S", __file__, str(restart_code), *command]
    os.execv(sys.executable, arguments)  # noqa: S606


def main(restart_code: int, command: list[str]) -> int:
    """Run the command, as often as it asks for it, and return what it left with."""
    numbers = {signal.Signals[name] for name in HANDED_ON}
    # Blocked, they wait until they are asked for: none is lost, and none comes at a bad moment.
    signal.pthread_sigmask(signal.SIG_BLOCK, {*numbers, signal.SIGCHLD})
    while (code := _life(command)) == restart_code:
        pass
    return code


def _life(command: list[str]) -> int:
    environment = {**os.environ, "HERMES_GATEWAY_EXTERNAL_SUPERVISOR": "1"}
    # In a group of its own: Ctrl-C in a terminal comes to us alone, and is handed on once.
    child = os.posix_spawn(command[0], command, environment, setpgroup=0, setsigmask=[])
    while True:
        number = signal.sigwait({signal.SIGCHLD, *(signal.Signals[name] for name in HANDED_ON)})
        if number != signal.SIGCHLD:
            os.kill(child, number)  # it is ours until `_reap` has said that it ended
        elif (code := _reap(child)) is not None:
            return code


def _reap(child: int) -> int | None:
    """Take note of all that have ended; what the child left with, if it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            left = os.waitstatus_to_exitcode(status)
            code = left if left >= 0 else 128 - left  # as a shell says it


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
