"""A server in a process of its own, with a pipe between it and the benchmark."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection


@contextmanager
def server_process(serve: Callable[[Connection], None]) -> Iterator[tuple[int, Connection]]:
    """Run a server during the block; `serve` gets one end of a pipe. Yield its process and the other end."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there,))
    process.start()
    try:
        assert process.pid is not None
        yield process.pid, here
    finally:
        process.kill()
        process.join()
