"""What somebody said, as the agent is told it: with what it replies to, which may be older than all that the
agent remembers, and with who speaks, where several people share a session.

It is what the transcript keeps too. Commands and answers are understood before, by the words alone.
"""

from __future__ import annotations

from dataclasses import replace

from ...base.messages import is_shared
from ...config.schema import GatewayConfig
from ...state.tables.inbox import Received

LONGEST_QUOTE = 500
LONGEST_NAME = 100


def as_told(row: Received, config: GatewayConfig) -> Received:
    """The message with these in front of its text."""
    event, source = row.event, row.event.source
    if event.kind == "internal":
        return row
    text = event.text
    if event.reply_to_text:
        text = f'[Replying to: "{_data(event.reply_to_text, LONGEST_QUOTE)}"]\n{text}'
    # What comes with a request, from the page say, is said by nobody of that chat.
    if event.run_id is None and is_shared(
        source,
        group_sessions_per_user=config.group_sessions_per_user,
        thread_sessions_per_user=config.thread_sessions_per_user,
    ):
        who = f"[{_data(source.user_name or source.participant or 'Somebody', LONGEST_NAME)}] "
        text = text if text.startswith(who) else who + text  # said again, it names them already
    return row if text == event.text else replace(row, event=replace(event, text=text))


def _data(text: str, most: int) -> str:
    """In one line, and nothing that could end the bracket it stands in."""
    line = " ".join(text.split()).replace("[", "(").replace("]", ")").replace('"', "'")
    return line if len(line) <= most else f"{line[:most]}…"
