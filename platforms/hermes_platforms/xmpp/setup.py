"""Questions of `hermes-trio setup xmpp`."""

from __future__ import annotations

from hermes_trio.platform import Question

from . import is_person, rooms_in


def _address(answer: str) -> str:
    address = answer.strip().lower()
    if not is_person(address) or "/" in address:
        raise ValueError("Write the whole address, like hermes@example.org.")
    return address


def _rooms(answer: str) -> str:
    rooms = rooms_in(answer)
    if any(not is_person(one) or "/" in one for one in rooms):
        raise ValueError("Write addresses of rooms, like ours@rooms.example.org.")
    return ", ".join(rooms)


QUESTIONS = [
    Question(
        key="address",
        ask="Address of the bot",
        help=(
            "An account of its own, at any XMPP server. On your own Prosody: "
            "`prosodyctl adduser hermes@example.org`."
        ),
        check=_address,
    ),
    Question(
        key="rooms",
        ask="Rooms, with commas between them",
        help="In a room the bot answers messages that name it, such as `hermes: hello`.",
        default="none",
        check=_rooms,
    ),
    Question(
        key="password",
        ask="Password of the account",
        help="It is sent only over an encrypted connection.",
        variable="XMPP_PASSWORD",
    ),
]
