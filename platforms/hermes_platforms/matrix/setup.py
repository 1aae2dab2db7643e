"""Questions of `hermes-trio setup matrix`."""

from __future__ import annotations

from hermes_trio.platform import Question


def _address(answer: str) -> str:
    address = answer.strip().rstrip("/")
    if not address.startswith(("https://", "http://")):
        raise ValueError("Write the whole address, like https://matrix.example.org.")
    return address


QUESTIONS = [
    Question(
        key="base_url",
        ask="Address of the home server",
        help=(
            "The server on which the bot has its account, such as https://matrix.org. Make an account for "
            "the bot there first, in any client of Matrix."
        ),
        check=_address,
    ),
    Question(
        key="token",
        ask="Access token of the account",
        help=(
            "In Element, logged in as the bot: Settings, Help & About, Advanced, Access Token. Close the "
            "window without logging out, which would end the token. Whoever has it controls the account."
        ),
        variable="MATRIX_ACCESS_TOKEN",
    ),
]
