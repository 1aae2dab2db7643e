"""Output of `setup` and `doctor` on the way from BotFather to the first answer. They consume no update."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_platforms.telegram.checks import check
from hermes_platforms.telegram.testing import ApiError, BotApi
from hermes_trio import PlatformConfig
from hermes_trio.cli import main
from hermes_trio.platform.contract import Outgoing
from hermes_trio.state.tables.inbox import last_received
from hermes_trio.state.tables.outbox import last_sent
from tests.platforms.conftest import SECRET, free_webhook


@pytest.fixture
def home(tmp_path: Path, telegram: BotApi) -> Path:
    """A home whose Telegram server is on this machine."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(f"platforms: {{telegram: {{base_url: {telegram.base_url}}}}}")
    (home / "config.yaml").chmod(0o600)
    return home


@pytest.fixture
def hermes(home: Path) -> Callable[..., object]:
    async def run(*arguments: str, said: str | None = None) -> Result:
        def in_thread() -> Result:
            environ = {"HERMES_HOME": str(home), "TELEGRAM_BOT_TOKEN": None}
            return CliRunner().invoke(main, arguments, env=environ, input=said)

        return await trio.to_thread.run_sync(in_thread)

    return run


def found(level: str, findings: object) -> list[str]:
    return [one.text for one in findings if one.level == level]  # type: ignore[attr-defined]


def bot_of(telegram: BotApi, **keys: object) -> PlatformConfig:
    return PlatformConfig(token=telegram.token, base_url=telegram.base_url, **keys)  # type: ignore[arg-type]


async def test_setup_leads_from_the_token_to_the_address_of_the_bot(
    telegram: BotApi, home: Path, hermes: Callable[..., object]
) -> None:
    telegram.post("hello?")
    result = await hermes("setup", "telegram", "--allow", "42", said=f"{telegram.token}\n")  # type: ignore[misc]
    assert result.exit_code == 0, result.output
    assert "https://t.me/BotFather" in result.output
    assert "the bot is @hermes_bot, https://t.me/hermes_bot" in result.output
    assert "Kim (42) has written, and is answered when the gateway runs" in result.output
    assert result.output.endswith("Next: `hermes-trio run`.\n")
    assert telegram.token not in result.output
    again = await hermes("doctor", "telegram")  # type: ignore[misc]
    assert again.exit_code == 0, again.output
    assert "telegram is installed and configured" in again.output
    assert "the bot is @hermes_bot" in again.output
    assert len(telegram.waiting) == 1, "the update still waits for the gateway"


async def test_setup_reports_a_token_that_telegram_does_not_know(
    telegram: BotApi, hermes: Callable[..., object]
) -> None:
    wrong = "999999:AAanother-token-of-nobody-0000000000"
    result = await hermes("setup", "telegram", "--allow", "42", said=f"{wrong}\n")  # type: ignore[misc]
    assert "Telegram does not know this token. @BotFather shows it" in result.output
    result = await hermes("doctor", "telegram")  # type: ignore[misc]
    assert (result.exit_code, wrong in result.output) == (1, False)


async def test_the_check_reports_a_missing_network(telegram: BotApi) -> None:
    async with telegram.away():
        [problem] = found("problem", await check(bot_of(telegram)))
    assert "cannot be reached" in problem


