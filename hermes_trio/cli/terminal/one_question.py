"""One question without a conversation: it is sent, its answer is printed, and the command ends."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

import trio

from ...base.errors import GatewayError
from ...base.world import World
from .conversation import INTERRUPTED, Conversation, Part
from .gateway_api import LONG_TIMEOUT, ApiRefused, Event, GatewayApi, Unreachable, session_path
from .screen import Screen

LONGEST = 10_000_000
"""Maximum bytes of a question from a pipe."""
BACK_WITHIN = 60.0
"""Seconds in which a gateway that ends in the middle has to be back."""
NOBODY = "Nobody can answer: the question came from a command that waits for its answer. Go on without."


class NotAnswered(GatewayError):
    """The question has no answer. The reason was already printed."""

    def __init__(self) -> None:
        super().__init__("The question was not answered, and is not kept. Ask it again.")


def piped_text(fd: int) -> str:
    """Return the text of a pipe or a file that is standard input; empty if it is neither. A terminal and
    /dev/null have no text, and a socket may never end."""
    mode = os.fstat(fd).st_mode
    return read_text(fd) if stat.S_ISFIFO(mode) or stat.S_ISREG(mode) else ""


def read_text(fd: int) -> str:
    """Read a text to its end. Raises `GatewayError` if it is too long."""
    data = bytearray()
    while len(data) <= LONGEST and (more := os.read(fd, 1 << 16)):
        data += more
    if len(data) > LONGEST:
        raise GatewayError(f"The question is longer than {LONGEST:,} bytes. Send a part of it.")
    return data.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")


@dataclass(slots=True)
class OneQuestion:
    """A question in a session, and whether it is answered."""

    api: GatewayApi
    screen: Screen
    session: Conversation
    text: str
    world: World
    run_id: str = ""
    is_answered: bool = False

    async def run(self) -> None:
        """Send the question, and show its answer. Nothing else can be asked of a person: what needs a yes is
        denied."""
        if self.text.startswith("/") and await self._obey_command():
            self.is_answered = True
            return
        cursor, is_over, failed_since = "", False, None
        while not is_over:
            try:
                async with self.api.events(cursor) as events:
                    failed_since = None
                    async for event in events:
                        if not self.run_id:
                            if event["event"] != "gateway.changed":
                                continue
                            await self._post()
                        elif "seq" in event:
                            cursor = f"{event['run_id']}:{event['seq']}"
                            is_over = is_over or await self._happened(event)
                            if is_over:
                                break
            except* Unreachable:
                failed_since = failed_since or trio.current_time()
                if trio.current_time() - failed_since > BACK_WITHIN or not self.run_id:
                    raise
            if not is_over:
                await trio.sleep(0.3)

    async def stop(self) -> None:
        """Stop the turn: nobody waits for it any more."""
        await self.api.post(session_path(self.session.session_id, "/stop"), {})

    async def _obey_command(self) -> bool:
        """Carry out a command. Return False if the text is a message."""
        path = session_path(self.session.session_id, "/commands")
        told = await self.api.post(path, {"text": self.text}, within=LONG_TIMEOUT)
        if told["command"] is None or told["rest"]:
            self.text = told["rest"] or self.text
            return False
        self.screen.show(Part("answer", "\n".join(told["replies"])))
        self.screen.show(Part("end"))
        return True

    async def _post(self) -> None:
        body = {"text": self.text, "idempotency_key": self.world.new_id()}
        told = await self.api.post(session_path(self.session.session_id, "/messages"), body)
        self.run_id = told["run_id"]

    async def _happened(self, event: Event) -> bool:
        """Take an event, and return whether the question is over."""
        if event["session_id"] != self.session.session_id or not self._is_ours(event):
            return False
        for part in self.session.take(event):
            if part.kind != "question":
                self.screen.show(part)
        if self.session.ask is not None:
            await self._deny()
        if event["event"] == "run.failed" and event.get("code") == INTERRUPTED:
            self.run_id = INTERRUPTED  # the gateway ends, and resumes the turn as another run
            return False
        self.is_answered = event["event"] == "run.completed"
        return event["event"] in ("run.completed", "run.failed", "run.cancelled")

    def _is_ours(self, event: Event) -> bool:
        if self.run_id == INTERRUPTED:
            self.run_id = event["run_id"]
        return bool(event["run_id"] == self.run_id)

    async def _deny(self) -> None:
        """Answer for the person, who is not there."""
        ask, self.session.ask = self.session.ask, None
        assert ask is not None  # noqa: S101 - the caller has looked
        try:
            answer = {"id": ask.id, "answer": "deny" if ask.is_approval else NOBODY}
            await self.api.post(session_path(self.session.session_id, "/answers"), answer)
        except ApiRefused as error:
            if error.code != "asked_no_more":
                raise
