"""The program that a command with granted hosts starts with: it opens the address of a proxy inside of the
sandbox, hands it to the gateway, and becomes the command.

    python -I -S proxy_program.py CHANNEL own|given COMMAND...

The network of the command is one that it shares with nobody: only a loopback device. Nothing leads out of it
but this address, which the gateway answers at: a socket belongs to the network in which it was made, whoever
holds it. Bubblewrap gives the command such a network; with `own` the program makes it. `CHANNEL` is the
number of a socket to the gateway. It imports only the standard library and starts fast. What fails ends it
with exit code 126, before the command runs.
"""

import ctypes
import os
import socket
import struct
import sys
from collections.abc import Sequence

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
WAITING = 64
"""Connections that wait for the gateway."""
PAST_THE_PROXY = "localhost,127.0.0.1,::1"
"""Addresses of servers that the command itself has started."""

REMEDY = "Ask for `network`, or let the owner install bubblewrap."


def command_line(command: Sequence[str], channel: int, *, own_network: bool) -> list[str]:
    """Return the command line that runs a command with this program."""
    network = "own" if own_network else "given"
    return [sys.executable, "-I", "-S", os.path.realpath(__file__), str(channel), network, *command]


def make_own_network() -> None:
    """Give this process a network with a loopback device only."""
    import fcntl  # noqa: TID251 - not for a lock, and other systems import this module too

    libc, user, group = ctypes.CDLL(None, use_errno=True), os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWNET if user == 0 else CLONE_NEWUSER | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if user != 0:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def hand_over_listener(channel: int) -> str:
    """Open an address for the proxy, hand it to the gateway, and return it."""
    with socket.socket() as listener, socket.socket(fileno=channel) as gateway:
        listener.bind(("127.0.0.1", 0))
        listener.listen(WAITING)
        socket.send_fds(gateway, [b"."], [listener.fileno()])
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def main() -> None:
    """Hand the address over and become the command."""
    channel, network, *command = sys.argv[1:]
    try:
        if network == "own":
            make_own_network()
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
        print(f"The command cannot be granted single hosts here: {error}. {REMEDY}", file=sys.stderr)
    sys.exit(126)


if __name__ == "__main__":
    main()
