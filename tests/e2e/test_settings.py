"""Live settings on the running stack: each function is a process of its own."""

from __future__ import annotations

import asyncio

from local import photos
from local.shop import Person
from tests.e2e.studio import Studio, ended, ledger

PHOTO = photos.shirt(photos.BLUE, side=240)
PRICE = "/ops/settings/price.cutout"


async def estimate(person: Person, picture: str) -> int:
    body = {"tool": "cutout", "inputs": {"product": picture}}
    return int((await person.call("POST", "/tasks/estimate", body))["pricePoints"])


async def estimated(person: Person, picture: str, price: int) -> None:
    """All processes of the function use the price: several estimates in turn have it."""
    async with asyncio.timeout(60):
        while {await estimate(person, picture) for _ in range(8)} != {price}:  # noqa: ASYNC110 (the platform changes it)
            await asyncio.sleep(0.2)


def test_price_acts_on_next_estimate_and_hold(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        administrator = await person.platform.administrator()
        picture = await person.upload(PHOTO)
        assert await estimate(person, picture) == 2
        before = await person.submit("cutout", {"product": picture})
        try:
            assert (await administrator.call("PUT", PRICE, {"value": 7}))["value"] == 7
            await estimated(person, picture, 7)
            after = await person.submit("cutout", {"product": picture})
            assert (before["pricePoints"], after["pricePoints"]) == (2, 7)
            charged = [(await ended(person, task["taskId"]))["chargedPoints"] for task in (before, after)]
            assert charged == [2, 7]  # a task keeps the price under which it was accepted
            held = sorted(frozen for kind, _, frozen in await ledger(person) if kind == "FREEZE")
            assert held == [2, 7]
        finally:
            restored = await administrator.call("DELETE", PRICE)
        assert restored["value"] == restored["default"] == 2
        await estimated(person, picture, 2)
        entries = (await administrator.call("GET", "/ops/audit?target=price.cutout"))["items"]
        assert [entry["action"] for entry in entries[:2]] == ["setting.restored", "setting.changed"]

    studio.run(scenario)


def test_dictionaries_and_cache_are_served(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        administrator = await person.platform.administrator()
        labels = (await person.call("GET", "/dictionaries/tools"))["items"]
        tools = (await person.call("GET", "/tools"))["items"]
        assert [(label["key"], label["zh"]) for label in labels] == [
            (tool["tool"], tool["title"]["zh"]) for tool in tools
        ]
        assert (await person.call("GET", "/dictionaries"))["dictionaries"]["tools"] == labels
        caches = {cache["name"]: cache for cache in (await administrator.call("GET", "/ops/cache"))["items"]}
        assert caches["dictionaries"]["entries"] > 0
        assert (await administrator.call("DELETE", "/ops/cache?prefix=dictionaries:"))["deleted"] > 0
        assert (await administrator.call("POST", "/ops/cache/refresh", {"name": "settings"}))["refreshed"] == 1

    studio.run(scenario)
