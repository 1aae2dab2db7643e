"""The page about the laws of adapters, made from the laws and from the traits of the platforms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes_platforms.discord.discord_link import TRAITS as DISCORD
from hermes_platforms.email.email_link import TRAITS as EMAIL
from hermes_platforms.irc.irc_link import TRAITS as IRC
from hermes_platforms.matrix.matrix_link import TRAITS as MATRIX
from hermes_platforms.slack.slack_link import TRAITS as SLACK
from hermes_platforms.telegram.telegram_link import TRAITS as TELEGRAM
from hermes_platforms.webhook.webhook_link import TRAITS as WEBHOOKS
from hermes_platforms.xmpp.xmpp_link import TRAITS as XMPP
from hermes_trio.testing.laws import matrix


def laws() -> Iterator[str]:
    """Yield the lines of the page about the laws."""
    yield "# Laws of adapters\n"
    yield (
        "Every adapter keeps the same laws. They are tests, run on each change against the simulator of the "
        "platform; a broken law fails the build. Where a platform lacks an ability, its cell says which, and "
        "[the traits](adapter.md) say it to the gateway, which then does without.\n"
    )
    yield (
        "`python -m hermes_trio.testing.laws tests/platforms/test_laws.py` runs them and prints this table "
        "with the outcomes of that run, for each platform and each way to connect; that of XMPP only with "
        "`HERMES_TEST_TRIO_ASYNCIO=1`, because its library changes asyncio for the whole process. For an "
        "adapter of your own, name [your test module](adapter.md#the-laws).\n"
    )
    shown = {
        "Telegram": replace(TELEGRAM, reacts=True),
        "Discord": replace(DISCORD, reacts=True),
        "Matrix": replace(MATRIX, reacts=True),
        "Slack": replace(SLACK, reacts=True),
        "Email": EMAIL,
        "IRC": IRC,
        "XMPP": XMPP,
        "Webhooks": WEBHOOKS,
    }
    yield from matrix.table({name: matrix.promised(traits) for name, traits in shown.items()})
    yield ""
    yield (
        "A platform that can neither be asked for a message nor recognise a repeat may show an answer twice "
        "after a lost connection. Where messages can be edited, a placeholder avoids that: the answers in "
        "Telegram are edits, which can be repeated. Elsewhere the second is marked as possibly repeated.\n"
    )
    yield (
        "A platform that cannot send an event again, such as IRC, has no acknowledgement. What people write "
        "there is lost while there is no connection, and if the process is killed before it is stored.\n"
    )
