"""Attribution: the quoted message and the speaker's name before the text of a message.

A quoted message may be older than everything that the agent remembers, and in a shared session several people
speak. The transcript keeps the attributed text. Commands and answers are recognised before, by the words
alone.

Pure.
"""

from __future__ import annotations

from dataclasses import replace

from ...base.messages import is_shared
from ...config.schema import GatewayConfig
from ...state.tables.inbox import Received

LONGEST_QUOTE = 500
LONGEST_NAME = 100


def with_attribution(row: Received, config: GatewayConfig) -> Received:
    """Return the row with the quoted message and, in a shared session, the speaker's name prefixed."""
    event, source = row.event, row.event.source
    if event.kind == "internal":
        return row
    text = event.text
    if event.reply_to_text:
        text = f'[Replying to: "{_quoted(event.reply_to_text, LONGEST_QUOTE)}"]\n{text}'
    # A message from the page or the API was written by no person of that chat.
    if event.run_id is None and is_shared(
        source,
        group_sessions_per_user=config.group_sessions_per_user,
        thread_sessions_per_user=config.thread_sessions_per_user,
    ):
        who = f"[{_quoted(source.user_name or source.participant or 'Somebody', LONGEST_NAME)}] "
        text = text if text.startswith(who) else who + text  # after /retry it has the name already
    return row if text == event.text else replace(row, event=replace(event, text=text))


def _quoted(text: str, most: int) -> str:
    """Return the text in one line, without characters that could end the bracket around it."""
    line = " ".join(text.split()).replace("[", "(").replace("]", ")").replace('"', "'")
    return line if len(line) <= most else f"{line[:most]}…"
