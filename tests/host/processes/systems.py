"""Operating systems with a defect."""

from __future__ import annotations

import errno

from hermes_trio.host.processes.sweep import ProcessTable, SeenProcess, System


class ScarceSystem(System):
    """Has no descriptor for the next `refusals` looks."""

    def __init__(self, refusals: float = 0) -> None:
        super().__init__()
        self.refusals = refusals
        self.looks = 0
        """The number of looks that were tried."""

    def look(self) -> ProcessTable:
        self.looks += 1
        self._take_descriptor()
        return super().look()

    def find(self, pid: int) -> SeenProcess | None:
        self._take_descriptor()
        return super().find(pid)

    def _take_descriptor(self) -> None:
        if self.refusals > 0:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")


class PowerlessSystem(System):
    """Refuses every signal, as the kernel does to the processes of another user."""

    def signal(self, pid: int, number: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    def signal_group(self, pid: int, number: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")
