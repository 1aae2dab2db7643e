"""Questions of `hermes-trio setup telegram`."""

from __future__ import annotations

from hermes_trio.platform import Question

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
        help=(
            "Open https://t.me/BotFather in Telegram and send /newbot. It asks for a name, and for a "
            "username that ends in bot; then it shows the token, a line such as 123456789:AAbbCC... "
            "Whoever has the token controls the bot, so keep it secret."
        ),
        variable="TELEGRAM_BOT_TOKEN",
        check=_token,
    ),
]
