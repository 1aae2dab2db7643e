"""Laws of adapters: tests for pytest and pytest-trio of the contract in `hermes_trio.platform`. With
`trio_mode = true` this test module runs all of them for an adapter:

    from hermes_trio.testing.laws import *

    @pytest.fixture
    async def platform():
        async with open_simulator() as stage:     # a Stage that speaks the protocol of your platform
            yield Platform(ParrotAdapter(stage.port), stage)

A law about an ability that the adapter's traits deny is skipped.

receiving    events: stored before they are acknowledged, once, in order
sending      messages: shown exactly and once, with a precise error when a send fails
lifetimes    links and calls that end, break or are cancelled leave nothing behind
"""

from .lifetimes import *  # noqa: F403
from .receiving import *  # noqa: F403
from .sending import *  # noqa: F403
from .subject import Platform as Platform
