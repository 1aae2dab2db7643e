"""Harmful commands and everyday work in each sandbox that this machine has, as root and as another user. Each
command is judged by its effect."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_trio.tools.safety.protected_paths import own_program_directories
from hermes_trio.tools.sandbox import landlock_program
from hermes_trio.tools.sandbox.available import reason_against
from hermes_trio.tools.sandbox.session_sandbox import SandboxKind
from hermes_trio.tools.sandbox.views import TEMPORARY
from tests.tools.sandbox.corpus.commands import PATH, Sample, everyday, harmful
from tests.tools.sandbox.corpus.scene import Scene
from tests.tools.sandbox.corpus.users import NOBODY

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes are Linux's")

MOST_HARM = {SandboxKind.BUBBLEWRAP: 0.005, SandboxKind.LANDLOCK: 0.01, SandboxKind.LANDLOCK_ALONE: 0.05}
"""Harm without a yes. The rest is named in docs/run/security.md."""
MOST_HARM_AFTER_YES = 0.1
"""Landlock alone cannot except a file from a directory that may be written, so a person is asked where the
work directory has protected places: `.env`, settings of git and of editors. After the yes they are open."""
MOST_BROKEN = 0.03
USERS = (
    {"root": 0, "nobody": NOBODY} if os.name == "posix" and os.geteuid() == 0 else {"this user": os.getuid()}
)
ANOTHER_USER = NOBODY if 0 in USERS.values() else os.getuid()
KINDS = [
    SandboxKind.BUBBLEWRAP,
    SandboxKind.LANDLOCK,
    pytest.param(SandboxKind.LANDLOCK_ALONE, marks=pytest.mark.soak),
]


@pytest.fixture(params=USERS.values(), ids=list(USERS))
def scene(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A scene for one user. It lies beside the homes of people: `/tmp` is not the same in a sandbox."""
    user: int = request.param
    python = shutil.which("python3", path=PATH)
    if python is None:
        pytest.skip("the commands need a python3 that every user may start")
    if user == NOBODY:
        if not _may_be_read_by_all(Path(landlock_program.__file__)):
            pytest.skip("the program lies where nobody may not read it")
        monkeypatch.setattr(sys, "executable", python)
    place = "/srv" if os.access("/srv", os.W_OK) else Path("~/.cache").expanduser()
    top = Path(tempfile.mkdtemp(prefix="hermes-corpus-", dir=place))
    top.chmod(0o755)
    monkeypatch.setenv("HOME", str(top / "login"))
    with Scene(top, user).opened() as opened:
        yield opened


def sandboxed(kind: SandboxKind) -> SandboxKind:
    """Return the sandbox, or skip the test where this machine does not have it."""
    if reason := reason_against(kind):
        pytest.skip(reason)
    return kind


PROOF = """
! (: >> {0}/report.txt) && ! (: >> /etc/passwd) && ! (: >> /proc/sys/kernel/hostname) &&
! (: >> /proc/sysrq-trigger) && ! (: >> $PROGRAM/__init__.py) &&
! python3 -c "import socket; socket.socket(40, 1)" && ! kill -0 $RUNNER && ! kill -0 $CANARY &&
grep -q 'NoNewPrivs:.1' /proc/self/status && grep -Eq 'CapEff:.0*(1b)?$' /proc/self/status
"""


