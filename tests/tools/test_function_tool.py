"""Tools made of functions: what a model is shown, what it may send, and which functions cannot be tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import pytest
from msgspec import Meta

from hermes_trio.tools import Result, ToolFailed, ToolInvalid, Workplace, function_tool


@dataclass
class Address:
    """An address."""

    street: str
    number: int = 1


async def book(
    place: Workplace,
    where: Address,
    nights: Annotated[int, Meta(ge=1, description="How long.")] = 1,
    room: Literal["single", "double"] = "single",
) -> dict[str, object]:
    """Books a room."""
    return {"where": where, "nights": nights, "room": room, "turn": place is NO_PLACE}


NO_PLACE = cast(Workplace, object())


async def called(function: Any, arguments: str = "{}", **options: Any) -> str:
    """Return the result of a call."""
    tool = function_tool(function, **options)
    return (await tool.run(tool.read(arguments), NO_PLACE)).content


def test_the_schema_is_made_from_the_hints_and_the_docstring() -> None:
    tool = function_tool(book)
    assert (tool.name, tool.description, tool.reads_only) == ("book", "Books a room.", False)
    assert tool.parameters["required"] == ["where"]
    assert tool.parameters["additionalProperties"] is False
    assert tool.parameters["properties"]["nights"] == {
        "type": "integer",
        "minimum": 1,
        "description": "How long.",
        "default": 1,
    }
    assert set(tool.parameters["properties"]) == {"where", "nights", "room"}
    assert tool.parameters["$defs"]["Address"]["required"] == ["street"]


async def test_arguments_become_values_and_a_result_becomes_json() -> None:
    text = await called(book, '{"where": {"street": "Elm", "number": 3}, "room": "double"}')
    assert text == '{"where": {"street": "Elm", "number": 3}, "nights": 1, "room": "double", "turn": true}'


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("{}", "missing required field `where`"),
        ('{"where": {"street": "Elm"}, "nights": 0}', "Expected `int` >= 1 - at `$.nights`"),
        ('{"where": {"street": "Elm"}, "nights": "2"}', "Expected `int`, got `str`"),
        ('{"where": {"street": "Elm"}, "rooom": "single"}', "unknown field `rooom`"),
        ('{"where": {"street": "Elm"}, "place": {}}', "unknown field `place`"),
        ("[]", "Expected `object`"),
        ("{", "Input data was truncated"),
    ],
)
def test_wrong_arguments_of_a_model_never_reach_the_function(arguments: str, problem: str) -> None:
    with pytest.raises(ToolFailed, match="arguments of book are wrong") as failed:
        function_tool(book).read(arguments)
    assert problem in str(failed.value)


class Shop:
    def price(self, article: str) -> float:
        """Returns a price."""
        return {"tea": 2.5}[article]


async def test_methods_partials_and_blocking_functions_are_tools() -> None:
    assert await called(Shop().price, '{"article": "tea"}') == "2.5"
    given = partial(Shop.price, Shop(), article="tea")
    assert await called(given) == "2.5"
    with pytest.raises(ToolFailed, match="unknown field `article`"):
        function_tool(given).read('{"article": "gold"}')


def returned(value: object) -> Any:
    async def answer() -> object:
        """Answers."""
        return value

    return answer


@pytest.mark.parametrize(
    ("value", "text"),
    [("plain", "plain"), (None, "Done."), ([1, {"a": None}], '[1, {"a": null}]'), (Result("own"), "own")],
)
async def test_a_result_is_a_text_or_json(value: object, text: str) -> None:
    assert await called(returned(value)) == text


@pytest.mark.parametrize("value", [b"bytes", {"deep": [b"bytes"]}, float("nan"), object()])
async def test_a_result_that_is_no_json_is_an_error_for_the_model(value: object) -> None:
    with pytest.raises(ToolFailed, match="answer has run, but its result is no JSON"):
        await called(returned(value))


def bare(text: str) -> None: ...


def unhinted(text) -> None:  # type: ignore[no-untyped-def]
    """Has no hint."""


def unreadable(text: NoSuchType) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Has a hint that leads nowhere."""


def foreign(path: Path) -> None:
    """Has a type that is no JSON."""


def starred(*texts: str) -> None:
    """Takes any number."""


def positional(text: str, /) -> None:
    """Takes no name."""


def placed(place: Workplace) -> None:
    """Blocks, and wants the turn."""


async def pieces() -> AsyncIterator[str]:
    """Yields."""
    yield ""


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (bare, "tool bare: it has no docstring"),
        (unhinted, "its parameter text has no type hint"),
        (unreadable, "its type hints cannot be read"),
        (foreign, "msgspec cannot read its arguments from JSON"),
        (starred, "its parameter texts cannot be given by name"),
        (positional, "its parameter text cannot be given by name"),
        (placed, "place is a Workplace, which only an `async def` function can use"),
        (pieces, "it yields values"),
        (Shop, "tool Shop: it is no function with a name"),
        (lambda: "x", "it is no function with a name"),
        ("price", "tool str: it is no function with a name"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_the_reason(function: Any, problem: str) -> None:
    with pytest.raises(ToolInvalid) as refused:
        function_tool(function)
    assert problem in str(refused.value)
    assert "a docstring and a type hint" in str(refused.value)
