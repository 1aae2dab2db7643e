"""The asserts in the accounts tell what they compared, as those in a test do."""

import pytest

pytest.register_assert_rewrite("tests.kill.accounts")
