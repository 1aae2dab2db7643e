"""The exact number of times that a turn waits for a PostgreSQL server, in a gateway that shares it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from hermes_trio.config.database_section import DatabaseConfig
from hermes_trio.gateway.nodes.lease import Node
from hermes_trio.state.chosen_store import engine_of
from tests.postgres import PostgresServer, postgres_server
from tests.web.conftest import WebStage

from .counted_life import complete, counted_web
from .round_trips import RoundTrips, counted_server


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def trips(server: PostgresServer, web_stage: WebStage) -> Iterator[RoundTrips]:
    """Counts of the server on which the stage has its store."""
    with counted_server(server) as trips:
        url = replace(server, directory=trips.directory).url()
        database = DatabaseConfig(url=url)
        web_stage.config = msgspec.structs.replace(web_stage.config, database=database)
        web_stage.open_engine = engine_of(database)
        web_stage.node = Node("here", lease=3600, look=3600)  # nothing but the turns uses the store
        yield trips


async def test_a_turn_waits_for_the_server_for_results_and_commits_and_not_for_each_statement(
    web_stage: WebStage, trips: RoundTrips
) -> None:
    async with counted_web(web_stage) as (http, life):
        trips.take()
        api, chat = [], []
        for _ in range(3):
            await complete(http)
            await life.cost()
            api.append(trips.take())
        for _ in range(3):
            await web_stage.platform.says("hi")
            await life.cost()
            chat.append(trips.take())
        # The first turn of a session makes it, and has its prompt stored.
        assert (api, chat) == ([17, 12, 12], [20, 15, 15])
