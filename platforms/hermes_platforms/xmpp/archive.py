"""Questions to the archive of the server, and its answers (XEP-0313). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement

from .stanzas import IDS, IQ, MESSAGE

ARCHIVE = "urn:xmpp:mam:2"
PAGE = 100
_MAM = f"{{{ARCHIVE}}}"
_PAGES = "{http://jabber.org/protocol/rsm}"
_DATA = "{jabber:x:data}"


@dataclass(frozen=True, slots=True)
class Archived:
    """A message of the archive."""

    id: str
    """Its id in the archive."""
    query: str
    message: Element


@dataclass(frozen=True, slots=True)
class Page:
    """The end of an answer."""

    is_last: bool
    first: str
    last: str


def question(
    query: str,
    *,
    to: str = "",
    with_person: str = "",
    after: str | None = None,
    before: str | None = None,
    most: int | None = None,
) -> Element:
    """Return the question for a page: the oldest messages `after` one, or the newest `before` one; the empty
    id stands for the beginning or the end."""
    stanza = Element(IQ, {"type": "set", **({"to": to} if to else {})})
    asked = SubElement(stanza, f"{_MAM}query", queryid=query)
    if with_person:
        form = SubElement(asked, f"{_DATA}x", type="submit")
        for name, value in (("FORM_TYPE", ARCHIVE), ("with", with_person)):
            field = SubElement(form, f"{_DATA}field", {"var": name})
            SubElement(field, f"{_DATA}value").text = value
    pages = SubElement(asked, f"{_PAGES}set")
    SubElement(pages, f"{_PAGES}max").text = str(most or PAGE)
    if after:
        SubElement(pages, f"{_PAGES}after").text = after
    if before is not None:
        SubElement(pages, f"{_PAGES}before").text = before
    return stanza


def archived_of(stanza: Element) -> Archived | None:
    """Return the message of the archive that a stanza brings; None for one that brings none."""
    result = stanza.find(f"{_MAM}result")
    message = None if result is None else result.find(f"{{urn:xmpp:forward:0}}forwarded/{MESSAGE}")
    if result is None or message is None:
        return None
    return Archived(result.get("id", ""), result.get("queryid", ""), message)


def page_of(answer: Element) -> Page:
    """Read the end of an answer."""
    end = answer.find(f"{_MAM}fin")
    if end is None:
        return Page(True, "", "")
    pages = f"{_PAGES}set/{_PAGES}"
    first, last = end.findtext(f"{pages}first") or "", end.findtext(f"{pages}last") or ""
    return Page(end.get("complete") == "true" or not last, first, last)


def has_id(found: Iterable[Archived], stanza_id: str) -> bool:
    """Return True if one of the messages is ours with this id."""
    return any(
        one.message.get("id") == stanza_id
        or any(origin.get("id") == stanza_id for origin in one.message.iter(f"{IDS}origin-id"))
        for one in found
    )


def can_archive(answer: Element) -> bool:
    """Return True if the answer to a question about abilities names an archive."""
    return any(
        one.get("var") == ARCHIVE for one in answer.iter("{http://jabber.org/protocol/disco#info}feature")
    )
