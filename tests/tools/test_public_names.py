"""The names for those who write a tool: one place, loaded when they are first used."""

from __future__ import annotations

import pytest

import hermes_trio.tools
from hermes_trio.tools import all_tools, tool, typed_function
from tests.test_imports import HEAVY, modules_after


def test_the_public_names_are_exactly_these() -> None:
    names = ["Result", "Tool", "ToolFailed", "ToolInvalid", "Workplace", "function_tool", "toolbox"]
    assert hermes_trio.tools.__all__ == names
    assert dir(hermes_trio.tools) == hermes_trio.tools.__all__


@pytest.mark.parametrize("name", hermes_trio.tools.__all__)
def test_a_public_name_is_the_object_that_our_own_tools_use(name: str) -> None:
    modules = (tool, typed_function, all_tools)
    assert getattr(hermes_trio.tools, name) in [getattr(module, name, None) for module in modules]


def test_any_other_name_is_no_attribute_of_the_package() -> None:
    name = "no_such_name"
    with pytest.raises(AttributeError, match=name):
        getattr(hermes_trio.tools, name)


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = modules_after("import hermes_trio.tools")
    assert "hermes_trio.tools" in loaded
    assert "hermes_trio.tools.tool" not in loaded
    assert loaded & HEAVY == set()
