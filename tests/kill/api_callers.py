"""People who use the API of gateways that share a store: each request goes to any of them, and they follow
their runs over several of them."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import trio

KEY = "the-key-of-all-gateways"
LEFT_ALONE_AFTER = 40.0
"""Seconds after which a run that was cut is not resumed any more."""


@dataclass
class Callers:
    """The people, what was accepted from them, and the events that they received."""

    addresses: Callable[[], Sequence[str]]
    """Returns where the gateways are reached that live, as far as the store knows."""
    dice: random.Random
    accepted: list[str] = field(default_factory=list)
    on_the_way: int = 0
    seqs: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """The numbers of the events in the order of their arrival, for each session and run."""
    moved: int = 0
    """How often a follower went on at another gateway."""

    async def talk(self, session: str, may_talk: Callable[[], bool]) -> None:
        """Say one thing after the other, and follow each run to its end."""
        for number in itertools.count(1):
            if not may_talk():
                return
            text = f"thing {number} of chat {session}."
            self.on_the_way += 1
            run: str | None = await self._say(session, text)
            self.accepted.append(text)
            while run is not None:
                await self._follow(session, run)
                run = await self._resumed(run)
            self.on_the_way -= 1
            await trio.sleep(self.dice.uniform(0, 0.5))

    async def _say(self, session: str, text: str) -> str:
        body = {"text": text, "idempotency_key": text}
        made = await self._answer("POST", f"/api/sessions/{session}/messages", 202, json=body)
        return str(made["run_id"])

    async def _follow(self, session: str, run: str) -> None:
        seqs = self.seqs.setdefault((session, run), [])
        while True:
            cursor = {"Last-Event-ID": f"{run}:{seqs[-1]}"} if seqs else {}
            path, is_over = f"/v1/runs/{run}/events", False
            with suppress(httpx.HTTPError):
                async with self._any() as http, http.stream("GET", path, headers=cursor) as response:
                    with trio.move_on_after(self.dice.uniform(0.1, 0.7)):  # then it goes to another gateway
                        is_over = response.status_code == 200 and await _read(response, seqs)
            if is_over:
                return
            self.moved += 1
            await trio.sleep(0.05)

    async def _resumed(self, run: str) -> str | None:
        """Return the run that resumes one which was cut; None if it was not, or is left alone."""
        with trio.move_on_after(LEFT_ALONE_AFTER):
            while True:
                state = await self._answer("GET", f"/v1/runs/{run}", 200)
                if state["status"] != "interrupted":
                    return None
                if state["resumed_as"] is not None:
                    return str(state["resumed_as"])
                await trio.sleep(0.3)
        return None

    async def _answer(self, method: str, path: str, status: int, **how: Any) -> dict[str, Any]:
        """Return the answer of the first gateway that gives one."""
        while True:
            with suppress(httpx.HTTPError):
                async with self._any() as http:
                    response = await http.request(method, path, **how)
                if response.status_code == status:
                    answer: dict[str, Any] = response.json()
                    return answer
                assert response.status_code in (429, 502, 503), response.text
            await trio.sleep(0.2)

    @asynccontextmanager
    async def _any(self) -> AsyncIterator[httpx.AsyncClient]:
        address = ""
        while not address:
            with suppress(Exception):  # the server of the store may be away
                address = self.dice.choice(await trio.to_thread.run_sync(self.addresses))
            await trio.sleep(0.05)
        headers = {"Authorization": f"Bearer {KEY}"}
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=20) as http:
            yield http


async def _read(response: httpx.Response, seqs: list[int]) -> bool:
    """Note the events of a stream. Return True if it had the end of the run."""
    is_over = False
    async for line in response.aiter_lines():
        if line.startswith("id: "):
            seqs.append(int(line.rpartition(":")[2]))
        is_over = is_over or line == "data: [DONE]"
    return is_over


def check_follower(seqs: Sequence[int], last_seq: int) -> None:
    """Check that a follower missed no event and got none twice. The last moment of a run is in no journal any
    more if its gateway and the server were killed together: then it hears the run again."""
    assert set(seqs) == set(range(1, max(seqs) + 1)), seqs
    if max(seqs) <= last_seq + 1:
        assert list(seqs) == sorted(set(seqs)), seqs
