"""After the other end-to-end tests: every key in Redis is registered, with its type and its expiry."""

from __future__ import annotations

import redis

from artiway.platform.redis_keys import pattern_of
from local import photos
from local.shop import Person
from local.stack import Stack
from tests.e2e.conftest import Platform
from tests.e2e.studio import Studio, ended

PHOTO = photos.shirt(photos.BLUE, side=240)


def wrong_keys(url: str) -> tuple[set[str], list[str]]:
    """The patterns that were seen, and a line for each key that is not as registered."""
    client = redis.Redis.from_url(url, decode_responses=True)
    seen, wrong = set(), []
    for key in client.scan_iter(count=1_000):
        pattern = pattern_of(key)
        if pattern is None:
            wrong.append(f"{key} is not registered")
            continue
        kind, ttl_ms = client.type(key), client.pttl(key)
        if kind == "none":
            continue  # it expired after SCAN returned it
        seen.add(pattern.pattern)
        if kind != pattern.type or (ttl_ms >= 0) != pattern.expires:
            wrong.append(f"{key} is a {kind} with a TTL of {ttl_ms} ms; {pattern.pattern} says {pattern}")
    return seen, wrong


class TestAfterAllOthers:
    def test_keys_of_a_studio_are_registered(self, studio: Studio) -> None:
        async def scenario(person: Person) -> None:
            task = await person.submit("cutout", {"product": await person.upload(PHOTO)})
            await ended(person, task["taskId"])

        studio.run(scenario)
        seen, wrong = wrong_keys(studio.stack.facts["redisUrl"])
        assert wrong == []
        assert {"cache:head", "cache:value:<key>", "task_events:<task_id>", "{artiway:wfq:<pool>}:epoch"} <= seen

    def test_keys_of_the_stack_are_registered(self, stack: Stack, platform: Platform) -> None:
        platform.user()
        assert wrong_keys(stack.facts["redisUrl"])[1] == []
