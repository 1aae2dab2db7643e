"""Authentication by HTTP: the key, or the log-in of a browser.

A program sends `Authorization: Bearer <key>`. A browser logs in with a link that `run` and `link` print,
which works once and for ten minutes, or with the key itself. A log-in has two halves: a cookie, and a page
key that the page keeps in its own storage and sends in the header `X-Hermes-Page`. A browser sends cookies to
every port of a host, where another server may read them, so a cookie alone is not enough. The page's storage
belongs to its origin, port included; two gateways below one origin keep theirs under different names. Both
halves are signatures with the key over the same log-in, which is
stored until it expires or its browser logs out. So they survive a restart, and a new key ends all of them.

Any page that a person looks at can make the browser send requests to us. So a request without the key must
name a host that cannot belong to somebody else (an attacker could point a name of their own at this machine),
and a request that changes something must come from our own page. The cookie's name has the port, or a digest
of the key where a program serves the page, so that two gateways on one machine do not overwrite each other's.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ...base.errors import HomeUnusable, home_error
from ...base.world import World
from ...config.known_secrets import WEB_KEY_FILE
from ...config.schema import WebConfig
from ...host.files.private_files import make_private_dir, open_private
from ...state.tables.logins import Login
from .browser_logins import BrowserLogins
from .connection import vouch
from .http_errors import Refusal, read_json
from .login_attempts import LoginAttempts
from .server import is_loopback

PAGE_HEADER = "x-hermes-page"
FORWARDED_BY = "x-hermes-forwarded-by"
"""The header with the life of the gateway that forwards a request."""
LONGEST_BROWSER = 300
LINK_SECONDS = 600.0
COOKIE_SECONDS = 30 * 86400
LONGEST_LOGIN = 4096
SAFE = ("GET", "HEAD", "OPTIONS")
BASE = "hermes_trio.base"
"""The key of the ASGI scope for the path below which a program serves the page; none at the root."""


def web_key(home: Path, web: WebConfig) -> str:
    """Return the key of the configuration, or that of the home directory, which is made if it does not exist.
    Raises `HomeError`."""
    if web.key is not None:
        return web.key
    try:
        make_private_dir(home)
        fd = open_private(home / WEB_KEY_FILE, os.O_RDWR)
        with open(fd, "r+", encoding="ascii") as file:
            key = file.read(1024).strip()
            if not key:
                key = secrets.token_urlsafe(32)
                file.write(key + "\n")
                file.flush()
                os.fsync(fd)
    except OSError as error:
        raise home_error(home, error, WEB_KEY_FILE) from error
    except UnicodeDecodeError as error:
        raise HomeUnusable(home, f"{WEB_KEY_FILE} is not valid ({error})") from error
    return key


def cluster_key(key: str) -> str:
    """Return the key of the gateways that share a store and a key, for requests from one to the other."""
    return hmac.new(key.encode(), b"cluster", hashlib.sha256).hexdigest()


def is_forwarded(request: Request) -> bool:
    """Return True if a request comes from another gateway, which has let its sender in."""
    return FORWARDED_BY in request.headers


class LoginRequest(msgspec.Struct, frozen=True):
    """The body of a log-in with the key."""

    key: str = ""


class Auth:
    """The authentication of one gateway."""

    def __init__(self, key: str, host: str, cookie: str, world: World, logins: BrowserLogins) -> None:
        self.logins = logins
        self._key, self._host, self._world = key.encode(), host, world
        self.cluster_key = cluster_key(key)
        self._names = {"localhost", host.lower(), socket.gethostname().lower()}
        self._links: dict[bytes, float] = {}
        self._attempts = LoginAttempts(world)
        self.cookie = cookie

    def has_key(self, request: Request) -> bool:
        """Return True if the request has the key."""
        return self._key_refusal(request) is None

    def check(self, request: Request) -> Login | None:
        """Return the log-in of a request; None if it has the key. Raises `Refusal` if it has neither the key
        nor both halves of a log-in, or if it has a wrong key."""
        refusal, login = self._key_refusal(request), None
        if refusal is not None:
            login = self.login_of(request)
            is_tried = is_forwarded(request) or "authorization" in request.headers
            if is_tried or login is None or not self._has_page_key(request):
                raise refusal
            if _is_foreign(request):
                raise _foreign()
        vouch(request.scope)
        return login

    def _key_refusal(self, request: Request) -> Refusal | None:
        """Return the refusal of a missing or wrong key; None for the right key. The key of a request is
        checked once, and a wrong key counts as a failed log-in."""
        if _JUDGED not in request.scope:
            request.scope[_JUDGED] = self._judge(request)
        judged: Refusal | None = request.scope[_JUDGED]
        return judged

    def _judge(self, request: Request) -> Refusal | None:
        if "authorization" not in request.headers:
            return Refusal(401, "no_key", "This route needs the key.", _WHERE, _CHALLENGE)
        scheme, _, given = request.headers["authorization"].partition(" ")
        key = self.cluster_key if is_forwarded(request) else self._key.decode()
        return self._compare(request, given.strip(), key) if scheme.lower() == "bearer" else _wrong_key()

    def _compare(self, request: Request, given: str, key: str) -> Refusal | None:
        """Return None if this is the key. After too many wrong ones it is not compared."""
        seal = _sealed(given)
        if (too_many := self._attempts.refusal(request, seal)) is not None:
            return too_many
        if hmac.compare_digest(seal, _sealed(key)):
            self._attempts.note_right_key(request)
            return None
        self._attempts.note_wrong(request, seal)
        return _wrong_key()

    def is_let_in(self, request: Request) -> bool:
        """Return True if the request has the key or a cookie: enough for the page, which has no secret."""
        return self.has_key(request) or self.login_of(request) is not None

    def check_origin(self, request: Request) -> None:
        """Raise `Refusal` for a request that another site made a browser send. A request with the key
        passes."""
        if self.has_key(request):
            return
        host = request.headers.get("host", "")
        if not self._is_ours(host):
            raise Refusal(
                403,
                "foreign_host",
                "This host name is not known here.",
                "Use an address of this machine, also in a proxy, set web.host to the name, or send the key.",
            )
        if request.method in SAFE:
            return
        if _is_foreign(request):
            raise _foreign()
        if "origin" not in request.headers and self.cookie in request.cookies:
            raise Refusal(403, "no_origin", "A cookie alone is not enough for this request.", "Send the key.")

    # --- log-ins ---

    def new_link_token(self) -> str:
        """Return a token for a link that logs a browser in, once and within `LINK_SECONDS`."""
        now, token = self._world.time(), secrets.token_urlsafe(32)
        self._links = {seal: until for seal, until in self._links.items() if until > now}
        self._links[_sealed(token)] = now + LINK_SECONDS
        return token

    async def log_in_by_link(self, request: Request) -> Response:
        """Log a browser in with the token of a link, and redirect it to the page. The page finds its key
        after the `#` of its address, which a browser never sends. A browser that is logged in is only
        redirected."""
        seal = _sealed(request.query_params.get("token", ""))
        if seal not in self._links and self.login_of(request) is not None:
            return RedirectResponse(_PAGE, 303)
        # A link of ours is too long to be guessed, so wrong ones at this address do not refuse it.
        if self._world.time() >= self._links.pop(seal, 0.0):
            if (too_many := self._attempts.refusal(request, seal)) is not None:
                raise too_many
            self._attempts.note_wrong(request, seal)
            raise Refusal(
                401,
                "link_used",
                "This link was used before, or is too old.",
                "Get another one with `hermes-trio link`, or log in with the key.",
            )
        response = RedirectResponse(_PAGE, 303)
        page_key = await self._let_in(request, response)
        response.headers["location"] = f"{_PAGE}#key={page_key}"
        return response

    async def log_in_by_key(self, request: Request) -> Response:
        """Log a browser in with the key of the body. The page key is in the header `X-Hermes-Page`."""
        given = (await read_json(request, LoginRequest, longest=LONGEST_LOGIN)).key
        if (refusal := self._compare(request, given, self._key.decode())) is not None:
            raise refusal
        response = Response(status_code=204)
        response.headers[PAGE_HEADER] = await self._let_in(request, response)
        return response

    async def _let_in(self, request: Request, response: Response) -> str:
        """Store a log-in, in place of the one that this browser has. Set the cookie, and return the page
        key."""
        before, now = self.login_of(request), self._world.time()
        login_id, expires = secrets.token_urlsafe(16), int(now) + COOKIE_SECONDS
        browser = request.headers.get("user-agent", "")[:LONGEST_BROWSER]
        await self.logins.add(Login(login_id, now, expires, browser))
        if before is not None:
            await self.logins.end(before.login_id)
        text = f"{expires}.{login_id}"
        # Not `strict`: a link in another page, for example in an editor's terminal in the browser, would be
        # used up without a log-in.
        response.set_cookie(
            self.cookie,
            f"{text}.{self._signed('cookie', text)}",
            max_age=COOKIE_SECONDS,
            path=cookie_path(request),
            secure=_is_by_tls(request),
            httponly=True,
            samesite="lax",
        )
        return self._signed("page", text)

    def login_of(self, request: Request) -> Login | None:
        """Return the log-in that the cookie of this request names. A cookie alone is not enough to log in."""
        return self.logins.get(self._login_id(request))

    def has_unknown_login(self, request: Request) -> bool:
        """Return True if the cookie of a request is signed with our key, and its log-in is not known here."""
        login_id = self._login_id(request)
        return bool(login_id) and self.logins.get(login_id) is None

    def _login_id(self, request: Request) -> str:
        """Return the id of the log-in in a cookie that we have signed; empty if there is none."""
        text, _, signature = request.cookies.get(self.cookie, "").rpartition(".")
        is_ours = hmac.compare_digest(signature.encode(), self._signed("cookie", text).encode())
        return text.partition(".")[2] if is_ours else ""

    def _has_page_key(self, request: Request) -> bool:
        """Return True if the page key belongs to the cookie, which is valid."""
        text, _, _ = request.cookies.get(self.cookie, "").rpartition(".")
        given = request.headers.get(PAGE_HEADER, "")
        return hmac.compare_digest(given.encode(), self._signed("page", text).encode())

    def _signed(self, use: str, text: str) -> str:
        return hmac.new(self._key, f"{use} {text}".encode(), hashlib.sha256).hexdigest()

    def _is_ours(self, host: str) -> bool:
        """Return True if this host can only be ours: an address, or a name of this machine. The owner of any
        other name can point it to this machine."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
            if name in self._names or is_loopback(name):
                return True
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


