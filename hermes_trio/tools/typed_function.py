"""Tools made of functions with type hints.

    def price(article: str, amount: int = 1) -> float:
        "Returns the price of an article."
        return PRICES[article] * amount

    PRICE = function_tool(price)

The hints are the schema that a model is shown and the check of the arguments that it sends, by the rules of
msgspec; `Annotated[int, msgspec.Meta(...)]` adds limits and descriptions. The docstring is the description,
and a parameter with a default is optional. An `async def` function runs on Trio, any other one in a thread.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast, get_type_hints

import msgspec

from ..base.errors import EXIT_CONFIG, GatewayError
from ..host.loop.thread_call import call_in_thread
from ..log import Log
from .approval import Permissions
from .tool import LONGEST_RUN, Approval, Result, Tool, ToolFailed, Workplace

DONE = "Done."
"""The result of a function that returns nothing."""
_NAME = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)
_UNNAMED = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
)

log = Log(__name__)


class ToolInvalid(GatewayError, TypeError):
    """A function cannot be a tool."""

    exit_code = EXIT_CONFIG

    def __init__(self, function: object, problem: str) -> None:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        super().__init__(
            f"tool {name}: {problem}. Give a function with a docstring and a type hint for each parameter, "
            "or a hermes_trio.tools.Tool."
        )
        self.function, self.problem = function, problem


def function_tool(
    function: Callable[..., object],
    *,
    reads_only: bool = False,
    needs_approval: bool = False,
    untrusted: bool = False,
    within: float | None = LONGEST_RUN,
) -> Tool:
    """Return the tool that calls a function with the arguments of a model. A parameter with the type
    `Workplace` gets the turn, and arguments that a `functools.partial` gives are not the model's. With
    `needs_approval` a person is shown each call and has to allow it; the other options are those of `Tool`.

    The result is a text, a `Result`, or any value that msgspec writes as JSON. Raises `ToolInvalid`.
    """
    named = _below_partials(function)
    name, description = getattr(named, "__name__", ""), inspect.getdoc(named)
    if inspect.isclass(named) or not callable(named) or not _NAME.fullmatch(name):
        raise ToolInvalid(function, "it is no function with a name")
    if not description:
        raise ToolInvalid(function, "it has no docstring, from which a model learns what it does")
    unwrapped = inspect.unwrap(named)
    if inspect.isgeneratorfunction(unwrapped) or inspect.isasyncgenfunction(unwrapped):
        raise ToolInvalid(function, "it yields values, and a tool returns one")
    is_async = inspect.iscoroutinefunction(named) or inspect.iscoroutinefunction(unwrapped)
    arguments, places = _parameters(function, named, name)
    if places and not is_async:
        raise ToolInvalid(function, f"{places[0]} is a Workplace, which only an `async def` function can use")
    permissions = Permissions()

    async def run(given: msgspec.Struct, place: Workplace) -> Result:
        if needs_approval:
            shown = Approval(f"{name} {msgspec.json.encode(given).decode()}")
            await permissions.require({f"calls {name}": f"tool: {name}"}, shown, place)
        values = {field: getattr(given, field) for field in given.__struct_fields__}
        call = partial(function, **values, **dict.fromkeys(places, place))
        value = await (cast("Awaitable[object]", call()) if is_async else call_in_thread(call, name))
        return _result_of(value, name)

    return Tool(name, description, arguments, run, reads_only, untrusted=untrusted, within=within)


def as_tool(tool: Tool | Callable[..., object]) -> Tool:
    """Return a tool as it is, and a function as the tool that calls it. Raises `ToolInvalid`."""
    return tool if isinstance(tool, Tool) else function_tool(tool)


def _below_partials(function: object) -> object:
    while isinstance(function, partial):
        function = function.func
    return function


def _parameters(
    function: Callable[..., object], named: Callable[..., object], name: str
) -> tuple[type[msgspec.Struct], list[str]]:
    """Return the struct of the arguments that a model gives, and the names of the parameters for the turn."""
    try:
        hints = get_type_hints(named, include_extras=True)
        parameters = inspect.signature(function).parameters.values()
    except (NameError, TypeError, ValueError) as error:
        raise ToolInvalid(function, f"its type hints cannot be read ({error})") from error
    bound = function.keywords if isinstance(function, partial) else {}
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    places: list[str] = []
    for one in parameters:
        if one.kind in _UNNAMED:
            raise ToolInvalid(function, f"its parameter {one.name} cannot be given by name")
        if one.name in bound:
            continue
        if one.name not in hints:
            raise ToolInvalid(function, f"its parameter {one.name} has no type hint")
        hint = hints[one.name]
        if hint is Workplace:
            places.append(one.name)
        else:
            fields.append((one.name, hint) if one.default is one.empty else (one.name, hint, one.default))
    try:
        struct = msgspec.defstruct(name, fields, frozen=True, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.Decoder(struct)
        msgspec.json.schema(struct)
    except (TypeError, ValueError) as error:
        raise ToolInvalid(function, f"msgspec cannot read its arguments from JSON ({error})") from error
    return struct, places


def _result_of(value: object, name: str) -> Result:
    """Return what a function has returned as the model gets it."""
    if isinstance(value, Result):
        return value
    if isinstance(value, str) or value is None:
        return Result(DONE if value is None else value)
    try:
        plain = msgspec.to_builtins(value, builtin_types=(bytes, bytearray, memoryview), str_keys=True)
        return Result(json.dumps(plain, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        log.error("result of a tool is no JSON", tool=name, kind=type(value).__qualname__)
        raise ToolFailed(f"{name} has run, but its result is no JSON and cannot be shown.") from error
