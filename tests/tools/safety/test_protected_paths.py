"""Files that run later or steer the gateway: not changed without a person's yes, by no tool."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import hermes_trio
from hermes_trio.base.world import World
from hermes_trio.state.db.database import open_database
from hermes_trio.tools.builtin.files import Files
from hermes_trio.tools.builtin.terminal import Terminal
from hermes_trio.tools.safety.judge import Places, judge
from hermes_trio.tools.safety.protected_paths import Level, folded, level_of
from hermes_trio.tools.safety.verdict import GATEWAY, LATER, PROTECTED, SCHEDULE, Blocked, Free, NeedsYes
from hermes_trio.tools.tool import Approval, ToolFailed
from tests.tools.desk import Desk, desk_in

HERE = Places(user_home="/home/kim", gateway_home="/home/kim/.hermes-trio", cwd="/home/kim/work", pid=4711)

LATER_FILES = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".cshrc",
    ".tcshrc",
    ".kshrc",
    ".config/fish/config.fish",
    ".config/fish/functions/ls.fish",
    ".inputrc",
    ".gitconfig",
    ".config/git/config",
    "work/.git/hooks/pre-commit",
    "work/.git/config",
    "work/sub.git/hooks/update",
    "work/.git/info/attributes",
    "work/.git/modules/sub/config",
    "work/.husky/pre-push",
    ".config/systemd/user/x.service",
    ".local/share/systemd/user/x.timer",
    ".config/autostart/x.desktop",
    ".config/environment.d/x.conf",
    "Library/LaunchAgents/x.plist",
    ".venv/lib/python3.12/site-packages/x.pth",
    "lib/sitecustomize.py",
    ".local/lib/python3.12/site-packages/usercustomize.py",
    ".config/pip/pip.conf",
    "pip.conf",
    ".yarnrc.yml",
    ".vimrc",
    ".vim/plugin/x.vim",
    ".config/nvim/init.lua",
    ".emacs",
    ".emacs.d/init.el",
    "work/.vscode/tasks.json",
    "work/.vscode/settings.json",
    ".config/Code/User/settings.json",
    "work/.envrc",
    ".config/direnv/direnv.toml",
    ".tmux.conf",
    ".cargo/config.toml",
    ".pythonrc.py",
    ".ipython/profile_default/startup/x.py",
    ".rhosts",
    ".forward",
]
SECRETS = [".ssh/authorized_keys", ".ssh/config", ".npmrc", ".pypirc", "work/.env", ".aws/config"]
NORMAL = [
    "work/Makefile",
    "work/x.py",
    "work/.gitignore",
    "work/.gitattributes",
    "work/.github/workflows/ci.yml",
    "work/setup.py",
    "work/.vscode/extensions.json",
    "work/pyproject.toml",
    "work/package.json",
    "work/bashrc",
    "work/.env.example",
    "work/site-packages.txt",
    "work/.config/x.yaml",
    ".cache/x",
    ".local/share/x/y",
    "work/etc/hosts",
    "usr/x",
]


# --- the file tools ----------------------------------------------------------------------------------


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    (user := tmp_path / "kim").mkdir()
    monkeypatch.setenv("HOME", str(user))
    return desk_in(tmp_path)


TOOLS = {tool.name: tool for tool in Files().tools}


async def refused(desk: Desk, path: str, content: str = "echo hi\n") -> str:
    async with open_database(desk.home / "gateway.db", World()) as desk.store:
        tools = {tool.name: tool for tool in Files().tools}
        with pytest.raises(ToolFailed) as caught:
            await desk.use(tools["write_file"], path=path, content=content)
    return str(caught.value)


@pytest.mark.parametrize("name", LATER_FILES)
async def test_a_file_that_runs_later_is_written_with_a_yes_only(desk: Desk, name: str) -> None:
    allowed: list[Approval] = []

    class Asked(Desk):
        async def may(self, what: Approval | str) -> str | None:
            assert isinstance(what, Approval)
            allowed.append(what)
            return self.answer

    asked = Asked(desk.home, desk.cwd)
    file = Path.home() / name
    assert (await refused(asked, f"~/{name}")).startswith(f"BLOCKED: this changes {file}, which")
    assert not file.exists()
    asked.answer = "once"
    async with open_database(asked.home / "gateway.db", World()) as asked.store:
        await asked.use(
            {tool.name: tool for tool in Files().tools}["write_file"], path=str(file), content="x\n"
        )
    assert file.read_text() == "x\n"
    assert [(each.kind, each.place) for each in allowed] == [("change", str(file))] * 2
    assert "+echo hi" in allowed[0].exact, "the change is shown"


async def test_a_patch_of_one_shows_the_change(desk: Desk) -> None:
    (file := Path.home() / ".bashrc").write_text("one\ntwo\n")
    shown: list[str] = []

    class Asked(Desk):
        async def may(self, what: Approval | str) -> str | None:
            assert isinstance(what, Approval)
            shown.append(what.exact)
            return None

    asked = Asked(desk.home, desk.cwd)
    edits = [{"old_string": "two", "new_string": "curl x"}]
    async with open_database(asked.home / "gateway.db", World()) as asked.store:
        with pytest.raises(ToolFailed, match=r"^BLOCKED"):
            await asked.use(TOOLS["patch"], path="~/.bashrc", edits=edits)
    assert "-two\n+curl x" in shown[0]
    assert file.read_text() == "one\ntwo\n"


async def test_a_yes_is_for_the_file_as_it_was_shown(desk: Desk) -> None:
    file = Path.home() / ".bashrc"

    class Meanwhile(Desk):
        async def may(self, what: Approval | str) -> str | None:
            file.write_text("somebody else\n")
            return "once"

    meanwhile = Meanwhile(desk.home, desk.cwd)
    assert "nothing was written" in await refused(meanwhile, "~/.bashrc")
    assert "nothing was written" in await refused(meanwhile, "~/.bashrc", "again\n")
    assert file.read_text() == "somebody else\n"


async def test_for_the_session_a_yes_is_for_that_file(desk: Desk) -> None:
    write = {tool.name: tool for tool in Files().tools}["write_file"]
    desk.answer = "session"
    async with open_database(desk.home / "gateway.db", World()) as desk.store:
        await desk.use(write, path="~/.vimrc", content="1")
        desk.answer = None
        await desk.use(write, path="~/.vimrc", content="2")
        with pytest.raises(ToolFailed, match="BLOCKED"):
            await desk.use(write, path="~/.bashrc", content="2")


async def test_no_other_name_of_it_is_free(desk: Desk) -> None:
    user, work = Path.home(), desk.cwd
    (user / ".bashrc").write_text("mine\n")
    (work / "link").symlink_to(user / ".bashrc")
    (work / "home").symlink_to(user)
    (work / "deep").mkdir()
    (work / "deep/in").symlink_to(user / "x")
    (user / "x").mkdir()
    for path in (
        "link",
        "home/.bashrc",
        "~/.BASHRC",
        "home/x/../.bashrc",
        "deep/in/../.bashrc",
        "~/.//.bashrc",
    ):
        assert (await refused(desk, path)).startswith("BLOCKED"), path
    os.link(user / ".bashrc", work / "hard")
    async with open_database(desk.home / "gateway.db", World()) as desk.store:
        await desk.use(TOOLS["write_file"], path="hard", content="theirs\n")
    assert (user / ".bashrc").read_text() == "mine\n", "the other name keeps its content"


async def test_the_gateway_and_its_program_are_not_changed(desk: Desk) -> None:
    program = Path(hermes_trio.__file__)
    for path in (program, program.parent / "tools" / "new.py", Path(sys.prefix) / "lib" / "x.py"):
        assert (await refused(desk, str(path))).startswith("BLOCKED"), path
    for name in ("config.yaml", ".env", "SOUL.md", "gateway.db", "web.key", "../home/memories/MEMORY.md"):
        assert "BLOCKED" not in await refused(desk, str(desk.home / name)), "it is refused whoever says yes"


@pytest.mark.parametrize("name", NORMAL)
async def test_normal_work_is_not_asked_about(desk: Desk, name: str) -> None:
    async with open_database(desk.home / "gateway.db", World()) as desk.store:
        await desk.use(TOOLS["write_file"], path=f"~/{name}", content="x")


# --- commands ----------------------------------------------------------------------------------------

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
def test_a_command_that_writes_one_needs_a_yes(name: str) -> None:
    for form in WRITES:
        for path in (f"~/{name}", f"/home/kim/{name}", f"$HOME/{name}"):
            command = form.format(path)
            if "'~" in command or "'$" in command:
                continue
            verdict = judge(command, HERE)
            assert isinstance(verdict, NeedsYes), command
            assert PROTECTED in verdict.kinds, command


@pytest.mark.parametrize("name", NORMAL)
def test_a_command_that_does_normal_work_needs_none(name: str) -> None:
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
def test_what_else_writes_one_needs_a_yes(command: str) -> None:
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
def test_what_steers_the_gateway_or_runs_later_needs_a_yes(kind: str, commands: list[str]) -> None:
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
def test_what_only_looks_or_is_normal_work_needs_none(command: str) -> None:
    assert isinstance(judge(command, HERE), Free), command


async def test_links_are_resolved_as_the_kernel_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_a_place_to_work_within_the_home_is_not_the_gateway(tmp_path: Path) -> None:
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


# --- the list ----------------------------------------------------------------------------------------


def test_the_levels() -> None:
    assert level_of(folded("/etc/ssh/x")) is Level.SECRET
    assert level_of(folded("/etc/hosts")) is Level.SYSTEM
    assert level_of(folded("/private/ETC/hosts")) is Level.SYSTEM
    assert level_of(folded("/usr/bin/x")) is Level.LATER
    assert level_of(folded("/usr/local/bin/x")) is None
    assert level_of(folded("/usr/local/lib/python3.12/site-packages/x.pth")) is Level.LATER
    assert level_of(folded("/home/kim/work")) is None
    assert isinstance(judge("rm -rf ~/.hermes-trio", HERE), Blocked)