class HostAuth(Auth):
    """No authentication of ours: the program that serves the page has let the sender of each request in. A
    page of another site is refused still, because it can use what the program has given to the browser."""

    def has_key(self, request: Request) -> bool:
        return True

    def is_let_in(self, request: Request) -> bool:
        return True

    def check(self, request: Request) -> Login | None:
        if _is_foreign(request):
            raise _foreign()
        return None

    def check_origin(self, request: Request) -> None:
        if request.method not in SAFE and _is_foreign(request):
            raise _foreign()


def cookie_path(request: Request) -> str:
    """Return the path of our cookies."""
    return request.scope.get(BASE) or "/"


def _is_foreign(request: Request) -> bool:
    """Return True if a page of another origin made a browser send this request."""
    if (site := request.headers.get("sec-fetch-site")) is not None:
        # The browser knows the origin of the page. We may not, because a proxy may use another host name.
        return site not in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower()


def _is_by_tls(request: Request) -> bool:
    """Return True if the browser uses TLS, as a proxy or the server says. A client that lies only makes its
    own browser keep the cookie to itself."""
    named = request.headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
    return "https" in (request.url.scheme, named)


def _wrong_key() -> Refusal:
    return Refusal(401, "wrong_key", "The key is wrong.", _WHERE, _CHALLENGE)


def _foreign() -> Refusal:
    message = "A page of another site has sent this request."
    return Refusal(403, "foreign_origin", message, "Use the gateway's own page.")


_PAGE = "./"
"""The page, as seen from the addresses of a log-in: a proxy may serve it below a path that we do not know."""
_JUDGED = "hermes_trio.judged"
_WHERE = "It is web.key in config.yaml, or in <home>/web.key. Send it as `Authorization: Bearer <key>`."
_CHALLENGE = {"WWW-Authenticate": "Bearer"}


def _sealed(secret: str) -> bytes:
    """Return a digest. It has the same length for every secret, so a comparison reveals nothing."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
