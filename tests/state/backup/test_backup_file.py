"""The file of a backup: only a whole one is taken for a whole one, and a restore leaves a home or nothing."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from hermes_trio.base.errors import GatewayError, HomeBusy, StoreTooNew
from hermes_trio.base.world import World
from hermes_trio.host.home.home_lock import locked_home
from hermes_trio.state.backup.backup_file import DATABASE, BackupDamaged, read_backup
from hermes_trio.state.backup.backup_writer import (
    FILES,
    FOLDERS,
    SECRETS,
    BackupRefused,
    write_backup,
)
from hermes_trio.state.backup.restored_home import RestoreRefused, restore
from hermes_trio.state.db.migrations import shipped_steps
from hermes_trio.state.db.opening import open_connections

TOKEN = "1234567890:AAExampleTokenExampleTokenExample"
SETTINGS = f"""\
# The old one was token: {TOKEN[::-1]}
model: {{provider: demo}}  # no key
platforms:
  loopback:
    enabled: false
    token: {TOKEN}
    allow_from: [42]
"""

Make = Callable[..., Path]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a database, a journal, notes and secrets."""
    home = tmp_path / "home"
    (home / "journal" / "s1").mkdir(parents=True)
    (home / "memories").mkdir()
    (home / "config.yaml").write_text(SETTINGS)
    (home / ".env").write_text("EXTRA_KEY=sk-extra-0123456789abcdef\n")
    (home / "web.key").write_text("web-key-0123456789abcdef")
    (home / "memories" / "MEMORY.md").write_text("Kim likes tea.")
    (home / "journal" / "s1" / "r1.jsonl").write_bytes(b"x" * 100_000)
    (home / "skills" / "Tee für zwei").mkdir(parents=True)
    (home / "skills" / "Tee für zwei" / "steep.sh").write_text("echo steeped")
    (home / "skills" / "Tee für zwei" / "steep.sh").chmod(0o755)
    (home / "skills" / "Tee für zwei" / "a:b").write_text("no name for Windows")
    (home / "skills" / "Tee für zwei" / "\udcff").write_text("no text for a name")
    (home / "scratch").mkdir()
    opened = open_connections(home / "gateway.db", World(), shipped_steps())
    opened.writing.execute("INSERT INTO meta VALUES ('fact', 'known')")
    opened.reading.close()
    opened.writing.close()
    return home


@pytest.fixture
def make(home: Path, tmp_path: Path, world: World) -> Make:
    """A function that backs the home up, and returns the file."""

    def made(*, with_secrets: bool = False, keep: int | None = None) -> Path:
        folder = tmp_path / "backups"
        return write_backup(home, folder, {}, world, version="1.2", with_secrets=with_secrets, keep=keep).path

    return made


def unpacked(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive}  # type: ignore[union-attr]


def packed(file: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(file, "w:gz") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file


def test_a_restored_home_has_the_files_and_the_rows(
    home: Path, make: Make, tmp_path: Path, world: World
) -> None:
    restored = restore(make(with_secrets=True), tmp_path / "new", world)
    for name in ("config.yaml", ".env", "web.key", "memories/MEMORY.md", "journal/s1/r1.jsonl"):
        assert (restored.home / name).read_bytes() == (home / name).read_bytes()
        assert (restored.home / name).stat().st_mode & 0o777 == 0o600
    [program] = (restored.home / "skills" / "Tee für zwei").iterdir()
    assert (program.read_text(), program.stat().st_mode & 0o777) == ("echo steeped", 0o700)
    opened = open_connections(restored.home / "gateway.db", world, shipped_steps())
    assert opened.writing.execute("SELECT value FROM meta").fetchall() == [("known",)]
    opened.reading.close()
    opened.writing.close()
    assert not (restored.home / "scratch").exists()


def test_without_secrets_the_configuration_names_variables_in_their_place(make: Make) -> None:
    file = make()
    members = unpacked(file)
    text = members["config.yaml"].decode()
    assert '    token: "${PLATFORMS_LOOPBACK_TOKEN}"\n    allow_from: [42]\n' in text
    assert "# no key" in text
    assert read_backup(file).variables == ("EXTRA_KEY", "PLATFORMS_LOOPBACK_TOKEN")
    everything = b"".join(members.values())
    for secret in (TOKEN, TOKEN[::-1], "sk-extra-0123456789abcdef", "web-key-0123456789abcdef"):
        assert secret.encode() not in everything


def test_a_configuration_with_mistakes_is_backed_up_only_with_its_secrets(home: Path, make: Make) -> None:
    (home / "config.yaml").write_text("model: {provider: nobody}\n")
    with pytest.raises(BackupRefused, match=r"model\.provider.*--with-secrets"):
        make()
    assert unpacked(make(with_secrets=True))["config.yaml"] == b"model: {provider: nobody}\n"


def test_a_number_of_backups_is_kept_and_other_files_stay(make: Make, tmp_path: Path) -> None:
    files = [make() for _ in range(3)]
    other = tmp_path / "backups" / "notes.tar.gz"
    other.touch()
    files.append(make(keep=2))
    assert [file.exists() for file in files] == [False, False, True, True]
    assert other.exists()


def test_a_backup_that_ends_early_or_has_a_changed_byte_is_no_backup(
    make: Make, tmp_path: Path, world: World
) -> None:
    file = make(with_secrets=True)
    whole = file.read_bytes()
    bad = tmp_path / "bad.tar.gz"
    for place in range(10, len(whole) - 1200, len(whole) // 25):
        for data in (whole[:place], whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]):
            bad.write_bytes(data)
            with pytest.raises(BackupDamaged):
                restore(bad, tmp_path / "new", world)
            assert {one.name for one in tmp_path.iterdir()} == {"home", "backups", "bad.tar.gz"}


def test_names_that_lead_out_of_the_directory_are_refused(make: Make, tmp_path: Path, world: World) -> None:
    members = unpacked(make())
    for name in ("../out", "/out", "a/../../out", "a//b", "c:out", "a\\b"):
        with pytest.raises(BackupDamaged, match="which no backup does"):
            restore(packed(tmp_path / "bad.tar.gz", {name: b"", **members}), tmp_path / "new", world)
    with tarfile.open(tmp_path / "link.tar.gz", "w:gz") as archive:
        link = tarfile.TarInfo("files")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        archive.addfile(link)
    with pytest.raises(BackupDamaged, match="which no backup does"):
        restore(tmp_path / "link.tar.gz", tmp_path / "new", world)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "new").exists()


