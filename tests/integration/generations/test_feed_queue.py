"""The stream of a generation's events in a real Redis."""

from __future__ import annotations

from uuid import uuid4

import pytest

from artiway.generations.feed.model import (
    NOTICES_PER_TEXT,
    Appended,
    Backpressure,
    Cancelled,
    Done,
    EntryId,
    Info,
    Name,
    Restart,
    Start,
    Text,
    sha256_of,
)
from artiway.generations.feed.queue import ENDED_TTL_S, TTL_S, RedisFeed
from artiway.generations.feed.writer import FeedWriter
from artiway.platform.redis_keys import generation_events

START = Start("paid_stream", "stand-in", "small")
BEGINNING = EntryId()


def done(text: str) -> Done:
    return Done(characters=len(text), sha256=sha256_of(text), points=1)


@pytest.fixture
def feed(valkey):
    return RedisFeed(valkey)


@pytest.fixture
def generation_id():
    return uuid4()


def texts(entries) -> str:
    return "".join(entry.text for entry in entries)


def stored(feed, generation_id):
    return feed.after(generation_id, BEGINNING, wait_ms=0, limit=10_000)


def test_events_come_back_in_order(feed, generation_id):
    events = [START, Text("红", 0, is_first=True), Info("stream_idle"), Text("色裙", 1), done("红色裙")]
    assert feed.append(generation_id, 1, events) is Appended.APPENDED
    found = stored(feed, generation_id)
    assert [entry.name for entry in found] == [
        Name.START, Name.TOKEN, Name.INFO, Name.TOKEN_BATCH, Name.DONE,
    ]  # fmt: skip
    assert [str(entry.entry_id) for entry in found] == ["1-0", "1-1000", "1-1001", "1-3000", "1-3999"]
    assert feed.after(generation_id, found[2].entry_id, wait_ms=0, limit=10) == found[3:]


def test_older_attempt_is_fenced(feed, generation_id):
    feed.append(generation_id, 1, [Text("old", 0)])
    feed.append(generation_id, 2, [Restart(), START])
    assert feed.append(generation_id, 1, [Text(" text", 3)]) is Appended.FENCED
    assert texts(stored(feed, generation_id)) == "old"


@pytest.mark.parametrize("attempt", [1, 2])
def test_nothing_follows_the_end(feed, generation_id, attempt):
    feed.append(generation_id, 1, [Text("a", 0), done("a")])
    assert feed.append(generation_id, attempt, [Text("b", 1)]) is Appended.ENDED
    assert feed.append(generation_id, attempt, [done("ab")]) is Appended.ENDED
    assert [entry.name for entry in stored(feed, generation_id)] == [Name.TOKEN_BATCH, Name.DONE]


def test_repeated_append_adds_nothing(feed, generation_id):
    feed.append(generation_id, 1, [Text("a", 0)])
    assert feed.append(generation_id, 1, [Text("a", 0), Text("b", 1)]) is Appended.APPENDED
    assert texts(stored(feed, generation_id)) == "ab"


def test_attempt_with_text_begins_only_once(feed, generation_id):
    """A writer that got no answer sends the first events again."""
    feed.append(generation_id, 2, [Restart(), START, Text("a", 0)])
    assert feed.append(generation_id, 2, [Restart(), START, Text("b", 1)]) is Appended.APPENDED
    names = [entry.name for entry in stored(feed, generation_id)]
    assert names == [Name.RESTART, Name.START, Name.TOKEN_BATCH, Name.TOKEN_BATCH]


@pytest.mark.parametrize("event", [Text("c", 2), done("ab")])
def test_missing_text_is_a_gap(feed, generation_id, event):
    feed.append(generation_id, 1, [Text("a", 0)])
    assert feed.append(generation_id, 1, [Info("stream_idle"), event]) is Appended.GAP
    assert len(stored(feed, generation_id)) == 1


def test_notices_leave_room_for_the_end(feed, generation_id):
    feed.append(generation_id, 0, [Backpressure("lane", 1)] * (NOTICES_PER_TEXT + 10))
    assert feed.append(generation_id, 0, [done("")]) is Appended.APPENDED
    assert stored(feed, generation_id)[-1].entry_id == EntryId.of_end(0, 0)


def test_stream_expires_an_hour_after_the_end(feed, generation_id, valkey):
    feed.append(generation_id, 1, [Text("a", 0)])
    assert ENDED_TTL_S < valkey.ttl(generation_events(generation_id)) <= TTL_S
    feed.append(generation_id, 1, [Cancelled(characters=1, sha256=sha256_of("a"), points=0)])
    assert 0 < valkey.ttl(generation_events(generation_id)) <= ENDED_TTL_S


class TestWriter:
    def test_writer_sends_waiting_text_by_itself(self, feed, generation_id):
        with FeedWriter(feed, generation_id, 1) as writer:
            writer.start(START)
            writer.write("a")
            writer.write("b")
            entries = feed.after(generation_id, EntryId.of_text(1, 1), wait_ms=5_000, limit=10)
            assert texts(entries) == "b"

    def test_lost_stream_is_written_again(self, feed, generation_id, valkey):
        with FeedWriter(feed, generation_id, 2) as writer:
            writer.start(START)
            writer.write("one ")
            writer.write("x" * 100)
            valkey.flushall()
            writer.write("y" * 100)
            writer.close(done(writer.text))
        found = stored(feed, generation_id)
        assert [entry.name for entry in found] == [Name.RESTART, Name.START, Name.TOKEN_BATCH, Name.DONE]
        assert texts(found) == writer.text == "one " + "x" * 100 + "y" * 100

    def test_second_attempt_fences_the_first(self, feed, generation_id):
        with FeedWriter(feed, generation_id, 1) as first, FeedWriter(feed, generation_id, 2) as second:
            first.start(START)
            first.write("a")
            second.start(START)
            first.write("b" * 100)
            assert first.is_fenced
            assert not second.is_fenced

    def test_redis_away_does_not_fail(self, generation_id, valkey):
        from artiway.generations.feed.writer import publish_end
        from artiway.platform.redis import connect

        away = RedisFeed(connect("redis://127.0.0.1:1/0", timeout_s=0.2))
        with FeedWriter(away, generation_id, 1) as writer:
            writer.start(START)
            writer.write("a")
            assert not writer.is_fenced
            writer._feed = RedisFeed(valkey)
            writer.write("b" * 100)
        found = stored(RedisFeed(valkey), generation_id)
        assert found[0].name == Name.START
        assert texts(found) == "a" + "b" * 100
        publish_end(away, generation_id, 1, text="a", end=done("a"))
