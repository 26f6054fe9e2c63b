"""Readers of a text: cut off, late, far behind and after a loss of Redis, each ends with exactly the final text."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest

from artiway.delivery.feed.frames import HEARTBEAT
from artiway.delivery.feed.model import ListenerLimits, TooManyListeners
from artiway.delivery.feed.queue import RedisListeners
from artiway.errors import NotFound
from artiway.generations.feed.model import (
    Backpressure,
    Done,
    EntryId,
    Failed,
    Info,
    Name,
    Restart,
    Start,
    StoredText,
    Text,
    sha256_of,
)
from artiway.generations.feed.queue import RedisFeed
from artiway.generations.feed.reader import FeedReader
from artiway.generations.feed.writer import FeedWriter, publish_end
from artiway.platform import redis as platform_redis
from local.servers import free_port
from tests.integration.generations.clients import Client

START = Start("paid_stream", "stand-in", "small")
MANY = ListenerLimits(1_000, 1_000, 1_000)


class Store:
    """The row of one generation."""

    def __init__(self):
        self.tenant_id, self.generation_id = uuid4(), uuid4()
        self.row = StoredText(0, "")
        self.reads = 0

    def stored(self, tenant_id: UUID, generation_id: UUID) -> StoredText:
        self.reads += 1
        if (tenant_id, generation_id) != (self.tenant_id, self.generation_id):
            raise NotFound("there is no such generation")
        return self.row

    def end(self, attempt: int, text: str) -> Done:
        end = done(text)
        self.row = StoredText(attempt, text, START, end)
        return end


class Time:
    """Passes only where a stream waits for nothing but time."""

    def __init__(self):
        self.ms = 0.0

    def pause(self, seconds):
        self.ms += seconds * 1_000


def done(text: str) -> Done:
    return Done(characters=len(text), sha256=sha256_of(text), points=1)


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def feed(valkey):
    return RedisFeed(valkey)


@pytest.fixture
def clock():
    return Time()


@pytest.fixture
def reader(store, feed, valkey, clock):
    return FeedReader(store, feed, RedisListeners(valkey, MANY), pause=clock.pause, now_ms=lambda: clock.ms)


@pytest.fixture
def away():
    with contextlib.closing(platform_redis.connect(f"redis://127.0.0.1:{free_port()}/0", timeout_s=0.1)) as client:
        yield client


def frames(reader, store, last=None, life_ms=60_000):
    return reader.frames(
        tenant_id=store.tenant_id,
        user_id=uuid4(),
        generation_id=store.generation_id,
        last=EntryId.parse(last),
        life_ms=life_ms,
    )


def read(reader, store, client, **options):
    """One connection, until the stream ends."""
    for frame in frames(reader, store, client.last, **options):
        client.receive(frame)
    return client


def write(feed, store, attempt, *texts):
    """A row that runs, and events without a rhythm."""
    store.row = StoredText(attempt, "", START)
    events, offset = [Restart(), START] if attempt > 1 else [START], 0
    for text in texts:
        events.append(Text(text, offset, is_first=offset == 0))
        offset += len(text)
    feed.append(store.generation_id, attempt, events)


class TestNewReader:
    def test_text_so_far_is_one_event(self, reader, store, feed):
        write(feed, store, 1, "红", "色", "裙")
        client, stream = Client(), frames(reader, store)
        for _ in range(3):
            client.receive(next(stream))
        assert client.names == [Name.START, Name.TOKEN_BATCH]
        assert (client.text, client.last) == ("红色裙", "1-3000")
        stream.close()

    def test_text_of_older_attempt_is_left_out(self, reader, store, feed):
        write(feed, store, 1, "old")
        write(feed, store, 2, "new", "er")
        client, stream = Client(), frames(reader, store)
        for _ in range(3):
            client.receive(next(stream))
        assert client.names == [Name.START, Name.TOKEN_BATCH]
        assert client.text == "newer"
        stream.close()

    def test_reader_after_the_end_gets_all(self, reader, store, feed, valkey):
        write(feed, store, 1, "a", "b")
        store.end(1, "ab")
        valkey.flushall()
        client = read(reader, store, Client())
        assert client.names == [Name.START, Name.TOKEN_BATCH, Name.DONE]
        assert (client.text, client.retry_ms) == ("ab", 60_000)

    def test_waiting_reader_sees_backpressure_and_start(self, reader, store, feed):
        client, stream = Client(), frames(reader, store)
        client.receive(next(stream))
        feed.append(store.generation_id, 0, [Backpressure("lane", 2)])
        client.receive(next(stream))
        write(feed, store, 1, "a")
        client.receive(next(stream))
        client.receive(next(stream))
        assert client.names == [Name.BACKPRESSURE, Name.START, Name.TOKEN]
        stream.close()

    def test_generation_of_another_tenant_is_unknown(self, reader, store):
        with pytest.raises(NotFound):
            next(
                reader.frames(
                    tenant_id=uuid4(), user_id=uuid4(), generation_id=store.generation_id, last=None, life_ms=1
                )
            )


class TestResumedReader:
    def test_reader_gets_what_it_lacks(self, reader, store, feed):
        write(feed, store, 1, "a", "b", "c")
        feed.append(store.generation_id, 1, [store.end(1, "abc")])
        store.row = StoredText(1, "", START)  # the terminal event comes from Redis
        client = Client()
        client.text, client.last = "a", "1-1000"
        read(reader, store, client)
        assert client.names == [Name.TOKEN_BATCH, Name.TOKEN_BATCH, Name.DONE]
        assert store.reads == 1

    def test_reader_far_behind_gets_one_event(self, reader, store, feed):
        write(feed, store, 1, *"x" * 300)
        client = Client()
        client.text, client.last = "x", "1-1000"
        stream = frames(reader, store, client.last)
        client.receive(next(stream))
        client.receive(next(stream))
        assert client.names == [Name.TOKEN_BATCH]
        assert len(client.text) == 300
        stream.close()

    def test_reader_of_older_attempt_restarts(self, reader, store, feed):
        write(feed, store, 1, "old")
        write(feed, store, 2, "new")
        client = Client()
        client.text, client.last = "ol", "1-2000"
        feed.append(store.generation_id, 2, [store.end(2, "new")])
        read(reader, store, client)
        assert client.names == [Name.RESTART, Name.START, Name.TOKEN_BATCH, Name.DONE]

    def test_reader_of_the_end_gets_nothing_more(self, reader, store):
        store.end(1, "abc")
        client = Client()
        client.last = str(EntryId.of_end(1, 3))
        read(reader, store, client)
        assert (client.names, client.retry_ms) == ([], 60_000)

    def test_sweep_with_less_text_restarts_readers(self, reader, store, feed):
        """A worker died after its last snapshot: the final text is the snapshot."""
        write(feed, store, 1, "abc", "def")
        client, stream = Client(), frames(reader, store)
        for _ in range(3):
            client.receive(next(stream))
        end = Failed(characters=3, sha256=sha256_of("abc"), points=0, code="GEN_500_LOST", message="lost")
        store.row = StoredText(1, "abc", START, end)
        publish_end(feed, store.generation_id, 1, text="abc", end=end)
        for frame in stream:
            client.receive(frame)
        assert client.names[2:] == [Name.RESTART, Name.TOKEN_BATCH, Name.ERROR]
        assert client.text == "abc"


class TestLostRedis:
    def test_text_comes_from_the_database(self, store, away, valkey, clock):
        reader = FeedReader(
            store, RedisFeed(away), RedisListeners(valkey, MANY), pause=clock.pause, now_ms=lambda: clock.ms
        )
        store.row = StoredText(1, "abc", START)
        client, stream = Client(), frames(reader, store)
        while client.text != "abc":
            client.receive(next(stream))
        store.end(1, "abcdef")
        for frame in stream:
            client.receive(frame)
        assert client.names == [Name.START, Name.TOKEN_BATCH, Name.TOKEN_BATCH, Name.DONE]
        assert client.text == "abcdef"

    def test_uncounted_stream_is_short(self, store, away, clock):
        reader = FeedReader(
            store, RedisFeed(away), RedisListeners(away, MANY), pause=clock.pause, now_ms=lambda: clock.ms
        )
        assert list(frames(reader, store)) == ["retry: 200\n\n"]
        assert clock.ms == 2_000

    def test_gap_is_filled_from_the_database(self, reader, store, feed, valkey):
        write(feed, store, 1, "abc")
        client, stream = Client(), frames(reader, store)
        for _ in range(3):
            client.receive(next(stream))
        valkey.flushall()
        # Another writer's text without the part before it: Lua would refuse it, an older Redis snapshot would not.
        valkey.xadd(
            f"generation_events:{store.generation_id}",
            {"event": "token_batch", "body": json.dumps({"text": "ghi", "offset": 6})},
            id="1-9000",
        )
        store.row = StoredText(1, "abcdefg", START)
        client.receive(next(stream))
        client.receive(next(stream))
        assert client.text == "abcdefghi"
        stream.close()


class TestLife:
    @pytest.fixture
    def quiet(self, store, away, valkey, clock):
        """A stream without events: Redis is away for it alone, so that time passes without waiting."""
        store.row = StoredText(1, "", START)
        return FeedReader(
            store, RedisFeed(away), RedisListeners(valkey, MANY), pause=clock.pause, now_ms=lambda: clock.ms
        )

    def test_quiet_stream_beats_and_ends(self, quiet, store, clock):
        found = list(frames(quiet, store))
        assert found[0] == "retry: 200\n\n"
        assert Counter(found)[HEARTBEAT] == 5
        assert clock.ms == 60_000

    def test_stream_above_a_limit_is_refused(self, store, feed, valkey, clock):
        listeners = RedisListeners(valkey, ListenerLimits(1, 1, 1))
        reader = FeedReader(store, feed, listeners, pause=clock.pause, now_ms=lambda: clock.ms)
        first = frames(reader, store)
        next(first)
        with pytest.raises(TooManyListeners):
            next(frames(reader, store))
        first.close()
        next(frames(reader, store))


def test_hundred_readers_cut_at_random_get_the_text(store, feed, valkey, valkey_url):
    """The first attempt dies in mid-text, Redis loses everything once, and every reader is cut again and again."""
    rng = random.Random(7)
    pieces = [rng.choice(["a", "红", "😀", " two words", "x" * 70]) for _ in range(400)]
    final, is_over = "".join(pieces), threading.Event()

    def follow(seed: int) -> Client:
        client, chance = Client(), random.Random(seed)
        with contextlib.closing(platform_redis.connect(valkey_url, timeout_s=10)) as own:
            reader = FeedReader(store, RedisFeed(own), RedisListeners(own, MANY), pause=time.sleep)
            follow_until_end(reader, client, chance)
        return client

    def follow_until_end(reader: FeedReader, client: Client, chance: random.Random) -> None:
        while client.end is None and not (is_over.is_set() and store.row.end is None):
            for frame in frames(reader, store, client.last, life_ms=5_000):
                client.receive(frame)
                if chance.random() < 0.2 and not is_over.is_set():
                    break  # the connection is cut; what was sent after this frame is lost

    def produce() -> None:
        store.row = StoredText(1, "", START)
        with FeedWriter(feed, store.generation_id, 1) as writer:
            writer.start(START)
            for piece in pieces[:50]:
                writer.write(piece.upper())
        with FeedWriter(feed, store.generation_id, 2) as writer:
            store.row = StoredText(2, "", START)
            writer.start(START)
            for number, piece in enumerate(pieces):
                writer.write(piece)
                if number == 150:
                    valkey.delete(f"generation_events:{store.generation_id}")
                if number % 50 == 0:
                    store.row = StoredText(2, writer.text, START)
            writer.close(store.end(2, writer.text))

    with ThreadPoolExecutor(100) as pool:
        clients = [pool.submit(follow, seed) for seed in range(100)]
        try:
            produce()
        finally:
            is_over.set()
        texts = [client.result().text for client in clients]
    assert texts == [final] * 100


def test_info_passes_through(reader, store, feed):
    write(feed, store, 1, "a")
    stream, client = frames(reader, store), Client()
    for _ in range(3):
        client.receive(next(stream))
    feed.append(store.generation_id, 1, [Info("stream_idle"), Text("b", 1)])
    client.receive(next(stream))
    client.receive(next(stream))
    assert client.names[-2:] == [Name.INFO, Name.TOKEN_BATCH]
    stream.close()
