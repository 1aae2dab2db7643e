"""Questions of `hermes-trio setup irc`."""

from __future__ import annotations

from hermes_trio.platform import Question

from .settings import CHANNEL, NICK


def _server(answer: str) -> str:
    server = answer.strip()
    if not server or any(one.isspace() or one in "/:@" for one in server):
        raise ValueError("Write the name of the server alone, such as irc.libera.chat.")
    return server


def _nick(answer: str) -> str:
    nick = answer.strip()
    if not NICK.fullmatch(nick):
        raise ValueError("A nick has up to 30 letters, digits and -, and begins with a letter.")
    return nick


def _channels(answer: str) -> str:
    names = [one.strip() for one in answer.split(",") if one.strip() not in ("", "none")]
    if any(not CHANNEL.fullmatch(one) for one in names):
        raise ValueError("Write names of channels with their #, such as #ours, #others.")
    return ", ".join(names)


QUESTIONS = [
    Question(
        key="server",
        ask="Name of the IRC server",
        help="The connection is encrypted (TLS, port 6697). `docs/use/irc.md` says how to change that.",
        check=_server,
    ),
    Question(
        key="nick",
        ask="Nick of the bot",
        help=(
            "Register it first: connect with any IRC client, take the nick, and send "
            "`/msg NickServ REGISTER password email`. A network without NickServ has no accounts: the "
            "password is then the word none."
        ),
        default="hermes",
        check=_nick,
    ),
    Question(
        key="channels",
        ask="Channels, with commas between them",
        help="In a channel the bot answers lines that begin with its nick and a colon or comma.",
        default="none",
        check=_channels,
    ),
    Question(
        key="password",
        ask="Password of the nick's account",
        help="The gateway logs in with it (SASL), so that nobody else can take the nick.",
        variable="IRC_PASSWORD",
    ),
]
