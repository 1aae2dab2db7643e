"""Laws of adapters, for every platform of the fixture `platform`. A new adapter is one more parameter of
it."""

from __future__ import annotations

from hermes_trio.testing.laws import *  # noqa: F403
