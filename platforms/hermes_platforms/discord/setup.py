"""Questions of `hermes-trio setup discord`."""

from __future__ import annotations

from hermes_trio.platform import Question

from . import TOKEN


def _token(answer: str) -> str:
    token = answer.strip().removeprefix("Bot ").strip()
    if not TOKEN.fullmatch(token):
        raise ValueError("A bot's token has three parts with dots between them; the Bot page shows it once.")
    return token


QUESTIONS = [
    Question(
        key="token",
        ask="Token of the bot",
        help=(
            "Open https://discord.com/developers/applications, press New Application, and give it a name. On "
            "its page Bot press Reset Token, which shows the token once. Whoever has the token controls the "
            "bot, so keep it secret. `hermes-trio doctor discord` then shows the link that invites the bot."
        ),
        variable="DISCORD_BOT_TOKEN",
        check=_token,
    ),
]
