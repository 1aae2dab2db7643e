"""A session as a plain dict: any stored value is read, or refused with ValueError."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_trio.base.errors import InvalidId
from hermes_trio.state.db.engine import Db
from hermes_trio.state.tables import sessions
from hermes_trio.state.tables.session_entry import Mark, SessionEntry, Usage, parse_time
from tests.state.rows import KEY, KIM, NOON, undone

GOOD = SessionEntry(
    KEY,
    "20260520_120000_00000001",
    NOON,
    NOON + 60,
    KIM,
    "Kim",
    "telegram",
    "dm",
    Mark("resume_pending", "crash", NOON + 30.25),
    auto_reset_reason="idle",
    reset_had_activity=True,
    model_override={"model": "large", "base_url": "http://127.0.0.1:1"},
    usage=Usage(1, 2, 3, 4, 5, 0.25),
)

huge = st.sampled_from(
    [10**400, -(10**400), 2**63, 1e400, -1e400, math.nan, 1e308, 253402300800, "nan", "1e400"]
)
numbers = st.integers() | st.floats() | huge
scalars = st.none() | st.booleans() | numbers | st.text(max_size=30) | st.just("half \ud83d")
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [*GOOD.to_dict(), "memory_flushed", "is_fresh_reset"]


@settings(max_examples=400)
@given(data=st.data())
def test_a_session_dict_with_any_field_values_is_read_or_refused(shared_db: Db, data: st.DataObject) -> None:
    bad = data.draw(
        st.dictionaries(st.sampled_from(FIELDS), huge | scalars | anything, min_size=1, max_size=4)
    )
    try:
        entry = SessionEntry.from_dict({**GOOD.to_dict(), **bad})
    except ValueError:
        return
    assert_it_is_sound(shared_db, entry)


@settings(max_examples=200)
@given(value=anything)
def test_from_dict_of_any_value_reads_it_or_raises_value_error(shared_db: Db, value: object) -> None:
    try:
        entry = SessionEntry.from_dict(value)
    except ValueError:
        return
    assert_it_is_sound(shared_db, entry)


def assert_it_is_sound(shared_db: Db, entry: SessionEntry) -> None:
    """Assert that an entry can be written as JSON, read back unchanged, and stored."""
    written = json.loads(json.dumps(entry.to_dict(), allow_nan=False))
    again = SessionEntry.from_dict(written)
    assert again.to_dict() == written
    with undone(shared_db) as db:
        sessions.add(db, entry)
        assert sessions.by_id(db, entry.session_id) == entry


def test_a_session_dict_is_read_back_unchanged() -> None:
    assert SessionEntry.from_dict(json.loads(json.dumps(GOOD.to_dict()))) == GOOD
    plain = SessionEntry(KEY, "s1", NOON, NOON)
    assert SessionEntry.from_dict(json.loads(json.dumps(plain.to_dict()))) == plain


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("session_key", None),
        ("session_key", ""),
        ("session_key", "../etc"),
        ("session_key", "/etc"),
        ("session_key", "C:\\x"),
        ("session_key", "a\0b"),
        ("session_id", None),
        ("session_id", "../etc"),
        ("session_id", "a/b"),
        ("session_id", "a\\b"),
        ("session_id", "C:\\x"),
        ("session_id", "a\0b"),
        ("session_id", ["a"]),
    ],
)
def test_a_session_dict_without_a_usable_key_or_id_is_refused(field: str, bad: object) -> None:
    with pytest.raises(InvalidId):
        SessionEntry.from_dict({**GOOD.to_dict(), field: bad})


@pytest.mark.parametrize(
    "bad",
    [None, "", "yesterday", -1, pytest.param(10**400, id="huge"), True, [], {}, "1e400", math.nan, 10**15],
)
def test_a_session_dict_without_a_usable_created_at_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="created_at"):
        SessionEntry.from_dict({**GOOD.to_dict(), "created_at": bad})


@pytest.mark.parametrize("bad", [5, "entry", None, [], [GOOD.to_dict()]])
def test_a_session_dict_that_is_no_mapping_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="is a mapping"):
        SessionEntry.from_dict(bad)


def test_a_session_key_may_contain_a_separator_in_the_chat_id() -> None:
    key = "agent:main:google_chat:group:spaces/AAA"
    assert SessionEntry.from_dict({**GOOD.to_dict(), "session_key": key}).session_key == key


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0),
        (NOON, NOON),
        (NOON * 1000, NOON),
        (253402300800, 253402300.8),
        (str(int(NOON)), NOON),
        (f" {NOON * 1000} ", NOON),
        ("2026-05-20T12:00:00+00:00", NOON),
        ("2026-05-20T14:00:00+02:00", NOON),
        ("2026-05-20T12:00:00Z", NOON),
        ("2026-05-20 12:00:00+00:00", NOON),
        ("9999-12-31T23:59:59+00:00", 253402300799.0),
        ("0001-01-01T00:00:00+00:00", None),
        ("9999-12-31T23:59:59-12:00", None),
        ("nan", None),
        ("inf", None),
        ("-1", None),
        ("12:00", None),
        (True, None),
        (None, None),
        (math.inf, None),
        pytest.param(10**400, None, id="huge"),
        ([NOON], None),
    ],
)
def test_parse_time_reads_seconds_milliseconds_and_iso_text(value: object, seconds: float | None) -> None:
    assert parse_time(value) == seconds


def test_a_time_without_a_zone_is_local_time() -> None:
    local = datetime.fromtimestamp(NOON, UTC).astimezone().replace(tzinfo=None)
    assert parse_time(local.isoformat()) == NOON


@pytest.mark.parametrize(
    ("fields", "mark"),
    [
        ({"suspended": True}, Mark("suspended")),
        ({"suspended": True, "resume_pending": True, "resume_reason": "crash"}, Mark("suspended")),
        ({"suspended": "true", "resume_pending": 1}, None),
        ({"resume_pending": True}, Mark("resume_pending", "crash", NOON + 30.25)),
        ({"resume_pending": True, "resume_reason": 5}, Mark("resume_pending", None, NOON + 30.25)),
        ({"resume_pending": True, "last_resume_marked_at": "?"}, Mark("resume_pending", "crash", None)),
        ({"resume_pending": False}, None),
    ],
)
def test_the_two_flags_of_the_original_become_one_mark(fields: dict[str, Any], mark: Mark | None) -> None:
    assert SessionEntry.from_dict({**GOOD.to_dict(), **fields}).mark == mark


def test_a_model_override_never_keeps_a_credential() -> None:
    override = {"model": "large", "api_key": "sk-123", "headers": {"x": "y"}, "provider": 5}
    entry = SessionEntry.from_dict({**GOOD.to_dict(), "model_override": override})
    assert entry.model_override == {"model": "large"}
    assert "sk-123" not in json.dumps(entry.to_dict())


@pytest.mark.parametrize(
    ("cost", "status", "kept"),
    [(0.5, "estimated", 0.5), (0.5, "unknown", None), (0, "estimated", 0.0), ("1", "estimated", None)]
    + [(bad, "estimated", None) for bad in (math.nan, math.inf, -1)]
    + [pytest.param(10**400, "estimated", None, id="huge")],
)
def test_an_unknown_cost_is_never_zero(cost: object, status: str, kept: float | None) -> None:
    data = {**GOOD.to_dict(), "estimated_cost_usd": cost, "cost_status": status}
    entry = SessionEntry.from_dict(data)
    assert entry.usage.cost_usd == kept
    assert entry.to_dict()["cost_status"] == ("unknown" if kept is None else "estimated")
