"""Attacks on the paths of the file tools: by spelling, by links, and by links made after the check."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from hermes_trio.tools.paths import PathRefused, Territory, facts_of, open_to_read, replace


@pytest.fixture
def territory(tmp_path: Path) -> Territory:
    for name in ("home", "work", "other/.ssh"):
        (tmp_path / name).mkdir(parents=True)
    for name in (
        "home/gateway.db",
        "home/.env",
        "home/web.key",
        "home/SOUL.md",
        "other/.ssh/key",
        "work/a.txt",
    ):
        (tmp_path / name).write_text(f"this is {name}")
    return Territory(tmp_path / "home", tmp_path / "work")


def content(real: Path) -> str:
    fd, _ = open_to_read(real)
    with open(fd) as file:
        return file.read()


def put(real: Path, text: str) -> None:
    replace(real, text.encode(), lambda: None)


def refused(territory: Territory, text: str, *, writing: bool = False) -> str:
    with pytest.raises(PathRefused) as caught:
        territory.find(text, writing=writing)
    return str(caught.value)


@pytest.mark.parametrize(
    "path",
    [
        "/proc/self/environ", "/proc/1/mem", "/dev/zero", "/dev/stdin", "/sys/kernel/notes",
        "/etc/shadow", "/etc/sudoers", "/etc/sudoers.d/x", "/etc/ssh/ssh_host_rsa_key", "/private/etc/shadow",
        "/ETC/Shadow", "/home/kim/.ssh/id_ed25519", "/root/.ssh", "/home/kim/.SSH/config",
        "~/.aws/credentials", "~/.config/gh/hosts.yml", "~/.netrc", "/srv/app/.env", "/srv/.env.production",
        "/srv/.npmrc",
        "/backup/kim/id_rsa", "~/Library/Keychains/login.keychain", "~/.docker/config.json",
        "../home/gateway.db", "../home/.env", "../home/web.key", "../home/journal/s/r.jsonl",
        "../HOME/Web.Key", "../home", "../home/gateway.db-wal", "x/../../home/config.yaml", "a\0b", "", "  ",
    ],
)  # fmt: skip
def test_credentials_and_system_paths_are_neither_read_nor_written(territory: Territory, path: str) -> None:
    refused(territory, path)
    refused(territory, path, writing=True)


@pytest.mark.parametrize(
    "path",
    ["a.txt", "./x/../a.txt", "/etc/hostname", "/srv/.env.example", ".docker/Dockerfile", "../home/SOUL.md"],
)
def test_an_ordinary_path_is_readable(territory: Territory, path: str) -> None:
    territory.find(path)


@pytest.mark.parametrize(
    "path", ["/etc/hosts", "/etc/systemd/system/x.service", "/boot/x", "../home/SOUL.md"]
)
def test_some_readable_paths_are_not_writable(territory: Territory, path: str) -> None:
    territory.find(path)
    refused(territory, path, writing=True)


def test_a_working_directory_within_the_home_is_usable(tmp_path: Path) -> None:
    (tmp_path / "home/workspace").mkdir(parents=True)
    territory = Territory(tmp_path / "home", tmp_path / "home/workspace")
    put(territory.find("a.txt", writing=True), "mine")
    refused(territory, "../gateway.db")
    at_home = Territory(tmp_path / "home", tmp_path / "home")
    refused(at_home, "gateway.db")


def test_a_home_reached_through_a_link_is_protected(tmp_path: Path, territory: Territory) -> None:
    (tmp_path / "alias").symlink_to(tmp_path / "home")
    refused(territory, str(tmp_path / "alias/gateway.db"))
    through = Territory(tmp_path / "alias", tmp_path / "work")
    refused(through, str(tmp_path / "home/gateway.db"))


@pytest.mark.parametrize("link", ["link", "deep/link", "linked/gateway.db"])
def test_a_link_into_the_home_is_refused(tmp_path: Path, territory: Territory, link: str) -> None:
    work = tmp_path / "work"
    (work / "deep").mkdir()
    (work / "link").symlink_to("../home/gateway.db")
    (work / "deep/link").symlink_to(work / "link")
    (work / "linked").symlink_to(tmp_path / "home")
    refused(territory, link)
    refused(territory, link, writing=True)


def test_a_link_to_an_allowed_file_is_followed_and_stays_a_link(tmp_path: Path, territory: Territory) -> None:
    (tmp_path / "work/link").symlink_to("a.txt")
    put(territory.find("link", writing=True), "through the link")
    assert (tmp_path / "work/link").is_symlink()
    assert (tmp_path / "work/a.txt").read_text() == "through the link"


def test_circular_links_are_an_error(tmp_path: Path, territory: Territory) -> None:
    (tmp_path / "work/one").symlink_to("two")
    (tmp_path / "work/two").symlink_to("one")
    with pytest.raises((PathRefused, OSError)):
        open_to_read(territory.find("one"))


def test_a_file_replaced_by_a_link_after_the_check_is_not_opened(
    tmp_path: Path, territory: Territory
) -> None:
    file = tmp_path / "work/a.txt"
    real = territory.find("a.txt")
    file.unlink()
    file.symlink_to(tmp_path / "home/gateway.db")
    for use in (open_to_read, facts_of, lambda path: put(path, "gone")):
        with pytest.raises(PathRefused, match="while it was opened"):
            use(real)
    assert (tmp_path / "home/gateway.db").read_text() == "this is home/gateway.db"


def test_a_directory_replaced_by_a_link_after_the_check_is_not_entered(
    tmp_path: Path, territory: Territory
) -> None:
    folder = tmp_path / "work/folder"
    folder.mkdir()
    (folder / "gateway.db").write_text("harmless")
    real = territory.find("folder/gateway.db", writing=True)
    (folder / "gateway.db").unlink()
    folder.rmdir()
    folder.symlink_to(tmp_path / "home")
    for use in (open_to_read, lambda path: put(path, "gone")):
        with pytest.raises(PathRefused, match="while it was opened"):
            use(real)
    assert (tmp_path / "home/gateway.db").read_text() == "this is home/gateway.db"


def test_a_directory_swapped_just_before_the_write_leads_it_nowhere_else(
    tmp_path: Path, territory: Territory
) -> None:
    folder = tmp_path / "work/folder"
    folder.mkdir()
    real = territory.find("folder/gateway.db", writing=True)

    def swap() -> None:
        folder.rename(tmp_path / "work/away")
        folder.symlink_to(tmp_path / "home")

    replace(real, b"mine", swap)
    assert (tmp_path / "home/gateway.db").read_text() == "this is home/gateway.db"
    assert (tmp_path / "work/away/gateway.db").read_text() == "mine", (
        "it was written to the directory that was checked"
    )


def test_a_thread_that_keeps_swapping_directories_gains_no_access(
    tmp_path: Path, territory: Territory
) -> None:
    folder, good, bad = tmp_path / "work/folder", tmp_path / "work/good", tmp_path / "work/bad"
    good.mkdir()
    (good / "gateway.db").write_text("harmless")
    bad.symlink_to(tmp_path / "home")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for one in (good, bad):
                one.rename(folder)
                folder.rename(one)

    attacker = threading.Thread(target=swap)
    attacker.start()
    seen = set()
    try:
        for _ in range(2000):
            try:
                seen.add(content(territory.find("folder/gateway.db")))
            except (PathRefused, OSError):
                continue
    finally:
        over.set()
        attacker.join()
    assert seen <= {"harmless"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_pipes_and_directories_are_not_opened(tmp_path: Path, territory: Territory) -> None:
    os.mkfifo(tmp_path / "work/pipe")
    for name, what in (("pipe", "pipe"), (".", "directory"), ("/", "directory")):
        with pytest.raises(PathRefused, match=what):
            open_to_read(territory.find(name))


def test_replacing_a_file_is_atomic_and_keeps_its_mode(tmp_path: Path, territory: Territory) -> None:
    file = tmp_path / "work/a.txt"
    file.chmod(0o751)

    def give_up() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        replace(territory.find("a.txt", writing=True), b"new", give_up)
    assert file.read_text() == "this is work/a.txt"
    assert [each.name for each in file.parent.iterdir()] == ["a.txt"], "no temporary file is left"
    put(territory.find("a.txt", writing=True), "new")
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o751
    put(territory.find("new/deep/b.txt", writing=True), "b")
    assert (tmp_path / "work/new/deep/b.txt").read_text() == "b"


def test_without_dir_fd_the_path_is_resolved_again_after_opening(
    tmp_path: Path, territory: Territory
) -> None:
    def write(real: Path) -> None:
        replace(real, b"b", lambda: None, walks=False)

    os.close(open_to_read(territory.find("a.txt"), walks=False)[0])
    write(territory.find("deep/b.txt", writing=True))
    assert (tmp_path / "work/deep/b.txt").read_text() == "b"
    real = territory.find("deep/b.txt", writing=True)
    (tmp_path / "work/deep").rename(tmp_path / "work/away")
    (tmp_path / "work/deep").symlink_to(tmp_path / "work/away")
    with pytest.raises(PathRefused):
        open_to_read(real, walks=False)
    with pytest.raises(PathRefused):
        write(real)


def test_the_home_of_another_gateway_of_the_account_is_out_of_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    other = tmp_path / ".hermes-trio"
    other.mkdir()
    (other / "gateway.db").touch()
    apart = Territory(tmp_path / "home", tmp_path / "work")
    with pytest.raises(PathRefused, match="home of another gateway"):
        apart.find(str(other / "gateway.db"))
    worked_in = Territory(tmp_path / "home", other / "work")
    assert worked_in.find("x", writing=True) == other / "work" / "x"
