"""Limits on the running stack: a user's cap and a model's limit hold nodes back, and a real worker drains."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from local import photos
from local.shop import Person
from tests.e2e.studio import Studio, ended

PHOTO = photos.shirt(photos.BLUE, side=240)


async def submitted(person: Person, tool: str) -> str:
    return str((await person.submit(tool, {"product": await person.upload(PHOTO)}))["taskId"])


async def waiting_for(person: Person, task_id: str, wanted: str) -> None:
    async def reasons() -> set[str]:
        return {node["waitingFor"] for node in (await person.call("GET", f"/tasks/{task_id}/why"))["nodes"]}

    async with asyncio.timeout(60):
        while wanted not in await reasons():  # noqa: ASYNC110 (the platform changes it)
            await asyncio.sleep(0.2)


async def worker_until(administrator: Person, is_met: Callable[[list[dict[str, Any]]], bool]) -> None:
    async with asyncio.timeout(90):
        while not is_met((await administrator.call("GET", "/ops/workers"))["items"]):  # noqa: ASYNC110
            await asyncio.sleep(0.3)


def test_user_cap_of_zero_holds_until_unset(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        await person.call("PATCH", "/tenant", {"userConcurrency": 0})
        task_id = await submitted(person, "cutout")
        await waiting_for(person, task_id, "user_cap")
        await person.call("PATCH", f"/users/{person.user_id}", {"concurrency": 1})
        assert (await ended(person, task_id))["status"] == "COMPLETED"

    studio.run(scenario)


def test_model_limit_holds_only_its_nodes(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        administrator = await person.platform.administrator()
        await administrator.call("PUT", "/ops/models/diffusion", {"limit": 0})
        held, free = [await submitted(person, tool) for tool in ("style", "cutout")]
        assert (await ended(person, free))["status"] == "COMPLETED"
        await waiting_for(person, held, "model_cap")
        await administrator.call("PUT", "/ops/models/diffusion", {"limit": None})
        assert (await ended(person, held))["status"] == "COMPLETED"
        decisions = (await administrator.call("GET", f"/ops/decisions?tenantId={person.tenant_id}"))["items"]
        assert [one["taskId"] for one in decisions] == [held, free]

    studio.run(scenario)


def test_drained_worker_leaves_and_another_starts(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        administrator = await person.platform.administrator()
        workers = (await administrator.call("GET", "/ops/workers"))["items"]
        chosen = next(one["workerId"] for one in workers if one["types"] == ["cutout"] and one["pool"] == "gpu")
        assert (await administrator.call("POST", f"/ops/workers/{chosen}/drain"))["draining"]
        task_id = await submitted(person, "cutout")
        await worker_until(administrator, lambda alive: all(one["workerId"] != chosen for one in alive))
        assert (await ended(person, task_id))["status"] == "COMPLETED"

    studio.run(scenario)
