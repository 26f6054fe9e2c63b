"""Open streams: those beyond the limits are refused at once, and nothing else has to wait."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from local.shop import Person
from tests.e2e.studio import Studio
from tests.e2e.test_tasks import PHOTO

SHOPS, LISTENERS_OF_SHOP = 3, 4
# Of the eight sandboxes of a function, six may stream.
PLATFORM_LIMIT = 6


async def listen(person: Person, task_id: str, last: str) -> tuple[int, Any, str]:
    headers = {"authorization": f"Bearer {person.token}", "last-event-id": last}
    url = f"{person.platform.facts['apiUrl']}/tasks/{task_id}/events"
    async with person.platform.session.get(url, headers=headers) as answer:
        found = await answer.json() if answer.content_type == "application/json" else await answer.text()
        return answer.status, found, answer.headers.get("Retry-After", "")


async def submitted(administrator: Person) -> tuple[Person, str, str]:
    """A new shop, its task, and the id of the task's only event."""
    shop = await administrator.open_shop("listener", points=100, tier="vip")
    asked = {"tool": "cutout", "inputs": {"product": await shop.upload(PHOTO)}}
    task = await shop.call("POST", "/tasks", asked, key=uuid4().hex)
    return shop, task["taskId"], "1-0"


def test_listeners_beyond_limit_are_refused_at_once(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        administrator = await person.platform.administrator()
        wanted = {"tool": "cutout", "inputs": {"product": await person.upload(PHOTO)}}
        lane = (await person.call("POST", "/tasks/estimate", wanted))["lane"]
        await administrator.call("POST", f"/ops/lanes/{lane}/pause")
        try:
            tasks = [await submitted(administrator) for _ in range(SHOPS)]
            waiting = [asyncio.ensure_future(listen(*task)) for task in tasks for _ in range(LISTENERS_OF_SHOP)]
            refused: set[asyncio.Future[tuple[int, Any, str]]] = set()
            while len(refused) < SHOPS * LISTENERS_OF_SHOP - PLATFORM_LIMIT:
                done, _ = await asyncio.wait(set(waiting) - refused, return_when=asyncio.FIRST_COMPLETED)
                refused |= done
            for answer in refused:
                status, body, retry_after = answer.result()
                assert (status, body["code"]) == (429, "TASK_429_LISTENERS"), body
                assert body["details"] == {"scope": "platform", "limit": PLATFORM_LIMIT}
                assert 1 <= int(retry_after) <= 65
            # The others hold no other function.
            for path in ("/me", "/tasks", "/points", "/orders", f"/tasks/{tasks[0][1]}"):
                await tasks[0][0].call("GET", path)
        finally:
            await administrator.call("POST", f"/ops/lanes/{lane}/resume")
        answers = await asyncio.gather(*(one for one in waiting if one not in refused))
        assert [status for status, _, _ in answers] == [200] * PLATFORM_LIMIT

    studio.run(scenario)
