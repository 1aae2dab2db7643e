"""A model server on this machine, in a process of its own, and its replies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import trio

from hermes_trio.host.loop.open_files import raise_open_files
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import RecordedRequest, open_model_server

from .server_process import server_process

END = "That is all."
_SENTENCE = "The sea is wide and deep and older than all who sail on it. " * 3 + END
_HOLD = 25.0

REPLIES = {
    "steady": Reply(piece=6, seconds_per_event=0.005).says(_SENTENCE).uses(700, 40),
    "quick": Reply(piece=6).says(_SENTENCE).uses(700, 40),
    "held": Reply(piece=6).says("The sea is wide. ").pauses(_HOLD).says(END).uses(700, 40),
}
"""Replies by name of the model: at the pace of a fast model, at once, and with a long pause."""


@contextmanager
def model_server() -> Iterator[str]:
    """Run a model server in a process of its own during the block, and yield its address."""
    with server_process(_serve_models) as (_, pipe):
        yield pipe.recv()


def _serve_models(pipe: Connection) -> None:
    raise_open_files()

    async def serving() -> None:
        async with open_model_server() as server:

            def answer(asked: RecordedRequest) -> Reply:
                server.requests.clear()
                return REPLIES[asked.body["model"]]

            server.otherwise = answer
            pipe.send(server.openai_url)
            await trio.sleep_forever()

    trio.run(serving)
