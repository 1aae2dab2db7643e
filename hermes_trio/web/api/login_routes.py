"""Log-ins: logging a browser in with the key, the list of log-ins, and the log-out."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from ..http.auth import Auth, cookie_path
from ..http.http_errors import NotThere, json_response

CURRENT = "current"
"""Stands for the id of the log-in of the browser that sends the request."""


@dataclass(frozen=True, slots=True)
class LoginRoutes:
    """The handlers of the log-in routes."""

    auth: Auth

    async def log_in_by_key(self, request: Request) -> Response:
        """`POST /login` `{key}`: log a browser in with the key. The answer has a cookie, and the page key in
        the header `X-Hermes-Page`; requests of the page need both."""
        return await self.auth.log_in_by_key(request)

    async def every(self, request: Request) -> Response:
        """`GET /api/logins`: the browsers that are logged in to the page, the newest first."""
        current = self.auth.login_of(request)
        return json_response(
            {
                "logins": [
                    {
                        "id": one.login_id,
                        "made_at": one.made_at,
                        "expires_at": one.expires_at,
                        "browser": one.browser,
                        "current": current is not None and one.login_id == current.login_id,
                    }
                    for one in self.auth.logins.every()
                ]
            }
        )

    async def end(self, request: Request) -> Response:
        """`DELETE /api/logins/{id}`: log a browser out. The id `current` stands for the browser that sends
        the request."""
        current, login_id = self.auth.login_of(request), request.path_params["login_id"]
        login = current if login_id == CURRENT else self.auth.logins.get(login_id)
        if login is None:
            raise NotThere("log-in", "GET /api/logins has the list.")
        await self.auth.logins.end(login.login_id)
        response = json_response({"id": login.login_id, "ended": True})
        if login == current:
            response.delete_cookie(self.auth.cookie, path=cookie_path(request))
        return response
