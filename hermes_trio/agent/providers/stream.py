"""The client code that both wire formats share: post a request, read the answer while it arrives, close.

Nothing here yields inside a cancel scope. An answer is an iterator with `__anext__` and not an async
generator: a generator that is left in the middle is closed by the garbage collector, if ever. The generators
inside httpx are ended by resuming them under a scope that is already cancelled: the exception runs through
all of them, and each closes its resources.
"""

from __future__ import annotations

import errno
import itertools
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import msgspec
import trio

from ...base.errors import causes
from ...base.world import World
from . import sse
from .endpoint import Body, Endpoint
from .error_mapping import response_error
from .model import Item, PicturesRefused, ReasoningDelta, TextDelta
from .model_clients import CONNECT_SECONDS, httpx
from .model_errors import (
    AnswerTooLong,
    CannotConnect,
    CertificateRefused,
    ModelError,
    NotAModelServer,
    RequestRefused,
    StreamCut,
    StreamMalformed,
    StreamStale,
)
from .model_transport import CHUNKS, ResponseBody
from .refused_pictures import speaks_of_pictures

LONGEST_TEXT = 500_000
"""Maximum characters of text in one answer: as many as the models with the longest answers can write."""
LONGEST_THOUGHT = 2_000_000
LONGEST_CALLS = 2_000_000
"""Maximum characters of all tool calls of one answer, with their arguments."""

_MOST_OF_A_REFUSAL = 1 << 16
_MOST_AMENDMENTS = 4
_LINGER = 0.2
"""Seconds to wait for the end of the body after a finished answer, so that its connection can be reused."""

# Not all servers name a content type. Ollama's own format, JSON lines, is at another address: not accepted.
_STREAMS = ("text/event-stream", "application/json", "text/plain", "application/octet-stream", "")


class AnswerFold(Protocol):
    """The folding of a vendor's events into items."""

    done: bool
    """The server has sent its end marker."""
    held: int
    """Characters that were read and not yielded as an item yet, mostly those of tool calls."""

    def feed(self, event: sse.ReceivedEvent) -> list[Item]:
        """Read one event; return the items that it completes."""

    def end(self) -> list[Item]:
        """End the stream; return the last items. Raise `StreamCut` if the answer is incomplete."""


@dataclass(frozen=True, slots=True)
class VendorRequest:
    """A request in the format of a vendor, and the functions that read its answer."""

    url: httpx.URL
    headers: Mapping[str, str]
    body: Callable[[], Awaitable[Body]]
    fold: Callable[[], AnswerFold]
    amend: Callable[[Body, str], Body | None]
    """Return the body without the part that this refusal names; None if it cannot be left out."""
    refused: list[str]
    """Texts of the refusals so far; the parts that they name are left out from the beginning."""


def stale_after(endpoint: Endpoint, size: int) -> float:
    """Return the seconds without data after which an answer counts as lost. A model has to read the request
    first, and a model on this machine may have to be loaded."""
    tokens = size / 4
    if endpoint.is_local:
        return 900
    return 300 if tokens > 100_000 else 240 if tokens > 50_000 else 180


def path(endpoint: Endpoint, tail: str) -> httpx.URL:
    """Return the address of an API function of the endpoint, without user name and password: httpx writes
    addresses into its errors."""
    url = httpx.URL(endpoint.base_url)
    return url.copy_with(path=url.path.rstrip("/") + tail, userinfo=b"")


@asynccontextmanager
async def open_answer(
    client: httpx.AsyncClient, endpoint: Endpoint, vendor_request: VendorRequest, world: World
) -> AsyncIterator[AsyncIterator[Item]]:
    """Send the request and yield the items of its answer. Raise `ModelError` if there is no answer. A refused
    part of the request is left out if possible, and the request repeated."""
    known = len(vendor_request.refused)
    opened = await _opened_answer(client, endpoint, vendor_request, world)
    content_type, chunks, read_timeout = opened.content_type, opened.chunks, opened.read_timeout
    decoder = sse.JsonAnswer() if content_type == "application/json" else sse.Decoder()
    refused = (said for said in vendor_request.refused[known:] if speaks_of_pictures(said.lower()))
    before = [PicturesRefused(endpoint.model, said) for said in refused]
    answer = AnswerStream(chunks, decoder, vendor_request.fold(), endpoint, read_timeout, before)
    try:
        if content_type not in _STREAMS:
            raise NotAModelServer(endpoint, said=f"it sends {content_type}")
        yield answer
    finally:
        # httpx closes the response under its own shield, and never waits for the peer.
        await opened.close(_LINGER if answer.is_over else 0)  # noqa: ASYNC102