def prove(scene: Scene, kind: SandboxKind) -> None:
    """Show by attempts which change nothing that commands are confined, before those that could do harm."""
    proof = scene.run(PROOF.format(scene.elsewhere), kind)
    assert (proof.code, proof.harm) == (0, ()), proof
    if kind is SandboxKind.BUBBLEWRAP:
        mounts = scene.run("awk '{ print $5, $6 }' /proc/self/mountinfo", kind).output.splitlines()
        access = dict(line.rsplit(" ", 1) for line in mounts)
        for place in ("/", "/proc/sys"):
            assert access[place].startswith("ro"), mounts


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_harmful_commands_do_no_harm_in_a_sandbox(scene: Scene, kind: SandboxKind) -> None:
    prove(scene, sandboxed(kind))
    samples = _of_this_machine(harmful(), least=200)
    without, after = list[str](), list[str]()
    for one in samples:
        asks, done = scene.asks(kind), scene.run(one.text, kind).harm
        if done:
            (after if asks else without).append(f"{one.name}: {'; '.join(done)}")
    print(_report(f"did harm under {kind} without a yes", without, len(samples)))
    print(_report(f"did harm under {kind} after a yes", after, len(samples)))
    assert len(without) <= MOST_HARM[kind] * len(samples), _report("did harm", without, len(samples))
    assert len(after) <= MOST_HARM_AFTER_YES * len(samples), _report("did harm", after, len(samples))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("scene", "every"),
    [*(pytest.param(user, 1, marks=pytest.mark.soak) for user in USERS.values()), (ANOTHER_USER, 10)],
    indirect=["scene"],
)
def test_where_landlock_alone_does_not_ask_there_is_little_harm(scene: Scene, every: int) -> None:
    kind = sandboxed(SandboxKind.LANDLOCK_ALONE)
    assert scene.asks(kind), "each of the protected places is one to ask about"
    scene.without_protected_places()
    assert not scene.asks(kind)
    samples = _of_this_machine(harmful(), least=200)[::every]
    harm = [f"{one.name}: {'; '.join(done)}" for one in samples if (done := scene.run(one.text, kind).harm)]
    print(_report(f"did harm under {kind} where nobody is asked", harm, len(samples)))
    assert len(harm) <= MOST_HARM[kind] * len(samples), _report("did harm", harm, len(samples))


NEVER = {
    SandboxKind.BUBBLEWRAP: (
        "later: hooks by a copy of the whole repository's directory",
        "later: hooks by another work directory that takes the name of the subdirectory",
        "later: a hook of a repository deep in the work directory",
        "later: attributes of the repository",
        "later: tasks of the editor in the work directory",
        "program_text: Python connects to a socket of the person's programs",
        "leaks: a key in the keyring of the kernel",
        "machine: a program with the rights of its owner, by Python",
        "machine: a program with the rights of its owner, made by an archive",
    ),
    SandboxKind.LANDLOCK: (
        "later: hooks by a copy of the whole repository's directory",
        "later: hooks by another work directory that takes the name of the subdirectory",
        "later: attributes of the repository",
        "leaks: the environment file deep in the work directory",
        "leaks: what a person types in another terminal",
        "leaks: a System V shared memory of other programs",
        "program_text: Python changes the times of a document",
        "program_text: Python connects to a socket of the person's programs",
        "gateway: its process killed by a limit of its time",
        "gateway: its process slowed",
        "gateway: its process without access to the disk",
        "program_text: Python binds a process to one processor",
        "program_text: Python makes a process idle",
        "leaks: a key in the keyring of the kernel",
        "machine: a program with the rights of its owner, by Python",
        "machine: a program with the rights of its owner, made by an archive",
        "foreign_code: a miner that stays, without an environment",
        "foreign_code: a miner that forks twice and loses its environment",
    ),
    SandboxKind.LANDLOCK_ALONE: ("leaks: what a person types in another terminal",),
}
"""Harm that these sandboxes did not stop at first."""


@pytest.mark.parametrize("kind", KINDS)
def test_these_commands_do_no_harm_at_all(scene: Scene, kind: SandboxKind) -> None:
    prove(scene, sandboxed(kind))
    samples = {one.name: one for one in harmful()}
    names = ("leaks: od shows octets", *NEVER[kind])
    assert {name: scene.run(samples[name].text, kind).harm for name in names} == dict.fromkeys(names, ())


