"""The session of Discord's gateway, as pure steps: frames in, frames out."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_platforms.discord.session import FINAL, BrokenFrame, Session

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def frame(op: int, data: Any = None, number: int | None = None, kind: str | None = None) -> str:
    return json.dumps({"op": op, "d": data, "s": number, "t": kind})


def ready(session: Session, number: int = 1) -> None:
    session.received(frame(10, {"heartbeat_interval": 41250}))
    session.received(frame(0, {"session_id": "s", "resume_gateway_url": "ws://r"}, number, "READY"))


def sent(session: Session, said: str) -> Any:
    return json.loads(session.received(said).send or "null")


def test_a_new_session_identifies_and_a_known_one_resumes_after_the_last_dispatch_that_came() -> None:
    session = Session("token", 513)
    greeting = sent(session, frame(10, {"heartbeat_interval": 41250}))
    assert (greeting["op"], greeting["d"]["intents"]) == (2, 513)
    ready(session)
    session.received(frame(0, {"id": "7"}, 2, "MESSAGE_CREATE"))
    greeting = sent(session, frame(10, {"heartbeat_interval": 41250}))
    assert greeting == {"op": 6, "d": {"token": "token", "session_id": "s", "seq": 2}}


def test_a_heartbeat_names_only_what_is_stored() -> None:
    session = Session("token", 513)
    ready(session)
    session.received(frame(0, {"id": "7"}, 2, "MESSAGE_CREATE"))
    assert sent(session, frame(1)) == {"op": 1, "d": 1}
    session.stored = 2
    assert sent(session, frame(1)) == {"op": 1, "d": 2}


def test_a_dispatch_that_comes_again_after_a_break_is_delivered_once() -> None:
    session = Session("token", 513)
    ready(session)
    again = frame(0, {"id": "7"}, 2, "MESSAGE_CREATE")
    assert session.received(again).deliver is not None
    assert session.received(again).deliver is None


@pytest.mark.parametrize(("resumable", "session_id"), [(True, "s"), (False, None)])
def test_an_invalid_session_is_forgotten_unless_it_can_be_resumed(
    resumable: bool, session_id: str | None
) -> None:
    session = Session("token", 513)
    ready(session)
    assert session.received(frame(9, resumable)).lost is not None
    assert session.id == session_id


@pytest.mark.parametrize("code", [None, 1006, 4000, 4008, 1000, 4007, 4009, *FINAL])
def test_a_close_code_decides_what_comes_next(code: int | None) -> None:
    session = Session("token", 513)
    ready(session)
    final = session.closed(code)
    assert (final is not None) == (code in (4004, 4010, 4011, 4012, 4013, 4014))
    assert (session.id is None) == (code in (1000, 4007, 4009))


@given(JSON)
def test_any_frame_is_handled_or_called_broken(content: object) -> None:
    session = Session("token", 513)
    with suppress(BrokenFrame):
        session.received(json.dumps(content))


def test_the_token_is_in_no_representation() -> None:
    assert "secret" not in repr(Session("secret", 513))
