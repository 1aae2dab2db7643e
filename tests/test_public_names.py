"""Public names: each public package has a list of them, and each name has one place."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

from tests.house.source import Module, read_package
from tests.house.surface import IN_TWO_PLACES, PUBLIC, public_names
from tests.test_imports import HEAVY, ROOT, modules_after


def names(package: str) -> list[str]:
    """Return the public names of a package."""
    listed: list[str] = import_module(package).__all__
    return listed


EVERY = [(package, name) for package in PUBLIC for name in names(package) if name != "__version__"]


@pytest.mark.parametrize("package", PUBLIC)
def test_a_list_of_public_names_is_sorted_and_has_no_name_twice(package: str) -> None:
    def place(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2), name

    assert names(package) == sorted(set(names(package)), key=place), "constants, classes, functions"
    assert set(names(package)) <= set(dir(import_module(package)))


@pytest.mark.parametrize(("package", "name"), EVERY)
def test_a_public_name_exists_and_is_documented(package: str, name: str) -> None:
    value = getattr(import_module(package), name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert inspect.getdoc(value), f"{package}.{name} has no docstring"


def test_a_public_name_has_one_place() -> None:
    places: dict[str, list[str]] = {}
    for package, name in EVERY:
        places.setdefault(name, []).append(package)
    assert {name for name, found in places.items() if len(found) > 1} == set(IN_TWO_PLACES)
    assert all(places[name] == ["hermes_trio", "hermes_trio.platform"] for name in IN_TWO_PLACES)


@pytest.mark.parametrize("package", PUBLIC)
def test_the_measure_of_the_surface_counts_the_same_names(package: str) -> None:
    path = Path(inspect.getfile(import_module(package)))
    module = Module(package, path, ast.parse(path.read_text(encoding="utf-8")), lines=0)
    assert public_names(module) == {name for name in names(package) if not name.startswith("_")}


def test_our_platforms_import_public_names_only() -> None:
    for module in read_package(ROOT, ROOT / "platforms/hermes_platforms"):
        for node in module.nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "hermes_trio":
                assert node.module in PUBLIC, module.place(node)
                assert {alias.name for alias in node.names} <= set(names(node.module)), module.place(node)
            elif isinstance(node, ast.Import):
                assert not any(alias.name.startswith("hermes_trio") for alias in node.names), module.place(
                    node
                )


@pytest.mark.parametrize("package", ["hermes_trio", "hermes_trio.platform", "hermes_trio.tools"])
def test_the_import_of_a_public_package_loads_nothing_heavy(package: str) -> None:
    loaded = modules_after(f"import {package}")
    assert package in loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("package", PUBLIC)
def test_any_other_name_is_no_attribute_of_a_public_package(package: str) -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(import_module(package), "no_such_name")  # noqa: B009 - as a user would write it
