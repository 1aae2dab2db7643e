"""A socket takes as many bytes as it can at once, and no task waits for the rest."""

from __future__ import annotations

import os

import pytest
import trio

from hermes_trio.host.loop.sockets import send_at_once


@pytest.mark.skipif(os.name != "posix", reason="sockets are no files here")
async def test_send_at_once_returns_the_number_of_bytes_taken() -> None:
    here, there = trio.socket.socketpair()
    with here:
        with there:
            assert send_at_once(here, b"hello") == 5
            assert await there.recv(100) == b"hello"
            much = b"x" * 50_000_000
            taken = send_at_once(here, much)
            assert 0 < taken < len(much)
            assert send_at_once(here, much) == 0, "the buffer is full, and the call does not wait"
        with pytest.raises(OSError, match=r"(Broken pipe|reset)"):
            send_at_once(here, b"is anybody there?")
