"""The supervisor of one command in a container or on another host: it ends everything that the command
started.

    python3 -I -S -c SUPERVISOR

It is sent with each command, so nothing is installed there. It imports only the standard library and runs
under Python 3.6. As the reaper of orphans (`PR_SET_CHILD_SUBREAPER`) it is the ancestor of every process that
came of the command, also of one that has left its session, its parent and its environment. It ends them all,
and proves it by having no child left, when

- the command itself has ended
- its input says so, or closes, which means that the connection is gone
- nothing was heard for `SILENCE` seconds, because a cut network closes nothing

Where it cannot be the reaper, it exits with `NO_REAPER`, and `supervisor.sh` does its task less exactly. Both
speak the protocol of `connector_program`.
"""

import os
import re
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

PR_SET_CHILD_SUBREAPER = 36
NO_REAPER = 86
SILENCE = 20.0
"""Seconds; the connector writes every 5 seconds."""
POLITE = 1.5
"""Seconds from TERM to KILL; the gateway kills the connector after 2."""
POLITE_ALONE = 0.3
"""The same when nobody waits for the end any more."""
PATIENCE = 3.0
"""Seconds from the first KILL until processes that cannot be killed are given up."""
LOOK_EVERY = 0.02
ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def become_reaper() -> bool:
    """Let all orphaned descendants become children of this process. Return False if that is not possible."""
    try:
        import ctypes

        return ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 and os.path.exists("/proc/1")
    except (ImportError, OSError, AttributeError):
        return False


