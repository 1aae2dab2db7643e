"""A cache with a limit in bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.base.byte_cache import ByteCache


def test_the_value_that_was_put_longest_ago_is_dropped_first() -> None:
    cache = ByteCache[str](most_bytes=30)
    for key in ("one", "two", "one", "three", "four"):
        cache.put(key, key, 10)
    assert [cache.get(key) for key in ("one", "two", "three", "four")] == ["one", None, "three", "four"]
    assert cache.size == 30


def test_a_value_above_the_limit_is_not_kept() -> None:
    cache = ByteCache[str](most_bytes=30)
    cache.put("one", "one", 31)
    assert (cache.get("one"), cache.size) == (None, 0)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 40), st.booleans())))
def test_the_size_is_the_sum_of_what_is_kept(steps: list[tuple[str, int, bool]]) -> None:
    cache, sizes = ByteCache[int](most_bytes=100), dict[str, int]()
    for key, size, drops in steps:
        if drops:
            cache.drop(key)
        else:
            cache.put(key, size, size)
        sizes[key] = size
        kept = [value for key in sizes if (value := cache.get(key)) is not None]
        assert cache.size == sum(kept) <= 100
