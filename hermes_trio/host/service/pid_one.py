"""The first process of a container, in place of the gateway.

Process 1 inherits every process whose parent has ended and has to reap it, and the kernel delivers no signal
to it that it does not ask for. A gateway that reaped every process would also reap its own commands, before
the tasks that wait for them. So this program is process 1: it starts the gateway as its child, forwards the
signals that the gateway knows, reaps all processes, starts the gateway again when it exits with the code for
a restart, and otherwise exits with its code.

`become_init` replaces the calling program with it. The file needs the standard library alone and is run as a
script by an interpreter without site packages, so it stays small.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

FORWARDED = ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2")


def become_init(command: Sequence[str], restart_code: int) -> None:
    """Become process 1 with this command as the child. Does not return."""
    arguments = [sys.executable, "-I", "-S", __file__, str(restart_code), *command]
    os.execv(sys.executable, arguments)  # noqa: S606


def main(restart_code: int, command: list[str]) -> int:
    """Run the command, again after each exit with `restart_code`, and return its last exit code."""
    numbers = {signal.Signals[name] for name in FORWARDED}
    # Blocked signals wait for `sigwait`: none is lost, and none interrupts.
    signal.pthread_sigmask(signal.SIG_BLOCK, {*numbers, signal.SIGCHLD})
    while (code := _run_child(command)) == restart_code:
        pass
    return code


def _run_child(command: list[str]) -> int:
    environment = {**os.environ, "HERMES_GATEWAY_EXTERNAL_SUPERVISOR": "1"}
    # In its own process group: Ctrl-C in a terminal reaches only us, and is forwarded once.
    child = os.posix_spawn(command[0], command, environment, setpgroup=0, setsigmask=[])
    while True:
        number = signal.sigwait({signal.SIGCHLD, *(signal.Signals[name] for name in FORWARDED)})
        if number != signal.SIGCHLD:
            os.kill(child, number)  # its pid is reserved until `_reap` reports its end
        elif (code := _reap(child)) is not None:
            return code


def _reap(child: int) -> int | None:
    """Reap all processes that have ended. Return the exit code of the child if it is among them."""
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
            code = left if left >= 0 else 128 - left  # as a shell does


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
