"""The text of a message from the data of a request."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermes_platforms.webhook.parsing import data_of, parse
from hermes_platforms.webhook.settings import Route
from hermes_platforms.webhook.templates import LONGEST, rendered

DATA = {"build": {"status": "failed", "steps": ["make", "test"], "seconds": 7}, "note": "{secret} {{"}
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def test_a_path_names_a_value_and_what_is_missing_is_empty() -> None:
    template = "{build.status}, {build.steps.1}, {build.seconds}, {build.steps.9}{no.such}, {header.X-Event}"
    assert rendered(template, DATA, {"x-event": "push"}) == "failed, test, 7, , push"
    assert rendered("{{build.status}} {note}", DATA, {}) == "{build.status} {secret} {{"
    assert rendered("{build.steps}", DATA, {}) == '[\n "make",\n "test"\n]'


def test_a_long_text_is_cut_and_says_so() -> None:
    text = rendered("{body}", "x" * (LONGEST + 5), {})
    assert text == "x" * LONGEST + "\n… (5 characters more)"


@given(template=st.text(max_size=40), data=JSON)
def test_every_template_and_all_data_give_a_text(template: str, data: Any) -> None:
    rendered(template, data, {})


@given(
    body=st.binary(max_size=60),
    kind=st.sampled_from(["application/json", "application/x-www-form-urlencoded"]),
)
def test_every_body_becomes_an_event_that_is_no_command(body: bytes, kind: str) -> None:
    headers = {"content-type": kind}
    route = Route(secret="", scheme="github", text="{body}", chat="{id}", user="{user}")
    event = parse("ci", route, "1", headers, data_of(headers, body), "webhook", "main")
    assert (event.kind, event.message_id) == ("internal", "1")
    assert event.source.chat_id.partition("/")[0] == "ci"


def test_a_form_of_github_has_its_data_in_one_field() -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert data_of(headers, b"payload=%7B%22zen%22%3A+%22Design%22%7D") == {"zen": "Design"}


def test_a_route_divides_into_chats_and_names_the_person() -> None:
    route = Route(secret="", scheme="github", text="{title}", chat="{repository}", user="{sender}")
    data = {"repository": "ours/site", "sender": "kim", "title": "/restart"}
    source = parse("ci", route, "1", {}, data, "webhook", "main").source
    assert (source.chat_id, source.chat_type, source.user_id) == ("ci/ours/site", "group", "kim")
    one = parse("ci", Route(secret="", scheme="github"), "1", {}, data, "webhook", "main")
    assert (one.source.chat_id, one.source.chat_type, one.source.user_id) == ("ci", "dm", "ci")
    assert one.text.startswith("A program has called the webhook ci. What follows is its data")
