"""Clients of a running stack, for the programs that play with it: they know what stack.json says and nothing else."""

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
    """The platform said no. The status and the answer tell why."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"{status}: {body}")
        self.status, self.body = status, body


def running_facts(home: Path) -> dict[str, Any] | None:
    """What stack.json says, if the stack that wrote it still answers."""
    file = home / "stack.json"
    if not file.exists():
        return None
    facts: dict[str, Any] = json.loads(file.read_text())
    return facts if port_is_open(int(urlsplit(facts["apiUrl"]).port or 0)) else None


class Platform:
    """The API. With patience it asks again while the platform is away or busy, with the same idempotency key."""

    def __init__(self, facts: Mapping[str, Any], session: aiohttp.ClientSession, *, patience_s: float = 0) -> None:
        self.facts, self.session = facts, session
        self._patience_s = patience_s
        self.asked_again = 0

    @classmethod
    @asynccontextmanager
    async def at(cls, facts: Mapping[str, Any], *, patience_s: float = 0) -> AsyncIterator[Self]:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            yield cls(facts, session, patience_s=patience_s)

    async def call(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, key: str | None = None
    ) -> Any:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        if key:
            headers["idempotency-key"] = key
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                return await self._once(method, path, body, headers)
            except (aiohttp.ClientError, TimeoutError):
                if time.monotonic() > deadline:
                    raise
            except Refused as error:
                is_passing = error.status >= 500 or error.status == 429 or _is_in_progress(error.body)
                if not is_passing or time.monotonic() > deadline:
                    raise
            self.asked_again += 1
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
    """Somebody who is logged in, and logs in again when the token has ended."""

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
        """As administrator: a new tenant with one user and points to spend. `policy` is as of POST /tenants."""
        owner = {"email": f"owner-{uuid4().hex[:12]}@example.com", "password": uuid4().hex}
        await self.call("POST", "/tenants", {"name": name, "owner": owner, **policy})
        person = await self.platform.log_in(owner["email"], owner["password"])
        grant = {"userId": person.user_id, "amount": points, "reason": "a start"}
        await self.call("POST", "/points/grants", grant, key=uuid4().hex)
        return person

    async def wait_for_workers(self, count: int) -> None:
        """As administrator: until so many workers are alive."""
        deadline = time.monotonic() + WORKERS_SECONDS
        while len((await self.call("GET", "/ops/workers"))["items"]) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"fewer than {count} workers after {WORKERS_SECONDS} s")
            await asyncio.sleep(RETRY_SECONDS)

    async def upload(self, picture: bytes, *, content_type: str = "image/png") -> str:
        """Its input id."""
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
        """A list to its end."""
        items: list[dict[str, Any]] = []
        cursor = ""
        while True:
            mark = "&" if "?" in path else "?"
            page = await self.call("GET", f"{path}{mark}limit=100" + (f"&cursor={cursor}" if cursor else ""))
            items += page["items"]
            if not (cursor := page["nextCursor"] or ""):
                return items


def _is_in_progress(body: Any) -> bool:
    return isinstance(body, dict) and body.get("code") == "IDEM_409_IN_PROGRESS"
