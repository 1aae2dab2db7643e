"""Values that the configuration refuses, and the questions of the set-up."""

from __future__ import annotations

import pytest

from hermes_platforms.xmpp import settings_of
from hermes_platforms.xmpp.setup import QUESTIONS
from hermes_trio import ConfigInvalid, PlatformConfig

OPTIONS = {"address": "Hermes@home.test", "password": "secret-of-nobody"}


def settings(**options: object) -> object:
    return settings_of(PlatformConfig(allow_from=("ann@people.test",), options={**OPTIONS, **options}))


def test_an_address_and_a_password_are_enough() -> None:
    found = settings_of(
        PlatformConfig(allow_from=("ann@people.test",), options={**OPTIONS, "rooms": "A@b, c@d"})
    )
    assert (found.address, found.host, found.tls, found.rooms) == (
        "hermes@home.test",
        "",
        True,
        ("a@b", "c@d"),
    )
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("address", "hermes"),
        ("address", "hermes@home.test/phone"),
        ("password", ""),
        ("server", "xmpp://home.test"),
        ("server", "home.test:70000"),
        ("server", ":5222"),
        ("tls", "no"),
        ("tls", False),
        ("rooms", ["ours"]),
        ("rooms", 7),
        ("nick", "a/b"),
    ],
)
def test_a_value_that_cannot_work_is_refused_with_its_key(key: str, value: object) -> None:
    with pytest.raises(ConfigInvalid, match=f"platforms.xmpp.{key}"):
        settings(**{key: value})


def test_a_connection_without_encryption_stays_on_this_machine() -> None:
    assert settings(tls=False, server="127.0.0.1:5222")
    with pytest.raises(ConfigInvalid, match="clear text"):
        settings(tls=False, server="xmpp.home.test")


@pytest.mark.parametrize("listed", ["Ann@people.test", "ann", "ann@"])
def test_a_person_is_listed_by_the_address(listed: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"platforms\.xmpp\.allow_from"):
        settings_of(PlatformConfig(allow_from=(listed,), options=OPTIONS))


def test_the_questions_take_what_people_paste() -> None:
    address, rooms, password = QUESTIONS
    assert address.check is not None
    assert rooms.check is not None
    assert address.check(" Hermes@Home.test ") == "hermes@home.test"
    assert rooms.check("none") == ""
    assert rooms.check("a@b, C@d") == "a@b, c@d"
    assert password.variable == "XMPP_PASSWORD"
    for check, answer in ((address.check, "hermes"), (address.check, "h@a/b"), (rooms.check, "ours")):
        with pytest.raises(ValueError, match="Write"):
            check(answer)
