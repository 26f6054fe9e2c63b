"""The streams of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.delivery import listeners
from artiway.bootstrap.once import once
from artiway.bootstrap.outbox import outbox

if TYPE_CHECKING:
    from artiway.generations.feed.reader import FeedReader


@once
def generation_events() -> FeedReader:
    from artiway.generations.feed.queue import RedisFeed
    from artiway.generations.feed.reader import FeedReader
    from artiway.generations.feed.stored import StoredTexts
    from artiway.generations.repository import PostgresGenerations

    texts = StoredTexts(PostgresGenerations(base.database(), outbox()))
    return FeedReader(texts, RedisFeed(base.redis()), listeners(), pause=base.pause())
