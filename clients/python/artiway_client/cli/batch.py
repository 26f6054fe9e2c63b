"""Many tasks at once: uploads, submissions and downloads in parallel, one poll for the progress of all."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artiway_client.async_client import AsyncClient
from artiway_client.core import Call, new_key
from artiway_client.errors import AnswerLost, ApiError, TooMany
from artiway_client.pictures import ENDED

if TYPE_CHECKING:
    from artiway_client import models

POLL_S = 1.0
POLL_FAILURES = 10
PAGE = 100
QUEUE_FULL = "TASK_429_QUEUE_FULL"
JOURNAL = ".artiway-run.jsonl"


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
    is_skipped: bool = False

    @property
    def is_done(self) -> bool:
        return bool(self.saved) and self.task is not None and self.task["status"] == "COMPLETED"

    @property
    def has_ended(self) -> bool:
        return self.is_done or self.is_skipped or bool(self.error)


class Journal:
    """What earlier runs into this folder have submitted and saved, so that the same command goes on after a stop.

    A line of JSON per step, appended at once. An item is known by its request and the bytes of its pictures.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / JOURNAL
        self._entries: dict[str, dict[str, Any]] = {}
        lines = self._path.read_text("utf-8").splitlines() if self._path.exists() else []
        for line in lines:
            try:
                entry = json.loads(line)
                self._entries[entry["key"]] = self._entries.get(entry["key"], {}) | entry
            except (ValueError, KeyError, TypeError):  # the last line of a run that was killed
                continue

    @staticmethod
    def key(url: str, body: dict[str, Any], item: Item) -> str:
        pictures = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in item.inputs.items()}
        whole = json.dumps([url, body, pictures, item.prefix], sort_keys=True)
        return hashlib.sha256(whole.encode()).hexdigest()[:32]

    def find(self, key: str) -> dict[str, Any]:
        return self._entries.get(key, {})

    def add(self, key: str, **facts: Any) -> None:
        self._entries[key] = self.find(key) | facts
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, **facts}) + "\n")


class Batch:
    """At most `parallel` tasks have not ended. The client waits where the platform says so, so none is refused.

    Where the tenant's queue is full, the next task is submitted when one of this batch has ended: `Retry-After` is an
    estimate for all tasks of the tenant, and much longer than that while none has ended yet.
    """

    def __init__(
        self,
        client: AsyncClient,
        body: dict[str, Any],
        folder: Path,
        parallel: int,
        changed: Callable[[Item], object],
        *,
        is_anew: bool = False,
    ) -> None:
        self._client, self._body, self._folder = client, body, folder
        self._parallel, self._changed, self._is_anew = parallel, changed, is_anew
        self._journal = Journal(folder)
        self._waiting: dict[str, tuple[Item, asyncio.Event]] = {}
        self._refused: deque[asyncio.Event] = deque()

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
            except (ApiError, AnswerLost, ValueError, OSError) as error:  # one bad file does not stop the others
                item.state, item.error = "failed", str(error)
            self._changed(item)

    async def _one(self, item: Item) -> None:
        key = await asyncio.to_thread(Journal.key, self._client.core.url, self._body, item)
        known = {} if self._is_anew else self._journal.find(key)
        saved = [self._folder / name for name in known.get("files") or []]
        if saved and all(path.exists() for path in saved):
            item.saved, item.is_skipped, item.state = saved, True, "skipped"
            return
        task_id = await self._earlier(known) or await self._submitted(item, key)
        item.state = "queued"
        self._changed(item)
        item.task = await self._ended(task_id, item)
        item.state = "download"
        item.saved = await self._client.download(item.task, self._folder, prefix=item.prefix)
        item.state = item.task["status"]
        if item.is_done:
            self._journal.add(key, files=[path.name for path in item.saved])
            return
        self._journal.add(key, task=None, inputs=None)  # the next run submits it anew
        fault = item.task["error"]
        item.error = f"{fault['message']} ({fault['code']})" if fault else f"{task_id} is {item.task['status']}"

    async def _earlier(self, known: dict[str, Any]) -> str | None:
        """The task of a run that was stopped, unless it failed or is gone: it has been paid for."""
        try:
            if known.get("task"):
                task = await self._client.get_task(known["task"])
                return None if task["status"] in ENDED - {"COMPLETED"} else known["task"]
            if known.get("inputs"):  # stopped before the answer: the same key returns the same task
                return await self._accepted(known["inputs"], known["idempotencyKey"])
        except ApiError as error:
            if error.status not in {404, 409, 422}:
                raise
        return None

    async def _submitted(self, item: Item, key: str) -> str:
        item.state = "upload"
        self._changed(item)
        inputs = {name: await self._client.upload(path) for name, path in item.inputs.items()}
        item.state = "submit"
        self._changed(item)
        once = new_key()
        self._journal.add(key, inputs=inputs, idempotencyKey=once, task=None, files=None)
        task_id = await self._accepted(inputs, once)
        self._journal.add(key, task=task_id)
        return task_id

    async def _accepted(self, inputs: dict[str, str], once: str) -> str:
        body = {**self._body, "inputs": inputs}
        call = Call("POST", "/tasks", body=body, is_keyed=True, key=once, final_codes=frozenset({QUEUE_FULL}))
        while True:
            try:
                return str((await self._client.call(call))["taskId"])
            except TooMany as error:
                if error.code != QUEUE_FULL:
                    raise
                await self._place(error.retry_after_s or POLL_S)

    async def _place(self, wait_s: float) -> None:
        """Until a task of this batch has ended, or for the time that the platform names."""
        freed = asyncio.Event()
        self._refused.append(freed)
        try:
            async with asyncio.timeout(wait_s):
                await freed.wait()
        except TimeoutError:
            self._refused.remove(freed)

    async def _ended(self, task_id: str, item: Item) -> models.TaskViewBody:
        ended = asyncio.Event()
        self._waiting[task_id] = (item, ended)
        await ended.wait()
        task = await self._client.get_task(task_id)
        if task["status"] not in ENDED:
            raise AnswerLost(f"{task_id} could not be followed; it goes on: artiway tasks watch {task_id}")
        return task

    async def _poll(self) -> None:
        """One request for all tasks that wait, so that a folder stays inside the rate limit."""
        failures = 0
        while True:
            await asyncio.sleep(POLL_S)
            try:
                await self._look()
                failures = 0
            except (ApiError, AnswerLost):
                failures += 1
            if failures >= POLL_FAILURES:
                for task_id in list(self._waiting):
                    self._waiting.pop(task_id)[1].set()

    async def _look(self) -> None:
        if not self._waiting:
            return
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
                if self._refused:
                    self._refused.popleft().set()
