"""Adapter for an account at a home server of Matrix."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Literal

from hermes_trio.platform import CredentialsRefused, HeldMemory, LinkLost, Memory, sole_use

from ..http_calls import NoAnswer, NotReached
from .calls import CLIENT, Denied, MatrixCalls, open_calls
from .matrix_link import TRAITS, MatrixLink
from .parsing import Account
from .rooms import Rooms

GREET_WITHIN = 30.0


class MatrixAdapter:
    """An adapter for one account."""

    def __init__(
        self,
        token: str,
        *,
        base_url: str,
        require_mention: bool = True,
        allow_from: Collection[str] | Literal["all"] = "all",
        reacts: bool = False,
        name: str = "matrix",
        account: str = "main",
    ) -> None:
        self.name, self.account, self.traits = name, account, replace(TRAITS, reacts=reacts)
        self._token, self._base_url = token, base_url
        self._require_mention, self._allow_from = require_mention, allow_from
        self._memory = HeldMemory()
        self._stored: set[object] = set()

    @asynccontextmanager
    async def connect(self, memory: Memory | None = None) -> AsyncIterator[MatrixLink]:
        """As `RememberingAdapter.connect`. An account has one reader: two would both answer."""
        with sole_use(self.name, self._token) as alone:
            if not alone:
                raise LinkLost("Another process on this machine uses this account. Stop it, or use another.")
            async with open_calls(self._token, self._base_url, self.name) as calls:
                account = await self._greet(calls)
                rooms = Rooms(calls, account, self._allow_from)
                yield MatrixLink(calls, account, rooms, memory or self._memory, self._stored, self.traits)

    async def _greet(self, calls: MatrixCalls) -> Account:
        try:
            me = await calls.ask("GET", f"{CLIENT}/account/whoami", within=GREET_WITHIN)
        except Denied as no:
            refusal = calls.refusal(no)
            if isinstance(refusal, CredentialsRefused):
                raise refusal from no
            raise LinkLost(f"Matrix refused the connection: {no}.") from no
        except (NotReached, NoAnswer) as error:
            raise LinkLost(f"Matrix cannot be reached: {error}.") from error
        if not isinstance(me, dict) or not isinstance(me.get("user_id"), str):
            raise LinkLost("The server does not name the account: is it a home server of Matrix?")
        return Account(me["user_id"], self.name, self.account, self._require_mention)
