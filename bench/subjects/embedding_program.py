"""A program that hosts our gateway: `python embedding_program.py HOST HOME PORT GRACE`, where HOST is `trio`
or `asyncio`.

It takes requests for chat completions itself, and each is a run of the gateway. At SIGTERM it asks the
gateway to end, which ends the runs and their streams, and then the block of the gateway.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import SocketStream

from hermes_trio import Gateway, MessageDelta, World, load_config, open_gateway
from hermes_trio.agent.model_agent import open_agent

HEALTHY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


async def main(home: Path, port: int, grace: float) -> None:
    """Serve until SIGTERM, and then for the grace at most."""
    loaded = load_config(home, os.environ)
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port, backlog=2048) as door,
            open_gateway(home, loaded.config, agent=open_agent(loaded, os.environ, World())) as gateway,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(door.serve, partial(talk, gateway))
            async for _ in signals:
                break
            gateway.stop(grace=grace)
            await anyio.sleep_forever()  # the gateway cancels this once it has ended


async def talk(gateway: Gateway, stream: SocketStream) -> None:
    """Answer one request."""
    try:
        async with stream:
            await answer(gateway, stream)
    except* (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the client is gone


async def answer(gateway: Gateway, stream: SocketStream) -> None:
    """Read a request, and stream the answer of its run."""
    data = await stream.receive()
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    if head.startswith(b"GET"):
        await stream.send(HEALTHY)
        return
    length, session = _header(head, "Content-Length"), _header(head, "X-Session")
    while len(body) < int(length):
        body += await stream.receive()
    await stream.send(HEAD)
    text = json.loads(body)["messages"][-1]["content"]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch, stream, tasks.cancel_scope)
        async with gateway.run(text, session=session) as run:
            async for event in run:
                if isinstance(event, MessageDelta):
                    chunk = {"choices": [{"index": 0, "delta": {"content": event.delta}}]}
                    await stream.send(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await stream.send(b"data: [DONE]\n\n")
        tasks.cancel_scope.cancel()


async def watch(stream: SocketStream, answering: anyio.CancelScope) -> None:
    """Cancel the answer when its client hangs up, which ends the run."""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            await stream.receive()
    answering.cancel()


def _header(head: bytes, name: str) -> str:
    found = re.search(rf"{name}: (\S+)".encode(), head)
    return found[1].decode() if found else ""


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), backend=sys.argv[1])
