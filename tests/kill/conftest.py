"""Rewriting of the asserts in `audit`, so that a failure shows the compared values."""

import pytest

pytest.register_assert_rewrite("tests.kill.audit")
