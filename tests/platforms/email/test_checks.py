"""Findings of `doctor email`, and values that its configuration refuses."""

from __future__ import annotations

import pytest

from hermes_platforms.email import from_config, settings_of
from hermes_platforms.email.checks import check
from hermes_platforms.email.setup import QUESTIONS
from hermes_platforms.email.testing import MailServer, open_mail_server
from hermes_trio import ConfigInvalid, PlatformConfig
from tests.platforms.email.mails import mail

OPTIONS = {
    "address": "Hermes@home.test",
    "password": "secret-of-nobody",
    "imap": "imap.home.test",
    "smtp": "smtp.home.test:587",
}


def mailbox_of(server: MailServer, **options: object) -> PlatformConfig:
    server.address = "hermes@home.test"
    where = {"imap": f"127.0.0.1:{server.imap_port}", "smtp": f"127.0.0.1:{server.smtp_port}", "tls": False}
    keys = {"address": server.address, "password": server.password, **where, **options}
    return PlatformConfig(allow_from=("ann@people.test",), options=keys)


async def test_doctor_leads_from_the_password_to_the_first_answer_and_reads_nothing() -> None:
    async with open_mail_server() as server:
        server.put(mail().as_bytes())
        server.put(mail(results=None).as_bytes())
        found = await check(mailbox_of(server))
        assert [one.level for one in found] == ["ok"] * len(found)
        texts = " ".join(one.text for one in found)
        assert "unread mail: 2" in texts
        assert "unread mail 2 would not be answered: our server does not say" in texts
        assert "unread mail 1 would" not in texts
        assert not any(one.is_read for one in server.mails)
        trusting = await check(mailbox_of(server, trust_from=True))
        assert [one.level for one in trusting].count("warning") == 1


async def test_doctor_says_what_to_do_about_a_refused_password_and_a_server_that_is_away() -> None:
    async with open_mail_server() as server:
        server.refuses()
        [problem] = await check(mailbox_of(server))
        assert "password for apps" in problem.remedy
        away = mailbox_of(server)
    [problem] = await check(away)
    assert "cannot be read" in problem.text


def test_settings_are_read_from_the_configuration() -> None:
    settings = settings_of(PlatformConfig(allow_from=("ann@people.test",), options=OPTIONS))
    assert (settings.address, settings.allow_from) == ("hermes@home.test", {"ann@people.test"})
    assert (settings.imap_port, settings.smtp_host, settings.smtp_port) == (993, "smtp.home.test", 587)
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    ("changed", "allow", "key"),
    [
        ({"address": "hermes"}, ("ann@people.test",), "address"),
        ({"password": ""}, ("ann@people.test",), "password"),
        ({"imap": "a b"}, ("ann@people.test",), "imap"),
        ({"smtp": "smtp.home.test:x"}, ("ann@people.test",), "smtp"),
        ({"tls": False}, ("ann@people.test",), "tls"),
        ({"groups": "team@home.test"}, ("ann@people.test",), "groups"),
        ({"trust_from": "yes"}, ("ann@people.test",), "trust_from"),
        ({}, ("ann",), "allow_from"),
        ({}, ("Ann@people.test",), "allow_from"),
        ({}, (), "allow_from"),
        ({}, "all", "allow_from"),
    ],
)
def test_a_value_that_cannot_work_is_refused_and_the_password_is_not_shown(
    changed: dict[str, object], allow: object, key: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        from_config(PlatformConfig(allow_from=allow, options=OPTIONS | changed))  # type: ignore[arg-type]
    assert f"platforms.email.{key}:" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_setup_asks_for_names_of_servers_and_a_whole_address() -> None:
    address, imap, _, password = QUESTIONS
    assert address.check(" Hermes@Home.test ") == "hermes@home.test"
    assert password.variable == "EMAIL_PASSWORD"
    for question, wrong in ((address, "hermes"), (imap, "https://imap.home.test")):
        with pytest.raises(ValueError, match="Write the"):
            question.check(wrong)
