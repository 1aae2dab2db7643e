"""The plugin for pytest: the fixture `hermes_life`, a gateway in memory on a virtual clock.

    async def test_the_agent_is_polite(hermes_life):
        async with hermes_life(answer) as tried:
            assert await tried.gateway.say("first", "hello") == "Good morning."

The test may belong to pytest-trio, to the plugin of anyio or to pytest-asyncio. A test on Trio gets the clock
of its lives, unless it asks for a clock of its own.

Every pytest in an environment with this package loads this module, so it loads nothing by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .lives import Lives


@pytest.fixture
def hermes_life(tmp_path: Path) -> Lives:
    """Return a function that opens a gateway in memory: `async with hermes_life(agent) as tried`. Each call
    in a test opens the next life of the same home."""
    from .lives import Lives

    return Lives(tmp_path / "hermes-home")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Give a test on Trio the clock of its lives."""
    funcargs: dict[str, Any] = getattr(item, "funcargs", {})
    if "hermes_life" in funcargs:
        clock = funcargs["hermes_life"].clock
        _give_to_pytest_trio(item, clock)
        _give_to_anyio(funcargs, clock)
    return (yield)


def _give_to_pytest_trio(item: pytest.Item, clock: object) -> None:
    if item.get_closest_marker("trio") is None:
        return
    import trio

    runs = (marker.kwargs.get("run") for marker in item.iter_markers("trio"))
    run = next(filter(None, runs), trio.run)
    item.add_marker(pytest.mark.trio(run=partial(_run_on, clock, run)), append=False)


def _run_on(clock: object, run: Callable[..., object], test: object, /, **options: Any) -> object:
    return run(test, **{**options, "clock": options.get("clock") or clock})


def _give_to_anyio(funcargs: dict[str, Any], clock: object) -> None:
    backend = funcargs.get("anyio_backend")
    name, options = backend if isinstance(backend, tuple) else (backend, {})
    if name == "trio":
        funcargs["anyio_backend"] = name, {"clock": clock, **options}
