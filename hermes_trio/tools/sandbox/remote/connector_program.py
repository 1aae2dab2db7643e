"""The connector: the local process of one command that runs in a container or on another host.

    python -I -S connector_program.py TASK

`TASK` is JSON: `reach` is the command line that connects (`ssh`, `docker exec`) and starts a supervisor over
there; `name` names that place for people; `passed` are names of variables; `directory` and `command` are what
the supervisor is to run; `notes` is our directory for the last directory of the command.

The output of the command goes to our stderr, unchanged. Our stdout gets one line of JSON, when the command
has begun there or could not. Our stdin is the command's. TERM ends the command over there and waits for that;
however else this process ends, the connection closes, and the supervisor ends everything.

Lines to the supervisor; a text is escaped for `printf %b`:

| line | |
|---|---|
| `v NAME TEXT`, `d TEXT`, `c TEXT` | a variable, the directory, and the command, which starts it |
| `i TEXT`, `e` | input for the command, and its end; the next piece follows after `took` |
| `k` | end everything |
| `p` | a sign of life |

Lines from it, on the stderr of the connection, each after `hermes-trio: `: `began`, `failed directory WHY`,
`failed command WHY`, `took`, `deaf` (the command takes no more input), and last
`ended CODE NUMBER_OF_PROCESSES_LEFT LAST_DIRECTORY`.
"""

import json
import os
import re
import select
import signal
import sys
import time

BEGINS_WITHIN = 30.0
SIGN_EVERY = 5.0
GONE_WITHIN = 5.0
PIECE = 8192
LOST = 255
MARK = b"hermes-trio: "
LONGEST_COMPLAINT = 2000


def escaped(data: bytes) -> bytes:
    """Return the bytes as a word that `printf %b` turns into them."""
    return re.sub(rb"[^A-Za-z0-9_./,:=@+-]", lambda one: b"\\0%03o" % one.group()[0], data)


class Connector:
    """One connection with one command."""

    def __init__(self, task: "dict[str, str]", reach: "list[str]", passed: "list[str]") -> None:
        self.task, self.passed = task, passed
        self.id = os.environ["HERMES_TRIO_GROUP"]
        self.begun = self.ending = False
        self.code: int | None = None
        """The exit code of the command, once everything that it started has ended."""
        self.hears = True
        """True while the next piece of input may be sent."""
        self.received = self.complaint = b""
        signal.signal(signal.SIGTERM, self.note_term)
        woken, waking = os.pipe()
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking)
        self.woken = woken
        self.reads, said = os.pipe()
        source, self.writes = os.pipe()
        self.pid = os.posix_spawnp(
            reach[0],
            reach,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, source, 0),
                (os.POSIX_SPAWN_DUP2, 2, 1),
                (os.POSIX_SPAWN_DUP2, said, 2),
            ],
            setsigdef=[signal.SIGPIPE],
        )
        os.close(said)
        os.close(source)

    def note_term(self, *_: object) -> None:
        if not self.begun:
            os._exit(128 + signal.SIGTERM)
        self.ending = True

    def send(self, line: bytes) -> None:
        data = line + b"\n"
        try:
            while data:
                data = data[os.write(self.writes, data) :]
        except BrokenPipeError:  # the end of its messages tells why
            return

    def start(self) -> None:
        self.send(b"v HERMES_TRIO_COMMAND " + escaped(self.id.encode()))
        for name in self.passed:
            if name in os.environ:
                self.send(b"v %s %s" % (name.encode(), escaped(os.environb[name.encode()])))
        self.send(b"d " + escaped(os.fsencode(self.task["directory"])))
        self.send(b"c " + escaped(self.task["command"].encode("utf-8", "surrogateescape")))

    def run(self) -> int:
        """Return the exit code."""
        self.start()
        latest, sign, told = time.monotonic() + BEGINS_WITHIN, 0.0, False
        while self.code is None:
            now = time.monotonic()
            if not self.begun and now > latest:
                self.complaint += b"it did not answer in time"
                break
            if now > sign:
                self.send(b"p")
                sign = now + SIGN_EVERY
            if self.ending and not told:
                self.send(b"k")
                told = True
            if not self.wait_for_event():
                break
        return self.leave()

    def wait_for_event(self) -> bool:
        """Wait for an event, or for the time of the next sign of life. Return False if the connection or the
        gateway is gone."""
        waiting = select.poll()
        waiting.register(self.reads, select.POLLIN)
        waiting.register(self.woken, select.POLLIN)
        waiting.register(1, 0)  # an error means that the gateway, which reads it, is gone
        if self.begun and self.hears:
            waiting.register(0, select.POLLIN)
        events = dict(waiting.poll(1000))
        if self.woken in events:
            os.read(self.woken, 4096)
        if 1 in events:
            return False
        if 0 in events:
            self.pass_input()
        return self.reads not in events or self.receive()

    def pass_input(self) -> None:
        data = os.read(0, PIECE)
        self.hears = False
        self.send(b"i " + escaped(data) if data else b"e")

    def receive(self) -> bool:
        data = os.read(self.reads, 65536)
        *lines, self.received = (self.received + data).split(b"\n")
        for line in lines:
            if line.startswith(MARK):
                self.obey(line[len(MARK) :])
            else:
                self.complaint = (self.complaint + line.strip() + b" ")[-LONGEST_COMPLAINT:]
        return bool(data)

    def obey(self, line: bytes) -> None:
        word, _, rest = line.partition(b" ")
        if word == b"began":
            self.begun = True
            report(None)
        elif word == b"failed":
            kind, _, why = rest.partition(b" ")
            self.begun, self.code = True, 127
            report(why.decode("utf-8", "replace"), kind.decode())
        elif word == b"took":
            self.hears = True
        elif word == b"deaf":
            os.close(0)  # the gateway sees that nobody reads
            os.open(os.devnull, os.O_RDONLY)
        elif word == b"ended":
            code, left, directory = rest.split(b" ", 2)
            self.code = int(code)
            if int(left):
                self.tell(f"{int(left)} processes there could not be ended.")
            if directory:
                self.note_directory(directory)

    def note_directory(self, directory: bytes) -> None:
        path = os.path.join(self.task["notes"], ".cwd-" + self.id)
        try:
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
            with open(fd, "wb") as file:
                file.write(directory)
        except OSError:  # the next command starts where this one did
            return

    def tell(self, text: str) -> None:
        os.write(2, ("\n[" + text + "]\n").encode())

    def leave(self) -> int:
        """Wait until the rest of the output has come and the connection is closed."""
        os.close(self.writes)
        end = time.monotonic() + (0 if self.code is None else GONE_WITHIN)
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.002)
        if self.code is not None:
            return self.code
        why = (self.complaint + self.received).decode("utf-8", "replace").strip() or "it was closed"
        if not self.begun:
            report(why, "connection")
        elif not self.ending:
            self.tell(f"The connection to {self.task['name']} was lost: {why}. The command ends there too.")
        return LOST


def report(problem: "str | None", kind: str = "") -> None:
    """Tell the gateway that the command has begun, or why not."""
    try:
        os.write(1, (json.dumps({"problem": problem, "kind": kind}) + "\n").encode())
    except BrokenPipeError:
        sys.exit(LOST)


def main() -> None:
    """Run one command over there, and exit as it does."""
    task = json.loads(sys.argv[1])
    reach, passed = task.pop("reach"), task.pop("passed")
    try:
        connector = Connector(task, reach, passed)
    except OSError as error:
        report(f"{reach[0]}: {error.strerror}", "connection")
        os._exit(LOST)
    os._exit(connector.run())


if __name__ == "__main__":
    main()
