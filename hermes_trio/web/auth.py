"""Who may come in by HTTP: who has the key, or a cookie that was got for it.

A program sends `Authorization: Bearer <key>`. A page has a cookie, and gets it by a link that `run` prints,
which works once and for ten minutes, or for the key itself. The cookie holds when it expires, signed with
the key: so it is good also after a restart, and a new key ends all of them.

A browser can be made to ask us by any page its person looks at. So whoever comes without the key must have
asked for a name that cannot be somebody else's (else a stranger's name could be pointed at this machine), and
what changes anything must come from our own page. Cookies are kept by name and not by port, so the port is in
the name.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
from collections import deque
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..config import WebConfig
from ..errors import HomeUnusable
from ..host.files import open_private
from ..world import World
from .connection import vouch
from .errors import Refusal, read_json
from .server import is_loopback

KEY_FILE = "web.key"
LINK_SECONDS = 600.0
COOKIE_SECONDS = 30 * 86400
MOST_TRIES, TRIES_WITHIN = 5, 60.0
MOST_ADDRESSES = 1000
LONGEST_LOGIN = 4096
T = TypeVar("T")
SAFE = ("GET", "HEAD", "OPTIONS")


def web_key(home: Path, web: WebConfig) -> str:
    """The key of the configuration, or else that of the home, made if there is none. Raises
    `HomeUnusable`."""
    if web.key is not None:
        return web.key
    try:
        fd = open_private(home / KEY_FILE, os.O_RDWR)
        with open(fd, "r+", encoding="ascii") as file:
            key = file.read(1024).strip()
            if not key:
                key = secrets.token_urlsafe(32)
                file.write(key + "\n")
                file.flush()
                os.fsync(fd)
    except (OSError, UnicodeDecodeError) as error:
        raise HomeUnusable(home, f"{KEY_FILE} cannot be used ({error})") from error
    return key


class Login(msgspec.Struct, frozen=True):
    """The body that asks for the cookie."""

    key: str = ""


class Auth:
    """Lets in, or refuses. One for each gateway."""

    def __init__(self, key: str, host: str, port: int, world: World) -> None:
        self._key, self._host, self._world = key.encode(), host, world
        self._names = {"localhost", host.lower(), socket.gethostname().lower()}
        self._links: dict[bytes, float] = {}
        self._wrong: dict[str, deque[float]] = {}
        self._known: dict[str, None] = {}
        """The addresses from which the right key was shown."""
        self.cookie = f"hermes_trio_{port}"

    def has_key(self, request: Request) -> bool:
        """Whether it has the key itself."""
        return self._key_refusal(request) is None

    def check(self, request: Request) -> None:
        """Refuse who has neither key nor cookie, and who has a wrong key whatever else they have."""
        refusal = self._key_refusal(request)
        if refusal is not None and ("authorization" in request.headers or not self._has_cookie(request)):
            raise refusal
        vouch(request.scope)

    def _key_refusal(self, request: Request) -> Refusal | None:
        """Why the key of this request is none; None for the right key. It is judged once for each request,
        however often this is asked, and a wrong key counts as a wrong try to log in."""
        if _JUDGED not in request.scope:
            request.scope[_JUDGED] = self._judge(request)
        judged: Refusal | None = request.scope[_JUDGED]
        return judged

    def _judge(self, request: Request) -> Refusal | None:
        if "authorization" not in request.headers:
            return Refusal(401, "no_key", "This needs the key.", _WHERE, _CHALLENGE)
        address, wrong = _address(request), Refusal(401, "wrong_key", "The key is wrong.", _WHERE, _CHALLENGE)
        scheme, _, given = request.headers["authorization"].partition(" ")
        if scheme.lower() != "bearer":
            return wrong
        # Nobody can lock out the programs of the owner from an address that has shown the right key. From any
        # other one a key is not even looked at while there were too many wrong ones.
        if address not in self._known and (refusal := self._too_many_tries(request)) is not None:
            return refusal
        if self._is_key(given.strip()):
            _remember(self._known, address, None)
            return None
        too_many = self._too_many_tries(request)
        self._note_mistake(request)
        return too_many or wrong

    def is_let_in(self, request: Request) -> bool:
        """Whether it has the key, or a cookie."""
        return self.has_key(request) or self._has_cookie(request)

    def check_origin(self, request: Request) -> None:
        """Refuse what a browser was made to ask by somebody else's page. Who has the key was not."""
        if self.has_key(request):
            return
        host = request.headers.get("host", "")
        if not self._is_ours(host):
            raise Refusal(
                403,
                "foreign_host",
                "This is not a name of ours.",
                "Use the address of this machine, also in a proxy, make the name web.host, or send the key.",
            )
        if request.method in SAFE:
            return
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if site is not None:
            # A browser knows whose page asks. We may not: a proxy asks for us by another name than that of
            # the page.
            is_foreign = site not in ("same-origin", "none")
        else:
            is_foreign = origin is not None and urlsplit(origin).netloc.lower() != host.lower()
        if is_foreign:
            raise Refusal(
                403, "foreign_origin", "This comes from somebody else's page.", "Use the gateway's own."
            )
        if origin is None and self.cookie in request.cookies:
            raise Refusal(403, "no_origin", "A cookie alone does not allow this.", "Send the key.")

    # --- the cookie, and how it is got ---

    def new_link_token(self) -> str:
        """What a link holds that lets somebody in, once and soon."""
        now, token = self._world.time(), secrets.token_urlsafe(32)
        self._links = {seal: until for seal, until in self._links.items() if until > now}
        self._links[_sealed(token)] = now + LINK_SECONDS
        return token

    async def log_in_by_link(self, request: Request) -> Response:
        """`GET /login?token=`: the cookie for the link that `run` has printed."""
        self._count_tries(request)
        until = self._links.pop(_sealed(request.query_params.get("token", "")), 0.0)
        if self._world.time() >= until:
            self._note_mistake(request)
            raise Refusal(
                401,
                "link_used",
                "This link was used before, or is too old.",
                "Restart the gateway for another one, or log in with the key, which is in <home>/web.key.",
            )
        return self._let_in(RedirectResponse("/", 303))

    async def log_in_by_key(self, request: Request) -> Response:
        """`POST /login` `{key}`: the cookie for the key."""
        self._count_tries(request)
        if not self._is_key((await read_json(request, Login, longest=LONGEST_LOGIN)).key):
            self._note_mistake(request)
            raise Refusal(401, "wrong_key", "The key is wrong.", _WHERE, _CHALLENGE)
        return self._let_in(Response(status_code=204))

    def _let_in(self, response: Response) -> Response:
        until = f"{int(self._world.time()) + COOKIE_SECONDS}.{secrets.token_urlsafe(16)}"
        value = f"{until}.{self._signed(until)}"
        # Not `strict`: a link that is followed out of another page, be it the terminal of an editor in the
        # browser, would be used up and lead to the question for the key.
        response.set_cookie(
            self.cookie, value, max_age=COOKIE_SECONDS, path="/", httponly=True, samesite="lax"
        )
        return response

    def _has_cookie(self, request: Request) -> bool:
        until, _, signature = request.cookies.get(self.cookie, "").rpartition(".")
        expires = until.partition(".")[0]
        return (
            hmac.compare_digest(signature.encode(), self._signed(until).encode())
            and int(expires) > self._world.time()
        )

    def _signed(self, text: str) -> str:
        return hmac.new(self._key, b"cookie " + text.encode(), hashlib.sha256).hexdigest()

    def _is_key(self, given: str) -> bool:
        return hmac.compare_digest(_sealed(given), _sealed(self._key.decode()))

    def _is_ours(self, host: str) -> bool:
        """Whether a name that was asked for can only be ours: an address, or what this machine is called.
        Any other name belongs to somebody, who can point it here."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
            if name in self._names or is_loopback(name):
                return True
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    # --- guessing ---

    def _count_tries(self, request: Request) -> None:
        if (refusal := self._too_many_tries(request)) is not None:
            raise refusal

    def _too_many_tries(self, request: Request) -> Refusal | None:
        wrong = self._wrong.get(_address(request))
        if wrong is None or len(wrong) < MOST_TRIES:
            return None
        if (wait := wrong[0] + TRIES_WITHIN - self._world.time()) <= 0:
            return None
        headers = {"Retry-After": str(int(wait) + 1)}
        return Refusal(429, "too_many_tries", "Too many wrong tries.", "Wait a minute.", headers)

    def _note_mistake(self, request: Request) -> None:
        tries = self._wrong.get(_address(request), deque(maxlen=MOST_TRIES))
        _remember(self._wrong, _address(request), tries)
        tries.append(self._world.time())


def _remember(table: dict[str, T], address: str, value: T) -> None:
    """Store this for an address, in the place of the oldest one where there are too many."""
    if address not in table and len(table) >= MOST_ADDRESSES:
        del table[next(iter(table))]
    table[address] = value


_JUDGED = "hermes_trio.judged"
_WHERE = "It is web.key in config.yaml, or in <home>/web.key: send it as `Authorization: Bearer <key>`."
_CHALLENGE = {"WWW-Authenticate": "Bearer"}


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _sealed(secret: str) -> bytes:
    """As long for every secret, so that comparing tells nothing of it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
