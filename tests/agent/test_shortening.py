"""A conversation that becomes too long, with a real gateway and a model server: it is shortened, continues in
the shorter form in the next turn and the next life, and stays unchanged if the summary fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_trio.agent.shortening import SHARES
from hermes_trio.gateway.outbound import texts as words
from hermes_trio.state.tables import compactions, todos
from hermes_trio.state.tables.compactions import Compaction
from hermes_trio.state.tables.session_entry import SessionEntry
from hermes_trio.state.tables.todos import Item
from hermes_trio.testing.model_replies import Plain, Reply, refused
from hermes_trio.testing.model_server import Answer, RecordedRequest
from tests.agent.agent_scene import Provider, Scene, open_scene
from tests.stage import KEY

WINDOW = 8_192
"""Context length of the model; a conversation is shortened from 5,222 tokens on."""
LONG = "word " * 1_800
MINUTES = Reply().says("## What the person wants\nTo be told of words.").uses(900, 50)
TOO_LONG = refused("openai", 400, "context_length_exceeded", "The context length is exceeded.")


def said(asked: RecordedRequest) -> str:
    return json.dumps(asked.body["messages"])


def is_for_minutes(asked: RecordedRequest) -> bool:
    return "You keep the minutes" in json.dumps(asked.body)


def answering(*answers: Answer, minutes: Answer = MINUTES) -> Callable[[RecordedRequest], Answer]:
    """Answer requests for a summary with `minutes`, and all others with `answers` in order; the last one is
    repeated."""
    left = list(answers)

    def answer(asked: RecordedRequest) -> Answer:
        if is_for_minutes(asked):
            return minutes
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def split(scene: Scene) -> tuple[list[RecordedRequest], list[RecordedRequest]]:
    """Return the requests of turns, and those for a summary."""
    requests = scene.server.requests
    return [one for one in requests if not is_for_minutes(one)], [*filter(is_for_minutes, requests)]


async def entry_of(scene: Scene) -> SessionEntry:
    entry = await scene.gateway.home.store.get_session_entry(KEY.format("42"))
    assert entry is not None
    return entry


async def compaction(scene: Scene) -> Compaction:
    return await scene.gateway.home.database.read(compactions.get, (await entry_of(scene)).session_id)


async def remember(scene: Scene, turns: int) -> None:
    """Run this number of turns, each with about 2,250 tokens. The server sends no token counts."""
    for number in range(turns):
        await scene.says(f"remember {number}: {LONG}", until=f"Heard {number}.")


HEARD = [Reply().says(f"Heard {number}.") for number in range(5)]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_the_next_turn_and_the_next_life_continue_from_a_summary(
    tmp_path: Path, provider: Provider
) -> None:
    async with open_scene(tmp_path, provider=provider, window=WINDOW) as scene:
        scene.server.otherwise = answering(*HEARD)
        await remember(scene, 2)
        assert split(scene)[1] == []
        items = [Item("a", "Learn the words"), Item("b", "Forget them", "cancelled")]
        await scene.gateway.home.database.write(todos.put, (await entry_of(scene)).session_id, items)
        await scene.says(f"remember 2: {LONG}", until="Heard 2.")
        asked, [minutes] = split(scene)
        assert "remember 0" in said(minutes)
        assert "tools" not in minutes.body, "a summary is written without tools"
        assert "To be told of words." in said(asked[-1])
        assert f"remember 2: {LONG}".strip() in said(asked[-1]), "the current request is complete"
        assert len(said(asked[-1])) < len(said(asked[-2]))
        assert len(await scene.rows()) == 6, "the transcript stays whole"
        assert (await entry_of(scene)).usage.output_tokens == 50, "the usage of the summary is counted"
        scene.check_requests()
        before = await compaction(scene)
    async with open_scene(tmp_path, provider=provider, window=WINDOW) as scene:
        await scene.platform.says("what was it?", message_id="another")
        await scene.shows("Hello.")
        [asked_again] = scene.server.requests
        assert "To be told of words." in said(asked_again)
        assert "Learn the words" in said(asked_again)
        assert "Forget them" not in said(asked_again)
        assert said(asked_again).count("remember 0: word") == 1, "only the quote of the beginning"
        assert await compaction(scene) == before
        scene.check_requests()


async def test_the_request_of_the_running_turn_is_kept(tmp_path: Path) -> None:
    rounds = [Reply().says(LONG).calls("spell", {"word": f"w{n}"}).finishes("tool_calls") for n in range(6)]
    async with open_scene(tmp_path, window=WINDOW) as scene:
        scene.server.otherwise = answering(*rounds, Reply().says("All is spelled."))
        await scene.says("spell six words", until="All is spelled.")
        asked, minutes = split(scene)
        assert scene.bench.done == [f"w{n}" for n in range(6)]
        assert len(minutes) >= 2
        assert "minutes so far" not in said(minutes[0])
        assert "minutes so far" in said(minutes[1])
        assert all("spell six words" in said(one) for one in asked)
        assert max(len(said(one)) for one in asked) < 3 * len(LONG)
        scene.check_requests()


async def test_token_counts_of_the_server_are_used_between_turns(tmp_path: Path) -> None:
    async with open_scene(tmp_path, window=WINDOW) as scene:
        scene.server.otherwise = answering(Reply().says("Yes.").uses(5_300, 1), Reply().says("Again."))
        await scene.says("short " * 1_000, until="Yes.")
        assert split(scene)[1] == []
        await scene.says("again", until="Again.")
        assert len(split(scene)[1]) == 1


async def test_token_counts_of_the_server_are_used_within_a_turn(tmp_path: Path) -> None:
    calls = Reply().calls("spell", {"word": "cat"}).uses(5_300, 1).finishes("tool_calls")
    async with open_scene(tmp_path, window=WINDOW) as scene:
        scene.server.otherwise = answering(calls, Reply().says("Spelled."))
        await scene.says("spell cat", until="Spelled.")
        assert (await compaction(scene)).wasted == 1, "an attempt was made, and nothing could be shortened"


async def test_a_refusal_as_too_long_starts_shortening(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        scene.server.otherwise = answering(*HEARD[:3], TOO_LONG, Reply().says("It was 1."))
        await remember(scene, 3)
        await scene.says("what was it?", until="It was 1.")
        asked, minutes = split(scene)
        assert len(minutes) == 1
        assert len(said(asked[-1])) < len(said(asked[-2])) / 2
        scene.check_requests()


async def test_shortening_is_given_up_after_its_attempts(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        scene.server.otherwise = answering(*HEARD[:3], TOO_LONG)
        await remember(scene, 3)
        shown = await scene.says("what was it?", until="longer than the model can take")
        asked, minutes = split(scene)
        assert "Begin a new one with /new" in shown
        assert len(asked) - 3 <= 4
        assert len(minutes) <= 3


@pytest.mark.parametrize(
    "trouble", [refused("openai", 401, "invalid_request_error", "No."), TOO_LONG, Reply().finishes("stop")]
)
async def test_a_failed_summary_keeps_the_messages_and_delays_the_next_attempt(
    tmp_path: Path, trouble: Answer
) -> None:
    async with open_scene(tmp_path, window=WINDOW) as scene:
        scene.server.otherwise = answering(*HEARD, minutes=trouble)
        await remember(scene, 4)
        asked, minutes = split(scene)
        assert len(minutes) == (len(SHARES) if trouble is TOO_LONG else 1), "there is a pause after a failure"
        assert "remember 0" in said(asked[-1])
        assert "remember 3" in said(asked[-1])
        if trouble is TOO_LONG:
            assert len(said(minutes[-1])) < len(said(minutes[0])), "each request for a summary is shorter"
        assert (await compaction(scene)).summary == ""


async def test_no_third_attempt_follows_two_that_save_too_little(tmp_path: Path) -> None:
    rounds = [Reply().calls("spell", {"word": f"w{n}"}).finishes("tool_calls") for n in range(5)]
    async with open_scene(tmp_path, window=WINDOW) as scene:
        scene.server.otherwise = answering(*rounds, *HEARD)
        await scene.says(f"spell five words, none of these: {LONG * 3}", until="Heard 0.")
        assert split(scene)[1] == [], "the current request is never summarised"
        assert (await compaction(scene)).wasted == 2
        await scene.says("and now?", until="Heard 1.")
        assert split(scene)[1] == []
        await scene.says("/compress", until="shorter form")
        assert len(split(scene)[1]) == 1
        assert (await compaction(scene)).wasted == 0


async def test_a_person_can_compress_the_conversation(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        assert await scene.says("/compress", until="nothing") == words.nothing_to_compress()
        scene.server.otherwise = answering(*HEARD[:3], minutes=Plain(401, "No."))
        await remember(scene, 3)
        assert "summary could not be written" in await scene.says("/compress", until="could not")
        scene.server.otherwise = answering(HEARD[3])
        await scene.says("/compress the words", until="shorter form")
        asked, [_, minutes] = split(scene)
        assert "Keep above all what concerns: the words" in said(minutes)
        assert len(await scene.rows()) == 6
        await scene.says("and now?", until="Heard 3.")
        assert len(said(split(scene)[0][-1])) < len(said(asked[-1]))
        assert (await entry_of(scene)).usage.output_tokens == 50
        assert "could be made shorter" in await scene.says("/compress", until="could be made")


async def test_shortening_is_not_interrupted(tmp_path: Path) -> None:
    async with open_scene(tmp_path, window=WINDOW, mode="interrupt") as scene:
        scene.server.otherwise = answering(*HEARD, minutes=Reply().pauses(0.5).says("Minutes."))
        await remember(scene, 2)
        await scene.platform.says(f"remember 2: {LONG}")
        await scene.server.until(lambda: any(map(is_for_minutes, scene.server.requests)))
        await scene.platform.says("no, stop remembering")
        await scene.shows("Heard 3.")
        texts = scene.platform.chat("42").texts
        assert words.not_now("shortening the conversation") in texts
        assert "Heard 2." in texts, "it was answered before"


async def test_undone_messages_are_removed_from_the_summary(tmp_path: Path) -> None:
    rounds = [Reply().says(LONG).calls("spell", {"word": f"w{n}"}).finishes("tool_calls") for n in range(4)]
    async with open_scene(tmp_path, window=WINDOW) as scene:
        scene.server.otherwise = answering(HEARD[0], *rounds, Reply().says("All is spelled."))
        await scene.says("first", until="Heard 0.")
        await scene.says("spell four words", until="All is spelled.")
        assert (await compaction(scene)).summary
        await scene.says("/undo", until="Forgotten")
        assert await compaction(scene) == Compaction()


async def test_a_message_that_is_too_long_does_not_block_the_next_ones(tmp_path: Path) -> None:
    def answer(asked: RecordedRequest) -> Answer:
        if is_for_minutes(asked):
            return MINUTES
        return TOO_LONG if len(said(asked)) > 30_000 else Reply().says("Short enough.")

    async with open_scene(tmp_path) as scene:
        scene.server.otherwise = answer
        shown = await scene.says(f"Read this: {LONG * 8} What is it?", until="longer than the model can take")
        assert "Begin a new one with /new" in shown
        await scene.says("Only the beginning, then.", until="Short enough.")
        scene.server.requests.clear()
        await scene.says("And now?", until="Short enough.")
        scene.check_requests()
