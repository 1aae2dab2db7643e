"""Mails, and the events that they become or why they become none."""

from __future__ import annotations

from dataclasses import replace
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_platforms.email.authentication import is_authentic
from hermes_platforms.email.composing import composed, message_id_of
from hermes_platforms.email.parsing import Refusal, Thread, parsed, read, shortened, thread_of
from hermes_platforms.email.readable import html_to_text, without_quote
from hermes_platforms.email.settings import EmailSettings
from hermes_trio.platform import MessageEvent, Outgoing
from tests.platforms.email.mails import PASSED, SETTINGS, mail


def event(made: EmailMessage, settings: EmailSettings = SETTINGS) -> MessageEvent:
    found = read(made.as_bytes(), "7/1", settings, "email", "main")
    assert isinstance(found, MessageEvent), found
    return found


def refusal(made: EmailMessage, settings: EmailSettings = SETTINGS) -> str:
    found = read(made.as_bytes(), "7/1", settings, "email", "main")
    assert isinstance(found, Refusal), found
    return found.why


@given(st.binary(max_size=300))
def test_no_bytes_raise(data: bytes) -> None:
    for head in (b"", b"From: ann@people.test\r\nTo: hermes@home.test\r\n"):
        read(head + data, "7/1", replace(SETTINGS, trust_from=True), "email", "main")


def test_a_mail_names_its_person_its_subject_and_its_time() -> None:
    found = event(mail("hello", Subject="Holidays"))
    assert (found.text, found.message_id) == ("[Subject: Holidays]\nhello", "<1@people.test>")
    source = found.source
    assert (source.chat_id, source.user_id, source.user_name) == ("ann@people.test", "ann@people.test", "Ann")
    assert (source.chat_type, found.sent_at) == ("dm", 1795168800.0)


def test_an_answer_repeats_no_subject_and_a_command_has_none() -> None:
    answer = event(mail("yes", Subject="Re: Holidays", In_Reply_To="<0@home.test>"))
    assert (answer.text, answer.reply_to) == ("yes", "<0@home.test>")
    command = event(mail("/status", Subject="Hm"))
    assert (command.text, command.kind) == ("/status", "command")


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"From": "hermes@home.test"}, "our own"),
        ({"From": "bob@people.test"}, "may not talk"),
        ({"From": "ann@people.test, bob@people.test"}, "not one sender"),
        ({"From": "noreply@people.test"}, "a program"),
        ({"From": "MAILER-DAEMON@people.test"}, "a program"),
        ({"From": '"a b"@people.test'}, "unknown form"),
        ({"Auto_Submitted": "auto-replied"}, "a program has answered"),
        ({"Auto_Submitted": "auto-generated; x=1"}, "a program has answered"),
        ({"Precedence": "bulk"}, "sent to many"),
        ({"List_Id": "<news.people.test>"}, "sent by a program"),
        ({"List_Unsubscribe": "<https://people.test>"}, "sent by a program"),
        ({"Return_Path": "<>"}, "a program"),
        ({"To": "bob@people.test"}, "somebody else"),
    ],
)
def test_a_mail_that_must_not_be_answered_is_left_out(headers: dict[str, str], why: str) -> None:
    assert why in refusal(mail(**headers))


def test_no_answer_of_ours_is_answered_by_another_one_of_us() -> None:
    message = Outgoing(chat_id="ann@people.test", text="Done.", key="1")
    other = replace(SETTINGS, address="ann@people.test", allow_from="all", trust_from=True)
    data = composed(message, None, (), SETTINGS, "Fri, 20 Nov 2026 10:00:00 +0000")
    assert read(data, "7/1", other, "email", "main") == Refusal("a program has answered")


@pytest.mark.parametrize(
    ("results", "passes"),
    [
        (PASSED, True),
        ("mx.home.test; spf=pass smtp.mailfrom=bounce@mail.people.test", True),
        ("mx.home.test; dkim=pass header.d=people.test header.s=x", True),
        ("mx.home.test; dkim=pass (2048 bit; x) header.i=@people.test", True),
        ("mx.home.test; dkim=pass header.d=elsewhere.test; dmarc=fail header.from=people.test", False),
        ("mx.home.test; spf=pass smtp.mailfrom=ann@notpeople.test", False),
        ("mx.home.test; dmarc=pass header.from=elsewhere.test", False),
        ("mx.home.test; dmarc=fail (was dmarc=pass header.from=people.test)", False),
        ("mx.home.test; none", False),
        ("elsewhere.test; dmarc=pass header.from=people.test", False),
        ("", False),
        (None, False),
    ],
)
def test_a_sender_is_believed_if_our_server_says_so(results: str | None, passes: bool) -> None:
    assert is_authentic(mail(results=results), "ann@people.test", "mx.home.test") is passes


