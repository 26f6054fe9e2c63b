"""An API client for the demo and the chaos run. It knows the stack only by its stack.json."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import uuid4

import aiohttp

from local.servers import port_is_open

ANSWER_SECONDS = 40
RETRY_SECONDS = 0.5
WORKERS_SECONDS = 60
ENDED = frozenset({"COMPLETED", "PARTIAL", "FAILED", "CANCELLED"})


class Refused(RuntimeError):
    """The API answered with an error status."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"{status}: {body}")
        self.status, self.body = status, body


def running_facts(home: Path) -> dict[str, Any] | None:
    """The content of stack.json, if the stack that wrote it still answers."""
    file = home / "stack.json"
    if not file.exists():
        return None
    facts: dict[str, Any] = json.loads(file.read_text())
    return facts if port_is_open(int(urlsplit(facts["apiUrl"]).port or 0)) else None


class Platform:
    """The API. For `retry_for_s` it retries, under the same idempotency key, while the platform is down or busy."""

    def __init__(self, facts: Mapping[str, Any], session: aiohttp.ClientSession, *, retry_for_s: float = 0) -> None:
        self.facts, self.session = facts, session
        self._retry_for_s = retry_for_s
        self.retries = 0

    @classmethod
    @asynccontextmanager
    async def at(cls, facts: Mapping[str, Any], *, retry_for_s: float = 0) -> AsyncIterator[Self]:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            yield cls(facts, session, retry_for_s=retry_for_s)

    async def call(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, key: str | None = None
    ) -> Any:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        if key:
            headers["idempotency-key"] = key
        deadline = time.monotonic() + self._retry_for_s
        while True:
            try:
                return await self._once(method, path, body, headers)
            except (aiohttp.ClientError, TimeoutError):
                if time.monotonic() > deadline:
                    raise
            except Refused as error:
                is_transient = error.status >= 500 or error.status == 429 or _is_in_progress(error.body)
                if not is_transient or time.monotonic() > deadline:
                    raise
            self.retries += 1
            await asyncio.sleep(RETRY_SECONDS)

    async def _once(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Any:
        async with self.session.request(method, self.facts["apiUrl"] + path, json=body, headers=headers) as answer:
            text = await answer.text()
            found = json.loads(text) if answer.content_type == "application/json" and text else text
            if answer.status >= 400:
                raise Refused(answer.status, found)
            return found

    async def log_in(self, login: str, password: str) -> Person:
        person = Person(self, login, password)
        await person.log_in()
        return person

    async def administrator(self) -> Person:
        return await self.log_in(self.facts["admin"]["login"], self.facts["admin"]["password"])


@dataclass
class Person:
    """A user who is logged in. An expired token leads to a new login."""

    platform: Platform
    login: str
    password: str
    token: str = ""
    tenant_id: str = ""
    user_id: str = ""

    async def log_in(self) -> None:
        body = {"login": self.login, "password": self.password}
        answer = await self.platform.call("POST", "/auth/login", body)
        self.token, self.tenant_id, self.user_id = answer["accessToken"], answer["tenantId"], answer["userId"]

    async def call(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> Any:
        try:
            return await self.platform.call(method, path, body, token=self.token, key=key)
        except Refused as error:
            if error.status != 401:
                raise
        await self.log_in()
        return await self.platform.call(method, path, body, token=self.token, key=key)

    async def open_shop(self, name: str, *, points: int, **policy: Any) -> Person:
        """As administrator: create a tenant with one user and grant points. `policy` has fields of POST /tenants."""
        owner = {"email": f"owner-{uuid4().hex[:12]}@example.com", "password": uuid4().hex}
        await self.call("POST", "/tenants", {"name": name, "owner": owner, **policy})
        person = await self.platform.log_in(owner["email"], owner["password"])
        grant = {"userId": person.user_id, "amount": points, "reason": "a start"}
        await self.call("POST", "/points/grants", grant, key=uuid4().hex)
        return person

    async def wait_for_workers(self, count: int) -> None:
        """As administrator: wait until `count` workers are alive."""
        deadline = time.monotonic() + WORKERS_SECONDS
        while len((await self.call("GET", "/ops/workers"))["items"]) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"fewer than {count} workers after {WORKERS_SECONDS} s")
            await asyncio.sleep(RETRY_SECONDS)

    async def upload(self, picture: bytes, *, content_type: str = "image/png") -> str:
        """Upload a picture and return its input id."""
        ticket = await self.call("POST", "/uploads", {"contentType": content_type, "bytes": len(picture)})
        async with self.platform.session.request(
            ticket["method"], ticket["url"], data=picture, headers=ticket["headers"]
        ) as answer:
            if answer.status >= 400:
                raise Refused(answer.status, await answer.text())
        return str(ticket["inputId"])

    async def submit(self, tool: str, inputs: Mapping[str, str], **more: Any) -> dict[str, Any]:
        body = {"tool": tool, "inputs": inputs, **more}
        answer: dict[str, Any] = await self.call("POST", "/tasks", body, key=uuid4().hex)
        return answer

    async def task(self, task_id: str) -> dict[str, Any]:
        answer: dict[str, Any] = await self.call("GET", f"/tasks/{task_id}")
        return answer

    async def fetch(self, url: str) -> bytes:
        async with self.platform.session.get(url) as answer:
            if answer.status >= 400:
                raise Refused(answer.status, await answer.text())
            return await answer.read()

    async def all_of(self, path: str) -> list[dict[str, Any]]:
        """All items of a list, read page by page."""
        items: list[dict[str, Any]] = []
        cursor = ""
        while True:
            separator = "&" if "?" in path else "?"
            page = await self.call("GET", f"{path}{separator}limit=100" + (f"&cursor={cursor}" if cursor else ""))
            items += page["items"]
            if not (cursor := page["nextCursor"] or ""):
                return items


def _is_in_progress(body: Any) -> bool:
    return isinstance(body, dict) and body.get("code") == "IDEM_409_IN_PROGRESS"
