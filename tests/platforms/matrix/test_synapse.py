"""The adapter against a real Synapse, the home server that most people use. It is found by the variable
`SYNAPSE_PYTHON`: the Python of an environment in which `matrix-synapse` is installed."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import httpx  # noqa: ASYNC127
import pytest
import trio

from hermes_platforms.matrix.adapter import MatrixAdapter
from hermes_trio.platform import (
    Attachment,
    ChatGone,
    CredentialsRefused,
    HeldMemory,
    MessageEvent,
    Outgoing,
    Refused,
)
from hermes_trio.testing.laws.receiving import receiving

PYTHON = os.environ.get("SYNAPSE_PYTHON", "")
STARTS_WITHIN = 60.0
PATIENCE = 60.0
EXTRA = """
enable_registration: true
enable_registration_without_verification: true
suppress_key_server_warning: true
trusted_key_servers: []
rc_message: {per_second: 1000, burst_count: 1000}
rc_registration: {per_second: 1000, burst_count: 1000}
rc_invites: {per_room: {per_second: 1000, burst_count: 1000}, per_user: {per_second: 1000, burst_count: 1000}}
rc_joins: {local: {per_second: 1000, burst_count: 1000}}
"""

pytestmark = pytest.mark.skipif(not PYTHON, reason="needs SYNAPSE_PYTHON")


@pytest.fixture(scope="module")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a home server, and return its address."""
    home = tmp_path_factory.mktemp("synapse")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = home / "homeserver.yaml"
    program = [PYTHON, "-m", "synapse.app.homeserver", "-c", str(config)]
    generate = [*program, "--server-name", "localhost", "--report-stats", "no", "--generate-config"]
    subprocess.run(generate, cwd=home, check=True, capture_output=True)
    written = config.read_text().replace("port: 8008", f"port: {port}")
    config.write_text(written + EXTRA)
    log = (home / "output").open("wb")
    running = subprocess.Popen(program, cwd=home, stdout=log, stderr=log)
    base_url = f"http://127.0.0.1:{port}"
    try:
        wait_for(base_url, running, home)
        yield base_url
    finally:
        running.terminate()
        running.wait()
        log.close()


def wait_for(base_url: str, running: subprocess.Popen[bytes], home: Path) -> None:
    for _ in range(int(STARTS_WITHIN * 5)):
        try:
            httpx.get(f"{base_url}/_matrix/client/versions").raise_for_status()
            return
        except httpx.HTTPError:
            assert running.poll() is None, (home / "output").read_text()
            time.sleep(0.2)
    raise AssertionError((home / "output").read_text())


class Person(AbstractContextManager["Person"]):
    """A person at the home server, with a client of their own."""

    def __init__(self, base_url: str, name: str) -> None:
        self._http = httpx.Client(base_url=f"{base_url}/_matrix/client/v3", timeout=30)
        form = {"username": name, "password": "of nobody", "auth": {"type": "m.login.dummy"}}
        account = self._http.post("/register", json=form).raise_for_status().json()
        self.id, self.token = account["user_id"], account["access_token"]
        self._http.headers["authorization"] = f"Bearer {self.token}"
        self._sent = 0

    def __exit__(self, *error: object) -> None:
        self._http.close()

    def ask(self, method: str, path: str, content: object = None) -> Any:
        return self._http.request(method, path, json=content).raise_for_status().json()

    def room(self, *invite: str, name: str | None = None) -> str:
        content = {"invite": list(invite), "preset": "private_chat", "is_direct": name is None}
        return str(self.ask("POST", "/createRoom", content | ({"name": name} if name else {}))["room_id"])

    def says(self, room: str, text: str, **content: Any) -> str:
        self._sent += 1
        path = f"/rooms/{room}/send/m.room.message/{self._sent}"
        return str(self.ask("PUT", path, {"msgtype": "m.text", "body": text, **content})["event_id"])

    def reads(self, room: str) -> list[Any]:
        events = self.ask("GET", f"/rooms/{room}/messages?dir=b&limit=100")["chunk"]
        return [one for one in reversed(events) if one["type"] == "m.room.message"]


