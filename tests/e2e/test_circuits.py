"""An engine that always fails, on the running stack: its step stops, and starts again when the engine is repaired."""

from __future__ import annotations

import asyncio
from typing import Any

from local import photos
from local.shop import Person
from tests.e2e.studio import POINTS, Studio, ended

PHOTO = photos.shirt(photos.BLUE, side=240)
FAILURES = 3
DEFAULT = 5


async def circuits(administrator: Person) -> list[dict[str, Any]]:
    return list((await administrator.call("GET", "/ops/health"))["circuits"])


async def waits_for(person: Person, task_id: str, reason: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            (node,) = (await person.call("GET", f"/tasks/{task_id}/why"))["nodes"]
            if node["waitingFor"] == reason:
                return dict(node)
            await asyncio.sleep(0.2)


def test_broken_engine_stops_its_step_alone(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        administrator = await person.platform.administrator()
        await administrator.call("PUT", "/ops/settings/circuit.failures", {"value": FAILURES})
        await administrator.call("PUT", "/ops/settings/circuit.probe_s", {"value": 5})
        product = await person.upload(PHOTO)

        async def submit(tool: str) -> str:
            return str((await person.submit(tool, {"product": product}))["taskId"])

        studio.use_engine("extend", "diffusers")  # it has no model here
        failed, found = 0, []
        while not found:
            assert failed < DEFAULT  # the live setting acts within a minute
            view = await ended(person, await submit("extend"))
            assert (view["status"], view["chargedPoints"]) == ("FAILED", 0)
            assert view["error"]["code"] == "MODEL_UNKNOWN"
            failed += 1
            await asyncio.sleep(2)  # the circuit follows the commit of the task
            found = await circuits(administrator)
        (circuit,) = found
        assert (circuit["pool"], circuit["step"], circuit["failures"]) == ("gpu", "extend", failed)
        assert failed in (FAILURES, DEFAULT)
        assert (await administrator.call("GET", "/ops/health"))["state"] == "DEGRADED"

        waiting = await submit("extend")
        node = await waits_for(person, waiting, "circuit_open")
        assert node["etaSeconds"] is None
        assert "tried again" in node["detail"]
        assert (await ended(person, await submit("cutout")))["status"] == "COMPLETED"
        assert (await person.task(waiting))["status"] in ("QUEUED", "PROCESSING")

        studio.use_engine("extend", "preview")
        view = await ended(person, waiting)
        assert view["status"] == "COMPLETED"
        assert await circuits(administrator) == []
        points = await person.call("GET", "/points")
        assert points["frozen"] == 0
        prices = view["chargedPoints"] + next(
            tool["pricePoints"] for tool in await person.all_of("/tools") if tool["tool"] == "cutout"
        )
        assert points["balance"] == POINTS - prices
        for key in ("circuit.failures", "circuit.probe_s"):
            await administrator.call("DELETE", f"/ops/settings/{key}")

    studio.run(scenario)
