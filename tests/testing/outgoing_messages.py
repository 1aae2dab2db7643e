"""Values for the tests of the platforms for tests."""

from __future__ import annotations

from hermes_trio.platform import FOR_EVER, Outgoing, Traits

ALL_TRAITS = Traits(edits=True, deletes=True, typing=True, threads=True, takes_keys_for=FOR_EVER, finds=True)


def message(text: str = "Hi.", *, chat: str = "42", key: str = "key-1") -> Outgoing:
    """Return a message to send."""
    return Outgoing(chat_id=chat, text=text, key=key)
