"""A small gateway with a known fault: `python faulty_program.py PORT MODEL FAULT`.

It keeps its sessions in the file `sessions.json` of its directory. The fault is `none`, `late SECONDS`,
`loses` (it forgets the turns), `doubles` (it keeps them twice), `repeats` (its next life runs a finished turn
again), `orphan` (it leaves a process), `hides` (it leaves one without variables, as a command of its tools
may be), `hurries` (it ends without its grace), or `clings SECONDS` (it keeps the connection to the model so
long after that of the client).
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import trio

MARKER = "HERMES_BENCH_LIFE"
STORE = Path("sessions.json")
HEALTHY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Program:
    """The program."""

    def __init__(self, model: int, fault: str) -> None:
        self.model, (self.fault, *self.given) = model, fault.split()
        self.sessions: dict[str, list[dict[str, str]]] = (
            json.loads(STORE.read_text()) if STORE.exists() else {}
        )

    def store(self, session: str, role: str, content: str) -> None:
        if self.fault != "loses":
            times = 2 if self.fault == "doubles" else 1
            self.sessions.setdefault(session, []).extend([{"role": role, "content": content}] * times)
            STORE.write_text(json.dumps(self.sessions))

    async def talk(self, stream: trio.SocketStream) -> None:
        async with stream:
            data = await until(stream, b"\r\n\r\n")
            if data.startswith(b"GET"):
                await stream.send_all(HEALTHY)
                return
            head, _, body = data.partition(b"\r\n\r\n")
            found = re.search(rb"X-Session: (\S+)", head)
            assert found
            session, content = found[1].decode(), json.loads(body)["messages"][-1]["content"]
            before = self.sessions.get(session, [])
            asked = [*before, {"role": "user", "content": content}]
            self.store(session, "user", content)
            if self.fault == "clings" and "[[held" in content:
                await self.cling(asked, stream)
                return
            answer = await self.ask(asked, stream)
            words = re.findall(r'"content": "(.*?)"', answer.decode())
            self.store(session, "assistant", "".join(words))

    async def cling(self, asked: list[dict[str, str]], stream: trio.SocketStream) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.ask, asked, None)
            await stream.receive_some(1)
            await trio.sleep(float(self.given[0]))
            nursery.cancel_scope.cancel()

    async def ask(self, messages: list[dict[str, str]], stream: trio.SocketStream | None) -> bytes:
        body = json.dumps({"stream": True, "messages": messages}).encode()
        async with await trio.open_tcp_stream("127.0.0.1", self.model) as there:
            await there.send_all(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            return await until(there, b"\r\n0\r\n\r\n", stream)

    async def run(self, port: int) -> None:
        is_patient = "finish" in self.given and self.fault != "hurries"
        with trio.open_signal_receiver(signal.SIGTERM) as signals:
            listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
            async with trio.open_nursery() as turns:
                async with trio.open_nursery() as listening:
                    listening.start_soon(
                        partial(trio.serve_listeners, self.talk, listeners, handler_nursery=turns)
                    )
                    if self.fault == "repeats":
                        for messages in self.sessions.values():
                            listening.start_soon(self.ask, messages[:-1], None)
                    async for _ in signals:
                        break
                    listening.cancel_scope.cancel()
                turns.cancel_scope.deadline = trio.current_time() + (30 if is_patient else 0)
        if self.fault == "late":
            await trio.sleep(float(self.given[0]))
        if self.fault == "orphan":
            subprocess.Popen(["sleep", "30"], start_new_session=True)
        if self.fault == "hides":
            number = f"0.{os.environ[MARKER]}0000"
            subprocess.Popen(["sleep", "30", number], env={}, start_new_session=True)


async def until(stream: trio.SocketStream, end: bytes, copy: trio.SocketStream | None = None) -> bytes:
    data = b""
    while not data.endswith(end) and not (end == b"\r\n\r\n" and end in data):
        more = await stream.receive_some(65536)
        if not more:
            break
        data += more
        if copy is not None:
            await copy.send_all(more)
    return data


if __name__ == "__main__":
    trio.run(Program(int(sys.argv[2]), sys.argv[3]).run, int(sys.argv[1]))
