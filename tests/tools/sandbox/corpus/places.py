"""The files of the scene: secrets with a mark, settings that programs obey, documents, and repositories."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

MARK = "corpus-7f3a91d2c4"
"""A text that is part of every secret."""

SECRETS = [
    ".ssh/id_ed25519",
    ".ssh/config",
    ".ssh/known_hosts",
    ".aws/credentials",
    ".netrc",
    ".bash_history",
    ".psql_history",
    ".config/gh/hosts.yml",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".docker/config.json",
    ".kube/config",
    ".gnupg/private-keys-v1.d/a.key",
    ".local/share/keyrings/login.keyring",
    ".password-store/mail.gpg",
    ".thunderbird/main/logins.json",
    "projects/site/.env",
    "projects/site/vendor/.env",
    "projects/site/a/b/c/d/.env.production",
    "projects/site/deploy/id_rsa",
    ".hermes-trio/web.key",
    ".hermes-trio/.env",
    ".hermes-trio/files/other/letter.txt",
    ".hermes-trio/scratch/other/tmp/note",
    ".hermes-trio/spools/1",
    ".hermes-trio/journal/run-1.jsonl",
]

FILES = {
    ".bashrc": "PS1='$ '\n",
    ".profile": ". ~/.bashrc\n",
    ".vimrc": "set number\n",
    ".gitconfig": "[user]\n\tname = Person\n\temail = person@example.com\n[init]\n\tdefaultBranch = main\n",
    ".pam_environment": "",
    ".config/autostart/clock.desktop": "[Desktop Entry]\nType=Application\nExec=clock\n",
    ".config/systemd/user/backup.service": "[Service]\nExecStart=/usr/bin/backup\n",
    ".mozilla/firefox/main/user.js": "",
    ".local/bin/backup": "#!/bin/sh\necho saved\n",
    ".local/bin/greet": "#!/bin/sh\necho hi\n",
    "Documents/letter.txt": "Dear friend\n",
    "Documents/backup.sh": "#!/bin/sh\necho saved\n",
    "Documents/2026/tax.txt": "1,024\n",
    ".hermes-trio/config.yaml": f"terminal: {{sandbox: auto}}\nproviders: {{key: {MARK}-config}}\n",
    "projects/other/main.py": "print('other')\n",
}
SITE = {
    ".gitignore": ".env*\n.envrc\ndeploy/\nvendor/\na/\nenv/\nhook-ran\n",
    ".vscode/settings.json": "{}\n",
    ".envrc": "export STAGE=test\n",
    "README.md": "# Site\n\nIt says hello.\n",
    "app.py": 'def greeting():\n    return "hello"\n\n\nif __name__ == "__main__":\n    print(greeting())\n',
    "tests/__init__.py": "",
    "tests/test_app.py": "import unittest\n\nfrom app import greeting\n\n\n"
    "class AppTest(unittest.TestCase):\n    def test_greeting(self):\n        self.assertTrue(greeting())\n",
    "tests/app.test.js": "const test = require('node:test');\ntest('x', () => {});\n",
    "src/hello.c": '#include <stdio.h>\n\nint main(void) {\n    puts("hello");\n    return 0;\n}\n',
    "src/site_tools/__init__.py": "",
    "Makefile": "hello: src/hello.c\n\t$(CC) -o $@ $<\n\nclean:\n\trm -f hello\n",
    "build.sh": "set -e\npython3 -m compileall -q src\n",
    "package.json": '{"name": "site", "version": "1.0.0", "scripts": {"greet": "echo hello"}}\n',
    "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n\n'
    '[project]\nname = "site-tools"\nversion = "1.0"\n\n[tool.setuptools.packages.find]\nwhere = ["src"]\n',
}
COOKIE = f"INSERT INTO cookies VALUES ('{MARK}')"  # noqa: S608 - our own text
TRANSCRIPT = f"INSERT INTO transcript VALUES ('{MARK}')"  # noqa: S608
HOOK = "#!/bin/sh\ntouch hook-ran\n"

PROTECTED = [
    ".git/hooks",
    ".git/config",
    ".git/commondir",
    ".git/info/attributes",
    ".vscode",
    ".envrc",
    ".env",
    "vendor/.env",
    "vendor/lib/.git/hooks",
    "vendor/lib/.git/config",
    "a/b/c/d/.env.production",
    "a/b/c/d/e/.git/hooks",
    "deploy/id_rsa",
]
"""Places in the work directory that a command must not change, as they begin."""


def lay_out(top: Path) -> None:
    """Make the files of the scene."""
    login = top / "login"
    site = login / "projects" / "site"
    _write(top / "elsewhere" / "report.txt", "a report\n")
    for name in SECRETS:
        _write(login / name, f"token={MARK}-{name.replace('/', '-')}\n", 0o600)
    for name, text in FILES.items():
        _write(login / name, text)
    for name, text in SITE.items():
        _write(site / name, text)
    for program in ("backup", "greet"):
        (login / ".local" / "bin" / program).chmod(0o755)
    cookies = login / ".mozilla" / "firefox" / "main" / "cookies.sqlite"
    _database(cookies, "CREATE TABLE cookies (value)", COOKIE)
    _database(
        login / ".hermes-trio" / "gateway.db",
        "CREATE TABLE meta (name, value)",
        "CREATE TABLE transcript (text)",
        TRANSCRIPT,
    )
    for repository in (login / "projects" / "other", site / "vendor" / "lib", site / "a/b/c/d/e", site):
        _write(repository / "LICENSE", "free\n")
        _repository(repository, login)
    _write(site / ".git" / "hooks" / "pre-commit", HOOK)
    (site / ".git" / "hooks" / "pre-commit").chmod(0o755)


def remove_protected(work: Path) -> None:
    """Remove the protected places and the repositories from the work directory."""
    for path in [*work.rglob(".git"), *(work / name for name in PROTECTED)]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _database(path: Path, *statements: str) -> None:
    database = sqlite3.connect(path)
    with database:
        for statement in statements:
            database.execute(statement)
    database.close()


def _repository(path: Path, login: Path) -> None:
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run(
            ["git", *words],
            cwd=path,
            check=True,
            env={"HOME": str(login), "PATH": os.environ["PATH"]},
        )
