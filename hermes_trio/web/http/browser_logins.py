"""The browsers that are logged in to the page.

The list is kept in memory beside its table, because every request of a page reads it. A log-out also ends
the open answers to that browser, above all its stream of events.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress

import trio
from starlette.types import ASGIApp, Receive, Scope, Send

from ...base.errors import StoreError
from ...base.world import World
from ...state.db.database import Database
from ...state.tables import logins
from ...state.tables.logins import Login


class BrowserLogins:
    """The log-ins that have not expired."""

    def __init__(self, database: Database, world: World) -> None:
        self._database, self._world = database, world
        self._logins: dict[str, Login] = {}
        self._turn = trio.Lock()
        """Held from a use of the table until its result is noted: an older look undoes no newer change."""
        self._answers: defaultdict[str, set[trio.CancelScope]] = defaultdict(set)

    async def load(self) -> None:
        """Read the table."""
        async with self._turn:
            self._note(await self._database.read(logins.every))

    async def follow(self, every: float) -> None:
        """Read the table again and again, until cancelled: another gateway may let browsers in and out."""
        while True:
            await trio.sleep(every)
            with suppress(StoreError):
                await self.load()

    def every(self) -> list[Login]:
        """Return the valid log-ins, the newest first."""
        return [one for one in self._logins.values() if one.expires_at > self._world.time()]

    def get(self, login_id: str) -> Login | None:
        """Return the log-in with this id, if it is valid."""
        login = self._logins.get(login_id)
        return login if login is not None and login.expires_at > self._world.time() else None

    async def add(self, login: Login) -> None:
        """Store a log-in. It is valid from now on."""
        async with self._turn:
            self._note(await self._database.write(logins.add, login))

    async def end(self, login_id: str) -> None:
        """Log a browser out, and end its open answers."""
        async with self._turn:
            await self._database.write(logins.remove, login_id)
            self._logins.pop(login_id, None)
            self._cancel(login_id)

    def answering(self, login: Login, app: ASGIApp) -> ASGIApp:
        """Return an answer that ends when this log-in ends."""

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            answers = self._answers[login.login_id]
            with trio.CancelScope() as whole:
                answers.add(whole)
                try:
                    await app(scope, receive, send)
                finally:
                    answers.discard(whole)
                    if not answers:
                        self._answers.pop(login.login_id, None)

        return respond

    def _note(self, found: list[Login]) -> None:
        self._logins = {one.login_id: one for one in found}
        for login_id in self._answers.keys() - self._logins.keys():
            self._cancel(login_id)

    def _cancel(self, login_id: str) -> None:
        for whole in self._answers.get(login_id, ()):
            whole.cancel(reason="logged out")
