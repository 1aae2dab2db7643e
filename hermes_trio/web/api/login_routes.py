"""The browsers that are let in: the list of them, and the log-out.

The list is kept in memory beside its table, since every request of a page asks for it. A log-out also ends
what is still being answered to that browser: the stream of events above all.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ...base.world import World
from ...state.db.database import Database
from ...state.tables import logins
from ...state.tables.logins import Login
from ..http.http_errors import NotThere, answer

if TYPE_CHECKING:
    from ..app import Web

CURRENT = "current"
"""In the place of an id: the log-in of the browser that asks."""


class Logins:
    """The log-ins that count."""

    def __init__(self, database: Database, world: World) -> None:
        self._database, self._world = database, world
        self._logins: dict[str, Login] = {}
        self._answers: defaultdict[str, set[trio.CancelScope]] = defaultdict(set)

    async def load(self) -> None:
        """Read the table."""
        self._note(await self._database.read(logins.every))

    def every(self) -> list[Login]:
        """Return the log-ins that count, the newest first."""
        return [one for one in self._logins.values() if one.expires_at > self._world.time()]

    def get(self, login_id: str) -> Login | None:
        """Return the log-in of this id, if it counts."""
        login = self._logins.get(login_id)
        return login if login is not None and login.expires_at > self._world.time() else None

    async def add(self, login: Login) -> None:
        """Store a log-in. It counts from now on."""
        self._note(await self._database.write(logins.add, login))

    async def end(self, login_id: str) -> None:
        """Log a browser out. Its open answers end."""
        await self._database.write(logins.remove, login_id)
        self._logins.pop(login_id, None)
        self._cancel(login_id)

    def answering(self, login: Login, app: ASGIApp) -> ASGIApp:
        """Return an answer that ends with this log-in."""

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


async def every(web: Web, request: Request) -> Response:
    """`GET /api/logins`: the browsers that are let in to the page, the newest first."""
    current = web.auth.login_of(request)
    return answer(
        {
            "logins": [
                {
                    "id": one.login_id,
                    "made_at": one.made_at,
                    "expires_at": one.expires_at,
                    "browser": one.browser,
                    "current": current is not None and one.login_id == current.login_id,
                }
                for one in web.auth.logins.every()
            ]
        }
    )


async def end(web: Web, request: Request) -> Response:
    """`DELETE /api/logins/{id}`: log a browser out. The id `current` is that of the browser that asks."""
    current, login_id = web.auth.login_of(request), request.path_params["login_id"]
    login = current if login_id == CURRENT else web.auth.logins.get(login_id)
    if login is None:
        raise NotThere("log-in", "GET /api/logins has the list.")
    await web.auth.logins.end(login.login_id)
    response = answer({"id": login.login_id, "ended": True})
    if login == current:
        response.delete_cookie(web.auth.cookie, path="/")
    return response
