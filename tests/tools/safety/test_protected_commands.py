"""Commands and protected files: no command changes one without a person's yes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import hermes_trio
from hermes_trio.base.world import World
from hermes_trio.state.db.database import open_database
from hermes_trio.tools.builtin.terminal import Terminal
from hermes_trio.tools.safety.judge import judge
from hermes_trio.tools.safety.protected_paths import Level, folded, level_of
from hermes_trio.tools.safety.verdict import GATEWAY, LATER, PROTECTED, SCHEDULE, Blocked, Free, NeedsYes
from hermes_trio.tools.tool import ToolFailed
from tests.tools.desk import Desk, desk_in
from tests.tools.safety.places import HERE
from tests.tools.safety.protected_names import LATER_FILES, NORMAL, SECRETS

WRITES = [
    "echo x >> {}",
    "echo x > {}",
    "tee -a {} < x",
    "sed -i s/a/b/ {}",
    "cp x {}",
    "mv x {}",
    "ln -sf x {}",
    "install -m 755 x {}",
    "dd if=x of={}",
    "truncate -s 0 {}",
    "patch {} < x",
    "rm {}",
    "curl -o {} https://h",
    "perl -pi -e s/a/b/ {}",
    "sort -o {} x",
    "python3 -c \"open('{}', 'a').write('x')\"",
    "rsync x {}",
    "cat x | sponge {}",
    "node -e \"require('fs').appendFileSync('{}', 'x')\"",
    "ln {} x",
]


@pytest.mark.parametrize("name", [*LATER_FILES, *SECRETS])
def test_a_command_that_writes_a_protected_file_needs_a_yes(name: str) -> None:
    for form in WRITES:
        for path in (f"~/{name}", f"/home/kim/{name}", f"$HOME/{name}"):
            command = form.format(path)
            if "'~" in command or "'$" in command:
                continue
            verdict = judge(command, HERE)
            assert isinstance(verdict, NeedsYes), command
            assert PROTECTED in verdict.kinds, command


@pytest.mark.parametrize("name", NORMAL)
def test_a_command_that_writes_an_ordinary_file_needs_no_yes(name: str) -> None:
    for form in ("echo x > {}", "tee {} < x", "sed -i s/a/b/ {}", "cp x {}", "mv x {}", "ln -s x {}"):
        assert isinstance(judge(form.format(f"~/{name}"), HERE), Free), form


@pytest.mark.parametrize(
    "command",
    [
        "git config --global core.editor vim",
        "git config core.hooksPath hooks",
        "git config alias.x '!rm x'",
        "git config set filter.x.clean 'sh x'",
        "git config core.fsmonitor ./x",
        "git config -e",
        "git config --file ~/.gitconfig user.name x",
        "git -C sub config diff.external ./x",
        "cp .bashrc ~/",
        "cp -r x/. ~",
        "cp -t ~ .profile",
        "mv hooks .git/",
        "mv .git g",
        "cp -r other/.git .",
        "rsync -a x/ ~/",
        "tar -xzf x.tgz -C ~",
        "tar xf x.tar -C ~/.config",
        "unzip -d ~ x.zip",
        "ln -s ~/.bashrc x; echo y >> x",
        "ln -s ~ h && echo y >> h/.bashrc",
        "ln -s ~/.config .; cp x .config/fish/y",
        "ln ~/.bashrc x",
        "cp -l ~/.bashrc x",
        "cd ~ && echo x >> .bashrc",
        "cd ~; cp x .git*",
        "echo x >> ~/.bash*",
        "chsh -s /bin/x",
        "gawk -i inplace 1 ~/.bashrc",
        "perl -e 'open F, \">>/home/kim/.bashrc\"; print F 1'",
        "sudo visudo",
        "ssh localhost 'echo x >> .bashrc'",
        "ssh host tee .profile",
        "python3 -c \"import os; open(os.path.expanduser('~/.bashrc'), 'a').write('x')\"",
        "python3 - <<'EOF'\nfrom pathlib import Path\nPath('/home/kim/.profile').write_text('x')\nEOF",
    ],
)
def test_an_indirect_write_to_a_protected_file_needs_a_yes(command: str) -> None:
    verdict = judge(command, HERE)
    assert isinstance(verdict, NeedsYes), command
    assert PROTECTED in verdict.kinds, command


@pytest.mark.parametrize(
    ("kind", "commands"),
    [
        (
            GATEWAY,
            [
                "hermes-trio pairing approve ABCD",
                "hermes-trio pairing revoke telegram 5",
                "hermes-trio setup",
                "python3 -m hermes_trio pairing approve ABCD",
                "hermes-trio config set x y",
                "hermes-trio sessions delete x",
                "echo x > ~/.hermes-trio/SOUL.md",
                "sed -i s/a/b/ $HERMES_HOME/config.yaml",
                "sqlite3 ~/.hermes-trio/gateway.db 'insert into x'",
                "python3 -c \"connect('/home/kim/.hermes-trio/gateway.db').execute('x')\"",
                "cp x ~/.hermes-trio/",
                "echo x >> .hermes-trio/../../.hermes-trio/.env",
                f"echo x > {hermes_trio.__file__}",
                f"rm {sys.prefix}/lib/x.py",
            ],
        ),
        (
            LATER,
            [
                "systemctl --user enable x",
                "systemctl link ./x.service",
                "systemctl --user edit x",
                "sudo systemctl enable --now x",
                "loginctl enable-linger",
                "launchctl load x.plist",
                "pre-commit install",
                "npm config set prefix x",
                "pip config set global.index-url x",
                "direnv allow .",
                "npx husky install",
            ],
        ),
        (
            SCHEDULE,
            [
                "crontab -e",
                "crontab x",
                "echo ls | at now",
                "at now <<< ls",
                "batch < x",
                "systemd-run --user --on-calendar=daily ls",
            ],
        ),
    ],
)
def test_changing_the_gateway_or_setting_up_later_code_needs_a_yes(kind: str, commands: list[str]) -> None:
    for command in commands:
        verdict = judge(command, HERE)
        assert isinstance(verdict, NeedsYes), command
        assert kind in verdict.kinds, (command, verdict)


@pytest.mark.parametrize(
    "command",
    [
        "git config user.name x",
        "git config --get user.name",
        "git config --list",
        "git config core.editor",
        "git config --global --get user.email",
        "git config get core.hooksPath",
        "git config --global user.name",
        "cat ~/.bashrc",
        "cp ~/.bashrc backup",
        "grep x ~/.gitconfig",
        "tar -tf x.tgz",
        "tar -czf x.tgz ~/.config",
        "tar -xzf x.tgz",
        "unzip x.zip -d out",
        "unzip -l x.zip",
        "cp -r src dst",
        "cp -r src/* dst/",
        "mv src dst",
        "ln -s ../x y",
        "hermes-trio pairing list",
        "hermes-trio config show",
        "hermes-trio config check",
        "hermes-trio doctor",
        "hermes-trio sessions list",
        "npm config get prefix",
        "pip config list",
        "npm install",
        "pre-commit run -a",
        "systemctl --user status x",
        "atq",
        "at -l",
        "sqlite3 app.db .tables",
        "python3 -c \"print(open('/etc/hosts').read())\"",
        "rsync -a src/ dst/",
        "source ~/.profile",
        ". ~/.bashrc",
        "vim x.py",
        "yarn install",
        "ssh host 'ls -la'",
    ],
)
def test_reading_a_protected_file_and_ordinary_work_need_no_yes(command: str) -> None:
    assert isinstance(judge(command, HERE), Free), command


async def test_links_in_commands_are_resolved_as_the_kernel_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user := tmp_path / "kim").mkdir()
    monkeypatch.setenv("HOME", str(user))
    desk = desk_in(tmp_path)
    (terminal,) = Terminal().tools
    (user / ".bashrc").write_text("mine\n")
    (user / "x").mkdir()
    (desk.cwd / "link").symlink_to(user / ".bashrc")
    (desk.cwd / "in").symlink_to(user / "x")
    (desk.cwd / "own").symlink_to(desk.home)
    (desk.home / "config.yaml").write_text("")
    os.link(user / ".bashrc", desk.cwd / "hard")
    os.link(desk.home / "config.yaml", desk.cwd / "settings")
    async with open_database(desk.home / "gateway.db", World()) as desk.store:
        for path in ("link", "in/../.bashrc", "hard", "own/config.yaml", "settings", "./link", '"$PWD"/link'):
            with pytest.raises(ToolFailed, match=r"^BLOCKED: this changes"):
                await desk.use(terminal, command=f"echo x >> {path}")
        with pytest.raises(ToolFailed, match=r"^BLOCKED: this changes"):
            await desk.use(terminal, command="cd in && echo x >> ../.bashrc")
    assert (user / ".bashrc").read_text() == "mine\n"


async def test_a_working_directory_within_the_home_is_not_protected(tmp_path: Path) -> None:
    desk = desk_in(tmp_path)
    (work := desk.home / "work").mkdir()
    (tmp_path / "alias").symlink_to(desk.home)
    within, (terminal,) = Desk(desk.home, work), Terminal().tools
    within.guard = None
    async with open_database(desk.home / "gateway.db", World()) as within.store:
        with pytest.raises(AssertionError, match="starts no processes"):
            await within.use(terminal, command="echo x > a.txt")
        for path in (
            "../config.yaml",
            str(tmp_path / "alias" / "config.yaml"),
            str(desk.home / "journal" / "x"),
        ):
            with pytest.raises(ToolFailed, match=r"^BLOCKED: this changes"):
                await within.use(terminal, command=f"echo x > {path}")
        with pytest.raises(ToolFailed, match=r"^BLOCKED: this changes"):
            await within.use(terminal, command="cd ../journal; echo x > y")


def test_the_protection_levels_of_some_paths() -> None:
    assert level_of(folded("/etc/ssh/x")) is Level.SECRET
    assert level_of(folded("/etc/hosts")) is Level.SYSTEM
    assert level_of(folded("/private/ETC/hosts")) is Level.SYSTEM
    assert level_of(folded("/usr/bin/x")) is Level.LATER
    assert level_of(folded("/usr/local/bin/x")) is None
    assert level_of(folded("/usr/local/lib/python3.12/site-packages/x.pth")) is Level.LATER
    assert level_of(folded("/home/kim/work")) is None
    assert isinstance(judge("rm -rf ~/.hermes-trio", HERE), Blocked)
