"""Texts on the whole stack: a lane without parallelism, a text that breaks, a cancel that reaches the provider."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import uuid4

import pytest

from local.shop import Person, Platform
from local.stack import Stack
from local.text_standin import TextStandin

LIMIT_S = 90
POINTS = 1_000
ENDS = {"COMPLETED", "FAILED", "CANCELLED"}
Json = dict[str, Any]


class Shops:
    """The administrator, and new shops with points."""

    def __init__(self, platform: Platform, administrator: Person) -> None:
        self.platform, self.administrator = platform, administrator

    async def shop(self) -> Person:
        return await self.administrator.open_shop("texts", points=POINTS, tier="vip")

    async def lane(self, lane: str) -> Json:
        return next(
            one
            for one in (await self.administrator.call("GET", "/ops/lanes?limit=100"))["items"]
            if one["lane"] == lane
        )

    async def set_parallelism(self, lane: str, parallelism: int | None) -> None:
        await self.administrator.call("PATCH", f"/ops/lanes/{lane}", {"parallelism": parallelism})


def play(stack: Stack, scenario: Callable[[Shops], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(LIMIT_S * 3), Platform.at(stack.facts, retry_for_s=20) as platform:
            await scenario(Shops(platform, await platform.administrator()))

    asyncio.run(run())


async def submit(person: Person, text: str, **more: Any) -> Json:
    body = {"service": "copywriting", "input": {"text": text}, "maxTokens": 20, **more}
    made: Json = await person.call("POST", "/generations", body, key=uuid4().hex)
    return made


async def ended(person: Person, made: Json) -> Json:
    async with asyncio.timeout(LIMIT_S):
        while True:
            found: Json = await person.call("GET", f"/generations/{made['generationId']}")
            if found["status"] in ENDS:
                return found
            await asyncio.sleep(0.1)


async def events(person: Person, made: Json) -> list[tuple[str, Json]]:
    """All events of an ended text, as a late reader gets them."""
    url = f"{person.platform.facts['apiUrl']}/generations/{made['generationId']}/events"
    async with person.platform.session.get(url, headers={"authorization": f"Bearer {person.token}"}) as answer:
        blocks = (await answer.text()).split("\n\n")
    found = [dict(line.split(": ", 1) for line in block.splitlines() if ": " in line) for block in blocks]
    return [(one["event"], json.loads(one["data"])) for one in found if "event" in one]


async def balance(person: Person) -> tuple[int, int]:
    points = await person.call("GET", "/points")
    return points["balance"], points["frozen"]


def test_text_waits_in_a_lane_of_parallelism_zero(stack: Stack) -> None:
    async def scenario(shops: Shops) -> None:
        shop = await shops.shop()
        await shops.set_parallelism("paid_stream", 0)
        try:
            made = await submit(shop, "a dress")
            assert (await shop.call("GET", f"/generations/{made['generationId']}"))["status"] == "QUEUED"
            assert (await shops.lane("paid_stream"))["depth"] == 1
        finally:
            await shops.set_parallelism("paid_stream", None)
        assert (await ended(shop, made))["status"] == "COMPLETED"

    play(stack, scenario)


@pytest.mark.parametrize(
    ("scene", "code"),
    [("broken_utf8", "GEN_502_PROVIDER_ANSWER"), ("error_after_text", "GEN_502_PROVIDER_ERROR")],
)
def test_fault_ends_in_error_and_releases_points(stack: Stack, scene: str, code: str) -> None:
    async def scenario(shops: Shops) -> None:
        shop = await shops.shop()
        made = await submit(shop, f"a dress, scene={scene}")
        found = await ended(shop, made)
        assert (found["status"], found["error"]["code"], found["chargedPoints"]) == ("FAILED", code, 0)
        name, end = (await events(shop, made))[-1]
        assert (name, end["code"]) == ("error", code)
        assert await balance(shop) == (POINTS, 0)
        assert (await shops.lane("paid_stream"))["running"] == 0

    play(stack, scenario)


def test_cancel_stops_the_provider(stack: Stack, text_standin: TextStandin) -> None:
    async def scenario(shops: Shops) -> None:
        shop = await shops.shop()
        made = await submit(shop, "a dress, scene=endless_text", maxTokens=2_000)
        async with asyncio.timeout(LIMIT_S):
            while not (await shop.call("GET", f"/generations/{made['generationId']}"))["text"]:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await shop.call("POST", f"/generations/{made['generationId']}/cancel")
        found = await ended(shop, made)
        assert (found["status"], found["usageSource"]) == ("CANCELLED", "estimated")
        assert found["chargedPoints"] >= 1
        assert await balance(shop) == (POINTS - found["chargedPoints"], 0)
        assert await asyncio.to_thread(text_standin.wait_until_left, "endless_text")

    play(stack, scenario)
