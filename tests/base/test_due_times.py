"""Due times: what people write, and what becomes of them when the clock on the wall changes."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.base.due_times import (
    BadTime,
    Cron,
    Every,
    Once,
    described,
    next_after,
    parse,
    passed,
    zone_named,
)

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 20, 12, 0, tzinfo=BERLIN)


def berlin(*when: int) -> float:
    return datetime(*when, tzinfo=BERLIN).timestamp()  # type: ignore[arg-type, misc]


def dues(line: str, start: datetime, count: int) -> list[str]:
    """Return the next due times of a line of cron, as the clock on the wall in Berlin shows them."""
    at, shown = start.timestamp(), list[str]()
    for _ in range(count):
        following = next_after(Cron(line, "Europe/Berlin"), at)
        assert following is not None
        at = following
        shown.append(f"{datetime.fromtimestamp(at, BERLIN):%m-%d %H:%M}")
    return shown


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("in 20m", Once(NOON.timestamp() + 1200)),
        ("in 2 hours", Once(NOON.timestamp() + 7200)),
        ("at 13:30", Once(berlin(2026, 11, 20, 13, 30))),
        ("09:00", Once(berlin(2026, 11, 21, 9))),
        ("2026-12-24 18:00", Once(berlin(2026, 12, 24, 18))),
        ("2026-12-24T18:00Z", Once(berlin(2026, 12, 24, 19))),
        ("every 30m", Every(1800, NOON.timestamp())),
        ("every day", Every(86400, NOON.timestamp())),
        ("daily 9:05", Cron("5 9 * * *", "Europe/Berlin")),
        ("0 9 * * 1-5", Cron("0 9 * * 1-5", "Europe/Berlin")),
        ("cron */15 * * * *", Cron("*/15 * * * *", "Europe/Berlin")),
    ],
)
def test_a_written_time_is_read(written: str, rule: object) -> None:
    assert parse(written, NOON, "Europe/Berlin") == rule


@pytest.mark.parametrize(
    "written",
    [
        "",
        "soon",
        "every 5s",
        "in 0m",
        "25:00",
        "2020-01-01",
        "9999-12-31 00:00",
        "* * * *",
        "61 * * * *",
        "0 0 30 2 *",
        "in 999999999w",
    ],
)
def test_a_time_that_cannot_be_read_or_never_comes_is_refused_with_examples(written: str) -> None:
    with pytest.raises(BadTime, match="`every 2h`"):
        parse(written, NOON, "Europe/Berlin")


@given(st.text(max_size=40))
def test_any_text_is_a_rule_that_is_due_later_or_is_refused(written: str) -> None:
    try:
        rule = parse(written, NOON)
    except BadTime:
        return
    following = next_after(rule, NOON.timestamp(), BERLIN)
    assert following is not None
    assert following > NOON.timestamp()
    assert described(rule, BERLIN)


def test_an_unknown_zone_is_refused() -> None:
    for name in ("Mars/Olympus", "../../etc/passwd", "\0"):
        with pytest.raises(BadTime, match="no time zone"):
            zone_named(name)


def test_a_time_that_the_change_to_summer_leaves_out_comes_directly_after_it() -> None:
    start = datetime(2027, 3, 27, 3, 0, tzinfo=BERLIN)
    assert dues("30 2 * * *", start, 2) == ["03-28 03:00", "03-29 02:30"]


def test_a_time_that_comes_twice_in_autumn_is_due_once() -> None:
    start = datetime(2027, 10, 30, 3, 0, tzinfo=BERLIN)
    assert dues("30 2 * * *", start, 2) == ["10-31 02:30", "11-01 02:30"]


def test_a_line_of_each_half_hour_follows_the_time_that_passes() -> None:
    start = datetime(2027, 10, 31, 1, 45, tzinfo=BERLIN)
    assert dues("*/30 * * * *", start, 5) == [
        "10-31 02:00",
        "10-31 02:30",
        "10-31 02:00",
        "10-31 02:30",
        "10-31 03:00",
    ]


def test_an_interval_is_counted_from_its_order_and_knows_no_change_of_the_clock() -> None:
    rule = Every(86400, berlin(2027, 3, 27, 12))
    assert next_after(rule, berlin(2027, 3, 28, 1)) == berlin(2027, 3, 28, 13)


@pytest.mark.parametrize("rule", [Every(60, 0.0), Cron("* * * * *", "UTC")])
def test_the_latest_times_of_a_long_absence_are_known_without_counting_all(rule: Every | Cron) -> None:
    until = 50 * 365 * 86400.0
    assert passed(rule, 60.0, until, 3) == [until - 120, until - 60, until]
    assert passed(rule, until - 30, until - 10, 3) == []


@given(
    st.one_of(
        st.builds(Every, st.integers(60, 10_000).map(float), st.integers(0, 10_000).map(float)),
        st.sampled_from([Cron("*/7 * * * *", "UTC"), Cron("0 */5 * * *", "Europe/Berlin")]),
    ),
    st.integers(10_000, 2_000_000),
    st.integers(0, 200_000),
)
def test_passed_times_are_those_that_come_one_after_the_other(
    rule: Every | Cron, start: int, span: int
) -> None:
    at, expected = float(start), list[float]()
    while (following := next_after(rule, at)) is not None and following <= start + span:
        expected.append(following)
        at = following
    assert passed(rule, start + 0.5, float(start + span), 10_000) == expected