@pytest.fixture
async def people(synapse: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """Return a function that registers a person, under a name of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with trio.fail_after(PATIENCE):
        with ExitStack() as closing:
            yield lambda name: closing.enter_context(Person(synapse, f"{name}-{os.urandom(4).hex()}"))


People = Callable[[str], Person]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await trio.sleep(0.05)


async def test_an_invitation_of_a_person_who_may_talk_is_accepted_and_of_another_one_is_not(
    synapse: str, people: People
) -> None:
    bot, ann, eve = people("bot"), people("ann"), people("eve")
    adapter = MatrixAdapter(bot.token, base_url=synapse, allow_from=[ann.id])
    heard: list[MessageEvent] = []
    async with adapter.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(receiving, link, heard)
        await trio.sleep(1)
        refused, room = eve.room(bot.id), ann.room(bot.id)
        ann.says(room, "hello")
        await until(lambda: bool(heard))
        nursery.cancel_scope.cancel()
    assert [(one.text, one.source.chat_id, one.source.chat_type) for one in heard] == [("hello", room, "dm")]
    assert refused not in bot.ask("GET", "/joined_rooms")["joined_rooms"]


async def test_messages_edits_and_threads_are_shown_as_the_server_keeps_them(
    synapse: str, people: People
) -> None:
    bot, ann = people("bot"), people("ann")
    room = ann.room(bot.id)
    bot.ask("POST", f"/join/{room}", {})
    root = ann.says(room, "a thread")
    async with MatrixAdapter(bot.token, base_url=synapse).connect() as link:
        first = await link.send(Outgoing(chat_id=room, text="**one**", key="1", thread_id=root))
        assert first is not None
        again = await link.send(Outgoing(chat_id=room, text="**one**", key="1", thread_id=root))
        assert again == first, "a second send with the same key shows nothing"
        await link.edit(room, first, "two")
        await link.edit(room, first, "two")
        sent = [one for one in ann.reads(room) if one["sender"] == bot.id]
        assert sent[0]["content"]["formatted_body"] == "<p><strong>one</strong></p>"
        assert sent[0]["content"]["m.relates_to"]["event_id"] == root
        assert sent[-1]["content"]["m.new_content"]["body"] == "two"
        await link.typing(room, None)
        await link.delete(room, first)
        with pytest.raises(Refused):
            await link.edit(room, first, "three")
        with pytest.raises(Refused):
            await link.edit(room, "$unknown", "three")


async def test_the_next_process_hears_what_was_said_meanwhile_once_also_over_a_gap(
    synapse: str, people: People
) -> None:
    bot, ann = people("bot"), people("ann")
    room, memory, heard = ann.room(bot.id), HeldMemory(), list[MessageEvent]()
    bot.ask("POST", f"/join/{room}", {})
    ann.says(room, "long ago")
    async with MatrixAdapter(bot.token, base_url=synapse).connect(memory) as link, trio.open_nursery() as one:
        one.start_soon(receiving, link, heard)
        await until(lambda: memory.text is not None)
        start = memory.text
        ann.says(room, "before")
        await until(lambda: bool(heard) and memory.text != start)
        one.cancel_scope.cancel()
    said = [f"number {n}" for n in range(70)]
    for text in said:
        ann.says(room, text)
    later: list[MessageEvent] = []
    async with MatrixAdapter(bot.token, base_url=synapse).connect(memory) as link, trio.open_nursery() as two:
        two.start_soon(receiving, link, later)
        await until(lambda: len(later) >= len(said))
        two.cancel_scope.cancel()
    assert [one.text for one in heard] == ["before"]
    assert [one.text for one in later] == said


async def test_a_file_goes_both_ways(synapse: str, people: People, tmp_path: Path) -> None:
    bot, ann = people("bot"), people("ann")
    room, heard = ann.room(bot.id), list[MessageEvent]()
    bot.ask("POST", f"/join/{room}", {})
    place = tmp_path / "report.txt"
    place.write_bytes(b"All is well.")
    files = (Attachment("document", name="report.txt", path=str(place)),)
    async with MatrixAdapter(bot.token, base_url=synapse).connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(receiving, link, heard)
        await trio.sleep(0.5)
        await link.send(Outgoing(chat_id=room, text="see", key="1", attachments=files))
        sent = ann.reads(room)[-1]["content"]
        ann.says(room, "report.txt", **{key: sent[key] for key in ("msgtype", "filename", "url", "info")})
        await until(lambda: bool(heard))
        [file] = heard[0].attachments
        assert file.file_id is not None
        assert await link.fetch(file.file_id, 100) == b"All is well."
        with pytest.raises(Refused):
            await link.fetch(file.file_id, 3)
        nursery.cancel_scope.cancel()


async def test_a_room_that_has_removed_the_bot_is_gone_and_a_token_that_ended_is_refused(
    synapse: str, people: People
) -> None:
    bot, ann = people("bot"), people("ann")
    room = ann.room(bot.id)
    bot.ask("POST", f"/join/{room}", {})
    adapter = MatrixAdapter(bot.token, base_url=synapse)
    async with adapter.connect() as link:
        ann.ask("POST", f"/rooms/{room}/kick", {"user_id": bot.id})
        with pytest.raises(ChatGone):
            await link.send(Outgoing(chat_id=room, text="hello?", key="1"))
    bot.ask("POST", "/logout", {})
    with pytest.raises(CredentialsRefused):
        async with adapter.connect():
            pass