def test_results_below_those_of_our_server_are_not_believed() -> None:
    made = mail(results="mx.home.test; dmarc=fail header.from=people.test")
    made["Authentication-Results"] = PASSED
    assert not is_authentic(made, "ann@people.test", "mx.home.test")
    assert not is_authentic(made, "ann@people.test", "")


def test_mail_of_a_group_is_answered_to_the_group_where_it_mentions_us() -> None:
    assert refusal(mail("hello all", To="team@home.test")) == "it does not mention us"
    found = event(mail("@hermes, hello", To="team@home.test"))
    assert (found.source.chat_id, found.source.chat_type) == ("team@home.test", "group")
    assert found.source.user_id == "ann@people.test"
    both = event(mail("hello", To="team@home.test, hermes@home.test"))
    assert both.source.chat_type == "dm"


def test_files_are_attachments_with_their_places() -> None:
    made = mail("look")
    made.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="a.png")
    made.add_attachment("text", filename="b.txt")
    found = event(made)
    assert [(one.kind, one.name, one.size, one.file_id) for one in found.attachments] == [
        ("photo", "a.png", 4, "7/1/0"),
        ("document", "b.txt", 5, "7/1/1"),
    ]


def test_of_a_mail_that_is_too_long_the_head_is_read() -> None:
    made = mail("look", Subject="Holidays")
    made.add_attachment(b"data", maintype="image", subtype="png", filename="a.png")
    header = made.as_bytes().partition(b"\n\n")[0] + b"\r\n\r\n"
    found = read(shortened(header, 50_000_000), "7/1", SETTINGS, "email", "main")
    assert isinstance(found, MessageEvent)
    assert found.text == "[Subject: Holidays]\n[This mail has 50000000 bytes, and is too long to be read.]"


def test_a_mail_of_html_alone_is_read_as_text() -> None:
    made = mail("")
    made.set_content(
        "<style>x</style><p>See <a href='https://x.org/'>the page</a></p><p>a &lt; b</p>", "html"
    )
    assert event(made).text == "See the page (https://x.org/)\n\na < b"
    assert html_to_text("<p>one<br>two</p><script>alert(1)</script>") == "one\ntwo"


@pytest.mark.parametrize(
    ("text", "read_as"),
    [
        ("yes\n\nOn Friday, Hermes wrote:\n> really?\n> or not\n", "yes"),
        ("yes\n\nOn Friday, Hermes <h@home.test>\nwrote:\n> really?", "yes"),
        ("> really?\nyes\n> or not?\nno", "> really?\nyes\n> or not?\nno"),
        ("> only this", "> only this"),
        ("bye\n-- \nAnn", "bye"),
        ("a list:\n- one", "a list:\n- one"),
    ],
)
def test_a_quotation_at_the_end_and_a_signature_are_left_out(text: str, read_as: str) -> None:
    assert without_quote(text).strip() == read_as


def test_an_answer_is_shown_below_the_mail_that_it_answers() -> None:
    asked = mail("hello", Subject="Re: Holidays", References="<a@x.test> <b@x.test>")
    message = Outgoing(chat_id="ann@people.test", text="Füße\n.\n-- end", key="key-1")
    data = composed(
        message, thread_of(asked), [("a.txt", b"data")], SETTINGS, "Fri, 20 Nov 2026 10:00:00 +0000"
    )
    answer = parsed(data)
    assert (answer["to"], answer["subject"]) == ("ann@people.test", "Re: Holidays")
    assert answer["in-reply-to"] == "<1@people.test>"
    assert answer["references"] == "<a@x.test> <b@x.test> <1@people.test>"
    assert answer["message-id"] == message_id_of("key-1", SETTINGS) != message_id_of("key-2", SETTINGS)
    body = answer.get_body(("plain",))
    assert body is not None
    assert body.get_content().replace("\r\n", "\n").rstrip("\n") == "Füße\n.\n-- end"
    assert [one.get_filename() for one in answer.iter_attachments()] == ["a.txt"]
    assert data.isascii()


def test_a_long_thread_keeps_its_root() -> None:
    thread = Thread("<last@x.test>", tuple(f"<{n}@x.test>" for n in range(50)), "s")
    data = composed(Outgoing(chat_id="a@x.test", text="t", key="1"), thread, (), SETTINGS, "")
    references = str(parsed(data)["references"]).split()
    assert (references[0], references[-1], len(references)) == ("<0@x.test>", "<last@x.test>", 20)
