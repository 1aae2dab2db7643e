"""`hermes-trio pairing` as the owner uses it. Its effect on a running gateway is in the tests of access."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hermes_trio.base.world import World
from hermes_trio.cli import main
from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.migrations import shipped_steps
from hermes_trio.state.db.opening import open_connections
from hermes_trio.state.tables import pairing
from hermes_trio.state.tables.pairing import Person

Cli = Callable[..., Result]

WRONG = "22222222"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["pairing", *arguments], env={"HERMES_HOME": str(tmp_path)})

    return run


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Db]:
    """Yield the open database of a gateway."""
    connections = open_connections(tmp_path / "gateway.db", World(), shipped_steps())
    with closing(connections.reading), closing(connections.writing):
        yield connections.writing


def asks(db: Db, user: str = "42", name: str | None = "Kim", *, ago: float = 0) -> str:
    """Store the request of a person, and return the code that the person got."""
    code = pairing.new_code()
    person = Person("telegram", user, name, World().time() - ago)
    assert pairing.ask(db, person, pairing.sealed(code))
    return code


def test_a_home_without_a_gateway_has_no_people_and_stays_empty(cli: Cli, tmp_path: Path) -> None:
    assert cli("list").stdout == "Nobody waits, and nobody was approved.\n"
    for command in (["approve", WRONG], ["revoke", "telegram", "42"]):
        result = cli(*command)
        assert result.exit_code == 1
        assert result.stderr.startswith("error: No gateway has run in ")
        assert "HERMES_HOME" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [("", "cannot be read (no such table"), ("no database\n" * 100, "is not a database any more")],
)
@pytest.mark.parametrize("command", [["list"], ["approve", WRONG], ["revoke", "telegram", "42"]])
def test_an_unusable_database_is_reported(
    cli: Cli, tmp_path: Path, command: list[str], content: str, problem: str
) -> None:
    (tmp_path / "gateway.db").write_text(content)
    result = cli(*command)
    assert result.stderr.startswith("error: gateway.db: ")
    assert command != ["list"] or problem in result.stderr
    assert (tmp_path / "gateway.db").read_text() == content


def test_a_pairing_from_the_request_to_the_revocation(cli: Cli, gateway: Db) -> None:
    code = asks(gateway, ago=61)
    assert cli("list").stdout == "waiting  telegram 42 (Kim); the code is valid for 59 more minutes\n"
    approved = cli("approve", code)
    assert approved.exit_code == 0
    assert approved.stdout.startswith("Approved: telegram 42 (Kim).")
    assert re.fullmatch(r"paired   telegram 42 \(Kim\); since \d{4}-\d\d-\d\d\n", cli("list").stdout)
    assert cli("revoke", "telegram", "42").stdout == "Revoked: telegram 42.\n"
    assert cli("list").stdout == "Nobody waits, and nobody was approved.\n"
    again = cli("revoke", "telegram", "42")
    assert again.exit_code == 1
    assert "config.yaml" in again.stderr, "people in the file need no approval"


@pytest.mark.parametrize("typed", ["{}", " {} ", "{}\n"])
def test_a_code_is_accepted_in_any_case_and_with_spaces(cli: Cli, gateway: Db, typed: str) -> None:
    assert cli("approve", typed.format(asks(gateway).lower())).exit_code == 0


def test_wrong_codes_are_counted_and_block_further_codes(cli: Cli, gateway: Db) -> None:
    code = asks(gateway)
    for left in (4, 3, 2, 1):
        result = cli("approve", WRONG)
        assert result.exit_code == 1
        assert f"{left} attempt{' is' if left == 1 else 's are'} left" in result.stderr
    assert "Too many wrong codes" in cli("approve", WRONG).stderr
    locked = cli("approve", code)
    assert locked.exit_code == 1
    assert re.search(r"until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}\.", locked.stderr)
    assert pairing.all_paired(gateway) == []
    gateway.execute("UPDATE pairing_mistakes SET made_at = made_at - 3600")
    assert cli("approve", code).exit_code == 0


def test_the_list_as_json_has_no_codes(cli: Cli, gateway: Db) -> None:
    first = asks(gateway)
    cli("approve", first)
    second = asks(gateway, "43", None)
    result = cli("list", "--json")
    report = json.loads(result.stdout)
    assert [(one["platform"], one["user_id"], one["user_name"]) for one in report["waiting"]] == [
        ("telegram", "43", None)
    ]
    assert [one["user_id"] for one in report["paired"]] == ["42"]
    assert set(report["paired"][0]) == {"platform", "user_id", "user_name", "at"}
    assert second not in result.stdout


def test_the_name_of_a_stranger_has_no_control_characters(cli: Cli, gateway: Db) -> None:
    code = asks(gateway, "4\x1b[2J2", "Kim\n\x1b[2J\u202e")
    for result in (cli("list"), cli("list", "--json"), cli("approve", code), cli("list")):
        assert result.exit_code == 0
        assert all(line.isprintable() for line in result.stdout.split("\n"))
    refused = cli("revoke", "telegram", "\x1b[2J")
    assert all(line.isprintable() for line in refused.stderr.split("\n"))


def test_no_file_of_the_home_contains_a_code(cli: Cli, gateway: Db, tmp_path: Path) -> None:
    code = asks(gateway)
    cli("approve", code)
    assert all(code.encode() not in file.read_bytes() for file in tmp_path.iterdir())
