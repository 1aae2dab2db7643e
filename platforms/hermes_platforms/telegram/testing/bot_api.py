"""A Bot API server on this machine: Telegram as an adapter sees it, with people that are driven by a test.

    async with open_bot_api() as telegram:
        ...                                            # an adapter with telegram.token and telegram.base_url
        await telegram.says("hello")                   # returns once getUpdates has confirmed it
        await telegram.until(lambda: telegram.chat("42").last == "Hello!")
        telegram.fails("send", bad("message thread not found"))
        telegram.loses_answer()                        # the next send takes effect, and its answer is lost
        telegram.answers("getUpdates", ApiError(502, "Bad Gateway"))
        telegram.cuts_after(sent=10)                   # in the middle of the next answer
        async with telegram.away():                    # no program listens there

It speaks HTTP on 127.0.0.1 and behaves like the real server wherever an adapter could depend on it: only the
next offset confirms an update, a second poll ends the first one, markup is checked by the rules of the
server, the length of a text is counted in UTF-16 units. The clock is the real one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from hermes_trio.platform import CredentialsRefused, PlatformError
from hermes_trio.testing import in_background

from ...testing import HttpRequest, HungUp, response
from .bot_api_methods import METHODS, ApiError, answer_of, bad
from .bot_api_webhook import bring
from .bot_state import BotState


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A call of an adapter."""

    method: str
    params: Mapping[str, Any]


@asynccontextmanager
async def open_bot_api(name: str = "telegram", *, account: str = "main") -> AsyncIterator[BotApi]:
    """Run the server while inside."""
    api = BotApi(name, account)
    async with api.listening(), in_background(partial(bring, api)):
        yield api


class BotApi(BotState):
    """A Bot API server that listens on a port."""

    def __init__(self, name: str, account: str) -> None:
        super().__init__(name, account)
        self.asked: list[ApiCall] = []
        """Calls in their order."""
        self._answers: dict[str, deque[ApiError | bytes]] = {}

    # --- for tests ---

    def answers(self, method: str, *answers: ApiError | bytes) -> None:
        """Prepare the answers to the next calls of a method, which take no effect; bytes are no JSON."""
        self._answers.setdefault(method.lower(), deque()).extend(answers)

    def drop(self) -> None:
        """Close every connection now."""
        super().drop()
        self.bringing.cancel(reason="dropped by the test")

    # --- requests ---

    async def answer(self, request: HttpRequest) -> bytes:
        """As `HttpStage.answer`."""
        try:
            return await self._result(request)
        except PlatformError as error:
            answer = answer_of(error)
            if answer is None:
                raise HungUp from error
            return response(answer.code, answer.body)
        except KeyError as error:
            return response(400, bad(f"parameter {error} is required").body)

    async def _result(self, request: HttpRequest) -> bytes:
        head, _, name = request.path.removeprefix("/").partition("/")
        if head == "file":
            file_id = name.rpartition("/")[2]
            if file_id not in self.files or file_id in self.lost_files:
                raise ApiError(404, "Not Found")
            return response(200, self.files[file_id])
        self.asked.append(ApiCall(name, request.params))
        act_afterwards = self.count()
        if not self.lets_in or head != f"bot{self.token}":
            raise CredentialsRefused(self.name) if head.startswith("bot") else ApiError(404, "Not Found")
        if prepared := self._answers.get(name.lower()):
            answer = prepared.popleft()
            if isinstance(answer, bytes):
                return response(502, answer)
            raise answer
        if name.lower() not in METHODS:
            raise ApiError(404, "Not Found: method not found")
        result = await METHODS[name.lower()](self, request)
        act_afterwards()
        return response(200, {"ok": True, "result": result})
