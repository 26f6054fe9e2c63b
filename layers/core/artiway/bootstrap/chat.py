"""Chat completions for clients of OpenAI's API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.generations import generation_feed, generation_store, generations, text_services
from artiway.bootstrap.once import once
from artiway.bootstrap.providers import text_routes

if TYPE_CHECKING:
    from artiway.delivery.feed.queue import RedisListeners
    from artiway.generations.chat.service import ChatService


@once
def chat() -> ChatService:
    from artiway.generations.chat.service import ChatService
    from artiway.generations.feed.reader import FeedReader
    from artiway.generations.feed.stored import StoredTexts

    places = chat_places()
    reader = FeedReader(StoredTexts(generation_store()), generation_feed(), places, pause=base.pause())
    return ChatService(generations(), text_services(), text_routes(), reader, places)


@once
def chat_places() -> RedisListeners:
    """Open requests: each of them keeps a function busy. None of them is replaced by a newer one of the same user."""
    from artiway.delivery.feed.model import ListenerLimits
    from artiway.delivery.feed.queue import RedisListeners

    settings = base.settings()
    limits = ListenerLimits(settings.chats_per_tenant + 1, settings.chats_per_tenant, settings.chats_at_once)
    return RedisListeners(base.redis(), limits, breaker=base.redis_breaker(), kind="chat:")