@dataclass(frozen=True, slots=True)
class _OpenedAnswer:
    """The answer whose head has arrived. It lasts as long as the model writes, so it has no more than what is
    needed from here on: the request and the response of httpx are gone."""

    content_type: str
    chunks: AsyncIterator[bytes]
    read_timeout: float
    _end: Callable[[], Awaitable[None]]

    async def close(self, seconds: float) -> None:
        """Read the rest of the body for a short time, then end it."""
        try:
            with trio.move_on_after(seconds), suppress(httpx.HTTPError, httpx.StreamError):
                async for _ in self.chunks:
                    pass
        finally:
            await self._end()  # noqa: ASYNC102 - it shields what it waits for


def _opened(response: httpx.Response, read_timeout: float) -> _OpenedAnswer:
    content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    chunks = _chunks(response)
    end: Callable[[], Awaitable[None]] = partial(_end_response, response)
    if isinstance(chunks, ResponseBody):
        # It refers to the response, which refers to it: both would stay until the garbage collector runs.
        del response.stream
        end = chunks.aclose
    return _OpenedAnswer(content_type, chunks, read_timeout, end)


async def _end_response(response: httpx.Response) -> None:
    await response.aclose()
    del response.stream  # as above


async def _opened_answer(
    client: httpx.AsyncClient, endpoint: Endpoint, vendor_request: VendorRequest, world: World
) -> _OpenedAnswer:
    """Return the response that has an answer. Raise `ModelError` if there is none."""
    headers = endpoint.sign_in | dict(vendor_request.headers)
    body = await vendor_request.body()
    for said in vendor_request.refused:
        body = vendor_request.amend(body, said) or body
    attempts = itertools.count()
    while True:
        content = msgspec.json.encode(body)
        read_timeout = stale_after(endpoint, len(content))
        # httpx has its own cancel scope around each read; a second one here would double the cost.
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS, read=read_timeout)
        headers["content-length"] = str(len(content))
        stream = _Content(content)
        request = client.build_request(
            "POST", vendor_request.url, headers=headers, content=stream, timeout=timeout
        )
        request.stream = stream
        response = await _send(client, request, endpoint, read_timeout)
        opened = _opened(response, read_timeout)
        if response.is_success:
            return opened
        explanation = await _explanation(opened.chunks, endpoint, read_timeout)
        await opened.close(0)
        error = response_error(endpoint, response.status_code, response.headers, explanation, world.now())
        # Servers refuse a picture with any status: as a bad request, an unknown model, an internal error.
        may_amend = isinstance(error, RequestRefused) or speaks_of_pictures(error.said.lower())
        amended = vendor_request.amend(body, error.said) if may_amend else None
        if amended is None or amended == body or next(attempts) == _MOST_AMENDMENTS:
            raise error
        vendor_request.refused.append(error.said)
        body = amended


class _Content(httpx.AsyncByteStream):
    """The body of a request, until it is sent. httpx's own body is an async generator, which a cancelled send
    leaves open, and stays in memory."""

    def __init__(self, content: bytes) -> None:
        self._rest = [content]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._rest:
            raise StopAsyncIteration
        return self._rest.pop()


async def _send(
    client: httpx.AsyncClient, request: httpx.Request, endpoint: Endpoint, read_timeout: float
) -> httpx.Response:
    """Send the request; return the response when its head has arrived."""
    try:
        return await client.send(request, stream=True)
    except httpx.HTTPError as error:
        raise _translated(error, endpoint, read_timeout) from error


def _chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    """Return the body as chunks of bytes. A body without encoding, as we ask for, skips httpx's decoders."""
    if "content-encoding" in response.headers:
        return response.aiter_bytes()
    if CHUNKS in response.extensions:
        body: ResponseBody = response.extensions[CHUNKS]
        return body
    assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - of an asynchronous client
    return aiter(response.stream)


