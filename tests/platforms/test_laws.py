"""The laws of adapters, for every platform of the fixture: a new adapter is proven by one more parameter."""

from __future__ import annotations

from hermes_trio.testing.laws import *  # noqa: F403
