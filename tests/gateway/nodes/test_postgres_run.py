"""`hermes-trio run` with its store on a PostgreSQL server: a turn, a kill, and what is told of a server that
cannot be used. The processes and the server are real."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from hermes_trio.testing import open_loopback
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import open_model_server
from tests.live import succeeding
from tests.machine import PATIENCE, configure, environment, hermes, living
from tests.postgres import PostgresServer, postgres_server

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(sys.platform == "win32", reason="the tests send signals"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def schema_of(home: Path) -> str:
    """Return the schema of the tables of a home, which no other test uses."""
    return "of_" + "".join(filter(str.isalnum, home.parent.name.lower()))[-50:]


def use(home: Path, url: str, *, port: int = 1, model: str = "", more: str = "") -> None:
    """Let the home have its store at an address, in a schema of its own."""
    configure(home, port=port)
    with (home / "config.yaml").open("a") as file:
        file.write(f"database: {{url: '{url}', schema: {schema_of(home)}{more}}}\n")
        if model:
            file.write(f"model: {{provider: openai, base_url: '{model}', name: test, api_key: none}}\n")


async def test_a_turn_that_was_cut_by_a_kill_is_resumed(home: Path, server: PostgresServer) -> None:
    async with open_loopback() as platform, open_model_server() as model:
        use(home, server.url(), port=platform.port, model=model.openai_url)
        model.answers(Reply().says("First."), Reply().says("Let me th").hangs(), Reply().says("Resumed."))
        async with living(home) as life:
            await life.up()
            await platform.says("one")
            await platform.until(lambda: "First." in platform.chat("42").texts)
            await platform.says("two")
            await platform.until(lambda: any("Let me th" in text for text in platform.chat("42").texts))
            life.signal(signal.SIGKILL)
            await life.ended()
        async with living(home) as life:
            await life.up()
            await platform.until(lambda: any("Resumed." in text for text in platform.chat("42").texts))
            listed = await hermes("sessions", "list", "--json", environ=environment(home))
            [session] = json.loads(listed.stdout)
            assert session["turns"] == 3
            assert "waiting" in (await hermes("status", environ=environment(home))).stdout
            await hermes("stop", environ=environment(home))
            assert await life.ended() == 0
        [session] = json.loads((await hermes("sessions", "list", "--json", environ=environment(home))).stdout)
        events = await hermes("journal", "show", session["session_id"], environ=environment(home))
        assert events.stdout.count("run.completed") == 2
        assert (await hermes("journal", "check", environ=environment(home))).returncode == 0
    assert not list(home.glob("gateway.db*")) + list(home.glob("journal"))
    assert len(model.requests) == 3


async def test_a_home_moves_to_a_server_and_back(home: Path, server: PostgresServer) -> None:
    async def serve(said: str) -> str:
        """Let one message be answered, and return the conversation as the command line shows it."""
        async with living(home) as life:
            await life.up()
            answered = len(platform.chat("42").texts)
            await platform.says(said)
            await platform.until(lambda: len(platform.chat("42").texts) > answered)
            await hermes("stop", environ=environment(home))
            assert await life.ended() == 0
        return await shown()

    async def shown() -> str:
        [session] = json.loads((await hermes("sessions", "list", "--json", environ=environment(home))).stdout)
        done = await hermes("sessions", "show", session["session_id"], environ=environment(home))
        assert (await hermes("journal", "check", environ=environment(home))).returncode == 0
        return done.stdout

    async with open_loopback() as platform, open_model_server() as model:
        use(home, server.url(), port=platform.port, model=model.openai_url)
        with_server = (home / "config.yaml").read_text()
        alone = "".join(line for line in with_server.splitlines(True) if not line.startswith("database:"))
        (home / "config.yaml").write_text(alone)
        in_file = await serve("one")
        (home / "config.yaml").write_text(with_server)
        copied = await hermes("db", "copy", "--to", "server", environ=environment(home))
        assert copied.returncode == 0, copied.stderr
        assert copied.stdout.endswith("rows and 1 journal.\n")
        again = await hermes("db", "copy", "--to", "server", environ=environment(home))
        assert (again.returncode, "has conversations already" in again.stderr) == (1, True)
        assert await shown() == in_file
        on_server = await serve("two")
        assert on_server.count("Hello.") == 2
        for path in (*home.glob("gateway.db*"), *home.glob("journal/*/*")):
            path.unlink()
        copied = await hermes("db", "copy", "--to", "home", environ=environment(home))
        assert copied.returncode == 0, copied.stderr
        (home / "config.yaml").write_text(alone)
        assert await shown() == on_server
        assert (await serve("three")).count("Hello.") == 3


async def test_a_crash_of_the_server_loses_and_doubles_nothing(home: Path, server: PostgresServer) -> None:
    async with open_loopback() as platform, open_model_server() as model:
        use(home, server.url(), port=platform.port, model=model.openai_url)
        model.answers(Reply().says("One.").pauses(1))
        model.otherwise = Reply().says("Two.")
        async with living(home) as life:
            await life.up()
            platform.post("first", chat="1")
            await model.until(lambda: len(model.requests) == 1)
            server.stop("immediate")
            platform.post("second", chat="2")
            server.start()
            await platform.until(lambda: bool(platform.chat("2").texts))
            await platform.until(lambda: platform.chat("1").texts == ["One."])
            assert platform.chat("2").texts == ["Two."]
            await hermes("stop", environ=environment(home))
            assert await life.ended() == 0
    assert len(model.requests) == 2
    log = (home / "logs" / "gateway.log").read_text()
    assert "connected to the database again" in log


async def test_a_server_that_stays_away_for_a_lease_ends_the_gateway_and_the_next_one_resumes(
    home: Path, server: PostgresServer
) -> None:
    async with open_loopback() as platform, open_model_server() as model:
        use(home, server.url(), port=platform.port, model=model.openai_url, more=", lease: 10")
        model.answers(Reply().says("Let me th").hangs())
        model.otherwise = Reply().says("Resumed.")
        async with living(home) as life:
            await life.up()
            platform.post("hello")
            await model.until(lambda: len(model.requests) == 1)
            server.stop("immediate")
            try:
                assert await life.ended() == 1
                await model.until(lambda: model.open == 0)  # nobody waits for the answer any more
            finally:
                server.start()
        assert "lease lost" in (home / "logs" / "gateway.log").read_text()
        async with living(home) as life:
            await life.up()
            await platform.until(lambda: any("Resumed." in text for text in platform.chat("42").texts))
            await hermes("stop", environ=environment(home))
            assert await life.ended() == 0
    assert len(model.requests) == 2


@pytest.fixture
def with_password(server: PostgresServer) -> Iterator[PostgresServer]:
    """The server, with a user `kim` that needs the password `correct-horse`."""
    rules = server.directory / "data" / "pg_hba.conf"
    before = rules.read_text()
    server.execute("CREATE ROLE kim LOGIN PASSWORD 'correct-horse'")
    rules.write_text("local all tests trust\nlocal all all scram-sha-256\n")
    server.reload()
    yield server
    rules.write_text(before)
    server.reload()
    server.execute("DROP ROLE kim")


@pytest.mark.parametrize(
    ("address", "exit_code", "told"),
    [
        ({"user": "kim", "password": "wrong-horse"}, 78, "the server refuses the password"),
        ({"database": "nowhere"}, 78, "Create it with `createdb`"),
        ({"user": "kim", "password": "correct-horse"}, 78, "Let the user own the database"),
    ],
)
async def test_a_refusal_of_the_server_tells_the_remedy_and_no_password(
    home: Path, with_password: PostgresServer, address: dict[str, str], exit_code: int, told: str
) -> None:
    use(home, with_password.url(**address))
    run = await hermes("run", environ=environment(home))
    assert (run.returncode, told in run.stderr) == (exit_code, True), run.stderr
    checked = await hermes("doctor", environ=environment(home))
    shown = await hermes("config", "show", environ=environment(home))
    if exit_code == 78 and "own the database" not in told:
        assert told in checked.stdout
    log = (home / "logs" / "gateway.log").read_text()
    for output in (run.stdout, run.stderr, checked.stdout, shown.stdout, log):
        assert "-horse" not in output


async def test_a_server_that_is_away_is_no_mistake_of_the_configuration(home: Path) -> None:
    """A supervisor starts the gateway again: its exit code is not the one for a mistake."""
    use(home, "postgresql://kim:correct-horse@127.0.0.1:1/bot")
    run = await hermes("run", environ=environment(home))
    assert run.returncode == 1
    assert "PostgreSQL database bot on 127.0.0.1: the server does not answer" in run.stderr
    assert "correct-horse" not in run.stderr


async def test_a_live_restart_hands_the_chats_on_without_waiting_for_a_lease(
    home: Path, server: PostgresServer
) -> None:
    async with open_loopback() as platform:
        use(home, server.url(), port=platform.port, more=", lease: 3600")
        async with succeeding(home) as gateway:
            said = ["one", "two", "three"]
            for text in said:
                with trio.fail_after(PATIENCE):
                    await platform.says(text)
                    await platform.until(lambda text=text: platform.chat("42").last == f"You said: {text}")  # type: ignore[misc]
                if text != "three":
                    successor = (await gateway.restart()).json()["successor"]
                    await gateway.served_by(successor)
            lives = server.execute(f"SELECT over_at IS NULL FROM {schema_of(home)}.lives ORDER BY begun_at")  # noqa: S608
    assert lives == [(False,), (False,), (True,)]
    assert platform.chat("42").texts == [f"You said: {text}" for text in said]


async def test_a_schema_of_a_newer_version_is_left_alone(home: Path, server: PostgresServer) -> None:
    use(home, server.url(), more=", node: here")
    async with living(home) as life:
        await life.up()
        found = await hermes("doctor", environ=environment(home))
        assert "the database answers; 1 gateway use" in found.stdout
        await hermes("stop", environ=environment(home))
        await life.ended()
    steps = f"{schema_of(home)}.schema_steps"
    server.execute(f"INSERT INTO {steps} VALUES ('9998_next', 0, 9)")  # noqa: S608
    assert "the database answers" in (await hermes("doctor", environ=environment(home))).stdout
    server.execute(f"INSERT INTO {steps} VALUES ('9999_later', 0, NULL)")  # noqa: S608
    run = await hermes("run", environ=environment(home))
    assert (run.returncode, "Install that version or a newer one" in run.stderr) == (78, True)
    assert "written by a newer version" in (await hermes("doctor", environ=environment(home))).stdout


async def test_a_missing_package_is_named_with_its_command(home: Path, tmp_path: Path) -> None:
    use(home, "postgresql://127.0.0.1/bot")
    missing = tmp_path / "without" / "psycopg"
    missing.mkdir(parents=True)
    (missing / "__init__.py").write_text("raise ImportError('not installed')\n")
    run = await hermes("run", environ=environment(home, PYTHONPATH=str(missing.parent)))
    assert run.returncode == 78
    assert "database.url: PostgreSQL needs the package psycopg" in run.stderr
    assert "-m pip install 'psycopg[binary]" in run.stderr
