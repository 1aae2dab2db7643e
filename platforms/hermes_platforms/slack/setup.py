"""Questions of `hermes-trio setup slack`."""

from __future__ import annotations

from hermes_trio.platform import Question

from . import APP_TOKEN, BOT_TOKEN
from .manifest import link


def _app_token(answer: str) -> str:
    if not APP_TOKEN.fullmatch(token := answer.strip()):
        raise ValueError("An app-level token begins with xapp-; the page Basic Information makes one.")
    return token


def _bot_token(answer: str) -> str:
    if not BOT_TOKEN.fullmatch(token := answer.strip()):
        raise ValueError("The token of the bot begins with xoxb-; the page Install App shows it.")
    return token


QUESTIONS = [
    Question(
        key="app_token",
        ask="App-level token",
        help=(
            f"Open {link()}, choose the workspace, and press Create: the app has all it needs. On its page "
            "Basic Information, under App-Level Tokens, press Generate Token and Scopes, add the scope "
            "connections:write, and press Generate. Whoever has the token reads what the app reads."
        ),
        variable="SLACK_APP_TOKEN",
        check=_app_token,
    ),
    Question(
        key="token",
        ask="Token of the bot",
        help="On the page Install App press Install to Workspace, and copy the Bot User OAuth Token.",
        variable="SLACK_BOT_TOKEN",
        check=_bot_token,
    ),
]
