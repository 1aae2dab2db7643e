"""Two events that can happen repeatedly. A `trio.Event` happens once; these replace an attribute that holds
a new `trio.Event` after each use.

| class    | `set()` while no task waits | for                                                            |
|----------|-----------------------------|----------------------------------------------------------------|
| `Pulse`  | is forgotten                | any number of tasks, each of which rechecks its own condition   |
| `Wakeup` | is remembered until cleared | one task that does all the work there is, then waits for more   |

Neither is safe to use from other threads.
"""

from __future__ import annotations

import trio


class Pulse:
    """A change that any number of tasks can wait for.

    A task checks its condition and waits in one step, so it cannot miss a change in between:

        while not condition():
            await changed.wait()
    """

    def __init__(self) -> None:
        self._next = trio.Event()

    def set(self) -> None:
        """Wake all tasks that wait now."""
        happened, self._next = self._next, trio.Event()
        happened.set()

    async def wait(self) -> None:
        """Wait for the next `set`."""
        await self._next.wait()


class Wakeup:
    """A note to one task that there may be work.

    The task clears the note before it looks for work, so a note that comes meanwhile is kept:

        while True:
            await wakeup.wait()
            wakeup.clear()
            await work()
    """

    def __init__(self) -> None:
        self._event = trio.Event()

    def is_set(self) -> bool:
        """Return True if `set` was called after the last `clear`."""
        return self._event.is_set()

    def set(self) -> None:
        """Leave the note, and wake the task if it waits."""
        self._event.set()

    def clear(self) -> None:
        """Remove the note. A task that is being woken stays awake; one that waits goes on waiting."""
        if self._event.is_set():
            self._event = trio.Event()

    async def wait(self) -> None:
        """Wait until the note is there."""
        await self._event.wait()
