"""Commands that cannot be started are refused with a remedy, and leave nothing behind."""

from __future__ import annotations

import os

import pytest

from hermes_trio.base.errors import GatewayError, InvalidId
from hermes_trio.host.processes.process_groups import (
    CommandNotFound,
    DirectoryUnusable,
    NotExecutable,
    ProcessUnstartable,
    SpoolUnwritable,
    running,
)
from tests.host.children.kinds import until
from tests.host.processes.place import Command, Place

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")


async def refused(place: Place, command: Command, **how: object) -> ProcessUnstartable:
    with pytest.raises(ProcessUnstartable) as caught:
        async with place.run(command, **how):
            raise AssertionError("it does not start")
    assert isinstance(caught.value, GatewayError)
    assert place.guard.listed == ()
    await until(lambda: not place.spool.is_file())
    return caught.value


async def test_a_missing_command_is_refused_with_a_remedy(place: Place) -> None:
    error = await refused(place, ["no-such-command", "--token=secret"])
    assert type(error) is CommandNotFound
    assert "no-such-command" in str(error)
    assert "Install it" in str(error)
    assert "secret" not in str(error)


async def test_a_script_without_its_interpreter_is_refused_as_not_found(place: Place) -> None:
    script = place.directory / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o700)
    assert type(await refused(place, [str(script)])) is CommandNotFound


async def test_a_missing_working_directory_is_refused(place: Place) -> None:
    gone, file = place.directory / "gone", place.directory / "file"
    file.touch()
    for where in (gone, file):
        error = await refused(place, ["true"], cwd=where)
        assert type(error) is DirectoryUnusable
        assert str(where) in str(error)
        assert type(await refused(place, "true", cwd=where)) is DirectoryUnusable


@pytest.mark.parametrize("mode", [0o600, 0o700])
async def test_a_file_that_cannot_be_executed_is_refused(place: Place, mode: int) -> None:
    file = place.directory / "file"
    file.write_bytes(b"\x00 not a program")
    file.chmod(mode)
    error = await refused(place, [str(file)])
    assert type(error) is NotExecutable
    assert "chmod" in str(error)


async def test_a_null_character_in_a_command_is_refused(place: Place) -> None:
    assert type(await refused(place, ["echo", "a\0b"])) is ProcessUnstartable


async def test_arguments_that_are_too_long_are_refused_with_a_short_message(place: Place) -> None:
    error = await refused(place, ["echo", "x" * (64 << 20)])
    assert type(error) is ProcessUnstartable
    assert len(str(error)) < 300


async def test_a_spool_file_that_cannot_be_made_is_refused(place: Place) -> None:
    (place.directory / "spools").touch()
    error = await refused(place, ["true"])
    assert type(error) is SpoolUnwritable


async def test_an_unsafe_group_id_is_refused(place: Place) -> None:
    with pytest.raises(InvalidId):
        async with running(
            "two words", ["true"], cwd=place.directory, env={}, spool=place.spool,
            guard=place.guard, ending=place.ending,
        ):  # fmt: skip
            pass