def descendants() -> "list[int]":
    """Return the pids of all processes below this one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/" + name + "/stat", "rb") as file:
                    data = file.read()
            except OSError:
                continue
            parent = int(data[data.rindex(b")") + 2 :].split()[1])
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def unescaped(text: bytes) -> bytes:
    """Return the bytes that were escaped for `printf %b`."""
    return re.sub(rb"\\0([0-7]{3})", lambda octal: bytes([int(octal.group(1), 8)]), text)


class SupervisedCommand:
    """One command, its input, and the connection over which it was sent."""

    def __init__(self) -> None:
        self.variables: dict[bytes, bytes] = dict(os.environb)
        self.directory, self.command = b"", b""
        self.leader = 0
        self.code: int | None = None
        """The exit code of the command; None while it runs."""
        self.lost = self.asked = False
        self.heard = time.monotonic()
        self.received = self.unsaid = self.data = b""
        self.takes_no_more = False
        self.input = -1
        self.note = ""
        self.woken, waking = os.pipe()
        for end in (self.woken, waking):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waking)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in ENDINGS:
            signal.signal(number, self.note_signal)

    def note_signal(self, *_: object) -> None:
        self.asked = True

    def say(self, text: str) -> None:
        self.unsaid += ("hermes-trio: " + text + "\n").encode("utf-8", "surrogateescape")

    # --- the connection ---

    def turn(self, longest: float) -> None:
        """Wait for an event, at most `longest` seconds, and treat it."""
        waiting = select.poll()
        waiting.register(self.woken, select.POLLIN)
        if not self.lost:
            waiting.register(0, select.POLLIN)
        if self.unsaid and not self.lost:
            waiting.register(2, select.POLLOUT)
        if self.data:
            waiting.register(self.input, select.POLLOUT)
        events = dict(waiting.poll(longest * 1000))
        if self.woken in events:
            os.read(self.woken, 4096)
        if 0 in events:
            self.receive()
        elif time.monotonic() - self.heard > SILENCE:
            self.lost = True
        if 2 in events:
            self.write_reports()
        if self.input in events:
            self.feed()
        self.reap()

    def receive(self) -> None:
        try:
            data = os.read(0, 65536)
        except OSError:
            data = b""
        self.heard = time.monotonic()
        self.lost = not data
        lines = (self.received + data).split(b"\n")
        self.received = lines.pop()
        for line in lines:
            self.obey(line)

    def obey(self, line: bytes) -> None:
        word, _, rest = line.partition(b" ")
        if word == b"v":
            name, _, value = rest.partition(b" ")
            self.variables[name] = unescaped(value)
        elif word == b"d":
            self.directory = unescaped(rest)
        elif word == b"c":
            self.command = unescaped(rest)
            self.start()
        elif word == b"i":
            self.data = unescaped(rest)
        elif word == b"e":
            self.takes_no_more = True
            self.close_input()
        elif word == b"k":
            self.asked = True

    def write_reports(self) -> None:
        try:
            self.unsaid = self.unsaid[os.write(2, self.unsaid[:512]) :]
        except OSError:
            self.lost = True

    # --- the command ---

    def start(self) -> None:
        """Start the command in its own session, or say why that is not possible."""
        self.make_note()
        reading, self.input = os.pipe()
        trouble, tell = os.pipe()
        self.leader = os.fork()
        if self.leader == 0:
            self.become_command(reading, tell)
        os.close(reading)
        os.close(tell)
        os.set_blocking(self.input, False)
        with os.fdopen(trouble, "rb") as file:
            why = file.read().decode("utf-8", "replace")
        self.say("failed " + why if why else "began")
        self.asked = bool(why)

    def make_note(self) -> None:
        """Make the file to which the command may write its last directory."""
        name = "/tmp/.hermes-trio-" + self.variables.get(b"HERMES_TRIO_COMMAND", b"").decode()  # noqa: S108
        try:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            self.note = name
        except OSError:
            self.note = ""
        self.variables[b"HERMES_TRIO_DIRECTORY"] = (self.note or os.devnull).encode()

    def become_command(self, reading: int, tell: int) -> "NoReturn":
        failed = "directory"
        try:
            signal.set_wakeup_fd(-1)
            for number in (*ENDINGS, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            os.dup2(reading, 0)
            os.dup2(1, 2)
            os.chdir(os.path.expanduser(self.directory))
            failed = "command"
            for shell in (b"bash", b"sh"):
                try:
                    os.execvpe(shell, [shell, b"-c", self.command], self.variables)  # noqa: S606
                except FileNotFoundError:
                    continue
        except (OSError, ValueError) as error:
            os.write(tell, (failed + " " + (getattr(error, "strerror", "") or str(error))).encode())
        os._exit(127)

    def feed(self) -> None:
        """Give the command its input, and say when it has taken it, or that it takes no more."""
        try:
            self.data = self.data[os.write(self.input, self.data) :]
        except BlockingIOError:
            return
        except OSError:
            self.say("deaf")
            self.takes_no_more, self.data = True, b""
        if not self.data and not self.takes_no_more:
            self.say("took")
        self.close_input()

    def close_input(self) -> None:
        if self.takes_no_more and not self.data and self.input >= 0:
            os.close(self.input)
            self.input = -1

    def reap(self) -> bool:
        """Reap what has ended. Return False if no descendant is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.leader:
                ended_by = status & 127
                self.code = 128 + ended_by if ended_by else status >> 8

    # --- its end ---

    def run(self) -> None:
        while self.code is None and not self.lost and not self.asked:
            self.turn(1.0)
        left = self.end(POLITE_ALONE if self.lost else POLITE)
        if self.leader:
            self.say("ended {} {} {}".format(self.code, left, self.last_directory()))  # noqa: UP032 - Python 3.6
        end = time.monotonic() + PATIENCE
        while self.unsaid and not self.lost and time.monotonic() < end:
            self.turn(LOOK_EVERY)

    def end(self, polite: float) -> int:
        """End all descendants. Return the number of those that could not be ended."""
        asked: set[int] = set()
        begun = time.monotonic()
        while self.reap():
            over = time.monotonic() - begun - polite
            found = descendants()
            if over > PATIENCE:
                return len(found)
            for pid in found:
                if over > 0 or pid not in asked:
                    try:
                        os.kill(pid, signal.SIGKILL if over > 0 else signal.SIGTERM)
                    except OSError:  # it has ended, or is another user's
                        continue
            asked.update(found)
            self.turn(LOOK_EVERY)
        return 0

    def last_directory(self) -> str:
        try:
            with open(self.note, "rb") as file:
                text = os.fsdecode(file.read(4096))
            os.unlink(self.note)
        except OSError:
            return ""
        line, _, rest = text.partition("\n")
        return "" if rest else line


def main() -> None:
    """Run one command until it, and everything that came of it, has ended."""
    if not become_reaper():
        sys.exit(NO_REAPER)
    SupervisedCommand().run()
    os._exit(0)


if __name__ == "__main__":
    main()
