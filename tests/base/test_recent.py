"""A mapping that keeps only its latest entries."""

from __future__ import annotations

from hermes_trio.base.recent import Recent


def test_a_recent_mapping_drops_the_oldest_entry_beyond_its_limit() -> None:
    recent = Recent[str, int](2)
    recent["a"], recent["b"], recent["c"] = 1, 2, 3
    assert recent == {"b": 2, "c": 3}


def test_setting_a_key_of_a_recent_mapping_again_makes_it_the_latest() -> None:
    recent = Recent[str, int](2)
    recent["a"], recent["b"] = 1, 2
    recent["a"] = 3
    recent["c"] = 4
    assert recent == {"a": 3, "c": 4}
    assert recent.get("b") is None
