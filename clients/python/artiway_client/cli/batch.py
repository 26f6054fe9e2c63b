"""Many tasks at once: uploads, submissions and downloads in parallel, one poll for the progress of all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artiway_client.async_client import AsyncClient
from artiway_client.errors import ApiError
from artiway_client.pictures import ENDED

if TYPE_CHECKING:
    from artiway_client import models

POLL_S = 1.0
PAGE = 100


@dataclass
class Item:
    """One task to be run: the pictures of its inputs, and what became of it."""

    label: str
    inputs: dict[str, Path]
    prefix: str
    state: str = "waiting"
    progress: int = 0
    task: models.TaskViewBody | None = None
    saved: list[Path] = field(default_factory=list)
    error: str = ""

    @property
    def is_done(self) -> bool:
        return bool(self.saved) and self.task is not None and self.task["status"] == "COMPLETED"


class Batch:
    """At most `parallel` tasks have not ended. The client waits where the platform says so, so none is refused."""

    def __init__(
        self,
        client: AsyncClient,
        body: dict[str, Any],
        folder: Path,
        parallel: int,
        changed: Callable[[Item], object],
    ) -> None:
        self._client, self._body, self._folder = client, body, folder
        self._parallel, self._changed = parallel, changed
        self._waiting: dict[str, tuple[Item, asyncio.Event]] = {}

    async def run(self, items: Sequence[Item]) -> None:
        queue = iter(items)
        poller = asyncio.create_task(self._poll())
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._parallel, len(items))):
                    group.create_task(self._work(queue))
        finally:
            poller.cancel()

    async def _work(self, queue: Any) -> None:
        for item in queue:
            try:
                await self._one(item)
            except (ApiError, ValueError, OSError) as error:  # one bad file does not stop the others
                item.state, item.error = "failed", str(error)
            self._changed(item)

    async def _one(self, item: Item) -> None:
        item.state = "upload"
        self._changed(item)
        inputs = {name: await self._client.upload(path) for name, path in item.inputs.items()}
        item.state = "submit"
        self._changed(item)
        accepted = await self._client.submit_task({**self._body, "inputs": inputs})  # type: ignore[typeddict-item]
        ended = asyncio.Event()
        self._waiting[accepted["taskId"]] = (item, ended)
        item.state = "queued"
        self._changed(item)
        await ended.wait()
        item.task = await self._client.get_task(accepted["taskId"])
        item.state = "download"
        item.saved = await self._client.download(item.task, self._folder, prefix=item.prefix)
        item.state = item.task["status"]
        if item.task["status"] != "COMPLETED":
            fault = item.task["error"]
            item.error = f"{fault['message']} ({fault['code']})" if fault else item.task["status"]

    async def _poll(self) -> None:
        """One request for all tasks that wait, so that a folder stays inside the rate limit."""
        while True:
            await asyncio.sleep(POLL_S)
            if not self._waiting:
                continue
            page = await self._client.list_tasks(limit=PAGE)
            found: dict[str, Any] = {task["taskId"]: task for task in page["items"]}
            for task_id in list(self._waiting):
                task = found.get(task_id) or await self._client.get_task(task_id)
                item, ended = self._waiting[task_id]
                item.progress, item.state = task["progress"], task["status"].lower()
                self._changed(item)
                if task["status"] in ENDED:
                    del self._waiting[task_id]
                    ended.set()