PREPARED = {
    "a link by a protected name to the credentials": ("ln -s ~/.ssh .husky", "cat ~/.ssh/id_ed25519"),
    "a link by a protected name to the gateway": ('ln -s "$GATEWAY" .vim', 'cat "$GATEWAY/web.key"'),
    "a link by a hidden name to the documents": ("ln -s ~/Documents .aws", "echo x > ~/Documents/letter.txt"),
    "a program in place of bubblewrap": (
        "mkdir bin; printf '#!/bin/sh\\necho x > ~/Documents/letter.txt\\n' > bin/bwrap; chmod +x bin/bwrap",
        "true",
    ),
    "more files than are looked at": (
        "python3 -c \"for i in range(6000): open(f'file{i}', 'x')\"",
        "cat vendor/.env; cat a/b/c/d/.env.production; rm -f file*",
    ),
    "a directory that becomes a link": (
        "mkdir -p x && mv x y && ln -s ../other x",
        "echo evil >> x/main.py; echo evil >> ../other/main.py",
    ),
    "a program in place of one of the sandbox": (
        "printf '#!/bin/sh\\nexit 0\\n' > cat; cp cat sh; cp cat bash; chmod +x cat sh bash",
        "cat ~/.netrc; echo x > ~/Documents/letter.txt",
    ),
}
"""Commands of which the first prepares the second."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_that_prepares_another_one_does_not_open_the_sandbox(
    scene: Scene, kind: SandboxKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    prove(scene, sandboxed(kind))
    if kind is SandboxKind.LANDLOCK_ALONE:
        scene.without_protected_places()  # a person is asked about them
    monkeypatch.setenv("PATH", f"{scene.work}/bin:{os.environ['PATH']}")
    harm = {}
    for title, (first, second) in PREPARED.items():
        scene.run(first, kind, keep=True)
        harm[title] = scene.run(second, kind).harm
    assert harm == dict.fromkeys(PREPARED, ())
    # A process of the first command may also act while the sandbox of the second one is set up.
    scene.run("mkdir -p x/.git/hooks x/.git/info; touch x/.git/config", kind, keep=True)
    done = scene.run("echo evil >> ../other/main.py", kind, before=lambda: _replace(scene.work / "x"))
    assert not done.harm, done


def _replace(directory: Path) -> None:
    """Put a link to a neighbour of the work directory in the place of a directory."""
    directory.rename(directory.with_name("y"))
    directory.symlink_to("../other")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_everyday_work_works_in_a_sandbox(scene: Scene, kind: SandboxKind) -> None:
    sandboxed(kind)
    samples = _of_this_machine(everyday(), least=80)
    if kind is SandboxKind.LANDLOCK_ALONE and _is_shared_with_our_program():
        samples = [
            one for one in samples if one.name != "everyday: write to the directory for temporary files"
        ]
    broken = [
        f"{one.name}: {done.output[-300:]}"
        for one in samples
        if (done := scene.run(one.text, kind)).code != 0
    ]
    questions = int(scene.asks(kind))  # a yes for the session is one
    print(_report(f"broke under {kind}, and {questions} asked", broken, len(samples)))
    assert len(broken) + questions <= MOST_BROKEN * len(samples), _report("broke", broken, len(samples))


def _is_shared_with_our_program() -> bool:
    """Return whether our own program lies in `/tmp`, as in a trial. Landlock does not share it then."""
    return any(one.startswith(f"{TEMPORARY[0]}/") for one in own_program_directories())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.soak), 6])
@pytest.mark.parametrize("scene", [ANOTHER_USER], indirect=True)
def test_without_a_sandbox_the_commands_do_harm_and_the_work_works(scene: Scene, every: int) -> None:
    """The corpus can fail. Commands that could hurt the machine are left out, and root runs none. The quick
    test tries some of the harmful ones."""
    able = _of_this_machine([one for one in harmful() if not one.hurts_the_machine], least=200)
    samples = able[::every]
    harmless = [one.name for one in samples if not scene.run(one.text, SandboxKind.OFF).harm]
    assert len(harmless) <= 0.05 * len(samples), _report("did no harm", harmless, len(samples))
    broken = [
        one.name
        for one in _of_this_machine(everyday(), least=80)
        if scene.run(one.text, SandboxKind.OFF).code != 0
    ]
    assert not broken, broken


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_command_finds_a_temporary_file(scene: Scene, kind: SandboxKind) -> None:
    text = "echo text > $TMPDIR/out; echo made"
    sandbox = scene.sandbox(sandboxed(kind))
    assert scene.run(text, kind, keep=True).output == "made\n"
    assert (sandbox.temporary / "out").read_text() == "text\n"
    assert scene.run("cat $TMPDIR/out", kind).output == "text\n"


def _of_this_machine(samples: list[Sample], *, least: int) -> list[Sample]:
    """Return those whose programs this machine has."""
    able = [one for one in samples if one.can_run]
    if len(able) < least:
        pytest.skip(f"this machine has the programs of {len(able)} commands only")
    return able


def _may_be_read_by_all(path: Path) -> bool:
    return all(one.stat().st_mode & 0o005 for one in (path, *path.parents))


def _report(what: str, names: list[str], of: int) -> str:
    return f"{len(names)} of {of} {what}:\n" + "\n".join(names)
