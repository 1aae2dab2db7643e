"""The arguments of a command: options and operands. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence


def operands_of(args: Sequence[str]) -> list[str]:
    """Return the arguments that are no options."""
    if "--" in args:
        end = list(args).index("--")
        return [*operands_of(args[:end]), *args[end + 1 :]]
    return [arg for arg in args if not arg.startswith("-") or arg == "-"]


def letters_of(args: Sequence[str]) -> set[str]:
    """Return the letters of the short options."""
    return {char for arg in args if re.match(r"-[^-]", arg) for char in arg[1:]}


def has_long(args: Sequence[str], *names: str) -> bool:
    """Return whether one of these long options is given; an abbreviation such as `--rec` counts too."""
    given = [arg[2:].partition("=")[0] for arg in args if re.match(r"--\w", arg)]
    return any(name.startswith(each) for each in given for name in names)


def after_options(args: Sequence[str], with_value: str) -> list[str]:
    """Return the first operand and every argument after it."""
    rest: Iterator[str] = iter(args)
    for arg in rest:
        if not arg.startswith("-"):
            return [arg, *rest]
        if takes_next(arg, with_value):
            next(rest, None)
    return []


def takes_next(arg: str, with_value: str) -> bool:
    """Return whether the value of these short options is the next word: `-nu root`, but not `-uroot`."""
    at = next((at for at, letter in enumerate(arg) if at and letter in with_value), 0)
    return not arg.startswith("--") and at > 0 and at == len(arg) - 1


def placeholder_of(options: Sequence[str]) -> str:
    """Return the placeholder for an item in the command that `xargs` or `parallel` runs with these
    options."""
    for number, text in enumerate(options):
        if found := re.match(r"-I(.*)|--replace=(.*)", text, re.DOTALL):
            return found[1] or found[2] or "".join(options[number + 1 : number + 2])
    return "{}"
