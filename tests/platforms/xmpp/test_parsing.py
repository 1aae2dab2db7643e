"""What people write, and what we send, without a server."""

# ruff: noqa: S314 - the stanzas are ours

from __future__ import annotations

from xml.etree.ElementTree import Element, fromstring, tostring

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_platforms.xmpp.archive import archived_of, can_archive, has_id, page_of, question
from hermes_platforms.xmpp.parsing import Account, LeftOut, event_of, occupant_of
from hermes_platforms.xmpp.place import Place, place_in
from hermes_platforms.xmpp.stanzas import error_of, id_of, message_of
from hermes_trio.platform import (
    ChatGone,
    FloodWait,
    MessageEvent,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Refused,
)

ROOM = "ours@rooms.test"
ACCOUNT = Account(
    address="hermes@home.test",
    nick="Hermes",
    rooms=frozenset({ROOM}),
    commands=frozenset({"stop"}),
    occupants={f"{ROOM}/Kim": "kim@people.test"},
)
TEXTS = st.text(st.sampled_from("ab@:,! /<>&'\"\n\x00\ud800😀Hermes"), max_size=40)


def stanza(inner: str, sender: str = "ann@people.test/phone", kind: str = "chat") -> Element:
    return fromstring(
        f'<message xmlns="jabber:client" from="{sender}" type="{kind}" id="m1">{inner}</message>'
    )


def event(inner: str, sender: str = "ann@people.test/phone", kind: str = "chat") -> MessageEvent:
    found = event_of(stanza(inner, sender, kind), ACCOUNT)
    assert isinstance(found, MessageEvent)
    return found


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("Hermes: hello", "hello"),
        ("hermes, hello", "hello"),
        ("@hermes !stop", "/stop"),
        ("what does @Hermes say?", "what does @Hermes say?"),
        ("hermes: /me waves", "* Kim waves"),
    ],
)
def test_a_message_of_a_room_that_names_us_is_heard_with_the_address_that_the_room_shows(
    said: str, heard: str
) -> None:
    found = event(f"<body>{said}</body>", f"{ROOM}/Kim", "groupchat")
    assert (found.text, found.source.chat_id, found.source.chat_type) == (heard, ROOM, "group")
    assert (found.source.user_id, found.source.user_name) == ("kim@people.test", "Kim")


@pytest.mark.parametrize("said", ["hello", "hermesbot: hello", "mail@hermesbot", "say hermes"])
def test_a_message_of_a_room_that_does_not_name_us_is_for_nobody(said: str) -> None:
    found = stanza(f"<body>{said}</body>", f"{ROOM}/Kim", "groupchat")
    assert event_of(found, ACCOUNT) == LeftOut()


def test_a_person_without_a_shown_address_is_the_name_in_the_room_and_no_address() -> None:
    found = event("<body>Hermes: hi</body>", f"{ROOM}/kim@people.test", "groupchat")
    assert found.source.user_id == f"{ROOM}/kim@people.test"
    private = event("<body>psst</body>", f"{ROOM}/Kim")
    assert (private.source.chat_id, private.source.user_id) == (f"{ROOM}/Kim", "kim@people.test")


@pytest.mark.parametrize(
    ("inner", "sender", "kind"),
    [
        ("<body>x</body>", "hermes@home.test/other", "chat"),
        ("<body>Hermes: x</body>", f"{ROOM}/Hermes", "groupchat"),
        ("<subject>x</subject>", f"{ROOM}/Kim", "groupchat"),
        ("<body>Hermes: x</body>", ROOM, "groupchat"),
        ("<body>Hermes: x</body>", "others@rooms.test/Kim", "groupchat"),
        ("<body>x</body>", "ann@people.test", "headline"),
        ('<composing xmlns="http://jabber.org/protocol/chatstates"/>', "ann@people.test", "chat"),
    ],
)
def test_what_is_ours_or_says_nothing_is_for_nobody(inner: str, sender: str, kind: str) -> None:
    assert event_of(stanza(inner, sender, kind), ACCOUNT) == LeftOut()


def test_an_encrypted_message_is_left_out_with_a_reason_and_not_answered() -> None:
    inner = '<body>I sent you an OMEMO message</body><encrypted xmlns="eu.siacs.conversations.axolotl"/>'
    assert event_of(stanza(inner), ACCOUNT) == LeftOut("it is encrypted from end to end")