async def _explanation(chunks: AsyncIterator[bytes], endpoint: Endpoint, read_timeout: float) -> bytes:
    """Return the body of a refusal; only its beginning if it is very long or slow."""
    body = b""
    with trio.move_on_after(min(read_timeout, 10)):
        try:
            async for chunk in chunks:
                body += chunk
                if len(body) > _MOST_OF_A_REFUSAL:
                    break
        except httpx.HTTPError as error:
            raise _translated(error, endpoint, read_timeout) from error
    return body


class AnswerStream:
    """The items of an answer, in order. An error is raised after all items before it, whatever the size of
    the chunks."""

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        decoder: sse.Decoder | sse.JsonAnswer,
        fold: AnswerFold,
        endpoint: Endpoint,
        read_timeout: float,
        before: Sequence[Item] = (),
    ) -> None:
        """`before` are items that precede those of the stream."""
        self._chunks, self._decoder, self._fold = chunks, decoder, fold
        self._endpoint, self._read_timeout = endpoint, read_timeout
        self._ready: Iterator[Item] = iter(before)
        self._error: ModelError | None = None
        self._text = self._thought = 0
        """Characters of text and of reasoning that were yielded."""
        self.is_over = False
        """True when the answer is complete."""

    def __aiter__(self) -> AnswerStream:
        return self

    async def __anext__(self) -> Item:
        while (item := next(self._ready, None)) is None:
            if self._error:
                raise self._error
            if self.is_over:
                raise StopAsyncIteration
            ready: list[Item] = []
            chunk = await self._chunk()
            try:
                self._read(chunk, ready)
            except ModelError as error:
                self._error = error
            self._ready = iter(ready)
        return item

    async def _chunk(self) -> bytes:
        """Return the next bytes, empty at the end. Any byte, even of a comment, restarts the timeout."""
        try:
            return await anext(self._chunks)
        except StopAsyncIteration:
            return b""
        except httpx.HTTPError as error:
            raise _translated(error, self._endpoint, self._read_timeout) from error

    def _read(self, chunk: bytes, ready: list[Item]) -> None:
        """Decode a chunk into items, and add them to `ready`; an empty chunk is the end of the stream."""
        try:
            events = self._decoder.feed(chunk) if chunk else self._decoder.end()
        except sse.EventTooLong as error:
            raise StreamMalformed(self._endpoint, said="an event without an end") from error
        for event in events:
            try:
                self._take(self._fold.feed(event), ready)
            except StreamMalformed as error:
                raise error if chunk else StreamCut(self._endpoint) from error
            if self._fold.held > LONGEST_CALLS:
                raise AnswerTooLong(self._endpoint, "a tool call", LONGEST_CALLS)
            if self._fold.done:
                break
        if self._fold.done or not chunk:
            self._take(self._fold.end(), ready)
            self.is_over = True

    def _take(self, items: list[Item], ready: list[Item]) -> None:
        """Add these items to `ready`, up to the maximum length. Raise `AnswerTooLong` after adding the part
        that fits."""
        for item in items:
            if isinstance(item, TextDelta):
                room, self._text = LONGEST_TEXT - self._text, self._text + len(item.text)
                part, longest = "the answer", LONGEST_TEXT
            elif isinstance(item, ReasoningDelta):
                room, self._thought = LONGEST_THOUGHT - self._thought, self._thought + len(item.text)
                part, longest = "the reasoning", LONGEST_THOUGHT
            else:
                ready.append(item)
                continue
            if len(item.text) > room:
                ready.append(replace(item, text=item.text[:room]))
                raise AnswerTooLong(self._endpoint, part, longest)
            ready.append(item)


def _translated(error: httpx.HTTPError, endpoint: Endpoint, read_timeout: float) -> ModelError:
    """Return the `ModelError` for an exception of httpx."""
    if isinstance(error, httpx.ReadTimeout):
        return StreamStale(endpoint, read_timeout)
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
        chain = list(causes(error))
        if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in chain):
            return CertificateRefused(endpoint)
        refused = any(isinstance(cause, ConnectionRefusedError) for cause in chain)
        why = next(filter(None, map(str, chain)), "")
        if isinstance(error, httpx.ProxyError):
            why = f"the proxy says {why}"
        no_files = any(getattr(cause, "errno", None) in (errno.EMFILE, errno.ENFILE) for cause in chain)
        return CannotConnect(endpoint, said=why, refused=refused, no_files=no_files)
    if isinstance(error, httpx.DecodingError):
        return StreamMalformed(endpoint)
    return StreamCut(endpoint, said=str(error))
