"""The run of a turn as data: its prompt, its ids, its chat, and how it ends. `run` fills it in; `context` and
`outcome` read it.

It stores nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...agent.providers.model_errors import ModelError
from ...state.tables.session_entry import SessionEntry
from ...state.tables.transcript import TranscriptRow
from ...state.tables.turns import Outcome
from ..links.link import Connection
from ..outbound.lane import Stream
from ..outbound.rows import Chat
from .handle import TurnHandle


@dataclass(slots=True)
class TurnRun:
    """A running turn."""

    entry: SessionEntry
    handle: TurnHandle
    run_id: str
    stream_key: str
    """Delivery key of its streamed message."""
    turn_id: int
    prompt: str = ""
    """The text to answer, with the gateway's note before it if one is due."""
    history: Sequence[TranscriptRow] = ()
    """The transcript before this turn."""
    request_is_noted: bool = False
    """True if its row says already that a request went to a model."""
    stream: Stream | None = None
    """The message in which the answer grows, if the chat can show it."""
    chat: Chat | None = None
    """Chat that gets the answer; None for a session without one."""
    connection: Connection | None = None
    """Connection to that chat's platform."""
    thread_id: str | None = None
    reply_to: str | None = None
    outcome: Outcome = Outcome.CUT
    answer: str = ""
    trouble: str = ""
    """Error text for the person, if it failed or timed out."""
    refusal: ModelError | None = None
    """Error of the model, if that is why it failed."""