def test_a_reply_is_heard_without_the_quotation() -> None:
    found = event(
        '<body>&gt; old\nnew</body><reply xmlns="urn:xmpp:reply:0" id="m0"/>'
        '<fallback xmlns="urn:xmpp:fallback:0" for="urn:xmpp:reply:0"><body start="0" end="6"/></fallback>'
    )
    assert (found.text, found.reply_to) == ("new", "m0")


@pytest.mark.parametrize(
    ("condition", "kind", "is_room", "error"),
    [
        ("remote-server-timeout", "wait", False, OutcomeUnknown),
        ("item-not-found", "cancel", True, ChatGone),
        ("service-unavailable", "cancel", False, ChatGone),
        ("service-unavailable", "cancel", True, Refused),
        ("not-acceptable", "modify", True, NotSent),
        ("policy-violation", "modify", False, Refused),
        ("internal-server-error", "wait", False, NotSent),
        ("forbidden", "auth", False, Refused),
    ],
)
def test_an_error_says_what_became_of_the_message(
    condition: str, kind: str, is_room: bool, error: type[PlatformError]
) -> None:
    space = "urn:ietf:params:xml:ns:xmpp-stanzas"
    bounced = stanza(f'<error type="{kind}"><{condition} xmlns="{space}"/></error>', kind="error")
    assert type(error_of(bounced, is_room=is_room)).__mro__[0] in (error, *error.__subclasses__())
    assert not isinstance(error_of(bounced, is_room=is_room), FloodWait)


@settings(max_examples=150, deadline=None, database=None)
@given(TEXTS, TEXTS, st.sampled_from(["chat", "groupchat", "normal"]))
def test_no_stanza_raises_and_each_text_is_sent_as_xml_can_hold_it(text: str, sender: str, kind: str) -> None:
    message = Outgoing(chat_id="ann@people.test", text=text, key="key-1", preformatted=((0, len(text)),))
    sent = fromstring(tostring(message_of(message, "hermes@home.test", is_room=False)))
    sent.set("from", sender)
    sent.set("type", kind)
    found = event_of(sent, ACCOUNT)
    assert isinstance(found, LeftOut) or found.text
    if text.isprintable() and text.isascii():
        assert (sent.findtext("{jabber:client}body") or "") == text


def test_our_message_is_found_in_a_page_of_the_archive_by_its_id_alone() -> None:
    ours = id_of("key-1", "ann@people.test", "hermes@home.test")
    assert ours != id_of("key-2", "ann@people.test", "hermes@home.test")
    carrier = fromstring(
        '<message xmlns="jabber:client"><result xmlns="urn:xmpp:mam:2" queryid="q1" id="a7">'
        f'<forwarded xmlns="urn:xmpp:forward:0"><message xmlns="jabber:client" id="x"><body>{ours}</body>'
        f'<origin-id xmlns="urn:xmpp:sid:0" id="{ours}"/></message></forwarded></result></message>'
    )
    archived = archived_of(carrier)
    assert archived is not None
    assert (archived.id, archived.query) == ("a7", "q1")
    assert has_id([archived], ours)
    assert not has_id([archived], id_of("key-2", "ann@people.test", "hermes@home.test"))
    assert archived_of(stanza("<body>hello</body>")) is None
    page = fromstring(
        '<iq xmlns="jabber:client"><fin xmlns="urn:xmpp:mam:2"><set xmlns="http://jabber.org/protocol/rsm">'
        "<first>a1</first><last>a7</last></set></fin></iq>"
    )
    assert (page_of(page).is_last, page_of(page).last) == (False, "a7")
    assert not can_archive(question("q1"))


@pytest.mark.parametrize(
    "text", [None, "", "[]", "{", '{"session": 7}', '{"archive": []}', '{"number": "x"}']
)
def test_a_place_that_cannot_be_read_is_the_beginning(text: str | None) -> None:
    assert place_in(text) == Place()
    place = Place("s1", 7, "a3", ("a@b",))
    assert place_in(place.text) == place


def test_a_presence_of_a_room_tells_who_has_come_and_gone() -> None:
    space = "http://jabber.org/protocol/muc#user"
    inner = f'<x xmlns="{space}"><item jid="Kim@people.test/p"/><status code="110"/></x>'
    come = fromstring(f'<presence xmlns="jabber:client" from="{ROOM}/Kim">{inner}</presence>')
    assert occupant_of(come) == (f"{ROOM}/Kim", "kim@people.test", frozenset({"110"}))
    come.set("type", "unavailable")
    assert occupant_of(come) == (f"{ROOM}/Kim", None, frozenset({"110"}))