def test_a_manifest_that_does_not_fit_is_refused(make: Make, tmp_path: Path) -> None:
    members = unpacked(make())
    manifest = {"manifest.json": members.pop("manifest.json")}
    newer = {**msgspec.json.decode(manifest["manifest.json"]), "format": 2}
    wrong: Sequence[tuple[dict[str, bytes], str]] = (
        (members, "its manifest is missing"),
        ({**members, "manifest.json": b"[]"}, "cannot be read"),
        ({**members, "manifest.json": msgspec.json.encode(newer)}, "is newer"),
        ({"extra": b"", **members, **manifest}, "not in its manifest"),
        (manifest, "is missing"),
        ({**members, **manifest, "z": b""}, "goes on after"),
    )
    for packs, problem in wrong:
        with pytest.raises(BackupDamaged, match=problem):
            read_backup(packed(tmp_path / "bad.tar.gz", packs))


def test_no_existing_home_is_touched(home: Path, make: Make, tmp_path: Path, world: World) -> None:
    file, new = make(), tmp_path / "new"
    before = sorted(home.rglob("*"))
    with pytest.raises(RestoreRefused, match=r"is not empty.*home\.restored"):
        restore(file, home, world)
    assert sorted(home.rglob("*")) == before
    new.mkdir()
    with locked_home(new), pytest.raises(HomeBusy):
        restore(file, new, world)
    (new / "gateway.lock").unlink()
    target, link = tmp_path / "target", tmp_path / "link"
    target.mkdir()
    link.symlink_to(target)
    with pytest.raises(RestoreRefused):
        restore(file, link, world)
    assert restore(file, new, world).home == new, "an empty directory becomes the home"


def test_a_restore_removes_what_a_killed_one_has_left(make: Make, tmp_path: Path, world: World) -> None:
    left = tmp_path / ".new.restoring"
    (left / "journal").mkdir(parents=True)
    (left / "journal" / "half.jsonl").write_text("half")
    assert not (restore(make(), tmp_path / "new", world).home / "journal" / "half.jsonl").exists()
    assert not left.exists()


def test_two_restores_into_one_place_do_not_meet(make: Make, tmp_path: Path, world: World) -> None:
    with locked_home(tmp_path / ".new.restoring"), pytest.raises(HomeBusy):
        restore(make(), tmp_path / "new", world)


def test_a_backup_of_a_newer_version_and_a_file_that_is_missing_are_told_apart(
    home: Path, make: Make, tmp_path: Path, world: World
) -> None:
    opened = open_connections(home / "gateway.db", world, shipped_steps())
    opened.writing.execute("INSERT INTO schema_steps VALUES ('9999_future', 0, NULL)")
    opened.reading.close()
    opened.writing.close()
    with pytest.raises(StoreTooNew):
        restore(make(), tmp_path / "new", world)
    with pytest.raises(RestoreRefused, match="cannot be read"):
        restore(tmp_path / "nothing.tar.gz", tmp_path / "new", world)
    assert {one.name for one in tmp_path.iterdir()} == {"home", "backups"}


def test_each_file_of_the_home_page_is_backed_up_or_left_out_for_a_reason() -> None:
    page = (Path(__file__).parents[3] / "docs" / "run" / "home.md").read_text("utf-8")
    table = page[: page.index("## Retention")]
    named = {
        name.partition("/")[0] for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in quoted(row)
    }
    of_this_machine = {
        "gateway.lock",
        "gateway_state.json",
        "gateway_tree.txt",
        "home_id.json",
        "places",
        "mcp",
        "spools",
        "scratch",
    }
    others = {"logs", "work", "backups", "gateway.db-wal", "gateway.db-shm"}
    assert named - {DATABASE, "config.yaml", *FILES, *FOLDERS, *SECRETS} - of_this_machine - others == {
        "gateway.db.damaged-<time>",
        "gateway.db.saved-<time>",
        ".gateway-planned-stop.json",
        ".drain_request.json",
        ".restart_pending.json",
        ".restart_notify.json",
    }


def quoted(row: str) -> list[str]:
    return re.findall(r"`([^`]+)`", row)


def test_a_damaged_database_is_not_backed_up(home: Path, make: Make, tmp_path: Path) -> None:
    data = bytearray((home / "gateway.db").read_bytes())
    data[3 * 4096 : 12 * 4096] = b"\xff" * 9 * 4096
    (home / "gateway.db").write_bytes(data)
    with pytest.raises(GatewayError):
        make()
    assert list((tmp_path / "backups").glob("*.tar.gz*")) == []
