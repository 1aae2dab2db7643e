"""The program that a command with granted hosts starts with: it opens the address of a proxy inside of the
sandbox, hands it to the gateway, and becomes the command.

    python -I -S proxy_program.py CHANNEL COMMAND...

The network of the command is one that it shares with nobody: only a loopback device. Nothing leads out of it
but this address, which the gateway answers at: a socket belongs to the network in which it was made, whoever
holds it. `CHANNEL` is the number of a socket to the gateway. It imports only the standard library and starts
fast. What fails ends it with exit code 126, before the command runs.
"""

import os
import socket
import sys
from collections.abc import Sequence

WAITING = 64
"""Connections that wait for the gateway."""
PAST_THE_PROXY = "localhost,127.0.0.1,::1"
"""Addresses of servers that the command itself has started."""


def command_line(command: Sequence[str], channel: int) -> list[str]:
    """Return the command line that runs a command with this program."""
    return [sys.executable, "-I", "-S", os.path.realpath(__file__), str(channel), *command]


def hand_over_listener(channel: int) -> str:
    """Open an address for the proxy, hand it to the gateway, and return it."""
    with socket.socket() as listener, socket.socket(fileno=channel) as gateway:
        listener.bind(("127.0.0.1", 0))
        listener.listen(WAITING)
        socket.send_fds(gateway, [b"."], [listener.fileno()])
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def main() -> None:
    """Hand the address over and become the command."""
    channel, *command = sys.argv[1:]
    try:
        proxy = hand_over_listener(int(channel))
        variables = {
            "http_proxy": proxy,
            "https_proxy": proxy,
            "all_proxy": proxy,
            "no_proxy": PAST_THE_PROXY,
        }
        os.environ.update(variables)
        os.environ.update({name.upper(): value for name, value in variables.items()})
        os.execvp(command[0], command)  # noqa: S606 - the command of the agent
    except OSError as error:
        print(f"The command cannot be granted single hosts here: {error}.", file=sys.stderr)
    sys.exit(126)


if __name__ == "__main__":
    main()
