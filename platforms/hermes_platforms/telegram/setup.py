"""What `hermes-trio setup telegram` asks."""

from __future__ import annotations

from hermes_trio.questions import Question

from . import TOKEN


def _token(answer: str) -> str:
    token = answer.strip()
    if not TOKEN.fullmatch(token):
        raise ValueError("A bot's token looks like 123456789:AAbbCC...; @BotFather shows it.")
    return token


QUESTIONS = [
    Question(
        key="token",
        ask="Token of the bot",
        help="Write to @BotFather on Telegram: /newbot makes a bot and shows its token.",
        variable="TELEGRAM_BOT_TOKEN",
        check=_token,
    ),
]
