from __future__ import annotations

import pytest

from artiway.platform.cache_level import LARGEST_TEXT, Entry, FirstLevel


@pytest.fixture
def level() -> FirstLevel:
    """It has read the invalidation 1-0 at time 100."""
    level = FirstLevel(2, longest_s=60)
    level.move(None, "1-0", None, 100)
    return level


def entry(text: str = "x", *, expires_at: float = 160, at: float = 100) -> Entry:
    return Entry(text, expires_at, checked_at=at)


def test_entry_is_valid_for_the_sync_interval(level):
    level.put("k", entry(), "1-0")
    assert level.get("k", 101, sync_s=1) == "x"
    assert level.get("k", 101.1, sync_s=1) is None
    level.synced(101)
    assert level.get("k", 102, sync_s=1) == "x"


def test_confirmed_entry_still_expires(level):
    level.put("k", entry(expires_at=105), "1-0")
    level.synced(105)
    assert level.get("k", 105, sync_s=1) is None
    assert len(level) == 0


def test_clock_that_was_set_back_makes_entries_doubtful(level):
    level.put("k", entry(), "1-0")
    assert level.get("k", 99, sync_s=1) is None


def test_value_read_under_older_head_is_dropped(level):
    """Another thread moved on between our reading and our keeping: it may have dropped this very key."""
    level.move("1-0", "2-0", ["k"], 100)
    level.put("k", entry(), "1-0")
    assert level.get("k", 100, sync_s=1) is None


def test_only_one_thread_applies_a_new_head(level):
    level.move("1-0", "2-0", [], 100)
    level.put("k", entry(), "2-0")
    level.move("1-0", "2-0", None, 100)
    assert level.get("k", 100, sync_s=1) == "x"


def test_invalidations_name_keys_and_prefixes(level):
    level.put("a:1", entry(), "1-0")
    level.put("b:1", entry(), "1-0")
    level.move("1-0", "2-0", ["a:*", "b"], 100)
    assert level.get("a:1", 100, sync_s=1) is None
    assert level.get("b:1", 100, sync_s=1) == "x"


def test_least_recently_read_is_evicted_first(level):
    level.put("a", entry(), "1-0")
    level.put("b", entry(), "1-0")
    level.get("a", 100, sync_s=1)
    level.put("c", entry(), "1-0")
    assert [level.get(key, 100, sync_s=1) for key in "abc"] == ["x", None, "x"]


def test_text_too_large_is_left_to_redis(level):
    level.put("k", entry("x" * (LARGEST_TEXT + 1)), "1-0")
    assert len(level) == 0
