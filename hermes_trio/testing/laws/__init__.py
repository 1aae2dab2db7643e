"""What every adapter keeps to, whatever its platform: the contract in `hermes_trio.platform`, as stories for
pytest and pytest-trio. With `trio_mode = true` this is a test module that holds an adapter to all of them:

    from hermes_trio.testing.laws import *

    @pytest.fixture
    async def platform():
        async with open_simulator() as stage:     # a Stage that speaks the wire of your platform
            yield Platform(ParrotAdapter(stage.port), stage)

A law that asks for what the adapter's traits deny is skipped.

receiving    what people say: stored before it is acknowledged, once, in order
sending      what is said to them: exactly, once, and what is known of it when it did not work out
lifetimes    links and calls that are left, lost or cancelled leave nothing behind
"""

from .lifetimes import *  # noqa: F403
from .receiving import *  # noqa: F403
from .sending import *  # noqa: F403
from .subject import Platform as Platform