async def test_the_check_does_not_disturb_a_running_gateway(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(anext, link.receive())
        await telegram.until(lambda: any(one.method == "getUpdates" for one in telegram.asked))
        findings = await check(bot_of(telegram, allow_from=("42",)))
        assert "a process on this machine receives the bot's messages" in found("ok", findings)
        assert found("problem", findings) == []
        await link.send(Outgoing(chat_id="42", text="Hi", key="k"))
        nursery.cancel_scope.cancel()


async def test_the_check_reports_another_program_that_polls(telegram: BotApi, state_home: Path) -> None:
    telegram.answers("getUpdates", ApiError(409, "Conflict: terminated by other getUpdates request"))
    findings = await check(bot_of(telegram))
    assert found("problem", findings) == ["another program receives the bot's messages"]


@pytest.mark.parametrize(
    ("allowed", "level", "said"),
    [
        (("42",), "ok", "Kim (42) has written, and is answered when the gateway runs"),
        ("all", "ok", "Kim (42) has written, and is answered when the gateway runs"),
        (("7",), "warning", "Kim (42) has written and has no access"),
        ((), "ok", "Kim (42) has written, and gets a pairing code when the gateway runs"),
    ],
)
async def test_the_check_lists_people_who_have_written_and_their_access(
    telegram: BotApi, state_home: Path, allowed: object, level: str, said: str
) -> None:
    telegram.post("hello?")
    assert said in found(level, await check(bot_of(telegram, allow_from=allowed)))


async def test_the_check_reports_a_bot_that_cannot_read_groups(telegram: BotApi, state_home: Path) -> None:
    assert "in groups the bot answers messages that mention it or reply to it" in found(
        "ok", await check(bot_of(telegram))
    )
    [warning] = found("warning", await check(bot_of(telegram, require_mention=False)))
    assert "sends the bot only the group messages that mention it" in warning
    telegram.hears_all = True
    assert found("warning", await check(bot_of(telegram, require_mention=False))) == []


async def test_the_check_compares_the_webhook_with_the_configuration(
    telegram: BotApi, state_home: Path
) -> None:
    telegram.set_webhook("https://old.example/hook", "")
    [warning] = found("warning", await check(bot_of(telegram)))
    assert "https://old.example/hook" in warning
    hook = await free_webhook()
    options = {"webhook_url": hook.url, "webhook_secret": SECRET}
    findings = await check(bot_of(telegram, options=options))
    assert f"the next start of a gateway sets the webhook to {hook.url}" in found("ok", findings)
    telegram.set_webhook(hook.url, SECRET)
    telegram.post("hello?")
    await telegram.until(lambda: telegram.brought_in_vain > 0)
    findings = await check(bot_of(telegram, options=options))
    assert any("the last request to the webhook failed" in text for text in found("warning", findings))


async def test_doctor_reports_the_last_message_and_the_last_answer(
    telegram: BotApi, home: Path, hermes: Callable[..., object]
) -> None:
    (home / ".env").write_text(f"TELEGRAM_BOT_TOKEN={telegram.token}\n")
    (home / "config.yaml").write_text(
        f"platforms: {{telegram: {{base_url: '{telegram.base_url}', token: '${{TELEGRAM_BOT_TOKEN}}'}}}}"
    )
    from hermes_trio.base.messages import MessageEvent, SessionSource
    from hermes_trio.base.world import World
    from hermes_trio.state.db.migrations import shipped_steps
    from hermes_trio.state.db.opening import open_connections
    from hermes_trio.state.tables import inbox, outbox

    opened = open_connections(home / "gateway.db", World(), shipped_steps())
    try:
        db = opened.writing
        assert (last_received(db, "telegram"), last_sent(db, "telegram")) == (None, None)
        event = MessageEvent(SessionSource("telegram", "42"), "hello", "1")
        with db:
            inbox.store(db, event, session_key="k", own_key="o", at=1_000_000_000)
            outbox.owe(db, outbox.Owed("d", "telegram", "main", "42", "{}"), 1_000_000_000)
            outbox.note_attempt(db, 1, 1_000_000_000)
            outbox.note_receipt(db, 1, "9", 1_000_000_060)
    finally:
        opened.reading.close()
        opened.writing.close()
    result = await hermes("doctor", "telegram")  # type: ignore[misc]
    assert "the last message on telegram came on 2001-09-" in result.output
    assert "and the last answer arrived on 2001-09-" in result.output


async def test_doctor_reports_a_platform_that_is_not_installed(hermes: Callable[..., object]) -> None:
    result = await hermes("doctor", "parrot")  # type: ignore[misc]
    assert result.exit_code == 1
    assert "no platform parrot is installed. Install its package." in result.output
