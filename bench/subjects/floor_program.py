"""The bare program: `python floor_program.py PORT MODEL GRACE`.

It passes requests on to the model and its answers back, each in a task of its own. At SIGTERM it lets them
end for the grace, cancels the rest, and ends. It checks and stores nothing.
"""

from __future__ import annotations

import signal
import sys
from functools import partial

import trio

HEALTHY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def serve(port: int, model: int, grace: float) -> None:
    """Serve until SIGTERM, and then for the grace at most."""

    async def talk(stream: trio.SocketStream) -> None:
        async with stream:
            data = b""
            while b"\r\n\r\n" not in data:
                if not (more := await stream.receive_some(65536)):
                    return
                data += more
            if data.startswith(b"GET"):
                await stream.send_all(HEALTHY)
                return
            async with await trio.open_tcp_stream("127.0.0.1", model) as there:
                await there.send_all(data)
                got = b""
                while not got.endswith(b"0\r\n\r\n"):
                    if not (more := await there.receive_some(65536)):
                        return
                    await stream.send_all(more)
                    got = got[-5:] + more

    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1", backlog=2048)
        async with trio.open_nursery() as turns:
            async with trio.open_nursery() as listening:
                serving = partial(trio.serve_listeners, talk, listeners, handler_nursery=turns)
                listening.start_soon(serving)
                async for _ in signals:
                    break
                listening.cancel_scope.cancel()
            turns.cancel_scope.deadline = trio.current_time() + grace


if __name__ == "__main__":
    trio.run(serve, int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
